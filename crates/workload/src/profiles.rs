//! The profiles of the machines of a run.

use crate::{MachineGroup, Resolved, Workload, WorkloadError};
use doorbell_nic::{More, Profile, ProfileError};
use doorbell_schema::Settings;
use serde::Serialize;

/// The profiles of the machines of a run: one for each group of like machines, in the order of machine
/// numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profiles {
    first: Profile,
    others: Vec<Profile>,
}

impl From<Profile> for Profiles {
    /// All machines have this profile.
    fn from(profile: Profile) -> Profiles {
        Profiles { first: profile, others: Vec::new() }
    }
}

impl From<&Profile> for Profiles {
    fn from(profile: &Profile) -> Profiles {
        profile.clone().into()
    }
}

impl Profiles {
    /// The profiles of groups of machines.
    pub fn of_groups(first: Profile, others: Vec<Profile>) -> Profiles {
        Profiles { first, others }
    }

    /// Whether all machines are alike.
    pub fn are_alike(&self) -> bool {
        self.others.iter().all(|profile| *profile == self.first)
    }

    /// The least value of a number among all profiles.
    pub fn least(&self, of: impl Fn(&Profile) -> u32) -> u32 {
        self.all().map(of).min().unwrap_or(0)
    }

    /// The profile of the first group, to which machine 0 belongs.
    pub fn first(&self) -> &Profile {
        &self.first
    }

    /// The profile of each group.
    pub fn all(&self) -> impl Iterator<Item = &Profile> + Clone {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// The profile of a machine of the workload.
    pub fn of(&self, w: &Resolved, machine: u32) -> &Profile {
        let group = w.groups().iter().position(|group| group.contains(&machine)).unwrap_or(0);
        self.all().nth(group).unwrap_or(&self.first)
    }

    /// These profiles with more of a resource on the machines of one group.
    pub fn with_of_group(&self, group: usize, more: More) -> Profiles {
        let mut all = self.clone();
        let profile = match group.checked_sub(1) {
            None => Some(&mut all.first),
            Some(other) => all.others.get_mut(other),
        };
        if let Some(profile) = profile {
            *profile = profile.with(more);
        }
        all
    }

    /// These profiles with more of a resource on all machines.
    pub fn with(&self, more: More) -> Profiles {
        let with = |profile: &Profile| profile.with(more);
        Profiles { first: with(&self.first), others: self.others.iter().map(with).collect() }
    }
}

impl Workload {
    /// Name or path of the workload's host, if it is not the profile's own. With groups, the host of the
    /// first group.
    fn host_name(&self) -> Option<&str> {
        let of_group = || self.machine.as_ref()?.first()?.host.as_deref();
        self.host.as_deref().or_else(of_group).map(Profile::canonical_host)
    }

    /// Loads the profiles of the workload's machines.
    pub fn load_profiles(&self) -> Result<Profiles, WorkloadError> {
        self.check_groups()?;
        let of_group = || self.machine.as_ref()?.first()?.set.as_ref();
        let set = self.set.as_ref().or_else(of_group);
        let first = load(self.profile_name(), self.host_name(), set)?;
        let others = self.machine.iter().flatten().skip(1);
        let others = others.map(MachineGroup::canonical);
        let others = others.map(|g| load(&g.profile, g.host.as_deref(), g.set.as_ref()));
        Ok(Profiles::of_groups(first, others.collect::<Result<_, _>>()?))
    }
}

/// The profile of this name, in `host` if that is given, and with the parameters in `set`.
fn load(profile: &str, host: Option<&str>, set: Option<&Settings>) -> Result<Profile, ProfileError> {
    let profile = Profile::named_or_file(profile)?;
    let profile = match host {
        Some(host) => profile.on_host(host)?,
        None => profile,
    };
    set.map_or(Ok(profile.clone()), |set| with_set(&profile, set))
}

/// A profile with these parameters set.
///
/// # Errors
/// See [`Profile::with_set`].
pub fn with_set(profile: &Profile, set: &Settings) -> Result<Profile, ProfileError> {
    profile.with_set(&set.iter().map(|(name, number)| (name.clone(), number.get())).collect())
}
