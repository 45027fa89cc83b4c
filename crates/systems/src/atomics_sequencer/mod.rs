//! A sequencer by RDMA fetch-and-add on a word of the server, without its processor (ATC'16, 4.2.3).
//! Numbers are unique and dense.

mod config;
mod deployment;
mod protocol;

pub use config::AtomicsSequencer;
pub use protocol::{AtomicsClient, SERVICE};
