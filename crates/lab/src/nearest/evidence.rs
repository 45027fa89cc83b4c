//! Everything about a run from which its bottleneck follows.

use super::SystemRan;
use super::stations::{CACHES, MeteredMachine, Station};
use crate::asked::SystemWorkload;
use crate::results::{RawRun, Utilization, rates};
use doorbell_nic::limits::{InFlight, Limit};
use doorbell_nic::{Profile, Resource};
use doorbell_sim::{Metrics, WaitKind};
use doorbell_workload::limits::{least_latency, limits};
use doorbell_workload::{AtomicCounters, Profiles, Resolved, ResolvedClass};

/// The rate of an open loop counts as reached if at least this share of the due operations completes.
const REACHED: f64 = 0.95;

/// If the bound of the cores is below this share of their use, cores spend most of their passes on looking
/// for work, and the bound counts.
const LOOKING: f64 = 0.7;

/// Everything about a run from which its bottleneck follows.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    /// All stations, the highest load first.
    pub(super) stations: Vec<Station>,
    /// Rate, divided by the bound of the windows; 0 if there is no such bound.
    pub(super) window: f64,
    /// Rate, divided by the bound of the outstanding READs and atomics; 0 if there is no such bound.
    pub(super) reads: f64,
    /// Least latency of an operation in nanoseconds; 0 if unknown.
    pub(super) least_ns: f64,
    /// Share of the latency of an operation for which units stall for entries of each class of [`CACHES`].
    pub(super) stalled: [f64; CACHES.len()],
    /// Largest share of the time in which DMA reads of a NIC wait for a tag.
    pub(super) tags: f64,
    /// Whether an open loop completes all operations that are due.
    pub(super) reached: bool,
}

/// A run's rate in millions per second, and its mean latency in nanoseconds.
#[derive(Clone, Copy)]
struct Pace {
    mops: f64,
    mean_ns: Option<f64>,
}

impl Pace {
    /// Mean number of operations in flight, by Little's law.
    fn in_flight(self) -> Option<f64> {
        Some(self.mops * self.mean_ns? / 1e3)
    }
}

impl Evidence {
    pub(super) fn of_verbs(profiles: &Profiles, w: &Resolved, run: &RawRun) -> Evidence {
        let used: Vec<Utilization> = run.metrics.resources.iter().map(Utilization::from).collect();
        let machine = |number: u32| {
            let profile = profiles.of(w, number);
            metered(number, profile, lock_of(profile, w.counters), &used, &run.metrics)
        };
        let machines: Vec<MeteredMachine<'_>> = (0..w.machines).map(machine).collect();
        let mops = rates(w, run).iter().sum();
        let pace = Pace { mops, mean_ns: run.shown.latency.mean };
        let returns = w.operations().iter().any(|operation| operation.opcode.returns_data());
        let due: Option<u64> =
            w.classes().iter().map(|class| class.workload.open_loop().map(|(_, rate)| rate)).sum();
        let mut evidence = Evidence::of(&machines, pace, returns);
        evidence.reached = is_reached(due, mops, run.shown.certainty.overload);
        evidence.least_ns = least_latency(profiles, w).as_ps() as f64 / 1e3;
        evidence.bounds(profiles, w, run, mops);
        evidence.sorted()
    }

    pub(super) fn of_system(
        profile: &Profile,
        w: &SystemWorkload,
        used: &[Utilization],
        metrics: &Metrics,
        ran: SystemRan,
    ) -> Evidence {
        let machine = |number: u32| metered(number, profile, Resource::PcieLatency, used, metrics);
        let machines: Vec<MeteredMachine<'_>> = (0..w.machines()).map(machine).collect();
        let evidence = Evidence::of(&machines, Pace { mops: ran.mops, mean_ns: ran.mean_ns }, false);
        Evidence { reached: is_reached(w.rate(), ran.mops, ran.overload), ..evidence }.sorted()
    }

