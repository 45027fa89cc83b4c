//! What a workload can reach at most, without simulation.

use crate::programs::RECV_BATCH;
use crate::topology;
use crate::workload::{Pattern, Resolved};
use doorbell_nic::limits::{self, Limit, Mix};
use doorbell_nic::{Profile, limits::Pattern as NicPattern};

/// Every bound of the workload, the least first.
pub fn limits(profile: &Profile, w: &Resolved) -> Vec<Limit> {
    limits::limits(profile, &mix(w))
}

fn mix(w: &Resolved) -> Mix {
    Mix {
        opcode: w.opcode(),
        qp_type: w.transport,
        payload: w.size,
        inline: w.inline,
        batch: w.batch,
        signal_every: w.signal_every,
        window: outstanding(w),
        pattern: match w.pattern {
            Pattern::Outbound => NicPattern::Outbound,
            Pattern::Inbound => NicPattern::Inbound,
            Pattern::AllToAll => NicPattern::AllToAll,
        },
        machines: w.machines,
        threads: w.threads,
        qps: w.qps,
        counters: w.counters.unwrap_or(1).into(),
        inline_recv: w.inline_recv,
        recv_batch: RECV_BATCH,
    }
}

/// Operations that a posting thread has outstanding: the window is per QP where not each is
/// signalled.
fn outstanding(w: &Resolved) -> u32 {
    let poster = (0..w.machines).find(|m| topology::requests(w, *m)).unwrap_or(0);
    match w.signal_every {
        1 => w.window,
        _ => w.window.saturating_mul(topology::usable(w, poster, 0).len() as u32),
    }
}
