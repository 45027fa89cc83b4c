//! Small programs, written the way users write theirs, that run on every cluster.
//!
//! Each thread opens its own device and queues, tells its peer where to find it by
//! [`Provider::publish`], and then polls: memory or a completion queue. Every wait has a deadline.

mod shared_counter;
mod ud_send_ping_pong;
mod write_ping_pong;

use crate::{CheckResult, Outcome, Report};
use doorbell_verbs::{Cluster, Provider, Span, Task, Time};
use std::error::Error;

/// What a thread hands back: nothing, or why it stopped.
type Ended = Result<(), Box<dyn Error + Send + Sync>>;

/// Runs the samples whose name contains `filter` (all without one), each on a fresh cluster of as
/// many machines as `make` is given, and tells `each` how it ended.
///
/// Machines need what [`crate::run`] says, and cores 0 to 2.
pub fn run_all<C: Cluster>(
    make: &mut dyn FnMut(u32) -> C,
    filter: Option<&str>,
    each: &mut dyn FnMut(&CheckResult),
) -> Report {
    let mut report = Report::default();
    type Sample<C> = fn(&mut C) -> Result<(), String>;
    let samples: [(&str, u32, Sample<C>); 3] = [
        ("samples/write_ping_pong", 2, write_ping_pong::run),
        ("samples/ud_send_ping_pong", 2, ud_send_ping_pong::run),
        ("samples/shared_counter", 1, shared_counter::run),
    ];
    let wanted = |name: &str| filter.is_none_or(|part| name.contains(part));
    for (name, machines, sample) in samples.into_iter().filter(|s| wanted(s.0)) {
        let ended = sample(&mut make(machines));
        let result = CheckResult { name, outcome: ended.map_or_else(Outcome::Failed, |()| Outcome::Passed) };
        each(&result);
        report.checks.push(result);
    }
    report
}

/// Runs the cluster's threads and collects their outcomes. A thread's own error says more than
/// that others waited for it in vain, so it comes first.
fn finish<C: Cluster>(cluster: &mut C, tasks: &[Task<Ended>]) -> Result<(), String> {
    let run = cluster.run();
    for (index, task) in tasks.iter().enumerate() {
        if let Some(Err(error)) = task.take() {
            return Err(format!("thread {index}: {error}"));
        }
    }
    run.map_err(|error| error.to_string())
}

/// The time by which a wait that begins now is given up.
fn patience<P: Provider>(p: &P) -> Time {
    p.now() + Span::from_ms(10_000)
}
