//! ATC'16, Figure 12, 3.2, 5.2.2 and 5.3.1: inbound READs and WRITEs by payload, and RECVs beside them.

use super::micro::{self, CLUSTERS, UD_PAYLOAD};
use crate::data::bottlenecks::ObservedLimit;
use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::Outcome;
use doorbell_nic::{Part, Profile};
use doorbell_verbs::{Opcode, QpType};
use doorbell_workload::{Verb, Workload};
use std::sync::Arc;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig12",
    paper: "atc16",
    title: "inbound READs and UC WRITEs by payload, and the limit of the link",
    claims: &[
        "atc16-read-transition-cx",
        "atc16-read-transition-cx3",
        "atc16-read-transition-cib",
        "atc16-read-cib-saturates",
        "atc16-read-cx3-saturates",
        "atc16-read-cx3-flat",
        "atc16-read-cib-small-better",
        "atc16-fig12-limits",
        "atc16-fig12-shape",
        "atc16-fig12-axes",
        "atc16-ho-recv-eq-write",
        "atc16-seq-ho-recv-eq-write",
        "atc16-recv-slow-reason",
        "atc16-s32-regular-recv-lt-write",
    ],
    runs: Runs::Verbs,
    run,
};

/// Payloads of the figure in bytes. The transition is the first matching power of two.
const SIZES: [u32; 9] = [8, 16, 32, 64, 96, 128, 160, 192, 256];

/// More payloads for dense curves.
const MORE_SIZES: [u32; 8] = [24, 48, 80, 112, 144, 176, 224, 288];

/// A rate of at least this share of the link's limit counts as limited by the link.
const AT_LIMIT: f64 = 0.95;

/// Rates within this relative difference count as equal.
const EQUAL: f64 = 0.05;

/// Rates of one cluster.
struct DesignRates {
    cluster: &'static str,
    sizes: Vec<u32>,
    read: Vec<Arc<Outcome>>,
    write: Vec<Arc<Outcome>>,
    /// Header-only and regular RECVs, Mops.
    recv: [f64; 2],
    /// Rates of READs that the link allows, Mops.
    limit: Vec<f64>,
}

/// Highest rate of READs or WRITEs, in millions per second, that the link allows in the direction of the
/// payload.
fn link_limit(profile: &Profile, opcode: Opcode, transport: QpType, size: u32) -> f64 {
    let load = match opcode {
        Opcode::Read => profile.response_on_link(opcode, transport, size),
        _ => profile.request_on_link(opcode, transport, size),
    };
    let bytes_per_s = profile.device.link.port_bytes_per_s as f64 * f64::from(profile.device.link.ports);
    bytes_per_s / load.bytes as f64 / 1e6
}

impl DesignRates {
    fn measure(ctx: &Ctx<'_>, cluster: &'static str) -> Result<DesignRates, NotYet> {
        let profile = ctx.profile(cluster);
        let mut sizes = SIZES.to_vec();
        if ctx.full {
            sizes.extend(MORE_SIZES);
            sizes.sort_unstable();
        }
        let sweep = |verb| {
            let workloads: Vec<Workload> = sizes.iter().map(|&s| micro::inbound(profile, verb, s)).collect();
            ctx.measure(cluster, "fig12", &workloads)
        };
        let (read, write) = (sweep(Verb::Read)?, sweep(Verb::Write)?);
        let recv = [0, UD_PAYLOAD].map(|size| micro::inbound_send(profile, size, false));
        let recv = ctx.measure(cluster, "fig12", &recv)?;
        let limit = sizes.iter().map(|&s| link_limit(profile, Opcode::Read, QpType::Rc, s)).collect();
        Ok(DesignRates { cluster, read, write, recv: [recv[0].mops, recv[1].mops], limit, sizes })
    }

    fn at(&self, size: u32) -> usize {
        self.sizes.iter().position(|s| *s == size).unwrap_or(0)
    }

    fn read_at(&self, size: u32) -> f64 {
        self.read[self.at(size)].mops
    }

    /// Rate of WRITEs with small payloads.
    fn small_write(&self) -> f64 {
        self.write[self.at(32)].mops
    }

    /// Smallest power of two for which the link limits READs with this payload.
    fn transition(&self) -> u32 {
        let doubling = self.sizes.iter().enumerate().filter(|(_, s)| s.is_power_of_two());
        let mut limited = doubling.filter(|(i, _)| self.read[*i].mops >= AT_LIMIT * self.limit[*i]);
        limited.next().map_or(u32::MAX, |(_, s)| *s)
    }

