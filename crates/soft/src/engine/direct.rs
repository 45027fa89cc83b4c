//! The direct path of a WRITE, and of a SEND with a short payload.
//!
//! Terms:
//! - A *segment* is the shared memory of one process of the fabric. Its *arena* has buffers of the program.
//!   Its *records* describe the process's QPs, regions and queues.
//! - A record's *version* changes whenever the record changes.
//! - A *generation* distinguishes the successive uses of a QP number.
//! - The *epoch* of this process's regions counts their changes.
//! - *Private memory* (`foreign`) is mapped in the peer alone.
//! - A *list* is the work requests of one ibv_post_send(3).
//! - A *short* payload has at most `CARRIED_BYTES` bytes. It waits in the receive queue, in the slot of its
//!   RECV, until it is copied to the RECV's buffer (`carried`).
//!
//! The *usual path* (`requester`, `responder`) checks everything that a message needs. After a responder has
//! taken a message, the direct path reuses the checked facts for the next messages. The facts hold as long as
//! three counters are unchanged:
//! - the version of the responder QP's record;
//! - the version of the record of the region that the message reads or writes;
//! - the epoch of this process's regions.
//!
//! WRITEs to private memory are *gathered*: [`Batch`] copies the bytes of all of them together, at the end of
//! the list.

use super::batch::Batch;
use super::carried::CarriedPart;
use super::far_memory::FarMemory;
use super::request::Request;
use super::responder::{Caches, Responder, solicited};
use super::verified::{Bounds, MemoryUse, Verified, VerifiedRegion};
use crate::fabric::copier::{Copier, Copying};
use crate::fabric::peer::{Owner, Peer};
use crate::fabric::process::Process;
use crate::memory::copy::Piece;
use crate::memory::copy::copy_in_order;
use crate::memory::transfer::Far;
use crate::rings::recvs::{CARRIED_BYTES, Carried, Completer, Receipt, RecvDone, Slots};
use doorbell_transport::{MAX_MESSAGE_BYTES, local_rights};
use doorbell_verbs::{AccessFlags, Opcode, RemoteAddr, SendFlags, SendOp, SendWr, Sge};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// The direct path to a responder, and the regions that the last messages used.
#[derive(Debug)]
pub(crate) struct Direct {
    to: DirectTo,
    regions: DirectRegions,
}

/// A responder that took a message, and the facts about it.
#[derive(Debug)]
struct DirectTo {
    peer: Arc<Peer>,
    verified: Verified,
    /// Marks this QP's copies from and to memory of its own process.
    own: Arc<Copier>,
    /// Marks this QP's copies from and to memory of the peer.
    far: Arc<Copier>,
}

/// The regions that the last messages used.
#[derive(Debug, Default)]
struct DirectRegions {
    /// The region of this process that the last payload came from.
    source: Option<SourceRegion>,
    /// Regions of the peer: the target of the last WRITE, and the buffer of the last SEND's RECV.
    written: Option<WrittenRegion>,
    received: Option<ReceivedRegion>,
}

/// The result of a WRITE on the direct path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The bytes are in place.
    Placed,
    /// The WRITE goes to private memory and is gathered with others of its list.
    Gathered,
    /// Nothing was done. The WRITE must take the usual path.
    Not,
}

/// The result of a SEND on the direct path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The SEND's RECV has completed.
    Received,
    /// Nothing was done. The SEND must take the usual path.
    Not,
    /// The SEND took a RECV, but the CQ had no room for its completion.
    CqFull,
}

/// A region of this process from which this QP may send. Valid as long as the process's regions have this
/// epoch.
#[derive(Clone, Copy, Debug)]
struct SourceRegion {
    key: u32,
    epoch: u64,
    bounds: Bounds,
    /// The first byte's address.
    at: u64,
}

/// A region of the peer to which this QP may WRITE.
#[derive(Clone, Copy, Debug)]
struct WrittenRegion {
    region: VerifiedRegion,
    /// The first byte's address in this process, or in the peer if the region is private memory.
    at: u64,
    /// The first byte's address in the peer.
    host: u64,
    /// Whether the region is private memory of the peer.
    is_foreign: bool,
}

/// The destination of a WRITE. `at` and `host` are addresses as in [`WrittenRegion`], but of the WRITE's
/// first byte instead of the region's first byte.
#[derive(Clone, Copy, Debug)]
struct Target {
    at: u64,
    host: u64,
    is_foreign: bool,
}

