//! Spec-S0, a sequencer by header-only SENDs (ATC'16, 4.2.1). Numbers are unique. A lost message leaves some
//! numbers unused.

mod config;
mod deployment;
mod guess;
mod protocol;

pub use config::SpecSequencer;
pub use protocol::{Config, SpecClient, SpecServer};
