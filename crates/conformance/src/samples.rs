//! Small sample programs, written like users' programs, that run on every cluster.
//!
//! Each thread opens the device, creates its own queues, and publishes their addresses with
//! [`Provider::publish`](doorbell_verbs::Provider::publish). Then it polls memory or a completion queue.
//! Every wait has a deadline.

mod ending;
mod shared_counter;
mod ud_send_ping_pong;
mod write_ping_pong;

use crate::{CheckResult, Outcome, Report};
use doorbell_verbs::Cluster;

/// Runs the samples whose name contains `filter`, or all samples without a filter. Each sample runs on a
/// fresh cluster from `make`, which gets the number of machines. Reports each result to `each`.
///
/// Machines must meet the requirements of [`crate::run`], and need cores 0 to 2.
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
