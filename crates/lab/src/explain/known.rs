//! What limits runs, from results that are known.

use super::asker::Depth;
use super::observe::observed;
use crate::plan::{Control, Known, NotYet, Run};
use crate::results::Outcome;
use crate::run_error::SimulateError;
use std::sync::atomic::Ordering;

/// The result of a run with what limits it, for which it is run again with more of what may change something.
///
/// # Errors
/// That something of it is not known yet, or why it failed.
pub fn explained(known: &Known, run: &Run, what: &str, depth: Depth) -> Result<Outcome, NotYet> {
    let base = known.of(run, what)?;
    let explained = observed(&base, run, depth, &mut |runs| {
        // All are asked for before the first that is not known ends this.
        let all: Vec<_> = runs.iter().map(|(name, run)| known.of(run, &format!("{what}: {name}"))).collect();
        all.into_iter().map(|ran| Ok(Some(Outcome::clone(&*ran?)))).collect()
    });
    explained.map(|explained| explained.outcome)
}

/// Which of several runs failed, by its place among them, and why.
pub(crate) type Failed = (usize, SimulateError);

/// What runs gave, in their order; with `explain`, with what limits each. Nothing of those that had no result when
/// somebody stopped it.
///
/// # Errors
/// The first that failed: it keeps others from beginning.
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
