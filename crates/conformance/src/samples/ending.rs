//! The end of a sample.

use doorbell_verbs::{Cluster, Provider, Span, Task, Time};
use std::error::Error;

/// Result of a thread.
pub(super) type SampleEnded = Result<(), Box<dyn Error + Send + Sync>>;

/// Runs the cluster's threads and collects their results. A thread's own error comes first, because it
/// explains more than the time-outs of threads that waited for it.
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
