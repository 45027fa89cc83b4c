//! CLUSTER'21, Figure 10b and III-E: sequencers by threads of one machine, with one outstanding request per
//! thread.

use super::cluster::CLUSTER;
use super::fig10a::MOST;
use crate::experiment::curve;
use crate::experiment::worst;
use crate::experiment::{Check, Ctx, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::{Outcome, SystemWorkload};
use doorbell_systems::System;
use doorbell_systems::atomics_sequencer::AtomicsSequencer;
use doorbell_systems::config::{Clients, OneByOne, Timing, Workers};
use doorbell_systems::herd::{Replies, Requests};
use doorbell_systems::local_sequencer::LocalSequencer;
use doorbell_systems::rpc_sequencer::RpcSequencer;
use doorbell_verbs::Span;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig10b",
    paper: "cluster21",
    title: "rate of sequencers by threads of one machine",
    claims: &[
        "cluster21-fig10b-remote-plateau",
        "cluster21-fig10b-remote-vs-rpc",
        "cluster21-fig10b-plateau-threads",
    ],
    runs: Runs::Systems,
    run,
};

/// Thread counts. The claims are about more than five threads and about all.
const THREADS: [u32; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];

/// Rates within this relative difference count as stable.
const STABLE: f64 = 0.05;

fn timing() -> Timing {
    Timing::of(Span::from_us(200), Span::from_ms(1))
}

/// One outstanding request per thread.
fn clients(threads: u32) -> Clients {
    Clients::new(threads, MOST, 1, false)
}

fn local(threads: u32) -> SystemWorkload {
    LocalSequencer { clients: OneByOne::new(threads, threads), timing: timing() }.into()
}

fn remote(threads: u32) -> SystemWorkload {
    AtomicsSequencer { clients: clients(threads), timing: timing() }.into()
}

/// RPC over RC SENDs in both directions. One server thread answers each request before it reads the next
/// request.
fn rpc(threads: u32) -> SystemWorkload {
    RpcSequencer {
        clients: clients(threads),
        workers: Workers { cores: 1, gather: 1, batching: false, queues: 1 },
        timing: timing(),
        request: Requests::SendRc,
        reply: Replies::SendRc,
        ..RpcSequencer::usual()
    }
    .into()
}

fn rates(
    ctx: &Ctx<'_>,
    name: &str,
    sequencer: impl Fn(u32) -> SystemWorkload,
) -> Result<Vec<Outcome>, NotYet> {
    ctx.systems(CLUSTER, &format!("fig10b: {name}"), &THREADS.map(sequencer))
}

/// Smallest thread count from which on every rate stays within [`STABLE`] of `rate`. `rate` is the mean rate
/// of more than five threads.
fn stable_from(points: &[(u32, f64)], rate: f64) -> u32 {
    let differs = |of: &f64| (of / rate - 1.0).abs() > STABLE;
    let last = points.iter().rev().find(|(_, of)| differs(of));
    last.map_or(1, |(threads, _)| threads + 1)
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let local = rates(ctx, "local", local)?;
    let by_atomics = rates(ctx, "remote", remote)?;
    let by_rpc = rates(ctx, "RPC", rpc)?;
    let most = ctx.explain_system(CLUSTER, "fig10b: remote", &remote(MOST))?;
    let points: Vec<(u32, f64)> = THREADS.into_iter().zip(by_atomics.iter().map(|o| o.mops)).collect();
    let beyond: Vec<f64> = points.iter().filter(|(threads, _)| *threads > 5).map(|(_, rate)| *rate).collect();
    let plateau = beyond.iter().sum::<f64>() / beyond.len() as f64;
    let ratios: Vec<f64> = by_atomics.iter().zip(&by_rpc).map(|(a, b)| a.mops / b.mops).collect();
    let told: Vec<String> =
        THREADS.iter().zip(&ratios).map(|(n, ratio)| format!("{ratio:.2} at {n}")).collect();
    let claim = "cluster21-fig10b-remote-vs-rpc";
    let ratio = worst(ratios.iter().map(|ratio| Check::number(claim, CLUSTER, *ratio)).collect());
    let from = stable_from(&points, plateau);
    let checks = vec![
        Check::number("cluster21-fig10b-remote-plateau", CLUSTER, plateau)
            .limited_by(&most)
            .note(format!("mean of more than five threads; one thread has {:.2} Mops", points[0].1)),
        Check { of_each: Vec::new(), ..ratio }
            .note(format!("{} threads; the worst result is shown", told.join(", "))),
        Check::number("cluster21-fig10b-plateau-threads", CLUSTER, from)
            .note(format!("from there on within {}% of {plateau:.2} Mops", STABLE * 100.0)),
    ];
    let line = |name, all: &[Outcome]| {
        let points = THREADS.iter().map(|n| f64::from(*n)).zip(all.iter().map(|o| o.mops)).collect();
        curve("cluster21/fig10b", name, CLUSTER, "threads", "Mops", points)
    };
    let curves = vec![line("local", &local), line("remote", &by_atomics), line("RPC", &by_rpc)];
    Ok(Findings { checks, curves, ..Findings::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_stable_from_where_it_does_not_change_any_more() {
        assert_eq!(stable_from(&[(1, 0.5), (2, 1.0), (3, 2.5), (4, 2.6), (5, 2.55)], 2.58), 3);
        assert_eq!(stable_from(&[(1, 2.6), (2, 2.0), (3, 2.6)], 2.6), 3);
        assert_eq!(stable_from(&[(1, 2.6), (2, 2.6)], 2.6), 1);
    }
}
