//! How a processing unit is held up.

use crate::core::ps::Ps;

/// How the unit that handles a packet is held up before it goes on to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnitHold {
    /// For how long it stands still.
    pub(super) stall: Ps,
    /// Whether it then waits until an event lets it go on: a port with room, or an atomic that has its lock.
    pub(super) waits: bool,
}

impl UnitHold {
    /// It goes on at once.
    pub(super) const NONE: UnitHold = UnitHold { stall: Ps::ZERO, waits: false };

    /// It stands still for so long.
    #[inline]
    pub(super) const fn for_time(stall: Ps) -> UnitHold {
        UnitHold { stall, waits: false }
    }

    /// It waits for an event, or does not.
    #[inline]
    pub(super) const fn for_event(waits: bool) -> UnitHold {
        UnitHold { stall: Ps::ZERO, waits }
    }
}
