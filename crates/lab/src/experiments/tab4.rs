//! ATC'16, Table 4: rates of verbs on Connect-IB and what limits each.

use super::{Check, Ctx, Experiment, Findings, Found};
use crate::Duration;
use crate::explain::{self, Control, EXPLAIN_RUNS};
use crate::simulate::SimulateError;
use crate::workload::{Pattern, Resolved, Verb, Workload};
use doorbell_verbs::Span;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tab4",
    paper: "atc16",
    title: "rate and bottleneck of verbs on cib, in nine modes",
    claims: &[
        "atc16-tab4-send-nonbatch",
        "atc16-tab4-send-batch",
        "atc16-tab4-send-batch-ho",
        "atc16-tab4-recv-batch",
        "atc16-tab4-recv-batch-ho",
        "atc16-tab4-read-64",
        "atc16-tab4-read-128",
        "atc16-tab4-atomic-z1",
        "atc16-tab4-atomic-z4096",
    ],
    runs: 9 * EXPLAIN_RUNS,
    run,
};

/// Work requests per Doorbell where the table says "Batch" (Figure 11a).
const BATCH: u32 = 16;

/// A payload with which a UD SEND's WQE takes two lines, as the table's do.
const UD_PAYLOAD: u32 = 60;

/// Machines of the inbound cells: more than enough to keep one of them busy.
const FEW: u32 = 4;

/// Rates are steady early and the cells many.
fn briefly(us: u64, workload: Workload) -> Workload {
    let span = |us| Some(Duration::new(Span::from_us(us)));
    Workload { warmup: span(100), duration: span(us), ..workload }
}

fn send(pattern: Pattern, batch: u32, header_only: bool) -> Workload {
    let workload = Workload {
        verb: Some(Verb::Send),
        machines: (pattern == Pattern::Inbound).then_some(FEW),
        pattern: Some(pattern),
        batch: Some(batch),
        // One QP for each of the NIC's 16 sending units, and two batches on each.
        threads: (pattern == Pattern::Outbound).then_some(8),
        qps: Some(2),
        window: (pattern == Pattern::Outbound).then_some(2 * BATCH),
        size: Some(if header_only { 0 } else { UD_PAYLOAD }),
        header_only: Some(header_only),
        ..Workload::default()
    };
    briefly(300, workload)
}

fn read(size: u32) -> Workload {
    let workload =
        Workload { verb: Some(Verb::Read), size: Some(size), machines: Some(FEW), ..Workload::default() };
    briefly(300, workload)
}

fn atomic(counters: u32) -> Workload {
    let workload = Workload {
        verb: Some(Verb::FetchAdd),
        counters: Some(counters),
        machines: Some(FEW),
        ..Workload::default()
    };
    // One counter is slow: a count of few operations would be coarse.
    briefly(if counters == 1 { 2000 } else { 300 }, workload)
}

/// The cells with the workload of each.
fn cells() -> [(&'static str, Workload); 9] {
    [
        ("atc16-tab4-send-nonbatch", send(Pattern::Outbound, 1, false)),
        ("atc16-tab4-send-batch", send(Pattern::Outbound, BATCH, false)),
        ("atc16-tab4-send-batch-ho", send(Pattern::Outbound, BATCH, true)),
        ("atc16-tab4-recv-batch", send(Pattern::Inbound, 1, false)),
        ("atc16-tab4-recv-batch-ho", send(Pattern::Inbound, 1, true)),
        ("atc16-tab4-read-64", read(64)),
        ("atc16-tab4-read-128", read(128)),
        ("atc16-tab4-atomic-z1", atomic(1)),
        ("atc16-tab4-atomic-z4096", atomic(4096)),
    ]
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, SimulateError> {
    let mut findings = Findings::default();
    for (claim, workload) in cells() {
        findings.checks.push(cell(ctx, claim, workload)?);
    }
    Ok(findings)
}

fn cell(ctx: &Ctx<'_>, claim: &'static str, workload: Workload) -> Result<Check, SimulateError> {
    let profile = ctx.profile("cib");
    let workload = workload.resolve(profile).unwrap_or_else(|e| panic!("workload of {claim}: {e}"));
    let control = Control {
        interrupt: ctx.control.interrupt.clone(),
        progress: &|run| (ctx.control.progress)(&format!("{claim}: {run}")),
    };
    let outcome = explain::explain(profile, &workload, &control)?;
    Ok(Check {
        claim,
        profile: "cib",
        found: Found::Number(outcome.mops),
        note: format!("{}; {}", outcome.bottleneck.text, shape(&workload)),
        bottleneck: Some(outcome.bottleneck),
    })
}

/// What the paper does not state and the run had to choose.
fn shape(w: &Resolved) -> String {
    let Resolved { machines, threads, qps, window, .. } = w;
    format!("{machines} machines of {threads} threads with {qps} QPs each, window {window}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_nic::Profile;

    #[test]
    fn cells_are_the_claims() {
        let profile = Profile::named("cib").unwrap();
        for (cell, claim) in cells().iter().zip(EXPERIMENT.claims) {
            assert_eq!(cell.0, *claim);
            cell.1.resolve(&profile).unwrap();
        }
    }
}
