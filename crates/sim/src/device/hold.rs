//! How packets hold up a processing unit.

use crate::core::ps::Ps;

/// How a packet holds up its unit before the unit goes on to the next packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnitHold {
    /// Time that the unit stands still.
    pub(super) stall: Ps,
    /// Whether the unit then waits for an event: a port gets room, or an atomic gets its lock.
    pub(super) waits: bool,
}

impl UnitHold {
    /// The unit goes on at once.
    pub(super) const NONE: UnitHold = UnitHold { stall: Ps::ZERO, waits: false };

    /// The unit stands still for `stall`.
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
