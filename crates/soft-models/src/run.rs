//! Runs models under loom.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// The part of a model's schedules that loom runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelBounds {
    /// Maximum number of preemptions in a run; `None` for no bound. A preemption stops a thread that could
    /// continue, and runs another thread.
    pub(crate) preemptions: Option<usize>,
}

/// Runs a model in every order within the bounds, and returns the number of runs.
pub(crate) fn check(name: &str, bounds: ModelBounds, model: impl Fn() + Send + Sync + 'static) -> u64 {
    let runs = Arc::new(AtomicU64::new(0));
    let counted = runs.clone();
    let mut builder = loom::model::Builder::new();
    // LOOM_MAX_PREEMPTIONS takes precedence.
    let preemptions = builder.preemption_bound.or(bounds.preemptions);
    builder.preemption_bound = preemptions;
    builder.max_branches = 10_000;
    builder.check(move || {
        counted.fetch_add(1, Relaxed);
        model();
    });
    let runs = runs.load(Relaxed);
    println!("model {name}: {runs} runs, {preemptions:?} preemptions");
    runs
}
