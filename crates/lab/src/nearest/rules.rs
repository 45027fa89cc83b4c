//! The rules by which a bottleneck follows from the evidence of a single run.

use super::caches::{CacheClass, PerCache};
use super::evidence::{CLOSE, Evidence, Turn};
use super::stations::Station;
use crate::results::{BUSY, Bottleneck};
use doorbell_nic::{Part, Resource};

/// A part with at least this load has no idle time. Then a core with an equal load probably polls.
const SATURATED: f64 = 0.99;

/// If no part is busy, misses in a cache limit the rate if operations wait for entries for at least this
/// share of their latency. Larger caches may then raise the rate by more than anything else.
const MISSES: f64 = 0.05;

/// Elasticity of a cache is ten times the gain from it: caches are named even if a larger cache gains a tenth
/// of what a faster resource would.
const CACHE_WEIGHT: f64 = 10.0;

/// A cache is named for sure if the gain from it exceeds the needed gain by this factor.
const SURELY: f64 = 1.5;

/// DMA reads wait for tags if some read waits for at least this share of the time.
const SHORT: f64 = 0.8;

/// If the rate is below this share of the bound by the windows, operations spend most of their time waiting,
/// so enough operations are outstanding. The bound of outstanding READs limits the rate only from this share
/// on.
const WAITING: f64 = 0.5;

/// If operations mostly wait, the most used part limits the rate, unless its load is below this.
const USED: f64 = 0.5;

/// A bottleneck and its reason.
struct NearestResource {
    class: Resource,
    why: String,
    /// Whether reruns would probably find the same bottleneck.
    sure: bool,
}

/// A rule, which may not apply. The second argument names a machine.
type Rule = fn(&Evidence, &dyn Fn(u32) -> String) -> Option<NearestResource>;

/// The bottleneck, and whether it should be confirmed by reruns. `name` names a machine.
pub(super) fn nearest(evidence: &Evidence, name: &dyn Fn(u32) -> String) -> Bottleneck {
    let NearestResource { class, why, sure } = if evidence.reached {
        of_reached(evidence, name)
    } else {
        let rules: [Rule; 4] = [of_caches, of_tags, of_busy, of_waiting];
        rules.iter().find_map(|rule| rule(evidence, name)).unwrap_or_else(|| of_latency(evidence))
    };
    match sure {
        true => Bottleneck::found(class, why),
        false => Bottleneck::not_confirmed(class, why),
    }
}

impl Evidence {
    /// The station with the highest load.
    fn top(&self) -> Option<&Station> {
        self.stations.first()
    }

    /// The highest load of a station of another class than the station `top`. Cores do not count if `top` is
    /// saturated.
    fn second(&self, top: &Station) -> f64 {
        let counts = |other: &&Station| {
            other.class != top.class && (top.load < SATURATED || !other.is_core() || top.is_core())
        };
        self.stations.iter().filter(counts).map(|station| station.load).fold(0.0, f64::max)
    }

    /// The station with the highest load, if that is busy.
    fn busy(&self) -> Option<&Station> {
        self.top().filter(|top| top.load >= BUSY)
    }
}

/// An open loop that completes all due operations. No resource raises its rate, and a core that polls is no
/// limit.
fn of_reached(evidence: &Evidence, name: &dyn Fn(u32) -> String) -> NearestResource {
    let top = evidence.stations.iter().find(|station| !station.is_core() && station.load >= BUSY);
    match top {
        Some(top) => NearestResource {
            class: top.class,
            why: format!("all operations that are due complete; {}", used(top, name)),
            sure: true,
        },
        None => NearestResource {
            class: Resource::Latency,
            why: format!("all operations that are due complete: {}", idle()),
            sure: true,
        },
    }
}

/// Misses in caches, if the rate would be far higher without them.
fn of_caches(evidence: &Evidence, name: &dyn Fn(u32) -> String) -> Option<NearestResource> {
    let gains = PerCache::from_fn(|cache| evidence.gain(cache)).entries();
    let (cache, gain) = gains.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    let own = evidence.busy().map(|top| top.own() / top.load);
    let needed = own.map_or(MISSES, |own| own / CACHE_WEIGHT);
    if gain < needed {
        return None;
    }
    let sure = gain > needed * SURELY;
    let why = match evidence.busy() {
        Some(top) => format!(
            "misses in the NIC's {}: without them, {} would be busy for {} less time",
            cache.in_words(),
            part(top, name),
            percent(top.saved.get(cache) / top.load)
        ),
        None => format!(
            "misses in the NIC's {}: operations wait for entries during {} of their latency",
            cache.in_words(),
            percent(evidence.stalled.get(cache))
        ),
    };
    Some(NearestResource { class: cache.resource(), why, sure })
}

