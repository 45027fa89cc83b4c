//! What a workload can reach at most on a profile, by each resource alone.
//!
//! Bounds are sums of what [`crate::cost`] says, over the packets of a message: nothing that caches miss,
//! no queueing, no imbalance. So none is below what the simulator finds, but for what was under way
//! when it began to measure. Where the rate of a simulation is well below the least of them, one of
//! these is why.

mod bounds;
mod classes;
mod groups;
mod latency;
mod terms;
mod unlike;

pub use classes::{Class, limits_of_classes};
pub use groups::{Crowd, Group};
pub use terms::{Limit, Measure, PartTime, Term};
pub use unlike::Machines;

pub use crate::Pattern;
use crate::cost::{Costs, Message};
use crate::{Digits, PostShape, Profile, RecvShape, Resource, counted};
use bounds::Bounds;
use doorbell_verbs::{Opcode, QpType, Span};
use latency::Way;
use terms::{Terms, together};
use unlike::Cluster;

/// A workload, as far as its bounds depend on it. Counts below the least that makes sense (2
/// machines, 1 of all else) are taken as that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mix {
    /// Verb.
    pub opcode: Opcode,
    /// Transport.
    pub qp_type: QpType,
    /// Payload bytes; of a READ what it asks for, of an atomic 8.
    pub payload: u32,
    /// Whether the payload is inline.
    pub inline: bool,
    /// SGEs of each work request, over which its payload is spread evenly.
    pub sges: u32,
    /// Work requests per post.
    pub batch: u32,
    /// One of this many work requests is signalled.
    pub signal_every: u32,
    /// Work requests that a posting thread, or each of its QPs, has outstanding.
    pub window: u32,
    /// Whether the window is each QP's. Then these complete in order, and of each QP the
    /// `signal_every`-th, twice that, ... are signalled.
    pub window_per_qp: bool,
    /// Whether a thread fills its window only once it is empty; of a window the last work request on
    /// each QP is signalled then, whatever `signal_every` says.
    pub drain: bool,
    /// Who posts to whom.
    pub pattern: Pattern,
    /// Machines, at least 2.
    pub machines: u32,
    /// Threads on each machine. Each posts to the threads of its own number only.
    pub threads: u32,
    /// QPs of each thread.
    pub qps: u32,
    /// Ports of each machine that its threads use, at most; more than a machine has are all of them.
    pub ports: u32,
    /// READs and atomics that a QP has under way, at most; more than a NIC can are what it can.
    pub max_rd_atomic: u32,
    /// Words of a responder that atomics work on.
    pub counters: u64,
    /// Bytes from one of them to the next.
    pub counter_stride: u64,
    /// Whether inline-receive is on.
    pub inline_recv: bool,
    /// RECVs per post.
    pub recv_batch: u32,
    /// Time from the end of an operation until the next is posted in its place.
    pub think: Span,
    /// Whether lists hold work requests of other kinds beside these, of which nothing is said here.
    pub mixed_lists: bool,
}

impl Mix {
    /// This workload with every count at least what makes sense.
    fn sensible(&self) -> Mix {
        Mix {
            sges: self.sges.max(1),
            batch: self.batch.max(1),
            signal_every: self.signal_every.max(1),
            window: self.window.max(1),
            machines: self.machines.max(2),
            threads: self.threads.max(1),
            qps: self.qps.max(1),
            ports: self.ports.max(1),
            max_rd_atomic: self.max_rd_atomic.max(1),
            counters: self.counters.max(1),
            recv_batch: self.recv_batch.max(1),
            ..*self
        }
    }

    /// Machines that post.
    fn requesters(&self) -> u32 {
        match self.pattern {
            Pattern::Outbound => 1,
            Pattern::Inbound => self.machines - 1,
            Pattern::AllToAll => self.machines,
        }
    }

