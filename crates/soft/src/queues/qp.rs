//! Queue pairs: their attributes and states, and their send queues.

use super::cq::{Cq, Own, QpShare};
use super::events::Events;
use super::recv_queue::RecvQueue;
use crate::counts::{self, Counting, qp::QpCounts};
use crate::device;
use crate::engine::attempt::{Attempt, Obstacle, Outcome};
use crate::engine::batch::Request;
use crate::engine::requester::{Requester, Route, Scratch};
use crate::errno::{EINVAL, ENOMEM, Errno};
use crate::fabric::peer::Owner;
use crate::fabric::pipe::{EventPipe, tell};
use crate::fabric::process::Process;
use crate::fabric::progress::Waiting;
use crate::memory::records::{EventRecord, QpRecord, index_of, qp_num};
use crate::rings::completions::Armed;
use crate::rings::recvs::flush;
use crate::sync::lock;
use doorbell_abi::{CEnum, ibv_wc};
use doorbell_transport::{SendShape, check_modify, check_post_recv, rnr_wait};
use doorbell_verbs::{
    GRH_BYTES, QpAttr, QpCap, QpState, QpType, SendFlags, SendOp, SendWr, Sge, UdDest, WcOpcode, WcStatus,
};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

/// `rnr_retry` that stands for no limit.
const RNR_UNLIMITED: u8 = 7;
/// Bit of a work request's Q_Key that selects the QP's own (IB specification vol. 1, 10.2.5).
const QKEY_OWN: u32 = 1 << 31;
/// How often a request without answer is tried where no time-out is set.
const SILENT_RETRY: Duration = Duration::from_millis(10);
/// `IBV_EVENT_SQ_DRAINED`.
const EVENT_SQ_DRAINED: u32 = 5;

/// What a QP is created from.
#[derive(Debug)]
pub(crate) struct QpParts {
    pub(crate) pd: u32,
    pub(crate) qp_type: QpType,
    pub(crate) cap: QpCap,
    pub(crate) sq_sig_all: bool,
    pub(crate) send_cq: Arc<Cq>,
    pub(crate) recv_cq: Arc<Cq>,
    pub(crate) srq: Option<Arc<RecvQueue>>,
    pub(crate) async_pipe: Arc<EventPipe>,
}

/// A queue pair.
#[derive(Debug)]
pub(crate) struct Qp {
    me: Weak<Qp>,
    requester: Requester,
    index: u32,
    pub(crate) cap: QpCap,
    pub(crate) sq_sig_all: bool,
    pub(crate) uses_srq: bool,
    send_cq: Arc<Cq>,
    recv_cq: Arc<Cq>,
    share: Arc<QpShare>,
    async_pipe: Arc<EventPipe>,
    record: &'static QpRecord,
    sends: Mutex<Sends>,
    pub(crate) events: Events,
}

/// The send queue, and what ibv_modify_qp(3) has set.
#[derive(Debug)]
pub(crate) struct Sends {
    state: QpState,
    attr: QpAttr,
    /// Send work requests posted since the QP was made or reset.
    posted: u64,
    /// Those not carried out yet.
    queue: VecDeque<Queued>,
    wait: Option<Wait>,
    scratch: Scratch,
    /// What was posted, if it is counted.
    counts: Option<Box<QpCounts>>,
}

/// A send work request that waits.
#[derive(Debug)]
struct Queued {
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
struct Wait {
    obstacle: Obstacle,
    until: Instant,
    /// Retries left; `None` where there is no limit.
    left: Option<u32>,
}

impl Qp {
    pub(crate) fn new(process: &'static Process, parts: QpParts) -> Result<Arc<Qp>, Errno> {
        let index = process.qp_numbers.take()?;
        let num = qp_num(process.slot, index);
        let made = Qp::with_index(process, parts, index, num);
        match &made {
            Ok(qp) => counts::watch(qp.me.clone()),
            Err(_) => process.qp_numbers.give_back(index),
        }
        made
    }

