//! Helpers for the end of a sample, and for deadlines.

use doorbell_verbs::{Cluster, Provider, Span, Task, Time};
use std::error::Error;

/// Result of a thread.
pub(super) type SampleEnded = Result<(), Box<dyn Error + Send + Sync>>;

/// Runs the cluster's threads. Returns the first error of a thread, or else the error of the run, because a
/// thread's error explains more.
pub(super) fn finish<C: Cluster>(cluster: &mut C, tasks: &[Task<SampleEnded>]) -> Result<(), String> {
    let run = cluster.run();
    for (index, task) in tasks.iter().enumerate() {
        if let Some(Err(error)) = task.take() {
            return Err(format!("thread {index}: {error}"));
        }
    }
    run.map_err(|error| error.to_string())
}

/// The deadline of a wait that begins now.
pub(super) fn patience<P: Provider>(p: &P) -> Time {
    p.now() + Span::from_ms(10_000)
}
