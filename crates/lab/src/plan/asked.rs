//! What somebody asks for, as runs; several of them at once.

use super::{Control, NotYet, Run};
use crate::asked::Asked;
use crate::explain::Depth;
use crate::results::{Known, Ran};
use crate::simulate::SimulateError;
use doorbell_workload::{Workload, WorkloadError};
use std::sync::atomic::Ordering;

impl Run {
    /// What is asked for, on the profiles that it names.
    ///
    /// # Errors
    /// If a profile cannot be had, or what is asked for does not go together on it.
    pub(crate) fn asked(asked: &Asked) -> Result<Run, WorkloadError> {
        match asked {
            Asked::Verbs(workload) => {
                let profiles = workload.load_profiles()?;
                let resolved = workload.resolve(&profiles)?;
                Ok(Run::verbs(profiles, resolved))
            }
            Asked::System(system) => {
                let (profile, host, set) = (system.profile.clone(), system.host.clone(), system.set.clone());
                let machines = Workload { profile, host, set, ..Workload::default() };
                Ok(Run::system(machines.load_profiles()?.first(), system.clone()))
            }
        }
    }
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
) -> Result<Vec<Option<Ran>>, Failed> {
    let result = |(name, run): &(String, Run)| match explain {
        true => known.explained(run, name, Depth::Whole),
        false => known.of(run, name).map(|ran| Ran::clone(&ran)),
    };
    loop {
        let all: Vec<Result<Ran, NotYet>> = runs.iter().map(result).collect();
        let failure = |(at, ran): (usize, &Result<Ran, NotYet>)| match ran {
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
