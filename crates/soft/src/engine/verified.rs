//! Facts about a responder that were verified before a message was carried out.
//!
//! The usual path verifies the facts that a message needs, for each message. The direct path keeps these
//! facts for later messages. It uses them as long as the versions in the responder's records are unchanged.

use crate::memory::records::{QpRecord, Shown};
use crate::memory::regions::Place;
use crate::memory::segment::Segment;
use doorbell_transport::{Fault, Keys, check_enabled};
use doorbell_verbs::AccessFlags;
use std::sync::atomic::Ordering::*;

/// A responder QP that takes the messages of a requester. The facts hold as long as the QP's record shows
/// this version.
#[derive(Clone, Copy, Debug)]
pub(super) struct Verified {
    /// State and version of the record. All other facts but the generation were read after it.
    pub(super) shown: Shown,
    pub(super) qpn: u32,
    /// Generation of the QP number.
    pub(super) generation: u32,
    /// Protection domain of the memory that messages access.
    pub(super) pd: u32,
    enabled: AccessFlags,
    max_dest_rd_atomic: u8,
}

impl Verified {
    // The fields are loaded Relaxed. The version was loaded before them, with Acquire, and the owner of the
    // record stores the next version after its changes. So if some of the facts are newer, no later check
    // finds their version again.

    /// Reads the facts about a QP. The QP's record showed this version, and the QP was found to take the
    /// requester's messages.
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

    /// The facts for messages to memory of an SRQ with its own protection domain (XRC).
    pub(super) fn with_pd(self, pd: u32) -> Verified {
        Verified { pd, ..self }
    }

    /// Whether the facts still hold for the QP in this segment.
    #[inline(always)]
    pub(super) fn holds(&self, segment: &Segment) -> bool {
        segment.qp(segment.index_of(self.qpn)).is_some_and(|qp| qp.shown() == self.shown)
    }

    /// Whether the QP takes a one-sided request that needs this right, for memory from `va` on.
    #[inline(always)]
    pub(super) fn check_enabled(&self, need: AccessFlags, va: u64) -> Result<(), Fault> {
        check_enabled(need, va, self.enabled, self.max_dest_rd_atomic)
    }

    /// The memory use of a one-sided request that needs this right.
    #[inline(always)]
    pub(super) fn remote(&self, need: AccessFlags) -> MemoryUse {
        MemoryUse::Remote { pd: self.pd, qpn: self.qpn, need }
    }
}

/// The way in which a message uses the responder's memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum MemoryUse {
    /// By an rkey, with this right, through the QP with this protection domain and number.
    Remote { pd: u32, qpn: u32, need: AccessFlags },
    /// By the lkey of a RECV, in a receive queue with this protection domain.
    Recv { pd: u32 },
}

impl MemoryUse {
    /// Checks `len` bytes from `addr` on; returns the offset of the first byte in the region.
    #[inline(always)]
    pub(super) fn check(self, place: &Place, addr: u64, len: u64) -> Result<u64, Fault> {
        let checked = match self {
            MemoryUse::Remote { pd, qpn, need } => place.check_remote((pd, qpn), addr, len, need),
            MemoryUse::Recv { pd } => place.check(pd, addr, len, AccessFlags::LOCAL_WRITE),
        };
        checked.map_err(|_| self.fault())
    }

    /// The fault if the memory does not exist or may not be used in this way.
    #[inline(always)]
    pub(super) fn fault(self) -> Fault {
        match self {
            MemoryUse::Remote { .. } => Fault::Access,
            MemoryUse::Recv { .. } => Fault::RecvProtection,
        }
    }
}

/// A region of a peer. A message may use every byte of it as long as the region's record shows this version.
#[derive(Clone, Copy, Debug)]
pub(super) struct VerifiedRegion {
    key: u32,
    version: u32,
    bounds: Bounds,
}

impl VerifiedRegion {
    /// The region, if all of it may be used in this way.
    pub(super) fn of(place: &Place, used: MemoryUse) -> Result<VerifiedRegion, Fault> {
        used.check(place, place.region.addr, place.region.len)?;
        Ok(VerifiedRegion { key: place.key, version: place.changes, bounds: Bounds::of(place) })
    }

    /// Whether the region still has this key and is unchanged.
    #[inline(always)]
    pub(super) fn holds(&self, segment: &Segment, key: u32) -> bool {
        let record = Keys::slot_of(key).and_then(|slot| segment.mr(slot));
        // Acquire: a process that sees a change of the record also sees everything that its owner did before
        // the change.
        self.key == key && record.is_some_and(|record| record.sequence.load(Acquire) == self.version)
    }

    /// The offset of `addr` in the region, if `len` bytes from there on lie within the region.
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

    /// The offset of `addr`, if `len` bytes from there on lie within the bounds.
    #[inline(always)]
    pub(super) fn offset_of(&self, addr: u64, len: u64) -> Option<u64> {
        // An address before the first byte wraps around to an offset beyond the region's length.
        let offset = addr.wrapping_sub(self.first);
        (offset <= self.len && len <= self.len - offset).then_some(offset)
    }
}