    /// Share of the link's rate that READs of `size` bytes use.
    fn link_use(&self, size: u32) -> f64 {
        let ports = self.read[self.at(size)].resources.iter();
        let out = ports.filter(|r| r.machine == 0 && r.meter.part() == Part::PortOut);
        let shares: Vec<f64> = out.map(|r| r.utilization).collect();
        shares.iter().sum::<f64>() / shares.len().max(1) as f64
    }

    /// Whether the rate of READs is flat up to half of the transition's payload, and follows the link's limit
    /// from the transition on.
    fn has_shape(&self) -> bool {
        let transition = self.transition();
        let small = self.sizes.iter().zip(&self.read).filter(|(s, _)| 2 * **s <= transition);
        let flat = small.clone().all(|(_, o)| o.mops > (1.0 - EQUAL) * self.read[0].mops);
        let large = self.sizes.iter().zip(self.read.iter().zip(&self.limit));
        let mut large = large.filter(|(s, _)| **s >= transition);
        flat && small.count() > 1 && large.all(|(_, (o, l))| o.mops >= AT_LIMIT * l)
    }

    fn curves(&self) -> Vec<Curve> {
        let curve = |name: &str, y: Vec<f64>| Curve {
            experiment: "atc16/fig12".into(),
            name: name.into(),
            profile: self.cluster.into(),
            x: "payload, bytes".into(),
            y: "Mops".into(),
            points: self.sizes.iter().map(|&s| f64::from(s)).zip(y).collect(),
        };
        let rates = |outcomes: &[Arc<Outcome>]| outcomes.iter().map(|o| o.mops).collect();
        vec![
            curve("READ", rates(&self.read)),
            curve("WRITE", rates(&self.write)),
            curve("link limit for READ", self.limit.clone()),
        ]
    }
}

fn equal(a: f64, b: f64) -> bool {
    (a / b - 1.0).abs() <= EQUAL
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let sweeps = CLUSTERS.map(|c| DesignRates::measure(ctx, c));
    let sweeps: Vec<DesignRates> = sweeps.into_iter().collect::<Result<_, _>>()?;
    let [_, cx3, cib] = &sweeps[..] else { unreachable!("there are three clusters") };
    let mut checks = Vec::new();
    let transitions = ["atc16-read-transition-cx", "atc16-read-transition-cx3", "atc16-read-transition-cib"];
    for (claim, sweep) in transitions.into_iter().zip(&sweeps) {
        checks.push(transition(ctx, claim, sweep)?);
    }
    checks.push(saturates("atc16-read-cib-saturates", cib, 64, 112.0));
    checks.push(saturates("atc16-read-cx3-saturates", cx3, 256, 56.0));
    let (small, large) = (cx3.read_at(32), cx3.read_at(256));
    let seen = format!("{small:.1} and {large:.1} Mops");
    checks.push(Check::statement("atc16-read-cx3-flat", "cx3", (large / small - 1.0).abs() < 0.2, seen));
    let (small, large) = (cib.read_at(32), cib.read_at(256));
    let seen = format!("two READs of 32 B {:.1}, one of 256 B {large:.1} Mops", small / 2.0);
    checks.push(Check::statement("atc16-read-cib-small-better", "cib", small / 2.0 > large, seen));
    checks.push(limits(ctx));
    let shapes: Vec<String> =
        sweeps.iter().map(|s| format!("{}: flat to {} B", s.cluster, s.transition() / 2)).collect();
    let holds = sweeps.iter().all(DesignRates::has_shape);
    checks.push(Check::statement("atc16-fig12-shape", "cib", holds, shapes.join("; ")));
    checks.push(axes(&sweeps));
    checks.extend(recvs(&sweeps));
    Ok(Findings {
        checks,
        curves: sweeps.iter().flat_map(DesignRates::curves).collect(),
        ..Findings::default()
    })
}

/// Id and payload of the claim that the link limits READs of cib from this payload on.
const TRANSITION: (&str, u32) = ("atc16-read-transition-cib", 64);

/// Smallest and largest [`number`] with which the claim holds.
pub(super) fn range(claim: &str) -> Option<(f64, f64)> {
    (claim == TRANSITION.0).then_some((AT_LIMIT, 1.0 / AT_LIMIT))
}

