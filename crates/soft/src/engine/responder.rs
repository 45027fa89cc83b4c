//! The responder's part of a work request. The requester's thread carries out this part, too.
//!
//! The responder's part uses the records in the segment of the responder's process. It trusts none of them,
//! because any process of the user may have written them.
//!
//! The checks come in the order of `doorbell_transport`'s responder (IB specification vol. 1, 9.7.5). The
//! crate `doorbell_transport` also decides the effects of each fault.

use super::attempt::{Attempt, Outcome};
use super::batch::Batch;
use super::carried::{CarriedPart, CarriedSends};
use super::completing::Completing;
use super::diagnosis::ResponderMemory;
use super::far_memory::FarMemory;
use super::refusal::Refusal;
use super::request::{ATOMIC_WRITE_BYTES, Request, RequestOp};
use super::verified::{MemoryUse, Verified, VerifiedRegion};
use crate::fabric::link::{Delivery, Link, SendOperand, ServedBytes, Ticket};
use crate::fabric::mapping::ViewCache;
use crate::fabric::peer::Owner;
use crate::fabric::pipe::tell;
use crate::fabric::process::{Process, say_unreachable};
use crate::fabric::words::Word;
use crate::memory::cause::{Blame, Cause, Check, Memory};
use crate::memory::copy::Piece;
use crate::memory::maps::MapsOf;
use crate::memory::records::*;
use crate::memory::regions::{Place, RegionCache, RemoteCache, Unsettled};
use crate::memory::segment::{Segment, Unmapped};
use crate::memory::transfer::{self, Direction, Far, Unreachable};
use crate::path::Header;
use crate::point::{Point, reach};
use crate::rings::completions::overrun;
use crate::rings::recvs::{
    CARRIED_BYTES, Carried, Completer, Front, NoRecv, RecvDone, SOLICITED, Slots, check_limit, flush,
};
use doorbell_abi::{CEnum, IBV_QPT_XRC_RECV, IBV_WC_GRH};
use doorbell_transport::{AtomicOp, Fault, NakCode, takes_requests};
use doorbell_verbs::{
    AccessFlags, GRH_BYTES, QpState, QpType, RemoteAddr, SendFlags, SendOp, WcOpcode, WcStatus,
};
use std::sync::atomic::Ordering::*;

/// `IBV_EVENT_QP_REQ_ERR`, `_QP_ACCESS_ERR`, `_COMM_EST`.
const EVENT_QP_REQ_ERR: u32 = 2;
const EVENT_QP_ACCESS_ERR: u32 = 3;
const EVENT_COMM_EST: u32 = 4;

/// Maximum number of times that a READ is carried out. A READ is repeated if messages have arrived during it.
const READS: u32 = 8;

/// A requester's caches.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    /// The regions of this process that were found last.
    pub(super) regions: RegionCache,
    /// The regions of peers that were found last.
    pub(super) remote: RemoteCache,
    /// Mappings of peers' memory.
    pub(super) views: ViewCache,
    /// The sent messages whose payload may still wait in the receive queue.
    pub(super) carried: CarriedSends,
}

/// A message from requester to responder.
#[derive(Clone, Copy)]
pub(super) struct Message<'a> {
    /// QP number of the requester.
    pub(super) from: u32,
    pub(super) qp_type: QpType,
    pub(super) request: &'a Request<'a>,
    /// The requester's memory.
    pub(super) pieces: &'a [Piece],
    /// Global route header (UD).
    pub(super) grh: Option<&'a Header>,
    /// Service level (UD).
    pub(super) sl: u8,
    pub(super) completing: &'a dyn Completing,
}

/// The responder of a message.
#[derive(Clone, Copy)]
pub(super) struct Responder<'a> {
    pub(super) process: &'static Process,
    /// The process with the memory and the RECVs: the QP's process, or with XRC the SRQ's process.
    pub(super) owner: Owner<'a>,
    pub(super) segment: &'a Segment,
    pub(super) qp: &'a QpRecord,
    pub(super) qpn: u32,
    /// Generation of the QP. It was read before the QP was found to take the message.
    pub(super) generation: u32,
    /// Generation of the QP's receive queue, read at that time, too; 0 if the message takes no RECV.
    pub(super) rq_generation: u32,
    /// The SRQ that the message names (XRC). The SRQ may belong to another process than the QP.
    pub(super) srq: Option<&'a XrcSrq<'a>>,
}

/// The SRQ that an XRC request names, and the location of the QP to which the request goes.
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

/// The destination of a SEND's header and payload.
enum RecvBuffers<'a> {
    /// The RECV's slot carries this many bytes. The process that takes the completion copies them to the
    /// buffers.
    Carried(u32),
    /// This many bytes go to buffers that this process can access. Each buffer has an address and a number of
    /// bytes.
    Reached(u32, Vec<(Far, usize)>),
    /// The service thread of the owner must fill the buffers, because this process cannot access all of them.
    Served(&'a Link),
}