    /// The shape of its posts to a NIC of this profile; `signaled` for those that ask for a completion.
    pub fn post(&self, profile: &Profile, signaled: bool) -> PostShape {
        PostShape {
            opcode: self.opcode,
            qp_type: self.qp_type,
            payload: self.payload,
            sges: self.sges,
            inline: self.inline,
            signaled,
            method: profile.device.generation.posting().method(self.batch),
        }
    }

    /// A message between machines of two profiles: the smaller MTU holds.
    fn message(&self, one: &Profile, other: &Profile) -> Message {
        let mtu = one.device.link.mtu.min(other.device.link.mtu);
        Message { mtu, ..one.message(self.opcode, self.qp_type, self.payload) }
    }

    fn recv(&self) -> RecvShape {
        RecvShape { inline: self.inline_recv }
    }
}

/// All bounds, the least first.
pub fn limits(profile: &Profile, mix: &Mix) -> Vec<Limit> {
    sorted(bounds(profile, mix))
}

/// Kinds of operations of a workload, each with its weight: of the bounds of all, each takes its share. They differ in
/// what they post, not in who posts to whom, in windows, batches or signals.
pub type Kinds = [(Mix, u64)];

/// All bounds of a workload on groups of machines, in the order of their numbers, the least first. How many
/// machines there are, the groups say.
///
/// Where targets are taken at random (all to all), and machines differ, a bound is one of the rate that is
/// reached on average over these draws; so it is where kinds of operations are drawn.
pub fn limits_of_groups(groups: &[Machines<'_>], kinds: &Kinds) -> Vec<Limit> {
    match alike(groups) {
        _ if groups.is_empty() || kinds.is_empty() => Vec::new(),
        Some((profile, machines)) => {
            let kinds: Vec<(Mix, u64)> =
                kinds.iter().map(|(mix, weight)| (Mix { machines, ..*mix }, *weight)).collect();
            limits_of_kinds(profile, &kinds)
        }
        None => sorted(Cluster::of(groups, kinds).bounds()),
    }
}

/// The least time from posting an operation of any kind to having polled its completion, on any of the machines.
pub fn unloaded_latency_of_groups(groups: &[Machines<'_>], kinds: &Kinds) -> Span {
    span(&quickest(groups, kinds))
}

/// What each part of the machines takes of that time.
pub fn unloaded_way_of_groups(groups: &[Machines<'_>], kinds: &Kinds) -> Vec<PartTime> {
    quickest(groups, kinds).by_part()
}

fn quickest(groups: &[Machines<'_>], kinds: &Kinds) -> Terms {
    let of_kind = |kind: &(Mix, u64)| match alike(groups) {
        Some((profile, machines)) => way(profile, &Mix { machines, ..kind.0 }),
        None => Cluster::of(groups, std::slice::from_ref(kind)).quickest(),
    };
    kinds.iter().map(of_kind).min_by(|a, b| a.sum().total_cmp(&b.sum())).unwrap_or_default()
}

/// The way of an operation between machines that are alike.
fn way(profile: &Profile, mix: &Mix) -> Terms {
    let side = Side::of(profile);
    Way::whole(&side, &side, &mix.sensible())
}

/// The profile of all machines, and how many these are, where they are alike.
fn alike<'a>(groups: &[Machines<'a>]) -> Option<(&'a Profile, u32)> {
    let first = groups.first()?.profile;
    groups.iter().all(|group| group.profile == first).then(|| (first, unlike::count(groups)))
}

/// All bounds of kinds of operations that are drawn, the least first.
fn limits_of_kinds(profile: &Profile, kinds: &Kinds) -> Vec<Limit> {
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

/// The kinds, with the part of all operations that each is.
fn shares(kinds: &Kinds) -> impl Iterator<Item = (&Mix, f64)> + Clone {
    let all: u64 = kinds.iter().map(|(_, weight)| weight).sum();
    kinds.iter().map(move |(mix, weight)| (mix, *weight as f64 / all as f64))
}

/// All bounds of several workloads that share a NIC, each with its number of operations, the least
/// first: of each resource, what they take together, of a link in each direction. They differ in what they
/// post, not in who posts to whom.
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

/// The least time from posting an operation of `mix` to having polled its completion.
pub fn unloaded_latency(profile: &Profile, mix: &Mix) -> Span {
    span(&way(profile, mix))
}

fn span(steps: &Terms) -> Span {
    Span::from_ps((steps.sum() * 1e3).round() as u64)
}

/// The bounds that there are, the least first.
fn sorted(mut all: Vec<Limit>) -> Vec<Limit> {
    // What a group has no part in does not bound it.
    all.retain(|limit| limit.mops.is_finite());
    all.sort_by(|a, b| a.mops.total_cmp(&b.mops));
    all
}

/// All bounds, in an order that depends on the pattern alone. Of a link, that of the direction that an operation takes
/// more of.
fn bounds(profile: &Profile, mix: &Mix) -> Vec<Limit> {
    bounds_by(profile, mix, |bounds| bounds.all())
}

/// The same with both directions of a link: not all kinds of operations take more of the same.
fn bounds_by_direction(profile: &Profile, mix: &Mix) -> Vec<Limit> {
    bounds_by(profile, mix, |bounds| bounds::KINDS.iter().map(|kind| kind(bounds)).collect())
}

fn bounds_by(profile: &Profile, mix: &Mix, of_group: impl Fn(&Bounds<'_>) -> Vec<Limit>) -> Vec<Limit> {
    let (mix, side) = (&mix.sensible(), &Side::of(profile));
    let (groups, ports) = (mix.groups(), profile.device.link.ports.min(mix.ports));
    let bounds = |group| Bounds { own: side, peer: side, mix, group, ports, may_drop: false };
    let mut all: Vec<Limit> = groups.iter().flat_map(|group| of_group(&bounds(group))).collect();
    all.extend(windows(side, side, mix, &Outstanding { operations: mix.outstanding(), lanes: mix.lanes() }));
    all
}

/// What the machines of one end of an operation are like.
struct Side<'a> {
    profile: &'a Profile,
    costs: Costs,
}

impl<'a> Side<'a> {
    fn of(profile: &'a Profile) -> Side<'a> {
        Side { profile, costs: Costs::new(profile) }
    }
}

/// What the machines that post have under way at most.
struct Outstanding {
    /// Work requests.
    operations: u64,
    /// QPs that are posted to.
    lanes: u64,
}

/// Little's law: what is outstanding, over the time it takes; of work requests, and of the READs and
/// atomics among them that the NICs let a QP have under way.
fn windows(requester: &Side<'_>, responder: &Side<'_>, mix: &Mix, under_way: &Outstanding) -> [Limit; 2] {
    let bound = |outstanding: u64, what: String, steps: Terms| {
        let text = format!("{what} outstanding, at least {} ns each", Digits(steps.sum(), 0));
        Limit::new(Resource::Latency, outstanding as f64 * NS_PER_US, steps, text)
    };
    let can = |side: &Side<'_>| side.profile.device.nic.max_rd_atomic;
    let of_a_qp = can(requester).min(can(responder)).min(mix.max_rd_atomic);
    let reads = under_way.lanes * u64::from(of_a_qp);
    let in_the_nics = match mix.opcode.returns_data() {
        true => Way::in_the_nics(requester, responder, mix),
        false => Terms::default(),
    };
    let mut whole = Way::whole(requester, responder, mix);
    whole.once("thinking until the next is posted", mix.think.as_ps());
    [
        bound(under_way.operations, counted(under_way.operations, "operation"), whole),
        bound(
            reads,
            match reads {
                1 => "1 READ or atomic of the QPs".to_owned(),
                _ => format!("{reads} READs or atomics of the QPs"),
            },
            in_the_nics,
        ),
    ]
}

/// Nanoseconds of one thing in a microsecond.
const NS_PER_US: f64 = 1e3;

/// Greatest common divisor.
pub fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
