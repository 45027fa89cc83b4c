//! Posts of a QP that is watched, and the faults that come to them.

use super::waiting::{SILENT_RETRY, wait_again};
use super::{EVENT_QP_FATAL, Qp, Queued, Sends};
use crate::engine::attempt::{Obstacle, Outcome};
use crate::engine::batch::Request;
use crate::fabric::peer::Owner;
use crate::fabric::pipe::tell;
use crate::memory::cause::{Cause, Check};
use crate::memory::records::{EventRecord, QpRecord, index_of};
use crate::watch::faults::{QpFaults, Verdict};
use crate::watch::port;
use doorbell_transport::is_signaled;
use doorbell_verbs::{QpState, QpType, WcStatus};
use std::sync::atomic::Ordering::*;
use std::time::Instant;

/// Whether it is a work request's turn.
pub(super) enum Turn {
    /// It is to be carried out.
    Go,
    /// It has not come yet.
    Later,
    /// This has become of it.
    Over(Outcome),
    /// The QP has ended with it.
    Ended,
}

impl Qp {
    /// A work request is posted to a QP that is watched; `true` where nothing more is to be done for it now.
    pub(super) fn post_watched(&self, sends: &mut Sends, request: &Request<'_>) -> bool {
        let outstanding = sends.posted.saturating_sub(self.share.freed.load(Relaxed));
        let Some(watch) = &mut sends.watch else { return false };
        if let Some(counts) = &mut watch.counts {
            let wr = &request.wr;
            let signaled = is_signaled(WcStatus::Success, wr.flags, self.sq_sig_all);
            counts.posted(wr, request.len, request.inline.is_some(), signaled, outstanding);
        }
        let Some(faults) = &mut watch.faults else { return false };
        faults.posted(request.number);
        if sends.state != QpState::Rts {
            return false;
        }
        sends.queue.push_back(Queued::new(request));
        self.run_queue(sends);
        true
    }

    /// Whether the oldest work request is to be carried out now.
    pub(super) fn turn(&self, sends: &mut Sends, request: &Request<'_>) -> Turn {
        let Some(own) = faults(sends) else { return Turn::Go };
        let takes_recv = request.wr.op.opcode().consumes_recv();
        let rc = self.qp_type() == QpType::Rc;
        let pending = own.pending(request.number);
        if pending.is_some() && rc {
            if sends.wait.is_some_and(|wait| Instant::now() < wait.until) {
                return Turn::Later;
            }
            // Nobody has answered in time.
            if pending == Some(Verdict::Lose)
                && let Some(status) = wait_again(&mut sends.wait, Obstacle::Silence, &sends.attr)
            {
                return Turn::Over(Outcome::Done(status));
            }
        }
        let Some(own) = faults(sends) else { return Turn::Go };
        match own.verdict(request.number, takes_recv, port::is_down()) {
            Verdict::Go => Turn::Go,
            Verdict::Late => Turn::Later,
            Verdict::Kill => {
                self.kill(sends, request);
                Turn::Ended
            }
            Verdict::PortDown if rc => Turn::Over(Outcome::Wait(Obstacle::Silence)),
            Verdict::PortDown | Verdict::Lose | Verdict::Feign if !rc => Turn::Over(Outcome::Undelivered),
            Verdict::Feign => self.feign(sends),
            _ => {
                // The first time it is sent, no retry is taken; after that it was taken above.
                if pending != Some(Verdict::Lose) {
                    wait_again(&mut sends.wait, Obstacle::Silence, &sends.attr);
                }
                Turn::Later
            }
        }
    }

    /// The responder answers as if no RECV were posted.
    fn feign(&self, sends: &mut Sends) -> Turn {
        let dest_qpn = sends.attr.dest_qp_num.unwrap_or(0);
        let (process, index) = (self.requester.process, index_of(dest_qpn) as usize);
        let timer = |qp: &QpRecord| qp.min_rnr_timer.load(Relaxed) as u8 & 31;
        let found = match process.is_own(dest_qpn) {
            true => process.segment.qp(index).map(timer),
            false => process.peer(dest_qpn).and_then(|peer| peer.segment.qp(index).map(timer)),
        };
        // Where nobody is there, nobody answers.
        let Some(timer) = found else { return Turn::Go };
        match wait_again(&mut sends.wait, Obstacle::NoRecv(timer), &sends.attr) {
            Some(status) => Turn::Over(Outcome::Done(status)),
            None => Turn::Later,
        }
    }

    /// The QP ends by a fault of its own: a NIC that finds its state inconsistent completes the work request so (IB
    /// specification vol. 1, 11.6.2, "Local QP Operation Error") and tells of the QP by an event.
    fn kill(&self, sends: &mut Sends, request: &Request<'_>) {
        self.tell_failure(sends, request, WcStatus::LocQpOpErr);
        self.complete(request, WcStatus::LocQpOpErr);
        self.enter_error(sends);
        let (index, generation) = self.event_identity();
        let event = EventRecord { event_type: EVENT_QP_FATAL, index, generation };
        tell(Owner::This, self.async_pipe.in_record(), event);
    }

    /// When the oldest work request is to be tried next.
    pub(super) fn next_try(&self, sends: &Sends) -> Instant {
        let due = sends.watch.as_ref().and_then(|watch| watch.faults.as_ref()?.next_due());
        match (due, sends.wait) {
            (_, Some(wait)) => wait.until,
            (Some(due), None) => due,
            (None, None) => Instant::now() + SILENT_RETRY,
        }
    }

    /// The fault that has come to a work request which failed like this.
    pub(super) fn fault(&self, sends: &Sends, number: u64, status: WcStatus) -> Option<Cause> {
        let faults = sends.watch.as_ref()?.faults.as_ref()?;
        let times = faults.times(number);
        match (status, faults.pending(number)) {
            (WcStatus::LocQpOpErr, _) if faults.kills(number) => Some(Cause::of(Check::Killed, 0)),
            (WcStatus::RetryExcErr, Some(Verdict::Lose)) => Some(Cause::of(Check::Lost, times)),
            (WcStatus::RnrRetryExcErr, Some(Verdict::Feign)) => Some(Cause::of(Check::Feigned, times)),
            (WcStatus::RetryExcErr, _) if port::is_down() => Some(Cause::of(Check::PortDown, 0)),
            _ => None,
        }
    }
}

fn faults(sends: &mut Sends) -> Option<&mut QpFaults> {
    sends.watch.as_mut()?.faults.as_mut()
}