    fn with_index(process: &'static Process, parts: QpParts, index: u32, num: u32) -> Result<Arc<Qp>, Errno> {
        let record = process.segment.qp(index as usize).ok_or(EINVAL)?;
        let async_fd = parts.async_pipe.in_record();
        let uses_srq = parts.srq.is_some();
        let rq = match parts.srq {
            Some(srq) => srq,
            None => {
                let (depth, sges) = (parts.cap.max_recv_wr, parts.cap.max_recv_sge);
                Arc::new(RecvQueue::new(process, index, parts.pd, depth, sges, async_fd)?)
            }
        };
        let generation = record.generation.load(Relaxed).wrapping_add(1);
        record.generation.store(generation, Relaxed);
        record.qp_type.store(parts.qp_type.to_c(), Relaxed);
        record.pd.store(parts.pd, Relaxed);
        record.rq.store(rq.index, Relaxed);
        record.cq.store(parts.recv_cq.index, Relaxed);
        record.async_fd.store(async_fd, Relaxed);
        record.uses_srq.store(u32::from(uses_srq), Relaxed);
        record.processor.store(0, Relaxed);
        record.state.store(QpState::Reset.to_c(), Release);
        let share = Arc::new(QpShare {
            num,
            generation: AtomicU32::new(generation),
            freed: AtomicU64::new(0),
            rq,
            counts: counts::wanted().then(Mutex::default),
        });
        parts.send_cq.add_user(share.clone());
        parts.recv_cq.add_user(share.clone());
        Ok(Arc::new_cyclic(|me| Qp {
            me: me.clone(),
            requester: Requester { process, num, qp_type: parts.qp_type, pd: parts.pd },
            index,
            cap: parts.cap,
            sq_sig_all: parts.sq_sig_all,
            uses_srq,
            send_cq: parts.send_cq,
            recv_cq: parts.recv_cq,
            share,
            async_pipe: parts.async_pipe,
            record,
            sends: Mutex::new(Sends {
                state: QpState::Reset,
                attr: QpAttr::default(),
                posted: 0,
                queue: VecDeque::new(),
                wait: None,
                scratch: Scratch::default(),
                counts: counts::wanted().then(|| Box::new(QpCounts::new(num, parts.qp_type))),
            }),
            events: Events::default(),
        }))
    }

    /// Its number.
    pub(crate) fn num(&self) -> u32 {
        self.requester.num
    }

    pub(crate) fn qp_type(&self) -> QpType {
        self.requester.qp_type
    }

    /// Numbers that an event carries for this QP.
    pub(crate) fn event_identity(&self) -> (u32, u32) {
        (self.index, self.record.generation.load(Relaxed))
    }

    /// Its state and attributes.
    pub(crate) fn query(&self) -> (QpState, QpAttr) {
        let mut sends = self.sends();
        self.notice_error(&mut sends);
        (sends.state, sends.attr)
    }

    fn sends(&self) -> MutexGuard<'_, Sends> {
        lock(&self.sends)
    }

    /// ibv_modify_qp(3).
    pub(crate) fn modify(&self, attr: &QpAttr) -> Result<QpState, Errno> {
        let mut sends = self.sends();
        self.notice_error(&mut sends);
        let before = sends.state;
        let next = check_modify(before, self.qp_type(), attr)?;
        check_device_limits(attr)?;
        merge(&mut sends.attr, attr);
        self.publish(&sends.attr);
        match next {
            QpState::Reset => self.reset(&mut sends),
            QpState::Err => self.enter_error(&mut sends),
            QpState::Rtr if before != next => self.rtr(&mut sends),
            _ => {
                sends.state = next;
                self.record.state.store(next.to_c(), Release);
            }
        }
        if before == QpState::Rts && next == QpState::Sqd && sends.queue.is_empty() {
            self.tell_drained();
        }
        if next == QpState::Rts && !sends.queue.is_empty() {
            self.run_queue(&mut sends);
        }
        Ok(next)
    }

    fn tell_drained(&self) {
        let (index, generation) = self.event_identity();
        tell(
            Owner::This,
            self.async_pipe.in_record(),
            EventRecord { event_type: EVENT_SQ_DRAINED, index, generation },
        );
    }

    fn rtr(&self, sends: &mut Sends) {
        sends.scratch.peer = None;
        sends.state = QpState::Rtr;
        self.record.state.store(QpState::Rtr.to_c(), Release);
    }

