//! The machines that take part in a workload, and their QPs, flows and outstanding operations.

use super::mix::{Mix, Outstanding};
use crate::Pattern;
use doorbell_verbs::QpType;
use std::borrow::Cow;
use std::ops::Range;

/// Numbers of QPs, or of flows. At most one unit at a time serves a QP or a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowd {
    /// Number on all machines together.
    pub all: u64,
    /// Number on the machine with the most.
    pub most: u64,
}

impl Crowd {
    fn even(machines: u64, each: u64) -> Crowd {
        Crowd { all: machines * each, most: each }
    }

    /// Maximum number of units that these QPs or flows keep busy, on `machines` machines with `units` units
    /// each.
    pub(super) fn busy(&self, machines: u64, units: u32) -> u64 {
        self.all.min(machines * u64::from(units).min(self.most))
    }
}

/// Machines that have the same role in a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleGroup {
    /// The machines in words.
    pub who: Cow<'static, str>,
    /// Whether they post.
    pub posts: bool,
    /// Whether other machines post to them.
    pub responds: bool,
    /// Number of machines that take part.
    pub machines: u64,
    /// Threads that take part, on all these machines together.
    pub threads: u64,
    /// QPs that have something to send: requests or, if connected, answers.
    pub senders: Crowd,
    /// Flows of arriving packets that keep their order. A flow belongs to a connected QP or to a pair of
    /// unconnected QPs.
    pub flows: Crowd,
}

impl Mix {
    /// The groups of machines that take part.
    ///
    /// Outbound, connected QP k of thread t of machine 0 leads to machine 1 + (k + t) mod (`machines` - 1).
    /// All to all, connected QP k of a thread leads to machine k mod `machines`. A QP that leads to its own
    /// machine is unused.
    pub fn groups(&self) -> Vec<RoleGroup> {
        let mix = &self.sensible();
        match mix.pattern {
            Pattern::Outbound => vec![mix.posters("machine 0", 1), mix.outbound_responders()],
            Pattern::Inbound => {
                vec![mix.inbound_responder(), mix.posters("each other machine", mix.others())]
            }
            Pattern::AllToAll => vec![mix.all_to_all()],
        }
    }

    fn others(&self) -> u64 {
        u64::from(self.machines - 1)
    }

    fn datagrams(&self) -> bool {
        self.qp_type == QpType::Ud
    }

    /// QPs of a machine that posts.
    fn posting_qps(&self) -> u64 {
        u64::from(self.threads) * u64::from(self.qps)
    }

    /// Machines that only post. Answers come back to the requesting QPs.
    pub(super) fn posters(&self, who: impl Into<Cow<'static, str>>, machines: u64) -> RoleGroup {
        let qps = Crowd::even(machines, self.posting_qps());
        RoleGroup {
            who: who.into(),
            posts: true,
            responds: false,
            machines,
            threads: machines * u64::from(self.threads),
            senders: qps,
            flows: qps,
        }
    }

    /// Machine 0 as the target of all QPs of the other machines.
    pub(super) fn inbound_responder(&self) -> RoleGroup {
        let qps = Crowd::even(1, self.posting_qps() * self.others());
        RoleGroup {
            who: "machine 0".into(),
            posts: false,
            responds: true,
            machines: 1,
            threads: u64::from(self.threads),
            senders: qps,
            flows: qps,
        }
    }

    /// The other machines as the targets of machine 0.
    fn outbound_responders(&self) -> RoleGroup {
        let (others, threads, qps) = (self.others(), u64::from(self.threads), u64::from(self.qps));
        let group = RoleGroup {
            who: "each other machine".into(),
            posts: false,
            responds: true,
            machines: others,
            threads: others * threads,
            senders: Crowd::even(others, self.posting_qps()),
            flows: Crowd::even(others, self.posting_qps()),
        };
        if self.datagrams() {
            return group;
        }
        // Each thread gives every machine `qps / others` QPs. The remaining QPs go to successive machines,
        // from the thread's own number on.
        let left = qps % others;
        let most = threads * (qps / others) + threads / others * left + (threads % others).min(left);
        let ends = Crowd { all: self.posting_qps(), most };
        let machines = others.min(qps + threads - 1);
        RoleGroup { machines, threads: threads * others.min(qps), senders: ends, flows: ends, ..group }
    }

    fn all_to_all(&self) -> RoleGroup {
        let (machines, threads) = (u64::from(self.machines), u64::from(self.threads));
        let (senders, flows) = match self.datagrams() {
            true => (
                Crowd::even(machines, self.posting_qps()),
                Crowd::even(machines, self.posting_qps() * self.others()),
            ),
            false => (self.ends_of_all(), self.ends_of_all()),
        };
        RoleGroup {
            who: "each machine".into(),
            posts: true,
            responds: true,
            machines,
            threads: machines * threads,
            senders,
            flows,
        }
    }

