//! Remarks about a run that reports show beside its number.

use doorbell_lab::{NotYet, Outcome, OutcomeOf, Resolved};
use doorbell_systems::config::Clients;
use std::sync::Arc;

/// The settings of a run that the paper does not state, in words.
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

/// Returns `outcome` if at least one operation completed. Otherwise no ratio can be computed, and the error
/// says why nothing completed.
pub(super) fn something(what: &str, outcome: Arc<Outcome>) -> Result<Arc<Outcome>, NotYet> {
    match &outcome.waits {
        Some(waits) => Err(NotYet::Nothing(nothing_completed(what, waits))),
        None => Ok(outcome),
    }
}

/// The reason why a run gives no number, in words.
fn nothing_completed(what: &str, waits: &str) -> String {
    format!("{what}: no operation completed: {waits}")
}