    /// Shows peers what they have to know.
    fn publish(&self, attr: &QpAttr) {
        let record = self.record;
        let access = attr.qp_access_flags.unwrap_or_default();
        record.access.store(access.bits(), Relaxed);
        record.dest_qpn.store(attr.dest_qp_num.unwrap_or(0), Relaxed);
        record.qkey.store(attr.qkey.unwrap_or(0), Relaxed);
        record.rq_psn.store(attr.rq_psn.unwrap_or(0), Relaxed);
        record.min_rnr_timer.store(attr.min_rnr_timer.unwrap_or(0).into(), Relaxed);
        record.max_dest_rd_atomic.store(attr.max_dest_rd_atomic.unwrap_or(0).into(), Relaxed);
    }

    fn reset(&self, sends: &mut Sends) {
        self.record.state.store(QpState::Reset.to_c(), SeqCst);
        let generation = self.record.generation.load(Relaxed).wrapping_add(1);
        self.record.generation.store(generation, Relaxed);
        self.share.generation.store(generation, Relaxed);
        if !self.uses_srq {
            self.share.rq.clear();
        }
        self.send_cq.forget(self.num());
        self.recv_cq.forget(self.num());
        self.share.freed.store(0, Relaxed);
        *sends = Sends {
            state: QpState::Reset,
            attr: QpAttr::default(),
            posted: 0,
            queue: VecDeque::new(),
            wait: None,
            scratch: Scratch::default(),
            counts: sends.counts.take(),
        };
    }

    /// Err: everything posted is flushed.
    fn enter_error(&self, sends: &mut Sends) {
        sends.state = QpState::Err;
        self.record.state.store(QpState::Err.to_c(), SeqCst);
        self.flush_sends(sends);
        flush(Owner::This, self.requester.process.segment, self.record, self.num());
    }

    /// A peer's request has put the QP to Err, where that is so.
    #[inline]
    fn notice_error(&self, sends: &mut Sends) {
        if self.record.state.load(Relaxed) == QpState::Err.to_c() && sends.state != QpState::Err {
            self.enter_error(sends);
        }
    }

    fn flush_sends(&self, sends: &mut Sends) {
        sends.wait = None;
        for queued in std::mem::take(&mut sends.queue) {
            self.complete(&queued.request(), WcStatus::WrFlushErr);
        }
    }

