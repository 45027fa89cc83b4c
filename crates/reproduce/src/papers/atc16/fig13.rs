//! ATC'16, Figure 13 and 3.5: windows of READs and WRITEs, and misses in the WQE cache.

use crate::experiment::briefly;
use crate::experiment::{Check, Ctx, Curve, Experiment, Findings, Runs};
use doorbell_lab::NotYet;
use doorbell_lab::Outcome;
use doorbell_nic::accounting::{self, PostShape};
use doorbell_nic::{Method, Part, Profile, Resource, wqe};
use doorbell_verbs::QpType;
use doorbell_workload::{Pattern, Verb, Window, Workload};
use std::sync::Arc;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "fig13",
    paper: "atc16",
    title: "windows of N READs or WRITEs: rate, PCIe reads and WQE-cache misses",
    claims: &[
        "atc16-wqe-n-cx3",
        "atc16-wqe-n-cib",
        "atc16-wqe-not-monotone",
        "atc16-wqe-cib-both-rise",
        "atc16-wqe-cib-write-nomiss",
        "atc16-wqe-read-costlier",
        "atc16-wqe-miss-points",
        "atc16-fig13b-axes",
        "atc16-s35-miss-estimate",
        "atc16-s35-cached-kinds",
    ],
    runs: Runs::Verbs,
    run,
};

/// Windows of the figure.
const WINDOWS: [u32; 10] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];

/// Rates within this relative difference count as equal. Among windows with equal rates, the largest is the
/// best.
const SAME: f64 = 0.01;

/// Bytes of each operation, as in the paper.
const BYTES: u32 = 8;

/// All cores post windows of `n` operations to 14 remote processes, one on each of 14 machines. As in the
/// authors' program (rw-allsig), each thread has one QP and signals only the last WQE of a window.
fn workload(verb: Verb, n: u32) -> Workload {
    let workload = Workload {
        verb: Some(verb),
        transport: Some(QpType::Rc),
        size: Some(BYTES),
        pattern: Some(Pattern::Outbound),
        machines: Some(15),
        qps: Some(1),
        window: Some(n),
        drain: Some(true),
        inline: (verb == Verb::Write).then_some(true),
        ..Workload::default()
    };
    // The operations of a window count only when all have completed. The rate is coarse unless hundreds of
    // windows complete.
    briefly(300.max(20 * u64::from(n)), workload)
}

/// One series of the figure.
struct SequencerSeries {
    cluster: &'static str,
    verb: Verb,
    points: Vec<WindowRun>,
}

/// One window's run.
struct WindowRun {
    outcome: Arc<Outcome>,
    /// PCIeRdCur events of machine 0 per second, in millions.
    reads: f64,
    /// Lines that the NIC read because of cache misses, per second, in millions.
    misses: f64,
}

/// Hits and misses of machine 0 in NIC caches of one kind.
fn look_ups(outcome: &Outcome, kind: Resource) -> (u64, u64) {
    let caches = outcome.caches.iter().filter(|c| c.machine == 0 && c.cache.resource() == kind);
    caches.fold((0, 0), |(hits, misses), c| (hits + c.hits, misses + c.misses))
}

impl WindowRun {
    fn new(profile: &Profile, outcome: Arc<Outcome>) -> WindowRun {
        let seconds = outcome.measured.duration.span().as_secs_f64();
        let per_second = |n: u64| n as f64 / seconds / 1e6;
        let lines = |kind, bytes: u32| look_ups(&outcome, kind).1 * u64::from(wqe::lines(bytes));
        let missing = lines(Resource::WqeCache, wqe::LINE)
            + lines(Resource::QpContextCache, profile.device.caches.context)
            + lines(Resource::TranslationCache, wqe::LINE);
        let reads = outcome.pcie.iter().find(|p| p.machine == 0).map_or(0, |p| p.rdcur);
        WindowRun { reads: per_second(reads), misses: per_second(missing), outcome }
    }

