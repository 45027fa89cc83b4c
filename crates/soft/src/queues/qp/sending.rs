//! Carries out the work requests of a QP: at once, gathered with others of their list, or later.

use super::entering::{Entering, done_of};
use super::waiting::{SILENT_RETRY, SendWait, WaitingWhat, WaitingWr};
use super::watching::SendTurn;
use super::{Qp, Sends};
use crate::engine::attempt::{Attempt, Obstacle, Outcome};
use crate::engine::batch::Batch;
use crate::engine::request::Request;
use crate::engine::requester::Route;
use crate::fabric::progress::Waiting;
use crate::memory::records::EVENT_QP_FATAL;
use crate::memory::transfer::Unreachable;
use crate::path::Paths;
use crate::queues::errors::{LostCompletion, LostWr};
use doorbell_launch::counts::drops::DropCause;
use doorbell_launch::qp_numbers::MULTICAST_QPN;
use doorbell_transport::{flushes_sends, is_signaled, sent_qkey, state_after_failed_send};
use doorbell_verbs::{QpState, SendFlags, SendOp, SendWr, WcStatus};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

/// Maximum number of times that gathered READs are carried out. They are repeated if RECVs arrive meanwhile.
const READS: u32 = 8;

impl Qp {
    pub(super) fn run_queue(&self, sends: &mut Sends) {
        self.carry_out_queue(sends);
        if !sends.queue.is_empty()
            && let Some(me) = self.me.upgrade()
        {
            self.requester.process.progress.add(me);
        }
    }

    fn carry_out_queue(&self, sends: &mut Sends) {
        while sends.state == QpState::Rts
            && !sends.wait.is_some_and(SendWait::holds_back)
            && let Some(front) = sends.queue.pop_front()
        {
            let request = match &front.what {
                WaitingWhat::Send(send) => send.request(front.number),
                WaitingWhat::Window(window) => {
                    self.carry_out_window(sends, window, front.number);
                    continue;
                }
            };
            let outcome = match self.turn(sends, &request) {
                SendTurn::Go => self.attempt_alone(sends, &request),
                SendTurn::Over(outcome) => outcome,
                SendTurn::Ended => return,
                SendTurn::Later => {
                    sends.queue.push_front(front);
                    return;
                }
            };
            let status = match self.status(sends, &request, outcome) {
                Ok(status) => status,
                Err(obstacle) => match sends.meets(obstacle) {
                    Some(status) => status,
                    None => {
                        sends.queue.push_front(front);
                        return;
                    }
                },
            };
            sends.end_wait(status);
            self.finish(sends, &request, status);
        }
    }

    /// Carries out one work request while no request is gathered.
    fn attempt_alone(&self, sends: &mut Sends, request: &Request<'_>) -> Outcome {
        let route = route(sends, &self.requester.process.paths, request);
        let entering = Entering { qp: self, request };
        let attempt = self.requester.attempt(&mut sends.scratch, &route, request, &entering);
        if let Attempt::Over(outcome) = attempt {
            return outcome;
        }
        debug_assert_eq!(attempt, Attempt::Gathered);
        let (_, cause) = self.move_gathered(sends);
        let outcome = cause.map_or(Outcome::Done(WcStatus::Success), |cause| {
            self.requester.not_moved(&sends.scratch, route.dest_qpn.unwrap_or(0), cause)
        });
        sends.scratch.batch.clear();
        outcome
    }

    /// Changes the QP's state after a failed work request.
    pub(super) fn fail(&self, sends: &mut Sends) {
        match state_after_failed_send(self.qp_type()) {
            QpState::Err => self.enter_error(sends),
            state => {
                sends.state = state;
                self.record.show(state);
                if let Some(lost) = self.flush_sends(sends) {
                    self.lose(sends, lost);
                }
            }
        }
    }

    /// The status of a work request with this outcome; `Err` if the request has to wait.
    #[inline(always)]
    fn status(
        &self,
        sends: &mut Sends,
        request: &Request<'_>,
        outcome: Outcome,
    ) -> Result<WcStatus, Obstacle> {
        match outcome {
            Outcome::Done(status) => Ok(status),
            Outcome::Undelivered(known) => {
                self.note_loss(sends, request, known);
                Ok(WcStatus::Success)
            }
            Outcome::Wait(obstacle) => Err(obstacle),
        }
    }

    /// Records a message of UC or UD that no receiver took. The cause is found only if the QP is watched.
    #[cold]
    #[inline(never)]
    fn note_loss(&self, sends: &mut Sends, request: &Request<'_>, known: DropCause) {
        if sends.watch.is_some() {
            let loss = self.loss(sends, request, known);
            sends.lost(&loss);
        }
    }

    /// Records the first of the gathered messages that are left like [`Qp::note_loss`].
    #[cold]
    fn note_loss_of_gathered(&self, sends: &mut Sends, known: DropCause) {
        if sends.watch.is_some()
            && let Some(loss) = sends.scratch.batch.first_left().map(|left| self.loss(sends, &left, known))
        {
            sends.lost(&loss);
        }
    }