    /// Begins a post of several send work requests; nobody else posts until it is dropped.
    pub(crate) fn begin_post(&self) -> Posting<'_> {
        let mut sends = self.sends();
        self.notice_error(&mut sends);
        let idle = self.share.freed.load(Relaxed) == sends.posted;
        Posting { qp: self, sends, idle, tells: false, gives_way: GivesWay(false) }
    }

    /// Shows peers on which processor this QP was posted to; returns it, plus 1.
    fn show_processor(&self) -> u32 {
        // SAFETY: takes nothing; -1 where it is not known.
        let here = unsafe { libc::sched_getcpu() + 1 } as u32;
        // Mostly it is there already: a store would take the cache line from the peer.
        if self.record.processor.load(Relaxed) != here {
            self.record.processor.store(here, Relaxed);
        }
        here
    }

    /// Whether the peer's program has posted on processor `here` like this one, since this was last
    /// asked.
    fn peer_posts_on(&self, here: u32, sends: &Sends) -> bool {
        let (Some(peer), Some(dest)) = (&sends.scratch.peer, sends.attr.dest_qp_num) else { return false };
        let Some(record) = peer.segment.qp(index_of(dest) as usize) else { return false };
        here != 0
            && record.processor.load(Relaxed) == here
            && record.processor.compare_exchange(here, 0, Relaxed, Relaxed).is_ok()
    }

    /// Whether the program has asked to be woken when a message comes, and so gives way itself.
    fn will_sleep(&self) -> bool {
        let record = self.requester.process.segment.cq(self.recv_cq.index as usize);
        record.is_some_and(|cq| cq.armed.load(Relaxed) != Armed::Not as u32)
    }

    /// ibv_post_recv(3), of one RECV.
    pub(crate) fn post_recv(&self, wr_id: u64, sges: &[Sge]) -> Result<(), Errno> {
        let state = QpState::from_c(self.record.state.load(Relaxed)).unwrap_or_default();
        check_post_recv(state, self.uses_srq)?;
        self.share.rq.post(wr_id, sges)?;
        // Read after the RECV is there for all to see: who flushes reads them in the other order.
        std::sync::atomic::fence(SeqCst);
        if self.record.state.load(Relaxed) == QpState::Err.to_c() {
            flush(Owner::This, self.requester.process.segment, self.record, self.num());
        }
        Ok(())
    }

    /// A call has posted so many RECVs, of at most so many SGEs.
    pub(crate) fn recvs_posted(&self, recvs: u32, sges: u32) {
        if let Some(counts) = &self.share.counts
            && recvs > 0
        {
            lock(counts).posted(recvs, sges);
        }
    }

    fn run_queue(&self, sends: &mut Sends) {
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
            let request = front.request();
            let route = route(&sends.attr, &request.wr, request.len);
            let outcome = match self.requester.execute(&mut sends.scratch, &route, &request) {
                Attempt::Over(outcome) => outcome,
                attempt @ (Attempt::Gathered | Attempt::AfterGathered) => {
                    // Nothing was gathered before: it is this one alone.
                    debug_assert!(matches!(attempt, Attempt::Gathered));
                    let (_, cause) = sends.scratch.batch.transfer();
                    sends.scratch.batch.clear();
                    cause.map_or(Outcome::Done(WcStatus::Success), |cause| {
                        self.requester.not_moved(&sends.scratch, route.dest_qpn, cause)
                    })
                }
            };
            let outcome = match outcome {
                Outcome::Wait(obstacle) => match wait_again(&mut sends.wait, obstacle, &sends.attr) {
                    None => {
                        sends.queue.push_front(front);
                        return;
                    }
                    Some(status) => status,
                },
                Outcome::Done(status) => status,
            };
            sends.wait = None;
            self.complete(&request, outcome);
            if outcome != WcStatus::Success {
                self.fail(sends);
            }
        }
    }

    /// After a failed work request: Err on RC, Sqe on UC and UD (IB specification vol. 1, 10.3.1).
    fn fail(&self, sends: &mut Sends) {
        if self.qp_type() == QpType::Rc {
            return self.enter_error(sends);
        }
        sends.state = QpState::Sqe;
        self.record.state.store(QpState::Sqe.to_c(), Release);
        self.flush_sends(sends);
    }

    /// Completes a send work request, where it asks for that or has failed.
    fn complete(&self, request: &Request<'_>, status: WcStatus) {
        let wr = &request.wr;
        let success = status == WcStatus::Success;
        if success && !self.sq_sig_all && !wr.flags.contains(SendFlags::SIGNALED) {
            return;
        }
        let wc = ibv_wc {
            wr_id: wr.wr_id,
            status: status.to_c(),
            opcode: WcOpcode::from(wr.op.opcode()).to_c(),
            byte_len: request.len,
            qp_num: self.num(),
            ..ibv_wc::default()
        };
        self.send_cq.push(Own { wc, solicited: false, sends: request.number });
    }

    /// Carries out, gathers or queues a work request of the list being posted; `false` where what is
    /// gathered has to be carried out first.
    fn try_post(&self, sends: &mut Sends, request: &Request<'_>) -> bool {
        match sends.state {
            QpState::Rts if sends.queue.is_empty() => {}
            QpState::Err | QpState::Sqe => {
                self.complete(request, WcStatus::WrFlushErr);
                return true;
            }
            _ => {
                sends.queue.push_back(Queued::new(request));
                return true;
            }
        }
        let route = route(&sends.attr, &request.wr, request.len);
        match self.requester.execute(&mut sends.scratch, &route, request) {
            Attempt::Gathered => {}
            Attempt::AfterGathered => return false,
            Attempt::Over(Outcome::Done(status)) => {
                self.complete(request, status);
                if status != WcStatus::Success {
                    self.fail(sends);
                }
            }
            Attempt::Over(Outcome::Wait(_)) => {
                sends.queue.push_back(Queued::new(request));
                self.run_queue(sends);
            }
        }
        true
    }

    /// Carries out what is gathered of the list being posted. What is left after a failure waits,
    /// or is flushed.
    fn carry_out_gathered(&self, sends: &mut Sends) {
        let dest_qpn = sends.attr.dest_qp_num.unwrap_or(0);
        loop {
            let batch = &mut sends.scratch.batch;
            let (done, cause) = batch.transfer();
            for request in batch.requests(done) {
                self.complete(&request, WcStatus::Success);
            }
            let Some(cause) = cause else { return batch.clear() };
            let outcome = self.requester.not_moved(&sends.scratch, dest_qpn, cause);
            let batch = &mut sends.scratch.batch;
            if let Outcome::Done(status) = outcome {
                let given_up = batch.give_up();
                for request in batch.requests(given_up) {
                    self.complete(&request, status);
                }
            }
            if outcome != Outcome::Done(WcStatus::Success) {
                sends.queue.extend(batch.requests(batch.left()).map(|request| Queued::new(&request)));
                batch.clear();
                return match outcome {
                    Outcome::Done(_) => self.fail(sends),
                    Outcome::Wait(_) => self.run_queue(sends),
                };
            }
        }
    }

    /// Ends the QP's life: nothing of it is seen any more.
    pub(crate) fn destroy(&self) {
        if let Some(counts) = self.counts() {
            counts::keep(counts);
        }
        let mut sends = self.sends();
        self.reset(&mut sends);
        sends.counts = None;
        drop(sends);
        self.send_cq.remove_user(self.num());
        self.recv_cq.remove_user(self.num());
        self.requester.process.qp_numbers.give_back(self.index);
    }
}

