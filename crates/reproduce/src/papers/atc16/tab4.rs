//! ATC'16, Table 4: rates of verbs on Connect-IB and their bottlenecks.

use super::micro::{self, BATCH, UD_PAYLOAD};
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_nic::Profile;
use doorbell_workload::{Verb, Workload};

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
    runs: Runs::Verbs,
    run,
};

/// The table's cells. Each cell has alternative workloads, and the fastest counts.
fn cells(profile: &Profile) -> [(&'static str, Vec<Workload>); 9] {
    [
        ("atc16-tab4-send-nonbatch", micro::outbound_sends(profile, 1, UD_PAYLOAD)),
        ("atc16-tab4-send-batch", micro::outbound_sends(profile, BATCH, UD_PAYLOAD)),
        ("atc16-tab4-send-batch-ho", micro::outbound_sends(profile, BATCH, 0)),
        ("atc16-tab4-recv-batch", vec![micro::inbound_send(profile, UD_PAYLOAD, false)]),
        ("atc16-tab4-recv-batch-ho", vec![micro::inbound_send(profile, 0, false)]),
        ("atc16-tab4-read-64", vec![micro::inbound(profile, Verb::Read, 64)]),
        ("atc16-tab4-read-128", vec![micro::inbound(profile, Verb::Read, 128)]),
        ("atc16-tab4-atomic-z1", vec![micro::atomics(profile, 1, 8)]),
        ("atc16-tab4-atomic-z4096", vec![micro::atomics(profile, 4096, 8)]),
    ]
}

/// Alternative workloads that measure a claim.
pub(super) fn ways(profile: &Profile, claim: &str) -> Option<Vec<Workload>> {
    cells(profile).into_iter().find(|(id, _)| *id == claim).map(|(_, ways)| ways)
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let mut findings = Findings::default();
    for (claim, ways) in cells(ctx.profile("cib")) {
        let (way, _) = micro::fastest(ctx, "cib", claim, &ways)?;
        let outcome = ctx.explain("cib", claim, &way)?;
        findings.checks.push(Check::rate(claim, "cib", &outcome));
    }
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_the_claims() {
        let profile = Profile::named("cib").unwrap();
        for (cell, claim) in cells(&profile).iter().zip(EXPERIMENT.claims) {
            assert_eq!(cell.0, *claim);
            cell.1.iter().for_each(|way| drop(way.resolve(&profile.clone().into()).unwrap()));
        }
    }
}