    /// Ends a send work request with this status. If it has failed or its completion is lost, the QP's state
    /// changes.
    #[inline]
    fn finish(&self, sends: &mut Sends, request: &Request<'_>, status: WcStatus) {
        if status != WcStatus::Success {
            self.tell_failure(sends, request, status);
        }
        if !self.complete(request, status) {
            self.lose(sends, LostWr::of(request));
        } else if status != WcStatus::Success {
            self.fail(sends);
        }
    }

    /// Puts the QP into Err, because the CQ had no room for the completion of a send work request. A QP of
    /// any type that cannot report completions enters Err ("Local Work Queue Catastrophic Error", IB
    /// specification vol. 1, 11.6.3.2). The CQ's own error was reported before.
    #[cold]
    pub(super) fn lose(&self, sends: &mut Sends, lost: LostWr) {
        // In Err, only flushed work requests complete, and their loss has no further effect.
        if sends.state == QpState::Err {
            return;
        }
        if self.share.said.is_first() {
            let (num, qp_type, cqe) = (self.num(), self.qp_type(), self.send_cq.cqe.load(Relaxed));
            LostCompletion { num, qp_type, cqe, lost }.say();
        }
        self.tell(EVENT_QP_FATAL);
        self.enter_error(sends);
    }

    /// Completes a send work request if it asks for a completion or has failed. `false` if the completion is
    /// lost.
    #[inline]
    pub(super) fn complete(&self, request: &Request<'_>, status: WcStatus) -> bool {
        if !is_signaled(status, request.flags, self.sq_sig_all) {
            return true;
        }
        let number = request.number;
        if !self.is_signaled(request) || !self.share.progress.has_entered(number) {
            return self.complete_now(done_of(request), number, status);
        }
        if status != WcStatus::Success {
            self.send_cq.set_status((self.num(), number), status);
        }
        self.make_due(number, status)
    }

    /// Whether a successful work request asks for a completion.
    #[inline(always)]
    pub(super) fn is_signaled(&self, request: &Request<'_>) -> bool {
        is_signaled(WcStatus::Success, request.flags, self.sq_sig_all)
    }

    /// Ends the SEND that was posted last. It has taken a RECV, but the peer's CQ had no room for the
    /// completion.
    #[cold]
    pub(super) fn send_met_full_cq(&self, sends: &mut Sends, wr_id: u64, len: u32, flags: SendFlags) {
        let dest_qpn = sends.attr.dest_qp_num.unwrap_or(0);
        let wr = SendWr { flags, ..SendWr::new(wr_id, SendOp::Send, &[]) };
        let request = Request::of(&wr, len, sends.posted);
        let outcome = self.requester.found_cq_full(&sends.scratch, dest_qpn, &request);
        // The responder has taken the message, so it answers. The outcome cannot be a wait.
        let status = self.status(sends, &request, outcome).unwrap_or(WcStatus::RemOpErr);
        self.finish(sends, &request, status);
    }

    /// Carries out, gathers or queues a work request of the list being posted. `false` if the gathered
    /// requests have to be carried out first.
    #[inline(always)]
    pub(super) fn start_or_queue(&self, sends: &mut Sends, request: &Request<'_>) -> bool {
        if sends.state != QpState::Rts || !sends.queue.is_empty() {
            self.queue_or_flush(sends, request);
            return true;
        }
        let route = route(sends, &self.requester.process.paths, request);
        let entering = Entering { qp: self, request };
        match self.requester.attempt(&mut sends.scratch, &route, request, &entering) {
            Attempt::Gathered => {}
            Attempt::AfterGathered => return false,
            Attempt::Over(outcome) => match self.status(sends, request, outcome) {
                Ok(status) => self.finish(sends, request, status),
                Err(obstacle) => match sends.meets(obstacle) {
                    Some(status) => self.finish(sends, request, status),
                    None => {
                        sends.queue.push_back(WaitingWr::of_send(request));
                        self.run_queue(sends);
                    }
                },
            },
        }
        true
    }

    /// Queues or flushes a work request that cannot be carried out when it is posted.
    #[cold]
    fn queue_or_flush(&self, sends: &mut Sends, request: &Request<'_>) {
        if !flushes_sends(sends.state) {
            sends.queue.push_back(WaitingWr::of_send(request));
        } else if !self.complete(request, WcStatus::WrFlushErr) {
            self.lose(sends, LostWr::of(request));
        }
    }

    /// Completes gathered requests with this status. Returns the first one whose completion is lost.
    fn complete_gathered(&self, batch: &Batch, range: Range<usize>, status: WcStatus) -> Option<LostWr> {
        let mut lost = None;
        for request in batch.requests(range) {
            if !self.complete(&request, status) {
                lost.get_or_insert(LostWr::of(&request));
            }
        }
        lost
    }

    /// Queues the gathered requests that are neither carried out nor given up.
    fn queue_gathered(&self, sends: &mut Sends) {
        let Sends { queue, scratch, .. } = sends;
        let batch = &mut scratch.batch;
        queue.extend(batch.requests(batch.left()).map(|request| WaitingWr::of_send(&request)));
        batch.clear();
    }

