//! The bottleneck in words, from one run's utilizations or from reruns. Each rerun has more of one resource,
//! or of a set of resources.

use super::latency;
use super::relaxed::weight;
use super::together::{Set, towards_the_nic};
use crate::results::{BUSY, Bottleneck, Gain, OperationTime, Utilization, top};
use doorbell_nic::{More, Resource};

/// If a rerun multiplies a resource ([`More::Times`]) and the gain has at least this [`weight`], the resource
/// is named as the bottleneck, even if nothing is busy.
const SETS: f64 = 0.3;

/// With this weight or more, a faster resource limits the rate even if nothing is busy. With weight 1, the
/// rate grows in proportion to the resource.
pub(super) const ALONE: f64 = 0.8;

/// Whether this gain shows the bottleneck, however busy any part is.
fn is_enough(more: More, gain: Gain) -> bool {
    match more {
        More::Times(..) => weight(more, gain) >= SETS,
        More::Tenth(_) => weight(more, gain) >= ALONE,
    }
}

/// Formats a relative change: 0.1 is +10.0%. A change that rounds to zero has a plus sign.
pub fn percent(gain: f64) -> String {
    format!("{:+.1}%", (gain * 1000.0).round() / 10.0 + 0.0)
}

/// Formats a gain with the half-width of its interval. A gain that is below 1%, or smaller than the
/// half-width, is "none".
pub fn change(gain: Gain) -> String {
    match gain.half {
        _ if !gain.is_noticeable() => "none".to_owned(),
        Some(half) => format!("{} ± {:.1}%", percent(gain.gain), half * 100.0),
        None => percent(gain.gain),
    }
}

/// Whether some resource was busy enough to limit the rate. A core that polls for completions is always busy,
/// so cores count only if faster cores may raise the rate.
pub(super) fn is_busy(resources: &[Utilization], lifts: &[(More, Gain)]) -> bool {
    counting(resources, lifts)
        .any(|r| towards_the_nic(resources, r).unwrap_or(0.0).max(r.utilization) >= BUSY)
}

/// The resources that can limit the rate.
fn counting<'a>(
    resources: &'a [Utilization],
    lifts: &[(More, Gain)],
) -> impl Iterator<Item = &'a Utilization> {
    let cores = lifts.iter().any(|(more, gain)| *more == More::Tenth(Resource::Cpu) && gain.may_be_more());
    resources.iter().filter(move |r| cores || r.class() != Resource::Cpu)
}

/// Describes the gain `best`, and the largest noticeable gain from another resource.
fn evidence(lifts: &[(More, Gain)], best: Option<(More, Gain)>) -> String {
    let Some((more, gain)) = best else {
        return match lifts.iter().any(|(_, gain)| gain.may_be_more()) {
            true => "no increase of a single resource has a gain beyond its interval: measure for longer"
                .to_owned(),
            false => "no increase of a single resource raises the rate".to_owned(),
        };
    };
    let next = lifts.iter().find(|(other, gain)| other.resource() != more.resource() && gain.is_more());
    let next = next.map_or(String::new(), |(more, gain)| format!(", {more} by {}", percent(gain.gain)));
    format!("{more} changes the rate by {}{next}", percent(gain.gain))
}

/// The bottleneck according to reruns. `lifts` are the gains, largest first. `best` is the noticeable gain
/// with the largest [`weight`]. It is not always the first of `lifts`, because a resource that is doubled
/// gains more than one that grows by 10%. `set` is a set of resources that limit the rate together.
pub(super) fn observed(
    resources: &[Utilization],
    lifts: &[(More, Gain)],
    best: Option<(More, Gain)>,
    set: Option<&Set>,
    is_busy: bool,
    name: &dyn Fn(u32) -> String,
) -> Bottleneck {
    let evidence = evidence(lifts, best);
    let named = |resource: Resource| Bottleneck::found(resource, format!("{}: {evidence}", words(resource)));
    if let Some((more, _)) = best.filter(|(more, gain)| is_enough(*more, *gain)) {
        return named(more.resource());
    }
    if !is_busy {
        let idle = format!("no resource is busy {:.0}% of the time", BUSY * 100.0);
        let text = format!("{}: {idle}; {evidence}", words(Resource::Latency));
        return Bottleneck::found(Resource::Latency, text);
    }
    if let Some(set) = set {
        return together(set, best, &evidence);
    }
    match (best, top(counting(resources, lifts))) {
        (Some((more, _)), _) => named(more.resource()),
        (None, Some(busiest)) => {
            let text =
                format!("{} of {}: the most used, but {evidence}", busiest.meter, name(busiest.machine));
            Bottleneck::found(busiest.class(), text)
        }
        (None, None) => named(Resource::Latency),
    }
}

