//! The responder, whose part the requester plays: it takes what its process shows of itself, and
//! trusts none of it.
//!
//! The order of checks is that of `doorbell_transport`'s responder (IB specification vol. 1, 9.7.5),
//! which also says what becomes of each fault.

use super::attempt::{Attempt, Outcome};
use super::batch::{Batch, Request};
use crate::fabric::mapping::ViewCache;
use crate::fabric::peer::Owner;
use crate::fabric::pipe::tell;
use crate::fabric::process::Process;
use crate::memory::records::*;
use crate::memory::regions::{Place, RegionCache, find_in};
use crate::memory::segment::Segment;
use crate::memory::transfer::{self, Far, Piece, Unreachable};
use crate::path::Header;
use crate::rings::completions::{Carried, RecvDone, SOLICITED, push_recv};
use crate::rings::recvs::{check_limit, flush, sge_record, slot};
use doorbell_abi::{CEnum, IBV_WC_GRH, IBV_WC_WITH_IMM};
use doorbell_transport::{AtomicOp, Fault, NakCode, check_enabled, takes_requests};
use doorbell_verbs::{
    AccessFlags, GRH_BYTES, QpState, QpType, RemoteAddr, SendFlags, SendOp, Sge, WcOpcode, WcStatus,
};
use std::sync::atomic::Ordering::*;

/// `IBV_EVENT_QP_REQ_ERR`, `IBV_EVENT_QP_ACCESS_ERR`, `IBV_EVENT_QP_LAST_WQE_REACHED`.
const EVENT_QP_REQ_ERR: u32 = 2;
const EVENT_QP_ACCESS_ERR: u32 = 3;
const EVENT_QP_LAST_WQE_REACHED: u32 = 16;
/// `IBV_EVENT_QP_FATAL`.
const EVENT_QP_FATAL: u32 = 1;

/// What was found last: regions of this process, and those of peers that are mapped here.
#[derive(Debug, Default)]
pub(crate) struct Caches {
    pub(super) regions: RegionCache,
    views: ViewCache,
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

/// Why the responder does not carry a message out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// As any responder refuses.
    Fault(Fault),
    /// Its CQ took no more.
    CqFull,
    /// The process is gone, or its records make no sense.
    Silence,
}

impl Refusal {
    /// The same of a message with an immediate.
    fn with_imm(self) -> Refusal {
        match self {
            Refusal::Fault(fault) => Refusal::Fault(fault.of_message(true)),
            refusal => refusal,
        }
    }
}

impl From<Fault> for Refusal {
    fn from(fault: Fault) -> Refusal {
        Refusal::Fault(fault)
    }
}

impl From<Unreachable> for Refusal {
    fn from(cause: Unreachable) -> Refusal {
        match cause {
            Unreachable::Gone => Refusal::Silence,
            Unreachable::Memory => Fault::Access.into(),
        }
    }
}

/// The responder of a message.
pub(super) struct Responder<'a> {
    pub(super) process: &'static Process,
    pub(super) owner: Owner<'a>,
    pub(super) segment: &'a Segment,
    pub(super) qp: &'a QpRecord,
    pub(super) qpn: u32,
}

