//! A sequencer by RDMA fetch-and-add on a word of the server, without its processor (ATC'16, 4.2.3).
//! Numbers are unique and dense.

mod protocol;

pub use protocol::{Client, Server};