/// The bottleneck of an open loop that completes all due operations: the one of its single run.
pub(super) fn of_given_rate(alone: Bottleneck) -> Bottleneck {
    let text = format!("{}; the rate is the given one, so more of a resource does not raise it", alone.text);
    Bottleneck { text, ..alone }
}

/// The bottleneck if several resources limit the rate together.
fn together(set: &Set, best: Option<(More, Gain)>, alone: &str) -> Bottleneck {
    let first = set.all[0].resource();
    let own =
        best.map(|(more, _)| more.resource()).filter(|own| set.all.iter().any(|m| m.resource() == *own));
    let names = set.all.iter().map(|more| more.resource().name().to_owned()).collect();
    let text = format!(
        "{} limit the rate together: {} together change the rate by {}; {alone}",
        listed(names),
        listed(set.all.iter().map(More::to_string).collect()),
        percent(set.gain.gain),
    );
    Bottleneck::found(own.unwrap_or(first), text)
}

/// Joins names as in "a, b and c".
fn listed(names: Vec<String>) -> String {
    match &names[..] {
        [all @ .., last] if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        names => names.concat(),
    }
}

/// Adds the largest part of an operation's time to the description, if `time` is known.
pub(super) fn with_time(bottleneck: Bottleneck, time: Option<&OperationTime>) -> Bottleneck {
    let largest = time.and_then(latency::largest);
    let text = largest.map_or(bottleneck.text.clone(), |part| format!("{}; {part}", bottleneck.text));
    Bottleneck { text, ..bottleneck }
}

