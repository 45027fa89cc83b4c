//! The profiles of the machines of a run.

use crate::error::invalid;
use crate::{MachineGroup, Resolved, Workload, WorkloadError};
use doorbell_nic::{LinkChange, More, PcieSlot, Profile, ProfileError};
use doorbell_schema::Settings;
use serde::Serialize;
use std::collections::BTreeMap;

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
    /// The changes of the workload's profile. With groups, the changes of the first group.
    fn changes(&self) -> Changes<'_> {
        match self.machine.as_ref().and_then(|groups| groups.first()) {
            Some(group) => group.changes(),
            None => Changes {
                host: self.host.as_deref(),
                pcie: self.pcie,
                link: self.link,
                set: self.set.as_ref(),
            },
        }
    }

    /// Loads the profiles of the workload's machines.
    pub fn load_profiles(&self) -> Result<Profiles, WorkloadError> {
        self.check_groups()?;
        let first = load(self.profile_name(), &self.changes())?;
        let others = self.machine.iter().flatten().skip(1);
        let others = others.map(|group| load(Profile::canonical(&group.profile), &group.changes()));
        Ok(Profiles::of_groups(first, others.collect::<Result<_, _>>()?))
    }
}

/// The options that change a profile.
struct Changes<'a> {
    /// Name or path of another host.
    host: Option<&'a str>,
    pcie: Option<PcieSlot>,
    link: Option<LinkChange>,
    /// Parameters to override. They come last.
    set: Option<&'a Settings>,
}

impl MachineGroup {
    fn changes(&self) -> Changes<'_> {
        Changes { host: self.host.as_deref(), pcie: self.pcie, link: self.link, set: self.set.as_ref() }
    }
}

/// The profile of this name, with these changes.
fn load(profile: &str, changes: &Changes<'_>) -> Result<Profile, WorkloadError> {
    let profile = Profile::named_or_file(profile)?;
    let profile = match changes.host {
        Some(host) => profile.on_host(Profile::canonical_host(host))?,
        None => profile,
    };
    let link = changes.link.map(|link| link_settings(&profile, link)).transpose()?;
    let short = changes.pcie.into_iter().flat_map(PcieSlot::settings).chain(link.into_iter().flatten());
    let mut all: BTreeMap<String, f64> = short.map(|(name, value)| (name.to_owned(), value)).collect();
    all.extend(changes.set.into_iter().flatten().map(|(name, number)| (name.clone(), number.get())));
    if all.is_empty() { Ok(profile) } else { Ok(profile.with_set(&all)?) }
}

/// The parameters that a link sets over those of a profile.
fn link_settings(
    profile: &Profile,
    link: LinkChange,
) -> Result<impl Iterator<Item = (&'static str, f64)> + use<>, WorkloadError> {
    if link.names_layer() && profile.device.generation.is_iwarp() {
        let name = &profile.name;
        return invalid(format!("link is {link}, but profile {name} is an iWARP NIC: give its rate alone"));
    }
    Ok(link.settings(&profile.device.link))
}

/// A profile with these parameters set.
///
/// # Errors
/// See [`Profile::with_set`].
pub fn with_set(profile: &Profile, set: &Settings) -> Result<Profile, ProfileError> {
    profile.with_set(&set.iter().map(|(name, number)| (name.clone(), number.get())).collect())
}
