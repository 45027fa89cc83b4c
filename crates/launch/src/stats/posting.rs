//! Describes the posts and attributes of a process's QPs, and computes the bounds of their rate.

use crate::counts::qp::{PostedShape, QpCounts};
use doorbell_nic::Profile;
use doorbell_nic::limits::{self, Limit, Mix, Pattern};
use doorbell_verbs::{QpType, Span};
use std::collections::{BTreeSet, HashMap};

/// The number of RECVs that a peer posts at a time. The counts do not contain it, so this is the number that
/// `doorbell simulate` assumes.
const PEER_RECVS: u32 = 16;

/// Number of peers, threads and QPs, the depth of the queues, and the attributes of the QPs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Posting {
    /// This machine and the machines that it posts to, at most 256.
    pub(super) machines: u32,
    pub(super) threads: u32,
    /// QPs of each thread.
    pub(super) qps: u32,
    /// Mean number of outstanding work requests at which the program waits for completions: those of the QP
    /// (`of_qp`), or of all QPs of the thread (`of_thread`).
    pub(super) of_qp: u32,
    pub(super) of_thread: u32,
    /// Mean number of READs and atomics that a QP may have outstanding; `None` if no QP posted any.
    pub(super) rd_atomic: Option<u32>,
    /// The least `path_mtu` in bytes; `None` if no QP is connected.
    pub(super) path_mtu: Option<u32>,
    /// Whether there are several QPs, and each has a CQ of its own for its sends.
    pub(super) has_own_cqs: bool,
}

impl Posting {
    pub(super) fn of(all: &[QpCounts]) -> Posting {
        Posting::of_processes(&[all])
    }

    /// Describes the QPs of several processes together. Threads of different processes are different, even
    /// with equal numbers.
    pub(super) fn of_processes(all: &[&[QpCounts]]) -> Posting {
        let (mut threads, mut peers) = (BTreeSet::<(usize, u32)>::new(), BTreeSet::<u32>::new());
        let (mut qps, mut depth, mut cqs) = (0, 0.0, BTreeSet::<(usize, u64)>::new());
        let (mut reads, mut path_mtu) = (Vec::new(), None);
        for (process, qp) in all.iter().enumerate().flat_map(|(at, own)| own.iter().map(move |qp| (at, qp))) {
            if qp.outstanding_sum == 0 {
                continue;
            }
            threads.extend(qp.threads.iter().map(|thread| (process, *thread)));
            peers.extend(qp.peers());
            depth += qp.depth;
            qps += 1;
            cqs.insert((process, qp.send_cq));
            reads.extend(qp.rd_atomic());
            path_mtu = least(path_mtu, qp.path_mtu);
        }
        let threads = threads.len().max(1) as u32;
        let rounded = |depth: f64| (depth.round() as u32).max(1);
        Posting {
            machines: peers.len().clamp(1, 255) as u32 + 1,
            threads,
            qps: u32::div_ceil(qps, threads).max(1),
            of_qp: rounded(depth / f64::from(qps.max(1))),
            of_thread: rounded(depth / f64::from(threads)),
            rd_atomic: (!reads.is_empty())
                .then(|| rounded(reads.iter().sum::<u32>() as f64 / reads.len() as f64)),
            path_mtu,
            has_own_cqs: qps > 1 && cqs.len() == qps as usize,
        }
    }

    /// The bounds of all work requests of these QPs.
    pub(super) fn limits(&self, profile: &Profile, all: &[QpCounts]) -> Vec<Limit> {
        let profile = &match self.shorter_mtu(profile) {
            None => profile.clone(),
            Some(mtu) => {
                let mut shorter = profile.clone();
                shorter.device.link.mtu = mtu;
                shorter
            }
        };
        let mut kinds: HashMap<Mix, u64> = HashMap::new();
        for qp in all {
            for ((shape, list), n) in qp.sends() {
                *kinds.entry(self.mix(qp.qp_type, &shape, list)).or_default() += n;
            }
        }
        let mut kinds: Vec<(Mix, u64)> = kinds.into_iter().collect();
        // Sorted, because the sum of floating-point numbers depends on their order.
        kinds.sort_by_key(|(mix, n)| (*n, mix.payload, mix.batch, mix.opcode, mix.signal_every, mix.inline));
        limits::limits_of_all(profile, &kinds)
    }

    /// The `path_mtu` in bytes, if it is shorter than the MTU of the profile's NIC. iWARP has no such
    /// attribute.
    pub(super) fn shorter_mtu(&self, profile: &Profile) -> Option<u32> {
        let device = &profile.device;
        self.path_mtu.filter(|mtu| !device.generation.is_iwarp() && *mtu < device.link.mtu)
    }

    fn mix(&self, qp_type: QpType, shape: &PostedShape, list: u32) -> Mix {
        Mix {
            opcode: shape.opcode,
            qp_type,
            payload: shape.payload,
            inline: shape.inline,
            sges: 1,
            batch: list,
            // Either all requests of a shape are signalled, or none is.
            signal_every: if shape.signaled { 1 } else { u32::MAX },
            window: self.of_thread,
            window_per_qp: false,
            drain: false,
            pattern: Pattern::Outbound,
            machines: self.machines,
            threads: self.threads,
            qps: self.qps,
            ports: u32::MAX,
            max_rd_atomic: self.rd_atomic.unwrap_or(u32::MAX),
            counters: 1,
            counter_stride: 8,
            inline_recv: false,
            recv_batch: PEER_RECVS,
            mixed_lists: false,
            think: Span::ZERO,
        }
    }
}

/// The least of the known values.
pub(super) fn least(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    one.into_iter().chain(other).min()
}
