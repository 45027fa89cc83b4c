//! Messages of at most `CARRIED_BYTES`, whose payload waits in the receive queue, in the slot of their RECV.
//! The receiver copies the payload to the RECV's buffers when it polls.
//!
//! The later requests of a QP must find the payload in the RECV's buffers: a READ must see it, and a WRITE
//! must not be overwritten by it. So the sender keeps a list of these payloads and their buffers. Before a
//! request touches such a buffer, the sender itself *places* the buffer's payload and all earlier payloads:
//! it copies them to their buffers. In nearly all programs, RECVs use other memory than READs and WRITEs, and
//! no payload is placed in this way.

use super::far_memory::FarMemory;
use super::refusal::Refusal;
use super::responder::{Caches, Responder};
use super::verified::MemoryUse;
use crate::memory::segment::Segment;
use crate::memory::transfer::{self, Piece};
use crate::rings::recvs::{Carried, Placing, PlacingStep, Receipt};
use std::sync::atomic::Ordering::*;

/// Number of times that the sender checks whether the receiver has finished copying a payload.
const ASKS: u32 = 200;
/// `CarriedSends::push` removes finished parts only if the list has at least this many parts.
const FEW: usize = 64;

/// A part of a payload that belongs in one buffer of a RECV.
#[derive(Clone, Copy, Debug)]
pub(super) struct CarriedPart {
    /// Address of the part's first byte in the receiver's process.
    pub(super) host: u64,
    pub(super) len: u32,
    /// lkey of the buffer.
    pub(super) key: u32,
    /// Offset of the part in the payload, in bytes.
    pub(super) from: u32,
}

/// A part of a message that was sent.
#[derive(Clone, Copy, Debug)]
struct SentPart {
    part: CarriedPart,
    /// The number of the receiver's process, and the [`Receipt`], which names the RECV that the message took.
    process: u64,
    receipt: Receipt,
}

/// The messages of a QP whose payload may not be in place yet, in the order of sending.
#[derive(Debug)]
pub(super) struct CarriedSends {
    sent: Vec<SentPart>,
    /// The parts of a message that is about to be sent.
    begun: Vec<CarriedPart>,
    /// All parts lie between these addresses.
    first: u64,
    end: u64,
    /// When `sent` has this many parts, placed parts are removed.
    most: usize,
}

impl Default for CarriedSends {
    fn default() -> CarriedSends {
        CarriedSends { sent: Vec::new(), begun: Vec::new(), first: u64::MAX, end: 0, most: FEW }
    }
}

impl SentPart {
    fn touches(&self, host: u64, len: u64) -> bool {
        let own = self.part.host;
        host < own.saturating_add(self.part.len.into()) && own < host.saturating_add(len)
    }
}

impl CarriedSends {
    /// Whether the buffer of a payload that is possibly not in place yet overlaps the `len` bytes at `host`.
    /// Ignores which process the buffer is in.
    #[inline(always)]
    pub(super) fn touches(&self, host: u64, len: u64) -> bool {
        host < self.end && self.first < host.saturating_add(len) && self.has_part_in(host, len)
    }

    #[inline(never)]
    fn has_part_in(&self, host: u64, len: u64) -> bool {
        self.sent.iter().any(|sent| sent.touches(host, len))
    }

    /// Begins the list of parts of a message.
    #[inline(always)]
    pub(super) fn begin(&mut self) {
        self.begun.clear();
    }

    /// Adds a part of the message that was begun.
    #[inline(always)]
    pub(super) fn add(&mut self, part: CarriedPart) {
        self.begun.push(part);
    }

    /// Adds the parts of the message that was begun to the list of sent parts. Its RECV is complete. `to` has
    /// the number of the receiver's process, and its segment.
    pub(super) fn commit(&mut self, to: (u64, &Segment), receipt: Receipt) {
        for nth in 0..self.begun.len() {
            self.push(to, receipt, self.begun[nth]);
        }
    }

    /// Adds a part of a message that is sent.
    #[inline(always)]
    pub(super) fn push(&mut self, to: (u64, &Segment), receipt: Receipt, part: CarriedPart) {
        if self.sent.len() >= self.most {
            self.remove_placed(to);
        }
        self.sent.push(SentPart { part, process: to.0, receipt });
        self.first = self.first.min(part.host);
        self.end = self.end.max(part.host.saturating_add(part.len.into()));
    }

    /// Removes the parts of messages to this process whose completions the process has already taken.
    #[cold]
    fn remove_placed(&mut self, (process, segment): (u64, &Segment)) {
        let is_placed = |sent: &SentPart| sent.process == process && sent.receipt.is_taken(segment);
        match self.sent.last().is_some_and(|sent| sent.receipt.is_in_turn()) {
            // The receive queue has one sender, so its messages are taken in the order of sending.
            true => {
                let placed = self.sent.iter().rposition(is_placed).map_or(0, |last| last + 1);
                self.sent.drain(..placed);
            }
            false => self.sent.retain(|sent| !is_placed(sent)),
        }
        self.find_bounds();
        self.most = (2 * self.sent.len()).max(FEW);
    }

