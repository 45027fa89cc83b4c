//! The responder, whose part the requester plays: it takes what its process shows of itself, and
//! trusts none of it.
//!
//! The order of checks is that of `doorbell_transport`'s responder (IB specification vol. 1, 9.7.5),
//! which also says what becomes of each fault.

use super::attempt::{Attempt, Outcome};
use super::batch::{Batch, Request};
use super::diagnosis::There;
use super::refusal::Refusal;
use super::target::{Served, Target};
use crate::fabric::link::{Delivery, Link, Ticket};
use crate::fabric::mapping::ViewCache;
use crate::fabric::peer::Owner;
use crate::fabric::pipe::tell;
use crate::fabric::process::{Process, say_unreachable};
use crate::memory::cause::{Blame, Cause, Check, Memory};
use crate::memory::records::*;
use crate::memory::regions::{Place, RegionCache, RemoteCache, Unsettled};
use crate::memory::segment::{Segment, Unmapped};
use crate::memory::transfer::{self, Far, Piece, Unreachable};
use crate::path::Header;
use crate::point::{Point, reach};
use crate::rings::completions::overrun;
use crate::rings::recvs::{
    CARRIED_BYTES, Carried, Completer, Front, NoRecv, RecvDone, SOLICITED, Slots, check_limit, flush,
};
use doorbell_abi::{CEnum, IBV_QPT_XRC_RECV, IBV_WC_GRH};
use doorbell_transport::{AtomicOp, Fault, NakCode, check_enabled, takes_requests};
use doorbell_verbs::{
    AccessFlags, GRH_BYTES, QpState, QpType, RemoteAddr, SendFlags, SendOp, WcOpcode, WcStatus,
};
use std::sync::atomic::Ordering::*;

/// `IBV_EVENT_QP_REQ_ERR`, `_QP_ACCESS_ERR`, `_COMM_EST`.
const EVENT_QP_REQ_ERR: u32 = 2;
const EVENT_QP_ACCESS_ERR: u32 = 3;
const EVENT_COMM_EST: u32 = 4;

/// What was found last: regions of this process, and those of peers that are mapped here.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    pub(super) regions: RegionCache,
    pub(super) remote: RemoteCache,
    pub(super) views: ViewCache,
}

/// A message on its way.
#[derive(Clone, Copy)]
pub(super) struct Message<'a> {
    /// QP number of the requester.
    pub(super) from: u32,
    pub(super) qp_type: QpType,
    pub(super) request: &'a Request<'a>,
    /// The requester's memory.
    pub(super) pieces: &'a [Piece],
    /// Global route header; UD.
    pub(super) grh: Option<&'a Header>,
}

/// The responder of a message.
#[derive(Clone, Copy)]
pub(super) struct Responder<'a> {
    pub(super) process: &'static Process,
    /// The process that has the memory and the RECVs: the QP's, or that of the SRQ.
    pub(super) owner: Owner<'a>,
    pub(super) segment: &'a Segment,
    pub(super) qp: &'a QpRecord,
    pub(super) qpn: u32,
    /// Of the QP, and of its receive queue where the message takes a RECV, when it was found to take what comes.
    pub(super) generation: u32,
    pub(super) rq_generation: u32,
    /// The SRQ that the message names, which need not be of the QP's process; XRC.
    pub(super) srq: Option<&'a XrcSrq<'a>>,
}

/// The SRQ that a request names, and where the QP is that it goes to.
#[derive(Clone, Copy)]
pub(super) struct XrcSrq<'a> {
    pub(super) record: &'a RqRecord,
    /// Index of the record.
    pub(super) index: u32,
    /// The SRQ's number.
    pub(super) num: u32,
    /// The process of the QP.
    pub(super) home: (Owner<'a>, &'a Segment),
}

/// Where the bytes of a SEND go.
struct Buffers<'a> {
    /// As many as there are, with the header.
    total: u32,
    /// Whether they go with the completion; whoever takes that puts them in place.
    carried: bool,
    /// The places of so many bytes each, otherwise.
    places: Vec<(Far, usize)>,
    /// Who has to fill them, where this process reaches not all.
    served: Option<&'a Link>,
}