    /// The part of the evidence that all kinds of runs have. `returns` tells whether operations return data.
    fn of(machines: &[MeteredMachine<'_>], pace: Pace, returns: bool) -> Evidence {
        let waiting = |cache: Resource| machines.iter().map(|m| waiting_for(m, cache, returns)).sum::<f64>();
        let in_flight = pace.in_flight();
        let share = |waiting: f64| in_flight.map_or(0.0, |all| (waiting / all.max(1e-9)).min(1.0));
        Evidence {
            stations: machines.iter().flat_map(MeteredMachine::stations).collect(),
            stalled: CACHES.map(|cache| share(waiting(cache))),
            tags: machines.iter().map(|m| m.waiting(WaitKind::Tag)).fold(0.0, f64::max),
            ..Evidence::default()
        }
    }

    /// Compares the rate with the bounds that no meter shows: windows, outstanding READs, and the work of
    /// cores without their polling.
    fn bounds(&mut self, profiles: &Profiles, w: &Resolved, run: &RawRun, mops: f64) {
        let completed: u64 = run.classes.iter().map(|class| class.completed).sum();
        for (class, ran) in w.classes().iter().zip(&run.classes) {
            let own = mops * ran.completed as f64 / completed.max(1) as f64;
            self.bounds_of_class(&limits(profiles, class.workload), own);
        }
        if let [ResolvedClass { workload, .. }] = &w.classes()[..] {
            let cores = nearest(&limits(profiles, workload), mops, |limit| limit.resource == Resource::Cpu);
            for core in self.stations.iter_mut().filter(|station| station.is_core()) {
                core.load = if cores < LOOKING * core.load { cores } else { core.load };
            }
        }
    }

    fn bounds_of_class(&mut self, limits: &[Limit], mops: f64) {
        let of = |by: InFlight| nearest(limits, mops, |limit| limit.in_flight == Some(by));
        self.window = self.window.max(of(InFlight::Window));
        self.reads = self.reads.max(of(InFlight::Reads));
    }

    fn sorted(mut self) -> Evidence {
        self.stations.sort_by(|a, b| b.load.total_cmp(&a.load));
        self
    }
}

/// The rate, divided by the lowest of these bounds; 0 if there is none.
fn nearest(limits: &[Limit], mops: f64, of: impl Fn(&Limit) -> bool) -> f64 {
    limits.iter().filter(|limit| of(limit)).map(|limit| mops / limit.mops).fold(0.0, f64::max)
}

fn is_reached(due: Option<u64>, mops: f64, overload: bool) -> bool {
    !overload && due.is_some_and(|due| mops >= REACHED * due as f64 / 1e6)
}

fn metered<'a>(
    number: u32,
    profile: &'a Profile,
    lock: Resource,
    used: &[Utilization],
    metrics: &'a Metrics,
) -> MeteredMachine<'a> {
    let used = used.iter().filter(|of| of.machine == number).copied().collect();
    MeteredMachine { number, profile, lock, used, metrics }
}

/// Mean number of operations of a machine that wait for entries of these caches. If operations return data
/// and their WQE was evicted, they wait until the NIC has read the WQE again.
fn waiting_for(machine: &MeteredMachine<'_>, cache: Resource, returns: bool) -> f64 {
    use doorbell_nic::NicCache::{QpRequester, QpResponder, Translation, Wqe};
    let units = [QpRequester, QpResponder, Translation, Wqe].into_iter().filter(|of| of.resource() == cache);
    let stalled: f64 = units.map(|of| machine.waiting(WaitKind::Entry(of))).sum();
    let read = machine.profile.device.pcie.read_latency.as_ps() as f64;
    let again = match cache {
        Resource::WqeCache if returns => {
            machine.misses(cache) as f64 * read / machine.metrics.window_ps.max(1) as f64
        }
        _ => 0.0,
    };
    stalled + again
}

/// The class of the bottleneck if a lock for atomics is always held. The NIC reads the word over PCIe while it
/// holds the lock, so PCIe latency limits the rate, unless more locks would be used in parallel.
fn lock_of(profile: &Profile, counters: Option<AtomicCounters>) -> Resource {
    let AtomicCounters { count, stride } = match counters {
        Some(counters) => counters,
        None => return Resource::PcieLatency,
    };
    let now = profile.device.atomics;
    let twice = doorbell_nic::Atomics { slots: now.slots.saturating_mul(2), ..now };
    let locks = |of: &doorbell_nic::Atomics| {
        let all = (0..u64::from(count).min(MOST_COUNTERS)).map(|at| of.slot(at * u64::from(stride)));
        all.collect::<std::collections::BTreeSet<u32>>().len()
    };
    if locks(&twice) > locks(&now) { Resource::AtomicLocks } else { Resource::PcieLatency }
}

/// So many counters show whether more locks would be used.
const MOST_COUNTERS: u64 = 8192;
