//! CLUSTER'21, Figure 10a and III-E: spinlocks by threads of one machine.
//!
//! For the remote lock, "14% remaining" and "0.31 MOPS at eight threads" cannot refer to one quantity
//! (docs/notes/cluster21.md). So curves show three quantities: acquisitions of all threads, acquisitions of
//! one thread, and attempts. Claims with a unit are judged by the acquisitions of all threads, because
//! throughput usually means this. The remaining share of the remote lock is not judged, because the paper
//! does not name its quantity (`papers/not_checked.toml`).

use super::cluster::CLUSTER;
use crate::experiment::curve;
use crate::experiment::worst;
use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::{Outcome, SystemWorkload};
use doorbell_schema::Duration;
use doorbell_systems::System;
use doorbell_systems::config::{OneByOne, Timing};
use doorbell_systems::spinlock::{LocalSpinlock, RemoteSpinlock, RpcSpinlock};
use doorbell_verbs::Span;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig10a",
    paper: "cluster21",
    title: "rate of spinlocks by threads of one machine",
    claims: &[
        "cluster21-fig10a-remote-vs-rpc",
        "cluster21-fig10a-local-remaining",
        "cluster21-fig10a-local-8t",
        "cluster21-fig10a-remote-8t",
        "cluster21-fig10a-scal-order",
        "cluster21-fig10a-backoff-vs-local",
        "cluster21-fig10a-backoff-vs-rpc",
    ],
    runs: Runs::Systems,
    run,
};

/// Thread counts of the curves, and of dense curves. The claims are about 1, 8 and 14. Cores are numbered
/// socket by socket, so the ninth thread is at the other socket.
const THREADS: [u32; 8] = [1, 2, 4, 6, 8, 9, 11, 14];
const DENSE: [u32; 14] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
/// Largest number of threads.
pub(super) const MOST: u32 = 14;

/// First and longest wait of the lock with back-off. The first wait is about the round trip of an attempt.
/// The longest wait exceeds the product of the first wait and the number of threads. The paper states no
/// constants.
const BACKOFF: Span = Span::from_us(2);
const BACKOFF_MOST: Span = Span::from_us(64);

/// Timing that gives a slow lock some thousand operations.
fn timing() -> Timing {
    Timing::of(Span::from_us(500), Span::from_ms(8))
}

fn local(threads: u32) -> SystemWorkload {
    local_drawn(threads, timing().seed)
}

/// The local lock. Threads of two sockets get the lock's line in an order that is drawn once per run.
fn local_drawn(threads: u32, seed: u64) -> SystemWorkload {
    let timing = Timing { seed, ..timing() };
    LocalSpinlock { clients: OneByOne::new(threads, threads), timing, ..LocalSpinlock::usual() }.into()
}

/// Number of orders that are drawn for the claims. The mean of their rates is judged.
const DRAWS: u64 = 8;

/// Rate of the local lock with all threads for each drawn order, and the mean of these rates.
fn by_order(ctx: &Ctx<'_>) -> Result<(Vec<f64>, f64), NotYet> {
    let workloads: Vec<SystemWorkload> = (1..=DRAWS).map(|seed| local_drawn(MOST, seed)).collect();
    let outcomes = ctx.systems(CLUSTER, "fig10a: local, by the order of threads", &workloads)?;
    let rates: Vec<f64> = outcomes.iter().map(|outcome| outcome.mops).collect();
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    Ok((rates, mean))
}

fn remote(threads: u32, backoff: Span) -> SystemWorkload {
    let mut lock = RemoteSpinlock::usual();
    lock.clients = OneByOne::new(threads, MOST);
    lock.timing = timing();
    lock.locks.backoff = Duration::new(backoff);
    lock.locks.backoff_most = Duration::new(BACKOFF_MOST);
    lock.into()
}

fn rpc(threads: u32) -> SystemWorkload {
    RpcSpinlock { clients: OneByOne::new(threads, MOST), timing: timing(), ..RpcSpinlock::usual() }.into()
}

/// Outcomes of a lock, by number of threads.
struct LockSeries {
    name: &'static str,
    threads: Vec<u32>,
    outcomes: Vec<Outcome>,
}

impl LockSeries {
    fn measure(
        ctx: &Ctx<'_>,
        name: &'static str,
        lock: impl Fn(u32) -> SystemWorkload,
    ) -> Result<LockSeries, NotYet> {
        let threads = if ctx.full { DENSE.to_vec() } else { THREADS.to_vec() };
        let workloads: Vec<SystemWorkload> = threads.iter().map(|n| lock(*n)).collect();
        let outcomes = ctx.systems(CLUSTER, &format!("fig10a: {name}"), &workloads)?;
        Ok(LockSeries { name, threads, outcomes })
    }

    fn at(&self, threads: u32) -> &Outcome {
        let at = self.threads.iter().position(|n| *n == threads);
        &self.outcomes[at.expect("the curves have the numbers of threads of the claims")]
    }

