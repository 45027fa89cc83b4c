//! What else could be asked for: options changed, simulated, and those told that lift the rate.

use super::knobs::{candidates, reach_the_same};
use super::system_knobs;
use super::typed::{Change, Typed};
use crate::asked::Asked;
use crate::plan::{Control, Run, Work, all};
use crate::results::{Advice, Gain, MeasuredTime, Of, Outcome, Ran, SystemOutcome};
use crate::run_error::SimulateError;
use doorbell_nic::Profile;
use doorbell_schema::Duration;
use doorbell_workload::Profiles;

/// Candidates that are simulated, at most.
const MOST: usize = 12;

/// Rates that differ by less than this part are as good as each other: of these the likelier candidate comes first.
const ALIKE: f64 = 0.01;

/// So many times as much work as the run itself is not tried.
const MUCH_LONGER: f64 = 100.0;

/// What could be typed instead, as it would be run.
struct Candidate {
    command: String,
    run: Run,
}

/// What `typed` asked for and is explained, with other options for which the rate is higher: each is simulated with the
/// same draws and for the same virtual time. Where somebody stops it, it has what is known. Nothing is tried where threads
/// are in classes: what these say, only their file says otherwise, which is no command.
pub fn advise(typed: &Typed, profiles: &Profiles, outcome: Outcome, control: &Control<'_>) -> Outcome {
    if outcome.waits.is_some() || outcome.workload.has_classes() {
        return outcome;
    }
    let changes = candidates(typed, profiles, &outcome.workload, outcome.bottleneck.class);
    let run = Run::verbs(profiles.clone(), outcome.workload.clone());
    let base = Ran { of: Of::Verbs(Box::new(outcome)), without_effect: Vec::new() };
    let advice = of_changes(typed, &run, changes, &base, control);
    Outcome { advice, ..Outcome::clone(&base.verbs()) }
}

/// The same of a system.
pub fn advise_system(
    typed: &Typed,
    profile: &Profile,
    outcome: SystemOutcome,
    control: &Control<'_>,
) -> SystemOutcome {
    if outcome.waits.is_some() {
        return outcome;
    }
    let changes = system_knobs::candidates(profile, &outcome.workload);
    let run = Run::system(profile, outcome.workload.clone());
    let base = Ran { of: Of::System(Box::new(outcome)), without_effect: Vec::new() };
    let advice = of_changes(typed, &run, changes, &base, control);
    SystemOutcome { advice, ..base.system() }
}

/// Of these changes of `run`, which gave `base`, those that lift the rate, best first; none where that is not known.
fn of_changes(
    typed: &Typed,
    run: &Run,
    changes: Vec<Change>,
    base: &Ran,
    control: &Control<'_>,
) -> Option<Vec<Advice>> {
    let tried = tried(typed, run, changes);
    // One that fails says nothing of the run itself, which has its result.
    let found = simulated(&tried, base, control).unwrap_or_default();
    let is_whole = found.len() == tried.len();
    let mut advice: Vec<Advice> =
        found.into_iter().filter_map(|(command, ran)| told(command, &ran, base)).collect();
    // Of those that are alike the order stays.
    let rank = |advice: &Advice| (advice.mops.ln() / ALIKE).round();
    advice.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
    // That nothing helps is known only where something was tried, and all of it was run.
    let is_known = is_whole && !tried.is_empty();
    Some(advice).filter(|advice| is_known || !advice.is_empty())
}

/// The candidates that can be run, and are not what is run now.
fn tried(typed: &Typed, now: &Run, changes: Vec<Change>) -> Vec<Candidate> {
    let (mut known, most) = (vec![now.key()], MUCH_LONGER * now.cost());
    let mut tried = Vec::new();
    for change in changes {
        let Some(typed) = typed.with(&change) else { continue };
        let Some(run) = asked(&typed, now) else { continue };
        if known.contains(&run.key()) || !run.fits() || run.cost() > most {
            continue;
        }
        known.push(run.key());
        tried.push(Candidate { command: typed.command(), run });
        if tried.len() == MOST {
            break;
        }
    }
    tried
}

/// What is typed as a run on the machines of another, if it goes together, and machines post to the same ones.
fn asked(typed: &Typed, now: &Run) -> Option<Run> {
    match (Asked::of(&typed.given().ok()?).ok()?, &now.work) {
        (Asked::Verbs(workload), Work::Verbs(before)) => {
            let resolved = workload.resolve(&now.profiles).ok()?;
            reach_the_same(before, &resolved).then(|| Run::verbs((*now.profiles).clone(), resolved))
        }
        (Asked::System(system), Work::System(_)) => Some(Run::system(now.profiles.first(), system)),
        _ => None,
    }
}

/// What the candidates gave that were not stopped.
fn simulated(
    tried: &[Candidate],
    base: &Ran,
    control: &Control<'_>,
) -> Result<Vec<(String, Ran)>, SimulateError> {
    let timed = |measured: &MeasuredTime, some: &[&Candidate]| {
        let runs: Vec<(String, Run)> =
            some.iter().map(|c| (c.command.clone(), c.run.timed_as(measured))).collect();
        all(&runs, control)
    };
    let ran = timed(base.measured(), &tried.iter().collect::<Vec<_>>())?;
    // What looks better, but is not warm by then or changes still, warms up for longer, unless it is said how long.
    let open = |c: &Candidate| c.run.timed_as(base.measured()).key() != c.run.key();
    let unsettled = |c: &Candidate, ran: &Option<Ran>| {
        let is = |ran: &Ran| ran.unsettled().is_some() && ran.told_rate().0 > base.told_rate().0;
        ran.as_ref().is_some_and(is) && open(c)
    };
    let again: Vec<&Candidate> =
        tried.iter().zip(&ran).filter(|(c, ran)| unsettled(c, ran)).map(|(c, _)| c).collect();
    let mut better = timed(&after(base.measured()), &again)?.into_iter();
    let found = tried.iter().zip(ran).filter_map(|(candidate, ran)| {
        let ran = if unsettled(candidate, &ran) { better.next()? } else { ran };
        Some((candidate.command.clone(), ran?))
    });
    Ok(found.collect())
}

/// As long a time after that which was measured.
fn after(measured: &MeasuredTime) -> MeasuredTime {
    let warmup = Duration::new(measured.warmup.span() + measured.duration.span());
    MeasuredTime { warmup, ..measured.clone() }
}

/// The advice, if the rate is higher.
fn told(command: String, ran: &Ran, base: &Ran) -> Option<Advice> {
    let (mops, mops_half) = ran.told_rate();
    let change = Gain::between(base.told_rate(), (mops, mops_half));
    let Gain { gain, half: gain_half } = change;
    let unsettled = ran.unsettled().cloned();
    change.is_more().then_some(Advice { command, mops, mops_half, gain, gain_half, unsettled })
}
