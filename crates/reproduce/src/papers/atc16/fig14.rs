//! ATC'16, Figure 14, 3.4 and 5.4: atomics by the number of counters.

use super::micro::{self, CLUSTERS};
use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::Outcome;
use doorbell_workload::{Verb, Workload};
use std::sync::Arc;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig14",
    paper: "atc16",
    title: "fetch-and-adds on Z counters",
    claims: &[
        "atc16-atomics-cx3-flat",
        "atc16-atomics-cx3-indep-z",
        "atc16-atomics-cib-z1",
        "atc16-atomics-cib-peak",
        "atc16-atomics-cib-rises",
        "atc16-atomics-page-aligned",
        "atc16-s34-contention-order",
        "atc16-s34-atomics-internal-lock",
        "atc16-seq-lock-hold",
        "atc16-s54-lock-service",
        "atc16-intro-best-worst-70x",
    ],
    runs: Runs::Verbs,
    run,
};

/// Counters of the figure, and counters of a dense curve.
const COUNTERS: [u32; 7] = [1, 4, 16, 64, 256, 1024, 4096];
const DENSE: [u32; 14] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192];

/// Many counters.
const MANY: u32 = 4096;

/// Bytes from one counter to the next.
const ADJACENT: u32 = 8;
const PAGE: u32 = 4096;

/// Rates of one cluster by number of counters.
struct CounterSweep {
    cluster: &'static str,
    counters: Vec<u32>,
    outcomes: Vec<Arc<Outcome>>,
}

impl CounterSweep {
    fn measure(ctx: &Ctx<'_>, cluster: &'static str) -> Result<CounterSweep, NotYet> {
        let counters = if ctx.full { DENSE.to_vec() } else { COUNTERS.to_vec() };
        let profile = ctx.profile(cluster);
        let workloads: Vec<Workload> =
            counters.iter().map(|&z| micro::atomics(profile, z, ADJACENT)).collect();
        Ok(CounterSweep { cluster, outcomes: ctx.measure(cluster, "fig14", &workloads)?, counters })
    }

    fn at(&self, counters: u32) -> &Outcome {
        &self.outcomes[self.counters.iter().position(|z| *z == counters).unwrap_or(0)]
    }

    /// Lowest and highest rate.
    fn range(&self) -> (f64, f64) {
        let rates = self.outcomes.iter().map(|o| o.mops);
        (rates.clone().fold(f64::INFINITY, f64::min), rates.fold(0.0, f64::max))
    }

    /// Nanoseconds between two operations on one counter.
    fn hold_ns(&self) -> f64 {
        1e3 / self.at(1).mops
    }

