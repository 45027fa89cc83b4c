//! Reruns with more of several resources at once, for runs in which no single resource sets the rate.

use super::asker::{Asker, gain};
use super::relaxed::misses;
use crate::plan::Run;
use crate::results::{Gain, Outcome, Utilization};
use doorbell_nic::{More, Part, Resource};
use std::collections::BTreeMap;

/// Largest number of resources that are increased together.
const MOST: usize = 4;

/// A resource that is busy for at least this share of the time may limit the rate together with other
/// resources.
const USED: f64 = 0.4;

/// A cache in which at least this share of lookups misses may limit the rate together with other resources.
const MISSES: f64 = 0.05;

/// A set counts only if its gain exceeds the gain of the best single resource by at least this much.
const BEYOND: f64 = 0.01;

/// Several resources, and the gain from more of all of them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Set {
    pub(super) all: Vec<More>,
    pub(super) gain: Gain,
}

/// The best pair of busy resources whose gain exceeds `alone` by enough. If there is none, the set of all
/// busy resources, if its gain does. `alone` is the gain of the best single resource.
pub(super) fn smallest<E>(
    base: &Outcome,
    run: &Run,
    alone: f64,
    ask: &mut Asker<'_, E>,
) -> Result<Option<Set>, E> {
    let busy = busiest(base);
    let pair = |i: usize| busy[i + 1..].iter().map(move |other| (i, *other));
    let pairs: Vec<Vec<More>> =
        (0..busy.len()).flat_map(pair).map(|(i, other)| vec![busy[i], other]).collect();
    let found = best(base, run, &pairs, alone, ask)?;
    if found.is_some() || busy.len() < 3 || alone >= BEYOND {
        return Ok(found);
    }
    best(base, run, &[busy], alone, ask)
}

/// The set with the largest gain, among the sets whose gain exceeds `alone` by enough.
fn best<E>(
    base: &Outcome,
    run: &Run,
    sets: &[Vec<More>],
    alone: f64,
    ask: &mut Asker<'_, E>,
) -> Result<Option<Set>, E> {
    let name = |set: &Vec<More>| set.iter().map(More::to_string).collect::<Vec<_>>().join(", ");
    let runs: Vec<(String, Run)> = sets.iter().map(|set| (name(set), run.with(set))).collect();
    let made = sets.iter().zip(ask(&runs)?);
    let lifted = made.filter_map(|(set, ran)| Some(Set { all: set.clone(), gain: gain(base, &ran?) }));
    let beyond = |set: &Set| {
        let more = set.gain.gain - alone.max(0.0);
        set.gain.is_more() && more >= BEYOND.max(set.gain.half.unwrap_or(0.0))
    };
    Ok(lifted.filter(beyond).max_by(|a, b| a.gain.gain.total_cmp(&b.gain.gain)))
}

/// Increases of the most used resources, busiest first, and then of caches with misses.
fn busiest(base: &Outcome) -> Vec<More> {
    let loads = loads(&base.used());
    let mut used: Vec<(Resource, f64)> = loads.into_iter().filter(|(_, load)| *load >= USED).collect();
    used.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut all: Vec<More> = used.into_iter().map(|(resource, _)| More::Tenth(resource)).collect();
    let caches = Resource::COUNTED.into_iter().filter(|r| r.is_cache() && misses(base, *r) >= MISSES);
    let caches: Vec<More> = caches.map(|cache| More::Times(cache, 2)).collect();
    all.truncate(MOST.saturating_sub(caches.len()));
    all.extend(caches);
    all
}

/// For each resource, the utilization of its busiest part. MMIOs and read completions share one direction of
/// PCIe, so their utilizations of this direction add up.
fn loads(used: &[Utilization]) -> BTreeMap<Resource, f64> {
    let mut loads: BTreeMap<Resource, f64> = BTreeMap::new();
    for r in used {
        let load = loads.entry(r.class()).or_default();
        *load = load.max(towards_the_nic(used, r).unwrap_or(r.utilization));
    }
    loads
}

/// Utilization of the PCIe direction towards the NIC; `None` if `part` does not use this direction, or
/// hardly.
pub(super) fn towards_the_nic(used: &[Utilization], part: &Utilization) -> Option<f64> {
    let shares = |part: Part| matches!(part, Part::PcieMmio | Part::PcieReadCompletions);
    let same = |other: &&Utilization| {
        let (own, other_meter) = (part.meter, other.meter);
        shares(other_meter.part()) && other.machine == part.machine && other_meter.device() == own.device()
    };
    // A part that hardly uses this direction does not limit the rate.
    let takes_part = shares(part.meter.part()) && part.utilization > 0.05;
    takes_part.then(|| used.iter().filter(same).map(|r| r.utilization).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_sim::Meter;

    fn used(meter: Meter, machine: u32, utilization: f64) -> Utilization {
        Utilization { meter, machine, utilization }
    }

    #[test]
    fn a_direction_is_busy_with_all_that_passes_it() {
        let all = [
            used(Meter::of_device(Part::PcieMmio), 0, 0.5),
            used(Meter::of_device(Part::PcieReadCompletions), 0, 0.45),
            used(Meter::of_device(Part::PcieReadCompletions), 1, 0.6),
            used(Meter::port_out(1), 0, 0.3),
        ];
        let loads = loads(&all);
        assert_eq!(loads[&Resource::MmioBandwidth], 0.95);
        assert_eq!(loads[&Resource::DmaBandwidth], 0.95);
        assert_eq!(loads[&Resource::LinkBandwidth], 0.3);
    }
}