impl Responder<'_> {
    /// Carries a message out, or gathers it.
    pub(super) fn carry_out(
        &self,
        caches: &mut Caches,
        batch: &mut Batch,
        message: &Message<'_>,
    ) -> Result<Attempt, Refusal> {
        let Message { request, pieces, .. } = *message;
        let len = request.len;
        match request.wr.op {
            SendOp::Send | SendOp::SendWithImm(_) => self.receive(caches, message)?,
            SendOp::Write(remote) => {
                let far = self.remote(caches, remote, len, AccessFlags::REMOTE_WRITE)?;
                match far {
                    Far::Foreign { pid, addr } => return Ok(gather(batch, request, pieces, pid, addr)),
                    Far::Mapped(_) if !batch.is_empty() => return Ok(Attempt::AfterGathered),
                    Far::Mapped(_) => transfer::write(pieces, far)?,
                }
            }
            SendOp::WriteWithImm(remote, _) => self
                .remote(caches, remote, len, AccessFlags::REMOTE_WRITE)
                .and_then(|far| self.write_with_imm(message, far))
                .map_err(Refusal::with_imm)?,
            SendOp::Read(remote) => {
                let far = self.remote(caches, remote, len, AccessFlags::REMOTE_READ)?;
                match far {
                    Far::Foreign { pid, addr } => return Ok(gather(batch, request, pieces, pid, addr)),
                    Far::Mapped(_) if !batch.is_empty() => return Ok(Attempt::AfterGathered),
                    Far::Mapped(_) => transfer::read(pieces, far)?,
                }
            }
            SendOp::CompareSwap { remote, compare, swap } => {
                self.atomic(caches, remote, AtomicOp::CompareSwap { compare, swap }, pieces)?;
            }
            SendOp::FetchAdd { remote, add } => {
                self.atomic(caches, remote, AtomicOp::FetchAdd { add }, pieces)?;
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
    ) -> Result<Far, Refusal> {
        self.check_enabled(need, remote.addr)?;
        if len == 0 {
            return Ok(Far::Mapped(std::ptr::NonNull::dangling().as_ptr()));
        }
        let place = self.find(caches, remote.rkey).ok_or(Fault::Access)?;
        let pd = self.qp.pd.load(Relaxed);
        let offset = place.check(pd, remote.addr, u64::from(len), need).map_err(|_| Fault::Access)?;
        self.far(caches, &place, offset, u64::from(len)).ok_or(Fault::Access.into())
    }

    /// [`check_enabled`] as the QP's record has it.
    fn check_enabled(&self, need: AccessFlags, va: u64) -> Result<(), Fault> {
        let access = AccessFlags::from_bits_truncate(self.qp.access.load(Relaxed));
        let max_dest_rd_atomic = self.qp.max_dest_rd_atomic.load(Relaxed).min(u8::MAX.into());
        check_enabled(need, va, access, max_dest_rd_atomic as u8)
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
        op: AtomicOp,
        pieces: &[Piece],
    ) -> Result<(), Refusal> {
        self.check_enabled(AccessFlags::REMOTE_ATOMIC, remote.addr)?;
        let place = self.find(caches, remote.rkey).ok_or(Fault::Access)?;
        let pd = self.qp.pd.load(Relaxed);
        let offset =
            place.check(pd, remote.addr, 8, AccessFlags::REMOTE_ATOMIC).map_err(|_| Fault::Access)?;
        let host = place.host.wrapping_add(offset);
        if !host.is_multiple_of(8) {
            return Err(Fault::Invalid.into());
        }
        let far = self.far(caches, &place, offset, 8).ok_or(Fault::Access)?;
        // Where in the segment the region lies is its owner's word, which need not be true.
        if matches!(far, Far::Mapped(word) if !word.addr().is_multiple_of(8)) {
            return Err(Fault::Access.into());
        }
        let original = match (far, place.shared) {
            // The processor's own atomics are enough where everybody can use them.
            (Far::Mapped(word), Some(_)) => {
                // SAFETY: within a region or segment that is mapped, and aligned.
                unsafe { transfer::atomic_mapped(word, op) }
            }
            (Far::Mapped(word), None) => {
                let _others = self.segment.atomic_lock(host).lock().ok_or(Refusal::Silence)?;
                // SAFETY: as above.
                unsafe { transfer::atomic_mapped(word, op) }
            }
            (Far::Foreign { pid, addr }, _) => {
                let _others = self.segment.atomic_lock(host).lock().ok_or(Refusal::Silence)?;
                transfer::atomic_foreign(pid, addr, op)?
            }
        };
        transfer::read(pieces, Far::Mapped((&raw const original).cast_mut().cast()))?;
        Ok(())
    }

    /// A WRITE with immediate: it takes a RECV, whose buffers stay as they are.
    fn write_with_imm(&self, message: &Message<'_>, far: Far) -> Result<(), Refusal> {
        let rq = self.rq()?;
        let _senders = rq.lock.lock().ok_or(Refusal::Silence)?;
        let (head, _) = self.front(rq)?;
        let len = message.request.len;
        if len > 0 {
            transfer::write(message.pieces, far)?;
        }
        let done = RecvDone {
            recv: head,
            opcode: WcOpcode::RecvWriteWithImm.to_c(),
            byte_len: len,
            ..self.completion(message)
        };
        self.take(rq, head, &done)
    }

    /// A SEND.
    fn receive(&self, caches: &mut Caches, message: &Message<'_>) -> Result<(), Refusal> {
        let rq = self.rq()?;
        let _senders = rq.lock.lock().ok_or(Refusal::Silence)?;
        let (head, slot) = self.front(rq)?;
        let ud = message.qp_type == QpType::Ud;
        let header: &[u8] = match message.grh {
            Some(grh) if ud => grh,
            _ if ud => &[0; GRH_BYTES as usize],
            _ => &[],
        };
        let total = header.len() as u64 + u64::from(message.request.len);
        if total > u64::from(slot.capacity.load(Relaxed)) {
            return Err(Fault::RecvTooSmall.into());
        }
        let carried = if total <= CARRIED_BYTES as u64 {
            self.check_buffers(caches, rq, slot, total, None)?;
            Carried { header, pieces: message.pieces, len: total as usize }
        } else {
            self.check_buffers(caches, rq, slot, total, Some((header, message.pieces)))?;
            Carried::default()
        };
        let grh = if ud && message.grh.is_some() { IBV_WC_GRH } else { 0 };
        let common = self.completion(message);
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

    fn rq(&self) -> Result<&RqRecord, Refusal> {
        self.segment.rq(self.qp.rq.load(Relaxed) as usize).ok_or(Refusal::Silence)
    }

    /// The oldest RECV, and its position.
    fn front<'r>(&'r self, rq: &RqRecord) -> Result<(u64, &'r RqSlot), Refusal> {
        let head = rq.head.load(Relaxed);
        let (capacity, max_sge) = (rq.capacity.load(Acquire), rq.max_sge.load(Relaxed));
        let slot =
            slot(self.segment, rq.slots.load(Relaxed), capacity, max_sge, head).ok_or(Refusal::Silence)?;
        if slot.sequence.load(Acquire) != head.wrapping_add(1) {
            return Err(Fault::NoRecv.into());
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
    ) -> Result<(), Refusal> {
        let (pd, max_sge) = (rq.pd.load(Relaxed), rq.max_sge.load(Relaxed));
        let mut at = 0;
        for n in 0..slot.sges.load(Relaxed) {
            if at == total {
                break;
            }
            let record = sge_record(self.segment, slot, n, max_sge).ok_or(Refusal::Silence)?;
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
        if at < total { Err(Fault::RecvTooSmall.into()) } else { Ok(()) }
    }

    /// What the completions of all messages have in common.
    fn completion(&self, message: &Message<'_>) -> RecvDone<'static> {
        let wr = &message.request.wr;
        let imm = wr.op.imm();
        let solicited = if wr.flags.contains(SendFlags::SOLICITED) { SOLICITED } else { 0 };
        RecvDone {
            qpn: self.qpn,
            generation: self.qp.generation.load(Relaxed),
            status: WcStatus::Success.to_c(),
            imm: imm.unwrap_or(0).to_be(),
            flags: solicited | if imm.is_some() { IBV_WC_WITH_IMM } else { 0 },
            src_qp: if message.qp_type == QpType::Ud { message.from } else { 0 },
            ..RecvDone::default()
        }
    }

    /// Takes the RECV at `head` and completes it.
    fn take(&self, rq: &RqRecord, head: u64, done: &RecvDone<'_>) -> Result<(), Refusal> {
        let taken = push_recv(self.owner, self.segment, self.qp.cq.load(Relaxed), done);
        rq.head.store(head.wrapping_add(1), Relaxed);
        if rq.limit.load(Relaxed) != 0 {
            check_limit(self.owner, rq);
        }
        if taken { Ok(()) } else { Err(Refusal::CqFull) }
    }

    /// What follows of a message that was not carried out, here; returns its status at the requester.
    pub(super) fn refuse(&self, refusal: Refusal, qp_type: QpType) -> WcStatus {
        let uses_srq = self.qp.uses_srq.load(Relaxed) != 0;
        let rc = qp_type == QpType::Rc;
        let (nak, recv, fatal) = match refusal {
            Refusal::Fault(fault) => {
                (fault.nak(), fault.recv_status(qp_type, uses_srq), fault.is_fatal(qp_type))
            }
            Refusal::CqFull => (Some(NakCode::RemoteOperation), None, rc),
            Refusal::Silence => (None, None, false),
        };
        if let Some(status) = recv {
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
