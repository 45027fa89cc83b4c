//! Carrying out a work request: what a requester and a responder do together, done by the
//! requester.
//!
//! The order of checks and the outcome of each fault are those of `doorbell_transport`'s
//! responder (IB specification vol. 1, 9.7.5 and 9.9).

use super::batch::{Batch, Request};
use crate::fabric::mapping::ViewCache;
use crate::fabric::peer::{Owner, Peer};
use crate::fabric::pipe::tell;
use crate::fabric::process::Process;
use crate::memory::records::*;
use crate::memory::regions::{Place, RegionCache, find_in};
use crate::memory::segment::Segment;
use crate::memory::transfer::{self, AtomicWork, Far, Piece, Unreachable};
use crate::rings::completions::{Carried, RecvDone, SOLICITED, push_recv};
use crate::rings::recvs::{check_limit, flush, sge_record, slot};
use doorbell_abi::{CEnum, IBV_WC_GRH, IBV_WC_WITH_IMM};
use doorbell_verbs::{
    AccessFlags, GRH_BYTES, QpState, QpType, RemoteAddr, SendFlags, SendOp, SendWr, Sge, WcOpcode, WcStatus,
};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// `IBV_EVENT_QP_REQ_ERR`, `IBV_EVENT_QP_ACCESS_ERR`, `IBV_EVENT_QP_LAST_WQE_REACHED`.
const EVENT_QP_REQ_ERR: u32 = 2;
const EVENT_QP_ACCESS_ERR: u32 = 3;
const EVENT_QP_LAST_WQE_REACHED: u32 = 16;
/// `IBV_EVENT_QP_FATAL`.
const EVENT_QP_FATAL: u32 = 1;

/// What became of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is complete.
    Done(WcStatus),
    /// It is to be tried again.
    Wait(Obstacle),
}

/// What a try to carry a work request out came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It is over.
    Over(Outcome),
    /// It is gathered, with others of its list.
    Gathered,
    /// Nothing was done: what is gathered comes first.
    AfterGathered,
}

/// Why a work request could not be carried out yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The responder had no RECV; it asks to wait as long as its timer code says.
    NoRecv(u8),
    /// Nobody answers.
    Silence,
}

/// What a requester is.
#[derive(Debug)]
pub(crate) struct Requester {
    pub(crate) process: &'static Process,
    pub(crate) num: u32,
    pub(crate) qp_type: QpType,
    pub(crate) pd: u32,
}

/// What a requester keeps from one work request to the next.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) caches: Caches,
    pub(crate) pieces: Vec<Piece>,
    /// Work requests of the list being posted that are to be moved together.
    pub(crate) batch: Batch,
    /// The process that the connected peer, or the last datagram's destination, is of.
    pub(crate) peer: Option<Arc<Peer>>,
}

/// What a requester has found last: regions of this process, and those of peers that are mapped
/// here.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    regions: RegionCache,
    views: ViewCache,
}

impl Scratch {
    /// A work request is over without having done anything, when those before it are.
    fn in_turn(&self, outcome: Outcome) -> Attempt {
        if self.batch.is_empty() { Attempt::Over(outcome) } else { Attempt::AfterGathered }
    }
}

/// Where a work request goes, and with what rights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// QP number of the responder.
    pub(crate) dest_qpn: u32,
    /// First PSN sent; RC.
    pub(crate) sq_psn: u32,
    /// Q_Key; UD.
    pub(crate) qkey: u32,
    /// `max_rd_atomic`; RC.
    pub(crate) max_rd_atomic: u8,
    /// Global route header; UD.
    pub(crate) grh: Option<[u8; GRH_BYTES as usize]>,
}

/// Why the responder does not carry a request out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    NoRecv,
    RecvTooSmall,
    RecvProtection,
    Access,
    Invalid,
    /// The process is gone, or its records make no sense.
    Silence,
    /// The responder's CQ took no more.
    CqFull,
}

impl From<Unreachable> for Fault {
    fn from(cause: Unreachable) -> Fault {
        match cause {
            Unreachable::Gone => Fault::Silence,
            Unreachable::Memory => Fault::Access,
        }
    }
}

/// The responder.
struct Target<'a> {
    process: &'static Process,
    owner: Owner<'a>,
    segment: &'a Segment,
    qp: &'a QpRecord,
    qpn: u32,
}

