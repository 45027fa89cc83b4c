//! Where locks and what they guard lie.

/// Bytes from a lock to the next: a line.
const APART: u64 = 64;

/// Locks, each in a line of its own, then for each as many slots for what it guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Locks.
    pub locks: u32,
    /// Bytes that each guards; a multiple of 8.
    pub data: u32,
    /// Slots that these may be in.
    pub slots: u32,
}

impl Layout {
    /// Bytes from a slot to the next.
    pub(crate) fn slot(&self) -> u64 {
        u64::from(self.data).next_multiple_of(APART)
    }

    /// Bytes of all of it.
    pub fn bytes(&self) -> u64 {
        u64::from(self.locks) * (APART + u64::from(self.slots) * self.slot())
    }

    /// Where a lock's word is.
    pub(crate) fn word(&self, lock: u32) -> u64 {
        u64::from(lock) * APART
    }

    /// Where a slot is of what a lock guards.
    pub(crate) fn data(&self, lock: u32, slot: u32) -> u64 {
        let before = u64::from(lock) * u64::from(self.slots) + u64::from(slot);
        u64::from(self.locks) * APART + before * self.slot()
    }
}
