//! Carries out the work requests of a QP: at once, gathered with others of their list, or later.

use super::waiting::{SILENT_RETRY, WaitingWhat, WaitingWr, wait_again};
use super::watching::SendTurn;
use super::{Qp, Sends};
use crate::engine::attempt::{Attempt, Outcome};
use crate::engine::request::Request;
use crate::engine::requester::Route;
use crate::fabric::progress::Waiting;
use crate::path::Paths;
use crate::queues::cq::SendDone;
use doorbell_abi::CEnum;
use doorbell_launch::qp_numbers::MULTICAST_QPN;
use doorbell_transport::{flushes_sends, is_signaled, sent_qkey, state_after_failed_send};
use doorbell_verbs::{QpState, SendFlags, SendOp, SendWr, WcOpcode, WcStatus};
use std::time::Instant;

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
            let status = match sends.status(outcome) {
                Ok(status) => status,
                Err(obstacle) => match wait_again(&mut sends.wait, obstacle, &sends.attr) {
                    Some(status) => status,
                    None => {
                        sends.queue.push_front(front);
                        return;
                    }
                },
            };
            if status != WcStatus::Success {
                self.tell_failure(sends, &request, status);
            }
            sends.wait = None;
            self.complete(&request, status);
            if status != WcStatus::Success {
                self.fail(sends);
            }
        }
    }

    /// Carries out one work request while no request is gathered.
    fn attempt_alone(&self, sends: &mut Sends, request: &Request<'_>) -> Outcome {
        let route = route(sends, &self.requester.process.paths, request);
        let attempt = self.requester.attempt(&mut sends.scratch, &route, request);
        if let Attempt::Over(outcome) = attempt {
            return outcome;
        }
        debug_assert_eq!(attempt, Attempt::Gathered);
        let (_, cause) = sends.scratch.batch.transfer();
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
                self.flush_sends(sends);
            }
        }
    }

    /// Completes a send work request if it asks for a completion or has failed.
    #[inline]
    pub(super) fn complete(&self, request: &Request<'_>, status: WcStatus) {
        if !is_signaled(status, request.flags, self.sq_sig_all) {
            return;
        }
        self.push(request.wr_id, request.op.wc_opcode(), request.len, request.number, status);
    }

    /// The SEND that was posted last has taken a RECV, but the peer's CQ had no room for the completion.
    #[cold]
    pub(super) fn send_met_full_cq(&self, sends: &mut Sends, wr_id: u64, len: u32, flags: SendFlags) {
        let dest_qpn = sends.attr.dest_qp_num.unwrap_or(0);
        let wr = SendWr { flags, ..SendWr::new(wr_id, SendOp::Send, &[]) };
        let request = Request::of(&wr, len, sends.posted);
        let outcome = self.requester.found_cq_full(&sends.scratch, dest_qpn, &request);
        // A responder that has taken a message has answered, so silence is no outcome here.
        let status = sends.status(outcome).unwrap_or(WcStatus::RemOpErr);
        self.tell_failure(sends, &request, status);
        if is_signaled(status, flags, self.sq_sig_all) {
            self.push(wr_id, WcOpcode::Send.to_c(), len, sends.posted, status);
        }
        if status != WcStatus::Success {
            self.fail(sends);
        }
    }

    /// Adds a completion. `opcode` is an `enum ibv_wc_opcode`. The arguments are passed in registers.
    #[inline(never)]
    pub(super) fn push(&self, wr_id: u64, opcode: u32, len: u32, number: u64, status: WcStatus) {
        self.send_cq.push(SendDone {
            wr_id,
            status,
            opcode,
            byte_len: len,
            qp_num: self.num(),
            sends: number,
        });
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
        match self.requester.attempt(&mut sends.scratch, &route, request) {
            Attempt::Gathered => {}
            Attempt::AfterGathered => return false,
            Attempt::Over(outcome) => match sends.status(outcome) {
                Ok(status) => {
                    if status != WcStatus::Success {
                        self.tell_failure(sends, request, status);
                    }
                    self.complete(request, status);
                    if status != WcStatus::Success {
                        self.fail(sends);
                    }
                }
                Err(_) => {
                    sends.queue.push_back(WaitingWr::of_send(request));
                    self.run_queue(sends);
                }
            },
        }
        true
    }

    /// Flushes a work request, or lets it wait, because it cannot be carried out when it is posted.
    #[cold]
    fn queue_or_flush(&self, sends: &mut Sends, request: &Request<'_>) {
        if flushes_sends(sends.state) {
            self.complete(request, WcStatus::WrFlushErr);
        } else {
            sends.queue.push_back(WaitingWr::of_send(request));
        }
    }

    /// Carries out the gathered requests of the list being posted. After a failure the remaining ones wait,
    /// or are flushed.
    pub(super) fn carry_out_gathered(&self, sends: &mut Sends) {
        let dest_qpn = sends.attr.dest_qp_num.unwrap_or(0);
        loop {
            let batch = &mut sends.scratch.batch;
            let (done, cause) = batch.transfer();
            for request in batch.requests(done) {
                self.complete(&request, WcStatus::Success);
            }
            let Some(cause) = cause else { return batch.clear() };
            let outcome = self.requester.not_moved(&sends.scratch, dest_qpn, cause);
            let outcome = sends.status(outcome);
            if let Ok(status) = outcome
                && let Some(failed) = sends.scratch.batch.first_left()
            {
                self.tell_failure(sends, &failed, status);
            }
            let batch = &mut sends.scratch.batch;
            if let Ok(status) = outcome {
                let given_up = batch.give_up();
                for request in batch.requests(given_up) {
                    self.complete(&request, status);
                }
            }
            if outcome != Ok(WcStatus::Success) {
                sends.queue.extend(batch.requests(batch.left()).map(|request| WaitingWr::of_send(&request)));
                batch.clear();
                return match outcome {
                    Ok(_) => self.fail(sends),
                    Err(_) => self.run_queue(sends),
                };
            }
        }
    }
}

impl Waiting for Qp {
    fn advance(&self) -> Option<Instant> {
        // The thread that holds the lock is trying, or will have it tried.
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
            Route { dest_qpn, sq_psn, qkey: 0, max_rd_atomic, grh: None, groups: None }
        }
        Some(dest) => {
            let qkey = sent_qkey(&dest, attr.qkey.unwrap_or(0));
            let path = paths.get(dest.ah);
            let dest_qpn = path.filter(|path| path.is_reachable).map(|_| dest.qpn);
            let grh = path.and_then(|path| path.header(request.len, request.op.imm_data().is_some()));
            let is_multicast = dest.qpn == MULTICAST_QPN;
            let groups = path.filter(|_| is_multicast).and_then(|path| path.groups());
            Route { dest_qpn, sq_psn, qkey, max_rd_atomic, grh, groups }
        }
    }
}