impl Evidence {
    /// Estimated relative gain in rate if this cache had no misses.
    fn gain(&self, cache: CacheClass) -> f64 {
        match self.busy() {
            Some(top) => {
                let left = self.stations.iter().map(|station| station.load - station.saved.get(cache));
                top.load / left.fold(0.01, f64::max) - 1.0
            }
            None => {
                let stalled = self.stalled.get(cache);
                stalled / (1.0 - stalled).max(0.01)
            }
        }
    }
}

/// DMA reads that wait for tags. A tag is in use during a PCIe round trip. So faster PCIe helps, too, and
/// twice as many tags help only as far as other resources allow.
fn of_tags(evidence: &Evidence, name: &dyn Fn(u32) -> String) -> Option<NearestResource> {
    let top = evidence.top()?;
    // Behind a busy part, reads keep their tags for longer, so more tags do not help.
    if evidence.tags < SHORT || top.load >= BUSY {
        return None;
    }
    let class = match (1.0 / top.load.max(0.5)).log2() > TAGS {
        true => Resource::PcieTags,
        false => Resource::PcieLatency,
    };
    let why = format!(
        "DMA reads wait for others to end {} of the time; most used: {}",
        percent(evidence.tags),
        used_part(top, name)
    );
    Some(NearestResource { class, why, sure: true })
}

/// More tags limit the rate, rather than PCIe latency, if the binary logarithm of their gain exceeds this.
const TAGS: f64 = 0.85;

/// A part that is busy.
fn of_busy(evidence: &Evidence, name: &dyn Fn(u32) -> String) -> Option<NearestResource> {
    let top = evidence.busy()?;
    let second = evidence.second(top);
    // Another class with an almost equal load may limit the rate instead.
    let sure = second < BUSY || top.load - second >= CLOSE;
    Some(NearestResource { class: top.class, why: used(top, name), sure })
}

/// Nothing is busy, but enough operations are outstanding.
fn of_waiting(evidence: &Evidence, name: &dyn Fn(u32) -> String) -> Option<NearestResource> {
    let sure = !evidence.stalls_unknown;
    if evidence.reads > evidence.window && evidence.reads >= WAITING {
        let why = format!(
            "the READs and atomics that QPs may have outstanding: the rate is {} of the most that they allow",
            percent(evidence.reads)
        );
        return Some(NearestResource { class: Resource::OutstandingReads, why, sure });
    }
    let top = evidence.top()?;
    if evidence.window == 0.0 || evidence.window >= WAITING || top.load < USED {
        return None;
    }
    let why = format!("{}; operations wait for most of their latency", used(top, name));
    Some(NearestResource { class: top.class, why, sure })
}

/// Too few operations are outstanding, or the program thinks for too long.
fn of_latency(evidence: &Evidence) -> NearestResource {
    let why = match evidence.turn {
        Some(Turn { all_ns, think_ns }) if think_ns > all_ns / 2.0 => format!(
            "think time takes {think_ns:.0} of the {all_ns:.0} ns from one post to the next in its place, and \
             too few operations are outstanding to cover it"
        ),
        Some(Turn { all_ns, .. }) => format!(
            "too few operations are outstanding, and the rate is {} of the most that the windows allow if an \
             operation takes {all_ns:.0} ns",
            percent(evidence.window)
        ),
        None => "too few operations are outstanding".to_owned(),
    };
    NearestResource {
        class: Resource::Latency,
        why: format!("{}: {why}", idle()),
        sure: !evidence.stalls_unknown,
    }
}

fn idle() -> String {
    format!("no resource is busy {} of the time", percent(BUSY))
}

/// A share as a whole percentage.
fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

/// A station in words.
fn part(station: &Station, name: &dyn Fn(u32) -> String) -> String {
    format!("{} of {}", station.meter, name(station.machine))
}

fn used_part(station: &Station, name: &dyn Fn(u32) -> String) -> String {
    let both = match station.meter.part() {
        Part::PcieMmio => ", with read completions",
        Part::PcieReadCompletions => ", with MMIO",
        Part::BusiestLock if station.class == Resource::PcieLatency => ", mostly for a PCIe read",
        _ => "",
    };
    format!("{}, {} of the time{both}", part(station, name), percent(station.load))
}

