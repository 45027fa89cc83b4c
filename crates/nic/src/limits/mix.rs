//! The properties of a workload that determine its bounds.

use crate::cost::MessageShape;
use crate::{Pattern, PostShape, Profile, RecvShape};
use doorbell_verbs::{Opcode, QpType, Span};

/// The properties of a workload that determine its bounds. Counts below the sensible minimum (2 machines, 1
/// of everything else) are raised to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mix {
    /// Verb.
    pub opcode: Opcode,
    /// Transport.
    pub qp_type: QpType,
    /// Payload bytes; for a READ the bytes it asks for, for an atomic 8.
    pub payload: u32,
    /// Whether the payload is inline.
    pub inline: bool,
    /// SGEs of each work request. The payload is spread evenly over them.
    pub sges: u32,
    /// Work requests per post.
    pub batch: u32,
    /// One of this many work requests is signalled.
    pub signal_every: u32,
    /// Work requests that a posting thread, or each of its QPs, has outstanding.
    pub window: u32,
    /// Whether each QP has a window of its own. Then the work requests of a QP complete in order, and every
    /// `signal_every`-th work request of a QP is signalled.
    pub window_per_qp: bool,
    /// Whether a thread fills its window only once it is empty. Then the last work request of a window on
    /// each QP is signalled, regardless of `signal_every`.
    pub drain: bool,
    /// Which machines post to which.
    pub pattern: Pattern,
    /// Machines, at least 2.
    pub machines: u32,
    /// Threads on each machine. Each posts only to the threads with its own number.
    pub threads: u32,
    /// QPs of each thread.
    pub qps: u32,
    /// The most ports of each machine that its threads use. A larger number means all ports.
    pub ports: u32,
    /// The most READs and atomics that a QP has outstanding. A number above the NIC's limit means that limit.
    pub max_rd_atomic: u32,
    /// Words of a responder that atomics work on.
    pub counters: u64,
    /// Bytes from one such word to the next.
    pub counter_stride: u64,
    /// Whether the memory that READs, WRITEs and atomics access is on the responder's NIC.
    pub device_memory: bool,
    /// Whether all READs or WRITEs to a responder access one address.
    pub one_address: bool,
    /// Whether inline-receive is on.
    pub inline_recv: bool,
    /// RECVs per post.
    pub recv_batch: u32,
    /// Time from the end of an operation until the post of the operation that replaces it.
    pub think: Span,
    /// Whether lists also hold work requests of other kinds, which this mix does not describe.
    pub mixed_lists: bool,
}

impl Mix {
    /// This workload with every count raised to its sensible minimum.
    pub(super) fn sensible(&self) -> Mix {
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
    pub(super) fn requesters(&self) -> u32 {
        match self.pattern {
            Pattern::Outbound => 1,
            Pattern::Inbound => self.machines - 1,
            Pattern::AllToAll => self.machines,
        }
    }

    /// The shape of the workload's posts to a NIC of this profile. `signaled` says whether they ask for a
    /// completion.
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

    /// A message between machines of two profiles, with the smaller MTU.
    pub(super) fn message(&self, one: &Profile, other: &Profile) -> MessageShape {
        let mtu = one.device.link.mtu.min(other.device.link.mtu);
        MessageShape { mtu, ..one.message(self.opcode, self.qp_type, self.payload) }
    }

    pub(super) fn recv(&self) -> RecvShape {
        RecvShape { inline: self.inline_recv }
    }
}

/// Kinds of operations of a workload, each with its weight. A bound adds up their amounts by their shares.
/// Kinds differ in their work requests, but not in pattern, windows, batches or signals.
pub type Kinds = [(Mix, u64)];

/// The kinds, each with its share of all operations.
pub(super) fn shares(kinds: &Kinds) -> impl Iterator<Item = (&Mix, f64)> + Clone {
    let all: u64 = kinds.iter().map(|(_, weight)| weight).sum();
    kinds.iter().map(move |(mix, weight)| (mix, *weight as f64 / all as f64))
}

/// The most that the posting machines have outstanding.
pub(super) struct Outstanding {
    /// Work requests.
    pub(super) operations: u64,
    /// QPs on which these machines post.
    pub(super) lanes: u64,
}

/// Nanoseconds in a microsecond.
pub(super) const NS_PER_US: f64 = 1e3;

/// Greatest common divisor.
pub fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