impl Counting for Qp {
    fn counts(&self) -> Option<QpCounts> {
        let mut counts = self.sends().counts.as_deref().cloned()?;
        if let Some(recvs) = &self.share.counts {
            counts.recvs = lock(recvs).clone();
        }
        Some(counts)
    }
}

impl Waiting for Qp {
    fn advance(&self) -> Option<Instant> {
        // Whoever holds the lock is trying, or will have it tried.
        let Ok(mut sends) = self.sends.try_lock() else { return Some(Instant::now() + SILENT_RETRY) };
        self.notice_error(&mut sends);
        self.carry_out_queue(&mut sends);
        if sends.queue.is_empty() {
            return None;
        }
        Some(sends.wait.map_or_else(|| Instant::now() + SILENT_RETRY, |wait| wait.until))
    }

    fn waits(&self) -> bool {
        self.sends.try_lock().map_or(true, |sends| !sends.queue.is_empty())
    }
}

/// Send work requests being posted.
pub(crate) struct Posting<'a> {
    qp: &'a Qp,
    sends: MutexGuard<'a, Sends>,
    /// Whether all completions of what was posted before have been taken.
    idle: bool,
    /// Whether a message is among them that the peer may be waiting for.
    tells: bool,
    /// Dropped after the lock.
    gives_way: GivesWay,
}

/// Whether this processor is offered to others when the list ends.
struct GivesWay(bool);

impl Drop for GivesWay {
    fn drop(&mut self) {
        if self.0 {
            std::thread::yield_now();
        }
    }
}

impl<'a> Posting<'a> {
    /// Send work requests that still fit.
    pub(crate) fn room(&self) -> u64 {
        let used = self.sends.posted.saturating_sub(self.qp.share.freed.load(Relaxed));
        u64::from(self.qp.cap.max_send_wr).saturating_sub(used)
    }

    /// The length of a work request's message, where it may be posted; `inline` is its payload
    /// where that has been copied already.
    pub(crate) fn check(&self, wr: &SendWr<'_>, inline: Option<&[u8]>) -> Result<u32, Errno> {
        let path_mtu = match self.qp.qp_type() {
            QpType::Ud => device::MTU,
            _ => self.sends.attr.path_mtu.unwrap_or(device::MTU),
        };
        let cap = &self.qp.cap;
        let shape = SendShape { qp_type: self.qp.qp_type(), state: self.sends.state, cap, path_mtu };
        let Some(bytes) = inline else { return Ok(shape.check(wr)?) };
        // The same checks, of the bytes as the one SGE that they would be.
        let length = u32::try_from(bytes.len()).map_err(|_| EINVAL)?;
        let sges = [Sge { addr: 0, length, lkey: 0 }];
        let sg_list = &sges[..usize::from(length > 0).min(cap.max_send_sge as usize)];
        shape.check(&SendWr { sg_list, flags: wr.flags | SendFlags::INLINE, ..*wr })?;
        if length > cap.max_inline_data { Err(EINVAL) } else { Ok(length) }
    }