    fn curve(&self) -> Curve {
        Curve {
            experiment: "atc16/fig14".into(),
            name: "fetch-and-add".into(),
            profile: self.cluster.into(),
            x: "counters Z".into(),
            y: "Mops".into(),
            points: self
                .counters
                .iter()
                .map(|&z| f64::from(z))
                .zip(self.outcomes.iter().map(|o| o.mops))
                .collect(),
        }
    }
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let sweeps = CLUSTERS.map(|c| CounterSweep::measure(ctx, c));
    let sweeps: Vec<CounterSweep> = sweeps.into_iter().collect::<Result<_, _>>()?;
    let [_, cx3, cib] = &sweeps[..] else { unreachable!("there are three clusters") };
    let explain = |cluster, what, z, stride| {
        ctx.explain(cluster, what, &micro::atomics(ctx.profile(cluster), z, stride))
    };
    let flat = explain("cx3", "atomics-cx3-flat", MANY, ADJACENT)?;
    let one = explain("cib", "atomics-cib-z1", 1, ADJACENT)?;
    let many = explain("cib", "atomics-cib-peak", MANY, ADJACENT)?;
    let pages = explain("cib", "atomics-page-aligned", MANY, PAGE)?;
    let (low, high) = cx3.range();
    let rates: Vec<f64> = cib.outcomes.iter().map(|o| o.mops).collect();
    let rises = rates.windows(2).all(|w| w[1] > 0.99 * w[0]) && many.mops > 10.0 * one.mops;
    let statement = |claim, cluster, holds, seen: String| Check::statement(claim, cluster, holds, seen);
    let mut checks = vec![
        Check::rate("atc16-atomics-cx3-flat", "cx3", &flat),
        statement(
            "atc16-atomics-cx3-indep-z",
            "cx3",
            high < 1.05 * low,
            format!("{low:.2} to {high:.2} Mops for 1 to 4096 counters"),
        ),
        Check::rate("atc16-atomics-cib-z1", "cib", &one),
        Check::rate("atc16-atomics-cib-peak", "cib", &many),
        statement(
            "atc16-atomics-cib-rises",
            "cib",
            rises,
            format!("{:.2} to {:.1} Mops", one.mops, many.mops),
        ),
        statement(
            "atc16-atomics-page-aligned",
            "cib",
            pages.mops < 1.1 * one.mops,
            format!("{:.2} Mops on 4096 words a page apart, {:.2} on one", pages.mops, one.mops),
        )
        .limited_by(&pages),
        internal_lock(ctx, cib),
        lock_hold(&sweeps[1..]),
        statement(
            "atc16-s54-lock-service",
            "cib",
            many.mops > 5.0 * flat.mops,
            format!("{:.1} Mops on cib, {:.1} on cx3", many.mops, flat.mops),
        ),
    ];
    checks.push(contention(ctx, &sweeps[1..])?);
    let sends = micro::outbound_sends(ctx.profile("cib"), micro::BATCH, 0);
    let (_, best) = micro::fastest(ctx, "cib", "best", &sends)?;
    checks.push(
        Check::number("atc16-intro-best-worst-70x", "cib", best.mops / one.mops)
            .note("header-only SENDs in batches against atomics on one counter"),
    );
    Ok(Findings { checks, curves: sweeps.iter().map(CounterSweep::curve).collect(), ..Findings::default() })
}

/// Each atomic takes one PCIe read and one PCIe write. Atomics that share a lock run one after the other.
fn internal_lock(ctx: &Ctx<'_>, cib: &CounterSweep) -> Check {
    let one = cib.at(1);
    let p = ctx.profile("cib");
    let pcie = one.pcie.iter().find(|p| p.machine == 0);
    let done = one.mops * one.measured.duration.span().as_secs_f64() * 1e6;
    let [reads, writes] = [pcie.map_or(0, |p| p.rdcur), pcie.map_or(0, |p| p.itom)].map(|n| n as f64 / done);
    let near_one = |n: f64| (0.98..1.02).contains(&n);
    let serial = cib.hold_ns() >= p.device.pcie.read_latency.as_ns() as f64;
    let seen = format!("{reads:.2} PCIe reads and {writes:.2} writes each, {:.0} ns apart", cib.hold_ns());
    let holds = near_one(reads) && near_one(writes) && serial;
    Check::statement("atc16-s34-atomics-internal-lock", "cib", holds, seen)
        .note("contention with other verbs is not part of this run")
}

/// The paper states "several hundred nanoseconds".
fn lock_hold(sweeps: &[CounterSweep]) -> Check {
    let seen: Vec<String> = sweeps.iter().map(|s| format!("{} {:.0} ns", s.cluster, s.hold_ns())).collect();
    let holds = sweeps.iter().all(|s| (200.0..1000.0).contains(&s.hold_ns()));
    Check::statement("atc16-seq-lock-hold", "cib", holds, seen.join(", "))
}

/// Compares atomics on one word with READs, on the cluster with the smallest difference.
fn contention(ctx: &Ctx<'_>, sweeps: &[CounterSweep]) -> Result<Check, NotYet> {
    let mut least = f64::INFINITY;
    for sweep in sweeps {
        let read = micro::inbound(ctx.profile(sweep.cluster), Verb::Read, 32);
        let read = &ctx.measure(sweep.cluster, "s34", &[read])?[0];
        least = least.min(read.mops / sweep.at(1).mops);
    }
    let note = "READs of 32 bytes by fetch-and-adds on one word, where the two are closest";
    Ok(Check::number("atc16-s34-contention-order", "cib", least).note(note))
}
