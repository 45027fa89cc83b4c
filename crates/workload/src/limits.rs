//! Upper bounds of a workload, computed without simulation.

use crate::{Operation, Pattern, Profiles, RECV_BATCH, Resolved, ResolvedClass, Window};
use doorbell_nic::limits::Pattern as NicPattern;
use doorbell_nic::limits::{self, Limit, Machines, Mix, PartTime};
use doorbell_nic::{PostShape, Profile};
use doorbell_verbs::{QpType, Span};
use schemars::JsonSchema;
use serde::Serialize;

/// All bounds of the workload, lowest first. For threads in classes, these are the bounds of all classes
/// together.
pub fn limits(profiles: &Profiles, w: &Resolved) -> Vec<Limit> {
    let classes = w.classes();
    if let [all] = &classes[..] {
        return limits::limits_of_groups(&groups(profiles, w), &kinds(all.workload));
    }
    let kinds: Vec<(&str, Vec<(Mix, u64)>)> =
        classes.iter().map(|class| (class.name.as_str(), kinds(class.workload))).collect();
    let kinds: Vec<limits::ClassKinds<'_>> = kinds.iter().map(|(name, kinds)| (*name, &kinds[..])).collect();
    limits::limits_of_classes(&groups(profiles, w), &kinds)
}

/// Bounds of a thread class, as if it ran alone.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClassLimits {
    /// Name of the class, or its number if it has no name.
    pub name: String,
    /// Bounds, lowest first. The first is the one that binds.
    pub limits: Vec<Limit>,
}

/// Bounds of each thread class, as if it ran alone; empty without classes.
pub fn limits_of_classes(profiles: &Profiles, w: &Resolved) -> Vec<ClassLimits> {
    let classes = if w.has_classes() { w.classes() } else { Vec::new() };
    let of =
        |class: ResolvedClass<'_>| ClassLimits { limits: limits(profiles, class.workload), name: class.name };
    classes.into_iter().map(of).collect()
}

/// Lower bound of the time from the post of an operation to the end of the poll that finds its completion.
pub fn least_latency(profiles: &Profiles, w: &Resolved) -> Span {
    let of = |class: &ResolvedClass<'_>| {
        limits::unloaded_latency_of_groups(&groups(profiles, w), &kinds(class.workload))
    };
    w.classes().iter().map(of).min().unwrap_or(Span::ZERO)
}

/// The parts of the least latency: the time that each part of the machines takes.
pub fn least_way(profiles: &Profiles, w: &Resolved) -> Vec<PartTime> {
    limits::unloaded_way_of_groups(&groups(profiles, w), &kinds(w))
}

/// The shape of the posts of a machine with this profile, for the workload with payload size `size`.
pub fn post_shape(w: &Resolved, size: u32, profile: &Profile) -> PostShape {
    Mix { payload: size, ..kinds(w)[0].0 }.post(profile, true)
}

/// Largest number of operations that all threads of a class together may have outstanding.
pub fn outstanding(w: &Resolved) -> u64 {
    kinds(w)[0].0.outstanding()
}

/// Number of connected QPs in use by all classes, on the machine that has most of them; `None` for
/// unconnected transports.
pub fn connected_qps(w: &Resolved) -> Option<u64> {
    let of_class = |class: ResolvedClass<'_>| {
        let groups = kinds(class.workload)[0].0.groups().into_iter();
        let of_each = groups.map(|group| group.senders.most.max(group.flows.most));
        of_each.max().filter(|_| class.workload.transport != QpType::Ud)
    };
    // The sum is right because for each class, machine 0 has the most QPs, or all machines have equally many.
    w.classes().into_iter().filter_map(of_class).reduce(|sum, qps| sum + qps)
}

/// Number of QPs in use by all classes, on the machine that has most of them.
pub fn most_qps(w: &Resolved) -> u64 {
    let of_class = |class: ResolvedClass<'_>| {
        let groups = kinds(class.workload)[0].0.groups().into_iter();
        let connected = class.workload.transport != QpType::Ud;
        // A flow over unconnected QPs has no QP of its own.
        let of_each =
            groups.map(|group| group.senders.most.max(if connected { group.flows.most } else { 0 }));
        of_each.max()
    };
    w.classes().into_iter().filter_map(of_class).sum()
}

/// Converts a pattern to the type of the module `limits`.
pub fn nic_pattern(pattern: Pattern) -> NicPattern {
    match pattern {
        Pattern::Outbound => NicPattern::Outbound,
        Pattern::Inbound => NicPattern::Inbound,
        Pattern::AllToAll => NicPattern::AllToAll,
    }
}

fn groups<'a>(profiles: &'a Profiles, w: &Resolved) -> Vec<Machines<'a>> {
    let groups = profiles.all().zip(w.groups());
    groups.map(|(profile, machines)| Machines { profile, count: machines.len() as u32 }).collect()
}

/// The operation kinds, each with its weight.
fn kinds(w: &Resolved) -> Vec<(Mix, u64)> {
    let operations = w.operations();
    let mixed = operations.len() > 1;
    operations.iter().map(|operation| (mix(w, operation, mixed), operation.weight.into())).collect()
}

