//! Raw results of a verbs run. They are summarized later.

use super::shown::{Shown, ShownOfClass};
use doorbell_programs::worker::{OfKind, ThreadResult};
use doorbell_sim::Metrics;

#[derive(Clone, Debug)]
pub(crate) struct RawRun {
    /// Results of all threads, each with the number of its machine.
    pub(crate) threads: Vec<(u32, ThreadResult)>,
    /// The summary of the series that all threads share.
    pub(crate) shown: Shown,
    /// Raw results of each thread class.
    pub(crate) classes: Vec<RawClass>,
    /// Measurements of the simulator.
    pub(crate) metrics: Metrics,
    /// Wall-clock seconds of the run.
    pub(crate) wall_seconds: f64,
}

/// Raw results of the threads of a class.
#[derive(Clone, Debug)]
pub(crate) struct RawClass {
    /// Operations that completed (for SEND: received messages).
    pub(crate) completed: u64,
    /// Results per operation kind, if there are several kinds.
    pub(crate) kinds: Vec<OfKind>,
    /// Summary of the class's own series, if there are several classes.
    pub(crate) shown: Option<ShownOfClass>,
}
