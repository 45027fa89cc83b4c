//! Places the payloads of [`CarriedSends`](super::carried::CarriedSends) in the buffers of their RECVs,
//! before a later request touches these buffers.

use super::carried::{CarriedPart, SentPart};
use super::far_memory::FarMemory;
use super::refusal::Refusal;
use super::responder::{Caches, Responder};
use super::verified::MemoryUse;
use crate::memory::copy::Piece;
use crate::memory::transfer;
use crate::rings::recvs::{Carried, Placing, PlacingStep};
use std::sync::atomic::Ordering::*;

/// Number of times that the sender checks whether the receiver has finished copying a payload.
const ASKS: u32 = 200;

impl Responder<'_> {
    /// Does nothing unless the payload of an earlier message of the QP goes to one of these bytes. Then
    /// places this payload and all earlier payloads to the responder's process. So the next request finds the
    /// payloads in the buffers. `host` is an address in the responder's process.
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
        let parts = carried.parts_before((process, self.segment), host, len);
        let placed = parts
            .chunk_by(|one, other| one.receipt == other.receipt)
            .try_for_each(|message| self.place_message(caches, message));
        if placed.is_ok() {
            carried.remove_first(process, parts.len());
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