fn used(station: &Station, name: &dyn Fn(u32) -> String) -> String {
    format!("most used: {}", used_part(station, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_sim::Meter;

    fn station(part: Part, load: f64) -> Station {
        let meter = match part {
            Part::Core => Meter::core(0),
            Part::PortOut => Meter::port_out(1),
            part => Meter::of_device(part),
        };
        Station { meter, machine: 3, class: part.resource(), load, saved: PerCache::default() }
    }

    fn of_contexts(value: f64) -> PerCache {
        PerCache { qp_context: value, ..PerCache::default() }
    }

    fn found(evidence: &Evidence) -> Bottleneck {
        nearest(evidence, &|machine| format!("machine {machine}"))
    }

    fn busy(stations: &[Station]) -> Evidence {
        Evidence { stations: stations.to_vec(), window: 0.9, ..Evidence::default() }
    }

    #[test]
    fn the_most_used_part_is_named_if_it_is_busy() {
        let link = found(&busy(&[station(Part::PortOut, 0.97), station(Part::Core, 0.9)]));
        assert_eq!(link.in_table(), "ib-bw");
        assert_eq!(link.text, "most used: port 1 out of machine 3, 97% of the time");
        assert_eq!(found(&busy(&[station(Part::PortOut, 0.7)])).in_table(), "latency");
    }

    #[test]
    fn parts_that_are_about_equally_busy_are_not_confirmed() {
        let close = found(&busy(&[station(Part::PortOut, 0.97), station(Part::PcieToHost, 0.965)]));
        assert_eq!(close.in_table(), "ib-bw, not confirmed");
        assert!(close.text.ends_with("(not confirmed by reruns)"), "{}", close.text);
    }

    #[test]
    fn a_core_that_is_as_busy_as_a_saturated_part_polls() {
        let link = found(&busy(&[station(Part::PortOut, 1.0), station(Part::Core, 1.0)]));
        assert_eq!(link.in_table(), "ib-bw");
    }

    #[test]
    fn an_open_loop_that_reaches_its_rate_is_not_limited_by_its_cores() {
        let loops = |reached| Evidence { reached, ..busy(&[station(Part::Core, 0.99)]) };
        assert_eq!(found(&loops(true)).in_table(), "latency");
        assert_eq!(found(&loops(false)).in_table(), "cpu");
    }

    #[test]
    fn misses_are_named_if_the_rate_would_be_far_higher_without_them() {
        let units = |saved| Station { saved: of_contexts(saved), ..station(Part::ReceivingUnits, 0.98) };
        let class = |saved| found(&busy(&[units(saved), station(Part::PortOut, 0.3)])).class_name();
        assert_eq!((class(0.5), class(0.02)), ("nic-qp-cache", "nic-rx-pu"));
        // Without misses, another part would be as busy.
        let bound = found(&busy(&[units(0.5), station(Part::PortOut, 0.97)]));
        assert_eq!(bound.class_name(), "nic-rx-pu");
    }

    #[test]
    fn operations_that_wait_are_not_too_few() {
        let waits = |window, reads| Evidence { window, reads, ..busy(&[station(Part::PortOut, 0.7)]) };
        assert_eq!(found(&waits(0.1, 0.0)).in_table(), "ib-bw");
        assert_eq!(found(&waits(0.9, 0.0)).in_table(), "latency");
        assert_eq!(found(&waits(0.4, 0.9)).in_table(), "rd-atomic");
    }

    #[test]
    fn outstanding_reads_are_named_only_near_their_bound() {
        // All to all, operations queue at the ports of some machines, so no port is used 80% of the time.
        let queues = Evidence { window: 0.1, reads: 0.4, ..busy(&[station(Part::PortOut, 0.75)]) };
        assert_eq!(found(&queues).in_table(), "ib-bw");
    }

    #[test]
    fn a_latency_bottleneck_names_think_time_and_states_the_time_of_its_bound() {
        let text = |turn| found(&Evidence { turn, window: 0.97, ..Evidence::default() }).text;
        let thinks = text(Some(Turn { all_ns: 22_008.0, think_ns: 20_000.0 }));
        assert!(thinks.contains("think time takes 20000 of the 22008 ns"), "{thinks}");
        let quick = text(Some(Turn { all_ns: 2008.0, think_ns: 0.0 }));
        assert!(quick.contains("97% of the most that the windows allow if an operation takes 2008 ns"));
        assert!(text(None).ends_with("too few operations are outstanding"), "{}", text(None));
    }

    #[test]
    fn latency_is_not_confirmed_if_the_share_of_misses_is_unknown() {
        let unknown = Evidence { stalls_unknown: true, ..Evidence::default() };
        assert_eq!(found(&unknown).in_table(), "latency, not confirmed");
    }

    #[test]
    fn a_cache_that_barely_meets_the_rule_is_not_confirmed() {
        let stalled = |share| found(&Evidence { stalled: of_contexts(share), ..Evidence::default() });
        assert_eq!(stalled(0.04).in_table(), "latency");
        assert_eq!(stalled(0.06).in_table(), "nic-qp-cache, not confirmed");
        assert_eq!(stalled(0.2).in_table(), "nic-qp-cache");
    }

    #[test]
    fn reads_that_wait_for_tags_are_named() {
        let short = |load| Evidence { tags: 0.95, ..busy(&[station(Part::PcieReadCompletions, load)]) };
        assert_eq!(
            (found(&short(0.3)).class_name(), found(&short(0.7)).class_name()),
            ("pcie-tags", "pcie-rtt")
        );
        assert_eq!(found(&short(0.85)).class_name(), "dma-bw");
    }
}
