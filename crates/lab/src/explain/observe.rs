//! What reruns show, whoever makes them.

use super::asker::{Asker, Depth, Lifted};
use super::relaxed::{self, singles, weight};
use super::together::{Set, smallest};
use super::{bottleneck, latency};
use crate::plan::Run;
use crate::results::{Gain, Lift, Ran, TogetherLift, busiest};
use doorbell_nic::{More, Resource};

/// A run with what reruns have shown.
pub(super) struct Explained {
    pub(super) ran: Ran,
    /// Of what more lifts the rate most, if something does.
    pub(super) best: Option<More>,
}

/// From this weight on, a resource sets the rate alone.
const ALONE: f64 = 0.8;

/// Reruns `run`, whose result is `base`, with the same draws and for the same virtual time: what limits it, if all of
/// them were made.
pub(super) fn observed<E>(
    base: &Ran,
    run: &Run,
    depth: Depth,
    ask: &mut Asker<'_, E>,
) -> Result<Explained, E> {
    // What nothing completes of gains nothing by more of anything.
    if !base.completed() {
        return Ok(Explained { ran: base.clone(), best: None });
    }
    let run = &run.timed_as(base.measured());
    let found = singles(base, run, depth, ask)?;
    let is_whole = found.iter().all(|(_, gain)| gain.is_some());
    let lifts = known(found);
    let name = |machine| base.machine_name(machine);
    let told: Vec<Lift> = lifts.iter().map(|(more, gain)| Lift::of(*more, *gain)).collect();
    let used = base.used();
    if !is_whole {
        let ran = base.with(busiest(&used, true, &name), told, None, None);
        return Ok(Explained { ran, best: None });
    }
    let best = best(&lifts);
    let is_busy = bottleneck::is_busy(&used, &lifts);
    let shared =
        depth == Depth::Whole && is_busy && best.is_none_or(|(more, gain)| weight(more, gain) < ALONE);
    // Also one that is not known well enough may be as large as what several bring.
    let alone = lifts.first().map_or(0.0, |(_, gain)| gain.gain);
    let set = if shared { smallest(base, run, alone, ask)? } else { None };
    let found = bottleneck::observed(&used, &lifts, best, set.as_ref(), is_busy, &name);
    let is_latency = depth == Depth::Whole && found.class == Some(Resource::Latency);
    let time = if is_latency { latency::operation_time(base, run) } else { None };
    let found = bottleneck::with_time(found, time.as_ref());
    let ran = base.with(found, told, set.as_ref().map(told_together), time);
    Ok(Explained { ran, best: best.map(|(more, _)| more) })
}

/// Those that were made, the largest first; of equal ones in the order of the list.
fn known(found: Vec<Lifted>) -> Vec<(More, Gain)> {
    let mut lifts: Vec<(More, Gain)> =
        found.into_iter().filter_map(|(more, gain)| Some((more, gain?))).collect();
    lifts.sort_by(|a, b| b.1.gain.total_cmp(&a.1.gain).then(a.0.cmp(&b.0)));
    lifts
}

/// What matters most, of what lifts the rate.
fn best(lifts: &[(More, Gain)]) -> Option<(More, Gain)> {
    let of = |(more, gain): &(More, Gain)| relaxed::weight(*more, *gain);
    // Of equal ones the first.
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
