//! CLUSTER'21, Figure 1: rate by payload over one QP. Threads and memory are placed as in `fig1_latency`.

use super::cluster::CLUSTER;
use super::fig1_latency::RESPONDER;
use super::perftest::{Place, rate};
use crate::experiment::curve;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::Outcome;
use doorbell_nic::Resource;
use doorbell_workload::Verb;
use std::sync::Arc;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig1",
    paper: "cluster21",
    title: "rate of READ and WRITE by payload",
    claims: &[
        "cluster21-fig1-write-tput",
        "cluster21-fig1-read-tput",
        "cluster21-fig1-flat-limit",
        "cluster21-fig1-two-limits",
        "cluster21-intro-small-io",
    ],
    runs: Runs::Verbs,
    run,
};

/// Payloads in bytes. Each is twice the previous payload.
const SIZES: [u32; 12] = [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];

/// A small payload: less than a line.
const SMALL: u32 = 32;
/// A large payload, for which the link limits the rate.
const LARGE: u32 = 8192;

/// Largest relative difference to the small payload's rate that counts as flat.
const FLAT: f64 = 0.05;

fn outcomes(ctx: &Ctx<'_>, verb: Verb, responder: Place) -> Result<Vec<Arc<Outcome>>, NotYet> {
    let all = SIZES.map(|size| rate(verb, size, Place::OWN, responder));
    ctx.measure(CLUSTER, "fig1", &all)
}

fn at(outcomes: &[Arc<Outcome>], size: u32) -> f64 {
    SIZES.iter().zip(outcomes).find(|(at, _)| **at == size).map_or(f64::NAN, |(_, o)| o.mops)
}

/// The largest payload up to which rates stay within [`FLAT`] of the small payload's rate.
fn flat_to(rates: impl Iterator<Item = f64>, small: f64) -> u32 {
    let flat = SIZES.into_iter().zip(rates).skip_while(|(size, _)| *size < SMALL);
    flat.take_while(|(_, rate)| (rate / small - 1.0).abs() <= FLAT).last().map_or(0, |(size, _)| size)
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let asked =
        [Verb::Write, Verb::Read].map(|verb| [RESPONDER, Place::OWN].map(|place| outcomes(ctx, verb, place)));
    let explained = [SMALL, LARGE]
        .map(|size| ctx.explain(CLUSTER, "fig1", &rate(Verb::Write, size, Place::OWN, RESPONDER)));
    let [[write, write_own], [read, read_own]] = asked;
    let (write, write_own, read, read_own) = (write?, write_own?, read?, read_own?);
    let [small, large] = explained;
    let (small, large) = (small?, large?);
    let check = |id, outcomes: &[Arc<Outcome>], own: &[Arc<Outcome>]| {
        let note = format!("at {SMALL} B; with the responder beside its NIC {:.2}", at(own, SMALL));
        Check::number(id, CLUSTER, at(outcomes, SMALL)).note(note)
    };
    let flat = |outcomes: &[Arc<Outcome>]| flat_to(outcomes.iter().map(|o| o.mops), at(outcomes, SMALL));
    let rule = format!("READs within 5% of the rate at {SMALL} B; WRITEs {} B", flat(&write));
    let share = |size| {
        at(&read_own, size) * f64::from(size) * 1e6 / ctx.profile(CLUSTER).device.link.port_bytes_per_s as f64
    };
    let (little, most) = (share(64) * 100.0, share(LARGE) * 100.0);
    let limits = format!("at {SMALL} B: {}; at {LARGE} B: {}", small.bottleneck.text, large.bottleneck.text);
    let of_units = small.bottleneck.class.is_some_and(Resource::is_of_nic);
    let of_link = large.bottleneck.class == Some(Resource::LinkBandwidth);
    let checks = vec![
        check("cluster21-fig1-write-tput", &write, &write_own).limited_by(&small),
        check("cluster21-fig1-read-tput", &read, &read_own),
        Check::number("cluster21-fig1-flat-limit", CLUSTER, flat(&read)).note(rule),
        Check::statement("cluster21-fig1-two-limits", CLUSTER, of_units && of_link, limits),
        Check::statement(
            "cluster21-intro-small-io",
            CLUSTER,
            little < 50.0 && most > 80.0,
            format!("READs of 64 B have {little:.0}% of a port's bandwidth, of {LARGE} B {most:.0}%"),
        ),
    ];
    let line = |name, outcomes: &[Arc<Outcome>]| {
        let points = SIZES.iter().map(|size| f64::from(*size)).zip(outcomes.iter().map(|o| o.mops)).collect();
        curve("cluster21/fig1", name, CLUSTER, "payload, bytes", "M/s", points)
    };
    let curves = vec![
        line("WRITE", &write),
        line("READ", &read),
        line("WRITE, responder beside its NIC", &write_own),
        line("READ, responder beside its NIC", &read_own),
    ];
    Ok(Findings { checks, curves, ..Findings::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_flat_ends_where_a_rate_differs() {
        let mut rates = [4.0; SIZES.len()];
        assert_eq!(flat_to(rates.into_iter(), 4.0), LARGE);
        rates[7] = 3.7;
        assert_eq!(flat_to(rates.into_iter(), 4.0), 256);
    }
}
