//! The profiles of the machines of a run.

use crate::Resolved;
use doorbell_nic::{More, Profile};

/// The profiles of the machines of a run: of each group of like machines one, in the order of their
/// numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct Profiles {
    first: Profile,
    others: Vec<Profile>,
}

impl From<Profile> for Profiles {
    /// All machines are of this profile.
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
    /// Those of groups of machines.
    pub fn of_groups(first: Profile, others: Vec<Profile>) -> Profiles {
        Profiles { first, others }
    }

    /// Whether all machines are alike.
    pub fn are_alike(&self) -> bool {
        self.others.iter().all(|profile| *profile == self.first)
    }

    /// The least of something that profiles say, among all of them.
    pub fn least(&self, of: impl Fn(&Profile) -> u32) -> u32 {
        self.all().map(of).min().unwrap_or(0)
    }

    /// The profile of the first group, to which machine 0 belongs.
    pub fn first(&self) -> &Profile {
        &self.first
    }

    /// That of each group.
    pub fn all(&self) -> impl Iterator<Item = &Profile> + Clone {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// That of a machine of the workload.
    pub fn of(&self, w: &Resolved, machine: u32) -> &Profile {
        let group = w.groups().iter().position(|group| group.contains(&machine)).unwrap_or(0);
        self.all().nth(group).unwrap_or(&self.first)
    }

    /// The same with more of something on the machines of one group.
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

    /// The same with more of something on all machines.
    pub fn with(&self, more: More) -> Profiles {
        let with = |profile: &Profile| profile.with(more);
        Profiles { first: with(&self.first), others: self.others.iter().map(with).collect() }
    }
}
