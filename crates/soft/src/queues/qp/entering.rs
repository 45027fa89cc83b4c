//! Completions of send work requests. A completion is entered into the CQ before the responder can see the
//! request. It is due when the request is done.

use super::Qp;
use crate::engine::completing::Completing;
use crate::engine::request::Request;
use crate::fabric::peer::Owner;
use crate::point::{Point, reach};
use crate::queues::cq::SendDone;
use crate::rings::recvs::Receipt;
use doorbell_verbs::WcStatus;

impl Qp {
    /// Enters a completion into the CQ. Returns `false` if the completion is lost because the CQ has no room.
    /// `done` has the completion's `wr_id`, `enum ibv_wc_opcode` and length in bytes. The arguments are
    /// small, so that registers hold most of them.
    #[inline(never)]
    pub(super) fn enter(
        &self,
        done: (u64, u32, u32),
        number: u64,
        status: WcStatus,
        receipt: Option<Receipt>,
    ) -> bool {
        let (wr_id, opcode, byte_len) = done;
        let qp_num = self.num();
        let own = SendDone { wr_id, status, opcode, byte_len, qp_num, sends: number };
        let has_room = self.send_cq.enter(own, &self.share, receipt);
        if has_room {
            self.share.progress.set_entered(number);
        }
        has_room
    }

    /// Enters a completion that is due at once; `false` if it is lost.
    pub(super) fn complete_now(&self, done: (u64, u32, u32), number: u64, status: WcStatus) -> bool {
        self.enter(done, number, status, None) && self.make_due(number, status)
    }

    /// Enters the completion of a message that takes a RECV of `owner`.
    #[inline(always)]
    pub(super) fn enter_received(
        &self,
        done: (u64, u32, u32),
        number: u64,
        (owner, receipt): (Owner<'_>, Receipt),
    ) {
        self.share.progress.set_receiver(owner);
        self.enter(done, number, WcStatus::Success, Some(receipt));
    }

    /// Makes the completion of a request due; `false` if the completion is lost because the CQ had no room.
    #[inline(always)]
    pub(super) fn make_due(&self, number: u64, status: WcStatus) -> bool {
        reach(Point::CarriedOut);
        if !self.share.progress.has_entered(number) {
            return false;
        }
        self.share.progress.mark_done(number);
        reach(Point::MarkedDone);
        self.send_cq.tell(status != WcStatus::Success);
        true
    }

    /// Removes the entered completions of requests from `number` on. These requests are not done.
    pub(super) fn take_back(&self, number: u64) {
        if self.share.progress.has_entered(number) {
            self.send_cq.take_back((self.num(), number));
            self.share.progress.set_entered(number - 1);
        }
    }
}

/// `wr_id`, opcode and length in the completion of a work request.
#[inline(always)]
pub(super) fn done_of(request: &Request<'_>) -> (u64, u32, u32) {
    (request.wr_id, request.op.wc_opcode(), request.len)
}

/// The completion of a work request that the engine carries out.
pub(super) struct Entering<'a> {
    pub(super) qp: &'a Qp,
    pub(super) request: &'a Request<'a>,
}

impl Completing for Entering<'_> {
    fn enter(&self, recv: Option<(Owner<'_>, Receipt)>) {
        let Entering { qp, request } = *self;
        if !qp.is_signaled(request) {
            return;
        }
        let (done, number) = (done_of(request), request.number);
        match recv {
            Some((owner, receipt)) if qp.share.progress.has_entered(number) => {
                qp.share.progress.set_receiver(owner);
                qp.send_cq.set_receipt((qp.num(), number), receipt);
            }
            Some(recv) => qp.enter_received(done, number, recv),
            None if qp.share.progress.has_entered(number) => {}
            // A lost completion is handled later, when the request is done.
            None => {
                qp.enter(done, number, WcStatus::Success, None);
            }
        }
    }

    fn move_back(&self) -> bool {
        let Entering { qp, request } = *self;
        qp.is_signaled(request) && qp.send_cq.move_back((qp.num(), request.number))
    }
}
