//! Everything about a run from which its bottleneck follows.

use super::caches::{CacheClass, PerCache};
use super::stations::{MeteredMachine, Station};
use crate::asked::SystemWorkload;
use crate::results::{RawRun, Shown, Utilization, is_reached};
use doorbell_nic::limits::{InFlight, Limit};
use doorbell_nic::{Profile, Resource};
use doorbell_sim::{Metrics, WaitKind};
use doorbell_workload::limits::{limits, outstanding};
use doorbell_workload::{AtomicCounters, Profiles, Resolved, ResolvedClass};

/// If the bound of the cores is below this share of their use, cores spend most of their passes on looking
/// for work, and the bound counts.
const LOOKING: f64 = 0.7;

/// Loads are about equal if they differ by less than this.
pub(super) const CLOSE: f64 = 0.01;

/// Everything about a run from which its bottleneck follows.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    /// All stations, the highest load first. About equal loads are in the order of [`Evidence::sorted`].
    pub(super) stations: Vec<Station>,
    /// Class of the lowest bound, if there are bounds.
    pub(super) lowest: Option<Resource>,
    /// Rate, divided by the bound of the windows; 0 if there is no such bound.
    pub(super) window: f64,
    /// Rate, divided by the bound of the outstanding READs and atomics; 0 if there is no such bound.
    pub(super) reads: f64,
    /// The least time of an operation and of the think time after it; `None` for systems, and for threads in
    /// several classes.
    pub(super) turn: Option<Turn>,
    /// Share of the latency of an operation for which units stall for entries of each class of caches.
    pub(super) stalled: PerCache,
    /// Whether units stall for entries, but the share of the latency is unknown.
    pub(super) stalls_unknown: bool,
    /// Largest share of the time in which DMA reads of a NIC wait for a tag.
    pub(super) tags: f64,
    /// Whether an open loop completes all operations that are due.
    pub(super) reached: bool,
}

/// The least time from the post of an operation to the next post in its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Turn {
    /// Nanoseconds, including the think time.
    pub(super) all_ns: f64,
    /// Nanoseconds for which the program thinks.
    pub(super) think_ns: f64,
}

/// Rate and latency of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunPace {
    /// Millions of completed operations per second, and the half-width of their interval, if known.
    mops: f64,
    mops_half: Option<f64>,
    /// Mean latency in nanoseconds, if known.
    mean_ns: Option<f64>,
    /// Measured time.
    seconds: f64,
    /// Whether operations are due faster than they complete.
    overload: bool,
}

impl RunPace {
    pub(super) fn of(mops: f64, shown: &Shown) -> RunPace {
        let (certainty, seconds) = (&shown.certainty, shown.span().as_secs_f64());
        RunPace {
            mops,
            mops_half: certainty.mops,
            mean_ns: shown.latency.mean,
            seconds,
            overload: certainty.overload,
        }
    }

    /// Mean number of operations in flight, by Little's law; `None` if the latency is unknown.
    fn in_flight(self) -> Option<f64> {
        Some(self.mops * self.mean_ns? / 1e3)
    }

    /// Whether an open loop completes all operations that are due, apart from chance. `due` is their number
    /// per second; `None` in a closed loop.
    fn is_reached(self, due: Option<u64>) -> bool {
        !self.overload && is_reached(due, (self.mops, self.mops_half), self.seconds)
    }
}

impl Evidence {
    pub(super) fn of_verbs(profiles: &Profiles, w: &Resolved, run: &RawRun, pace: RunPace) -> Evidence {
        let used: Vec<Utilization> = run.metrics.resources.iter().map(Utilization::from).collect();
        let of_group = |(profile, machines): (_, std::ops::Range<u32>)| {
            let lock = lock_of(profile, w.counters);
            machines.map(move |_| (profile, lock))
        };
        let kinds: Vec<(&Profile, Resource)> = profiles.all().zip(w.groups()).flat_map(of_group).collect();
        let machines = MeteredMachine::all(&kinds, &used, &run.metrics);
        let returns = w.operations().iter().any(|operation| operation.opcode.returns_data());
        let classes = w.classes();
        let due: Option<u64> =
            classes.iter().map(|class| class.workload.open_loop().map(|(_, rate)| rate)).sum();
        // Without a latency, the windows are taken to be full.
        let windows: u64 = classes.iter().map(|class| outstanding(class.workload)).sum();
        let mut evidence = Evidence::of(&machines, pace.in_flight().or(Some(windows as f64)), returns);
        evidence.reached = pace.is_reached(due);
        evidence.lowest = limits(profiles, w).first().map(|limit| limit.resource);
        evidence.bounds(profiles, &classes, run, pace.mops);
        evidence.sorted()
    }

    pub(super) fn of_system(
        profile: &Profile,
        w: &SystemWorkload,
        used: &[Utilization],
        metrics: &Metrics,
        pace: RunPace,
    ) -> Evidence {
        let kinds = vec![(profile, Resource::PcieLatency); w.machines() as usize];
        let machines = MeteredMachine::all(&kinds, used, metrics);
        let evidence = Evidence::of(&machines, pace.in_flight(), false);
        Evidence { reached: pace.is_reached(w.rate()), ..evidence }.sorted()
    }

