//! Sizes of the queues of a thread.

use crate::{Resolved, Window, topology};
use doorbell_verbs::QpType;

/// RECVs that a responder reposts with one doorbell.
pub const RECV_BATCH: u32 = 16;

/// Least and most RECVs that are posted on a UD QP. Senders of UD never wait for RECVs.
const UD_RECVS: std::ops::RangeInclusive<u64> = 256..=1024;

/// Limits of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueLimits {
    /// Maximum number of work requests of a queue.
    pub max_qp_wr: u32,
    /// Maximum number of entries of a CQ.
    pub max_cqe: u32,
}

/// The queues of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    /// QPs that the thread creates.
    pub qps: u32,
    /// RECVs to keep posted on each QP, or 0 if the QP receives no messages. They are at least twice the
    /// messages that the QP's senders can have outstanding, unless `UD_RECVS` or the device allows fewer.
    pub recv_depth: u32,
    /// CQs that the thread creates for its own operations: one, or one for each QP.
    pub send_cqs: u32,
    /// Completions of sends that can wait in each such CQ, or 0 if the thread posts nothing.
    pub send_cqe: u64,
    /// Completions of RECVs that can wait in the CQ of RECVs.
    pub recv_cqe: u64,
}

impl Queues {
    /// The queues of a thread on a device with these limits.
    pub fn of(w: &Resolved, machine: u32, thread: u32, limits: QueueLimits) -> Queues {
        let qps = topology::qps(w, machine, thread);
        let owns = topology::owner(w, thread) == thread;
        let receives = topology::responds(w, machine) && w.consumes_recvs() && owns;
        let recv_depth = if receives { recv_depth(w, machine, qps, limits) } else { 0 };
        let requests = topology::requests(w, machine);
        let send_cqs = if requests && w.cq_per_qp { qps } else { 1 };
        Queues {
            qps,
            recv_depth,
            send_cqs,
            send_cqe: if requests { send_cqe(w, qps / send_cqs) } else { 0 },
            recv_cqe: u64::from(qps) * u64::from(recv_depth),
        }
    }
}

fn recv_depth(w: &Resolved, machine: u32, qps: u32, limits: QueueLimits) -> u32 {
    let window = 2 * u64::from(w.window().operations()) * u64::from(w.threads_per_qp());
    let wanted = match w.transport {
        QpType::Ud => {
            let senders = (0..w.machines).filter(|m| *m != machine && topology::requests(w, *m)).count();
            (window * senders as u64).clamp(*UD_RECVS.start(), *UD_RECVS.end())
        }
        QpType::Rc | QpType::Uc => window + u64::from(RECV_BATCH),
    };
    // Each RECV may have a completion waiting in the CQ.
    let most = limits.max_qp_wr.min(limits.max_cqe / qps.max(1)).max(1);
    wanted.next_multiple_of(RECV_BATCH.into()).min(most.into()) as u32
}

/// Maximum number of completions of sends that can wait in a CQ that `qps` QPs share.
fn send_cqe(w: &Resolved, qps: u32) -> u64 {
    let (qps, s) = (u64::from(qps), w.signal_every);
    match w.window() {
        Window::PerQp(operations) => qps * u64::from(operations.div_ceil(s)),
        // Each QP counts to its next signalled operation by itself, so each may add one completion.
        Window::PerThread(operations) => {
            let of_thread = u64::from(operations).min(u64::from(operations / s) + qps);
            of_thread * u64::from(w.threads_per_qp())
        }
    }
}
