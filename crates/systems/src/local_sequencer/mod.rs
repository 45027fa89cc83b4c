//! A sequencer for the threads of one machine, by fetch-and-add of a word in its memory (CLUSTER'21, III-E,
//! Figure 10b). Numbers are unique and dense.

mod config;
mod deployment;
mod protocol;

pub use config::LocalSequencer;
pub use deployment::MACHINE;
pub use protocol::LocalSequencerClient;
