//! Advice: simulates changed options and reports the changes that raise the rate.

use super::knobs::candidates;
use super::system_knobs;
use super::typed::{Change, Typed};
use crate::asked::Asked;
use crate::plan::{Control, Run, Work, all};
use crate::results::{Advice, Gain, MeasuredTime, Outcome};
use crate::run_error::SimulateError;
use doorbell_schema::Duration;

/// Largest number of candidates to simulate.
pub(super) const MOST: usize = 12;

/// Rates that differ by less than this share count as equal. Among equal candidates, the likelier one comes
/// first.
const ALIKE: f64 = 0.01;

/// A candidate is not tried if it has more than this many times the work of the run.
const MUCH_LONGER: f64 = 100.0;

/// A command that the user could type instead, and the run of this command.
struct Candidate {
    command: String,
    run: Run,
}

/// Adds advice to the explained outcome of `typed`: changed options that raise the rate. Each candidate is
/// simulated with the draws and the virtual time of `run`. If interrupted, the advice covers the finished
/// candidates. For threads in classes there is no advice, because no flag can change options of a class in a
/// file. An open loop that completes all due operations has none, because no change raises its rate.
pub fn advise(typed: &Typed, run: &Run, outcome: Outcome, control: &Control<'_>) -> Outcome {
    if outcome.waits.is_some() || outcome.has_given_rate() {
        control.watch.expected(0);
        return outcome;
    }
    let changes = match &run.work {
        Work::Verbs(w) if w.has_classes() => return outcome,
        Work::Verbs(w) => candidates(typed, &run.profiles, w, outcome.bottleneck.class),
        Work::System(w) => system_knobs::candidates(run.profiles.first(), w),
    };
    let advice = of_changes(typed, run, changes, &outcome, control);
    Outcome { advice, ..outcome }
}

/// The changes of `run` that raise the rate of `base`, best first. `None` if it is unknown whether any change
/// does.
fn of_changes(
    typed: &Typed,
    run: &Run,
    changes: Vec<Change>,
    base: &Outcome,
    control: &Control<'_>,
) -> Option<Vec<Advice>> {
    let tried = tried(typed, run, changes);
    control.watch.expected(tried.len());
    // A candidate that fails does not invalidate the run, because the run already has its result.
    let found = simulated(&tried, base, control).unwrap_or_default();
    let is_whole = found.len() == tried.len();
    let mut advice: Vec<Advice> =
        found.into_iter().filter_map(|(command, ran)| told(command, &ran, base)).collect();
    // The stable sort keeps the order of equally good candidates.
    let rank = |advice: &Advice| (advice.mops.ln() / ALIKE).round();
    advice.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
    // That nothing helps is known only if candidates were tried, and all of them ran.
    let is_known = is_whole && !tried.is_empty();
    Some(advice).filter(|advice| is_known || !advice.is_empty())
}

/// The candidates that can run, and that differ from the present run and from each other.
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

/// The run of a typed command on the machines of `now`. `None` if the command is invalid, or if machines
/// would post to another number of machines than in `now`.
fn asked(typed: &Typed, now: &Run) -> Option<Run> {
    let run = Run::asked_on(Asked::of(&typed.given().ok()?).ok()?, &now.profiles).ok()?;
    (run.is_of_system() == now.is_of_system() && run.reach() == now.reach()).then_some(run)
}

/// Runs the candidates. Returns the command and the outcome of each candidate that was not stopped.
fn simulated(
    tried: &[Candidate],
    base: &Outcome,
    control: &Control<'_>,
) -> Result<Vec<(String, Outcome)>, SimulateError> {
    let timed = |measured: &MeasuredTime, some: &[&Candidate]| {
        let runs: Vec<(String, Run)> =
            some.iter().map(|c| (c.command.clone(), c.run.timed_as(measured))).collect();
        all(&runs, control)
    };
    let ran = timed(&base.measured, &tried.iter().collect::<Vec<_>>())?;
    // A candidate that seems better but is unsettled runs again with a longer warm-up, unless its warm-up is
    // given.
    let open = |c: &Candidate| c.run.timed_as(&base.measured).key() != c.run.key();
    let unsettled = |c: &Candidate, ran: &Option<Outcome>| {
        let is = |ran: &Outcome| ran.interval.unsettled.is_some() && ran.told_rate().0 > base.told_rate().0;
        ran.as_ref().is_some_and(is) && open(c)
    };
    let again: Vec<&Candidate> =
        tried.iter().zip(&ran).filter(|(c, ran)| unsettled(c, ran)).map(|(c, _)| c).collect();
    let mut better = timed(&after(&base.measured), &again)?.into_iter();
    let found = tried.iter().zip(ran).filter_map(|(candidate, ran)| {
        let ran = if unsettled(candidate, &ran) { better.next()? } else { ran };
        Some((candidate.command.clone(), ran?))
    });
    Ok(found.collect())
}

/// The time right after `measured`, of equal duration. The warm-up lasts until the end of `measured`.
fn after(measured: &MeasuredTime) -> MeasuredTime {
    let warmup = Duration::new(measured.warmup.span() + measured.duration.span());
    MeasuredTime { warmup, ..measured.clone() }
}

/// The advice, if the candidate's rate is noticeably higher.
fn told(command: String, ran: &Outcome, base: &Outcome) -> Option<Advice> {
    let (mops, mops_half) = ran.told_rate();
    let change = Gain::between(base.told_rate(), (mops, mops_half));
    let Gain { gain, half: gain_half } = change;
    let unsettled = ran.interval.unsettled.clone();
    change.is_more().then_some(Advice { command, mops, mops_half, gain, gain_half, unsettled })
}
