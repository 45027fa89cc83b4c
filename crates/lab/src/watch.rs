//! Observation of runs.

use doorbell_sim::{Traced, Tracing};

/// An observer of runs.
pub trait Watch: Sync {
    /// Announces this many more runs.
    fn planned(&self, _runs: u64) {}

    /// Announces that the run called `what` is done.
    fn done(&self, _what: &str) {}

    /// Returns the tracing options for the run that begins, if it is to be traced. Not called for reruns and
    /// runs of experiments.
    fn trace(&self) -> Option<Tracing> {
        None
    }

    /// Receives the trace of a run.
    fn traced(&self, _traced: Traced) {}

    /// Whether the watcher receives the latencies of the run that ended. Not called for reruns and runs of
    /// experiments.
    fn wants_latencies(&self) -> bool {
        false
    }

    /// Receives the latencies of a run: each in nanoseconds, rounded up to three digits, with its number of
    /// operations, shortest first.
    fn latencies(&self, _counts: Vec<(u64, u64)>) {}
}

impl Watch for () {}
