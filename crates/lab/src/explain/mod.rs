//! What limits a workload: observed by reruns, or guessed from use.

mod advice;
mod bottleneck;
mod knobs;
mod latency;
mod observe;
mod relaxed;
mod system_knobs;
mod together;
mod typed;

pub use advice::{advise, advise_system};
pub(crate) use bottleneck::busiest;
pub use bottleneck::{change, percent, words};
pub(crate) use observe::{Depth, observed};
pub use typed::Typed;

use crate::plan::{Control, Run, execute};
use crate::results::{Bottleneck, Gain, GroupLift, Outcome, Ran};
use crate::simulate::SimulateError;
use crate::systems::{SystemOutcome, SystemWorkload};
use doorbell_nic::{More, Profile};
use doorbell_workload::{Profiles, Resolved};
use std::sync::{Arc, Mutex};

/// Runs the workload once. Its bottleneck is the resource that was busiest, not confirmed.
pub fn simulate(profiles: &Profiles, w: &Resolved, control: &Control<'_>) -> Result<Outcome, SimulateError> {
    once(&Run::verbs(profiles.clone(), w.clone()), control).map(|ran| Arc::unwrap_or_clone(ran.verbs()))
}

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

/// Runs a system once. Its bottleneck is the resource that was busiest, not confirmed.
///
/// # Errors
/// If a parameter does not fit, or the run was stopped.
pub fn simulate_system(
    profile: &Profile,
    w: &SystemWorkload,
    control: &Control<'_>,
) -> Result<SystemOutcome, SimulateError> {
    once(&Run::system(profile, w.clone()), control).map(|ran| ran.system())
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

fn once(run: &Run, control: &Control<'_>) -> Result<Ran, SimulateError> {
    control.watch.planned(1);
    let ran = run.run(&control.stop(), control.watch)?;
    control.watch.done(run.name());
    Ok(ran)
}

/// Makes runs; what each gave, or nothing where somebody stopped it.
pub(crate) fn all(runs: &[(String, Run)], control: &Control<'_>) -> Result<Vec<Option<Ran>>, SimulateError> {
    control.watch.planned(runs.len() as u64);
    let (names, runs): (Vec<&String>, Vec<Run>) = runs.iter().map(|(name, run)| (name, run.clone())).unzip();
    let ended: Mutex<Vec<Option<Result<Ran, SimulateError>>>> = Mutex::new(vec![None; runs.len()]);
    execute(&runs, control, &|number, result| {
        ended.lock().unwrap_or_else(|e| e.into_inner())[number] = Some(result);
        control.watch.done(names[number]);
    });
    let ended = ended.into_inner().unwrap_or_else(|e| e.into_inner());
    // What fails keeps others from beginning: it says more than that they did not.
    if let Some(error) = ended.iter().flatten().find_map(|e| e.as_ref().err().filter(|e| !e.is_interrupt())) {
        return Err(error.clone());
    }
    Ok(ended.into_iter().map(|result| result?.ok()).collect())
}

/// What a run's rate gains on that of another.
fn gain(base: &Ran, ran: &Ran) -> Gain {
    Gain::between((base.rate(), base.rate_half()), (ran.rate(), ran.rate_half()))
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
        Some(GroupLift { group, resource: more.resource().name().to_owned(), gain, gain_half: half })
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