    /// Posts one; `inline` as in [`Posting::check`].
    pub(crate) fn post(&mut self, wr: &SendWr<'_>, inline: Option<&'a [u8]>) -> Result<(), Errno> {
        let len = self.check(wr, inline)?;
        if self.room() == 0 {
            return Err(ENOMEM);
        }
        let (qp, sends) = (self.qp, &mut *self.sends);
        sends.posted += 1;
        self.tells |= !wr.op.opcode().returns_data();
        if let Some(counts) = &mut sends.counts {
            let outstanding = sends.posted.saturating_sub(qp.share.freed.load(Relaxed));
            let signaled = qp.sq_sig_all || wr.flags.contains(SendFlags::SIGNALED);
            counts.posted(wr, len, inline.is_some(), signaled, outstanding);
        }
        let request = Request { wr: *wr, len, inline, number: sends.posted };
        while !qp.try_post(sends, &request) {
            qp.carry_out_gathered(sends);
        }
        Ok(())
    }

    /// Whether the peer is to be let run when the list ends.
    ///
    /// Programs take turns on a processor where there are too few of them, and one that waits by
    /// looking at its memory keeps the other from running as long as the kernel lets it:
    /// milliseconds. So a program that posts one message at a time, as who waits for the answer
    /// does, gives way to a peer that posts on the same processor.
    pub(crate) fn gives_way(&self) -> bool {
        if !self.idle || !self.tells {
            return false;
        }
        let here = self.qp.show_processor();
        !self.qp.will_sleep() && self.qp.peer_posts_on(here, &self.sends)
    }
}

impl Drop for Posting<'_> {
    /// The list ends: one doorbell.
    fn drop(&mut self) {
        let sends = &mut *self.sends;
        if !sends.scratch.batch.is_empty() {
            self.qp.carry_out_gathered(sends);
        }
        if let Some(counts) = &mut sends.counts {
            let peer = sends.scratch.peer.as_ref().map_or(self.qp.requester.process.slot, |peer| peer.slot);
            counts.list_ends(peer);
        }
        self.gives_way.0 = self.gives_way();
    }
}

impl Queued {
    fn new(request: &Request<'_>) -> Queued {
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

    fn request(&self) -> Request<'_> {
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

/// Where a work request goes.
fn route(attr: &QpAttr, wr: &SendWr<'_>, len: u32) -> Route {
    let sq_psn = attr.sq_psn.unwrap_or(0);
    let max_rd_atomic = attr.max_rd_atomic.unwrap_or(0);
    match wr.dest {
        None => Route { dest_qpn: attr.dest_qp_num.unwrap_or(0), sq_psn, qkey: 0, max_rd_atomic, grh: None },
        Some(dest) => {
            let own = attr.qkey.unwrap_or(0);
            let qkey = if dest.qkey & QKEY_OWN != 0 { own } else { dest.qkey };
            let path = device::PathHandle(dest.ah.0);
            // A path that leads nowhere leads to a QP that there never is.
            let dest_qpn = if path.is_reachable() { dest.qpn } else { 0 };
            let grh: Option<[u8; GRH_BYTES as usize]> = path.grh(len);
            Route { dest_qpn, sq_psn, qkey, max_rd_atomic, grh }
        }
    }
}

/// The work request meets an obstacle, perhaps once more; returns its status where that was once
/// too often.
fn wait_again(wait: &mut Option<Wait>, obstacle: Obstacle, attr: &QpAttr) -> Option<WcStatus> {
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

/// What this device adds to the checks of ibv_modify_qp(3).
fn check_device_limits(attr: &QpAttr) -> Result<(), Errno> {
    let ports = [attr.port_num, attr.ah_attr.map(|ah| ah.port_num)];
    let wrong = ports.into_iter().flatten().any(|port| port != device::PORT)
        || attr.pkey_index.is_some_and(|index| index >= device::PKEYS)
        || attr.path_mtu.is_some_and(|mtu| mtu > device::MTU)
        || attr.max_rd_atomic.is_some_and(|n| n > device::MAX_RD_ATOMIC)
        || attr.max_dest_rd_atomic.is_some_and(|n| n > device::MAX_RD_ATOMIC)
        || attr
            .ah_attr
            .is_some_and(|ah| ah.dgid.is_some() && usize::from(ah.sgid_index) >= device::gids().len());
    if wrong { Err(EINVAL) } else { Ok(()) }
}

/// Takes over what is set.
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
