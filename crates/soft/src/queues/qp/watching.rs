//! Posts to a watched QP, which has statistics, a trace, strict mode or injected faults.

use super::waiting::{SILENT_RETRY, WaitingWr};
use super::{Qp, Sends};
use crate::engine::attempt::{Obstacle, Outcome};
use crate::engine::diagnosis;
use crate::engine::request::Request;
use crate::engine::requester::Requester;
use crate::memory::cause::{Cause, Check, Memory};
use crate::memory::records::{EVENT_QP_FATAL, QpRecord};
use crate::watch::faults::{QpFaults, Verdict};
use crate::watch::flights::{Awaited, Flight};
use crate::watch::port;
use crate::watch::strict::{self, Held, Holder, violated};
use crate::watch::trace::Slice;
use doorbell_abi::CEnum;
use doorbell_launch::counts::drops::DropCause;
use doorbell_transport::{is_signaled, local_rights, takes_requests};
use doorbell_verbs::{Mtu, QpState, QpType, SendFlags, Sge, WcStatus};
use std::sync::atomic::Ordering::*;
use std::time::Instant;

/// Whether a work request may be carried out now.
pub(super) enum SendTurn {
    /// The work request may be carried out.
    Go,
    /// The work request has to wait.
    Later,
    /// An injected fault decides the work request's outcome.
    Over(Outcome),
    /// An injected fault has killed the QP, and the work request is complete.
    Ended,
}

impl Qp {
    /// Admits a work request to a watched QP. Returns `true` if the caller has nothing more to do for the
    /// request.
    pub(super) fn admit_watched(&self, sends: &mut Sends, request: &Request<'_>) -> bool {
        let outstanding = sends.posted.saturating_sub(self.share.freed.load(Relaxed));
        let Some(watch) = &mut sends.watch else { return false };
        if let Some(counts) = &mut watch.counts {
            let signaled = is_signaled(WcStatus::Success, request.flags, self.sq_sig_all);
            counts.posted(&request.as_wr(), request.len, request.inline.is_some(), signaled, outstanding);
            if request.op.opcode().returns_data() && counts.lacks_reads() {
                let peer = peer_reads(&self.requester, sends.attr.dest_qp_num);
                counts.reads_up_to(sends.attr.max_rd_atomic.unwrap_or(0), peer);
            }
        }
        let slice = watch.traced.as_mut().and_then(|traced| {
            traced.list += 1;
            let (number, bytes) = (request.number, request.len);
            let signaled = is_signaled(WcStatus::Success, request.flags, self.sq_sig_all);
            let args = format!("\"number\":{number},\"bytes\":{bytes},\"signaled\":{signaled}");
            Slice::begin(traced.track.clone(), request.op.name(), request.wr_id, &args)
        });
        if watch.strict.is_some() {
            return self.admit_strictly(sends, request, slice);
        }
        if let Some(flights) = self.share.flights.as_ref().filter(|_| slice.is_some()) {
            flights.posted(Flight { number: request.number, _held: None, awaited: None, slice });
        }
        self.admit_to_faults(sends, request)
    }

    /// Admits a work request to a QP that may have injected faults. Returns a result like
    /// [`Qp::admit_watched`].
    fn admit_to_faults(&self, sends: &mut Sends, request: &Request<'_>) -> bool {
        let Some(faults) = faults(sends) else { return false };
        faults.posted(request.number);
        if sends.state != QpState::Rts {
            return false;
        }
        sends.queue.push_back(WaitingWr::of_send(request));
        self.run_queue(sends);
        true
    }

    /// Admits a work request in strict mode. Returns a result like [`Qp::admit_watched`].
    fn admit_strictly(&self, sends: &mut Sends, request: &Request<'_>, slice: Option<Slice>) -> bool {
        let (number, opcode) = (request.number, request.op.opcode());
        if sends.queue.is_empty() {
            self.fence(request);
        }
        let has_lkeys = request.inline.is_none() && !request.flags.contains(SendFlags::INLINE);
        let sges = if has_lkeys { request.sg_list } else { &[] };
        let (process, pd) = (self.requester.process, self.requester.pd);
        let need = local_rights(opcode);
        let used = sges.iter().filter(|sge| sge.length > 0);
        let wrong = used.filter_map(|sge| diagnosis::of_sge(process, Memory::Local, pd, sge, need)).next();
        if let Some(cause) = &wrong {
            violated(format_args!(
                "work request {number} ({}) of QP {:#x} cannot use its memory: {cause} (ibv_post_send(3))",
                request.op.name(),
                self.num()
            ));
        }
        if opcode.returns_data() {
            self.compare_limits(sends);
        }
        self.compare_mtus(sends, request);
        if let Some(strict) = sends.watch.as_mut().and_then(|watch| watch.strict.as_mut())
            && is_signaled(WcStatus::Success, request.flags, self.sq_sig_all)
        {
            strict.signaled = number;
        }
        let Some(flights) = &self.share.flights else { return self.admit_to_faults(sends, request) };
        let _held = Some(Held::new(sges, Holder::Sends(self.num())));
        let everywhere = match opcode.returns_data() && wrong.is_none() && request.len > 0 {
            true => strict::everywhere(&process.regions, process.segment, pd),
            false => None,
        };
        let Some(lkey) = everywhere else {
            flights.posted(Flight { number, _held, awaited: None, slice });
            return self.admit_to_faults(sends, request);
        };
        // SAFETY: the program has registered these buffers for writing, and provides them for the result.
        let mut awaited = unsafe { Awaited::new(sges, request.len) };
        let instead = [Sge { addr: awaited.place(), length: request.len, lkey }];
        flights.posted(Flight { number, _held, awaited: Some(awaited), slice });
        let request = Request { sg_list: &instead, ..*request };
        if !self.admit_to_faults(sends, &request) {
            while !self.start_or_queue(sends, &request) {
                self.carry_out_gathered(sends);
            }
            // Gathered requests must not outlive the memory that they name.
            if !sends.scratch.batch.is_empty() {
                self.carry_out_gathered(sends);
            }
        }
        true
    }

