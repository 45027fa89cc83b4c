//! Queue pairs: their attributes and states. `posting` takes send work requests from the program. `sending`
//! carries them out. `entering` enters their completions into the CQ, and `waiting` keeps the requests that
//! cannot be carried out yet.

mod entering;
mod groups;
pub(super) mod outlook;
pub(crate) mod posting;
mod role;
mod sending;
pub(crate) mod targets;
mod telling;
mod waiting;
mod watching;
pub(crate) mod window_wr;
pub(crate) mod windows;

use super::cq::{Cq, QpShare};
use super::errors::{LostWr, Said, say_of_responder};
use super::events::Events;
use super::recv_queue::{RecvQueue, Senders, Sizes};
use super::send_progress::SendProgress;
use crate::causes;
use crate::counts;
use crate::device;
use crate::engine::attempt::Obstacle;
use crate::engine::delivery::Engine;
use crate::engine::requester::{Requester, Scratch};
use crate::errno::{EINVAL, Errno};
use crate::fabric::peer::Owner;
use crate::fabric::pipe::{EventPipe, tell};
use crate::fabric::process::Process;
use crate::fabric::service::deliver_by;
use crate::limits::limits;
use crate::memory::records::{EVENT_QP_LAST_WQE_REACHED, EventRecord, QpRecord};
use crate::path::Path;
use crate::point::{Point, reach};
use crate::refused::{self, Fullness, QueueKind};
use crate::rings::recvs::{Completer, flush};
use crate::sync::biased::{Biased, BiasedGuard};
use crate::sync::lock;
use crate::watch::flights::Flights;
use crate::watch::{Loss, Watch};
use doorbell_abi::CEnum;
use doorbell_launch::counts::qp::QpCounter;
use doorbell_transport::{Refused, check_modify_shown, check_post_recv, rnr_wait, takes_requests};
use doorbell_verbs::{Mtu, QpAttr, QpCap, QpState, QpType, Sge, Span, WcOpcode, WcStatus};
pub(crate) use role::QpKind;
use role::QpRole;
use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, Weak};
use waiting::{SendWait, WaitingWhat, WaitingWr, wait_again};
use window_wr::WindowWr;

/// `IBV_EVENT_SQ_DRAINED`.
const EVENT_SQ_DRAINED: u32 = 5;

/// The arguments for creating a QP.
#[derive(Debug)]
pub(crate) struct QpParts {
    pub(crate) pd: u32,
    pub(crate) kind: QpKind,
    pub(crate) cap: QpCap,
    pub(crate) sq_sig_all: bool,
    pub(crate) send_cq: Arc<Cq>,
    pub(crate) recv_cq: Arc<Cq>,
    pub(crate) async_pipe: Arc<EventPipe>,
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct Qp {
    me: Weak<Qp>,
    requester: Requester,
    index: u32,
    role: QpRole,
    pub(crate) cap: QpCap,
    pub(crate) sq_sig_all: bool,
    pub(crate) uses_srq: bool,
    send_cq: Arc<Cq>,
    recv_cq: Arc<Cq>,
    share: Arc<QpShare>,
    async_pipe: Arc<EventPipe>,
    record: &'static QpRecord,
    sends: Biased<Sends>,
    fullness: Fullness,
    pub(crate) events: Events,
}

/// The send queue, and the attributes set by ibv_modify_qp(3).
#[derive(Debug)]
pub(crate) struct Sends {
    state: QpState,
    attr: QpAttr,
    /// For a connected QP: whether the path to the peer leads to this device.
    leads_here: bool,
    /// Number of send work requests posted since the QP was created or reset.
    posted: u64,
    /// Work requests that are not carried out yet.
    queue: VecDeque<WaitingWr>,
    wait: Option<SendWait>,
    scratch: Scratch,
    /// Observes the posts, if statistics, a trace, strict mode or faults are requested.
    watch: Option<Box<Watch>>,
}

impl Sends {
    /// Whether a post may take the direct path: the QP can send, no request waits, and no watch is set.
    #[inline(always)]
    fn is_direct(&self) -> bool {
        self.state == QpState::Rts && self.queue.is_empty() && self.watch.is_none()
    }