    /// Carries out the gathered requests of the list being posted. After a failure, the remaining requests
    /// wait or are flushed.
    pub(super) fn carry_out_gathered(&self, sends: &mut Sends) {
        let dest_qpn = sends.attr.dest_qp_num.unwrap_or(0);
        loop {
            let (done, cause) = self.move_gathered(sends);
            let batch = &mut sends.scratch.batch;
            if let Some(lost) = self.complete_gathered(batch, done, WcStatus::Success) {
                self.queue_gathered(sends);
                return self.lose(sends, lost);
            }
            let Some(cause) = cause else { return batch.clear() };
            // The completions from the failed request on are entered again later, in order and with their own
            // status.
            if let Some(failed) = batch.first_number() {
                self.take_back(failed);
            }
            let outcome = self.requester.not_moved(&sends.scratch, dest_qpn, cause);
            let outcome = match outcome {
                Outcome::Done(status) => Ok(status),
                Outcome::Wait(obstacle) => Err(obstacle),
                Outcome::Undelivered(known) => {
                    self.note_loss_of_gathered(sends, known);
                    Ok(WcStatus::Success)
                }
            };
            if let Ok(status) = outcome
                && let Some(failed) = sends.scratch.batch.first_left()
            {
                self.tell_failure(sends, &failed, status);
            }
            let batch = &mut sends.scratch.batch;
            let lost = outcome.ok().and_then(|status| {
                let given_up = batch.give_up();
                self.complete_gathered(batch, given_up, status)
            });
            if outcome != Ok(WcStatus::Success) || lost.is_some() {
                self.queue_gathered(sends);
                return match (outcome, lost) {
                    (_, Some(lost)) => self.lose(sends, lost),
                    (Ok(_), None) => self.fail(sends),
                    (Err(_), None) => self.run_queue(sends),
                };
            }
        }
    }
}

impl Qp {
    /// Enters the completions of the gathered requests. Then moves their bytes, up to the first request that
    /// cannot be moved. Returns the indices of the moved requests. If a request could not be moved, also
    /// returns the reason.
    fn move_gathered(&self, sends: &mut Sends) -> (Range<usize>, Option<Unreachable>) {
        let batch = &mut sends.scratch.batch;
        let Some(first) = batch.first_number() else { return (0..0, None) };
        // After a lost completion, no further completion is entered. So the requests with an entered
        // completion are exactly the requests up to some number.
        batch.requests(batch.left()).filter(|request| self.is_signaled(request)).all(|request| {
            let number = request.number;
            self.share.progress.has_entered(number)
                || self.enter(done_of(&request), number, WcStatus::Success, None)
        });
        let mut moved = batch.transfer();
        // A READ's completion must follow messages that the peer sent before the READ took effect. It must
        // precede later messages: see `Responder::read`.
        for _ in 1..READS {
            let is_stale = batch.reads() && self.send_cq.move_back((self.num(), first));
            if !is_stale || moved.1.is_some() || !batch.rewind() {
                break;
            }
            moved = batch.transfer();
        }
        moved
    }
}

impl Waiting for Qp {
    fn advance(&self) -> Option<Instant> {
        // The thread that holds the lock carries out the queue, or registers it for a later try.
        let Some(mut sends) = self.sends.try_lock() else { return Some(Instant::now() + SILENT_RETRY) };
        self.notice_error(&mut sends);
        self.carry_out_queue(&mut sends);
        if sends.queue.is_empty() {
            return None;
        }
        Some(self.next_try(&sends))
    }

    fn waits(&self) -> bool {
        self.sends.try_lock().is_none_or(|sends| !sends.queue.is_empty())
    }
}

/// The destination of a work request.
#[inline(always)]
fn route(sends: &Sends, paths: &Paths, request: &Request<'_>) -> Route {
    let attr = &sends.attr;
    let sq_psn = attr.sq_psn.unwrap_or(0);
    let max_rd_atomic = attr.max_rd_atomic.unwrap_or(0);
    match request.dest {
        None => {
            let dest_qpn = attr.dest_qp_num.filter(|_| sends.leads_here);
            Route { dest_qpn, sq_psn, qkey: 0, max_rd_atomic, grh: None, sl: 0, groups: None }
        }
        Some(dest) => {
            let qkey = sent_qkey(&dest, attr.qkey.unwrap_or(0));
            let path = paths.get(dest.ah);
            let dest_qpn = path.filter(|path| path.is_reachable).map(|_| dest.qpn);
            let grh = path.and_then(|path| path.header(request.len, request.op.imm_data().is_some()));
            let is_multicast = dest.qpn == MULTICAST_QPN;
            let groups = path.filter(|_| is_multicast).and_then(|path| path.groups());
            let sl = path.map_or(0, |path| path.sl);
            Route { dest_qpn, sq_psn, qkey, max_rd_atomic, grh, sl, groups }
        }
    }
}