    /// If the request has IBV_SEND_FENCE, makes the results of earlier requests, which have been carried out,
    /// visible in the program's buffers. The payload of the request may be such a result.
    #[inline]
    pub(super) fn fence(&self, request: &Request<'_>) {
        if request.flags.contains(SendFlags::FENCE)
            && let Some(flights) = &self.share.flights
        {
            flights.arrive_before(request.number);
        }
    }

    /// Reports a requester whose limit of READs and atomics exceeds the responder's. A NIC refuses the excess
    /// requests if they arrive at once.
    fn compare_limits(&self, sends: &mut Sends) {
        let compared =
            sends.watch.as_mut().and_then(|watch| watch.strict.as_mut()).map(|strict| &mut strict.compared);
        let Some(compared) = compared.filter(|compared| !**compared) else { return };
        let dest_qpn = sends.attr.dest_qp_num.unwrap_or(0);
        let own = u32::from(sends.attr.max_rd_atomic.unwrap_or(0));
        // A responder that is not ready yet is compared at the next request.
        let Some(there) = peer_reads(&self.requester, sends.attr.dest_qp_num) else { return };
        *compared = true;
        if own > there && !doorbell_launch::say::broken("s-limits") {
            violated(format_args!(
                "QP {:#x} may have {own} READs and atomics outstanding (max_rd_atomic), but QP {dest_qpn:#x} \
                 accepts only {there} (max_dest_rd_atomic): a NIC refuses the excess (ibv_modify_qp(3))",
                self.num()
            ));
        }
    }

    /// Reports the first message that needs longer packets than its receiver accepts (IB specification vol.
    /// 1, 9.7.4 and 9.7.5).
    fn compare_mtus(&self, sends: &mut Sends, request: &Request<'_>) {
        let Some(own) = sends.attr.path_mtu.map(Mtu::bytes).filter(|_| self.qp_type() != QpType::Ud) else {
            return;
        };
        let strict = sends.watch.as_mut().and_then(|watch| watch.strict.as_mut());
        let Some(is_told) = strict.map(|strict| &mut strict.mtu_is_told).filter(|is_told| !**is_told) else {
            return;
        };
        let dest_qpn = sends.attr.dest_qp_num.unwrap_or(0);
        let Some(there) = peer_mtu(&self.requester, sends.attr.dest_qp_num) else { return };
        let returns_data = request.op.opcode().returns_data();
        let (sent, accepted) = if returns_data { (there, own) } else { (own, there) };
        if request.len.min(sent) > accepted {
            *is_told = true;
            violated(format_args!(
                "work request {} ({}) of QP {:#x} needs packets of {} bytes, but path_mtu is {own} here and \
                 {there} at QP {dest_qpn:#x}: a NIC refuses packets above its own path_mtu (ibv_modify_qp(3))",
                request.number,
                request.op.name(),
                self.num(),
                request.len.min(sent)
            ));
        }
    }

    /// Reports a full send queue in strict mode, if no completion can ever make room.
    #[cold]
    pub(super) fn tell_full(&self, sends: &Sends) {
        let strict = sends.watch.as_ref().and_then(|watch| watch.strict.as_ref());
        let freed = self.share.freed.load(Relaxed);
        if strict.is_some_and(|strict| strict.signaled <= freed) {
            violated(format_args!(
                "the send queue of QP {:#x} is full with {} work requests, and none of them is signalled: no \
                 completion will ever make room (ibv_post_send(3))",
                self.num(),
                sends.posted - freed
            ));
        }
    }

