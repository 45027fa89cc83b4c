//! Send work requests that wait to be carried out, and the time until their next try.

use super::window_wr::WindowWr;
use crate::engine::attempt::Obstacle;
use crate::engine::request::{Request, RequestOp};
use doorbell_launch::Timers;
use doorbell_transport::{Retries, ack_timeout, rnr_wait};
use doorbell_verbs::{QpAttr, SendFlags, Sge, Span, UdDest, WcStatus};
use std::time::{Duration, Instant};

/// Period between tries of a request that gets no answer, if the QP has no time-out.
pub(super) const SILENT_RETRY: Duration = Duration::from_millis(10);
/// Period between tries of a request that must not overtake the payload of an earlier message
/// ([`Obstacle::Taking`]).
const TAKING_RETRY: Duration = Duration::from_micros(50);

/// A work request that waits.
#[derive(Debug)]
pub(super) struct WaitingWr {
    /// The work request's number in its QP, from 1.
    pub(super) number: u64,
    pub(super) what: WaitingWhat,
}

/// The content of a waiting work request.
#[derive(Debug)]
pub(super) enum WaitingWhat {
    /// A message, or an operation on the responder's memory.
    Send(WaitingSend),
    /// An operation on a memory window.
    Window(WindowWr),
}

/// A send work request that waits. It owns a copy of the request that the program posted.
#[derive(Debug)]
pub(super) struct WaitingSend {
    wr_id: u64,
    op: RequestOp,
    sges: Vec<Sge>,
    flags: SendFlags,
    dest: Option<UdDest>,
    len: u32,
    inline: Option<Vec<u8>>,
    srqn: u32,
}

/// The wait of the oldest work request: its obstacle, the time of its next try, and its remaining retries.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendWait {
    obstacle: Obstacle,
    pub(super) until: Instant,
    retries: Retries,
}

impl WaitingWr {
    pub(super) fn of_send(request: &Request<'_>) -> WaitingWr {
        let copied = match request.inline {
            Some(bytes) => Some(bytes.to_vec()),
            None if request.flags.contains(SendFlags::INLINE) => Some(copy_inline(request.sg_list)),
            None => None,
        };
        let send = WaitingSend {
            wr_id: request.wr_id,
            op: request.op,
            sges: request.sg_list.to_vec(),
            flags: request.flags,
            dest: request.dest,
            len: request.len,
            inline: copied,
            srqn: request.srqn,
        };
        WaitingWr { number: request.number, what: WaitingWhat::Send(send) }
    }

    pub(super) fn of_window(window: WindowWr, number: u64) -> WaitingWr {
        WaitingWr { number, what: WaitingWhat::Window(window) }
    }
}

impl WaitingSend {
    /// The request as it was posted, with its number.
    pub(super) fn request(&self, number: u64) -> Request<'_> {
        let WaitingSend { wr_id, op, flags, dest, len, srqn, .. } = *self;
        let inline = self.inline.as_deref();
        Request { wr_id, op, sg_list: &self.sges, flags, dest, len, inline, number, srqn }
    }
}

/// The payload of an inline work request, copied because the program may reuse its buffers after the post.
fn copy_inline(sges: &[Sge]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(sges.iter().map(|s| s.length as usize).sum());
    for sge in sges.iter().filter(|sge| sge.length > 0) {
        // SAFETY: the program promises that these bytes are readable, as for any inline post. Inline data has
        // no lkey to check.
        bytes.extend_from_slice(unsafe {
            std::slice::from_raw_parts(sge.addr as *const u8, sge.length as usize)
        });
    }
    bytes
}

impl SendWait {
    pub(super) fn obstacle(self) -> Obstacle {
        self.obstacle
    }

    /// Whether the request must wait longer, because a NIC would not send it again yet.
    pub(super) fn holds_back(self) -> bool {
        let is_of_nic = matches!(self.obstacle, Obstacle::NoRecv(_) | Obstacle::Silence);
        is_of_nic && Timers::own() == Timers::Nic && Instant::now() < self.until
    }

