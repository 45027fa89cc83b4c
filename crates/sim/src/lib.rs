//! A verbs provider in virtual time.
#![forbid(unsafe_code)]

mod metrics;

pub use metrics::{CacheUse, Metrics, PcieUse, ResourceUse};

use doorbell_verbs::{Span, Time};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How to simulate.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Number of machines, all of the same profile, at least 1.
    pub machines: u32,
    /// Seed of every random draw of the simulator itself.
    pub seed: u64,
    /// Skip whole empty passes of poll loops (see `Cpu::pause`); off only to show that it changes nothing.
    pub skip_pauses: bool,
    /// Virtual time at which the run ends, whatever the threads do; they are dropped where they stand.
    pub end: Time,
    /// Start and length of the metering window.
    pub window: (Time, Span),
    /// Set from outside to stop early; the run returns `RunError::Interrupted`.
    pub interrupt: Option<Arc<AtomicBool>>,
}
