//! What somebody asks for, as a run.

use super::run::Run;
use crate::asked::Asked;
use doorbell_workload::{Workload, WorkloadError};

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
