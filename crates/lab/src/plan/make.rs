//! Runs that are made at once, without what is known of others.

use super::execute::{Control, execute};
use super::run::Run;
use crate::results::Outcome;
use crate::run_error::SimulateError;
use std::sync::Mutex;

/// Makes one run, which may be traced. Its bottleneck is the resource that was busiest, not confirmed.
///
/// # Errors
/// If a parameter does not fit, or the run was stopped before anything was known.
pub fn simulate(run: &Run, control: &Control<'_>) -> Result<Outcome, SimulateError> {
    control.watch.planned(1);
    let outcome = run.run(&control.stop(), control.watch)?;
    control.watch.done(run.name());
    Ok(outcome)
}

/// Makes runs; what each gave, or nothing where somebody stopped it.
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
    // What fails keeps others from beginning: it says more than that they did not.
    if let Some(error) = ended.iter().flatten().find_map(|e| e.as_ref().err().filter(|e| !e.is_interrupt())) {
        return Err(error.clone());
    }
    Ok(ended.into_iter().map(|result| result?.ok()).collect())
}
