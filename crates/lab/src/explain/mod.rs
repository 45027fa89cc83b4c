//! The bottleneck of a workload: observed by reruns, or guessed from utilization.

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

pub use advice::advise;
pub use asker::Depth;
pub use bottleneck::{change, percent, words};
pub use known::explained;
pub(crate) use known::{Each, results};
pub use typed::Typed;

use crate::plan::{Control, Run, all, simulate};
use crate::results::{Bottleneck, Gain, GroupLift, Outcome, OutcomeOf};
use crate::run_error::SimulateError;
use asker::gain;
use doorbell_nic::More;
use doorbell_workload::Resolved;
use known::RERUNS;
use observe::{Explained, observed};

/// Makes a run, and reruns it with more of each resource. The bottleneck is the resource whose increase
/// raises the rate most. If machine groups have different profiles, this resource is also
/// increased on one group at a time. If a limit of time ended the run before it settled, the bottleneck is
/// not confirmed.
///
/// # Errors
/// If the machine lacks memory for the run, the simulation fails, or the run was stopped before anything was
/// measured.
pub fn explain(run: &Run, control: &Control<'_>) -> Result<Outcome, SimulateError> {
    Ok(by_reruns(run, control)?.doubted())
}

/// The outcome of a run, with the bottleneck that its reruns find.
fn by_reruns(run: &Run, control: &Control<'_>) -> Result<Outcome, SimulateError> {
    let reruns = RERUNS + advice::MOST;
    control.watch.expected(reruns + 1);
    let base = simulate(run, &control.before_reruns(reruns))?;
    control.watch.based(&base);
    let Explained { mut outcome, best } = observed(&base, run, Depth::Whole, &mut |runs| all(runs, control))?;
    control.watch.expected(advice::MOST);
    let Some(more) = best.filter(|_| !run.profiles.are_alike()) else { return Ok(outcome) };
    let lifts = by_group(&run.timed_as(&base.measured), more, &base, control)?;
    if let OutcomeOf::Verbs(of) = &mut outcome.of {
        name_group(&mut outcome.bottleneck, &of.workload, &lifts);
        of.group_lift = lifts;
    }
    Ok(outcome)
}

/// Gains from more of a resource on each group alone. If interrupted, covers only the groups that were run.
fn by_group(
    run: &Run,
    more: More,
    base: &Outcome,
    control: &Control<'_>,
) -> Result<Vec<GroupLift>, SimulateError> {
    let groups = run.profiles.all().count();
    let runs: Vec<(String, Run)> =
        (0..groups).map(|group| (more.to_string(), run.with_of_group(group, more))).collect();
    let lift = |(group, ran): (usize, Option<Outcome>)| {
        let Gain { gain, half } = gain(base, &ran?);
        Some(GroupLift { group, resource: more.resource(), gain, gain_half: half })
    };
    Ok(all(&runs, control)?.into_iter().enumerate().filter_map(lift).collect())
}

/// Adds the gain of each group to the text. Names the group with the largest gain, if this gain is
/// noticeable.
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
        false => format!("; the {resource} of no single group matters: {each}"),
        true => format!("; the {resource} of {} matters: {each}", name(most.group)),
    };
    bottleneck.group = matters.then_some(most.group);
}
