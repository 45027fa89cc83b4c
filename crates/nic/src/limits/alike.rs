//! Bounds if all machines are alike.

use super::bounds::{self, Bounds};
use super::latency::LatencyWay;
use super::mix::{Kinds, Mix, Outstanding, shares};
use super::operation_end::OperationEnd;
use super::terms::{self, Limit, Terms, together};
use super::windows::windows;
use crate::Profile;
use doorbell_verbs::Span;

/// All bounds, the lowest first.
pub fn limits(profile: &Profile, mix: &Mix) -> Vec<Limit> {
    sorted(bounds(profile, mix))
}

/// The steps of an operation between machines that are alike.
pub(super) fn way(profile: &Profile, mix: &Mix) -> Terms {
    let side = OperationEnd::of(profile);
    LatencyWay::whole(&side, &side, &mix.sensible())
}

/// All bounds of a workload that draws kinds of operations, the lowest first.
pub(super) fn limits_of_kinds(profile: &Profile, kinds: &Kinds) -> Vec<Limit> {
    if let [(mix, _)] = kinds {
        return limits(profile, mix);
    }
    let each: Vec<(f64, Vec<Limit>)> =
        shares(kinds).map(|(mix, share)| (share, bounds_by_direction(profile, mix))).collect();
    let count = each.first().map_or(0, |(_, bounds)| bounds.len());
    let bound =
        |i: usize| terms::mixed(each.iter().map(|(share, bounds)| (*share, bounds[i].clone())).collect());
    sorted((0..count).map(bound).collect())
}

/// All bounds of several workloads that share a NIC, the lowest first. `parts` holds each workload with its
/// number of operations. A bound adds up the amounts of one resource that all workloads use. A link has a
/// bound for each direction. All bounds use the pattern of the first workload.
pub fn limits_of_all(profile: &Profile, parts: &[(Mix, u64)]) -> Vec<Limit> {
    let parts: Vec<(&Mix, u64)> = parts.iter().filter(|(_, n)| *n > 0).map(|(mix, n)| (mix, *n)).collect();
    if let [(mix, _)] = &parts[..] {
        return limits(profile, mix);
    }
    let all: u64 = parts.iter().map(|(_, n)| n).sum();
    let each: Vec<(f64, Vec<Limit>)> = parts
        .iter()
        .map(|(mix, n)| {
            let mix = Mix { pattern: parts[0].0.pattern, ..**mix };
            (*n as f64 / all as f64, bounds_by_direction(profile, &mix))
        })
        .collect();
    let count = each.first().map_or(0, |(_, bounds)| bounds.len());
    sorted((0..count).map(|i| together(each.iter().map(|(share, bounds)| (*share, &bounds[i])))).collect())
}

/// The least time from the post of an operation of `mix` to the poll of its completion.
pub fn unloaded_latency(profile: &Profile, mix: &Mix) -> Span {
    span(&way(profile, mix))
}

pub(super) fn span(steps: &Terms) -> Span {
    Span::from_ps((steps.sum() * 1e3).round() as u64)
}

/// Keeps the finite bounds and sorts them, the lowest first.
pub(super) fn sorted(mut all: Vec<Limit>) -> Vec<Limit> {
    // A resource that a group does not use does not bound it.
    all.retain(|limit| limit.mops.is_finite());
    all.sort_by(|a, b| a.mops.total_cmp(&b.mops));
    all
}

/// All bounds, in an order that depends on the pattern alone. The link has one bound, for the direction that
/// an operation uses more.
fn bounds(profile: &Profile, mix: &Mix) -> Vec<Limit> {
    bounds_by(profile, mix, |bounds| bounds.all())
}

/// All bounds, with one for each direction of the link, because each kind of operation may use another
/// direction more.
pub(super) fn bounds_by_direction(profile: &Profile, mix: &Mix) -> Vec<Limit> {
    bounds_by(profile, mix, |bounds| bounds::KINDS.iter().map(|kind| kind(bounds)).collect())
}

fn bounds_by(profile: &Profile, mix: &Mix, of_group: impl Fn(&Bounds<'_>) -> Vec<Limit>) -> Vec<Limit> {
    let (mix, side) = (&mix.sensible(), &OperationEnd::of(profile));
    let (groups, ports) = (mix.groups(), profile.device.link.ports.min(mix.ports));
    let bounds = |group| Bounds { own: side, peer: side, mix, group, ports, may_drop: false };
    let mut all: Vec<Limit> = groups.iter().flat_map(|group| of_group(&bounds(group))).collect();
    all.extend(windows(side, side, mix, &Outstanding { operations: mix.outstanding(), lanes: mix.lanes() }));
    all
}
