//! CLUSTER'21, Figure 9 and III-D: access to memory at the sockets of another machine. A thread has QPs to
//! each socket, or only a QP to the matching socket, or it uses a proxy socket.
//!
//! `systems/tests/systems/proxy.rs` counts the QPs of a deployment. This experiment compares such a count
//! with the paper's formulas.

use crate::experiment::curve;
use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::{Outcome, SystemWorkload};
use doorbell_systems::System;
use doorbell_systems::config::{Clients, Timing};
use doorbell_systems::proxy::{Path, Proxy};
use doorbell_verbs::Span;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig9",
    paper: "cluster21",
    title: "READs of memory at the sockets that do not match: all to all, by the match, and by a proxy socket",
    claims: &[
        "cluster21-s3d-qps-all",
        "cluster21-s3d-qps-proxy",
        "cluster21-s3d-qps-ratio",
        "cluster21-s3d-multiport-linear",
    ],
    runs: Runs::Systems,
    run,
};

/// A cluster whose machines have one adapter with two ports, and a cluster whose machines have an adapter at
/// each socket.
const CLUSTERS: [&str; 2] = ["cx3-dual", "cx3-dual-split"];
const PATHS: [Path; 3] = [Path::Direct, Path::Home, Path::Proxy];
/// Outstanding READs of a thread. The first value is for latency.
const OUTSTANDING: [u32; 5] = [1, 2, 4, 8, 16];
/// Threads of the reading machine, half of them at each socket.
const THREADS: u32 = 8;

/// READs of remote memory. `unmatched_permille` of a thousand READs go to a socket that does not match the
/// thread's socket.
fn reads(path: Path, sockets: u32, threads: u32, outstanding: u32, unmatched_permille: u32) -> Proxy {
    let clients = Clients::new(threads, threads, outstanding, false);
    let timing = Timing::of(Span::from_us(100), Span::from_us(300));
    Proxy { clients, timing, path, sockets, unmatched_permille, ..Proxy::usual() }
}

/// Rate and latency of a path, by outstanding READs of a thread.
fn curves(ctx: &Ctx<'_>, cluster: &'static str, path: Path) -> Result<[Curve; 2], NotYet> {
    let all = OUTSTANDING.map(|outstanding| reads(path, 2, THREADS, outstanding, 1000).into());
    let found = ctx.systems(cluster, "fig9", &all)?;
    let points = |of: fn(&Outcome) -> f64| {
        OUTSTANDING.iter().map(|n| f64::from(*n)).zip(found.iter().map(of)).collect()
    };
    let x = "outstanding";
    let mean_us = |outcome: &Outcome| outcome.latency_ns.mean.map_or(f64::NAN, |ns| ns / 1e3);
    Ok([
        curve("cluster21/fig9", &format!("{}, rate", path.name()), cluster, x, "Mops", points(|o| o.mops)),
        curve(
            "cluster21/fig9",
            &format!("{}, latency", path.name()),
            cluster,
            x,
            "mean, us",
            points(mean_us),
        ),
    ])
}

/// QPs at both ends of all connections between one machine and `m` other machines. Each machine has `s`
/// sockets with a thread each.
fn qps(path: Path, m: u32, s: u32) -> u32 {
    let ends = if path == Path::Direct { s } else { 1 };
    2 * m * s * ends
}

/// Compares the counts with the paper's formulas, for all small numbers of machines and sockets.
fn counts() -> [Check; 3] {
    let all = || (1..=16).flat_map(|m| (1..=4).map(move |s| (m, s)));
    let direct = all().all(|(m, s)| qps(Path::Direct, m, s) == s * s * 2 * m);
    let proxy = all().all(|(m, s)| qps(Path::Proxy, m, s) == s * 2 * m);
    let ratio = all().all(|(m, s)| qps(Path::Direct, m, s) == s * qps(Path::Proxy, m, s));
    let statement = |claim, holds, seen: &str| {
        Check::statement(claim, CLUSTERS[1], holds, seen.into())
            .formula()
            .note("QPs at both ends of one machine's connections with m machines, a thread at each socket")
    };
    [
        statement("cluster21-s3d-qps-all", direct, "s*s*2*m"),
        statement("cluster21-s3d-qps-proxy", proxy, "s*2*m"),
        statement("cluster21-s3d-qps-ratio", ratio, "1/s"),
    ]
}

/// Bytes of READs for comparing ports. The units limit small READs, and the link limits large READs.
const SIZES: [u32; 2] = [32, 4096];

/// Compares threads at one socket with threads at both sockets. Threads read matching memory over their
/// socket's port.
fn ports(ctx: &Ctx<'_>) -> Result<Check, NotYet> {
    let of = |sockets: u32, bytes: u32| {
        let threads = THREADS / 2 * sockets;
        let reads = Proxy { read_bytes: bytes, ..reads(Path::Home, sockets, threads, 16, 0) };
        SystemWorkload::from(reads)
    };
    let all: Vec<SystemWorkload> = SIZES.iter().flat_map(|bytes| [of(1, *bytes), of(2, *bytes)]).collect();
    let [adapter, adapters] = CLUSTERS.map(|cluster| ctx.systems(cluster, "fig9", &all));
    let gains = |found: Vec<Outcome>| [found[1].mops / found[0].mops, found[3].mops / found[2].mops];
    let (adapter, adapters) = (gains(adapter?), gains(adapters?));
    let holds = adapter.iter().chain(&adapters).all(|gain| (gain - 2.0).abs() < 0.1);
    let seen = format!(
        "{:.2} and {:.2} times with READs of 32 B and 4 kB by two adapters, {:.2} and {:.2} by two ports of one",
        adapters[0], adapters[1], adapter[0], adapter[1]
    );
    Ok(Check::statement("cluster21-s3d-multiport-linear", CLUSTERS[0], holds, seen))
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    // The context learns of all runs before the first unknown result returns.
    let found: Vec<_> =
        CLUSTERS.iter().flat_map(|cluster| PATHS.map(|path| curves(ctx, cluster, path))).collect();
    let ports = ports(ctx);
    let curves = found.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    let mut checks = Vec::from(counts());
    checks.push(ports?);
    Ok(Findings { checks, curves, ..Findings::default() })
}