/// A region that RECVs may fill if their queue has the protection domain `pd`.
#[derive(Clone, Copy, Debug)]
struct ReceivedRegion {
    region: VerifiedRegion,
    pd: u32,
    /// The first byte's address in the peer.
    host: u64,
}

/// A WRITE of one SGE without immediate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlainWrite<'a> {
    pub(crate) wr_id: u64,
    pub(crate) remote: RemoteAddr,
    pub(crate) sge: &'a Sge,
    pub(crate) flags: SendFlags,
    /// The work request's sequence number in its QP, from 1.
    pub(crate) number: u64,
}

impl PlainWrite<'_> {
    /// Adds the WRITE to the gathered WRITEs, if it can join them.
    #[inline(always)]
    fn gather(&self, batch: &mut Batch, from: u64, pid: u32, at: u64) -> Written {
        let PlainWrite { wr_id, remote, sge, flags, number } = *self;
        let wr = SendWr { flags, ..SendWr::new(wr_id, SendOp::Write(remote), std::slice::from_ref(sge)) };
        let request = Request::of(&wr, sge.length, number);
        match batch.add(&request, &[Piece { addr: from, len: sge.length as usize }], pid, at) {
            true => Written::Gathered,
            false => Written::Not,
        }
    }
}

impl DirectTo {
    /// Whether the facts about the responder still hold.
    #[inline(always)]
    fn holds(&self) -> bool {
        !self.peer.is_dead() && self.verified.holds(&self.peer.segment)
    }

    /// Marks in both processes that a copy runs, until the returned values are dropped.
    #[inline(always)]
    fn begin(&self) -> (Copying<'_>, Copying<'_>) {
        (self.own.begin(), self.far.begin())
    }

    /// The responder, for checks of further facts.
    fn responder(&self, process: &'static Process) -> Option<Responder<'_>> {
        Responder::of(process, (Owner::Peer(&self.peer), &self.peer.segment), self.verified.qpn, false)
    }
}

impl Direct {
    /// The direct path to a responder in another process, which has just taken a message from this QP.
    pub(super) fn new(
        peer: Arc<Peer>,
        (own, far): (Arc<Copier>, Arc<Copier>),
        verified: Verified,
    ) -> Option<Direct> {
        let qp = peer.segment.qp(peer.segment.index_of(verified.qpn))?;
        // The generation in `verified` was read before the version in `verified`. If the generation is still
        // unchanged now, the responder's QP number named one QP all the time. So the version is the version
        // of this responder QP.
        let is_of_version = qp.generation.load(Relaxed) == verified.generation;
        let to = DirectTo { peer, verified, own, far };
        is_of_version.then(|| Direct { to, regions: DirectRegions::default() })
    }

    /// Whether the facts about the responder still hold.
    pub(super) fn holds(&self) -> bool {
        self.to.holds()
    }