    /// Connected QPs, all to all, that post or are posted to.
    fn ends_of_all(&self) -> Crowd {
        let (machines, threads) = (u64::from(self.machines), u64::from(self.threads));
        let (rounds, left) = (u64::from(self.qps) / machines, u64::from(self.qps) % machines);
        // An incomplete round reaches only `left` machines. All other machines post to each of them. The
        // machines that it does not reach only post.
        let of_reached = machines - 1;
        let most = rounds * self.others() + if left > 0 { of_reached } else { 0 };
        let all = rounds * machines * self.others() + left * of_reached + (machines - left) * left;
        Crowd { all: threads * all, most: threads * most }
    }

    /// QPs of all posting machines that have a peer to post to.
    pub fn lanes(&self) -> u64 {
        let mix = &self.sensible();
        match mix.pattern {
            Pattern::Outbound => mix.posting_qps(),
            Pattern::Inbound => mix.posting_qps() * mix.others(),
            Pattern::AllToAll if mix.datagrams() => mix.posting_qps() * u64::from(mix.machines),
            Pattern::AllToAll => mix.posting_qps() * mix.others(),
        }
    }

    /// The least number of QPs on which a thread posts.
    fn least_lanes(&self) -> u32 {
        match self.pattern {
            Pattern::AllToAll if !self.datagrams() => self.qps - self.qps.div_ceil(self.machines),
            _ => self.qps,
        }
    }

    /// QPs of machine 0 that lead to `machine`, and the number of threads that have such QPs; outbound,
    /// connected.
    fn lanes_to(&self, machine: u32) -> (u64, u64) {
        let others = self.machines - 1;
        let ranks = (0..self.threads).map(|thread| (machine - 1 + others - thread % others) % others);
        let lanes = ranks.filter(|rank| *rank < self.qps).map(|rank| (self.qps - rank).div_ceil(others));
        lanes.fold((0, 0), |(sum, threads), lanes| (sum + u64::from(lanes), threads + 1))
    }

    /// Whether machine 0 posts to some of `machines`.
    pub(super) fn reaches(&self, machines: &Range<u32>) -> bool {
        self.datagrams() || machines.clone().any(|machine| self.lanes_to(machine).0 > 0)
    }

    /// The group of those `machines` to which machine 0 posts.
    pub(super) fn responders_among(&self, who: String, machines: &Range<u32>) -> RoleGroup {
        let group = RoleGroup { posts: false, responds: true, ..self.posters(who, machines.len() as u64) };
        if self.datagrams() {
            return group;
        }
        let reached: Vec<(u64, u64)> =
            machines.clone().map(|machine| self.lanes_to(machine)).filter(|(lanes, _)| *lanes > 0).collect();
        let lanes = || reached.iter().map(|(lanes, _)| *lanes);
        let ends = Crowd { all: lanes().sum(), most: lanes().max().unwrap_or(0) };
        let threads = reached.iter().map(|(_, threads)| threads).sum();
        RoleGroup { machines: reached.len() as u64, threads, senders: ends, flows: ends, ..group }
    }

    /// One machine of `group`. It gets the numbers of QPs and flows of the machine with the most.
    pub(super) fn one_of(&self, group: RoleGroup) -> RoleGroup {
        let one = |crowd: Crowd| Crowd::even(1, crowd.most);
        let (senders, flows) = (one(group.senders), one(group.flows));
        RoleGroup { machines: 1, threads: self.threads.into(), senders, flows, ..group }
    }

    /// One of `machines`, all to all. It gets the numbers of QPs and flows of the machine with the most. It
    /// posts if `posts` is true, and otherwise responds.
    pub(super) fn one_of_all(&self, who: String, machines: &Range<u32>, posts: bool) -> RoleGroup {
        let qps = |machine: u32| match self.datagrams() {
            true => self.posting_qps(),
            false => self.ends_of(machine),
        };
        let senders = Crowd::even(1, machines.clone().map(qps).max().unwrap_or(0));
        let flows = match self.datagrams() {
            true => Crowd::even(1, self.posting_qps() * self.others()),
            false => senders,
        };
        RoleGroup {
            who: who.into(),
            posts,
            responds: !posts,
            machines: 1,
            threads: self.threads.into(),
            senders,
            flows,
        }
    }

    /// QPs of a machine that post or are posted to; all to all, connected.
    fn ends_of(&self, machine: u32) -> u64 {
        let (rounds, left) = (self.qps / self.machines, self.qps % self.machines);
        let of_last = if machine < left { self.machines - 1 } else { left };
        u64::from(self.threads) * (u64::from(rounds) * self.others() + u64::from(of_last))
    }

