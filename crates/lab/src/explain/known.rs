//! Finds bottlenecks of runs from known results.

use super::asker::Depth;
use super::observe::observed;
use crate::plan::{Control, Known, NotYet, Run};
use crate::results::Outcome;
use crate::run_error::SimulateError;
use std::sync::atomic::Ordering;

/// Returns the result of a run with its bottleneck. The bottleneck needs the results of reruns with more of
/// some resources.
///
/// # Errors
/// If a result is not known yet, or a run failed.
pub fn explained(known: &Known, run: &Run, what: &str, depth: Depth) -> Result<Outcome, NotYet> {
    let base = known.of(run, what)?;
    let explained = observed(&base, run, depth, &mut |runs| {
        // Requests all reruns before the first unknown result returns early.
        let all: Vec<_> = runs.iter().map(|(name, run)| known.of(run, &format!("{what}: {name}"))).collect();
        all.into_iter().map(|ran| Ok(Some(Outcome::clone(&*ran?)))).collect()
    });
    explained.map(|explained| explained.outcome)
}

/// Index of the run that failed, and its error.
pub(crate) type Failed = (usize, SimulateError);

/// Returns the results of runs in order, with their bottlenecks if `explain` is set. A result is `None` if
/// the work was interrupted before it was known.
///
/// # Errors
/// The first failure. No further runs start after it.
pub(crate) fn results(
    runs: &[(String, Run)],
    explain: bool,
    known: &Known,
    control: &Control<'_>,
) -> Result<Vec<Option<Outcome>>, Failed> {
    let result = |(name, run): &(String, Run)| match explain {
        true => explained(known, run, name, Depth::Whole),
        false => known.of(run, name).map(|ran| Outcome::clone(&ran)),
    };
    loop {
        let all: Vec<Result<Outcome, NotYet>> = runs.iter().map(result).collect();
        let failure = |(at, ran): (usize, &Result<Outcome, NotYet>)| match ran {
            Err(NotYet::Failed(error)) if !error.is_interrupt() => Some((at, error.clone())),
            _ => None,
        };
        if let Some(failed) = all.iter().enumerate().find_map(failure) {
            return Err(failed);
        }
        if !known.wants() || control.interrupt.load(Ordering::Relaxed) {
            return Ok(all.into_iter().map(Result::ok).collect());
        }
        known.find_out(control);
    }
}
