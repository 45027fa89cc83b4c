//! ATC'16, 5.3.2: outbound WRITEs and READs on Connect-IB, not batched.

use crate::experiment::briefly;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_schema::Duration;
use doorbell_verbs::Span;
use doorbell_workload::{Pattern, Verb, Workload};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "outbound",
    paper: "atc16",
    title: "outbound WRITEs and READs, not batched",
    claims: &["atc16-out-write-2line", "atc16-out-read"],
    runs: Runs::Verbs,
    run,
};

/// The WQE of a WRITE of 32 bytes takes two lines. Every READ is signalled, but only one WRITE in 16. The
/// paper does not state how many operations are signalled.
fn posting(verb: Verb) -> Workload {
    let workload = Workload {
        verb: Some(verb),
        pattern: Some(Pattern::Outbound),
        size: Some(32),
        window: (verb == Verb::Read).then_some(32),
        window_per_qp: (verb == Verb::Write).then_some(32),
        // Enough QPs to keep all sending units busy.
        machines: Some(9),
        qps: Some(8),
        inline: (verb == Verb::Write).then_some(true),
        ..Workload::default()
    };
    // The windows of all QPs together take a while to fill.
    Workload { warmup: Some(Duration::new(Span::from_us(300))), ..briefly(1000, workload) }
}

/// The claims, with the verb of each.
const CLAIMS: [(&str, Verb); 2] = [("atc16-out-write-2line", Verb::Write), ("atc16-out-read", Verb::Read)];

pub(super) fn workload(claim: &str) -> Option<Workload> {
    CLAIMS.iter().find(|(id, _)| *id == claim).map(|(_, verb)| posting(*verb))
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let mut findings = Findings::default();
    for (claim, verb) in CLAIMS {
        let outcome = ctx.explain("cib", claim, &posting(verb))?;
        findings.checks.push(Check::rate(claim, "cib", &outcome));
    }
    Ok(findings)
}
