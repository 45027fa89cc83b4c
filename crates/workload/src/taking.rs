//! Roles of machines in a workload, and limits of their devices.

use crate::error::invalid;
use crate::{Pattern, Profiles, WorkloadError, topology};
use doorbell_nic::Profile;
use std::ops::Range;

/// The profiles of the machines that post, of the machines that respond, and of all machines.
pub(crate) struct Taking<'a> {
    pub(crate) posters: Vec<&'a Profile>,
    pub(crate) responders: Vec<&'a Profile>,
    pub(crate) all: Vec<&'a Profile>,
}

impl<'a> Taking<'a> {
    pub(crate) fn of(
        profiles: &'a Profiles,
        pattern: Pattern,
        groups: &[Range<u32>],
    ) -> Result<Taking<'a>, WorkloadError> {
        let all: Vec<&Profile> = profiles.all().collect();
        if all.len() != groups.len() {
            return invalid(format!("{} profiles do not fit {} groups of machines", all.len(), groups.len()));
        }
        let those = |take: fn(Pattern, u32) -> bool| {
            // In a group, only machine 0 can have another role than the last machine. So these two machines
            // show all roles.
            let any = |group: &Range<u32>| take(pattern, group.start) || take(pattern, group.end.max(1) - 1);
            let taking: Vec<&Profile> =
                all.iter().zip(groups).filter(|(_, group)| any(group)).map(|(profile, _)| *profile).collect();
            // This happens with too few machines, which is refused later.
            if taking.is_empty() { all.clone() } else { taking }
        };
        let (posters, responders) = (those(topology::posts), those(topology::is_posted_to));
        Ok(Taking { posters, responders, all })
    }
}

/// The profile with the least value of `of`, and this value.
pub(crate) fn least<'a>(profiles: &[&'a Profile], of: impl Fn(&Profile) -> u32) -> (&'a Profile, u32) {
    let least = profiles.iter().min_by_key(|profile| of(profile)).expect("a run has machines of each part");
    (least, of(least))
}

pub(crate) fn cores(profile: &Profile) -> u32 {
    profile.host.cores
}

pub(crate) fn ports(profile: &Profile) -> u32 {
    profile.device.link.ports
}

pub(crate) fn rd_atomic(profile: &Profile) -> u32 {
    profile.device.nic.max_rd_atomic
}

pub(crate) fn sges(profile: &Profile) -> u32 {
    profile.device.nic.max_sge
}

pub(crate) fn queue(profile: &Profile) -> u32 {
    profile.device.nic.max_qp_wr
}

pub(crate) fn cq(profile: &Profile) -> u32 {
    profile.device.nic.max_cqe
}

pub(crate) fn inlined(profile: &Profile) -> u32 {
    profile.device.nic.max_inline
}

pub(crate) fn mtu(profile: &Profile) -> u32 {
    profile.device.link.mtu
}