    /// Decides whether the oldest work request is carried out now. An injected fault may delay, lose or fail
    /// the request.
    pub(super) fn turn(&self, sends: &mut Sends, request: &Request<'_>) -> SendTurn {
        let Some(own) = faults(sends) else { return SendTurn::Go };
        let takes_recv = request.op.opcode().consumes_recv();
        let rc = self.qp_type() == QpType::Rc;
        let pending = own.pending(request.number);
        if pending.is_some() && rc {
            if sends.wait.is_some_and(|wait| Instant::now() < wait.until) {
                return SendTurn::Later;
            }
            // The time-out has passed without an answer.
            if pending == Some(Verdict::Lose)
                && let Some(status) = sends.meets(Obstacle::Silence)
            {
                return SendTurn::Over(Outcome::Done(status));
            }
        }
        let Some(own) = faults(sends) else { return SendTurn::Go };
        match own.verdict(request.number, takes_recv, port::is_down()) {
            Verdict::Go => SendTurn::Go,
            Verdict::Late => SendTurn::Later,
            Verdict::Kill => {
                self.kill(sends, request);
                SendTurn::Ended
            }
            Verdict::PortDown if rc => SendTurn::Over(Outcome::Wait(Obstacle::Silence)),
            Verdict::PortDown => SendTurn::Over(Outcome::Undelivered(DropCause::PortDown)),
            Verdict::Lose | Verdict::Feign if !rc && doorbell_launch::say::broken("d-fault") => SendTurn::Over(Outcome::Undelivered(DropCause::NoRecv)),
            Verdict::Lose | Verdict::Feign if !rc => SendTurn::Over(Outcome::Undelivered(DropCause::Fault)),
            Verdict::Feign => self.feign(sends),
            _ => {
                // The first transmission uses up no retry. Each later transmission used up its retry above.
                if pending != Some(Verdict::Lose) {
                    sends.meets(Obstacle::Silence);
                }
                SendTurn::Later
            }
        }
    }

    /// Handles the request as if the responder had answered with an RNR NAK.
    fn feign(&self, sends: &mut Sends) -> SendTurn {
        let dest_qpn = sends.attr.dest_qp_num.unwrap_or(0);
        let process = self.requester.process;
        let timer = |qp: &QpRecord| qp.min_rnr_timer.load(Relaxed) & 31;
        let found = process.look_at(dest_qpn, |segment| segment.qp(segment.index_of(dest_qpn)).map(timer));
        // If the responder does not exist, it does not answer.
        let Some(timer) = found else { return SendTurn::Go };
        match sends.meets(Obstacle::NoRecv(timer)) {
            Some(status) => SendTurn::Over(Outcome::Done(status)),
            None => SendTurn::Later,
        }
    }

    /// Kills the QP by an injected fault. A NIC that finds a QP's state inconsistent completes the work
    /// request with "Local QP Operation Error" (IB specification vol. 1, 11.6.2) and reports an event for the
    /// QP.
    fn kill(&self, sends: &mut Sends, request: &Request<'_>) {
        self.tell_failure(sends, request, WcStatus::LocQpOpErr);
        self.complete(request, WcStatus::LocQpOpErr);
        self.enter_error(sends);
        self.tell(EVENT_QP_FATAL);
    }

    /// The time of the oldest work request's next try.
    pub(super) fn next_try(&self, sends: &Sends) -> Instant {
        let due = sends.watch.as_ref().and_then(|watch| watch.faults.as_ref()?.next_due());
        match (due, sends.wait) {
            (_, Some(wait)) => wait.until,
            (Some(due), None) => due,
            (None, None) => Instant::now() + SILENT_RETRY,
        }
    }

    /// The injected fault that made a work request fail with this status; `None` if no fault did.
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

/// An attribute in the peer's record; `None` if the peer is not ready to take requests.
fn of_peer<T>(requester: &Requester, dest_qpn: Option<u32>, read: impl Fn(&QpRecord) -> T) -> Option<T> {
    let dest_qpn = dest_qpn?;
    let attribute = |qp: &QpRecord| {
        let is_connected = qp.dest_qpn.load(Relaxed) == requester.num
            && QpState::from_c(qp.shown().state()).is_some_and(takes_requests);
        is_connected.then(|| read(qp))
    };
    requester.process.look_at(dest_qpn, |segment| segment.qp(segment.index_of(dest_qpn)).and_then(attribute))
}

/// The peer's `max_dest_rd_atomic`; `None` if the peer is not ready to take requests.
fn peer_reads(requester: &Requester, dest_qpn: Option<u32>) -> Option<u32> {
    of_peer(requester, dest_qpn, |qp| qp.max_dest_rd_atomic.load(Relaxed))
}

/// The peer's `path_mtu` in bytes; `None` if the peer is not ready to take requests.
fn peer_mtu(requester: &Requester, dest_qpn: Option<u32>) -> Option<u32> {
    of_peer(requester, dest_qpn, |qp| Mtu::from_c(qp.path_mtu.load(Relaxed).into()))?.map(Mtu::bytes)
}

fn faults(sends: &mut Sends) -> Option<&mut QpFaults> {
    sends.watch.as_mut()?.faults.as_mut()
}