/// The claim of [`TRANSITION`] as a number from two runs, with the transition's payload and with half of it.
/// The rate with the transition's payload is divided by the link's limit, and by the rate with half the
/// payload. The number is the smaller quotient.
pub(super) fn number(ctx: &Ctx<'_>, claim: &str) -> Option<Result<f64, NotYet>> {
    range(claim)?;
    let (profile, size) = (ctx.profile("cib"), TRANSITION.1);
    let link = link_limit(profile, Opcode::Read, QpType::Rc, size);
    let reads = [size / 2, size].map(|size| micro::inbound(profile, Verb::Read, size));
    Some(ctx.measure("cib", claim, &reads).map(|found| found[1].mops / link.max(found[0].mops)))
}

fn transition(ctx: &Ctx<'_>, claim: &'static str, sweep: &DesignRates) -> Result<Check, NotYet> {
    let size = sweep.transition();
    let profile = ctx.profile(sweep.cluster);
    let explain = |size| ctx.explain(sweep.cluster, claim, &micro::inbound(profile, Verb::Read, size));
    let (small, large) = (explain(16)?, explain(size.saturating_mul(2).min(SIZES[SIZES.len() - 1]))?);
    let mut check = Check::number(claim, sweep.cluster, size)
        .note("first payload, among sizes that double, with 95% of the rate that the link allows");
    if !small.lift.is_empty() {
        let (small, large) = (small.bottleneck.class, large.bottleneck.class);
        check.bottleneck = Some(ObservedLimit::Transition { small, large });
    }
    Ok(check)
}

/// The share of the link's nominal rate that READs of `size` bytes use.
fn saturates(claim: &'static str, sweep: &DesignRates, size: u32, nominal: f64) -> Check {
    let share = sweep.link_use(size);
    let note = format!("{:.1}% of the link's time, in the units of its name", share * 100.0);
    Check::number(claim, sweep.cluster, share * nominal).note(note)
}

/// The figure draws only the link's limit for READs, because all other limits are higher.
fn limits(ctx: &Ctx<'_>) -> Check {
    let mut seen = Vec::new();
    let mut holds = true;
    for cluster in CLUSTERS {
        let p = ctx.profile(cluster);
        let size = 128;
        let read = link_limit(p, Opcode::Read, QpType::Rc, size);
        let write = link_limit(p, Opcode::Write, QpType::Uc, size);
        let seconds = p.completion_time(size).as_secs_f64().max(p.dma_write_time(size).as_secs_f64());
        let pcie = 1.0 / seconds / 1e6;
        holds &= write > read && pcie > read;
        seen.push(format!("{cluster}: READ {read:.1}, WRITE {write:.1}, PCIe {pcie:.1}"));
    }
    Check::statement("atc16-fig12-limits", "cib", holds, seen.join("; ")).formula()
}

/// The rates fit the figure's axes and use a good part of them.
fn axes(sweeps: &[DesignRates]) -> Check {
    let tops = [30.0, 50.0, 200.0];
    let highest = |s: &DesignRates| s.read.iter().chain(&s.write).map(|o| o.mops).fold(0.0, f64::max);
    let fits = |(s, top): (&DesignRates, f64)| highest(s) <= top && highest(s) > 0.4 * top;
    let seen: Vec<String> = sweeps.iter().map(|s| format!("{} to {:.0}", s.cluster, highest(s))).collect();
    Check::statement("atc16-fig12-axes", "cib", sweeps.iter().zip(tops).all(fits), seen.join("; "))
}

/// Compares RECVs with WRITEs. A RECV takes a second DMA write, and this makes it slower.
fn recvs(sweeps: &[DesignRates]) -> Vec<Check> {
    let seen = |s: &DesignRates| {
        let [header_only, regular] = s.recv;
        format!(
            "{}: RECV {regular:.1}, header-only {header_only:.1}, WRITE {:.1}",
            s.cluster,
            s.small_write()
        )
    };
    let all = sweeps.iter().map(seen).collect::<Vec<_>>().join("; ");
    let cib = &sweeps[2];
    let slower = sweeps.iter().all(|s| s.recv[1] < (1.0 - EQUAL) * s.small_write());
    let equal_without = sweeps.iter().all(|s| equal(s.recv[0], s.small_write()));
    let as_fast = equal(cib.recv[0], cib.small_write());
    vec![
        Check::statement("atc16-ho-recv-eq-write", "cib", as_fast, seen(cib)),
        Check::statement("atc16-seq-ho-recv-eq-write", "cib", as_fast, seen(cib)),
        Check::statement("atc16-recv-slow-reason", "cib", slower && equal_without, all.clone()),
        Check::statement("atc16-s32-regular-recv-lt-write", "cib", slower, all),
    ]
}
