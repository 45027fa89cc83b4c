//! Makes runs at once, without the known results of other runs.

use super::execute::{Control, execute};
use super::run::Run;
use crate::results::Outcome;
use crate::run_error::SimulateError;
use std::sync::Mutex;

/// Makes one run, with a trace if the watcher wants one. Its bottleneck is the busiest resource, not
/// confirmed by reruns.
///
/// # Errors
/// If the machine lacks memory for the run, the simulation fails, or the run was stopped before anything was
/// measured.
pub fn simulate(run: &Run, control: &Control<'_>) -> Result<Outcome, SimulateError> {
    control.watch.planned(1);
    let outcome = run.run(&control.stop(), control.watch)?;
    control.watch.done(run.name());
    Ok(outcome)
}

/// Makes runs and returns their outcomes in order; `None` for a run that was interrupted.
pub(crate) fn all(
    runs: &[(String, Run)],
    control: &Control<'_>,
) -> Result<Vec<Option<Outcome>>, SimulateError> {
    control.watch.planned(runs.len() as u64);
    let (names, runs): (Vec<&String>, Vec<Run>) = runs.iter().map(|(name, run)| (name, run.clone())).unzip();
    let ended: Mutex<Vec<Option<Result<Outcome, SimulateError>>>> = Mutex::new(vec![None; runs.len()]);
    execute(&runs, control, &|number, result| {
        ended.lock().unwrap_or_else(|e| e.into_inner())[number] = Some(result);
        control.watch.done(names[number]);
    });
    let ended = ended.into_inner().unwrap_or_else(|e| e.into_inner());
    // After a failure, further runs do not start, so the failure is the error to report.
    if let Some(error) = ended.iter().flatten().find_map(|e| e.as_ref().err().filter(|e| !e.is_interrupt())) {
        return Err(error.clone());
    }
    Ok(ended.into_iter().map(|result| result?.ok()).collect())
}