impl Message<'_> {
    /// What stands before the payload of a datagram, and whether that is a global route header.
    fn header(&self) -> (&[u8], bool) {
        match self.grh {
            _ if self.qp_type != QpType::Ud => (&[], false),
            Some(grh) => (grh, true),
            None => (&[0; GRH_BYTES as usize], false),
        }
    }
}

impl<'a> Responder<'a> {
    /// The QP with this number of who owns the segment, for a message that takes a RECV or another; `None` where there is none.
    #[inline(always)]
    pub(super) fn of(
        process: &'static Process,
        (owner, segment): (Owner<'a>, &'a Segment),
        qpn: u32,
        takes_recv: bool,
    ) -> Option<Responder<'a>> {
        let qp = segment.qp(index_of(qpn) as usize)?;
        // Before anything else is read of the QP: whoever resets it meanwhile makes another of it.
        let rq_generation = match takes_recv {
            true => segment.rq(qp.rq.load(Acquire) as usize)?.generation.load(Acquire),
            false => 0,
        };
        let generation = qp.generation.load(Acquire);
        Some(Responder { process, owner, segment, qp, qpn, generation, rq_generation, srq: None })
    }

    /// Carries a message out, or gathers it.
    pub(super) fn carry_out(
        &self,
        caches: &mut Caches,
        batch: &mut Batch,
        message: &Message<'_>,
    ) -> Result<Attempt, Refusal> {
        let Message { request, pieces, .. } = *message;
        let len = request.len;
        // RC waits for what is under way; on UC a message that cannot come in its turn is lost.
        if message.qp_type == QpType::Uc
            && self.link().is_some_and(|link| link.is_behind(self.ticket(message)))
        {
            return Err(Refusal::Silence);
        }
        match request.wr.op {
            SendOp::SendWithImm(_) if request.invalidates => self.receive_invalidating(caches, message)?,
            SendOp::Send | SendOp::SendWithImm(_) => self.receive::<false>(caches, message)?,
            SendOp::Write(remote) => match self.remote(caches, remote, len, AccessFlags::REMOTE_WRITE)? {
                Target::Reached(Far::Foreign { pid, addr }) => {
                    return Ok(gather(batch, request, pieces, pid, addr));
                }
                _ if !batch.is_empty() => return Ok(Attempt::AfterGathered),
                target => target.write(pieces, || self.ticket(message))?,
            },
            SendOp::WriteWithImm(remote, _) => self
                .remote(caches, remote, len, AccessFlags::REMOTE_WRITE)
                .and_then(|target| self.write_with_imm(message, target))
                .map_err(Refusal::with_imm)?,
            SendOp::Read(remote) => match self.remote(caches, remote, len, AccessFlags::REMOTE_READ)? {
                Target::Reached(Far::Foreign { pid, addr }) => {
                    return Ok(gather(batch, request, pieces, pid, addr));
                }
                _ if !batch.is_empty() => return Ok(Attempt::AfterGathered),
                target => target.read(pieces, || self.ticket(message))?,
            },
            SendOp::CompareSwap { remote, compare, swap } => {
                self.atomic(caches, remote, AtomicOp::CompareSwap { compare, swap }, message)?;
            }
            SendOp::FetchAdd { remote, add } => {
                self.atomic(caches, remote, AtomicOp::FetchAdd { add }, message)?;
            }
        }
        Ok(Attempt::Over(Outcome::Done(WcStatus::Success)))
    }

    /// By which the thread of the responder's process is asked, where this process does not reach all of its memory.
    #[inline(always)]
    fn link(&self) -> Option<&'a Link> {
        match self.owner {
            Owner::Peer(peer) => peer.link.as_ref(),
            Owner::This => None,
        }
    }

    /// Names a work request of a QP of this process.
    #[cold]
    fn ticket(&self, message: &Message<'_>) -> Ticket {
        let own = self.process.segment.qp(index_of(message.from) as usize);
        let generation = own.map_or(0, |qp| qp.generation.load(Relaxed));
        Ticket { qpn: message.from, generation, number: message.request.number }
    }

    /// Memory that an rkey names, where the access is allowed. No rkey is looked at where no byte
    /// is accessed (IB specification vol. 1, 9.7.5.2.4).
    #[inline(always)]
    fn remote(
        &self,
        caches: &mut Caches,
        remote: RemoteAddr,
        len: u32,
        need: AccessFlags,
    ) -> Result<Target<'a>, Refusal> {
        self.check_enabled(need, remote.addr)?;
        if len == 0 {
            return Ok(Target::Reached(Far::Mapped(std::ptr::NonNull::dangling().as_ptr())));
        }
        let (place, views) = self.find(caches, remote.rkey, Fault::Access)?;
        let by = (self.pd(), self.qpn);
        let offset = place.check_remote(by, remote.addr, u64::from(len), need).map_err(|_| Fault::Access)?;
        self.far(views, place, offset, u64::from(len), Fault::Access)
    }

    /// The protection domain of the memory that messages are about.
    #[inline(always)]
    pub(super) fn pd(&self) -> u32 {
        self.srq.map_or(&self.qp.pd, |srq| &srq.record.pd).load(Relaxed)
    }

    /// The CQ of its RECVs.
    fn cq(&self) -> u32 {
        self.srq.map_or(&self.qp.cq, |srq| &srq.record.cq).load(Relaxed)
    }

    /// Whether there is no SRQ that the message could be for; XRC.
    fn is_without_srq(&self) -> bool {
        self.srq.is_none() && self.qp.qp_type.load(Relaxed) == IBV_QPT_XRC_RECV
    }

    /// A message has come to a connected QP that its program has not taken to Rts yet, and is told once.
    #[cold]
    pub(super) fn establish(&self) {
        let (index, generation) = (index_of(self.qpn), self.generation);
        let told = self.segment.established(index as usize);
        if told.is_some_and(|told| told.swap(generation, Relaxed) != generation) {
            let event = EventRecord { event_type: EVENT_COMM_EST, index, generation };
            tell(self.owner, self.qp.async_fd.load(Relaxed), event);
        }
    }

    /// The QP's own process.
    fn home(&self) -> (Owner<'a>, &'a Segment) {
        self.srq.map_or((self.owner, self.segment), |srq| srq.home)
    }

    /// [`check_enabled`] as the QP's record has it.
    #[inline(always)]
    fn check_enabled(&self, need: AccessFlags, va: u64) -> Result<(), Fault> {
        let access = AccessFlags::from_bits_truncate(self.qp.access.load(Relaxed));
        let max_dest_rd_atomic = self.qp.max_dest_rd_atomic.load(Relaxed).min(u8::MAX.into());
        check_enabled(need, va, access, max_dest_rd_atomic as u8)
    }

    /// The region with this key, and what [`Self::far`] needs to find where it is.
    #[inline(always)]
    fn find<'c>(
        &self,
        caches: &'c mut Caches,
        key: u32,
        missing: Fault,
    ) -> Result<(&'c Place, &'c mut ViewCache), Refusal> {
        let Caches { regions, remote, views } = caches;
        let found = match self.owner {
            Owner::This => regions.find(&self.process.regions, key),
            // Whether there is one is not known yet where it is being changed: the request is tried again.
            Owner::Peer(peer) => {
                let found = remote.find(peer.views.number(), self.segment, key);
                found.map_err(|Unsettled| Refusal::Silence)?
            }
        };
        Ok((found.ok_or(missing)?, views))
    }

    /// Where `len` bytes of a region are for this process; it is this fault that they are nowhere.
    #[inline(always)]
    fn far(
        &self,
        views: &mut ViewCache,
        place: &Place,
        offset: u64,
        len: u64,
        outside: Fault,
    ) -> Result<Target<'a>, Refusal> {
        match (self.owner, place.shared) {
            (Owner::This, _) => Ok(Target::Reached(Far::Mapped((place.host + offset) as *mut u8))),
            (Owner::Peer(_), Some(at)) => match self.segment.in_arena(at.saturating_add(offset), len) {
                Ok(address) => Ok(Target::Reached(Far::Mapped(address))),
                Err(Unmapped::Outside) => Err(outside.into()),
                Err(Unmapped::Refused(error)) => {
                    say_unreachable(self.qpn, &error);
                    Err(Refusal::Silence)
                }
            },
            (Owner::Peer(peer), None) => {
                if let Some(link) = &peer.link {
                    return Ok(Target::Served(link, Served { key: place.key, offset }));
                }
                Ok(Target::Reached(match views.address(&peer.views, &peer.segment, place, offset) {
                    Some(address) => Far::Mapped(address),
                    None => Far::Foreign { pid: peer.member.pid, addr: place.host.wrapping_add(offset) },
                }))
            }
        }
    }

    fn atomic(
        &self,
        caches: &mut Caches,
        remote: RemoteAddr,
        op: AtomicOp,
        message: &Message<'_>,
    ) -> Result<(), Refusal> {
        self.check_enabled(AccessFlags::REMOTE_ATOMIC, remote.addr)?;
        let (place, views) = self.find(caches, remote.rkey, Fault::Access)?;
        let by = (self.pd(), self.qpn);
        let offset =
            place.check_remote(by, remote.addr, 8, AccessFlags::REMOTE_ATOMIC).map_err(|_| Fault::Access)?;
        let host = place.host.wrapping_add(offset);
        if !host.is_multiple_of(8) {
            return Err(Fault::Invalid.into());
        }
        let target = self.far(views, place, offset, 8, Fault::Access)?;
        // Where in the segment the region lies is its owner's word, which need not be true.
        if matches!(target, Target::Reached(Far::Mapped(word)) if !word.addr().is_multiple_of(8)) {
            return Err(Fault::Access.into());
        }
        let original = match (target, place.shared) {
            // The processor's own atomics are enough where everybody can use them.
            (Target::Reached(Far::Mapped(word)), Some(_)) => {
                // SAFETY: within a region or segment that is mapped, and aligned.
                unsafe { transfer::atomic_mapped(word, op) }
            }
            (Target::Reached(Far::Mapped(word)), None) => {
                let _others = self.segment.atomic_lock(host).lock().ok_or(Refusal::Silence)?;
                // SAFETY: as above.
                unsafe { transfer::atomic_mapped(word, op) }
            }
            (Target::Reached(Far::Foreign { pid, addr }), _) => {
                let _others = self.segment.atomic_lock(host).lock().ok_or(Refusal::Silence)?;
                reach(Point::LockHeld);
                transfer::atomic_foreign(pid, addr, op)?
            }
            (Target::Served(link, Served { key, offset }), _) => {
                link.atomic(self.ticket(message), op, key, offset)?
            }
        };
        transfer::read(message.pieces, Far::Mapped((&raw const original).cast_mut().cast()))?;
        Ok(())
    }

    /// A WRITE with immediate: it takes a RECV, whose buffers stay as they are.
    fn write_with_imm(&self, message: &Message<'_>, target: Target<'_>) -> Result<(), Refusal> {
        let slots = self.slots()?;
        let len = message.request.len;
        // Nobody else writes there or takes from the queue between the two, as RC and UC have one sender; from an SRQ
        // another may take the last RECV, and the WRITE is repeated then.
        self.front(&slots)?;
        if len > 0 {
            target.write(message.pieces, || self.ticket(message))?;
        }
        let opcode = WcOpcode::RecvWriteWithImm.to_c() as u8;
        let done = RecvDone { opcode, byte_len: len, ..self.completion(message) };
        loop {
            if self.take::<false>(self.front(&slots)?, done, &Carried::none())? {
                return Ok(());
            }
        }
    }

    /// A SEND; whether with invalidate, as its request says.
    #[inline]
    pub(super) fn receive<const INVALIDATES: bool>(
        &self,
        caches: &mut Caches,
        message: &Message<'_>,
    ) -> Result<(), Refusal> {
        if let Some(link) = self.has_asked(message) {
            return self.have_delivered(link, message);
        }
        let slots = self.slots()?;
        loop {
            let front = self.front(&slots)?;
            let taken = match self.find_buffers(caches, &slots, &front, message) {
                Ok(Buffers { served: Some(link), .. }) => return self.have_delivered(link, message),
                Ok(buffers) => self.take_and_fill::<INVALIDATES>(front, message, &buffers)?,
                Err(refusal) => match self.recv_refuses(refusal, &slots, &front, message) {
                    // What is wrong is wrong with this RECV, if nobody else has taken it meanwhile.
                    Some(status) if self.take::<false>(front, self.failed(status), &Carried::none())? => {
                        return Err(refusal);
                    }
                    Some(_) => false,
                    // Nor was anything read of what another has put there meanwhile.
                    None if front.is_posted() => return Err(refusal),
                    None => false,
                },
            };
            if taken {
                return Ok(());
            }
        }
    }

    /// Whom a message was brought to already, whose answer did not come in time: the RECV that it takes may be gone.
    #[inline(always)]
    pub(super) fn has_asked(&self, message: &Message<'_>) -> Option<&'a Link> {
        self.link().filter(|link| link.has_asked(self.ticket(message)))
    }

    /// Has the thread of the responder's process receive a message, whose RECV was checked.
    #[cold]
    fn have_delivered(&self, link: &Link, message: &Message<'_>) -> Result<(), Refusal> {
        let (header, has_grh) = message.header();
        let wr = &message.request.wr;
        let delivery = Delivery {
            to: self.qpn,
            generation: self.generation,
            from: message.from,
            imm: wr.op.imm(),
            solicited: wr.flags.contains(SendFlags::SOLICITED),
            has_grh,
            header: header.len() as u32,
            len: message.request.len,
            number: message.request.number,
            invalidates: message.request.invalidates,
            srqn: self.srq.map(|srq| srq.num),
        };
        let first = Piece { addr: header.as_ptr() as u64, len: header.len() };
        let pieces: Vec<Piece> = std::iter::once(first).chain(message.pieces.iter().copied()).collect();
        match link.deliver(self.ticket(message), &pieces, delivery)? {
            None => Ok(()),
            Some(why) => Err(Refusal::from_word(why)),
        }
    }

    /// The receive queue.
    #[inline(always)]
    fn slots(&self) -> Result<Slots<'_>, Refusal> {
        let rq = match self.srq {
            None => self.segment.rq(self.qp.rq.load(Relaxed) as usize),
            Some(srq) => Some(srq.record),
        };
        rq.and_then(|rq| Slots::of(self.segment, rq)).ok_or(Refusal::Silence)
    }

    /// The oldest RECV.
    #[inline(always)]
    fn front<'s>(&self, slots: &'s Slots<'s>) -> Result<Front<'s>, Refusal> {
        let front = slots.front(self.rq_generation).map_err(|none| match none {
            NoRecv::Empty => Fault::NoRecv.into(),
            NoRecv::Nonsense => Refusal::Silence,
        })?;
        // The CQ of a lane is full where there is no room for what is in the slots.
        if front.is_beyond_lane(self.qp, self.segment) {
            let cq = self.qp.cq.load(Relaxed);
            overrun(self.owner, self.segment.cq(cq as usize).ok_or(Refusal::Silence)?, cq);
            return Err(Refusal::CqFull);
        }
        Ok(front)
    }

    /// The buffers of a RECV, which are checked for a SEND. Nothing is changed yet.
    #[inline(always)]
    fn find_buffers(
        &self,
        caches: &mut Caches,
        slots: &Slots<'_>,
        front: &Front<'_>,
        message: &Message<'_>,
    ) -> Result<Buffers<'a>, Refusal> {
        let total = message.header().0.len() as u64 + u64::from(message.request.len);
        let (sges, capacity) = front.room();
        if total > u64::from(capacity) {
            return Err(Fault::RecvTooSmall.into());
        }
        let carried = total <= CARRIED_BYTES as u64;
        let (pd, mut at, mut places) = (slots.record.pd.load(Relaxed), 0, Vec::new());
        let mut served = None;
        for n in 0..sges {
            if at == total {
                break;
            }
            let sge = front.sge(n).ok_or(Refusal::Silence)?;
            let len = u64::from(sge.length).min(total - at);
            if len == 0 {
                continue;
            }
            let (place, views) = self.find(caches, sge.lkey, Fault::RecvProtection)?;
            let offset = place
                .check(pd, sge.addr, len, AccessFlags::LOCAL_WRITE)
                .map_err(|_| Fault::RecvProtection)?;
            if !carried {
                match self.far(views, place, offset, len, Fault::RecvProtection)? {
                    Target::Reached(far) => places.push((far, len as usize)),
                    Target::Served(link, _) => served = Some(link),
                }
            }
            at += len;
        }
        if at < total {
            return Err(Fault::RecvTooSmall.into());
        }
        Ok(Buffers { total: total as u32, carried, places, served })
    }

    /// Takes a RECV, fills its buffers and completes it; `false` where somebody else has taken it.
    #[inline(always)]
    fn take_and_fill<const INVALIDATES: bool>(
        &self,
        front: Front<'_>,
        message: &Message<'_>,
        buffers: &Buffers<'_>,
    ) -> Result<bool, Refusal> {
        let (header, has_grh) = message.header();
        let common = self.completion(message);
        let flags = common.flags | if has_grh { IBV_WC_GRH as u8 } else { 0 };
        let done = RecvDone { byte_len: buffers.total, flags, ..common };
        if buffers.carried {
            let mut carried = Carried::none();
            carried.gather(header, message.pieces);
            return self.take::<INVALIDATES>(front, done, &carried);
        }
        let completer = self.completer();
        let Some(claim) = front.claim(&completer) else { return Ok(false) };
        let mut filled = Ok(());
        let mut at = 0;
        for (far, len) in &buffers.places {
            filled = filled.and_then(|()| fill_buffer(header, message.pieces, at, *len, *far));
            at += len;
        }
        let done = match filled {
            Ok(()) => {
                if INVALIDATES {
                    self.invalidate(done.imm);
                }
                done
            }
            Err(refusal) => {
                let status = self.recv_status(refusal, message.qp_type).unwrap_or(WcStatus::LocProtErr);
                let not_there = Cause::of(Check::NotThere(Memory::Recv), 0);
                self.blame(message.from, message.request, Cause { len: buffers.total.into(), ..not_there });
                self.failed(status)
            }
        };
        let complete = completer.complete(&claim, done, &Carried::none());
        self.after_take(claim.record);
        filled?;
        if complete { Ok(true) } else { Err(Refusal::CqFull) }
    }

    /// What the completions of all messages have in common.
    #[inline]
    fn completion(&self, message: &Message<'_>) -> RecvDone {
        let wr = &message.request.wr;
        let imm = wr.op.imm();
        let solicited = if wr.flags.contains(SendFlags::SOLICITED) { SOLICITED } else { 0 };
        RecvDone {
            imm: imm.unwrap_or(0).to_be(),
            flags: solicited | if imm.is_some() { message.request.imm_flag() } else { 0 },
            src_qp: if message.qp_type == QpType::Ud || self.srq.is_some() { message.from } else { 0 },
            ..RecvDone::of_send(self.qpn, self.generation)
        }
    }

    fn failed(&self, status: WcStatus) -> RecvDone {
        RecvDone::failed(self.qpn, self.generation, status)
    }

    #[inline]
    fn completer(&self) -> Completer<'_> {
        let Responder { owner, segment, qp, qpn, .. } = *self;
        let srq = self.srq.map(|srq| srq.index);
        Completer { owner, segment, qp, qpn, srq, claimer: self.process.claimer }
    }

    /// Takes a RECV and completes it; `false` where somebody else has taken it.
    #[inline(always)]
    fn take<const INVALIDATES: bool>(
        &self,
        front: Front<'_>,
        done: RecvDone,
        carried: &Carried,
    ) -> Result<bool, Refusal> {
        let completer = self.completer();
        let Some(claim) = front.claim(&completer) else { return Ok(false) };
        if INVALIDATES {
            self.invalidate(done.imm);
        }
        let complete = completer.complete(&claim, done, carried);
        self.after_take(claim.record);
        if complete { Ok(true) } else { Err(Refusal::CqFull) }
    }

    fn after_take(&self, rq: &RqRecord) {
        if rq.limit.load(Relaxed) != 0 {
            check_limit(self.owner, rq);
        }
    }

    /// [`Responder::recv_status`] of the oldest RECV; says why before the RECV is gone.
    #[cold]
    fn recv_refuses(
        &self,
        refusal: Refusal,
        slots: &Slots<'_>,
        front: &Front<'_>,
        message: &Message<'_>,
    ) -> Option<WcStatus> {
        let status = self.recv_status(refusal, message.qp_type)?;
        if matches!(refusal, Refusal::Fault(fault) if fault.is_fatal(message.qp_type)) {
            let total = message.header().0.len() as u64 + u64::from(message.request.len);
            let cause = self.there().recv(front, slots.record.pd.load(Relaxed), total);
            self.blame(message.from, message.request, cause);
        }
        Some(status)
    }

    fn there(&self) -> There<'_> {
        There { process: self.process, owner: self.owner, segment: self.segment }
    }

    /// Leaves in the responder's segment why it refuses a work request of QP `from`.
    fn blame(&self, from: u32, request: &Request<'_>, cause: Cause) {
        if let Some(record) = self.home().1.cause(index_of(self.qpn) as usize) {
            let (opcode, number) = (request.wr.op.opcode(), request.number);
            let (pid, claimer) = self.process.known_as(from);
            record.write(&Blame { from, pid, claimer, opcode, number, cause });
        }
    }

    /// The same of a refusal by which it goes to Err. What is wrong with its RECV was left already.
    #[cold]
    pub(super) fn blame_for(&self, refusal: Refusal, from: u32, request: &Request<'_>, qp_type: QpType) {
        match refusal {
            Refusal::Fault(Fault::RecvTooSmall | Fault::RecvProtection) | Refusal::Silence => {}
            Refusal::Fault(fault) if !fault.is_fatal(qp_type) => {}
            Refusal::Fault(_) if self.is_without_srq() => {
                self.blame(from, request, Cause::of(Check::NoSrq, request.srqn.into()));
            }
            Refusal::Fault(_) if request.invalidates => {
                let rkey = request.invalidated_rkey();
                self.blame(from, request, Cause::of(Check::NotBound, rkey.into()));
            }
            Refusal::Fault(_) => self.blame(
                from,
                request,
                self.there().remote((self.qp, self.pd(), self.qpn), &request.wr.op, request.len),
            ),
            Refusal::CqFull => {
                let cq = self.segment.cq(self.cq() as usize);
                let cqe = cq.map_or(0, |cq| cq.cqe.load(Relaxed));
                self.blame(from, request, Cause::of(Check::CqFull, cqe.into()));
            }
        }
    }

    /// What becomes of the RECV of a message that is refused, if anything does.
    fn recv_status(&self, refusal: Refusal, qp_type: QpType) -> Option<WcStatus> {
        let Refusal::Fault(fault) = refusal else { return None };
        fault.recv_status(qp_type, self.qp.uses_srq.load(Relaxed) != 0)
    }

    /// What follows of a message that was not carried out, here; returns its status at the requester.
    pub(super) fn refuse(&self, refusal: Refusal, qp_type: QpType) -> WcStatus {
        let rc = qp_type == QpType::Rc;
        let (nak, fatal) = match refusal {
            Refusal::Fault(fault) => (fault.nak(), fault.is_fatal(qp_type)),
            Refusal::CqFull => (Some(NakCode::RemoteOperation), rc),
            Refusal::Silence => (None, false),
        };
        // Whatever else is wrong with a RECV was seen when there was one.
        if let Refusal::Fault(Fault::AccessWithImm) = refusal
            && let Some(status) = self.recv_status(refusal, qp_type)
        {
            self.fail_recv(status);
        }
        if let Some(nak) = nak.filter(|_| fatal) {
            self.fail(event_of(nak));
        }
        // On UC and UD nobody hears of it.
        nak.filter(|_| rc).map_or(WcStatus::Success, NakCode::status)
    }

    /// Completes the oldest RECV with an error.
    fn fail_recv(&self, status: WcStatus) {
        let Ok(slots) = self.slots() else { return };
        while let Ok(front) = self.front(&slots) {
            // There is nobody left to tell where this fails.
            if let Ok(true) | Err(_) = self.take::<false>(front, self.failed(status), &Carried::none()) {
                return;
            }
        }
    }

    /// The responder enters Err; its RECVs are flushed. Not where its owner has reset it meanwhile.
    fn fail(&self, event_type: u32) {
        if !self.qp.enter_error(receives) {
            return;
        }
        reach(Point::Failed);
        let index = index_of(self.qpn);
        let generation = self.qp.generation.load(Relaxed);
        let (home, fd) = (self.home().0, self.qp.async_fd.load(Relaxed));
        tell(home, fd, EventRecord { event_type, index, generation });
        // Which SRQs an XRC QP takes from only its requester knows.
        if self.qp.uses_srq.load(Relaxed) != 0 && self.srq.is_none() {
            let event_type = EVENT_QP_LAST_WQE_REACHED;
            tell(home, fd, EventRecord { event_type, index, generation });
        }
        flush(&self.completer());
    }
}