impl Requester {
    /// Tries to carry out a work request, or gathers it.
    pub(crate) fn execute(&self, scratch: &mut Scratch, route: &Route, request: &Request<'_>) -> Attempt {
        let op = &request.wr.op;
        if !scratch.batch.goes_with(op) {
            return Attempt::AfterGathered;
        }
        if op.opcode().returns_data() && route.max_rd_atomic == 0 {
            return scratch.in_turn(Outcome::Done(WcStatus::LocQpOpErr));
        }
        let mut pieces = std::mem::take(&mut scratch.pieces);
        pieces.clear();
        let attempt = if self.find_pieces(&mut scratch.caches.regions, &mut pieces, request) {
            self.deliver(scratch, route, request, &pieces)
        } else {
            scratch.in_turn(Outcome::Done(WcStatus::LocProtErr))
        };
        scratch.pieces = pieces;
        attempt
    }

    /// What becomes of a gathered work request whose bytes could not be moved.
    pub(crate) fn not_moved(&self, scratch: &Scratch, dest_qpn: u32, cause: Unreachable) -> Outcome {
        // The process may have ended meanwhile, and another have taken its place.
        let peer = scratch.peer.as_deref().filter(|peer| peer.slot == slot_of(dest_qpn));
        match peer.and_then(|peer| self.target(Some(peer), dest_qpn)) {
            Some(target) => self.conclude(&target, cause.into()),
            None => self.silence(),
        }
    }

    /// The local memory of a work request, where its lkeys hold.
    fn find_pieces(&self, cache: &mut RegionCache, pieces: &mut Vec<Piece>, request: &Request<'_>) -> bool {
        if let Some(bytes) = request.inline {
            pieces.push(Piece { addr: bytes.as_ptr() as u64, len: bytes.len() });
            return true;
        }
        let wr = &request.wr;
        let inline = wr.flags.contains(SendFlags::INLINE);
        let writes = wr.op.opcode().returns_data();
        let need = if writes { AccessFlags::LOCAL_WRITE } else { AccessFlags::empty() };
        for sge in wr.sg_list.iter().filter(|sge| sge.length > 0) {
            let addr = if inline {
                sge.addr
            } else {
                let Some(place) = cache.find(&self.process.regions, sge.lkey) else { return false };
                let Ok(offset) = place.check(self.pd, sge.addr, u64::from(sge.length), need) else {
                    return false;
                };
                place.host + offset
            };
            pieces.push(Piece { addr, len: sge.length as usize });
        }
        true
    }

    fn deliver(
        &self,
        scratch: &mut Scratch,
        route: &Route,
        request: &Request<'_>,
        pieces: &[Piece],
    ) -> Attempt {
        if !self.find_peer(scratch, route.dest_qpn) {
            return scratch.in_turn(self.silence());
        }
        let Scratch { caches, batch, peer, .. } = scratch;
        let reached =
            self.target(peer.as_deref(), route.dest_qpn).filter(|target| self.reaches(target, route));
        let Some(target) = reached else { return scratch.in_turn(self.silence()) };
        match target.carry_out(self, caches, batch, route, request, pieces) {
            Ok(attempt) => attempt,
            Err(_) if !batch.is_empty() => Attempt::AfterGathered,
            Err(fault) => Attempt::Over(self.conclude(&target, fault)),
        }
    }

    /// What becomes of a work request that the responder did not carry out.
    fn conclude(&self, target: &Target<'_>, fault: Fault) -> Outcome {
        match fault {
            Fault::NoRecv if self.qp_type == QpType::Rc => {
                Outcome::Wait(Obstacle::NoRecv(target.qp.min_rnr_timer.load(Relaxed) as u8 & 31))
            }
            Fault::Silence => self.silence(),
            fault if self.qp_type == QpType::Rc => Outcome::Done(target.refuse(fault)),
            fault => {
                target.drop_message(fault);
                Outcome::Done(WcStatus::Success)
            }
        }
    }

    /// What becomes of a work request that nobody answers.
    fn silence(&self) -> Outcome {
        match self.qp_type {
            QpType::Rc => Outcome::Wait(Obstacle::Silence),
            QpType::Uc | QpType::Ud => Outcome::Done(WcStatus::Success),
        }
    }

