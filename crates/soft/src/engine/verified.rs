//! Facts about a responder that were verified before a message to it was carried out.
//!
//! There is one place where each fact is verified. The long way verifies the facts that a message needs each time. The short
//! way keeps them, and uses them as long as the versions in the responder's records show that they hold.

use crate::memory::records::{QpRecord, Shown, index_of};
use crate::memory::regions::Place;
use crate::memory::segment::Segment;
use doorbell_transport::{Fault, Keys, check_enabled};
use doorbell_verbs::AccessFlags;
use std::sync::atomic::Ordering::*;

/// A responder QP that takes the messages of a requester. The facts hold as long as its record shows the same version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verified {
    /// State and version of the record. All other facts were read after it.
    pub(super) shown: Shown,
    pub(super) qpn: u32,
    /// Which of the QPs with this number it is.
    pub(super) generation: u32,
    /// The protection domain of the memory that messages are about.
    pub(super) pd: u32,
    enabled: AccessFlags,
    max_dest_rd_atomic: u8,
}

impl Verified {
    // The fields are loaded Relaxed. The version was loaded before them, with Acquire, and the owner of the record stores the
    // next version behind its changes: facts of which some are newer are of no version that is found again.

    /// The facts of a QP whose record showed this version, and that was seen to take the requester's messages.
    #[inline(always)]
    pub(super) fn of(qp: &QpRecord, shown: Shown, (qpn, generation): (u32, u32)) -> Verified {
        Verified {
            shown,
            qpn,
            generation,
            pd: qp.pd.load(Relaxed),
            enabled: AccessFlags::from_bits_truncate(qp.access.load(Relaxed)),
            max_dest_rd_atomic: qp.max_dest_rd_atomic.load(Relaxed).min(u8::MAX.into()) as u8,
        }
    }

    /// The facts where messages are about memory of another protection domain than the QP's: that of an SRQ; XRC.
    pub(super) fn with_pd(self, pd: u32) -> Verified {
        Verified { pd, ..self }
    }

    /// Whether the facts still hold of the QP in this segment.
    #[inline(always)]
    pub(super) fn holds(&self, segment: &Segment) -> bool {
        segment.qp(index_of(self.qpn) as usize).is_some_and(|qp| qp.shown() == self.shown)
    }

    /// Whether the QP takes a one-sided request that needs this right, to memory from `va` on.
    #[inline(always)]
    pub(super) fn check_enabled(&self, need: AccessFlags, va: u64) -> Result<(), Fault> {
        check_enabled(need, va, self.enabled, self.max_dest_rd_atomic)
    }

    /// The use of memory by a one-sided request that needs this right.
    #[inline(always)]
    pub(super) fn remote(&self, need: AccessFlags) -> MemoryUse {
        MemoryUse::Remote { pd: self.pd, qpn: self.qpn, need }
    }
}

/// How a message uses memory of its responder.
#[derive(Clone, Copy, Debug)]
pub(super) enum MemoryUse {
    /// By an rkey, with this right, as a peer of the QP with this protection domain and number.
    Remote { pd: u32, qpn: u32, need: AccessFlags },
    /// By the lkey of a RECV, as a receive queue of this protection domain.
    Recv { pd: u32 },
}

impl MemoryUse {
    /// Checks `len` bytes from `addr` on; returns the distance of the first from the region's.
    #[inline(always)]
    pub(super) fn check(self, place: &Place, addr: u64, len: u64) -> Result<u64, Fault> {
        let checked = match self {
            MemoryUse::Remote { pd, qpn, need } => place.check_remote((pd, qpn), addr, len, need),
            MemoryUse::Recv { pd } => place.check(pd, addr, len, AccessFlags::LOCAL_WRITE),
        };
        checked.map_err(|_| self.fault())
    }

    /// The fault that the memory may not be used so, or is nowhere.
    #[inline(always)]
    pub(super) fn fault(self) -> Fault {
        match self {
            MemoryUse::Remote { .. } => Fault::Access,
            MemoryUse::Recv { .. } => Fault::RecvProtection,
        }
    }
}

/// A region of a peer's, of which a message may use every byte. That holds as long as the region's record shows the same version.
#[derive(Clone, Copy, Debug)]
pub(super) struct VerifiedRegion {
    key: u32,
    version: u32,
    bounds: Bounds,
}

impl VerifiedRegion {
    /// The region, where all of it may be used so.
    pub(super) fn of(place: &Place, used: MemoryUse) -> Result<VerifiedRegion, Fault> {
        used.check(place, place.region.addr, place.region.len)?;
        Ok(VerifiedRegion { key: place.key, version: place.changes, bounds: Bounds::of(place) })
    }

    /// Whether it is still the region with this key.
    #[inline(always)]
    pub(super) fn holds(&self, segment: &Segment, key: u32) -> bool {
        let record = Keys::slot_of(key).and_then(|slot| segment.mr(slot));
        // Acquire: what the region's owner did before it changed the record is seen where the change is.
        self.key == key && record.is_some_and(|record| record.sequence.load(Acquire) == self.version)
    }

    /// The distance of `addr` from the region's first byte, where `len` bytes from there on lie within the region.
    #[inline(always)]
    pub(super) fn offset_of(&self, addr: u64, len: u64) -> Option<u64> {
        self.bounds.offset_of(addr, len)
    }
}

/// Addresses of a region that was verified as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    first: u64,
    len: u64,
}

impl Bounds {
    pub(super) fn of(place: &Place) -> Bounds {
        Bounds { first: place.region.addr, len: place.region.len }
    }

    /// The distance of `addr` from the first byte, where `len` bytes from there on lie within.
    #[inline(always)]
    pub(super) fn offset_of(&self, addr: u64, len: u64) -> Option<u64> {
        // An address before the first byte is farther from it than the region is long.
        let offset = addr.wrapping_sub(self.first);
        (offset <= self.len && len <= self.len - offset).then_some(offset)
    }
}
