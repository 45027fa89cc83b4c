//! The sequencer over HERD's RPCs (ATC'16, 4.2), or over other verbs, such as RC SENDs in both directions
//! (CLUSTER'21, III-E). Numbers are unique. They are dense if no client gives up.

mod config;
mod deployment;
mod protocol;

pub use config::RpcSequencer;
pub use protocol::{MAX_REPLY, MAX_REQUEST, RpcSequencerClient, RpcSequencerServer};
