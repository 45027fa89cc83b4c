//! Makes runs at once, without the known results of other runs.

use super::execute::{Control, Making, execute};
use super::run::Run;
use crate::results::Outcome;
use crate::run_error::SimulateError;
use std::sync::Mutex;

/// Makes one run, with a trace if the watcher wants one. Its bottleneck is the busiest resource, not
/// confirmed by reruns.
///
/// # Errors
/// If the machine lacks memory for the run, the simulation fails, or the run was stopped before more than a
/// few operations were measured.
pub fn simulate(run: &Run, control: &Control<'_>) -> Result<Outcome, SimulateError> {
    let (cost, stop) = (run.cost(), control.stop());
    control.watch.planned(&[cost]);
    control.watch.began(cost, &stop.pace);
    let outcome = run.run(&stop, control.watch).and_then(Outcome::unless_out_of_time);
    control.watch.ended(&stop.pace);
    control.watch.done(run.name());
    outcome
}

/// Makes runs and returns their outcomes in order; `None` for a run that was interrupted or cut short by the
/// deadline.
pub(crate) fn all(
    runs: &[(String, Run)],
    control: &Control<'_>,
) -> Result<Vec<Option<Outcome>>, SimulateError> {
    let (names, runs): (Vec<&String>, Vec<Run>) = runs.iter().map(|(name, run)| (name, run.clone())).unzip();
    control.watch.planned(&runs.iter().map(Run::cost).collect::<Vec<_>>());
    let ended: Mutex<Vec<Option<Result<Outcome, SimulateError>>>> = Mutex::new(vec![None; runs.len()]);
    execute(&runs, control, Making::LongestFirst, &|number, result| {
        ended.lock().unwrap_or_else(|e| e.into_inner())[number] = Some(result);
        control.watch.done(names[number]);
    });
    let ended = ended.into_inner().unwrap_or_else(|e| e.into_inner());
    // After a failure, further runs do not start, so the failure is the error to report.
    if let Some(error) = ended.iter().flatten().find_map(|e| e.as_ref().err().filter(|e| !e.is_cut())) {
        return Err(error.clone());
    }
    Ok(ended.into_iter().map(|result| result?.ok()).collect())
}