/// The event that tells a responder's program of a NAK.
fn event_of(nak: NakCode) -> u32 {
    match nak {
        NakCode::RemoteAccess => EVENT_QP_ACCESS_ERR,
        NakCode::RemoteOperation => EVENT_QP_FATAL,
        NakCode::InvalidRequest | NakCode::PsnSequence => EVENT_QP_REQ_ERR,
    }
}

/// Whether a QP in this state takes messages.
pub(super) fn receives(state: u32) -> bool {
    QpState::from_c(state).is_some_and(takes_requests)
}

/// Gathers a WRITE or READ of memory that only the other process has.
fn gather(batch: &mut Batch, request: &Request<'_>, pieces: &[Piece], pid: u32, addr: u64) -> Attempt {
    if batch.add(request, pieces, pid, addr) { Attempt::Gathered } else { Attempt::AfterGathered }
}

/// Fills a buffer with `len` bytes of header and pieces, from byte `from` of both on.
fn fill_buffer(header: &[u8], pieces: &[Piece], from: usize, len: usize, far: Far) -> Result<(), Refusal> {
    let mut parts = Vec::with_capacity(pieces.len() + 1);
    let (mut skip, mut left) = (from, len);
    let header = Piece { addr: header.as_ptr() as u64, len: header.len() };
    for piece in std::iter::once(&header).chain(pieces) {
        let skipped = skip.min(piece.len);
        skip -= skipped;
        let part = (piece.len - skipped).min(left);
        if part > 0 {
            parts.push(Piece { addr: piece.addr + skipped as u64, len: part });
            left -= part;
        }
    }
    transfer::write(&parts, far).map_err(|cause| match cause {
        Unreachable::Gone => Refusal::Silence,
        Unreachable::Memory => Fault::RecvProtection.into(),
    })
}
