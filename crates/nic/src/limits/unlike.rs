//! Bounds if machines differ.
//!
//! If machines post to one machine, the bound is the sum of the rates that each of them can post. A machine
//! that posts to many targets uses them in turn or at random. So each target gets an equal share, and the
//! slowest target bounds the rate. All to all, each machine must post, and answer its share, with its own
//! resources. There the bound of a resource is the largest sum of posted operations that the resource allows.

use super::bounds::{self, BoundKind, Bounds};
use super::groups::RoleGroup;
use super::latency::LatencyWay;
use super::mix::{Kinds, Mix, NS_PER_US, shares};
use super::operation_end::OperationEnd;
use super::terms::{self, Limit, Measure, Terms};
use super::windows::windows;
use crate::{Digits, Pattern, Profile};
use doorbell_verbs::QpType;
use std::ops::Range;

/// A group of like machines of a run.
#[derive(Clone, Copy, Debug)]
pub struct Machines<'a> {
    /// Profile of these machines.
    pub profile: &'a Profile,
    /// Number of machines, at least 1.
    pub count: u32,
}

/// Number of machines in all groups.
pub(super) fn count(groups: &[Machines<'_>]) -> u32 {
    groups.iter().fold(0, |sum, group| sum.saturating_add(group.count.max(1)))
}

/// Machines that are alike and have the same role.
#[derive(Clone, Debug, PartialEq)]
struct RolePart {
    /// Index of the group of these machines.
    group: usize,
    /// Numbers of the machines.
    machines: Range<u32>,
}

impl RolePart {
    fn len(&self) -> u64 {
        self.machines.len() as u64
    }
}

/// A run on machines that differ.
pub(super) struct UnlikeMachines<'a> {
    /// The kinds of operations, each with its share of all operations.
    kinds: Vec<(f64, Mix)>,
    /// The first of the kinds. All kinds have its pattern.
    mix: Mix,
    sides: Vec<OperationEnd<'a>>,
    posters: Vec<RolePart>,
    responders: Vec<RolePart>,
    /// Ports that each machine has and uses.
    ports: u32,
}

/// One machine of a part: its capacity of a resource, and the amounts that operations use. `posts` is the
/// amount for an operation that this machine posts. `answers` is the average amount for an operation that
/// another machine posts.
struct Shared {
    machines: f64,
    capacity: f64,
    posts: f64,
    answers: f64,
    /// The highest rate that the machine can post with all its resources. Without this limit, a machine could
    /// seem to post much and answer little, although another of its resources prevents the high rate.
    most: f64,
    limits: [Limit; 2],
}

impl Shared {
    /// The lowest and the highest rate that the machine can post if all machines together post at rate `all`.
    /// The machine does not answer its own operations. If `all` is impossible, the first exceeds the second.
    fn range(&self, all: f64) -> (f64, f64) {
        let (left, each) = (self.capacity - all * self.answers, self.posts - self.answers);
        match each {
            _ if each > 0.0 => (0.0, (left / each).min(self.most)),
            _ if each < 0.0 => ((left / each).max(0.0), self.most),
            _ if left >= 0.0 => (0.0, self.most),
            _ => (f64::INFINITY, 0.0),
        }
    }

    /// The amount of the resource that the machine uses if it posts `own` of all machines' `all` operations.
    fn taken(&self, own: f64, all: f64) -> f64 {
        own * self.posts + (all - own) * self.answers
    }
}

/// Whether the machines together can post at rate `all`.
fn feasible(machines: &[Shared], all: f64) -> bool {
    let ranges = || machines.iter().map(|m| (m.machines, m.range(all)));
    let (least, most) = ranges().fold((0.0, 0.0), |(a, b), (n, (low, high))| (a + n * low, b + n * high));
    ranges().all(|(_, (low, high))| low <= high) && least <= all && all <= most
}

/// More operations per microsecond than any resource in use allows.
const UNBOUNDED: f64 = 1e12;

/// The highest rate that the machines together can post, if there is a bound. Every lower rate is also
/// feasible.
fn most(machines: &[Shared]) -> Option<f64> {
    let mut high = 1.0;
    while feasible(machines, high) {
        high *= 2.0;
        if high > UNBOUNDED {
            return None;
        }
    }
    let mut low = 0.0;
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if feasible(machines, middle) { low = middle } else { high = middle }
    }
    Some(low)
}