    /// PCIe reads expected from the accounting of a post, per second, in millions.
    fn expected(&self, profile: &Profile) -> f64 {
        let w = &self.outcome.verbs().workload;
        let operation = w.operations()[0];
        let shape = PostShape {
            opcode: operation.opcode,
            qp_type: w.transport,
            payload: operation.size,
            sges: 1,
            inline: operation.inline,
            signaled: false,
            method: Method::WqeByMmio,
        };
        let bytes = accounting::requester(profile, &shape).dma_read_bytes as u32;
        f64::from(wqe::lines(bytes)) * self.outcome.mops
    }
}

impl SequencerSeries {
    fn measure(ctx: &Ctx<'_>, cluster: &'static str, verb: Verb) -> Result<SequencerSeries, NotYet> {
        let workloads = WINDOWS.map(|n| workload(verb, n));
        let outcomes = ctx.measure(cluster, "fig13", &workloads)?;
        let profile = ctx.profile(cluster);
        Ok(SequencerSeries {
            cluster,
            verb,
            points: outcomes.into_iter().map(|o| WindowRun::new(profile, o)).collect(),
        })
    }

    fn rates(&self) -> impl Iterator<Item = f64> {
        self.points.iter().map(|p| p.outcome.mops)
    }

    fn highest(&self) -> f64 {
        self.rates().fold(0.0, f64::max)
    }

    /// The best window.
    fn best(&self) -> u32 {
        let good = (1.0 - SAME) * self.highest();
        let best = WINDOWS.into_iter().zip(self.rates()).filter(|(_, r)| *r >= good);
        best.map(|(n, _)| n).max().unwrap_or(0)
    }

    fn text(&self) -> String {
        let rates: Vec<String> = self.rates().map(|r| format!("{r:.1}")).collect();
        format!("{} {}: {} Mops with windows of 1 to 512", self.cluster, self.verb, rates.join(", "))
    }

    /// Time that an operation occupies the requester's sending and receiving units, in nanoseconds.
    fn unit_time(&self, profile: &Profile) -> f64 {
        let Some(last) = self.points.last() else { return 0.0 };
        let busy = |part: Part, units: u32| {
            let found = last.outcome.resources.iter().find(|r| r.machine == 0 && r.meter.part() == part);
            found.map_or(0.0, |r| r.utilization * f64::from(units))
        };
        let busy = busy(Part::SendingUnits, profile.device.tx.units)
            + busy(Part::ReceivingUnits, profile.device.rx.units);
        busy / last.outcome.mops * 1e3
    }

    fn curves(&self) -> [Curve; 3] {
        let curve = |name: &str, y: &str, of: fn(&WindowRun) -> f64| Curve {
            experiment: "atc16/fig13".into(),
            name: format!("{} {name}", self.verb),
            profile: self.cluster.into(),
            x: "window N".into(),
            y: y.into(),
            points: WINDOWS.iter().map(|&n| f64::from(n)).zip(self.points.iter().map(of)).collect(),
        };
        [
            curve("rate", "Mops", |p| p.outcome.mops),
            curve("PCIeRdCur", "million/s", |p| p.reads),
            curve("cache misses", "million lines/s", |p| p.misses),
        ]
    }
}

fn run(ctx: &Ctx<'_>) -> Result<Findings, NotYet> {
    let read = SequencerSeries::measure(ctx, "cib", Verb::Read)?;
    let write = SequencerSeries::measure(ctx, "cib", Verb::Write)?;
    let older = SequencerSeries::measure(ctx, "cx3", Verb::Read)?;
    let mut checks = Vec::new();
    for (claim, series) in [("atc16-wqe-n-cx3", &older), ("atc16-wqe-n-cib", &read)] {
        let best = series.best();
        let outcome = ctx.explain(series.cluster, claim, &workload(series.verb, best))?;
        let check = Check::number(claim, series.cluster, best).limited_by(&outcome).note(series.text());
        checks.push(check);
    }
    let falls = older.points.last().is_some_and(|p| p.outcome.mops < 0.95 * older.highest());
    let bests = format!("best N is {} on cx3 and {} on cib", older.best(), read.best());
    let differ = falls && older.best() != read.best();
    let (rises, seen) = both_rise(&read);
    let missed: u64 = write.points.iter().map(|p| look_ups(&p.outcome, Resource::WqeCache).1).sum();
    let costs = [&read, &write].map(|s| s.unit_time(ctx.profile(s.cluster)));
    checks.extend([
        Check::statement("atc16-wqe-not-monotone", "cx3", differ, bests),
        Check::statement("atc16-wqe-cib-both-rise", "cib", rises, seen),
        Check::statement("atc16-wqe-cib-write-nomiss", "cib", missed == 0, format!("{missed} misses"))
            .note(write.text()),
        Check::statement(
            "atc16-wqe-read-costlier",
            "cib",
            costs[0] > costs[1],
            format!("{:.0} ns of units for a READ, {:.0} for a WRITE", costs[0], costs[1]),
        ),
        miss_points(&read),
        axes(&[&read, &older]),
        estimate(ctx, &[&read, &write, &older]),
        Check::number("atc16-s35-cached-kinds", "cib", cached_kinds(&read)),
    ]);
    let curves = [&read, &write, &older].into_iter().flat_map(SequencerSeries::curves).collect();
    Ok(Findings { checks, curves, ..Findings::default() })
}