    /// Whether the QP's time-out has passed without an answer.
    pub(super) fn is_timed_out(self, attr: &QpAttr) -> bool {
        let is_silent = matches!(self.obstacle, Obstacle::Silence | Obstacle::Delay);
        let has_timeout = ack_timeout(attr.timeout.unwrap_or(0)) != Span::ZERO;
        is_silent && has_timeout && Instant::now() >= self.until
    }

    /// Creates the wait for an obstacle. `before` is the request's previous wait for this kind of obstacle.
    /// Returns the request's error status if its retries are used up.
    fn new(before: Option<SendWait>, obstacle: Obstacle, attr: &QpAttr) -> Result<SendWait, WcStatus> {
        let all = || Retries::new(attr.retry_cnt.unwrap_or(0), attr.rnr_retry.unwrap_or(0));
        let mut retries = before.map_or_else(all, |wait| wait.retries);
        let period = match obstacle {
            Obstacle::NoRecv(timer) => {
                retries.take_rnr_nak()?;
                duration(rnr_wait(timer))
            }
            Obstacle::Taking => TAKING_RETRY,
            Obstacle::Silence | Obstacle::Delay => match ack_timeout(attr.timeout.unwrap_or(0)) {
                Span::ZERO => SILENT_RETRY,
                timeout => {
                    // The first silence uses up no retry, because the peer may still answer.
                    if before.is_some() {
                        retries.take_unanswered()?;
                    }
                    duration(timeout)
                }
            },
        };
        Ok(SendWait { obstacle, until: Instant::now() + period, retries })
    }
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_ps() / 1000)
}

/// Records that the oldest work request meets an obstacle, for the first time or again. Returns the request's
/// error status if its retries are used up.
pub(super) fn wait_again(wait: &mut Option<SendWait>, obstacle: Obstacle, attr: &QpAttr) -> Option<WcStatus> {
    let is_rnr = |obstacle| matches!(obstacle, Obstacle::NoRecv(_));
    let same = wait.filter(|wait| is_rnr(wait.obstacle) == is_rnr(obstacle));
    if let Some(same) = same.filter(|wait| Instant::now() < wait.until) {
        *wait = Some(SendWait { obstacle, ..same });
        return None;
    }
    match SendWait::new(same, obstacle, attr) {
        Ok(new) => {
            *wait = Some(new);
            None
        }
        Err(status) => Some(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of time-outs until a work request that meets only this obstacle fails, and its status.
    /// Stops at 100 time-outs.
    fn met(obstacle: Obstacle, attr: &QpAttr) -> (u32, Option<WcStatus>) {
        let mut wait = None;
        for times in 1..100 {
            if let Some(status) = wait_again(&mut wait, obstacle, attr) {
                return (times, Some(status));
            }
            let waiting = wait.as_mut().expect("it waits");
            assert_eq!(wait_again(&mut Some(*waiting), obstacle, attr), None, "the time is not over");
            waiting.until = Instant::now();
        }
        (100, None)
    }

    #[test]
    fn retries_are_as_many_as_allowed() {
        for retries in [0, 1, 6] {
            let attr = QpAttr {
                timeout: Some(20),
                retry_cnt: Some(retries),
                rnr_retry: Some(retries),
                ..QpAttr::default()
            };
            let more = u32::from(retries);
            assert_eq!(met(Obstacle::NoRecv(31), &attr), (1 + more, Some(WcStatus::RnrRetryExcErr)));
            assert_eq!(met(Obstacle::Silence, &attr), (2 + more, Some(WcStatus::RetryExcErr)));
            let patient = QpAttr { timeout: Some(0), rnr_retry: Some(7), ..attr };
            assert_eq!(met(Obstacle::NoRecv(31), &patient), (100, None));
            assert_eq!(met(Obstacle::Silence, &patient), (100, None));
        }
    }
}
