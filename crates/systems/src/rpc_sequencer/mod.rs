//! The sequencer over HERD's RPCs (ATC'16, 4.2), or by other verbs, as RC SENDs both ways (CLUSTER'21, III-E). Numbers are unique and, where no client gives up, dense.

mod config;
mod deployment;
mod protocol;

pub use config::RpcSequencer;
pub use protocol::{MAX_REPLY, MAX_REQUEST, RpcSequencerClient, RpcSequencerServer};