/// Whether both the rate and the PCIe reads rise from the first to the last window, and neither falls by more
/// than [`SAME`] at any step.
fn both_rise(read: &SequencerSeries) -> (bool, String) {
    let rising = |values: &[f64]| {
        let steps = values.windows(2).all(|w| w[1] >= (1.0 - SAME) * w[0]);
        steps && values.last() > values.first()
    };
    let rates: Vec<f64> = read.rates().collect();
    let reads: Vec<f64> = read.points.iter().map(|p| p.reads).collect();
    let ends = |v: &[f64]| format!("{:.1} to {:.1}", v[0], v[v.len() - 1]);
    let seen = format!("{} Mops, {} million PCIe reads/s", ends(&rates), ends(&reads));
    (rising(&rates) && rising(&reads), seen)
}

/// The NIC looks up a READ's WQE twice: for the request, and for the response.
fn miss_points(read: &SequencerSeries) -> Check {
    let Some(last) = read.points.last() else { unreachable!("the figure has points") };
    let (hits, misses) = look_ups(&last.outcome, Resource::WqeCache);
    let done = last.outcome.mops * last.outcome.measured.duration.span().as_secs_f64() * 1e6;
    let each = (hits + misses) as f64 / done;
    let holds = misses > 0 && (1.8..2.2).contains(&each);
    let seen = format!("{each:.1} look-ups for a READ, {misses} misses");
    Check::statement("atc16-wqe-miss-points", "cib", holds, seen)
}

fn axes(series: &[&SequencerSeries]) -> Check {
    let highest =
        |s: &&SequencerSeries| s.points.iter().map(|p| p.outcome.mops.max(p.reads)).fold(0.0, f64::max);
    let highest = series.iter().map(highest).fold(0.0, f64::max);
    let seen = format!("up to {highest:.1} million/s");
    Check::statement("atc16-fig13b-axes", "cib", highest <= 100.0 && highest > 50.0, seen)
}

/// Compares the paper's estimate of misses with the misses of the caches. The estimate is counted less
/// expected PCIe reads.
fn estimate(ctx: &Ctx<'_>, series: &[&SequencerSeries]) -> Check {
    let mut worst: f64 = 0.0;
    let mut seen = String::new();
    for s in series {
        for p in &s.points {
            let estimated = p.reads - p.expected(ctx.profile(s.cluster));
            worst = worst.max((estimated - p.misses).abs() / p.outcome.mops);
            if p.outcome.verbs().workload.window() == Window::PerThread(512) && s.verb == Verb::Read {
                seen += &format!("{} {estimated:.1} of {:.1} million/s; ", s.cluster, p.misses);
            }
        }
    }
    Check::statement("atc16-s35-miss-estimate", "cib", worst < 0.01, seen.trim_end_matches("; ").to_owned())
}

/// Number of kinds of caches. Contexts of requesters and of responders are one kind.
fn cached_kinds(series: &SequencerSeries) -> u32 {
    let Some(first) = series.points.first() else { return 0 };
    let kinds = first.outcome.caches.iter().filter(|c| c.machine == 0).map(|c| c.cache.resource());
    kinds.collect::<std::collections::BTreeSet<_>>().len() as u32
}
