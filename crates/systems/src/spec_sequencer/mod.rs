//! Spec-S0, a sequencer by header-only SENDs (ATC'16, 4.2.1). Numbers are unique; a lost message skips some.

mod guess;
mod protocol;

pub use protocol::{Client, Config, Server};