/// The rate that a machine of each part posts if all machines together post the feasible rate `all`.
fn posted(machines: &[Shared], all: f64) -> Vec<f64> {
    let ranges: Vec<(f64, f64)> =
        machines.iter().map(|m| m.range(all)).map(|(l, h)| (l, h.min(all))).collect();
    let sum = |of: fn(&(f64, f64)) -> f64| -> f64 {
        machines.iter().zip(&ranges).map(|(m, r)| m.machines * of(r)).sum()
    };
    let (least, most) = (sum(|r| r.0), sum(|r| r.1));
    let part = if most > least { ((all - least) / (most - least)).clamp(0.0, 1.0) } else { 0.0 };
    ranges.iter().map(|(low, high)| low + part * (high - low)).collect()
}

/// Whether messages are dropped if no RECV is posted. Then a slow receiver does not delay its senders.
fn drops(mix: &Mix) -> bool {
    mix.opcode.consumes_recv() && mix.qp_type != QpType::Rc
}

impl<'a> UnlikeMachines<'a> {
    /// `kinds` must hold at least one kind.
    pub(super) fn of(groups: &[Machines<'a>], kinds: &Kinds) -> UnlikeMachines<'a> {
        let here = |mix: &Mix| Mix { machines: count(groups), ..*mix }.sensible();
        let kinds: Vec<(f64, Mix)> = shares(kinds).map(|(mix, share)| (share, here(mix))).collect();
        let mix = kinds[0].1;
        let mut end = 0u32;
        let ranges = groups.iter().map(|group| {
            let start = end;
            end = end.saturating_add(group.count.max(1));
            start..end
        });
        let all: Vec<RolePart> =
            ranges.enumerate().map(|(group, machines)| RolePart { group, machines }).collect();
        let first = vec![RolePart { group: 0, machines: 0..1 }];
        let others =
            || all.iter().map(|p| RolePart { machines: p.machines.start.max(1)..p.machines.end, ..*p });
        let (posters, responders): (Vec<RolePart>, Vec<RolePart>) = match mix.pattern {
            Pattern::Outbound => (first, others().filter(|p| mix.reaches(&p.machines)).collect()),
            Pattern::Inbound => (others().collect(), first),
            Pattern::AllToAll => (all.clone(), all),
        };
        UnlikeMachines {
            kinds,
            mix,
            sides: groups.iter().map(|group| OperationEnd::of(group.profile)).collect(),
            posters: posters.into_iter().filter(|part| part.len() > 0).collect(),
            responders: responders.into_iter().filter(|part| part.len() > 0).collect(),
            ports: groups
                .iter()
                .map(|group| group.profile.device.link.ports)
                .min()
                .unwrap_or(1)
                .min(mix.ports),
        }
    }

    /// All bounds, unsorted.
    pub(super) fn bounds(&self) -> Vec<Limit> {
        let mut all = match self.mix.pattern {
            Pattern::Outbound => self.outbound(),
            Pattern::Inbound => self.inbound(),
            Pattern::AllToAll => self.all_to_all(),
        };
        all.extend(self.windows());
        all
    }

    /// The steps of the fastest operation between any two machines that exchange operations.
    pub(super) fn quickest(&self) -> Terms {
        let ways = self
            .posters
            .iter()
            .flat_map(|from| self.peers(from, &self.responders).map(move |to| self.way(from, to)));
        ways.min_by(|a, b| a.sum().total_cmp(&b.sum())).unwrap_or_default()
    }

    fn way(&self, from: &RolePart, to: &RolePart) -> Terms {
        LatencyWay::whole(self.side(from), self.side(to), &self.mix)
    }

    fn side(&self, part: &RolePart) -> &OperationEnd<'a> {
        &self.sides[part.group]
    }

    /// The parts of `others` with which a machine of `part` exchanges operations.
    fn peers<'b>(&self, part: &'b RolePart, others: &'b [RolePart]) -> impl Iterator<Item = &'b RolePart> {
        others.iter().filter(move |other| *other != part || part.len() > 1)
    }

    fn who(&self, part: &RolePart) -> String {
        let name = &self.side(part).profile.name;
        match part.len() {
            1 => format!("machine {} ({name})", part.machines.start),
            _ => format!("each of machines {} to {} ({name})", part.machines.start, part.machines.end - 1),
        }
    }

    /// The bound that `group` sets. The group consists of machines like the machines of `part`. The bound is
    /// the largest one over their possible peers, because the shares of the peers are unknown.
    fn bound(&self, kind: BoundKind, part: &RolePart, group: &RoleGroup) -> Limit {
        self.bound_of(kind, part, group, false)
    }

    /// The bound that `group` sets. With `may_drop`, resources that a dropped message does not use are left
    /// out.
    fn bound_of(&self, kind: BoundKind, part: &RolePart, group: &RoleGroup, may_drop: bool) -> Limit {
        let others = if group.posts { &self.responders } else { &self.posters };
        let own = self.side(part);
        let bounds = self.peers(part, others).map(|peer| {
            let peer = self.side(peer);
            self.of_kinds(|mix| {
                let may_drop = may_drop && drops(mix);
                kind(&Bounds { own, peer, mix, group, ports: self.ports, may_drop })
            })
        });
        let largest = bounds.max_by(|a, b| a.mops.total_cmp(&b.mops));
        largest.expect("a machine that takes part has peers")
    }

    /// The bound of a resource for all kinds of operations, each with its share.
    fn of_kinds(&self, bound: impl Fn(&Mix) -> Limit) -> Limit {
        match &self.kinds[..] {
            [(_, mix)] => bound(mix),
            kinds => terms::mixed(kinds.iter().map(|(share, mix)| (*share, bound(mix))).collect()),
        }
    }

    /// The bounds if the other machines post to machine 0. The bounds of the posting machines add up. Machine
    /// 0 is bounded by all operations that arrive.
    fn inbound(&self) -> Vec<Limit> {
        let zero = &self.responders[0];
        let group = RoleGroup { who: self.who(zero).into(), ..self.mix.inbound_responder() };
        let mut all: Vec<Limit> = bounds::KINDS.iter().map(|kind| self.bound(*kind, zero, &group)).collect();
        let posters: Vec<Vec<Limit>> = self.posters.iter().map(|part| self.posting(part)).collect();
        let count = posters.iter().map(Vec::len).min().unwrap_or(0);
        for kind in 0..count {
            all.extend(terms::sum(posters.iter().map(|bounds| bounds[kind].clone()).collect()));
        }
        // The sum of the posters' lowest bounds, if different resources bind them.
        let each = self.least_each();
        if each.iter().any(|limit| limit.resource != each[0].resource) {
            all.extend(terms::sum(each));
        }
        all
    }

    /// The bounds of machines that only post.
    fn posting(&self, part: &RolePart) -> Vec<Limit> {
        let group = self.mix.posters(self.who(part), part.len());
        bounds::KINDS.iter().map(|kind| self.bound(*kind, part, &group)).collect()
    }

    /// The lowest bound of each group that posts, as if no machine posted to the group.
    fn least_each(&self) -> Vec<Limit> {
        let least = |part: &RolePart| {
            let (bounds, windows) = (self.posting(part), self.windows_of(part));
            let all = bounds.into_iter().chain(windows).filter(|limit| limit.mops.is_finite());
            let least = all.min_by(|a, b| a.mops.total_cmp(&b.mops)).expect("windows are finite");
            let (capacity, mut terms) = (part.len() as f64 * NS_PER_US, Terms::default());
            let what = "an operation at the lowest bound of its poster";
            terms.amount(what, capacity / least.mops, Measure::Nanoseconds);
            Limit::new(least.resource, capacity, terms, least.text)
        };
        self.posters.iter().map(least).collect()
    }

    /// The bounds if machine 0 posts to the other machines in turn.
    fn outbound(&self) -> Vec<Limit> {
        let zero = &self.posters[0];
        let mut all = self.posting(zero);
        for kind in bounds::KINDS {
            let groups = self.responders.iter().map(|part| (part, self.among(part)));
            all.extend(terms::sum(groups.map(|(part, group)| self.bound(kind, part, &group)).collect()));
        }
        let share = self.mix.least_share();
        for part in self.responders.iter().filter(|_| share > 0.0) {
            let group = self.mix.one_of(self.among(part));
            for kind in bounds::KINDS {
                let limit = self.bound_of(kind, part, &group, true);
                let percent = Digits(share * 100.0, 1);
                let text =
                    format!("{}, and each machine takes at least {percent}% of all operations", limit.text);
                all.push(terms::scaled(&limit, share, text));
            }
        }
        all
    }

    fn among(&self, part: &RolePart) -> RoleGroup {
        self.mix.responders_among(self.who(part), &part.machines)
    }

    /// The bounds if all machines post. Each machine is the target of its share of the operations that the
    /// other machines post.
    fn all_to_all(&self) -> Vec<Limit> {
        let least = self.least_each();
        let most: Vec<f64> =
            self.posters.iter().zip(&least).map(|(part, limit)| limit.mops / part.len() as f64).collect();
        let posted = terms::sum(least);
        let together = posted.as_ref().map_or(f64::INFINITY, |limit| limit.mops);
        let unknown = vec![f64::INFINITY; most.len()];
        let kinds = bounds::KINDS.into_iter().filter_map(|kind| {
            // If the machines' posting alone sets the bound, the bound of this resource is computed without
            // limits of posting.
            let limit = self.most_of_all(kind, &most)?;
            if limit.mops < 0.999 * together { Some(limit) } else { self.most_of_all(kind, &unknown) }
        });
        kinds.chain(posted).collect()
    }

    /// The highest rate that one resource allows if a machine of each part posts at most its rate in
    /// `most_each`.
    fn most_of_all(&self, kind: BoundKind, most_each: &[f64]) -> Option<Limit> {
        let all: Vec<Shared> =
            self.posters.iter().zip(most_each).map(|(part, most)| self.shared(kind, part, *most)).collect();
        all.iter().any(|machine| machine.posts + machine.answers > 0.0).then_some(())?;
        let mops = most(&all)?;
        let own = posted(&all, mops);
        let (mut capacity, mut terms) = (0.0, Terms::default());
        for (machine, own) in all.iter().zip(&own) {
            capacity += machine.machines * machine.capacity;
            let [posts, responds] = &machine.limits;
            let share = machine.machines / mops;
            terms.add_scaled(posts, share * own);
            terms.add_scaled(responds, share * (mops - own) * self.mix.least_share());
        }
        let unit = all.iter().flat_map(|m| &m.limits).find_map(|limit| limit.terms.first())?.unit;
        terms.amount("unused by machines that wait for other machines", capacity / mops - terms.sum(), unit);
        let usage = |(m, own): &(&Shared, &f64)| m.taken(**own, mops) / m.capacity;
        let (first, own) = all.iter().zip(&own).max_by(|a, b| usage(a).total_cmp(&usage(b)))?;
        let answers = (mops - own) * first.answers;
        let limit = &first.limits[usize::from(answers > own * first.posts)];
        let text = format!(
            "{}, and each machine is the target of an equal share of the other machines' \
             posts",
            limit.text
        );
        Some(Limit::new(limit.resource, capacity, terms, text))
    }

    fn shared(&self, kind: BoundKind, part: &RolePart, most: f64) -> Shared {
        let group = |posts| self.mix.one_of_all(self.who(part), &part.machines, posts);
        let posts = self.bound(kind, part, &group(true));
        let responds = self.bound_of(kind, part, &group(false), true);
        Shared {
            machines: part.len() as f64,
            capacity: posts.capacity,
            posts: posts.taken(),
            most,
            answers: responds.taken() * self.mix.least_share(),
            limits: [posts, responds],
        }
    }

    /// Little's law, for the machines of each group.
    fn windows(&self) -> Vec<Limit> {
        let each: Vec<[Limit; 2]> = self.posters.iter().map(|part| self.windows_of(part)).collect();
        [0, 1]
            .into_iter()
            .filter_map(|i| terms::sum(each.iter().map(|limits| limits[i].clone()).collect()))
            .collect()
    }

    fn windows_of(&self, part: &RolePart) -> [Limit; 2] {
        let under_way = self.mix.outstanding_of(&part.machines);
        let each = self.peers(part, &self.responders);
        let bound = |peer: &RolePart, i: usize| {
            self.of_kinds(|mix| windows(self.side(part), self.side(peer), mix, &under_way)[i].clone())
        };
        let each = each.map(|peer| [0, 1].map(|i| bound(peer, i)));
        let larger = |a: Limit, b: Limit| if b.mops > a.mops { b } else { a };
        let largest = each.reduce(|[a, b], [c, d]| [larger(a, c), larger(b, d)]);
        largest.expect("a machine that takes part has peers")
    }
}
