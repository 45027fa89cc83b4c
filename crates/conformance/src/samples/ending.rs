//! How a sample ends.

use doorbell_verbs::{Cluster, Provider, Span, Task, Time};
use std::error::Error;

/// What a thread hands back: nothing, or why it stopped.
pub(super) type SampleEnded = Result<(), Box<dyn Error + Send + Sync>>;

/// Runs the cluster's threads and collects their outcomes. A thread's own error says more than
/// that others waited for it in vain, so it comes first.
pub(super) fn finish<C: Cluster>(cluster: &mut C, tasks: &[Task<SampleEnded>]) -> Result<(), String> {
    let run = cluster.run();
    for (index, task) in tasks.iter().enumerate() {
        if let Some(Err(error)) = task.take() {
            return Err(format!("thread {index}: {error}"));
        }
    }
    run.map_err(|error| error.to_string())
}

/// The time by which a wait that begins now is given up.
pub(super) fn patience<P: Provider>(p: &P) -> Time {
    p.now() + Span::from_ms(10_000)
}