    /// The least share that a target gets of the operations of a machine that posts to it. Threads use their
    /// QPs, or on UD their destinations, in turn or at random.
    pub(super) fn least_share(&self) -> f64 {
        let others = self.machines - 1;
        let (each, of) = match self.pattern {
            _ if self.datagrams() => (1, others),
            Pattern::AllToAll => (self.qps / self.machines, self.qps - self.qps / self.machines),
            Pattern::Outbound | Pattern::Inbound => (self.qps / others, self.qps),
        };
        f64::from(each) / f64::from(of)
    }

    /// The most operations that the posters among `machines` have outstanding.
    pub(super) fn outstanding_of(&self, machines: &Range<u32>) -> Outstanding {
        let own = |machine: u32| match self.pattern {
            Pattern::AllToAll if !self.datagrams() => {
                self.qps.saturating_sub(machine).div_ceil(self.machines)
            }
            _ => 0,
        };
        let qps = machines.clone().map(|machine| u64::from(self.qps - own(machine)));
        let (threads, machines) = (u64::from(self.threads), machines.len() as u64);
        let lanes = threads * qps.sum::<u64>();
        let windows = if self.window_per_qp { lanes } else { threads * machines };
        Outstanding { operations: u64::from(self.window) * windows, lanes }
    }

    /// The most work requests that all threads together have outstanding.
    pub fn outstanding(&self) -> u64 {
        let mix = &self.sensible();
        let windows = match mix.window_per_qp {
            true => mix.lanes(),
            false => u64::from(mix.threads) * u64::from(mix.requesters()),
        };
        u64::from(mix.window) * windows
    }

    /// The least share of the work requests that are signalled. In a drained window, only the last work
    /// request on each QP is signalled.
    pub(super) fn signalled(&self) -> f64 {
        match self.drain {
            true => f64::from(self.least_lanes().clamp(1, self.window)) / f64::from(self.window),
            false => 1.0 / f64::from(self.signal_every),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_verbs::{Opcode, Span};

    fn mixes() -> impl Iterator<Item = Mix> {
        let some = (2..7).flat_map(|m| (1..7).flat_map(move |t| (2..16).map(move |q| (m, t, q))));
        some.flat_map(|(machines, threads, qps)| {
            [
                (Pattern::Outbound, QpType::Rc),
                (Pattern::AllToAll, QpType::Rc),
                (Pattern::AllToAll, QpType::Ud),
            ]
            .map(|(pattern, qp_type)| Mix {
                opcode: Opcode::Send,
                qp_type,
                payload: 0,
                inline: false,
                sges: 1,
                batch: 1,
                signal_every: 1,
                window: 3,
                window_per_qp: true,
                drain: false,
                pattern,
                machines,
                threads,
                qps,
                ports: u32::MAX,
                max_rd_atomic: u32::MAX,
                counters: 1,
                counter_stride: 8,
                device_memory: false,
                one_address: false,
                inline_recv: false,
                recv_batch: 1,
                mixed_lists: false,
                think: Span::ZERO,
            })
        })
    }

    /// The parts of a group that is cut in two add up to the group.
    #[test]
    fn parts_make_a_whole() {
        for mix in mixes() {
            let whole = mix.groups();
            let (first, machines) = (mix.machines / 2, mix.machines);
            if mix.pattern == Pattern::Outbound {
                let among = |machines| mix.responders_among("each other machine".into(), &machines);
                assert_eq!(among(1..machines), whole[1], "{mix:?}");
                let (one, two) = (among(1..first.max(1)), among(first.max(1)..machines));
                assert_eq!(one.machines + two.machines, whole[1].machines, "{mix:?}");
                assert_eq!(one.senders.all + two.senders.all, whole[1].senders.all, "{mix:?}");
                continue;
            }
            let of = |machines| mix.one_of_all(String::new(), &machines, true);
            assert_eq!(of(0..machines).senders.most, whole[0].senders.most, "{mix:?}");
            assert_eq!(of(0..machines).flows.most, whole[0].flows.most, "{mix:?}");
            let all: u64 = (0..machines).map(|m| of(m..m + 1).senders.all).sum();
            assert_eq!(all, whole[0].senders.all, "{mix:?}");
            let (one, two) = (mix.outstanding_of(&(0..first)), mix.outstanding_of(&(first..machines)));
            if mix.qp_type != QpType::Ud {
                assert_eq!(one.lanes + two.lanes, mix.lanes(), "{mix:?}");
            }
            assert_eq!(one.operations + two.operations, mix.outstanding(), "{mix:?}");
        }
    }
}