    /// The part of the evidence that all kinds of runs have. `in_flight` is the mean number of operations in
    /// flight, if known. `returns` tells whether operations return data.
    fn of(machines: &[MeteredMachine<'_>], in_flight: Option<f64>, returns: bool) -> Evidence {
        let waiting =
            PerCache::from_fn(|cache| machines.iter().map(|m| waiting_for(m, cache, returns)).sum());
        let share = |waiting: f64| in_flight.map_or(0.0, |all| (waiting / all.max(1e-9)).min(1.0));
        Evidence {
            stations: machines.iter().flat_map(MeteredMachine::stations).collect(),
            stalled: waiting.map(share),
            stalls_unknown: in_flight.is_none()
                && waiting.entries().iter().any(|(_, waiting)| *waiting > 0.0),
            tags: machines.iter().map(|m| m.waiting(WaitKind::Tag)).fold(0.0, f64::max),
            ..Evidence::default()
        }
    }

    /// Compares the rate with the bounds that no meter shows: windows, outstanding READs, and the work of
    /// cores without their polling.
    fn bounds(&mut self, profiles: &Profiles, classes: &[ResolvedClass<'_>], run: &RawRun, mops: f64) {
        let completed: u64 = run.classes.iter().map(|class| class.completed).sum();
        let mut cores: f64 = 0.0;
        for (class, ran) in classes.iter().zip(&run.classes) {
            let own = mops * ran.completed as f64 / completed.max(1) as f64;
            let all = limits(profiles, class.workload);
            self.window = self.window.max(nearest(&all, own, is_by(InFlight::Window)));
            self.reads = self.reads.max(nearest(&all, own, is_by(InFlight::Reads)));
            cores = cores.max(nearest(&all, own, |limit| limit.resource == Resource::Cpu));
            let windows = all.iter().find(|limit| limit.in_flight == Some(InFlight::Window));
            self.turn = windows.map(|limit| Turn {
                all_ns: limit.capacity / limit.mops,
                think_ns: class.workload.think().map_or(0.0, |think| think.span().as_ps() as f64 / 1e3),
            });
        }
        self.turn = self.turn.filter(|_| classes.len() == 1);
        for core in self.stations.iter_mut().filter(|station| station.is_core()) {
            core.load = if cores < LOOKING * core.load { cores } else { core.load };
        }
    }

    /// Sorts the stations. Of about equal loads, the class of the lowest bound comes first. Cores come last,
    /// because polls account for an unknown part of their load.
    fn sorted(mut self) -> Evidence {
        let lowest = self.lowest;
        let rank = |station: &Station| {
            let of_bound = if lowest == Some(station.class) { CLOSE } else { 0.0 };
            let of_polls = if station.is_core() { CLOSE } else { 0.0 };
            station.load + of_bound - of_polls
        };
        self.stations.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
        self
    }
}

/// Whether a bound follows from the number of outstanding operations of this kind.
fn is_by(by: InFlight) -> impl Fn(&Limit) -> bool {
    move |limit| limit.in_flight == Some(by)
}

/// The rate, divided by the lowest of these bounds; 0 if there is none.
fn nearest(limits: &[Limit], mops: f64, of: impl Fn(&Limit) -> bool) -> f64 {
    limits.iter().filter(|limit| of(limit)).map(|limit| mops / limit.mops).fold(0.0, f64::max)
}

/// Mean number of operations of a machine that wait for entries of these caches. If operations return data
/// and their WQE was evicted, they wait until the NIC has read the WQE again. With a store of requests, units
/// stall instead.
fn waiting_for(machine: &MeteredMachine<'_>, cache: CacheClass, returns: bool) -> f64 {
    let stalled: f64 = cache.caches().iter().map(|of| machine.waiting(WaitKind::Entry(*of))).sum();
    let read = machine.profile.device.pcie.read_latency.as_ps() as f64;
    let again = match cache {
        CacheClass::Wqe if returns && machine.profile.device.requests.is_none() => {
            machine.misses(cache) as f64 * read / machine.window_ps
        }
        _ => 0.0,
    };
    stalled + again
}

/// The class of the bottleneck if a lock for atomics is always held. The NIC reads the word over PCIe while
/// it holds the lock, so PCIe latency limits the rate, unless more locks would be used in parallel.
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

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_nic::Part;
    use doorbell_sim::Meter;

    /// A run of 100 us at this rate.
    fn pace(mops: f64, mops_half: Option<f64>) -> RunPace {
        RunPace { mops, mops_half, mean_ns: None, seconds: 1e-4, overload: false }
    }

    #[test]
    fn the_lowest_bound_is_named_first_and_cores_last() {
        let station = |meter: Meter, load| Station {
            meter,
            machine: 0,
            class: meter.part().resource(),
            load,
            saved: PerCache::default(),
        };
        let order = |lowest| {
            let dma = Meter::of_device(Part::PcieReadCompletions);
            let stations =
                vec![station(Meter::core(0), 1.0), station(dma, 1.0), station(Meter::port_out(1), 0.995)];
            let all = Evidence { stations, lowest, ..Evidence::default() }.sorted().stations;
            all.iter().map(|station| station.class.name()).collect::<Vec<_>>()
        };
        assert_eq!(order(None), ["dma-bw", "ib-bw", "cpu"]);
        assert_eq!(order(Some(Resource::LinkBandwidth)), ["ib-bw", "dma-bw", "cpu"]);
    }

    #[test]
    fn a_short_open_loop_misses_operations_by_chance() {
        for (due, mops, half, reached) in [
            // 100 operations are due.
            (1_000_000, 0.86, Some(0.19), true),
            (1_000_000, 0.86, None, true),
            (1_000_000, 0.69, None, false),
            (1_000_000, 0.86, Some(0.02), false),
            // 10000 operations are due.
            (100_000_000, 98.0, Some(0.1), true),
            (100_000_000, 94.0, Some(10.0), false),
        ] {
            assert_eq!(pace(mops, half).is_reached(Some(due)), reached, "{mops} of {due}, {half:?}");
        }
        assert!(!pace(1.0, None).is_reached(None), "a closed loop has no due operations");
        assert!(!RunPace { overload: true, ..pace(1.0, None) }.is_reached(Some(1_000_000)));
    }
}