/// A sentence that says that this resource limits the rate.
pub fn words(resource: Resource) -> &'static str {
    match resource {
        Resource::Cpu => "the cores limit the rate",
        Resource::MmioBandwidth => "PCIe bandwidth for MMIOs limits the rate",
        Resource::DmaBandwidth => "PCIe bandwidth for the NIC's DMA reads limits the rate",
        Resource::DmaWriteBandwidth => "PCIe bandwidth for the NIC's DMA writes limits the rate",
        Resource::PcieLatency => "the latency of PCIe transactions limits the rate",
        Resource::TxUnits => "the NIC's sending processing units limit the rate",
        Resource::TxPipeline => "the pipeline of the NIC's sending units limits the rate",
        Resource::RxUnits => "the NIC's receiving processing units limit the rate",
        Resource::AtomicLocks => "the NIC's locks for atomics limit the rate",
        Resource::WqeCache => "misses in the NIC's WQE cache limit the rate",
        Resource::QpContextCache => "misses in the NIC's QP-context caches limit the rate",
        Resource::TranslationCache => "misses in the NIC's translation cache limit the rate",
        Resource::OutstandingReads => "the maximum of outstanding READs and atomics per QP limits the rate",
        Resource::PcieTags => "the maximum of the NIC's outstanding DMA reads limits the rate",
        Resource::WriteCombining => "the cores' write-combining buffers limit the rate",
        Resource::LinkBandwidth => "the link's bandwidth limits the rate",
        Resource::Latency => "too few operations are outstanding to cover the latency of an operation",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_nic::Part;
    use doorbell_sim::Meter;

    fn number(machine: u32) -> String {
        format!("machine {machine}")
    }

    fn used(part: Part, utilization: f64) -> Utilization {
        let meter = match part {
            Part::Core => Meter::core(0),
            Part::PortOut => Meter::port_out(1),
            part => Meter::of_device(part),
        };
        Utilization { meter, machine: 3, utilization }
    }

    fn gain(gain: f64) -> Gain {
        Gain { gain, half: Some(0.002) }
    }

    /// The bottleneck according to reruns with these gains.
    fn found(used: &[Utilization], lifts: &[(More, f64)], set: Option<&Set>) -> Bottleneck {
        let lifts: Vec<(More, Gain)> = lifts.iter().map(|(more, of)| (*more, gain(*of))).collect();
        let best = lifts.iter().find(|(_, gain)| gain.is_more()).copied();
        observed(used, &lifts, best, set, is_busy(used, &lifts), &number)
    }

    const DMA: More = More::Tenth(Resource::DmaBandwidth);
    const CPU: More = More::Tenth(Resource::Cpu);
    const CACHE: More = More::Times(Resource::QpContextCache, 2);

    #[test]
    fn no_change_is_no_loss() {
        let told = [0.1, -0.025, 0.0, -0.0, -0.0004, 1e-9].map(percent);
        assert_eq!(told, ["+10.0%", "-2.5%", "+0.0%", "+0.0%", "+0.0%", "+0.0%"]);
        assert_eq!(change(Gain { gain: 3.082, half: Some(0.004) }), "+308.2% ± 0.4%");
        assert_eq!(change(Gain { gain: 0.02, half: Some(0.03) }), "none");
    }

    #[test]
    fn the_largest_lift_names_the_bottleneck_of_a_busy_machine() {
        let lifts = [(DMA, 0.07), (CPU, 0.01)];
        assert_eq!(found(&[used(Part::PortOut, 0.97)], &lifts, None).class_name(), "dma-bw");
        let idle = found(&[used(Part::PortOut, 0.5)], &lifts, None);
        assert_eq!(idle.class_name(), "latency");
        assert!(idle.text.contains("dma-bw +10% changes the rate by +7.0%"), "{}", idle.text);
    }

    #[test]
    fn reruns_win_over_the_use_of_parts() {
        let link = More::Tenth(Resource::LinkBandwidth);
        let shared = found(&[used(Part::PortOut, 0.75)], &[(link, 0.102), (CPU, 0.01)], None);
        assert_eq!(shared.class_name(), "ib-bw");
        assert!(!shared.text.contains("outstanding"), "{}", shared.text);
    }

    #[test]
    fn a_cache_that_thrashes_is_named_though_nothing_is_busy() {
        for busy in [0.5, 0.97] {
            let cache = found(&[used(Part::PortOut, busy)], &[(CACHE, 3.0), (DMA, 0.05)], None);
            assert_eq!(cache.class_name(), "nic-qp-cache");
            assert!(cache.text.contains("nic-qp-cache x2 changes the rate by +300.0%, dma-bw +10% by +5.0%"));
        }
    }

    #[test]
    fn where_nothing_lifts_the_busiest_is_named() {
        let nothing = [(DMA, 0.004), (CPU, 0.0)];
        let found = found(&[used(Part::PortOut, 0.97)], &nothing, None);
        assert_eq!(found.class_name(), "ib-bw");
        assert!(found.text.contains("no increase of a single resource raises"), "{}", found.text);
    }

    #[test]
    fn a_core_that_only_waits_is_no_bottleneck() {
        let all = [used(Part::Core, 1.0), used(Part::PortOut, 0.9)];
        assert_eq!(found(&all, &[(CPU, 0.0)], None).class_name(), "ib-bw");
        assert_eq!(found(&all[..1], &[(CPU, 0.0)], None).class_name(), "latency");
        assert_eq!(found(&all[..1], &[(CPU, 0.07)], None).class_name(), "cpu");
    }

    #[test]
    fn resources_that_bind_together_are_named_together() {
        let mmio = More::Tenth(Resource::MmioBandwidth);
        let set = Set { all: vec![mmio, DMA], gain: gain(0.1) };
        let halves = [used(Part::PcieMmio, 0.5), used(Part::PcieReadCompletions, 0.49)];
        let both = found(&halves, &[(DMA, 0.05), (mmio, 0.045)], Some(&set));
        assert_eq!(both.class_name(), "dma-bw");
        assert!(
            both.text.starts_with(
                "mmio-bw and dma-bw limit the rate together: mmio-bw +10% and dma-bw +10% together change the \
                 rate by +10.0%"
            ),
            "{}",
            both.text
        );
    }
}