fn mix(w: &Resolved, operation: &Operation, mixed: bool) -> Mix {
    Mix {
        opcode: operation.opcode,
        qp_type: w.transport,
        payload: operation.size,
        inline: operation.inline,
        sges: operation.sges,
        batch: w.batch,
        signal_every: w.signal_every,
        window: w.window().operations(),
        window_per_qp: matches!(w.window(), Window::PerQp(_)),
        drain: w.drain,
        pattern: nic_pattern(w.pattern),
        machines: w.machines,
        threads: w.threads,
        qps: w.qps,
        ports: w.ports.unwrap_or(u32::MAX),
        max_rd_atomic: w.max_rd_atomic.unwrap_or(u32::MAX),
        counters: w.counters.map_or(1, |counters| counters.count.into()),
        counter_stride: w.counters.map_or(0, |counters| counters.stride.into()),
        device_memory: w.in_device_memory() && !operation.verb.consumes_recv(),
        one_address: w.at_one_address() && operation.verb.reaches_buffers(),
        inline_recv: w.inline_recv,
        recv_batch: RECV_BATCH,
        mixed_lists: mixed,
        think: w.think().map_or(Span::ZERO, |think| think.span()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology;
    use crate::{Verb, Workload};
    use doorbell_nic::limits::{Crowd, RoleGroup};
    use std::collections::{BTreeMap, BTreeSet};

    fn send() -> Resolved {
        let workload = Workload { verb: Some(Verb::Send), ..Workload::default() };
        workload.resolve(&workload.load_profiles().unwrap()).unwrap()
    }

    /// Sending QPs, arriving flows and threads of the machines that take part, counted with the help of
    /// `topology`.
    #[derive(Default)]
    struct Counted {
        senders: BTreeMap<u32, BTreeSet<(u32, u32)>>,
        flows: BTreeMap<u32, BTreeSet<(u32, u32, u32, u32)>>,
        threads: BTreeSet<(u32, u32)>,
        lanes: u64,
        least_lanes: u64,
    }

    fn count(w: &Resolved) -> Counted {
        let mut counted = Counted { least_lanes: u64::MAX, ..Counted::default() };
        let posters = (0..w.machines).filter(|m| topology::requests(w, *m));
        for (machine, thread) in posters.flat_map(|m| (0..w.threads).map(move |t| (m, t))) {
            let usable = topology::usable(w, machine, thread);
            counted.lanes += usable.len() as u64;
            counted.least_lanes = counted.least_lanes.min(usable.len() as u64);
            for k in usable {
                counted.post(w, machine, thread, k);
            }
        }
        counted
    }

    impl Counted {
        fn post(&mut self, w: &Resolved, machine: u32, thread: u32, k: u32) {
            self.senders.entry(machine).or_default().insert((thread, k));
            self.threads.insert((machine, thread));
            if w.transport == QpType::Ud {
                for to in topology::targets(w, machine) {
                    self.flows.entry(to).or_default().insert((machine, thread, k, k));
                    self.threads.insert((to, thread));
                }
                return;
            }
            let there = topology::peer(w, machine, thread, k);
            self.senders.entry(there.machine).or_default().insert((thread, there.qp));
            self.threads.insert((there.machine, thread));
            self.flows.entry(machine).or_default().insert((machine, thread, k, 0));
            self.flows.entry(there.machine).or_default().insert((there.machine, thread, there.qp, 0));
        }
    }

    /// The counts of a group of machines.
    fn crowd<T>(of: &BTreeMap<u32, BTreeSet<T>>, machines: impl Fn(u32) -> bool) -> Crowd {
        let sizes = of.iter().filter(|(m, _)| machines(**m)).map(|(_, set)| set.len() as u64);
        Crowd { all: sizes.clone().sum(), most: sizes.max().unwrap_or(0) }
    }

    #[test]
    fn groups_are_those_of_the_topology() {
        for transport in [QpType::Rc, QpType::Ud] {
            for (pattern, machines) in
                Pattern::ALL.into_iter().flat_map(|(_, p)| [2, 3, 4, 6].map(move |m| (p, m)))
            {
                for (threads, qps) in (1..7).flat_map(|t| [2, 3, 4, 5, 7, 8, 12, 15].map(move |q| (t, q))) {
                    let mut w = send();
                    (w.transport, w.pattern, w.machines) = (transport, pattern, machines);
                    (w.threads, w.qps) = (threads, qps);
                    compare(&w);
                }
            }
        }
    }

    fn compare(w: &Resolved) {
        let (mix, counted) = (kinds(w)[0].0, count(w));
        assert_eq!(mix.lanes(), counted.lanes, "{w:?}");
        for RoleGroup { who, posts, responds, machines, threads, senders, flows } in mix.groups() {
            let ours = |m: u32| posts && topology::requests(w, m) || responds && topology::responds(w, m);
            let taking = (0..w.machines).filter(|m| ours(*m) && counted.threads.iter().any(|t| t.0 == *m));
            assert_eq!(machines, taking.count() as u64, "machines of {who}: {w:?}");
            let taking = counted.threads.iter().filter(|(m, _)| ours(*m)).count() as u64;
            assert_eq!(threads, taking, "threads of {who}: {w:?}");
            // Over UD, machines that do not post send nothing, and machines that only post receive nothing.
            if w.transport != QpType::Ud || posts {
                assert_eq!(senders, crowd(&counted.senders, ours), "senders of {who}: {w:?}");
            }
            if w.transport != QpType::Ud || responds {
                assert_eq!(flows, crowd(&counted.flows, ours), "flows of {who}: {w:?}");
            }
        }
    }
}
