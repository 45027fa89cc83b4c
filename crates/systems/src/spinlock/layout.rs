//! Layout of locks and their data.

/// Bytes from one lock to the next: a cache line.
const APART: u64 = 64;

/// Locks, each in a cache line of its own, followed by the slots for each lock's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Number of locks.
    pub locks: u32,
    /// Bytes that each lock guards; a multiple of 8.
    pub data: u32,
    /// Slots for each lock's data.
    pub slots: u32,
}

impl Layout {
    /// Bytes from one slot to the next.
    pub(crate) fn slot(&self) -> u64 {
        u64::from(self.data).next_multiple_of(APART)
    }

    /// Bytes of all locks and slots.
    pub fn bytes(&self) -> u64 {
        u64::from(self.locks) * (APART + u64::from(self.slots) * self.slot())
    }

    /// Offset of a lock's word.
    pub(crate) fn word(&self, lock: u32) -> u64 {
        u64::from(lock) * APART
    }

    /// Offset of a slot for a lock's data.
    pub(crate) fn data(&self, lock: u32, slot: u32) -> u64 {
        let before = u64::from(lock) * u64::from(self.slots) + u64::from(slot);
        u64::from(self.locks) * APART + before * self.slot()
    }
}