    /// Records that the oldest work request meets an obstacle, for the first time or again. Returns the
    /// request's error status if its retries are used up.
    fn meets(&mut self, obstacle: Obstacle) -> Option<WcStatus> {
        let before = self.wait;
        let over = wait_again(&mut self.wait, obstacle, &self.attr);
        if self.watch.is_none() {
            return over;
        }
        let is_sent_again =
            over.is_some() || self.wait.map(|wait| wait.until) != before.map(|wait| wait.until);
        let is_timed_out = is_sent_again && before.is_some_and(|wait| wait.is_timed_out(&self.attr));
        let Some(counts) = self.counts() else { return over };
        if is_timed_out {
            // The answer to the retry may be an RNR NAK.
            counts.timed_out(over != Some(WcStatus::RetryExcErr));
        }
        match (obstacle, over) {
            // The last RNR NAK stops the QP for good.
            (Obstacle::NoRecv(timer), None) if is_sent_again => counts.waits_for_recv(rnr_wait(timer)),
            (Obstacle::NoRecv(_), Some(_)) => counts.waits_for_recv(Span::ZERO),
            _ => {}
        }
        over
    }

    /// Ends the wait of the oldest work request, which completes with this status.
    fn end_wait(&mut self, status: WcStatus) {
        let Some(wait) = self.wait.take() else { return };
        // With these statuses, `meets` has counted the last time-out.
        let is_given_up = matches!(status, WcStatus::RetryExcErr | WcStatus::RnrRetryExcErr);
        if !is_given_up
            && wait.is_timed_out(&self.attr)
            && let Some(counts) = self.counts()
        {
            counts.timed_out(true);
        }
    }

    fn counts(&mut self) -> Option<&mut QpCounter> {
        self.watch.as_mut()?.counts.as_deref_mut()
    }

    /// Records a message of UC or UD that no receiver took.
    fn lost(&mut self, loss: &Loss) {
        if let Some(watch) = &mut self.watch {
            watch.undelivered(loss);
        }
    }
}

impl Qp {
    pub(crate) fn new(process: &'static Process, parts: QpParts) -> Result<Arc<Qp>, Errno> {
        deliver_by(&Engine);
        let number = Arc::new(process.hold_qp_index()?);
        let index = number.number;
        let num = process.qp_num(index);
        let record = process.segment.qp(index as usize).ok_or(EINVAL)?;
        let own = process.copier()?;
        let async_fd = parts.async_pipe.in_record();
        let (qp_type, role, uses_srq) = (parts.kind.qp_type(), parts.kind.role(), parts.kind.uses_srq());
        let rq = match parts.kind {
            QpKind::Plain { srq: Some(srq), .. } => srq,
            // An XRC QP also has a queue, to which the program cannot post.
            QpKind::Plain { srq: None, .. } | QpKind::Initiator | QpKind::Target(_) => {
                let sizes = Sizes { depth: parts.cap.max_recv_wr, max_sge: parts.cap.max_recv_sge };
                let senders = match qp_type {
                    QpType::Ud => Senders::ManyInOrder,
                    QpType::Rc | QpType::Uc => Senders::One,
                };
                let queue = RecvQueue::new(process, index, parts.pd, sizes, senders, async_fd)?;
                Arc::new(queue.with_number(number.clone()))
            }
        };
        let generation = record.generation.load(Relaxed).wrapping_add(1);
        record.generation.store(generation, Relaxed);
        record.qp_type.store(role.record_type(qp_type), Relaxed);
        process.segment.domain(index as usize).ok_or(EINVAL)?.store(role.domain(), Relaxed);
        record.pd.store(parts.pd, Relaxed);
        reach(Point::QpHalfMade);
        record.rq.store(rq.index, Relaxed);
        record.cq.store(parts.recv_cq.index, Relaxed);
        record.async_fd.store(async_fd, Relaxed);
        record.uses_srq.store(u32::from(uses_srq), Relaxed);
        record.processor.store(0, Relaxed);
        record.show(QpState::Reset);
        let (posts, receives) = counts::qp(num, qp_type, parts.send_cq.index).unzip();
        let share = Arc::new(QpShare {
            process,
            num,
            lid: device::lid(),
            generation: AtomicU32::new(generation),
            number,
            freed: AtomicU64::new(0),
            progress: SendProgress::default(),
            sender: AtomicU32::new(0),
            rq,
            uses_srq,
            said: Said::default(),
            flights: Flights::wanted(),
            counts: receives.map(Mutex::new),
        });
        process.segment.cause(index as usize).ok_or(EINVAL)?.clear();
        parts.send_cq.add_sender(&share);
        match role {
            QpRole::Plain => parts.recv_cq.add_receiver(&share, record),
            // SeqCst, as for all stores of `lane`, although no sender knows of the QP yet.
            QpRole::Initiator | QpRole::Target(_) => record.lane.store(0, SeqCst),
        }
        let responder_type = role.responder_type(qp_type);
        let made = Arc::new_cyclic(|me| Qp {
            me: me.clone(),
            requester: Requester { process, num, qp_type, pd: parts.pd, responder_type, own },
            index,
            role,
            cap: parts.cap,
            sq_sig_all: parts.sq_sig_all,
            uses_srq,
            send_cq: parts.send_cq,
            recv_cq: parts.recv_cq,
            share,
            async_pipe: parts.async_pipe,
            record,
            sends: Biased::new(Sends {
                state: QpState::Reset,
                attr: QpAttr::default(),
                leads_here: false,
                posted: 0,
                queue: VecDeque::new(),
                wait: None,
                scratch: Scratch::default(),
                watch: Watch::new(num, qp_type, posts),
            }),
            fullness: Fullness::new(QueueKind::Sends, num),
            events: Events::default(),
        });
        made.offer();
        made.add_to_all();
        Ok(made)
    }

