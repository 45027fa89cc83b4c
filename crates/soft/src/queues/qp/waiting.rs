//! Send work requests that wait, and for how long.

use crate::engine::attempt::Obstacle;
use crate::engine::batch::Request;
use doorbell_transport::rnr_wait;
use doorbell_verbs::{QpAttr, SendFlags, SendOp, SendWr, Sge, UdDest, WcStatus};
use std::time::{Duration, Instant};

/// `rnr_retry` that stands for no limit.
const RNR_UNLIMITED: u8 = 7;
/// How often a request without answer is tried where no time-out is set.
pub(super) const SILENT_RETRY: Duration = Duration::from_millis(10);

/// A send work request that waits.
#[derive(Debug)]
pub(super) struct Queued {
    /// Its number among those of the QP, from 1.
    number: u64,
    wr_id: u64,
    op: SendOp,
    sges: Vec<Sge>,
    flags: SendFlags,
    dest: Option<UdDest>,
    len: u32,
    inline: Option<Vec<u8>>,
}

/// How the oldest work request waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    obstacle: Obstacle,
    pub(super) until: Instant,
    /// Retries left; `None` where there is no limit.
    left: Option<u32>,
}

impl Queued {
    pub(super) fn new(request: &Request<'_>) -> Queued {
        let wr = &request.wr;
        let copied = match request.inline {
            Some(bytes) => Some(bytes.to_vec()),
            None if wr.flags.contains(SendFlags::INLINE) => Some(copy_inline(wr.sg_list)),
            None => None,
        };
        Queued {
            number: request.number,
            wr_id: wr.wr_id,
            op: wr.op,
            sges: wr.sg_list.to_vec(),
            flags: wr.flags,
            dest: wr.dest,
            len: request.len,
            inline: copied,
        }
    }

    pub(super) fn request(&self) -> Request<'_> {
        let wr = SendWr {
            wr_id: self.wr_id,
            op: self.op,
            sg_list: &self.sges,
            flags: self.flags,
            dest: self.dest,
        };
        Request { wr, len: self.len, inline: self.inline.as_deref(), number: self.number }
    }
}

/// The payload of an inline work request: the program may use its buffers again after the post.
fn copy_inline(sges: &[Sge]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(sges.iter().map(|s| s.length as usize).sum());
    for sge in sges.iter().filter(|sge| sge.length > 0) {
        // SAFETY: the program says that these bytes are readable, as for any inline post; there is
        // no lkey to check.
        bytes.extend_from_slice(unsafe {
            std::slice::from_raw_parts(sge.addr as *const u8, sge.length as usize)
        });
    }
    bytes
}

/// The work request meets an obstacle, perhaps once more; returns its status where that was once
/// too often.
pub(super) fn wait_again(wait: &mut Option<Wait>, obstacle: Obstacle, attr: &QpAttr) -> Option<WcStatus> {
    let now = Instant::now();
    let (period, limit, status) = match obstacle {
        Obstacle::NoRecv(timer) => {
            let period = Duration::from_nanos(rnr_wait(timer).as_ps() / 1000);
            let retries = attr.rnr_retry.unwrap_or(RNR_UNLIMITED);
            let limit = (retries != RNR_UNLIMITED).then_some(u32::from(retries));
            (period, limit, WcStatus::RnrRetryExcErr)
        }
        Obstacle::Silence => {
            let timeout = attr.timeout.unwrap_or(0);
            let retries = u32::from(attr.retry_cnt.unwrap_or(0)) + 1;
            let limit = (timeout != 0).then_some(retries);
            let period = if timeout == 0 { SILENT_RETRY } else { Duration::from_nanos(4096 << timeout) };
            (period, limit, WcStatus::RetryExcErr)
        }
    };
    let same = wait.filter(|w| std::mem::discriminant(&w.obstacle) == std::mem::discriminant(&obstacle));
    let left = match same {
        Some(old) if now < old.until => return None,
        Some(old) => old.left.map(|left| left.saturating_sub(1)),
        None => limit,
    };
    if left == Some(0) {
        return Some(status);
    }
    *wait = Some(Wait { obstacle, until: now + period, left });
    None
}
