//! What limits a workload: observed by reruns, or guessed from use.

mod advice;
mod asker;
mod bottleneck;
mod knobs;
mod known;
mod latency;
mod observe;
mod relaxed;
mod system_knobs;
mod together;
mod typed;

pub use advice::{advise, advise_system};
pub use asker::Depth;
pub use bottleneck::{change, percent, words};
pub use known::explained;
pub(crate) use known::results;
pub use typed::Typed;

use crate::asked::SystemWorkload;
use crate::plan::{Control, Run, all, once};
use crate::results::{Bottleneck, Gain, GroupLift, Outcome, Ran, SystemOutcome};
use crate::run_error::SimulateError;
use asker::gain;
use doorbell_nic::{More, Profile};
use doorbell_workload::{Profiles, Resolved};
use observe::observed;
use std::sync::Arc;

/// Runs the workload, and again with more of each resource. Its bottleneck is the resource that lifts the rate
/// most. Where machines differ, there is more of that one on each group alone, too.
pub fn explain(profiles: &Profiles, w: &Resolved, control: &Control<'_>) -> Result<Outcome, SimulateError> {
    let run = Run::verbs(profiles.clone(), w.clone());
    let base = once(&run, control)?;
    let explained = observed(&base, &run, Depth::Whole, &mut |runs| all(runs, control))?;
    let mut outcome = Arc::unwrap_or_clone(explained.ran.verbs());
    if let Some(more) = explained.best.filter(|_| !profiles.are_alike()) {
        outcome.group_lift = by_group(&run.timed_as(base.measured()), more, &base, control)?;
        name_group(&mut outcome.bottleneck, w, &outcome.group_lift);
    }
    Ok(outcome)
}

/// Runs a system, and again with more of each resource. Its bottleneck is the resource that lifts the rate most.
///
/// # Errors
/// As [`simulate_system`].
pub fn explain_system(
    profile: &Profile,
    w: &SystemWorkload,
    control: &Control<'_>,
) -> Result<SystemOutcome, SimulateError> {
    let run = Run::system(profile, w.clone());
    let base = once(&run, control)?;
    Ok(observed(&base, &run, Depth::Whole, &mut |runs| all(runs, control))?.ran.system())
}

/// What more of a resource brings on each group alone; of an interrupted explanation, for those groups that were run.
fn by_group(
    run: &Run,
    more: More,
    base: &Ran,
    control: &Control<'_>,
) -> Result<Vec<GroupLift>, SimulateError> {
    let groups = run.profiles.all().count();
    let runs: Vec<(String, Run)> =
        (0..groups).map(|group| (more.to_string(), run.with_of_group(group, more))).collect();
    let lift = |(group, ran): (usize, Option<Ran>)| {
        let Gain { gain, half } = gain(base, &ran?);
        Some(GroupLift { group, resource: more.resource(), gain, gain_half: half })
    };
    Ok(all(&runs, control)?.into_iter().enumerate().filter_map(lift).collect())
}

/// Says which group it is whose resource matters, if it is one.
fn name_group(bottleneck: &mut Bottleneck, w: &Resolved, lifts: &[GroupLift]) {
    let Some(most) = lifts.iter().max_by(|a, b| a.gain.total_cmp(&b.gain)) else { return };
    let names = w.group_names();
    let name = |group: usize| names.get(group).map_or("", String::as_str);
    let gain = |lift: &GroupLift| Gain { gain: lift.gain, half: lift.gain_half };
    let each: Vec<String> =
        lifts.iter().map(|lift| format!("{} on {}", change(gain(lift)), name(lift.group))).collect();
    let (resource, each) = (&most.resource, each.join(", "));
    let matters = gain(most).is_more();
    bottleneck.text += &match matters {
        false => format!("; no group's {resource} matters alone: {each}"),
        true => format!("; it is the {resource} of {} that matters: {each}", name(most.group)),
    };
    bottleneck.group = matters.then_some(most.group);
}
