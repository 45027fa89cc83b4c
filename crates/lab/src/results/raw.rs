//! What a run of verbs gave, before anything is told of it.

use super::shown::{Shown, ShownOfClass};
use doorbell_programs::worker::{OfKind, ThreadResult};
use doorbell_sim::Metrics;

/// What one run gave.
#[derive(Clone, Debug)]
pub(crate) struct RawRun {
    /// Results of the threads, by machine and thread.
    pub(crate) threads: Vec<(u32, ThreadResult)>,
    /// What all of them saw together.
    pub(crate) shown: Shown,
    /// The same of each class of threads.
    pub(crate) classes: Vec<RawClass>,
    /// What the simulator metered.
    pub(crate) metrics: Metrics,
    /// Wall-clock seconds it took.
    pub(crate) wall_seconds: f64,
}

/// What the threads of a class gave.
#[derive(Clone, Debug)]
pub(crate) struct RawClass {
    /// Operations that completed; of SENDs those that were received.
    pub(crate) completed: u64,
    /// Each kind of operations, where there are several.
    pub(crate) kinds: Vec<OfKind>,
    /// What its threads saw, where they are not all there are.
    pub(crate) shown: Option<ShownOfClass>,
}
