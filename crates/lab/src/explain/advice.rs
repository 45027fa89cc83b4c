//! What else could be asked for: options changed, simulated, and those told that lift the rate.

use super::all;
use super::knobs::{candidates, reach_the_same};
use super::typed::Typed;
use crate::plan::{Control, Run};
use crate::results::{Advice, Gain, MeasuredTime, Outcome, Ran};
use crate::simulate::SimulateError;
use doorbell_workload::{Profiles, Resolved, Workload};

/// Candidates that are simulated, at most.
const MOST: usize = 12;

/// Rates that differ by less than this part are as good as each other: of these the likelier candidate comes first.
const ALIKE: f64 = 0.01;

/// What could be typed instead, as it would be run.
struct Candidate {
    command: String,
    run: Run,
}

/// What `typed` asked for and is explained, with other options for which the rate is higher: each is simulated with the
/// same draws and for the same virtual time. Where somebody stops it, it has what is known.
///
/// # Errors
/// If a simulation fails.
pub fn advise(
    typed: &Typed,
    profiles: &Profiles,
    outcome: Outcome,
    control: &Control<'_>,
) -> Result<Outcome, SimulateError> {
    if outcome.waits.is_some() {
        return Ok(outcome);
    }
    let class = &outcome.bottleneck.class;
    let tried = tried(typed, profiles, &outcome.workload, class);
    let measured = &outcome.measured;
    let found = simulated(&tried, measured, &outcome, control)?;
    let is_whole = found.len() == tried.len();
    let mut advice: Vec<Advice> =
        found.into_iter().filter_map(|(command, ran)| told(command, &ran, &outcome)).collect();
    // Of those that are alike the order stays.
    let rank = |advice: &Advice| (advice.mops.ln() / ALIKE).round();
    advice.sort_by(|a, b| rank(b).total_cmp(&rank(a)));
    // That nothing helps is known only where all of them were run.
    let advice = Some(advice).filter(|advice| is_whole || !advice.is_empty());
    Ok(Outcome { advice, ..outcome })
}

/// The candidates that can be run, and are not what is run now.
fn tried(typed: &Typed, profiles: &Profiles, now: &Resolved, class: &str) -> Vec<Candidate> {
    let mut known: Vec<Resolved> = vec![now.clone()];
    let mut tried = Vec::new();
    for change in candidates(typed, profiles, now, class) {
        let Some(other) = typed.with(&change) else { continue };
        let Some(workload) = resolved(&other, profiles) else { continue };
        if known.contains(&workload) || !reach_the_same(now, &workload) {
            continue;
        }
        known.push(workload.clone());
        tried.push(Candidate { command: other.command(), run: Run::verbs(profiles.clone(), workload) });
        if tried.len() == MOST {
            break;
        }
    }
    tried
}

/// What is typed, filled in, if that goes together.
fn resolved(typed: &Typed, profiles: &Profiles) -> Option<Resolved> {
    Workload::of(&typed.given().ok()?).ok()?.resolve(profiles).ok()
}

/// What the candidates gave that were not stopped.
fn simulated(
    tried: &[Candidate],
    measured: &MeasuredTime,
    outcome: &Outcome,
    control: &Control<'_>,
) -> Result<Vec<(String, Ran)>, SimulateError> {
    let run = |c: &Candidate| (c.command.clone(), c.run.timed_as(measured));
    let runs: Vec<(String, Run)> = tried.iter().map(run).collect();
    let ran = all(&runs, control)?;
    // What looks better, but is not warm by then or changes still, is run as the command would run it.
    let unsettled = |ran: &Option<Ran>| {
        let is = |ran: &Ran| ran.verbs().interval.unsettled.is_some() && ran.rate() > outcome.mops;
        outcome.interval.unsettled.is_none() && ran.as_ref().is_some_and(is)
    };
    let again: Vec<(String, Run)> = tried
        .iter()
        .zip(&ran)
        .filter(|(_, ran)| unsettled(ran))
        .map(|(c, _)| (c.command.clone(), c.run.clone()))
        .collect();
    let mut better = all(&again, control)?.into_iter();
    let found = tried.iter().zip(ran).filter_map(|(candidate, ran)| {
        let ran = if unsettled(&ran) { better.next()? } else { ran };
        Some((candidate.command.clone(), ran?))
    });
    Ok(found.collect())
}

/// The advice, if the rate is higher.
fn told(command: String, ran: &Ran, outcome: &Outcome) -> Option<Advice> {
    let (mops, mops_half) = (ran.rate(), ran.rate_half());
    let change = Gain::between((outcome.mops, outcome.interval.mops), (mops, mops_half));
    let Gain { gain, half: gain_half } = change;
    change.is_more().then_some(Advice { command, mops, mops_half, gain, gain_half })
}
