//! The sequencer over HERD's RPCs (ATC'16, 4.2). Numbers are unique and, where no client gives up, dense.

mod protocol;

pub use protocol::{Client, MAX_REPLY, MAX_REQUEST, Server};