/// The result of taking a RECV for a message.
enum RecvTaken {
    /// The RECV is complete.
    Completed,
    /// The RECV is used up, and the message is refused.
    Refused(Refusal),
    /// Another message has taken the RECV first, or the RECV's owner has withdrawn it.
    Missed,
}

impl Message<'_> {
    /// The bytes before the payload of a datagram, and whether they are a global route header. Empty for RC
    /// and UC.
    fn header(&self) -> (&[u8], bool) {
        match self.grh {
            _ if self.qp_type != QpType::Ud => (&[], false),
            Some(grh) => (grh, true),
            None => (&[0; GRH_BYTES as usize], false),
        }
    }
}

impl<'a> Responder<'a> {
    /// The QP with this number in the owner's segment; `None` if the segment has no such QP. `takes_recv`
    /// tells whether the message takes a RECV.
    #[inline(always)]
    pub(super) fn of(
        process: &'static Process,
        (owner, segment): (Owner<'a>, &'a Segment),
        qpn: u32,
        takes_recv: bool,
    ) -> Option<Responder<'a>> {
        let qp = segment.qp(segment.index_of(qpn))?;
        // Acquire: both generations are read before anything else of the QP. If the QP is reset later, the
        // generations change. So a later comparison detects the reset.
        let rq_generation = match takes_recv {
            true => segment.rq(qp.rq.load(Acquire) as usize)?.generation.load(Acquire),
            false => 0,
        };
        let generation = qp.generation.load(Acquire);
        Some(Responder { process, owner, segment, qp, qpn, generation, rq_generation, srq: None })
    }

    /// Carries out a message, or gathers it.
    pub(super) fn respond(
        &self,
        (caches, batch): (&mut Caches, &mut Batch),
        verified: &Verified,
        message: &Message<'_>,
    ) -> Result<Attempt, Refusal> {
        // An RC request waits until the link has answered the outstanding requests of the QP. On UC, a
        // message that would have to wait is lost.
        if message.qp_type == QpType::Uc
            && self.link().is_some_and(|link| link.is_behind(self.ticket(message)))
        {
            return Err(Refusal::Silence);
        }
        let op = match message.request.op {
            RequestOp::Verb(op) => op,
            RequestOp::SendWithInvalidate(rkey) => {
                self.receive_invalidating(caches, message, rkey)?;
                return Ok(Attempt::Over(Outcome::Done(WcStatus::Success)));
            }
            RequestOp::AtomicWrite(remote) if remote.addr.is_multiple_of(ATOMIC_WRITE_BYTES.into()) => {
                SendOp::Write(remote)
            }
            RequestOp::AtomicWrite(_) => return Err(Fault::Invalid.into()),
        };
        match op {
            SendOp::Send | SendOp::SendWithImm(_) => self.receive(caches, message)?,
            SendOp::Write(remote) => {
                return self.one_sided((caches, batch), verified, message, (Direction::Write, remote));
            }
            SendOp::WriteWithImm(remote, _) => self
                .remote(caches, verified, (remote, message.request.len), AccessFlags::REMOTE_WRITE)
                .and_then(|target| self.write_with_imm(message, target))
                .map_err(Refusal::with_imm)?,
            SendOp::Read(remote) => {
                return self.one_sided((caches, batch), verified, message, (Direction::Read, remote));
            }
            SendOp::CompareSwap { remote, compare, swap } => {
                self.atomic(caches, verified, remote, AtomicOp::CompareSwap { compare, swap }, message)?;
            }
            SendOp::FetchAdd { remote, add } => {
                self.atomic(caches, verified, remote, AtomicOp::FetchAdd { add }, message)?;
            }
        }
        Ok(Attempt::Over(Outcome::Done(WcStatus::Success)))
    }

    /// Carries out a WRITE or READ, or gathers it if the memory is mapped only in the other process.
    #[inline(always)]
    fn one_sided(
        &self,
        (caches, batch): (&mut Caches, &mut Batch),
        verified: &Verified,
        message: &Message<'_>,
        (direction, remote): (Direction, RemoteAddr),
    ) -> Result<Attempt, Refusal> {
        let Message { request, pieces, .. } = *message;
        let need = match direction {
            Direction::Write => AccessFlags::REMOTE_WRITE,
            Direction::Read => AccessFlags::REMOTE_READ,
        };
        match (self.remote(caches, verified, (remote, request.len), need)?, direction) {
            (FarMemory::Reached(Far::Foreign { pid, addr }), _) => {
                return Ok(match batch.add(request, pieces, pid, addr) {
                    true => Attempt::Gathered,
                    false => Attempt::AfterGathered,
                });
            }
            _ if !batch.is_empty() => return Ok(Attempt::AfterGathered),
            (memory, Direction::Write) => {
                message.completing.enter(None);
                memory.write(pieces, || self.ticket(message))?;
            }
            (memory, Direction::Read) => self.read(memory, message)?,
        }
        Ok(Attempt::Over(Outcome::Done(WcStatus::Success)))
    }

    /// Carries out a READ. In the CQ, the READ's completion must follow messages that the peer sent before
    /// the READ took effect. It must precede messages that the peer sent afterwards. A message that arrives
    /// during the READ may be of either kind. So the READ is repeated after such a message, up to [`READS`]
    /// times in all.
    fn read(&self, memory: FarMemory<'_>, message: &Message<'_>) -> Result<(), Refusal> {
        message.completing.enter(None);
        for _ in 0..READS {
            memory.read(message.pieces, || self.ticket(message))?;
            if !message.completing.move_back() {
                break;
            }
        }
        Ok(())
    }

    /// The link to the service thread of the owner. `None` if this process can access all memory of the
    /// owner.
    #[inline(always)]
    fn link(&self) -> Option<&'a Link> {
        match self.owner {
            Owner::Peer(peer) => peer.link.as_ref(),
            Owner::This => None,
        }
    }

    /// The ticket for a work request of a QP of this process.
    #[cold]
    fn ticket(&self, message: &Message<'_>) -> Ticket {
        let own = self.process.segment.qp(self.process.segment.index_of(message.from));
        let generation = own.map_or(0, |qp| qp.generation.load(Relaxed));
        Ticket { qpn: message.from, generation, number: message.request.number }
    }

    /// The memory that an rkey names, if the access is allowed. The rkey is ignored if no byte is accessed
    /// (IB specification vol. 1, 9.7.5.2.4).
    #[inline(always)]
    fn remote(
        &self,
        caches: &mut Caches,
        verified: &Verified,
        (remote, len): (RemoteAddr, u32),
        need: AccessFlags,
    ) -> Result<FarMemory<'a>, Refusal> {
        verified.check_enabled(need, remote.addr)?;
        if len == 0 {
            return Ok(FarMemory::Reached(Far::Mapped(std::ptr::NonNull::dangling().as_ptr())));
        }
        let (used, len) = (verified.remote(need), u64::from(len));
        let place = *self.find(caches, used, remote.rkey)?.0;
        let offset = used.check(&place, remote.addr, len)?;
        reach(Point::RegionChecked);
        self.place_carried(caches, (place.host.wrapping_add(offset), len))?;
        self.far(&mut caches.views, &place, used, (offset, len))
    }

    /// Finds a region that may be used as a whole in this way, and the region's location. The direct path
    /// keeps both.
    pub(super) fn region(
        &self,
        caches: &mut Caches,
        used: MemoryUse,
        key: u32,
    ) -> Result<(VerifiedRegion, Place, FarMemory<'a>), Refusal> {
        let (place, views) = self.find(caches, used, key)?;
        let region = VerifiedRegion::of(place, used)?;
        Ok((region, *place, self.far(views, place, used, (0, place.region.len))?))
    }

    /// Finds a region that may be used as a whole in this way, and the region's address in its own process.
    /// The direct path keeps both, for RECVs.
    pub(super) fn buffer(
        &self,
        caches: &mut Caches,
        used: MemoryUse,
        key: u32,
    ) -> Result<(VerifiedRegion, u64), Refusal> {
        let (place, _) = self.find(caches, used, key)?;
        Ok((VerifiedRegion::of(place, used)?, place.host))
    }

    /// This process's number for the owner; `u64::MAX` stands for this process itself.
    #[inline(always)]
    pub(super) fn process_number(&self) -> u64 {
        match self.owner {
            Owner::This => u64::MAX,
            Owner::Peer(peer) => peer.views.number(),
        }
    }

    /// The protection domain of the memory that messages access.
    #[inline(always)]
    pub(super) fn pd(&self) -> u32 {
        self.srq.map_or(&self.qp.pd, |srq| &srq.record.pd).load(Relaxed)
    }

    /// Index of the CQ of the responder's RECVs.
    fn cq(&self) -> u32 {
        self.srq.map_or(&self.qp.cq, |srq| &srq.record.cq).load(Relaxed)
    }

    /// Whether the QP is an XRC target, but the SRQ that the message names was not found.
    fn is_without_srq(&self) -> bool {
        self.srq.is_none() && self.is_target()
    }

    /// Whether the QP is an XRC target. An XRC target has no SRQ of its own: each request names an SRQ.
    fn is_target(&self) -> bool {
        self.qp.qp_type.load(Relaxed) == IBV_QPT_XRC_RECV
    }

    /// Sends `IBV_EVENT_COMM_EST`, once for each generation of the QP. Called when a message arrives at a
    /// connected QP that its program has not moved to Rts.
    #[cold]
    pub(super) fn establish(&self) {
        let (index, generation) = (self.segment.slots.index_of(self.qpn), self.generation);
        let told = self.segment.established(index as usize);
        // Relaxed: only one sender swaps the generation in, and the generation publishes no other data.
        if told.is_some_and(|told| told.swap(generation, Relaxed) != generation) {
            let event = EventRecord { event_type: EVENT_COMM_EST, index, generation };
            tell(self.owner, self.qp.async_fd.load(Relaxed), event);
        }
    }

    /// The QP's own process.
    fn home(&self) -> (Owner<'a>, &'a Segment) {
        self.srq.map_or((self.owner, self.segment), |srq| srq.home)
    }

    /// The region with this key, and the cache that [`Self::far`] needs to locate it.
    #[inline(always)]
    pub(super) fn find<'c>(
        &self,
        caches: &'c mut Caches,
        used: MemoryUse,
        key: u32,
    ) -> Result<(&'c Place, &'c mut ViewCache), Refusal> {
        let Caches { regions, remote, views, .. } = caches;
        let found = match self.owner {
            Owner::This => regions.find(&self.process.regions, key),
            // While a region is being changed, its existence is unknown. The request is then retried.
            Owner::Peer(peer) => {
                let found = remote.find(peer.views.number(), self.segment, key);
                found.map_err(|Unsettled| Refusal::Silence)?
            }
        };
        Ok((found.ok_or_else(|| used.fault())?, views))
    }

    /// The location of `len` bytes of a region from `offset` on, as this process reaches them.
    #[inline(always)]
    pub(super) fn far(
        &self,
        views: &mut ViewCache,
        place: &Place,
        used: MemoryUse,
        (offset, len): (u64, u64),
    ) -> Result<FarMemory<'a>, Refusal> {
        match (self.owner, place.shared) {
            (Owner::This, _) => Ok(FarMemory::Reached(Far::Mapped((place.host + offset) as *mut u8))),
            (Owner::Peer(_), Some(at)) => match self.segment.in_arena(at.saturating_add(offset), len) {
                Ok(address) => Ok(FarMemory::Reached(Far::Mapped(address))),
                Err(Unmapped::Outside) => Err(used.fault().into()),
                Err(Unmapped::Refused(error)) => {
                    say_unreachable(self.qpn, &error);
                    Err(Refusal::Silence)
                }
            },
            (Owner::Peer(peer), None) => {
                if let Some(link) = &peer.link {
                    let to = (self.qpn, self.generation);
                    return Ok(FarMemory::Served(link, ServedBytes { key: place.key, offset, to }));
                }
                Ok(FarMemory::Reached(match views.address(&peer.views, &peer.segment, place, offset) {
                    Some(address) => Far::Mapped(address),
                    None => Far::Foreign { pid: peer.member.pid, addr: place.host.wrapping_add(offset) },
                }))
            }
        }
    }

    fn atomic(
        &self,
        caches: &mut Caches,
        verified: &Verified,
        remote: RemoteAddr,
        op: AtomicOp,
        message: &Message<'_>,
    ) -> Result<(), Refusal> {
        let (need, used) = (AccessFlags::REMOTE_ATOMIC, verified.remote(AccessFlags::REMOTE_ATOMIC));
        verified.check_enabled(need, remote.addr)?;
        let place = *self.find(caches, used, remote.rkey)?.0;
        let offset = used.check(&place, remote.addr, 8)?;
        let host = place.host.wrapping_add(offset);
        if !host.is_multiple_of(8) {
            return Err(Fault::Invalid.into());
        }
        self.place_carried(caches, (host, 8))?;
        let target = self.far(&mut caches.views, &place, used, (offset, 8))?;
        // The region's offset in the segment comes from the owner, and may be wrong.
        if matches!(target, FarMemory::Reached(Far::Mapped(word)) if !word.addr().is_multiple_of(8)) {
            return Err(Fault::Access.into());
        }
        let (is_in_arena, object) = (place.shared.is_some(), place.object);
        let owner = match self.owner {
            Owner::This => MapsOf::ThisProcess,
            Owner::Peer(peer) => MapsOf::Process(peer.member.pid),
        };
        let lock = |is_mapped: bool| {
            let word = Word { segment: self.segment, addr: host, object: object.at(offset), is_mapped };
            self.process.word_locks().lock_word(word, owner).ok_or(Refusal::Silence)
        };
        // As for a READ, the completion must follow messages that the peer sent before the atomic took
        // effect. The peer may react to the change of the word at once. So the completion is entered before
        // the change.
        message.completing.enter(None);
        let has_late = || message.completing.move_back();
        let original = match target {
            FarMemory::Reached(Far::Mapped(word)) => {
                // In the arena, all peers use the processor's atomic instructions, so no lock is needed
                // there.
                let _others = if is_in_arena { None } else { Some(lock(true)?) };
                // SAFETY: the word is aligned, and lies within a mapped region or segment.
                unsafe { transfer::atomic_mapped(word, op, has_late) }
            }
            FarMemory::Reached(Far::Foreign { pid, addr }) => {
                let _others = lock(false)?;
                transfer::atomic_foreign(pid, addr, op, has_late)?
            }
            FarMemory::Served(link, bytes) => link.atomic(self.ticket(message), op, bytes)?,
        };
        transfer::read(message.pieces, Far::Mapped((&raw const original).cast_mut().cast()))?;
        Ok(())
    }

    /// Carries out a WRITE with immediate. The message takes a RECV and does not change the RECV's buffers.
    fn write_with_imm(&self, message: &Message<'_>, target: FarMemory<'_>) -> Result<(), Refusal> {
        let slots = self.slots()?;
        let len = message.request.len;
        // The bytes are written only if a RECV is posted. On RC and UC, a queue that is no SRQ has one
        // sender, so the RECV is still there after the WRITE. In an SRQ, another sender may take the last
        // RECV during the WRITE. The WRITE is then repeated.
        self.front(&slots)?;
        if len > 0 {
            message.completing.enter(None);
            target.write(message.pieces, || self.ticket(message))?;
        }
        let opcode = WcOpcode::RecvWriteWithImm.to_c() as u8;
        let done = RecvDone { opcode, byte_len: len, ..self.completion(message) };
        loop {
            match self.take(self.front(&slots)?, (done, &Carried::none()), Some(message)) {
                RecvTaken::Completed => return Ok(()),
                RecvTaken::Refused(refusal) => return Err(refusal),
                RecvTaken::Missed => {}
            }
        }
    }

    /// Receives a SEND, with or without invalidate.
    #[inline]
    pub(super) fn receive(&self, caches: &mut Caches, message: &Message<'_>) -> Result<(), Refusal> {
        if let Some(link) = self.has_asked(message) {
            return self.have_delivered(link, message);
        }
        let slots = self.slots()?;
        loop {
            let front = self.front(&slots)?;
            let taken = match self.find_buffers(caches, &slots, &front, message) {
                Ok(RecvBuffers::Served(link)) => {
                    // Only the service thread knows which RECV of an SRQ it takes, so this process has no
                    // receipt for an SRQ.
                    let receipt = front.receipt(self.completer().rq());
                    message.completing.enter(receipt.is_in_turn().then_some((self.owner, receipt)));
                    return self.have_delivered(link, message);
                }
                Ok(RecvBuffers::Carried(total)) => self.take_and_carry(caches, front, message, total),
                Ok(RecvBuffers::Reached(total, places)) => self.take_and_fill(front, message, total, &places),
                Err(refusal) => match self.recv_refuses(refusal, &slots, &front, message) {
                    // The fault belongs to this RECV, unless another sender has taken the RECV since the
                    // check.
                    Some(status) => match self.take(front, (self.failed(status), &Carried::none()), None) {
                        RecvTaken::Completed => RecvTaken::Refused(refusal),
                        taken => taken,
                    },
                    // The refusal counts only if the RECV is still posted. Otherwise the values that were
                    // read may belong to another sender's message.
                    None if front.is_posted() => return Err(refusal),
                    None => RecvTaken::Missed,
                },
            };
            match taken {
                RecvTaken::Completed => return Ok(()),
                RecvTaken::Refused(refusal) => return Err(refusal),
                RecvTaken::Missed => {}
            }
        }
    }

    /// The link through which the message was sent before; `None` if it was not. The answer to the earlier
    /// attempt did not come in time, but the message may already have taken a RECV.
    #[inline(always)]
    pub(super) fn has_asked(&self, message: &Message<'_>) -> Option<&'a Link> {
        self.link().filter(|link| link.has_asked(self.ticket(message)))
    }

    /// Sends a message to the service thread of the responder's process, which receives the message. The
    /// caller has checked the RECV, unless the message was sent before.
    #[cold]
    fn have_delivered(&self, link: &Link, message: &Message<'_>) -> Result<(), Refusal> {
        let (header, has_grh) = message.header();
        let request = message.request;
        let delivery = Delivery {
            to: self.qpn,
            generation: self.generation,
            from: message.from,
            operand: match request.op {
                RequestOp::Verb(SendOp::Send) => SendOperand::None,
                RequestOp::Verb(SendOp::SendWithImm(imm)) => SendOperand::Imm(imm),
                RequestOp::SendWithInvalidate(rkey) => SendOperand::InvalidatedKey(rkey),
                other => unreachable!("{other:?} is no SEND"),
            },
            solicited: request.flags.contains(SendFlags::SOLICITED),
            has_grh,
            sl: message.sl,
            header: header.len() as u32,
            len: request.len,
            number: request.number,
            srqn: self.srq.map(|srq| srq.num),
        };
        let first = Piece { addr: header.as_ptr() as u64, len: header.len() };
        let pieces: Vec<Piece> = std::iter::once(first).chain(message.pieces.iter().copied()).collect();
        match link.deliver(self.ticket(message), &pieces, delivery)? {
            None => Ok(()),
            Some(why) => Err(Refusal::from_word(why)),
        }
    }

    /// The slots of the receive queue that the message uses.
    #[inline(always)]
    fn slots(&self) -> Result<Slots<'_>, Refusal> {
        let rq = match self.srq {
            None => self.segment.rq(self.qp.rq.load(Relaxed) as usize),
            Some(srq) => Some(srq.record),
        };
        rq.and_then(|rq| Slots::of(self.segment, rq)).ok_or(Refusal::Silence)
    }

    /// The oldest RECV of the queue that no message has taken. Refuses with `CqFull` if the queue is a lane
    /// and the lane's CQ is full.
    #[inline(always)]
    fn front<'s>(&self, slots: &'s Slots<'s>) -> Result<Front<'s>, Refusal> {
        let front = slots.front(self.rq_generation).map_err(|none| match none {
            NoRecv::Empty => Fault::NoRecv.into(),
            NoRecv::Nonsense => Refusal::Silence,
        })?;
        // A lane's CQ is full if it has no room for the completions in the slots.
        if front.is_beyond_lane(self.qp, self.segment) {
            let cq = self.qp.cq.load(Relaxed);
            overrun(self.owner, self.segment.cq(cq as usize).ok_or(Refusal::Silence)?, cq);
            return Err(Refusal::CqFull);
        }
        Ok(front)
    }

    /// Finds the buffers of a RECV and checks them for a SEND. Does not change the RECV.
    #[inline(always)]
    fn find_buffers(
        &self,
        caches: &mut Caches,
        slots: &Slots<'_>,
        front: &Front<'_>,
        message: &Message<'_>,
    ) -> Result<RecvBuffers<'a>, Refusal> {
        let total = message.header().0.len() as u64 + u64::from(message.request.len);
        let (sges, capacity) = front.room();
        if total > u64::from(capacity) {
            return Err(Fault::RecvTooSmall.into());
        }
        let carried = total <= CARRIED_BYTES as u64;
        let used = MemoryUse::Recv { pd: slots.record.pd.load(Relaxed) };
        let (mut at, mut places) = (0, Vec::new());
        let mut served = None;
        caches.carried.begin();
        for n in 0..sges {
            if at == total {
                break;
            }
            let sge = front.sge(n).ok_or(Refusal::Silence)?;
            let len = u64::from(sge.length).min(total - at);
            if len == 0 {
                continue;
            }
            let place = *self.find(caches, used, sge.lkey)?.0;
            let offset = used.check(&place, sge.addr, len)?;
            let host = place.host.wrapping_add(offset);
            if carried {
                let (len, key) = (len as u32, sge.lkey);
                caches.carried.add(CarriedPart { host, len, key, from: at as u32 });
            } else {
                self.place_carried(caches, (host, len))?;
                match self.far(&mut caches.views, &place, used, (offset, len))? {
                    FarMemory::Reached(far) => places.push((far, len as usize)),
                    FarMemory::Served(link, _) => served = Some(link),
                }
            }
            at += len;
        }
        if at < total {
            return Err(Fault::RecvTooSmall.into());
        }
        Ok(match served {
            Some(link) => RecvBuffers::Served(link),
            None if carried => RecvBuffers::Carried(total as u32),
            None => RecvBuffers::Reached(total as u32, places),
        })
    }

    /// Takes a RECV and completes it. The RECV's slot carries the payload.
    #[inline(always)]
    fn take_and_carry(
        &self,
        caches: &mut Caches,
        front: Front<'_>,
        message: &Message<'_>,
        total: u32,
    ) -> RecvTaken {
        let mut carried = Carried::none();
        carried.gather(message.header().0, message.pieces);
        let receipt = front.receipt(self.completer().rq());
        let taken = self.take(front, (self.received(message, total), &carried), Some(message));
        if matches!(taken, RecvTaken::Completed) && message.qp_type != QpType::Ud {
            caches.carried.commit((self.process_number(), self.segment), receipt);
        }
        taken
    }

    /// Takes a RECV, fills its buffers and completes it.
    #[inline(always)]
    fn take_and_fill(
        &self,
        front: Front<'_>,
        message: &Message<'_>,
        total: u32,
        places: &[(Far, usize)],
    ) -> RecvTaken {
        let (header, _) = message.header();
        let completer = self.completer();
        let Some(claim) = front.claim(&completer) else { return RecvTaken::Missed };
        let mut filled = Ok(());
        let mut at = 0;
        for (far, len) in places {
            filled = filled.and_then(|()| fill_buffer(header, message.pieces, at, *len, *far));
            at += len;
        }
        let done = match filled {
            Err(Refusal::Local) => {
                completer.give_back(claim);
                return RecvTaken::Refused(Refusal::Local);
            }
            Ok(()) => {
                if let Some(rkey) = message.request.op.invalidated_key() {
                    self.invalidate(rkey);
                }
                message.completing.enter(Some((self.owner, completer.receipt(&claim))));
                self.received(message, total)
            }
            Err(refusal) => {
                let status = self.recv_status(refusal, message.qp_type).unwrap_or(WcStatus::LocProtErr);
                let not_there = Cause::of(Check::NotThere(Memory::Recv), 0);
                self.blame(message.from, message.request, Cause { len: total.into(), ..not_there });
                self.failed(status)
            }
        };
        let complete = completer.complete(&claim, done, &Carried::none());
        self.after_take(claim.record);
        match filled {
            Err(refusal) => RecvTaken::Refused(refusal),
            Ok(()) if complete => RecvTaken::Completed,
            Ok(()) => RecvTaken::Refused(Refusal::CqFull),
        }
    }

    /// The completion of a SEND with `total` bytes of header and payload.
    #[inline(always)]
    fn received(&self, message: &Message<'_>, total: u32) -> RecvDone {
        let common = self.completion(message);
        let (_, has_grh) = message.header();
        let flags = common.flags | if has_grh { IBV_WC_GRH as u8 } else { 0 };
        RecvDone { byte_len: total, flags, ..common }
    }

    /// The fields that the completions of all messages share.
    #[inline]
    fn completion(&self, message: &Message<'_>) -> RecvDone {
        let request = message.request;
        let (imm, imm_flag) = request.op.imm_data().unwrap_or((0, 0));
        RecvDone {
            imm,
            flags: solicited(request.flags) | imm_flag,
            sl: message.sl,
            src_qp: if message.qp_type == QpType::Ud || self.srq.is_some() { message.from } else { 0 },
            ..RecvDone::of_send(self.qpn, self.generation)
        }
    }

    fn failed(&self, status: WcStatus) -> RecvDone {
        RecvDone::failed(self.qpn, self.generation, status)
    }

    #[inline]
    pub(super) fn completer(&self) -> Completer<'_> {
        let Responder { owner, segment, qp, qpn, .. } = *self;
        let srq = self.srq.map(|srq| srq.index);
        Completer { owner, segment, qp, qpn, srq, claimer: self.process.claimer }
    }

    /// Takes a RECV and completes it. `message` is the message that the RECV receives; `None` if the RECV
    /// fails. A message that invalidates a window does so before the completion.
    #[inline(always)]
    fn take(
        &self,
        front: Front<'_>,
        (done, carried): (RecvDone, &Carried),
        message: Option<&Message<'_>>,
    ) -> RecvTaken {
        let completer = self.completer();
        let Some(claim) = front.claim(&completer) else { return RecvTaken::Missed };
        if let Some(message) = message {
            if let Some(rkey) = message.request.op.invalidated_key() {
                self.invalidate(rkey);
            }
            message.completing.enter(Some((self.owner, completer.receipt(&claim))));
        }
        let complete = completer.complete(&claim, done, carried);
        self.after_take(claim.record);
        if complete { RecvTaken::Completed } else { RecvTaken::Refused(Refusal::CqFull) }
    }

    fn after_take(&self, rq: &RqRecord) {
        // Relaxed: the claim before this load is a compare-and-swap, which is a fence on x86; see
        // `RecvQueue::arm_limit`.
        if rq.limit.load(Relaxed) != 0 {
            check_limit(self.owner, rq);
        }
    }

    /// The status with which a refused message completes the oldest RECV; `None` if it does not complete the
    /// RECV. Records the cause while the RECV still exists.
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
            let cause = self.memory().recv(front, slots.record.pd.load(Relaxed), total);
            self.blame(message.from, message.request, cause);
        }
        Some(status)
    }

    fn memory(&self) -> ResponderMemory<'_> {
        ResponderMemory { process: self.process, owner: self.owner, segment: self.segment }
    }

    /// Records in the responder's segment why the responder refuses a work request of QP `from`.
    fn blame(&self, from: u32, request: &Request<'_>, cause: Cause) {
        let (_, home) = self.home();
        if let Some(record) = home.cause(home.index_of(self.qpn)) {
            let (opcode, number) = (request.op.wr_opcode(), request.number);
            let (pid, claimer) = self.process.known_as(from);
            record.write(&Blame { from, pid, claimer, opcode, number, cause });
        }
    }

    /// Records in the responder's segment why the responder refuses a work request and enters Err. Does
    /// nothing if the refusal is not fatal. Faults of a RECV were recorded before.
    #[cold]
    pub(super) fn blame_for(&self, refusal: Refusal, from: u32, request: &Request<'_>, qp_type: QpType) {
        let cause = match (refusal, request.op) {
            (Refusal::Fault(Fault::RecvTooSmall | Fault::RecvProtection), _) => return,
            (Refusal::Silence | Refusal::Taking | Refusal::Local, _) => return,
            (Refusal::Fault(fault), _) if !fault.is_fatal(qp_type) => return,
            (Refusal::Fault(_), _) if self.is_without_srq() => Cause::of(Check::NoSrq, request.srqn.into()),
            (Refusal::Fault(_), RequestOp::SendWithInvalidate(rkey)) => {
                Cause::of(Check::NotBound, rkey.into())
            }
            (Refusal::Fault(Fault::Invalid), RequestOp::AtomicWrite(RemoteAddr { addr, rkey })) => {
                Cause { addr, key: rkey, ..Cause::of(Check::Misaligned, 0) }
            }
            (Refusal::Fault(_), RequestOp::AtomicWrite(remote)) => {
                let op = SendOp::Write(remote);
                self.memory().remote((self.qp, self.pd(), self.qpn), &op, request.len)
            }
            (Refusal::Fault(_), RequestOp::Verb(op)) => {
                self.memory().remote((self.qp, self.pd(), self.qpn), &op, request.len)
            }
            (Refusal::CqFull, _) => {
                let cq = self.segment.cq(self.cq() as usize);
                Cause::of(Check::CqFull, cq.map_or(0, |cq| cq.cqe.load(Relaxed)).into())
            }
        };
        self.blame(from, request, cause);
    }

    /// The status with which a refused message completes its RECV; `None` if it does not complete the RECV.
    fn recv_status(&self, refusal: Refusal, qp_type: QpType) -> Option<WcStatus> {
        let Refusal::Fault(fault) = refusal else { return None };
        fault.recv_status(qp_type, self.qp.uses_srq.load(Relaxed) != 0)
    }

    /// Carries out the effects of a refusal at the responder. Returns the status for the requester.
    pub(super) fn refuse(&self, refusal: Refusal, qp_type: QpType) -> WcStatus {
        let rc = qp_type == QpType::Rc;
        let (nak, fatal) = match refusal {
            Refusal::Fault(fault) => (fault.nak(), fault.is_fatal(qp_type)),
            // The completion is lost on any transport, so the QP cannot report completions any more ("Local
            // Work Queue Catastrophic Error", IB specification vol. 1, 11.6.3.2).
            Refusal::CqFull => (Some(NakCode::RemoteOperation), true),
            Refusal::Silence | Refusal::Taking | Refusal::Local => (None, false),
        };
        // All other faults of a RECV were handled when the RECV was found.
        if let Refusal::Fault(Fault::AccessWithImm) = refusal
            && let Some(status) = self.recv_status(refusal, qp_type)
        {
            self.fail_recv(status);
        }
        if let Some(nak) = nak.filter(|_| fatal) {
            self.fail(event_of(nak));
        }
        // UC and UD do not report a refusal to the requester.
        nak.filter(|_| rc).map_or(WcStatus::Success, NakCode::status)
    }

    /// Completes the oldest RECV with an error.
    fn fail_recv(&self, status: WcStatus) {
        let Ok(slots) = self.slots() else { return };
        while let Ok(front) = self.front(&slots) {
            match self.take(front, (self.failed(status), &Carried::none()), None) {
                // If the CQ has no room for the completion, nothing more can be done.
                RecvTaken::Completed | RecvTaken::Refused(_) => return,
                RecvTaken::Missed => {}
            }
        }
    }

    /// Puts the responder into Err and flushes its RECVs. Does nothing if the QP takes no messages any more,
    /// for example after a reset.
    fn fail(&self, event_type: u32) {
        if !self.qp.enter_error(receives) {
            return;
        }
        reach(Point::Failed);
        let (home, segment) = self.home();
        let index = segment.slots.index_of(self.qpn);
        let generation = self.qp.generation.load(Relaxed);
        let fd = self.qp.async_fd.load(Relaxed);
        tell(home, fd, EventRecord { event_type, index, generation });
        if self.qp.uses_srq.load(Relaxed) != 0 && !self.is_target() {
            let event_type = EVENT_QP_LAST_WQE_REACHED;
            tell(home, fd, EventRecord { event_type, index, generation });
        }
        flush(&self.completer());
    }
}

/// The completion flag for a message with a solicited event.
#[inline(always)]
pub(super) fn solicited(flags: SendFlags) -> u8 {
    if flags.contains(SendFlags::SOLICITED) { SOLICITED } else { 0 }
}

/// The event that reports a NAK to the responder's program.
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

/// Fills a buffer with `len` bytes of a message, from its byte `from` on. The message consists of the header
/// and the pieces.
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
        Unreachable::Local => Refusal::Local,
    })
}
