//! Posting a list of send work requests.

use super::{Qp, QpRole, Sends};
use crate::causes;
use crate::device;
use crate::engine::direct::{PlainWrite, Sent, Written};
use crate::engine::request::{ATOMIC_WRITE_BYTES, Request, RequestOp};
use crate::fabric::peer::Owner;
use crate::point::{Point, reach};
use crate::queues::errors::LostWr;
use crate::refused::{self, Called};
use crate::rings::completions::{Armed, armed};
use crate::rings::recvs::Receipt;
use crate::sync::biased::BiasedGuard;
use doorbell_abi::{CEnum, opcode_name};
use doorbell_transport::{Refused, SendShape, is_signaled};
use doorbell_verbs::{Opcode, QpType, RemoteAddr, SendFlags, SendWr, Sge, WcOpcode, WcStatus};
use std::sync::atomic::Ordering::*;

/// A call that posts a list of send work requests. The list ends when the object is dropped.
pub(crate) struct Posting<'a> {
    pub(super) qp: &'a Qp,
    pub(super) sends: BiasedGuard<'a, Sends>,
    /// Whether the completions of all earlier posts have been taken.
    idle: bool,
    /// Whether the list holds a message that the peer may be waiting for.
    tells: bool,
    /// The SRQ that the next work request names (XRC).
    srqn: u32,
    /// Yields the processor after the lock is released, because this field is dropped after `sends`.
    gives_way: GivesWay,
}

/// The call that posts single work requests.
pub(super) const SINGLE: &str = "ibv_post_send";

/// Whether this thread yields its processor when the list ends.
struct GivesWay(bool);

impl Drop for GivesWay {
    fn drop(&mut self) {
        if self.0 {
            std::thread::yield_now();
        }
    }
}

impl Qp {
    /// Begins a post of several send work requests. No other thread posts until the result is dropped.
    #[inline(always)]
    pub(crate) fn begin_post(&self) -> Posting<'_> {
        let mut sends = self.sends();
        reach(Point::PostBegun);
        self.notice_error(&mut sends);
        let idle = self.share.freed.load(Relaxed) == sends.posted;
        Posting { qp: self, sends, idle, tells: false, srqn: 0, gives_way: GivesWay(false) }
    }

    /// Publishes the number, plus 1, of the processor that this thread posts on. Returns the published
    /// number; 0 if the processor is unknown.
    fn show_processor(&self) -> u32 {
        // libc reads the number without a system call. rustix is not optimised in the profile `release`.
        // SAFETY: the call takes no arguments. It returns -1 if the processor is not known.
        let here = unsafe { libc::sched_getcpu() + 1 } as u32;
        // The record usually has this number already, and a store would take the cache line from the peer.
        // Relaxed: the number is a hint and orders nothing.
        if self.record.processor.load(Relaxed) != here {
            self.record.processor.store(here, Relaxed);
        }
        here
    }

    /// Whether the peer's program has posted on processor `here` since the last call.
    fn peer_posts_on(&self, here: u32, sends: &Sends) -> bool {
        let (Some(peer), Some(dest)) = (&sends.scratch.peer, sends.attr.dest_qp_num) else { return false };
        let Some(record) = peer.segment.qp(peer.segment.index_of(dest)) else { return false };
        here != 0
            && record.processor.load(Relaxed) == here
            && record.processor.compare_exchange(here, 0, Relaxed, Relaxed).is_ok()
    }

    /// Whether the program has armed a notification for the next message, and so will give up the processor
    /// itself.
    fn will_sleep(&self) -> bool {
        let record = self.requester.process.segment.cq(self.recv_cq.index as usize);
        record.is_some_and(|record| matches!(armed(record), Armed::Solicited | Armed::Next))
    }
}

impl<'a> Posting<'a> {
    /// Number of send work requests for which the send queue has room.
    #[inline(always)]
    pub(crate) fn room(&self) -> u64 {
        let used = self.sends.posted.saturating_sub(self.qp.share.freed.load(Relaxed));
        u64::from(self.qp.cap.max_send_wr).saturating_sub(used)
    }

