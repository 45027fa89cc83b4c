//! Finds the bottleneck of a run. A *rerun* repeats the run with more of one resource, or of several. The
//! caller supplies the code that makes reruns.

use super::asker::{Asker, Depth, Lifted};
use super::relaxed::{self, singles, weight};
use super::together::{Set, smallest};
use super::{bottleneck, latency};
use crate::plan::Run;
use crate::results::{Bottleneck, Gain, Lift, OperationTime, Outcome, OutcomeOf, TogetherLift};
use doorbell_nic::{More, Resource};

/// A run with the conclusions from its reruns.
pub(super) struct Explained {
    pub(super) outcome: Outcome,
    /// Among the resource increases that raise the rate, the one with the largest [`weight`]; `None` if no
    /// increase raises the rate.
    pub(super) best: Option<More>,
}

/// Finds the bottleneck of `run`, whose result is `base`. Reruns have the seed and the virtual time of
/// `base`. If some reruns were not made, the bottleneck is the nearest bound, not confirmed. An open loop
/// that completes all due operations needs no reruns.
pub(super) fn observed<E>(
    base: &Outcome,
    run: &Run,
    depth: Depth,
    ask: &mut Asker<'_, E>,
) -> Result<Explained, E> {
    // If nothing completes, more of a resource gains nothing.
    if !base.completed() {
        return Ok(Explained { outcome: base.clone(), best: None });
    }
    let run = &run.timed_as(&base.measured);
    if depth == Depth::Whole && base.has_given_rate() {
        return Ok(Explained { outcome: of_given_rate(base, run), best: None });
    }
    let found = singles(base, run, depth, ask)?;
    let is_whole = found.iter().all(|(_, gain)| gain.is_some());
    let lifts = known(found);
    let name = |machine| base.machine_name(machine);
    let told: Vec<Lift> = lifts.iter().map(|(more, gain)| Lift::of(*more, *gain)).collect();
    let used = base.used();
    if !is_whole {
        let outcome = shown(base, base.bottleneck.clone().unconfirmed(), told, None, None);
        return Ok(Explained { outcome, best: None });
    }
    let best = best(&lifts);
    let is_busy = bottleneck::is_busy(&used, &lifts);
    let shared = depth == Depth::Whole
        && is_busy
        && best.is_none_or(|(more, gain)| weight(more, gain) < bottleneck::ALONE);
    // The largest gain of one resource, even if it is smaller than its confidence interval. Only sets of
    // resources that gain more than this are considered.
    let alone = lifts.first().map_or(0.0, |(_, gain)| gain.gain);
    let set = if shared { smallest(base, run, alone, ask)? } else { None };
    let found = bottleneck::observed(&used, &lifts, best, set.as_ref(), is_busy, &name);
    let is_latency = depth == Depth::Whole && found.class == Some(Resource::Latency);
    let time = if is_latency { latency::operation_time(base, run) } else { None };
    let found = bottleneck::with_time(found, time.as_ref());
    let outcome = shown(base, found, told, set.as_ref().map(told_together), time);
    Ok(Explained { outcome, best: best.map(|(more, _)| more) })
}

/// The outcome of an open loop that completes all due operations.
fn of_given_rate(base: &Outcome, run: &Run) -> Outcome {
    let found = bottleneck::of_given_rate(base.bottleneck.clone());
    let is_latency = found.class == Some(Resource::Latency);
    let time = if is_latency { latency::operation_time(base, run) } else { None };
    shown(base, found, Vec::new(), None, time)
}

/// An outcome with the conclusions from reruns.
fn shown(
    base: &Outcome,
    bottleneck: Bottleneck,
    lift: Vec<Lift>,
    together: Option<TogetherLift>,
    time: Option<OperationTime>,
) -> Outcome {
    let mut outcome = Outcome { bottleneck, lift, together, ..base.clone() };
    if let OutcomeOf::Verbs(of) = &mut outcome.of {
        of.operation_time = time;
    }
    outcome
}

/// The gains from those reruns that were made, largest first. Equal gains are in the order of resources.
fn known(found: Vec<Lifted>) -> Vec<(More, Gain)> {
    let mut lifts: Vec<(More, Gain)> =
        found.into_iter().filter_map(|(more, gain)| Some((more, gain?))).collect();
    lifts.sort_by(|a, b| b.1.gain.total_cmp(&a.1.gain).then(a.0.cmp(&b.0)));
    lifts
}

/// The increase with the largest [`weight`], among the increases that raise the rate.
fn best(lifts: &[(More, Gain)]) -> Option<(More, Gain)> {
    let of = |(more, gain): &(More, Gain)| relaxed::weight(*more, *gain);
    // Of several equally important increases, takes the first.
    lifts.iter().filter(|(_, gain)| gain.is_more()).rev().max_by(|a, b| of(a).total_cmp(&of(b))).copied()
}

fn told_together(set: &Set) -> TogetherLift {
    TogetherLift {
        resources: set.all.iter().map(|more| more.resource()).collect(),
        more: set.all.iter().map(More::to_string).collect(),
        gain: set.gain.gain,
        gain_half: set.gain.half,
    }
}
