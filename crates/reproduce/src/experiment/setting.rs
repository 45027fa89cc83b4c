//! What is said of a run beside its number.

use doorbell_lab::{Outcome, Resolved, SystemOutcome};
use doorbell_systems::config::Clients;

/// What the paper does not state and a run had to choose.
pub(crate) fn setting(outcome: &Outcome) -> String {
    let Resolved { machines, threads, qps, .. } = outcome.workload;
    let window = outcome.workload.window().operations();
    let setting = format!("{machines} machines of {threads} threads with {qps} QPs each, window {window}");
    match outcome.lift.is_empty() {
        true => setting,
        false => format!("{}; {setting}", outcome.bottleneck.text),
    }
}

/// What the paper does not state and a run had to choose.
pub(crate) fn system_setting(outcome: &SystemOutcome) -> String {
    let Clients { clients, outstanding, windows, .. } = outcome.workload.clients();
    let how = if *windows { "in windows of" } else { "with" };
    let setting = format!("{clients} clients {how} {outstanding} outstanding");
    match outcome.lift.is_empty() {
        true => setting,
        false => format!("{}; {setting}", outcome.bottleneck.text),
    }
}

/// Why there is no number of a run, in words.
pub(super) fn nothing_completed(what: &str, waits: &str) -> String {
    format!("{what}: no operation completed: {waits}")
}
