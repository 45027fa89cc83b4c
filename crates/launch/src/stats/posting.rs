//! Describes the posts and attributes of a process's QPs, and computes the bounds of their rate.

use crate::counts::qp::{PostedShape, QpCounts};
use doorbell_nic::Profile;
use doorbell_nic::limits::{self, Limit, Mix, Pattern};
use doorbell_verbs::{QpType, Span};
use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

/// The number of RECVs that a peer posts at a time. The counts do not contain it, so this is the number that
/// `doorbell simulate` assumes.
const PEER_RECVS: u32 = 16;

/// Number of peers, threads and QPs, the depth of the queues, and the attributes of the QPs.
#[derive(Clone, Debug)]
pub(super) struct Posting {
    /// This machine and the machines that it posts to, at most 256.
    pub(super) machines: u32,
    /// Machines that post, and the threads of each.
    pub(super) posters: u32,
    pub(super) threads: u32,
    /// QPs of each thread.
    pub(super) qps: u32,
    /// All QPs that posted, and their CQs of sends.
    pub(super) all_qps: u32,
    pub(super) send_cqs: u32,
    /// Sum over all QPs: the mean number of outstanding work requests at which the program waits for
    /// completions.
    pub(super) depth: f64,
    /// The numbers of READs and atomics that the QPs may have outstanding; empty if no QP posted any.
    pub(super) rd_atomic: BTreeSet<u32>,
    /// The `path_mtu` of the QPs in bytes, `None` for those that are not connected.
    pub(super) path_mtus: BTreeSet<Option<u32>>,
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
        let (mut rd_atomic, mut path_mtus) = (BTreeSet::new(), BTreeSet::new());
        for (process, qp) in all.iter().enumerate().flat_map(|(at, own)| own.iter().map(move |qp| (at, qp))) {
            if qp.outstanding_sum == 0 {
                continue;
            }
            threads.extend(qp.threads.iter().map(|thread| (process, *thread)));
            peers.extend(qp.peers());
            depth += qp.depth;
            qps += 1;
            cqs.insert((process, qp.send_cq));
            rd_atomic.extend(qp.rd_atomic());
            path_mtus.insert(qp.path_mtu);
        }
        let threads = threads.len().max(1) as u32;
        Posting {
            machines: peers.len().clamp(1, 255) as u32 + 1,
            posters: 1,
            threads,
            qps: u32::div_ceil(qps, threads).max(1),
            all_qps: qps,
            send_cqs: cqs.len() as u32,
            depth,
            rd_atomic,
            path_mtus,
        }
    }

    /// Number of QPs if all threads have equally many.
    pub(super) fn equal_qps(&self) -> u32 {
        self.posters * self.threads * self.qps
    }

    /// The depth of each of these QPs, with the same depth in total.
    pub(super) fn of_qp(&self) -> u32 {
        ((self.depth / f64::from(self.equal_qps())).round() as u32).max(1)
    }

    /// The depth of all QPs of a thread.
    pub(super) fn of_thread(&self) -> u32 {
        ((self.depth / f64::from(self.posters * self.threads)).round() as u32).max(1)
    }

    /// Whether there are several QPs, and each has a CQ of its own for its sends.
    pub(super) fn has_own_cqs(&self) -> bool {
        self.all_qps > 1 && self.send_cqs == self.all_qps
    }

    /// The different [MTUs](mtu_on) of the QPs on the profile's NIC.
    pub(super) fn mtus(&self, profile: &Profile) -> BTreeSet<u32> {
        self.path_mtus.iter().map(|mtu| mtu_on(profile, *mtu)).collect()
    }

    /// The bounds of all work requests of these QPs. If MTUs or numbers of READs differ, the bounds are
    /// those of the highest ones.
    pub(super) fn limits(&self, profile: &Profile, all: &[QpCounts]) -> Vec<Limit> {
        let longest = self.mtus(profile).last().copied();
        let profile = &*with_mtu(profile, longest.unwrap_or(profile.device.link.mtu));
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
            window: self.of_thread(),
            window_per_qp: false,
            drain: false,
            pattern: Pattern::Outbound,
            machines: self.machines,
            threads: self.threads,
            qps: self.qps,
            ports: u32::MAX,
            max_rd_atomic: self.rd_atomic.last().copied().unwrap_or(u32::MAX),
            counters: 1,
            counter_stride: 8,
            device_memory: false,
            one_address: false,
            inline_recv: false,
            recv_batch: PEER_RECVS,
            mixed_lists: false,
            think: Span::ZERO,
        }
    }
}

/// The most payload bytes of a packet of a QP: its `path_mtu`, but at most the MTU of the profile's NIC.
/// iWARP has no `path_mtu`, and a QP without one sends datagrams of one packet.
pub(super) fn mtu_on(profile: &Profile, path_mtu: Option<u32>) -> u32 {
    let (own, is_iwarp) = (profile.device.link.mtu, profile.device.generation.is_iwarp());
    path_mtu.filter(|_| !is_iwarp).map_or(own, |mtu| mtu.min(own))
}

/// The profile with this MTU.
pub(super) fn with_mtu(profile: &Profile, mtu: u32) -> Cow<'_, Profile> {
    if mtu == profile.device.link.mtu {
        return Cow::Borrowed(profile);
    }
    let mut changed = profile.clone();
    changed.device.link.mtu = mtu;
    Cow::Owned(changed)
}

/// The least of the known values.
pub(super) fn least(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    one.into_iter().chain(other).min()
}
