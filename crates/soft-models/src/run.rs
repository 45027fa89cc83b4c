//! Running a model.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};

/// How much of a model loom runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// A thread is stopped for another this often in a run, at most, while it could go on. Without a bound
    /// where it is `None`.
    pub(crate) preemptions: Option<usize>,
}

/// Runs a model as often as there are orders within the bounds, and says how often that was.
pub(crate) fn check(name: &str, bounds: Bounds, model: impl Fn() + Send + Sync + 'static) -> u64 {
    let runs = Arc::new(AtomicU64::new(0));
    let counted = runs.clone();
    let mut builder = loom::model::Builder::new();
    // LOOM_MAX_PREEMPTIONS comes first.
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
