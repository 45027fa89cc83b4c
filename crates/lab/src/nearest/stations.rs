//! The parts of the machines that serve one thing at a time, and their loads.

use super::caches::{CacheClass, PerCache};
use crate::results::Utilization;
use doorbell_nic::cost::Costs;
use doorbell_nic::{Part, Profile, Resource, wqe};
use doorbell_sim::{CacheUse, Meter, Metrics, WaitKind, WaitUse};

/// A part of a machine that serves one thing at a time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Station {
    /// The part's meter. PCIe towards the NIC has two meters; this is the one with more use.
    pub(super) meter: Meter,
    pub(super) machine: u32,
    /// Class of the part as a bottleneck.
    pub(super) class: Resource,
    /// Share of the measured time in which the part is busy. A core that waits for the PCIe link is not.
    pub(super) load: f64,
    /// The parts of `load` that would be saved without misses in the caches of each class.
    pub(super) saved: PerCache,
}

impl Station {
    /// The load without misses in any cache.
    pub(super) fn own(&self) -> f64 {
        (self.load - self.saved.sum()).max(0.0)
    }

    pub(super) fn is_core(&self) -> bool {
        self.class == Resource::Cpu
    }
}

/// A machine, with the measurements of a run.
pub(super) struct MeteredMachine<'a> {
    pub(super) profile: &'a Profile,
    /// Class of the bottleneck if a lock for atomics is always held.
    lock: Resource,
    /// Resources of this machine that operations depend on.
    used: Vec<Utilization>,
    waits: Vec<&'a WaitUse>,
    caches: Vec<&'a CacheUse>,
    /// Picoseconds of the measurement; at least 1.
    pub(super) window_ps: f64,
}

