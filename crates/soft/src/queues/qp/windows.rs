//! Work requests for memory windows: IBV_WR_BIND_MW and IBV_WR_LOCAL_INV, which involve only this process,
//! and IBV_WR_SEND_WITH_INV.

use super::posting::{Posting, SINGLE};
use super::waiting::WaitingWr;
use super::window_wr::{WindowOp, WindowWr};
use super::{Qp, Sends};
use crate::causes;
use crate::engine::request::RequestOp;
use crate::memory::windows::WindowError;
use crate::queues::errors::{FailedWindow, LostWr};
use doorbell_transport::{Refused, flushes_sends, is_signaled, state_name};
use doorbell_verbs::{QpState, QpType, SendWr, WcStatus};

impl<'a> Posting<'a> {
    /// Checks whether a work request for a window may be posted: `EINVAL` if the QP is not yet in Rts, or is
    /// a UD QP.
    pub(crate) fn check_window(&self) -> Result<(), Refused> {
        if matches!(self.sends.state, QpState::Reset | QpState::Init | QpState::Rtr) {
            return Err(causes::SEND_STATE.of([&state_name(self.sends.state)]));
        }
        if self.qp_type() == QpType::Ud { Err(causes::SEND_WINDOW_QP.bare()) } else { Ok(()) }
    }

    /// Posts a work request for a window. It keeps its order with the requests posted before and after it.
    #[cold]
    pub(crate) fn post_window(&mut self, wr: &WindowWr) -> Result<(), Refused> {
        self.check_window()?;
        if self.room() == 0 {
            return Err(self.full(SINGLE, 1));
        }
        let (qp, sends) = (self.qp, &mut *self.sends);
        sends.posted += 1;
        let number = sends.posted;
        if let Some(strict) = sends.watch.as_mut().and_then(|watch| watch.strict.as_mut())
            && is_signaled(WcStatus::Success, wr.flags, qp.sq_sig_all)
        {
            strict.signaled = number;
        }
        if !sends.scratch.batch.is_empty() {
            qp.carry_out_gathered(sends);
        }
        if flushes_sends(sends.state) {
            qp.complete_window(wr, number, WcStatus::WrFlushErr);
        } else if sends.state == QpState::Rts && sends.queue.is_empty() {
            qp.carry_out_window(sends, wr, number);
        } else {
            sends.queue.push_back(WaitingWr::of_window(*wr, number));
        }
        Ok(())
    }

    /// Checks whether a SEND with invalidate may be posted. Only RC QPs have such SENDs. `wr` describes the
    /// SEND.
    pub(crate) fn check_invalidating(&self, wr: &SendWr<'_>, inline: Option<&[u8]>) -> Result<(), Refused> {
        if self.qp_type() != QpType::Rc {
            return Err(causes::SEND_OPCODE.of([&"IBV_WR_SEND_WITH_INV", &self.qp_type()]));
        }
        self.check(wr, inline).map(|_| ())
    }

    /// Posts a SEND that invalidates the memory window with this rkey.
    #[cold]
    pub(crate) fn post_invalidating(
        &mut self,
        wr: &SendWr<'_>,
        rkey: u32,
        inline: Option<&'a [u8]>,
    ) -> Result<(), Refused> {
        self.check_invalidating(wr, inline)?;
        self.post_request(wr, RequestOp::SendWithInvalidate(rkey), inline)
    }
}

impl Qp {
    /// Carries out a work request for a window. The caller ensures that all earlier requests are done.
    #[cold]
    pub(super) fn carry_out_window(&self, sends: &mut Sends, wr: &WindowWr, number: u64) {
        let lost = LostWr { number, name: wr.op.name(), wr_id: wr.wr_id };
        let Err(why) = self.change_window(&wr.op) else {
            if !self.complete_window(wr, number, WcStatus::Success) {
                self.lose(sends, lost);
            }
            return;
        };
        let (status, wr_id) = (wr.op.failure(), wr.wr_id);
        if self.share.said.is_first() {
            let (num, qp_type, name) = (self.num(), self.qp_type(), wr.op.name());
            FailedWindow { num, qp_type, number, name, wr_id, status, why }.say();
        }
        match self.complete_window(wr, number, status) {
            true => self.fail(sends),
            false => self.lose(sends, lost),
        }
    }

    fn change_window(&self, op: &WindowOp) -> Result<(), WindowError> {
        let (process, pd) = (self.requester.process, self.requester.pd);
        let revoked = match op {
            WindowOp::Bind(bind) => process.regions.bind(process.segment, (pd, self.num()), bind)?,
            WindowOp::Invalidate(rkey) => {
                Some(process.regions.invalidate(process.segment, self.num(), *rkey)?)
            }
        };
        if let Some(revoked) = revoked {
            process.settle(revoked, op.name());
        }
        Ok(())
    }

    /// Completes a work request for a window if it is signalled or has failed. `false` if the completion is
    /// lost.
    fn complete_window(&self, wr: &WindowWr, number: u64, status: WcStatus) -> bool {
        !is_signaled(status, wr.flags, self.sq_sig_all)
            || self.complete_now((wr.wr_id, wr.op.wc_opcode(), 0), number, status)
    }
}