    /// The QP number.
    pub(crate) fn num(&self) -> u32 {
        self.requester.num
    }

    pub(crate) fn qp_type(&self) -> QpType {
        self.requester.qp_type
    }

    /// The name of the QP's type in error messages.
    fn shown_type(&self) -> &'static str {
        self.role.shown_type(self.qp_type())
    }

    /// The index and generation that an event carries for this QP.
    pub(crate) fn event_identity(&self) -> (u32, u32) {
        (self.index, self.record.generation.load(Relaxed))
    }

    /// The QP's state and attributes, for ibv_query_qp(3).
    pub(crate) fn query(&self) -> (QpState, QpAttr) {
        let mut sends = self.sends();
        self.notice_error(&mut sends);
        (sends.state, sends.attr)
    }

    #[inline(always)]
    fn sends(&self) -> BiasedGuard<'_, Sends> {
        self.sends.lock()
    }

    /// Changes the QP's state and attributes; ibv_modify_qp(3).
    pub(crate) fn modify(&self, attr: &QpAttr) -> Result<QpState, Refused> {
        let mut sends = self.sends();
        self.notice_error(&mut sends);
        let before = sends.state;
        let attr = &self.role.own(attr);
        let qp_type = (self.qp_type(), &self.shown_type() as &dyn Display);
        let next = check_modify_shown(before, qp_type, &self.role.completed(attr, before))?;
        check_device_limits(attr)?;
        let path = attr.ah_attr.as_ref().map(Path::new).transpose()?;
        merge(&mut sends.attr, attr);
        sends.scratch.forget_peer();
        if let Some(path) = path {
            sends.leads_here = path.is_reachable;
        }
        self.publish(&sends.attr);
        let path_mtu = sends.attr.path_mtu.filter(|_| self.qp_type() != QpType::Ud).map(Mtu::bytes);
        if let Some(counts) = sends.counts() {
            counts.modified(path_mtu);
        }
        let may_revoke = takes_requests(before) && attr.qp_access_flags.is_some();
        let posted = sends.posted;
        match next {
            QpState::Reset => {
                self.reset(&mut sends).map_err(|errno| causes::at_limit(&causes::QP_RESET, errno, []))?;
            }
            QpState::Err => {
                self.share.said.set();
                self.enter_error(&mut sends);
            }
            QpState::Rtr if before != next => self.rtr(&mut sends),
            _ => {
                sends.state = next;
                self.record.show(next);
            }
        }
        if before == QpState::Rts && next == QpState::Sqd && sends.queue.is_empty() {
            self.tell(EVENT_SQ_DRAINED);
        }
        if next == QpState::Rts && !sends.queue.is_empty() {
            self.run_queue(&mut sends);
        }
        if may_revoke {
            self.requester.process.wait_for_copies("ibv_modify_qp(3)");
        }
        drop(sends);
        if next == QpState::Reset {
            refused::queue_ends(&self.fullness, posted);
        }
        Ok(next)
    }

    /// Sends an event about this QP to the program.
    fn tell(&self, event_type: u32) {
        let (index, generation) = self.event_identity();
        tell(Owner::This, self.async_pipe.in_record(), EventRecord { event_type, index, generation });
    }

    fn rtr(&self, sends: &mut Sends) {
        sends.state = QpState::Rtr;
        self.record.show(QpState::Rtr);
    }

    /// Stores the attributes that peers need in the QP's record. Relaxed: the caller then calls
    /// `QpRecord::show`, which stores the next version after all of them.
    fn publish(&self, attr: &QpAttr) {
        let record = self.record;
        let access = attr.qp_access_flags.unwrap_or_default();
        record.access.store(access.bits(), Relaxed);
        record.dest_qpn.store(attr.dest_qp_num.unwrap_or(0), Relaxed);
        reach(Point::QpHalfChanged);
        record.qkey.store(attr.qkey.unwrap_or(0), Relaxed);
        record.rq_psn.store(attr.rq_psn.unwrap_or(0), Relaxed);
        record.min_rnr_timer.store(attr.min_rnr_timer.unwrap_or(0), Relaxed);
        record.path_mtu.store(attr.path_mtu.map_or(0, |mtu| mtu.to_c() as u8), Relaxed);
        record.max_dest_rd_atomic.store(attr.max_dest_rd_atomic.unwrap_or(0).into(), Relaxed);
    }

    fn reset(&self, sends: &mut Sends) -> Result<(), Errno> {
        self.record.show(QpState::Reset);
        reach(Point::Resetting);
        self.requester.process.wait_for_copies("the reset of a QP");
        let generation = self.record.generation.load(Relaxed).wrapping_add(1);
        // Release, for `fabric::service::is_taken`: a thread that sees the new generation also sees Reset.
        self.record.generation.store(generation, Release);
        self.share.generation.store(generation, Relaxed);
        if !self.uses_srq {
            self.share.rq.clear()?;
        }
        self.send_cq.forget(&self.share);
        self.recv_cq.forget(&self.share);
        self.share.freed.store(0, Relaxed);
        self.share.progress.reset();
        self.share.said.forget();
        if let Some(flights) = &self.share.flights {
            flights.clear();
        }
        if let Some(cause) = self.requester.process.segment.cause(self.index as usize) {
            cause.clear();
        }
        let mut watch = sends.watch.take();
        if let Some(watch) = &mut watch {
            watch.begin_again();
        }
        *sends = Sends {
            state: QpState::Reset,
            attr: QpAttr::default(),
            leads_here: false,
            posted: 0,
            queue: VecDeque::new(),
            wait: None,
            scratch: Scratch::default(),
            watch,
        };
        Ok(())
    }

    /// Puts the QP into Err, and flushes all posted work requests.
    #[cold]
    #[inline(never)]
    fn enter_error(&self, sends: &mut Sends) {
        sends.state = QpState::Err;
        // If a peer put the QP into Err, that peer has already sent the event.
        let is_own = self.record.enter_error(|state| state != QpState::Err.to_c());
        self.record.show(QpState::Err);
        reach(Point::ErrShown);
        // A program that gets flushed completions may reuse its memory, so copies must end first. This thread
        // must run no copy at this point, because the thread would wait for its own copy.
        debug_assert!(sends.scratch.batch.is_empty());
        self.requester.process.wait_for_copies("a QP's transition to Err");
        self.share.rq.settle(self.num());
        reach(Point::Settled);
        self.flush_sends(sends);
        self.flush_recvs();
        if is_own && self.uses_srq && self.role == QpRole::Plain {
            self.tell(EVENT_QP_LAST_WQE_REACHED);
        }
    }

    fn flush_recvs(&self) {
        let Process { segment, claimer, .. } = *self.requester.process;
        flush(&Completer {
            owner: Owner::This,
            segment,
            qp: self.record,
            qpn: self.num(),
            srq: None,
            claimer,
        });
    }

    /// Enters Err if a peer's request has put the QP's record into Err.
    #[inline(always)]
    fn notice_error(&self, sends: &mut Sends) {
        if self.record.shown().state() == QpState::Err.to_c() && sends.state != QpState::Err {
            self.put_to_error(sends);
        }
    }

    #[cold]
    fn put_to_error(&self, sends: &mut Sends) {
        say_of_responder(self.requester.process, self.num(), &self.share.said);
        self.enter_error(sends);
    }

    /// Flushes the waiting work requests. Returns the first one whose completion is lost.
    fn flush_sends(&self, sends: &mut Sends) -> Option<LostWr> {
        let (status, mut lost) = (WcStatus::WrFlushErr, None);
        sends.wait = None;
        for WaitingWr { number, what } in std::mem::take(&mut sends.queue) {
            let (is_kept, wr) = match &what {
                WaitingWhat::Send(send) => {
                    let request = send.request(number);
                    (self.complete(&request, status), LostWr::of(&request))
                }
                WaitingWhat::Window(WindowWr { wr_id, op, .. }) => {
                    let is_kept = self.complete_now((*wr_id, WcOpcode::Send.to_c(), 0), number, status);
                    (is_kept, LostWr { number, name: op.name(), wr_id: *wr_id })
                }
            };
            if !is_kept {
                lost.get_or_insert(wr);
            }
        }
        lost
    }

    /// Posts one RECV; ibv_post_recv(3).
    pub(crate) fn post_recv(&self, wr_id: u64, sges: &[Sge]) -> Result<(), Refused> {
        let state = QpState::from_c(self.record.shown().state()).unwrap_or_default();
        check_post_recv(state, self.uses_srq)?;
        self.share.rq.enqueue(wr_id, sges)?;
        reach(Point::RecvPosted);
        // The state is read after the RECV is visible to all threads. A requester that puts the QP into Err
        // stores the state before it searches for RECVs to flush. So this thread or the requester flushes
        // this RECV.
        std::sync::atomic::fence(SeqCst);
        if self.record.is_in_error() {
            self.flush_recvs();
        }
        Ok(())
    }

    /// Counts a call that posted `recvs` RECVs, of at most `sges` SGEs each.
    pub(crate) fn recvs_posted(&self, recvs: u32, sges: u32) {
        if let Some(counts) = &self.share.counts
            && recvs > 0
        {
            lock(counts).posted(recvs, sges);
        }
    }

    /// Whether the QP is an XRC initiator, whose work requests name SRQs.
    pub(crate) fn names_srqs(&self) -> bool {
        self.role == QpRole::Initiator
    }

    /// Destroys the QP; ibv_destroy_qp(3). Completions that have arrived stay until they are polled.
    /// Incomplete work requests end without a completion.
    pub(crate) fn destroy(&self) {
        let mut sends = self.sends();
        let Process { regions, segment, .. } = self.requester.process;
        // The call of `wait_for_copies` below also waits for the copies that may still use the QP's windows.
        let _ = regions.qp_ends(segment, self.num());
        if let Some(domain) = segment.domain(self.index as usize) {
            // Release: a process that sees domain 0 also sees that the QP's windows are gone.
            domain.store(0, Release);
        }
        reach(Point::WindowsEnded);
        self.record.show_destroyed();
        reach(Point::Resetting);
        // This wait comes before the payloads are placed below, because a sender may be placing them.
        self.requester.process.wait_for_copies("ibv_destroy_qp(3)");
        match self.uses_srq {
            true => self.share.rq.settle(self.num()),
            false => self.share.rq.close(),
        }
        reach(Point::QueueClosed);
        if let Some(first) = sends.queue.front() {
            self.take_back(first.number);
        }
        (sends.state, sends.queue, sends.wait) = (QpState::Reset, VecDeque::new(), None);
        // All requests with a completion are done by now, so no poll checks a receipt in the peer's segment.
        self.share.progress.set_receiver(Owner::This);
        sends.scratch = Scratch::default();
        sends.watch = None;
        let posted = sends.posted;
        drop(sends);
        reach(Point::SendsEnded);
        refused::queue_ends(&self.fullness, posted);
        if !self.uses_srq {
            self.share.rq.explain_end();
        }
        self.recv_cq.end_user(&self.share, self.role == QpRole::Plain);
        reach(Point::ReceiverEnded);
        self.send_cq.end_user(&self.share, false);
        if let Some(flights) = &self.share.flights {
            flights.clear();
        }
    }
}