impl<'a> MeteredMachine<'a> {
    /// All machines, in the order of their numbers. `kinds` has the profile of each machine, and the class of
    /// the bottleneck if one of its locks for atomics is always held. `used` has the resources that
    /// operations depend on.
    pub(super) fn all(
        kinds: &[(&'a Profile, Resource)],
        used: &[Utilization],
        metrics: &'a Metrics,
    ) -> Vec<MeteredMachine<'a>> {
        let machine = |&(profile, lock): &(&'a Profile, Resource)| MeteredMachine {
            profile,
            lock,
            used: Vec::new(),
            waits: Vec::new(),
            caches: Vec::new(),
            window_ps: metrics.window_ps.max(1) as f64,
        };
        let mut all: Vec<MeteredMachine<'a>> = kinds.iter().map(machine).collect();
        used.iter().for_each(|of| all[of.machine as usize].used.push(*of));
        metrics.waits.iter().for_each(|of| all[of.machine as usize].waits.push(of));
        metrics.caches.iter().for_each(|of| all[of.machine as usize].caches.push(of));
        all
    }

    /// All stations of the machine.
    pub(super) fn stations(&self) -> Vec<Station> {
        self.used.iter().filter_map(|part| self.station(part)).collect()
    }

    /// Mean number of units or cores of this machine that wait in this way.
    pub(super) fn waiting(&self, kind: WaitKind) -> f64 {
        self.waits.iter().filter(|wait| wait.kind == kind).map(|wait| wait.mean).sum()
    }

    /// Number of misses in the caches of this class.
    pub(super) fn misses(&self, class: CacheClass) -> u64 {
        self.caches.iter().filter(|of| CacheClass::of(of.cache) == class).map(|of| of.misses).sum()
    }

    /// The use of another part of the same device.
    fn beside(&self, meter: Meter, part: Part) -> f64 {
        let same = |of: &&Utilization| of.meter.part() == part && of.meter.device() == meter.device();
        self.used.iter().find(same).map_or(0.0, |of| of.utilization)
    }

    fn devices(&self) -> f64 {
        let devices = self.used.iter().filter(|of| of.meter.part() == Part::PcieToHost).count();
        devices.max(1) as f64
    }

    /// The station that the meter of this part stands for; `None` if the meter of another part does.
    fn station(&self, of: &Utilization) -> Option<Station> {
        let Utilization { meter, machine, utilization: used } = *of;
        let simple = Station { meter, machine, class: of.class(), load: used, saved: PerCache::default() };
        Some(match meter.part() {
            Part::Core => {
                let stalled = meter.number().map_or(0.0, |core| self.waiting(WaitKind::Buffer(core)));
                Station { load: (used - stalled).max(0.0), ..simple }
            }
            Part::PcieMmio | Part::PcieReadCompletions => return self.to_nic(simple),
            Part::PcieToHost => {
                Station { saved: self.saved_of_link(|costs, b| costs.pcie.read_requests(b)), ..simple }
            }
            Part::SendingUnits => self.units(simple, Part::BusiestSendingUnit, self.stalls_sending()),
            Part::ReceivingUnits => self.units(simple, Part::BusiestReceivingUnit, self.stalls_receiving()),
            Part::BusiestSendingUnit | Part::BusiestReceivingUnit => return None,
            Part::BusiestLock => Station { class: self.lock, ..simple },
            Part::SendingPipeline | Part::PortOut | Part::PortIn => simple,
        })
    }

    /// PCIe towards the NIC, at the meter with more use.
    fn to_nic(&self, one: Station) -> Option<Station> {
        let mmio = one.meter.part() == Part::PcieMmio;
        let other = if mmio { Part::PcieReadCompletions } else { Part::PcieMmio };
        let beside = self.beside(one.meter, other);
        let is_more = if mmio { one.load > beside } else { one.load >= beside };
        is_more.then(|| Station {
            load: one.load + beside,
            saved: self.saved_of_link(|costs, bytes| costs.pcie.completions(bytes)),
            ..one
        })
    }

    /// Units. A QP or a flow has one unit at a time, which may be busier than the units on average.
    fn units(&self, mean: Station, busiest: Part, stalls: PerCache) -> Station {
        let load = mean.load.max(self.beside(mean.meter, busiest));
        // The busiest unit stalls as often as the others, relative to its work.
        let scale = if mean.load > 0.0 { load / mean.load } else { 0.0 };
        Station { load, saved: stalls.map(|stall| stall * scale), ..mean }
    }

    /// Share of the time for which sending units stall for entries of each cache.
    fn stalls_sending(&self) -> PerCache {
        let units = f64::from(self.profile.device.tx.units) * self.devices();
        let of = |cache| self.waiting(WaitKind::Entry(cache)) / units;
        use doorbell_nic::NicCache::{QpRequester, Translation, Wqe};
        PerCache {
            wqe: of(Wqe),
            qp_context: of(QpRequester),
            translation: self.translations_when(true) * of(Translation),
        }
    }

    /// Share of the time for which receiving units stall for entries of each cache.
    fn stalls_receiving(&self) -> PerCache {
        let units = f64::from(self.profile.device.rx.units) * self.devices();
        let of = |cache| self.waiting(WaitKind::Entry(cache)) / units;
        use doorbell_nic::NicCache::{QpResponder, Translation, WqeInFlight};
        PerCache {
            wqe: of(WqeInFlight),
            qp_context: of(QpResponder),
            translation: self.translations_when(false) * of(Translation),
        }
    }

    /// 1 if the busier units of the machine are sending units (or receiving units), else 0. Both wait for
    /// translations, and the meter does not distinguish them.
    fn translations_when(&self, sending: bool) -> f64 {
        let most = |part: Part| {
            let all = self.used.iter().filter(|of| of.meter.part() == part);
            all.map(|of| of.utilization).fold(0.0, f64::max)
        };
        f64::from(u8::from((most(Part::SendingUnits) > most(Part::ReceivingUnits)) == sending))
    }

    /// Share of the time for which the reads of missing entries use a direction of the PCIe link. `time` is
    /// the time of a read of so many bytes, in picoseconds.
    fn saved_of_link(&self, time: impl Fn(&Costs, u64) -> u64) -> PerCache {
        let (costs, caches) = (Costs::new(self.profile), &self.profile.device.caches);
        let bytes_of = |class| match class {
            CacheClass::Wqe => wqe::LINE,
            CacheClass::QpContext => caches.context,
            CacheClass::Translation => caches.translation,
        };
        let window = self.window_ps * self.devices();
        PerCache::from_fn(|class| {
            self.misses(class) as f64 * time(&costs, bytes_of(class).into()) as f64 / window
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_nic::NicCache;

    fn metrics(kind: WaitKind, mean: f64) -> Metrics {
        let waits = vec![WaitUse { kind, machine: 0, mean }];
        Metrics { waits, window_ps: 1_000_000, ..Metrics::default() }
    }

    /// The stations of machine 0 of profile cib, with this use of its parts.
    fn stations(metrics: &Metrics, used: &[(Meter, f64)]) -> Vec<Station> {
        let profile = Profile::named("cib").expect("it is built in");
        let used = used.iter().map(|&(meter, utilization)| Utilization { meter, machine: 0, utilization });
        let used: Vec<Utilization> = used.collect();
        MeteredMachine::all(&[(&profile, Resource::PcieLatency)], &used, metrics)[0].stations()
    }

    #[test]
    fn a_core_that_waits_for_the_link_is_not_busy() {
        let all =
            stations(&metrics(WaitKind::Buffer(1), 0.75), &[(Meter::core(0), 1.0), (Meter::core(1), 1.0)]);
        assert_eq!(all.iter().map(|core| core.load).collect::<Vec<_>>(), [1.0, 0.25]);
    }

    #[test]
    fn both_uses_of_a_direction_are_one_station() {
        let (mmio, completions) =
            (Meter::of_device(Part::PcieMmio), Meter::of_device(Part::PcieReadCompletions));
        let all = stations(&Metrics::default(), &[(mmio, 0.25), (completions, 0.5)]);
        let [one] = &all[..] else { panic!("{all:?}") };
        assert_eq!((one.class, one.load), (Resource::DmaBandwidth, 0.75));
    }

    #[test]
    fn units_lose_the_time_for_which_they_wait_for_contexts() {
        // Half of the 16 receiving units wait. The busiest flow has a unit for all of the time.
        let waits = metrics(WaitKind::Entry(NicCache::QpResponder), 8.0);
        let (mean, busiest) =
            (Meter::of_device(Part::ReceivingUnits), Meter::of_device(Part::BusiestReceivingUnit));
        let all = stations(&waits, &[(mean, 0.5), (busiest, 1.0)]);
        let [units] = &all[..] else { panic!("{all:?}") };
        assert_eq!((units.load, units.saved), (1.0, PerCache { qp_context: 1.0, ..PerCache::default() }));
    }

    #[test]
    fn reads_of_missing_entries_use_the_link() {
        let cache = CacheUse { cache: NicCache::QpRequester, machine: 0, hits: 0, misses: 10 };
        let metrics = Metrics { caches: vec![cache], window_ps: 1_000_000, ..Metrics::default() };
        let all = stations(&metrics, &[(Meter::of_device(Part::PcieReadCompletions), 0.9)]);
        // A context of 256 B takes two completions of 128 B: 19.5 ns in 1 us, ten times.
        let PerCache { wqe: saved_of_wqes, qp_context: saved, .. } = all[0].saved;
        assert!(saved_of_wqes == 0.0 && (0.19..0.21).contains(&saved), "{all:?}");
    }
}