    fn find_bounds(&mut self) {
        let ends = |sent: &SentPart| sent.part.host.saturating_add(sent.part.len.into());
        self.first = self.sent.iter().map(|sent| sent.part.host).min().unwrap_or(u64::MAX);
        self.end = self.sent.iter().map(ends).max().unwrap_or(0);
    }

    /// The number of parts to place before these bytes of the process are touched.
    fn until(&self, process: u64, host: u64, len: u64) -> usize {
        let is_there = |sent: &SentPart| sent.process == process && sent.touches(host, len);
        self.sent.iter().rposition(is_there).map_or(0, |last| last + 1)
    }
}

impl Responder<'_> {
    /// If the payload of an earlier message of the QP goes to one of these bytes, places that payload and all
    /// earlier payloads to this process. So the next request finds them in the buffers. `host` is an address
    /// in the responder's process.
    #[inline(always)]
    pub(super) fn place_carried(&self, caches: &mut Caches, (host, len): (u64, u64)) -> Result<(), Refusal> {
        match caches.carried.touches(host, len) {
            true => self.place_until(caches, host, len),
            false => Ok(()),
        }
    }

    #[cold]
    fn place_until(&self, caches: &mut Caches, host: u64, len: u64) -> Result<(), Refusal> {
        let process = self.process_number();
        let mut carried = std::mem::take(&mut caches.carried);
        carried.remove_placed((process, self.segment));
        let until = carried.until(process, host, len);
        let here = carried.sent[..until].iter().filter(|sent| sent.process == process).copied();
        let parts: Vec<SentPart> = here.collect();
        let placed = parts
            .chunk_by(|one, other| one.receipt == other.receipt)
            .try_for_each(|message| self.place_message(caches, message));
        if placed.is_ok() {
            let mut nth = 0;
            carried.sent.retain(|sent| {
                nth += 1;
                nth > until || sent.process != process
            });
            carried.find_bounds();
        }
        caches.carried = carried;
        placed
    }

    /// Places the payload of a message, unless its receiver has it.
    fn place_message(&self, caches: &mut Caches, parts: &[SentPart]) -> Result<(), Refusal> {
        let Some(SentPart { receipt, .. }) = parts.first() else { return Ok(()) };
        let completer = self.completer();
        for _ in 0..ASKS {
            match receipt.begin_placing(self.segment, completer.claimer) {
                PlacingStep::Over => return Ok(()),
                PlacingStep::Busy => std::hint::spin_loop(),
                PlacingStep::Begun(placing) => {
                    let (done, payload) = placing.payload();
                    self.end_placing(caches, placing, &payload, parts);
                    completer.wake_again(receipt, &done);
                    return Ok(());
                }
            }
        }
        Err(Refusal::Taking)
    }

    /// Copies a payload to the buffers of its RECV. If that is impossible, the receiver copies it.
    fn end_placing(&self, caches: &mut Caches, placing: Placing<'_>, payload: &Carried, parts: &[SentPart]) {
        let rq = self.segment.rq(parts[0].receipt.rq() as usize);
        let used = MemoryUse::Recv { pd: rq.map_or(0, |rq| rq.pd.load(Relaxed)) };
        let placed = parts.iter().try_for_each(|sent| self.place_part(caches, used, payload, &sent.part));
        placing.end(placed.is_ok());
    }

    fn place_part(
        &self,
        caches: &mut Caches,
        used: MemoryUse,
        payload: &Carried,
        part: &CarriedPart,
    ) -> Result<(), Refusal> {
        let len = u64::from(part.len);
        let place = *self.find(caches, used, part.key)?.0;
        let addr = part.host.wrapping_sub(place.host).wrapping_add(place.region.addr);
        let offset = used.check(&place, addr, len)?;
        let piece = payload.as_piece();
        if u64::from(part.from) + len > piece.len as u64 {
            return Err(Refusal::Silence);
        }
        match self.far(&mut caches.views, &place, used, (offset, len))? {
            FarMemory::Reached(far) => {
                let from = Piece { addr: piece.addr + u64::from(part.from), len: len as usize };
                Ok(transfer::write(&[from], far)?)
            }
            // The receiver's service thread writes only to regions with IBV_ACCESS_REMOTE_WRITE. The buffer
            // of a RECV needs only IBV_ACCESS_LOCAL_WRITE.
            FarMemory::Served(..) => Err(Refusal::Silence),
        }
    }
}