    /// The responder `qpn` in that process, or in this one.
    fn target<'a>(&self, peer: Option<&'a Peer>, qpn: u32) -> Option<Target<'a>> {
        let (owner, segment) = match peer {
            Some(peer) => (Owner::Peer(peer), &peer.segment),
            None => (Owner::This, self.process.segment),
        };
        let qp = segment.qp(index_of(qpn) as usize)?;
        Some(Target { process: self.process, owner, segment, qp, qpn })
    }

    /// Makes `scratch.peer` the process of `qpn`, `None` for this one; `false` where there is none.
    fn find_peer(&self, scratch: &mut Scratch, qpn: u32) -> bool {
        let slot = slot_of(qpn);
        if slot == self.process.slot {
            scratch.peer = None;
            return true;
        }
        let known = scratch.peer.as_ref().is_some_and(|peer| peer.slot == slot && !peer.is_dead());
        if !known {
            // A connection is to one process: another that comes to its place is not the peer,
            // which its own QP's attributes show.
            scratch.peer = self.process.peer(qpn);
        }
        scratch.peer.is_some()
    }

    /// Whether the responder takes what this requester sends at all.
    fn reaches(&self, target: &Target<'_>, route: &Route) -> bool {
        let qp = target.qp;
        if !receives(qp.state.load(Acquire)) || qp.qp_type.load(Relaxed) != self.qp_type.to_c() {
            return false;
        }
        match self.qp_type {
            QpType::Ud => qp.qkey.load(Relaxed) == route.qkey,
            QpType::Uc => qp.dest_qpn.load(Relaxed) == self.num,
            QpType::Rc => qp.dest_qpn.load(Relaxed) == self.num && qp.rq_psn.load(Relaxed) == route.sq_psn,
        }
    }
}