    /// The error for a send queue without room for a list of `wrs` work requests that `call` posts.
    #[cold]
    pub(crate) fn full(&self, call: &'static str, wrs: usize) -> Refused {
        let (qp, most) = (self.qp, self.qp.cap.max_send_wr);
        // An XRC target has no send queue at all.
        if matches!(qp.role, QpRole::Target(_)) {
            return causes::SEND_TARGET.bare();
        }
        if most == 0 {
            return causes::SEND_NONE.bare();
        }
        if wrs > most as usize {
            return causes::SEND_LIST_LONG.of([&wrs, &most]);
        }
        let refused = match self.room() {
            0 => {
                qp.tell_full(&self.sends);
                causes::SEND_FULL.of([&most])
            }
            room => causes::SEND_LIST.of([&room, &wrs, &most]),
        };
        let me = qp.me.clone();
        let posted_now = move || {
            // Another thread holds the lock for a short time only. This thread may never release it.
            const TRIES: usize = 100;
            let qp = me.upgrade()?;
            let acquired = (0..TRIES).find_map(|_| {
                let sends = qp.sends.try_lock();
                if sends.is_none() {
                    std::thread::yield_now();
                }
                sends
            });
            let posted = acquired.map(|sends| sends.posted);
            // The process ends. A signal handler must not drop the last reference to the QP.
            std::mem::forget(qp);
            posted
        };
        refused::full(&qp.fullness, Called::verbs(call), &refused, self.sends.posted, posted_now);
        refused
    }

    /// Checks whether a work request may be posted, and returns the length of its message in bytes. `inline`
    /// is the payload if it was copied already.
    #[inline(always)]
    pub(crate) fn check(&self, wr: &SendWr<'_>, inline: Option<&[u8]>) -> Result<u32, Refused> {
        let path_mtu = match self.qp.qp_type() {
            QpType::Ud => device::MTU,
            _ => self.sends.attr.path_mtu.unwrap_or(device::MTU),
        };
        let shape = SendShape {
            qp_type: self.qp.qp_type(),
            state: self.sends.state,
            max_send_sge: self.qp.cap.max_send_sge,
            max_inline_data: self.qp.cap.max_inline_data,
            path_mtu,
        };
        Ok(match inline {
            None => shape.check(wr)?,
            Some(bytes) => shape.check_copied(wr, bytes.len())?,
        })
    }

    /// Posts a work request of the program. `inline` is the payload if it was copied already.
    #[inline(always)]
    pub(crate) fn post_wr(&mut self, wr: &SendWr<'_>, inline: Option<&'a [u8]>) -> Result<(), Refused> {
        self.post_request(wr, RequestOp::Verb(wr.op), inline)
    }

    /// Checks whether an ATOMIC WRITE may be posted: it needs an RC QP and a payload of
    /// [`ATOMIC_WRITE_BYTES`]. `wr` is the WRITE of its bytes.
    pub(crate) fn check_atomic_write(&self, wr: &SendWr<'_>, inline: Option<&[u8]>) -> Result<(), Refused> {
        if self.qp_type() != QpType::Rc {
            return Err(causes::SEND_OPCODE.of([&"IBV_WR_ATOMIC_WRITE", &self.qp_type()]));
        }
        match self.check(wr, inline)? {
            ATOMIC_WRITE_BYTES => Ok(()),
            bytes => Err(causes::SEND_ATOMIC_WRITE.of([&bytes])),
        }
    }

    /// Posts an ATOMIC WRITE. `wr` is the WRITE of its bytes.
    #[cold]
    pub(crate) fn post_atomic_write(
        &mut self,
        wr: &SendWr<'_>,
        inline: Option<&'a [u8]>,
    ) -> Result<(), Refused> {
        self.check_atomic_write(wr, inline)?;
        // A WRITE always has a remote address.
        let remote = wr.op.remote().unwrap_or_default();
        self.post_request(wr, RequestOp::AtomicWrite(remote), inline)
    }

    /// Posts a work request with operation `op`, which may differ from the operation in `wr`.
    #[inline(always)]
    pub(super) fn post_request(
        &mut self,
        wr: &SendWr<'_>,
        op: RequestOp,
        inline: Option<&'a [u8]>,
    ) -> Result<(), Refused> {
        let len = self.check(wr, inline)?;
        if self.room() == 0 {
            return Err(self.full(SINGLE, 1));
        }
        let (qp, sends) = (self.qp, &mut *self.sends);
        sends.posted += 1;
        self.tells |= !op.opcode().returns_data();
        let request = Request { op, inline, srqn: self.srqn, ..Request::of(wr, len, sends.posted) };
        if sends.watch.is_some() && qp.admit_watched(sends, &request) {
            return Ok(());
        }
        while !qp.start_or_queue(sends, &request) {
            qp.carry_out_gathered(sends);
        }
        Ok(())
    }

    /// Sets the SRQ that the next work request names.
    pub(crate) fn name_srq(&mut self, srqn: u32) {
        self.srqn = srqn;
    }

    pub(crate) fn qp_type(&self) -> QpType {
        self.qp.qp_type()
    }

