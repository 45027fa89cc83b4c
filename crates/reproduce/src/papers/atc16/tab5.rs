//! ATC'16, Table 5 and 5.2.2: header-only and regular UD SENDs and RECVs on the three clusters.

use super::micro::{self, BATCH, CLUSTERS, UD_PAYLOAD};
use crate::experiment::percent_more;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_nic::Profile;
use doorbell_workload::{Verb, Workload};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "tab5",
    paper: "atc16",
    title: "header-only (0) and regular (1) UD SENDs and RECVs",
    claims: &[
        "atc16-tab5-cib-recv0",
        "atc16-tab5-cib-recv1",
        "atc16-tab5-cib-send0",
        "atc16-tab5-cib-send1",
        "atc16-tab5-cx3-recv0",
        "atc16-tab5-cx3-recv1",
        "atc16-tab5-cx3-send0",
        "atc16-tab5-cx3-send1",
        "atc16-tab5-cx-recv0",
        "atc16-tab5-cx-recv1",
        "atc16-tab5-cx-send0",
        "atc16-tab5-cx-send1",
        "atc16-ho-recv-gain-cib",
        "atc16-ho-send-gain-cib",
        "atc16-s6-offset",
    ],
    runs: Runs::Verbs,
    run,
};

/// Claims of a cluster: RECV 0, RECV 1, SEND 0, SEND 1.
fn claims(cluster: &str) -> [&'static str; 4] {
    match cluster {
        "cx" => ["atc16-tab5-cx-recv0", "atc16-tab5-cx-recv1", "atc16-tab5-cx-send0", "atc16-tab5-cx-send1"],
        "cx3" => {
            ["atc16-tab5-cx3-recv0", "atc16-tab5-cx3-recv1", "atc16-tab5-cx3-send0", "atc16-tab5-cx3-send1"]
        }
        _ => ["atc16-tab5-cib-recv0", "atc16-tab5-cib-recv1", "atc16-tab5-cib-send0", "atc16-tab5-cib-send1"],
    }
}

/// Alternative workloads for each of the four claims. The fastest counts.
fn cells(profile: &Profile) -> [Vec<Workload>; 4] {
    [
        vec![micro::inbound_send(profile, 0, false)],
        vec![micro::inbound_send(profile, UD_PAYLOAD, false)],
        micro::outbound_sends(profile, BATCH, 0),
        micro::outbound_sends(profile, BATCH, UD_PAYLOAD),
    ]
}

/// The cluster of a claim, and the alternative workloads that measure it.
pub(super) fn ways(ctx: &Ctx<'_>, claim: &str) -> Option<(&'static str, Vec<Workload>)> {
    let of = |cluster| Some((cluster, claims(cluster).iter().position(|id| *id == claim)?));
    let (cluster, cell) = CLUSTERS.into_iter().find_map(of)?;
    let ways = cells(ctx.profile(cluster)).into_iter().nth(cell)?;
    Some((cluster, ways))
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let mut findings = Findings::default();
    for cluster in CLUSTERS {
        let outcomes = cells(ctx.profile(cluster)).map(|ways| micro::fastest(ctx, cluster, "tab5", &ways));
        let outcomes = outcomes.into_iter().map(|o| Ok(o?.1)).collect::<Result<Vec<_>, NotYet>>()?;
        for (claim, outcome) in claims(cluster).into_iter().zip(&outcomes) {
            findings.checks.push(Check::rate(claim, cluster, outcome));
        }
        if cluster == "cib" {
            let [recv0, recv1, send0, send1] = [0, 1, 2, 3].map(|i| outcomes[i].mops);
            let gains = [("atc16-ho-recv-gain-cib", recv1, recv0), ("atc16-ho-send-gain-cib", send1, send0)];
            let gain = |(claim, from, to)| Check::number(claim, "cib", percent_more(from, to));
            findings.checks.extend(gains.map(gain));
            findings.checks.push(ranking(ctx, send0)?);
        }
    }
    Ok(findings)
}

/// The way in which SENDs are posted decides whether they are faster than READs.
fn ranking(ctx: &Ctx<'_>, header_only: f64) -> Result<Check, NotYet> {
    let cib = ctx.profile("cib");
    let read = ctx.measure("cib", "s6", &[micro::inbound(cib, Verb::Read, 64)])?[0].mops;
    let plain = micro::fastest(ctx, "cib", "s6", &micro::outbound_sends(cib, 1, UD_PAYLOAD))?.1.mops;
    let seen = format!("SEND {plain:.1} to {header_only:.1} Mops, READ {read:.1}");
    Ok(Check::statement("atc16-s6-offset", "cib", plain < read && read < header_only, seen))
}