impl Target<'_> {
    fn carry_out(
        &self,
        from: &Requester,
        caches: &mut Caches,
        batch: &mut Batch,
        route: &Route,
        request: &Request<'_>,
        pieces: &[Piece],
    ) -> Result<Attempt, Fault> {
        let (wr, len) = (&request.wr, request.len);
        match wr.op {
            SendOp::Send | SendOp::SendWithImm(_) => self.receive(from, caches, route, wr, len, pieces)?,
            SendOp::Write(remote) => {
                let far = self.remote(caches, remote, len, AccessFlags::REMOTE_WRITE)?;
                match far {
                    Far::Foreign { pid, addr } => return Ok(gather(batch, request, pieces, pid, addr)),
                    Far::Mapped(_) if !batch.is_empty() => return Ok(Attempt::AfterGathered),
                    Far::Mapped(_) => transfer::write(pieces, far)?,
                }
            }
            SendOp::WriteWithImm(remote, _) => {
                let far = self.remote(caches, remote, len, AccessFlags::REMOTE_WRITE)?;
                self.write_with_imm(from, wr, len, pieces, far)?;
            }
            SendOp::Read(remote) => {
                if self.qp.max_dest_rd_atomic.load(Relaxed) == 0 {
                    return Err(Fault::Invalid);
                }
                let far = self.remote(caches, remote, len, AccessFlags::REMOTE_READ)?;
                match far {
                    Far::Foreign { pid, addr } => return Ok(gather(batch, request, pieces, pid, addr)),
                    Far::Mapped(_) if !batch.is_empty() => return Ok(Attempt::AfterGathered),
                    Far::Mapped(_) => transfer::read(pieces, far)?,
                }
            }
            SendOp::CompareSwap { remote, compare, swap } => {
                self.atomic(caches, remote, AtomicWork::CompareSwap { compare, swap }, pieces)?;
            }
            SendOp::FetchAdd { remote, add } => {
                self.atomic(caches, remote, AtomicWork::FetchAdd(add), pieces)?;
            }
        }
        Ok(Attempt::Over(Outcome::Done(WcStatus::Success)))
    }

    /// Memory that an rkey names, where the access is allowed. No rkey is looked at where no byte
    /// is accessed (IB specification vol. 1, 9.7.5.2.4).
    fn remote(
        &self,
        caches: &mut Caches,
        remote: RemoteAddr,
        len: u32,
        need: AccessFlags,
    ) -> Result<Far, Fault> {
        let enabled = AccessFlags::from_bits_truncate(self.qp.access.load(Relaxed));
        if !enabled.contains(need) {
            return Err(Fault::Invalid);
        }
        if len == 0 {
            return Ok(Far::Mapped(std::ptr::NonNull::dangling().as_ptr()));
        }
        let place = self.find(caches, remote.rkey).ok_or(Fault::Access)?;
        let pd = self.qp.pd.load(Relaxed);
        let offset = place.check(pd, remote.addr, u64::from(len), need).map_err(|_| Fault::Access)?;
        self.far(caches, &place, offset, u64::from(len)).ok_or(Fault::Access)
    }

    fn find(&self, caches: &mut Caches, key: u32) -> Option<Place> {
        match self.owner {
            Owner::This => caches.regions.find(&self.process.regions, key),
            Owner::Peer(_) => find_in(self.segment, key),
        }
    }

    /// Where `len` bytes of a region are for this process.
    fn far(&self, caches: &mut Caches, place: &Place, offset: u64, len: u64) -> Option<Far> {
        match (self.owner, place.shared) {
            (Owner::This, _) => Some(Far::Mapped((place.host + offset) as *mut u8)),
            (Owner::Peer(_), Some(at)) => {
                self.segment.in_arena(at.checked_add(offset)?, len).map(Far::Mapped)
            }
            (Owner::Peer(peer), None) => {
                Some(match caches.views.address(&peer.views, &peer.segment, place, offset) {
                    Some(address) => Far::Mapped(address),
                    None => Far::Foreign { pid: peer.member.pid, addr: place.host.wrapping_add(offset) },
                })
            }
        }
    }

    fn atomic(
        &self,
        caches: &mut Caches,
        remote: RemoteAddr,
        work: AtomicWork,
        pieces: &[Piece],
    ) -> Result<(), Fault> {
        let enabled = AccessFlags::from_bits_truncate(self.qp.access.load(Relaxed));
        if !enabled.contains(AccessFlags::REMOTE_ATOMIC)
            || !remote.addr.is_multiple_of(8)
            || self.qp.max_dest_rd_atomic.load(Relaxed) == 0
        {
            return Err(Fault::Invalid);
        }
        let place = self.find(caches, remote.rkey).ok_or(Fault::Access)?;
        let pd = self.qp.pd.load(Relaxed);
        let offset =
            place.check(pd, remote.addr, 8, AccessFlags::REMOTE_ATOMIC).map_err(|_| Fault::Access)?;
        let host = place.host.wrapping_add(offset);
        if !host.is_multiple_of(8) {
            return Err(Fault::Invalid);
        }
        let far = self.far(caches, &place, offset, 8).ok_or(Fault::Access)?;
        // Where in the segment the region lies is its owner's word, which need not be true.
        if matches!(far, Far::Mapped(word) if !word.addr().is_multiple_of(8)) {
            return Err(Fault::Access);
        }
        let original = match (far, place.shared) {
            // The processor's own atomics are enough where everybody can use them.
            (Far::Mapped(word), Some(_)) => {
                // SAFETY: within a region or segment that is mapped, and aligned.
                unsafe { transfer::atomic_mapped(word, work) }
            }
            (Far::Mapped(word), None) => {
                let _others = self.segment.atomic_lock(host).lock().ok_or(Fault::Silence)?;
                // SAFETY: as above.
                unsafe { transfer::atomic_mapped(word, work) }
            }
            (Far::Foreign { pid, addr }, _) => {
                let _others = self.segment.atomic_lock(host).lock().ok_or(Fault::Silence)?;
                transfer::atomic_foreign(pid, addr, work)?
            }
        };
        transfer::read(pieces, Far::Mapped((&raw const original).cast_mut().cast()))?;
        Ok(())
    }

    /// A WRITE with immediate: it takes a RECV, whose buffers stay as they are.
    fn write_with_imm(
        &self,
        from: &Requester,
        wr: &SendWr<'_>,
        len: u32,
        pieces: &[Piece],
        far: Far,
    ) -> Result<(), Fault> {
        let rq = self.rq()?;
        let _senders = rq.lock.lock().ok_or(Fault::Silence)?;
        let (head, _) = self.front(rq)?;
        if len > 0 {
            transfer::write(pieces, far)?;
        }
        let done = RecvDone {
            recv: head,
            opcode: WcOpcode::RecvWriteWithImm.to_c(),
            byte_len: len,
            ..self.completion(from, wr)
        };
        self.take(rq, head, &done)
    }

    /// A SEND.
    fn receive(
        &self,
        from: &Requester,
        caches: &mut Caches,
        route: &Route,
        wr: &SendWr<'_>,
        len: u32,
        pieces: &[Piece],
    ) -> Result<(), Fault> {
        let rq = self.rq()?;
        let _senders = rq.lock.lock().ok_or(Fault::Silence)?;
        let (head, slot) = self.front(rq)?;
        let ud = from.qp_type == QpType::Ud;
        let header: &[u8] = match &route.grh {
            Some(grh) if ud => grh,
            _ if ud => &[0; GRH_BYTES as usize],
            _ => &[],
        };
        let total = header.len() as u64 + u64::from(len);
        if total > u64::from(slot.capacity.load(Relaxed)) {
            return Err(Fault::RecvTooSmall);
        }
        let carried = if total <= CARRIED_BYTES as u64 {
            self.check_buffers(caches, rq, slot, total, None)?;
            Carried { header, pieces, len: total as usize }
        } else {
            self.check_buffers(caches, rq, slot, total, Some((header, pieces)))?;
            Carried::default()
        };
        let grh = if ud && route.grh.is_some() { IBV_WC_GRH } else { 0 };
        let common = self.completion(from, wr);
        let done = RecvDone {
            recv: head,
            opcode: WcOpcode::Recv.to_c(),
            byte_len: total as u32,
            flags: common.flags | grh,
            carried,
            ..common
        };
        self.take(rq, head, &done)
    }

    fn rq(&self) -> Result<&RqRecord, Fault> {
        self.segment.rq(self.qp.rq.load(Relaxed) as usize).ok_or(Fault::Silence)
    }

    /// The oldest RECV, and its position.
    fn front<'r>(&'r self, rq: &RqRecord) -> Result<(u64, &'r RqSlot), Fault> {
        let head = rq.head.load(Relaxed);
        let (capacity, max_sge) = (rq.capacity.load(Acquire), rq.max_sge.load(Relaxed));
        let slot =
            slot(self.segment, rq.slots.load(Relaxed), capacity, max_sge, head).ok_or(Fault::Silence)?;
        if slot.sequence.load(Acquire) != head.wrapping_add(1) {
            return Err(Fault::NoRecv);
        }
        Ok((head, slot))
    }

    /// Checks the buffers of a RECV for `total` bytes, and fills them where there is something to
    /// fill them with.
    fn check_buffers(
        &self,
        caches: &mut Caches,
        rq: &RqRecord,
        slot: &RqSlot,
        total: u64,
        fill: Option<(&[u8], &[Piece])>,
    ) -> Result<(), Fault> {
        let (pd, max_sge) = (rq.pd.load(Relaxed), rq.max_sge.load(Relaxed));
        let mut at = 0;
        for n in 0..slot.sges.load(Relaxed) {
            if at == total {
                break;
            }
            let record = sge_record(self.segment, slot, n, max_sge).ok_or(Fault::Silence)?;
            let sge = Sge {
                addr: record.addr.load(Relaxed),
                length: record.length.load(Relaxed),
                lkey: record.lkey.load(Relaxed),
            };
            let part = u64::from(sge.length).min(total - at);
            if part == 0 {
                continue;
            }
            let place = self.find(caches, sge.lkey).ok_or(Fault::RecvProtection)?;
            let offset = place
                .check(pd, sge.addr, part, AccessFlags::LOCAL_WRITE)
                .map_err(|_| Fault::RecvProtection)?;
            if let Some((header, pieces)) = fill {
                let far = self.far(caches, &place, offset, part).ok_or(Fault::RecvProtection)?;
                fill_buffer(header, pieces, at as usize, part as usize, far)?;
            }
            at += part;
        }
        if at < total { Err(Fault::RecvTooSmall) } else { Ok(()) }
    }

    /// What the completions of all messages have in common.
    fn completion(&self, from: &Requester, wr: &SendWr<'_>) -> RecvDone<'static> {
        let imm = wr.op.imm();
        let solicited = if wr.flags.contains(SendFlags::SOLICITED) { SOLICITED } else { 0 };
        RecvDone {
            qpn: self.qpn,
            generation: self.qp.generation.load(Relaxed),
            status: WcStatus::Success.to_c(),
            imm: imm.unwrap_or(0).to_be(),
            flags: solicited | if imm.is_some() { IBV_WC_WITH_IMM } else { 0 },
            src_qp: if from.qp_type == QpType::Ud { from.num } else { 0 },
            ..RecvDone::default()
        }
    }

    /// Takes the RECV at `head` and completes it.
    fn take(&self, rq: &RqRecord, head: u64, done: &RecvDone<'_>) -> Result<(), Fault> {
        let taken = push_recv(self.owner, self.segment, self.qp.cq.load(Relaxed), done);
        rq.head.store(head.wrapping_add(1), Relaxed);
        if rq.limit.load(Relaxed) != 0 {
            check_limit(self.owner, rq);
        }
        if taken { Ok(()) } else { Err(Fault::CqFull) }
    }

    /// A request of RC that cannot be carried out: what the requester hears. The responder is in
    /// Err from here on (IB specification vol. 1, table 63).
    fn refuse(&self, fault: Fault) -> WcStatus {
        let (status, event) = match fault {
            Fault::RecvTooSmall => {
                self.fail_recv(WcStatus::LocLenErr);
                (WcStatus::RemInvReqErr, EVENT_QP_REQ_ERR)
            }
            Fault::RecvProtection => {
                self.fail_recv(WcStatus::LocProtErr);
                (WcStatus::RemOpErr, EVENT_QP_FATAL)
            }
            Fault::Access => (WcStatus::RemAccessErr, EVENT_QP_ACCESS_ERR),
            Fault::CqFull => (WcStatus::RemOpErr, EVENT_QP_FATAL),
            Fault::Invalid | Fault::NoRecv | Fault::Silence => (WcStatus::RemInvReqErr, EVENT_QP_REQ_ERR),
        };
        self.fail(event);
        status
    }

    /// A message of UC or UD that cannot be received. Where it is too long for its RECV, one of the
    /// QP's own stays for the next message, while one of an SRQ completes with an error (IB
    /// specification vol. 1, 9.9.3, classes D and E).
    fn drop_message(&self, fault: Fault) {
        match fault {
            Fault::RecvTooSmall if self.qp.uses_srq.load(Relaxed) != 0 => self.fail_recv(WcStatus::LocLenErr),
            Fault::RecvProtection => {
                self.fail_recv(WcStatus::LocProtErr);
                self.fail(EVENT_QP_FATAL);
            }
            _ => {}
        }
    }

    /// Completes the oldest RECV with an error.
    fn fail_recv(&self, status: WcStatus) {
        let Ok(rq) = self.rq() else { return };
        let Some(_senders) = rq.lock.lock() else { return };
        let Ok((head, _)) = self.front(rq) else { return };
        let done = RecvDone {
            recv: head,
            qpn: self.qpn,
            generation: self.qp.generation.load(Relaxed),
            status: status.to_c(),
            opcode: WcOpcode::Recv.to_c(),
            ..RecvDone::default()
        };
        // There is nobody left to tell where this fails.
        let _ = self.take(rq, head, &done);
    }

    /// The responder enters Err; its RECVs are flushed. Not where its owner has reset it meanwhile.
    fn fail(&self, event_type: u32) {
        let error = |state| receives(state).then_some(QpState::Err.to_c());
        if self.qp.state.fetch_update(SeqCst, SeqCst, error).is_err() {
            return;
        }
        let index = index_of(self.qpn);
        let generation = self.qp.generation.load(Relaxed);
        let fd = self.qp.async_fd.load(Relaxed);
        tell(self.owner, fd, EventRecord { event_type, index, generation });
        if self.qp.uses_srq.load(Relaxed) != 0 {
            let event_type = EVENT_QP_LAST_WQE_REACHED;
            tell(self.owner, fd, EventRecord { event_type, index, generation });
        }
        flush(self.owner, self.segment, self.qp, self.qpn);
    }
}

/// Whether a QP in this state takes messages.
fn receives(state: u32) -> bool {
    matches!(QpState::from_c(state), Some(QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe))
}

/// Gathers a WRITE or READ of memory that only the other process has.
fn gather(batch: &mut Batch, request: &Request<'_>, pieces: &[Piece], pid: u32, addr: u64) -> Attempt {
    if batch.add(request, pieces, pid, addr) { Attempt::Gathered } else { Attempt::AfterGathered }
}

/// Fills a buffer with `len` bytes of header and pieces, from byte `from` of both on.
fn fill_buffer(header: &[u8], pieces: &[Piece], from: usize, len: usize, far: Far) -> Result<(), Fault> {
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
        Unreachable::Gone => Fault::Silence,
        Unreachable::Memory => Fault::RecvProtection,
    })
}
