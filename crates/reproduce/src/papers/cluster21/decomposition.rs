//! CLUSTER'21, III-D: the latency of a remote access is the sum of three terms: RNIC to socket, socket to
//! memory, and network. The terms are parameters of the profile. The experiment lengthens each term alone,
//! then all terms together. It checks that the single effects add up to the joint effect.

use super::cluster::CLUSTER;
use super::perftest::{Place, latency};
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_nic::Profile;
use doorbell_workload::Verb;
use std::collections::BTreeMap;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "decomposition",
    paper: "cluster21",
    title: "terms of a READ's latency",
    claims: &["cluster21-s3d-latency-decomp"],
    runs: Runs::Systems,
    run,
};

const SIZE: u32 = 64;
/// Parameters of the terms: network, RNIC to socket, socket to memory.
const TERMS: [&str; 3] = ["link.one_way_ns", "sockets.pcie_hop_ns", "sockets.hop_ns"];
/// Nanoseconds that are added to a term.
const LONGER: f64 = 100.0;
/// Largest relative difference between the sum of the effects and the effect of all terms. It is not 0,
/// because a poll finds a completion some time after the completion is written.
const NEARLY: f64 = 0.02;

/// The profile with these terms lengthened.
fn longer(profile: &Profile, terms: &[&str]) -> Profile {
    let values = profile.parameters.iter().filter(|parameter| terms.contains(&parameter.name.as_str()));
    let set: BTreeMap<String, f64> = values.map(|p| (p.name.clone(), p.value + LONGER)).collect();
    profile.with_set(&set).expect("they may be so long")
}

/// Increases of a READ's latency in nanoseconds: for each lengthened term, then for all terms together.
fn effects(ctx: &Ctx<'_>, place: Place) -> Result<[f64; 4], NotYet> {
    let profile = ctx.profile(CLUSTER);
    let [network, rnic, memory] = TERMS;
    let changed = [&[network][..], &[rnic], &[memory], &TERMS].map(|terms| longer(profile, terms));
    let of = |profile: &Profile| {
        let read = latency(profile, Verb::Read, SIZE, place, place);
        let outcome = ctx.systems_on(profile, "decomposition", &[read])?;
        Ok(outcome[0].latency_ns.mean.unwrap_or(f64::NAN))
    };
    // The context learns of all runs before the first unknown result returns.
    let (before, after) = (of(profile), changed.each_ref().map(of));
    let [network, rnic, memory, all] = after;
    let before = before?;
    Ok([network? - before, rnic? - before, memory? - before, all? - before])
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let (near, far) = (effects(ctx, Place::OWN), effects(ctx, Place { core: 1, memory: 1 }));
    let (near, far) = (near?, far?);
    let adds_up =
        |[network, rnic, memory, all]: [f64; 4]| (network + rnic + memory - all).abs() < NEARLY * all;
    let told = |[network, rnic, memory, all]: [f64; 4]| {
        format!("network {network:.0}, RNIC to socket {rnic:.0}, socket to memory {memory:.0}, all {all:.0}")
    };
    let seen = format!(
        "with each term {LONGER:.0} ns longer, a READ takes longer by: beside the NIC {}; all at the other \
         sockets {}",
        told(near),
        told(far)
    );
    let of_sockets = near[1] == 0.0 && near[2] == 0.0 && far[1] > 0.0;
    let holds = adds_up(near) && adds_up(far) && of_sockets && near[0] > 0.0;
    let checks = vec![Check::statement("cluster21-s3d-latency-decomp", CLUSTER, holds, seen)];
    Ok(Findings { checks, ..Findings::default() })
}
