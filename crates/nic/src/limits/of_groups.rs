//! Bounds of groups of machines, alike or not.

use super::alike::{limits_of_kinds, sorted, span, way};
use super::mix::{Kinds, Mix};
use super::terms::{Limit, PartTime, Terms};
use super::unlike::{Machines, UnlikeMachines, count};
use crate::Profile;
use doorbell_verbs::Span;

/// All bounds of a workload on groups of machines, the lowest first. The groups are in the order of machine
/// numbers, and give the number of machines.
///
/// A bound limits the average rate over the draws if the workload draws kinds of operations, or if targets
/// are random (all to all) and machines differ.
pub fn limits_of_groups(groups: &[Machines<'_>], kinds: &Kinds) -> Vec<Limit> {
    match alike(groups) {
        _ if groups.is_empty() || kinds.is_empty() => Vec::new(),
        Some((profile, machines)) => {
            let kinds: Vec<(Mix, u64)> =
                kinds.iter().map(|(mix, weight)| (Mix { machines, ..*mix }, *weight)).collect();
            limits_of_kinds(profile, &kinds)
        }
        None => sorted(UnlikeMachines::of(groups, kinds).bounds()),
    }
}

/// The least time from the post of an operation to the poll of its completion, of all kinds and machines.
pub fn unloaded_latency_of_groups(groups: &[Machines<'_>], kinds: &Kinds) -> Span {
    span(&quickest(groups, kinds))
}

/// The least latency of an operation, as the time in each part of the machines.
pub fn unloaded_way_of_groups(groups: &[Machines<'_>], kinds: &Kinds) -> Vec<PartTime> {
    quickest(groups, kinds).by_part()
}

pub(super) fn quickest(groups: &[Machines<'_>], kinds: &Kinds) -> Terms {
    let of_kind = |kind: &(Mix, u64)| match alike(groups) {
        Some((profile, machines)) => way(profile, &Mix { machines, ..kind.0 }),
        None => UnlikeMachines::of(groups, std::slice::from_ref(kind)).quickest(),
    };
    kinds.iter().map(of_kind).min_by(|a, b| a.sum().total_cmp(&b.sum())).unwrap_or_default()
}

/// The common profile and the number of machines, if all machines are alike.
pub(super) fn alike<'a>(groups: &[Machines<'a>]) -> Option<(&'a Profile, u32)> {
    let first = groups.first()?.profile;
    groups.iter().all(|group| group.profile == first).then(|| (first, count(groups)))
}