    /// Carries out a WRITE of one SGE, or gathers it. `own` is the QP's process and protection domain.
    /// `enter` is called before the responder can see the WRITE.
    #[inline(always)]
    pub(super) fn write(
        &mut self,
        (caches, batch): (&mut Caches, &mut Batch),
        own: (&'static Process, u32),
        write: &PlainWrite<'_>,
        enter: impl FnOnce(),
    ) -> Written {
        let Direct { to, regions } = self;
        // If the batch is not empty, its first WRITE has already marked that a copy runs. The batch removes
        // the mark.
        let copying = batch.is_empty().then(|| to.begin());
        let written = regions.write(to, (caches, batch), own, write, enter);
        if written == Written::Gathered
            && let Some((own, far)) = copying
        {
            [own, far].into_iter().for_each(|copying| batch.keep(Some(copying)));
        }
        written
    }

    /// Carries out a SEND of one SGE with a short payload, if only this QP sends to the receive queue.
    /// `enter` is called before the responder can see the SEND.
    #[inline(always)]
    pub(super) fn send(
        &mut self,
        caches: &mut Caches,
        own: (&'static Process, u32),
        (sge, flags): (&Sge, SendFlags),
        enter: impl FnOnce(Owner<'_>, Receipt),
    ) -> Sent {
        let Direct { to, regions } = self;
        let Verified { qpn, generation, .. } = to.verified;
        let (segment, len) = (&to.peer.segment, u64::from(sge.length));
        let Some(qp) = segment.qp(segment.index_of(qpn)) else { return Sent::Not };
        let Some(rq) = segment.rq(qp.rq.load(Relaxed) as usize) else { return Sent::Not };
        // Acquire: this load precedes the check by `holds`. If the queue is reset after this load, its
        // generation changes, and `front` refuses the one loaded here.
        let rq_generation = rq.generation.load(Acquire);
        if !to.holds() || len == 0 || len > CARRIED_BYTES as u64 {
            return Sent::Not;
        }
        let Some(slots) = Slots::of_one_sender(segment, rq) else { return Sent::Not };
        let Ok(front) = slots.front(rq_generation) else { return Sent::Not };
        let Some(room) = front.sge(0).filter(|room| front.room().0 > 0 && len <= room.length.into()) else {
            return Sent::Not;
        };
        let buffer = (room.lkey, rq.pd.load(Relaxed));
        let Some(host) = regions.room((caches, own.0), to, buffer, (room.addr, len)) else {
            return Sent::Not;
        };
        if front.is_beyond_lane(qp, segment) {
            return Sent::Not;
        }
        let inline = flags.contains(SendFlags::INLINE);
        // Only `own` marks that a copy runs. `far` need not: it marks only copies from and to memory of the
        // peer's program, and this copy goes to the peer's receive queue.
        let _copying = to.own.begin();
        let Some(from) = regions.source(caches, own, sge, inline) else { return Sent::Not };
        let mut carried = Carried::none();
        carried.gather(&[], &[Piece { addr: from, len: len as usize }]);
        let owner = Owner::Peer(&to.peer);
        let completer = Completer { owner, segment, qp, qpn, srq: None, claimer: own.0.claimer };
        let Some(claim) = front.claim(&completer) else { return Sent::Not };
        let done =
            RecvDone { byte_len: sge.length, flags: solicited(flags), ..RecvDone::of_send(qpn, generation) };
        let receipt = completer.receipt(&claim);
        enter(owner, receipt);
        let part = CarriedPart { host, len: sge.length, key: room.lkey, from: 0 };
        let is_complete = completer.complete(&claim, done, &carried);
        caches.carried.push((to.peer.views.number(), segment), receipt, part);
        if is_complete { Sent::Received } else { Sent::CqFull }
    }
}

impl DirectRegions {
    /// Carries out a WRITE, like [`Direct::write`]. The caller has begun the copy.
    #[inline(always)]
    fn write(
        &mut self,
        to: &DirectTo,
        (caches, batch): (&mut Caches, &mut Batch),
        own: (&'static Process, u32),
        write: &PlainWrite<'_>,
        enter: impl FnOnce(),
    ) -> Written {
        let PlainWrite { remote, sge, flags, .. } = *write;
        let len = u64::from(sge.length);
        if !to.holds() || len == 0 || len > u64::from(MAX_MESSAGE_BYTES) {
            return Written::Not;
        }
        let Some(Target { at, host, is_foreign }) = self.target((caches, own.0), to, &remote, len) else {
            return Written::Not;
        };
        // An earlier SEND may have taken a RECV whose buffer overlaps the target of this WRITE. If the SEND's
        // payload still waits in the receive queue, the usual path copies the payload to the buffer before it
        // carries out the WRITE.
        if caches.carried.touches(host, len) {
            return Written::Not;
        }
        let inline = flags.contains(SendFlags::INLINE);
        let Some(from) = self.source(caches, own, sge, inline) else { return Written::Not };
        if is_foreign {
            return write.gather(batch, from, to.peer.member.pid, at);
        }
        if !batch.is_empty() {
            return Written::Not;
        }
        enter();
        // SAFETY: the target was checked against its region, as for `transfer::write`. So was the source,
        // unless it is inline data: then the program promises that it is readable.
        unsafe { copy_in_order(from as *const u8, at as *mut u8, len as usize) };
        Written::Placed
    }

    /// The address of the payload of a message with one SGE.
    #[inline(always)]
    fn source(&mut self, caches: &mut Caches, own: (&Process, u32), sge: &Sge, inline: bool) -> Option<u64> {
        if inline {
            return Some(sge.addr);
        }
        let is_known =
            |source: &SourceRegion| source.key == sge.lkey && source.epoch == own.0.regions.epoch();
        if !self.source.as_ref().is_some_and(is_known) {
            self.find_source(caches, own, sge.lkey)?;
        }
        let source = self.source.as_ref()?;
        Some(source.at + source.bounds.offset_of(sge.addr, sge.length.into())?)
    }

    /// Looks up a region of this process from which this QP may send.
    #[inline(never)]
    fn find_source(&mut self, caches: &mut Caches, (process, pd): (&Process, u32), key: u32) -> Option<()> {
        // The epoch is read first. If a region changes before the lookup, the next message finds a newer
        // epoch and looks the region up again.
        let epoch = process.regions.epoch();
        let place = caches.regions.find(&process.regions, key)?;
        let (region, need) = (&place.region, local_rights(Opcode::Write));
        place.check(pd, region.addr, region.len, need).ok()?;
        self.source = Some(SourceRegion { key, epoch, bounds: Bounds::of(place), at: place.host });
        Some(())
    }

    /// The destination of a WRITE of `len` bytes.
    #[inline(always)]
    fn target(
        &mut self,
        through: (&mut Caches, &'static Process),
        to: &DirectTo,
        remote: &RemoteAddr,
        len: u64,
    ) -> Option<Target> {
        let is_known = |written: &WrittenRegion| written.region.holds(&to.peer.segment, remote.rkey);
        if !self.written.as_ref().is_some_and(is_known) {
            self.find_written(through, to, remote.rkey)?;
        }
        let WrittenRegion { region, at, host, is_foreign } = self.written.as_ref()?;
        let offset = region.offset_of(remote.addr, len)?;
        // The peer chooses `host`, so the sum may overflow.
        Some(Target { at: at + offset, host: host.wrapping_add(offset), is_foreign: *is_foreign })
    }

    /// Looks up a region of the peer to which this QP may WRITE. The region must be in the arena, or be
    /// private memory that this process may access.
    #[inline(never)]
    fn find_written(
        &mut self,
        (caches, process): (&mut Caches, &'static Process),
        to: &DirectTo,
        key: u32,
    ) -> Option<()> {
        let (need, responder) = (AccessFlags::REMOTE_WRITE, to.responder(process)?);
        // The message that the responder took may have been a SEND, which needs no right to WRITE.
        to.verified.check_enabled(need, 0).ok()?;
        let (region, place, memory) = responder.region(caches, to.verified.remote(need), key).ok()?;
        let (at, is_foreign) = match memory {
            FarMemory::Reached(Far::Foreign { addr, .. }) => (addr, true),
            FarMemory::Reached(Far::Mapped(address)) if place.shared.is_some() => (address as u64, false),
            // Shared memory outside the arena is mapped by a view, which may be dropped at any time.
            FarMemory::Reached(Far::Mapped(_)) | FarMemory::Served(..) => return None,
        };
        self.written = Some(WrittenRegion { region, at, host: place.host, is_foreign });
        Some(())
    }

    /// The address at which the first `len` bytes of a RECV's buffer begin in the peer. `addr` and `key` are
    /// the address and lkey of the RECV's SGE. `pd` is the protection domain of the RECV's queue. `None` if
    /// the direct path may not fill these bytes. It may fill them if the region of `key` contains all of
    /// them, permits local writes, and belongs to `pd`.
    #[inline(always)]
    fn room(
        &mut self,
        through: (&mut Caches, &'static Process),
        to: &DirectTo,
        (key, pd): (u32, u32),
        (addr, len): (u64, u64),
    ) -> Option<u64> {
        let is_known =
            |received: &ReceivedRegion| received.pd == pd && received.region.holds(&to.peer.segment, key);
        if !self.received.as_ref().is_some_and(is_known) {
            self.find_received(through, to, (key, pd))?;
        }
        let ReceivedRegion { region, host, .. } = self.received.as_ref()?;
        Some(host.wrapping_add(region.offset_of(addr, len)?))
    }

    /// Looks up a region that RECVs may fill if their queue has this protection domain.
    #[inline(never)]
    fn find_received(
        &mut self,
        (caches, process): (&mut Caches, &'static Process),
        to: &DirectTo,
        (key, pd): (u32, u32),
    ) -> Option<()> {
        let (region, host) = to.responder(process)?.buffer(caches, MemoryUse::Recv { pd }, key).ok()?;
        self.received = Some(ReceivedRegion { region, pd, host });
        Some(())
    }
}
