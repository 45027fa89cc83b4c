//! CLUSTER'21, Figure 1: latency by payload. For small payloads, the figure's latencies equal Table III's
//! latencies of a responder whose core and memory are at the other socket (docs/notes/cluster21.md). So the
//! responder is at the other socket here.

use super::cluster::CLUSTER;
use super::perftest::{Place, latency};
use crate::experiment::curve;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_workload::Verb;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig1-latency",
    paper: "cluster21",
    title: "latency of READ and WRITE by payload",
    claims: &[
        "cluster21-fig1-write-lat-small",
        "cluster21-fig1-read-lat-small",
        "cluster21-fig1-write-lat-256",
        "cluster21-fig1-read-lat-256",
        "cluster21-fig1-knee",
    ],
    runs: Runs::Systems,
    run,
};

/// Place of the responder in the figure's experiments: the other socket.
pub(super) const RESPONDER: Place = Place { core: 1, memory: 1 };

/// Payloads in bytes. Each is twice the previous payload.
const SIZES: [u32; 13] = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];

/// Latency of each size in microseconds.
fn latencies(ctx: &Ctx<'_>, verb: Verb, responder: Place) -> Result<Vec<f64>, NotYet> {
    let profile = ctx.profile(CLUSTER);
    let all = SIZES.map(|size| latency(profile, verb, size, Place::OWN, responder));
    let outcomes = ctx.systems(CLUSTER, "fig1-latency", &all)?;
    Ok(outcomes.iter().map(|o| o.latency_ns.mean.map_or(f64::NAN, |ns| ns / 1e3)).collect())
}

/// Latency climbs fast at a payload if it exceeds this many times the latency of half the payload.
const KNEE: f64 = 1.25;

/// The first payload at which latency climbs fast.
fn knee(us: &[f64]) -> Option<u32> {
    let steps = us.windows(2).map(|two| two[1] / two[0]);
    SIZES[1..].iter().zip(steps).find(|(_, step)| *step > KNEE).map(|(size, _)| *size)
}

fn at(us: &[f64], size: u32) -> f64 {
    SIZES.iter().zip(us).find(|(at, _)| **at == size).map_or(f64::NAN, |(_, us)| *us)
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let all = [Verb::Write, Verb::Read].map(|verb| [RESPONDER, Place::OWN].map(|place| (verb, place)));
    // The context learns of all runs before the first unknown result returns.
    let found = all.map(|of| of.map(|(verb, place)| latencies(ctx, verb, place)));
    let [[write, write_own], [read, read_own]] = found;
    let (write, write_own, read, read_own) = (write?, write_own?, read?, read_own?);
    let check = |id, us: &[f64], own: &[f64], size| {
        let note = format!("at {size} B; with the responder beside its NIC {:.2}", at(own, size));
        Check::number(id, CLUSTER, at(us, size)).note(note)
    };
    let knee_of = |us: &[f64]| knee(us).map_or(f64::NAN, f64::from);
    let rule = format!(
        "READs: the first payload with over {KNEE} times the latency of half the payload; WRITEs: {}",
        knee_of(&write)
    );
    let checks = vec![
        check("cluster21-fig1-write-lat-small", &write, &write_own, SIZES[0]),
        check("cluster21-fig1-read-lat-small", &read, &read_own, SIZES[0]),
        check("cluster21-fig1-write-lat-256", &write, &write_own, 256),
        check("cluster21-fig1-read-lat-256", &read, &read_own, 256),
        Check::number("cluster21-fig1-knee", CLUSTER, knee_of(&read)).note(rule),
    ];
    let line = |name, us: &[f64]| {
        let points = SIZES.iter().map(|size| f64::from(*size)).zip(us.iter().copied()).collect();
        curve("cluster21/fig1-latency", name, CLUSTER, "payload, bytes", "latency, us", points)
    };
    let curves = vec![
        line("WRITE, half a round trip", &write),
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
    fn latency_climbs_where_a_step_is_steep() {
        let mut us = vec![1.0; SIZES.len()];
        assert_eq!(knee(&us), None);
        us[10..].iter_mut().for_each(|us| *us = 1.3);
        assert_eq!(knee(&us), Some(2048));
        assert_eq!(at(&us, 2048), 1.3);
    }
}
