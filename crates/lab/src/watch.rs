//! Observation of runs.

use crate::results::Outcome;
use doorbell_programs::steady::Pace;
use doorbell_sim::{Traced, Tracing};
use std::sync::Arc;

/// An observer of runs.
pub trait Watch: Sync {
    /// Announces more runs, each with its cost in simulated operations.
    fn planned(&self, _costs: &[f64]) {}

    /// Announces about how many more runs will be planned later.
    fn expected(&self, _runs: usize) {}

    /// Announces that a planned run of this cost begins.
    fn began(&self, _cost: f64, _pace: &Arc<Pace>) {}

    /// Announces that a run that began has ended.
    fn ended(&self, _pace: &Arc<Pace>) {}

    /// Receives the result of a run before its reruns begin.
    fn based(&self, _base: &Outcome) {}

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
