//! Connections of the queue pairs.
//!
//! A thread only ever talks to the same-numbered thread of other machines. Its ports follow from its number,
//! so peers are always on the same port. So it does not matter that different ports may not reach each other
//! (Connect-IB in ATC'16, Table 2). If machines differ, threads use only the ports that all machines have,
//! because any other port reaches only some of them.
//!
//! If threads share QPs, the first threads of a machine own them, and the others use the QPs of their owner.
//! The connections are those of the owners.

use crate::{Pattern, Resolved};
use doorbell_verbs::QpType;

/// The other end of a connected queue pair: QP `qp` of the same-numbered thread of `machine`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The peer's machine.
    pub machine: u32,
    /// The peer's number among the QPs of its thread.
    pub qp: u32,
}

/// Whether the threads of `machine` post.
pub fn posts(pattern: Pattern, machine: u32) -> bool {
    match pattern {
        Pattern::Outbound => machine == 0,
        Pattern::Inbound => machine != 0,
        Pattern::AllToAll => true,
    }
}

/// Whether the threads of `machine` respond.
pub fn is_posted_to(pattern: Pattern, machine: u32) -> bool {
    match pattern {
        Pattern::Outbound => machine != 0,
        Pattern::Inbound => machine == 0,
        Pattern::AllToAll => true,
    }
}

/// Whether the threads of `machine` post.
pub fn requests(w: &Resolved, machine: u32) -> bool {
    posts(w.pattern, machine)
}

/// Whether the threads of `machine` respond.
pub fn responds(w: &Resolved, machine: u32) -> bool {
    is_posted_to(w.pattern, machine)
}

/// Number of threads that post.
pub fn posting_threads(w: &Resolved) -> u64 {
    (0..w.machines).filter(|machine| requests(w, *machine)).count() as u64 * u64::from(w.threads)
}

/// Index of a posting thread among all posting threads, from 0.
pub fn posting_number(w: &Resolved, machine: u32, thread: u32) -> u64 {
    let before = (0..machine).filter(|machine| requests(w, *machine)).count() as u64;
    before * u64::from(w.threads) + u64::from(thread)
}

/// Threads of a machine that own QPs. They are the first ones.
pub fn owners(w: &Resolved) -> u32 {
    w.threads.div_ceil(w.threads_per_qp())
}

/// The thread whose QPs a thread uses: itself, unless threads share QPs.
pub fn owner(w: &Resolved, thread: u32) -> u32 {
    thread % owners(w)
}

/// Number of threads that post to QPs of their own.
pub fn posting_owners(w: &Resolved) -> u64 {
    (0..w.machines).filter(|machine| requests(w, *machine)).count() as u64 * u64::from(owners(w))
}

/// Machines to which `machine` posts.
pub fn targets(w: &Resolved, machine: u32) -> Vec<u32> {
    (0..w.machines).filter(|&m| m != machine && requests(w, machine) && responds(w, m)).collect()
}

/// The first QP of thread `thread` of machine 0 that leads to `machine`, outbound. Threads begin with
/// different machines, so that few QPs per thread reach all machines.
fn rank(w: &Resolved, machine: u32, thread: u32) -> u32 {
    let others = w.machines - 1;
    (machine - 1 + others - thread % others) % others
}

/// QPs that thread `thread` of `machine` creates.
pub fn qps(w: &Resolved, machine: u32, thread: u32) -> u32 {
    let others = w.machines - 1;
    match (w.transport, w.pattern) {
        _ if owner(w, thread) != thread => 0,
        (QpType::Ud, _) => w.qps,
        // Rounded up to a whole round over the machines, so that each QP has a peer.
        (_, Pattern::AllToAll) => w.qps.next_multiple_of(w.machines),
        (_, Pattern::Outbound) if machine == 0 => w.qps,
        (_, Pattern::Outbound) => w.qps / others + u32::from(rank(w, machine, thread) < w.qps % others),
        (_, Pattern::Inbound) if machine == 0 => w.qps * others,
        (_, Pattern::Inbound) => w.qps,
    }
}

/// The other end of QP `k` of thread `thread` of `machine`, which owns it; RC and UC.
pub fn peer(w: &Resolved, machine: u32, thread: u32, k: u32) -> Peer {
    let others = w.machines - 1;
    match w.pattern {
        // QP k leads to machine k mod M. The peer's QP that leads back is in the round of M QPs with QP k's
        // round number. In this round, it has this machine's number.
        Pattern::AllToAll => Peer { machine: k % w.machines, qp: k - k % w.machines + machine },
        Pattern::Outbound if machine == 0 => Peer { machine: 1 + (k + thread) % others, qp: k / others },
        Pattern::Outbound => Peer { machine: 0, qp: k * others + rank(w, machine, thread) },
        Pattern::Inbound if machine == 0 => Peer { machine: 1 + k / w.qps, qp: k % w.qps },
        Pattern::Inbound => Peer { machine: 0, qp: (machine - 1) * w.qps + k },
    }
}

/// The QPs on which thread `thread` of `machine` posts, which owns them. All to all, QPs that lead to their
/// own machine exist but are never used.
pub fn usable(w: &Resolved, machine: u32, thread: u32) -> Vec<u32> {
    let own = |k: &u32| w.transport != QpType::Ud && peer(w, machine, thread, *k).machine == machine;
    if requests(w, machine) { (0..w.qps).filter(|k| !own(k)).collect() } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::tests::resolved;

    fn cases() -> Vec<Resolved> {
        let mut all = Vec::new();
        for pattern in [Pattern::Outbound, Pattern::Inbound, Pattern::AllToAll] {
            for machines in 2..6 {
                for qps in 2..14 {
                    let mut w = resolved("read");
                    (w.pattern, w.machines, w.qps) = (pattern, machines, qps);
                    all.push(w);
                }
            }
        }
        all
    }

    #[test]
    fn every_connection_has_two_ends() {
        for w in cases() {
            for (machine, thread) in (0..w.machines).flat_map(|m| (0..3).map(move |t| (m, t))) {
                for k in 0..qps(&w, machine, thread) {
                    let there = peer(&w, machine, thread, k);
                    assert!(there.qp < qps(&w, there.machine, thread), "{w:?} {machine} {k} {there:?}");
                    let back = peer(&w, there.machine, thread, there.qp);
                    assert_eq!(back, Peer { machine, qp: k }, "{w:?} {thread}");
                }
            }
        }
    }

    #[test]
    fn posted_to_is_only_who_responds() {
        for w in cases() {
            for machine in 0..w.machines {
                for k in usable(&w, machine, 2) {
                    let there = peer(&w, machine, 2, k).machine;
                    assert!(there != machine && responds(&w, there), "{w:?} {machine} {k}");
                }
                assert_eq!(usable(&w, machine, 2).is_empty(), !requests(&w, machine), "{w:?} {machine}");
            }
        }
    }

    #[test]
    fn all_to_all_leads_qp_k_to_machine_k_mod_m() {
        let mut w = resolved("read");
        (w.pattern, w.machines, w.qps) = (Pattern::AllToAll, 6, 30);
        for k in 0..30 {
            assert_eq!(peer(&w, 4, 1, k).machine, k % 6);
        }
        assert_eq!(usable(&w, 4, 1).len(), 25);
    }

    #[test]
    fn threads_with_one_qp_reach_all_machines() {
        let mut w = resolved("read");
        (w.pattern, w.machines, w.qps) = (Pattern::Outbound, 5, 1);
        let reached: std::collections::BTreeSet<u32> = (0..4).map(|t| peer(&w, 0, t, 0).machine).collect();
        assert_eq!(reached.len(), 4);
    }
}