/// The device's own limits, checked besides the rules of ibv_modify_qp(3).
fn check_device_limits(attr: &QpAttr) -> Result<(), Refused> {
    let most = limits().rd_atomic;
    if let Some(port) = attr.port_num.filter(|port| *port != device::PORT) {
        return Err(causes::QP_PORT.of([&port]));
    }
    if let Some(index) = attr.pkey_index.filter(|index| *index >= device::PKEYS) {
        return Err(causes::QP_PKEY.of([&index]));
    }
    if let Some(mtu) = attr.path_mtu.filter(|mtu| *mtu > device::MTU) {
        return Err(causes::QP_PATH_MTU.of([&mtu.to_c()]));
    }
    if let Some(n) = attr.max_rd_atomic.filter(|n| u32::from(*n) > most) {
        return Err(causes::QP_RD_ATOMIC.of([&n, &most]));
    }
    if let Some(n) = attr.max_dest_rd_atomic.filter(|n| u32::from(*n) > most) {
        return Err(causes::QP_DEST_RD_ATOMIC.of([&n, &most]));
    }
    Ok(())
}

/// Copies the attributes that `new` sets into `all`.
fn merge(all: &mut QpAttr, new: &QpAttr) {
    macro_rules! take {
        ($($field:ident)*) => {$(
            if new.$field.is_some() {
                all.$field = new.$field;
            }
        )*};
    }
    take!(pkey_index port_num qp_access_flags qkey path_mtu dest_qp_num rq_psn ah_attr max_dest_rd_atomic
        min_rnr_timer sq_psn timeout retry_cnt rnr_retry max_rd_atomic);
}
