//! What is said of a run beside its number.

use doorbell_lab::{NotYet, Outcome, OutcomeOf, Resolved};
use doorbell_systems::config::Clients;
use std::sync::Arc;

/// What the paper does not state and a run had to choose.
pub(crate) fn setting(outcome: &Outcome) -> String {
    let setting = match &outcome.of {
        OutcomeOf::Verbs(of) => {
            let Resolved { machines, threads, qps, .. } = of.workload;
            let window = of.workload.window().operations();
            format!("{machines} machines of {threads} threads with {qps} QPs each, window {window}")
        }
        OutcomeOf::System(of) => {
            let Clients { clients, outstanding, windows, .. } = of.workload.clients();
            let how = if *windows { "in windows of" } else { "with" };
            format!("{clients} clients {how} {outstanding} outstanding")
        }
    };
    match outcome.lift.is_empty() {
        true => setting,
        false => format!("{}; {setting}", outcome.bottleneck.text),
    }
}

/// The outcome of a run in which something was done: no ratio has another.
pub(super) fn something(what: &str, outcome: Arc<Outcome>) -> Result<Arc<Outcome>, NotYet> {
    match &outcome.waits {
        Some(waits) => Err(NotYet::Nothing(nothing_completed(what, waits))),
        None => Ok(outcome),
    }
}

/// Why there is no number of a run, in words.
fn nothing_completed(what: &str, waits: &str) -> String {
    format!("{what}: no operation completed: {waits}")
}