    /// The name of the QP's type in error messages.
    pub(crate) fn shown_type(&self) -> &'static str {
        self.qp.shown_type()
    }

    /// Whether a message of one SGE may take the direct path.
    #[inline(always)]
    fn may_go_directly(&self, sge: &Sge, flags: SendFlags) -> bool {
        let cap = &self.qp.cap;
        let fits = !flags.contains(SendFlags::INLINE) || sge.length <= cap.max_inline_data;
        cap.max_send_sge > 0 && fits && self.sends.is_direct() && self.room() > 0
    }

    /// Posts a WRITE of one SGE on the direct path. `false` if the WRITE must take the usual path; then
    /// nothing was done.
    #[inline(always)]
    pub(crate) fn write_directly(
        &mut self,
        wr_id: u64,
        remote: RemoteAddr,
        sge: &Sge,
        flags: SendFlags,
    ) -> bool {
        if !self.may_go_directly(sge, flags) {
            return false;
        }
        let (qp, number) = (self.qp, self.sends.posted + 1);
        let is_signaled = is_signaled(WcStatus::Success, flags, qp.sq_sig_all);
        let enter = || {
            if is_signaled {
                qp.enter((wr_id, WcOpcode::Write.to_c(), sge.length), number, WcStatus::Success, None);
            }
        };
        let write = PlainWrite { wr_id, remote, sge, flags, number };
        match self.sends.scratch.write_directly(&qp.requester, &write, enter) {
            Written::Not => return false,
            Written::Placed => self.has_gone((wr_id, number), Opcode::Write, is_signaled),
            // The WRITE completes with the other gathered requests.
            Written::Gathered => (self.sends.posted, self.tells) = (write.number, true),
        }
        true
    }

    /// Posts a SEND of one SGE on the direct path. `false` if the SEND must take the usual path; then nothing
    /// was done.
    #[inline(always)]
    pub(crate) fn send_directly(&mut self, wr_id: u64, sge: &Sge, flags: SendFlags) -> bool {
        if !self.may_go_directly(sge, flags) {
            return false;
        }
        let (qp, number) = (self.qp, self.sends.posted + 1);
        let is_signaled = is_signaled(WcStatus::Success, flags, qp.sq_sig_all);
        let enter = |owner: Owner<'_>, receipt: Receipt| {
            if is_signaled {
                qp.enter_received((wr_id, WcOpcode::Send.to_c(), sge.length), number, (owner, receipt));
            }
        };
        match self.sends.scratch.send_directly(&qp.requester, (sge, flags), enter) {
            Sent::Not => return false,
            Sent::Received => self.has_gone((wr_id, number), Opcode::Send, is_signaled),
            Sent::CqFull => {
                self.sends.posted += 1;
                self.qp.send_met_full_cq(&mut self.sends, wr_id, sge.length, flags);
            }
        }
        true
    }

    /// Completes a message that was carried out. The completion of a signalled message was entered before, or
    /// is lost because the CQ had no room.
    #[inline(always)]
    fn has_gone(&mut self, (wr_id, number): (u64, u64), opcode: Opcode, is_signaled: bool) {
        (self.sends.posted, self.tells) = (number, true);
        if is_signaled && !self.qp.make_due(number, WcStatus::Success) {
            self.qp.lose(&mut self.sends, LostWr { number, name: opcode_name(opcode), wr_id });
        }
    }

    /// Whether to yield the processor to the peer when the list ends.
    ///
    /// With few processors, programs share a processor. A program that polls its memory then keeps the other
    /// program from running for as long as the kernel allows, which is milliseconds. A program that posts one
    /// message at a time probably waits for the answer. So this program yields to a peer that posts on this
    /// processor, too.
    #[inline(always)]
    pub(crate) fn gives_way(&self) -> bool {
        self.idle && self.tells && self.meets_peer()
    }

    #[inline(always)]
    fn meets_peer(&self) -> bool {
        let here = self.qp.show_processor();
        !self.qp.will_sleep() && self.qp.peer_posts_on(here, &self.sends)
    }
}

impl Drop for Posting<'_> {
    /// Ends the list: carries out the gathered requests, and decides whether to yield the processor.
    #[inline(always)]
    fn drop(&mut self) {
        let sends = &mut *self.sends;
        reach(Point::ListEnds);
        if !sends.scratch.batch.is_empty() {
            self.qp.carry_out_gathered(sends);
        }
        if let Some(watch) = &mut sends.watch {
            let peer = sends.scratch.peer.as_ref().map_or(self.qp.requester.process.slot, |peer| peer.slot);
            watch.list_ends(peer);
        }
        self.gives_way.0 = self.gives_way();
    }
}
