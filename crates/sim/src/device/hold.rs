//! How a packet delays the next packet of its sending or receiving unit.

use crate::core::ps::Ps;

/// The delay between a unit's work on a packet and its next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnitHold {
    /// Time that the unit stalls.
    pub(super) stall: Ps,
    /// Whether the unit then waits for an event: a port gets room, or an atomic gets its lock.
    pub(super) waits: bool,
}

impl UnitHold {
    /// The unit begins its next packet at once.
    pub(super) const NONE: UnitHold = UnitHold { stall: Ps::ZERO, waits: false };

    /// The unit stalls for `stall`.
    #[inline]
    pub(super) const fn for_time(stall: Ps) -> UnitHold {
        UnitHold { stall, waits: false }
    }

    /// The unit waits for an event if `waits`.
    #[inline]
    pub(super) const fn for_event(waits: bool) -> UnitHold {
        UnitHold { stall: Ps::ZERO, waits }
    }
}
