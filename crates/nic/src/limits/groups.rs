//! Who takes part in a workload, and how much of it can be under way at once.

use super::{Mix, Pattern};
use doorbell_verbs::QpType;
use std::borrow::Cow;

/// Things that machines have, of which each is served by one unit at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Crowd {
    /// Of all machines together.
    pub all: u64,
    /// Of the machine that has most.
    pub most: u64,
}

impl Crowd {
    fn even(machines: u64, each: u64) -> Crowd {
        Crowd { all: machines * each, most: each }
    }

    /// Units that they can keep busy on all of `machines` together, of which each has `units`.
    pub(super) fn busy(&self, machines: u64, units: u32) -> u64 {
        self.all.min(machines * u64::from(units).min(self.most))
    }
}

/// Machines that take the same part in a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// They, in words.
    pub who: Cow<'static, str>,
    /// Whether they post.
    pub posts: bool,
    /// Whether they are posted to.
    pub responds: bool,
    /// How many of them take part.
    pub machines: u64,
    /// Threads of all of them that take part.
    pub threads: u64,
    /// QPs that have something to send: requests or, where connected, answers.
    pub senders: Crowd,
    /// Flows of packets that arrive and keep their order: of a QP where connected, else from one QP to
    /// another.
    pub flows: Crowd,
}

impl Mix {
    /// Who takes part. Where QPs are connected, QP k of thread t of machine 0 leads to the others in turn,
    /// from number t on; all to all, QP k of a thread leads to machine k mod `machines`, and those that lead
    /// to their own machine have nothing to do.
    pub fn groups(&self) -> Vec<Group> {
        let mix = &self.sensible();
        match mix.pattern {
            Pattern::Outbound => vec![mix.posters("machine 0", 1), mix.outbound_responders()],
            Pattern::Inbound => {
                vec![mix.inbound_responder(), mix.posters("each of the others", mix.others())]
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

    /// Machines that post only. Answers come back to the QPs that asked.
    pub(super) fn posters(&self, who: impl Into<Cow<'static, str>>, machines: u64) -> Group {
        let qps = Crowd::even(machines, self.posting_qps());
        Group {
            who: who.into(),
            posts: true,
            responds: false,
            machines,
            threads: machines * u64::from(self.threads),
            senders: qps,
            flows: qps,
        }
    }

    /// Machine 0, to which each QP of the others leads.
    fn inbound_responder(&self) -> Group {
        let qps = Crowd::even(1, self.posting_qps() * self.others());
        Group {
            who: "machine 0".into(),
            posts: false,
            responds: true,
            machines: 1,
            threads: u64::from(self.threads),
            senders: qps,
            flows: qps,
        }
    }

    /// The others, to which machine 0 posts.
    fn outbound_responders(&self) -> Group {
        let (others, threads, qps) = (self.others(), u64::from(self.threads), u64::from(self.qps));
        let group = Group {
            who: "each of the others".into(),
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
        // Each thread gives every machine as many, and what is left over to those from its number on.
        let left = qps % others;
        let most = threads * (qps / others) + threads / others * left + (threads % others).min(left);
        let ends = Crowd { all: self.posting_qps(), most };
        let machines = others.min(qps + threads - 1);
        Group { machines, threads: threads * others.min(qps), senders: ends, flows: ends, ..group }
    }

    fn all_to_all(&self) -> Group {
        let (machines, threads) = (u64::from(self.machines), u64::from(self.threads));
        let (senders, flows) = match self.datagrams() {
            true => (
                Crowd::even(machines, self.posting_qps()),
                Crowd::even(machines, self.posting_qps() * self.others()),
            ),
            false => (self.ends_of_all(), self.ends_of_all()),
        };
        Group {
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
        // Of a round that is not whole, the machines that it reaches are posted to by all others, and
        // the rest only posts.
        let of_reached = machines - 1;
        let most = rounds * self.others() + if left > 0 { of_reached } else { 0 };
        let all = rounds * machines * self.others() + left * of_reached + (machines - left) * left;
        Crowd { all: threads * all, most: threads * most }
    }

    /// QPs of all posting machines that they post to.
    pub fn lanes(&self) -> u64 {
        let mix = &self.sensible();
        match mix.pattern {
            Pattern::Outbound => mix.posting_qps(),
            Pattern::Inbound => mix.posting_qps() * mix.others(),
            Pattern::AllToAll if mix.datagrams() => mix.posting_qps() * u64::from(mix.machines),
            Pattern::AllToAll => mix.posting_qps() * mix.others(),
        }
    }

    /// The least number of QPs that a thread posts to.
    fn least_lanes(&self) -> u32 {
        match self.pattern {
            Pattern::AllToAll if !self.datagrams() => self.qps - self.qps.div_ceil(self.machines),
            _ => self.qps,
        }
    }

    /// Work requests that all threads together have outstanding at most.
    pub fn outstanding(&self) -> u64 {
        let mix = &self.sensible();
        let windows = match mix.window_per_qp {
            true => mix.lanes(),
            false => u64::from(mix.threads) * u64::from(mix.requesters()),
        };
        u64::from(mix.window) * windows
    }

    /// Share of the work requests that are signalled, at least. Of a window that is drained these are the
    /// last ones on each QP.
    pub(super) fn signalled(&self) -> f64 {
        match self.drain {
            true => f64::from(self.least_lanes().clamp(1, self.window)) / f64::from(self.window),
            false => 1.0 / f64::from(self.signal_every),
        }
    }
}