    /// Acquisitions of all threads, acquisitions of one thread, and attempts of all, in millions per second.
    fn readings(&self, threads: u32) -> [f64; 3] {
        let outcome = self.at(threads);
        [outcome.mops, outcome.mops / f64::from(threads), outcome.mops * (1.0 + outcome.system().again)]
    }

    /// The [`LockSeries::readings`] with this many threads, in percent of the readings with one thread.
    fn remaining(&self, threads: u32) -> [f64; 3] {
        let (few, many) = (self.readings(1), self.readings(threads));
        [0, 1, 2].map(|reading| 100.0 * many[reading] / few[reading])
    }

    /// Text of the three readings.
    fn told(readings: [f64; 3], unit: &str) -> String {
        let [all, one, attempts] = readings;
        format!("{all:.3} {unit} of all threads, {one:.3} of each, {attempts:.3} in attempts")
    }

    fn curves(&self) -> Vec<Curve> {
        let points = |y: &dyn Fn(u32) -> f64| self.threads.iter().map(|n| (f64::from(*n), y(*n))).collect();
        let line = |what: &str, y: &str, points| {
            let name = if what.is_empty() { self.name.to_owned() } else { format!("{}: {what}", self.name) };
            curve("cluster21/fig10a", &name, CLUSTER, "threads", y, points)
        };
        let served = |n| self.at(n).system().served;
        vec![
            line("", "Mops", points(&|n| self.readings(n)[0])),
            line("each thread", "Mops", points(&|n| self.readings(n)[1])),
            line("attempts", "Mops", points(&|n| self.readings(n)[2])),
            line("thread served least", "even shares", points(&|n| served(n).map_or(0.0, |of| of.least))),
            line("thread served most", "even shares", points(&|n| served(n).map_or(0.0, |of| of.most))),
        ]
    }
}

/// Compares two locks at all thread counts. The check has the ratio that is farthest from the claim.
fn ratio(claim: &'static str, of: &LockSeries, by: &LockSeries) -> Check {
    let ratio = |n: &u32| of.at(*n).mops / by.at(*n).mops;
    let all: Vec<String> = of.threads.iter().map(|n| format!("{:.2} at {n}", ratio(n))).collect();
    let checks = of.threads.iter().map(|n| Check::number(claim, CLUSTER, ratio(n))).collect();
    Check { of_each: Vec::new(), ..worst(checks) }
        .note(format!("{} threads; the worst result is shown", all.join(", ")))
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let local = LockSeries::measure(ctx, "local", local)?;
    let remote_at_once = LockSeries::measure(ctx, "remote", |n| remote(n, Span::ZERO))?;
    let backoff = LockSeries::measure(ctx, "remote, back-off", |n| remote(n, BACKOFF))?;
    let rpc = LockSeries::measure(ctx, "RPC", rpc)?;
    let remote = &remote_at_once;
    let number = |claim, value: f64| Check::number(claim, CLUSTER, value);
    let at_eight = |claim, lock: &LockSeries| {
        number(claim, lock.readings(8)[0]).note(LockSeries::told(lock.readings(8), "Mops"))
    };
    let (by_order, local_most) = by_order(ctx)?;
    let local_remaining = 100.0 * local_most / local.at(1).mops;
    let least = by_order.iter().copied().fold(f64::INFINITY, f64::min);
    let most = by_order.iter().copied().fold(0.0, f64::max);
    let drawn = format!(
        "local {least:.2} to {most:.2} Mops with 14 threads, by the order in which they get the line, mean {local_most:.2}"
    );
    let remaining = [&local, remote].map(|lock| lock.remaining(MOST));
    let above = remote.threads.iter().all(|n| remote.at(*n).mops > rpc.at(*n).mops);
    let scales = remaining[1][0] > local_remaining;
    let seen = format!(
        "at 14 threads remains of the remote lock {}; of the local lock {}; remote {} RPC at all numbers of threads",
        LockSeries::told(remaining[1], "%"),
        LockSeries::told(remaining[0], "%"),
        if above { "above" } else { "not above" }
    );
    let at_most = |lock: &LockSeries| lock.at(MOST).mops;
    let constants = format!("first wait {} ns, longest {}", BACKOFF.as_ns(), BACKOFF_MOST.as_ns());
    let checks = vec![
        ratio("cluster21-fig10a-remote-vs-rpc", remote, &rpc),
        number("cluster21-fig10a-local-remaining", local_remaining)
            .note(format!("{drawn}; with the first draw {}", LockSeries::told(remaining[0], "%"))),
        at_eight("cluster21-fig10a-local-8t", &local),
        at_eight("cluster21-fig10a-remote-8t", remote),
        Check::statement("cluster21-fig10a-scal-order", CLUSTER, scales && above, seen),
        number("cluster21-fig10a-backoff-vs-local", at_most(&backoff) / local_most)
            .note(format!("{constants}; {drawn}")),
        number("cluster21-fig10a-backoff-vs-rpc", at_most(&backoff) / at_most(&rpc)).note(constants),
    ];
    let curves = [&local, remote, &backoff, &rpc].into_iter().flat_map(LockSeries::curves).collect();
    Ok(Findings { checks, curves, ..Findings::default() })
}
