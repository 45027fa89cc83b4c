//! The locks under which atomics are executed, and the responses that wait for them.

use crate::core::index::{FlightId, IdVec, LockId};
use crate::core::ps::Ps;
use crate::core::server::MeterWindow;
use std::collections::VecDeque;

/// Message of a panic if a response that takes a lock has no atomic.
pub(super) const IS_ATOMIC: &str = "only responses to atomics take locks";

/// A lock, and the responses that wait for it.
#[derive(Default)]
pub(crate) struct AtomicLock {
    /// When the lock was acquired, if it is held.
    pub(super) held_since: Option<Ps>,
    pub(super) waiting: VecDeque<FlightId>,
    /// Time in the metering window for which the lock was held.
    pub(crate) busy: Ps,
}

impl AtomicLock {
    pub(super) fn release(&mut self, now: Ps, window: MeterWindow) -> Option<FlightId> {
        let since = self.held_since.take().expect("a lock that is released is held");
        self.busy += window.overlap(since, now);
        self.waiting.pop_front()
    }
}

/// All locks of a device.
pub(crate) struct AtomicLocks {
    /// The locks. Empty before the first atomic.
    locks: IdVec<LockId, AtomicLock>,
    count: u32,
}

impl AtomicLocks {
    pub(super) fn new(count: u32) -> AtomicLocks {
        AtomicLocks { locks: IdVec::new(), count }
    }

    #[inline]
    pub(super) fn get(&mut self, number: LockId) -> &mut AtomicLock {
        if self.locks.len() == 0 {
            self.locks = (0..self.count).map(|_| AtomicLock::default()).collect();
        }
        &mut self.locks[number]
    }

    /// Whether any atomic has been executed.
    pub(crate) fn were_used(&self) -> bool {
        self.locks.len() > 0
    }

    /// The lock that was held longest (the first if several were), and how long it was held.
    pub(crate) fn busiest(&self) -> (LockId, Ps) {
        let held = self.locks.named().map(|(id, lock)| (id, lock.busy));
        held.min_by_key(|(_, busy)| std::cmp::Reverse(*busy)).unwrap_or((LockId(0), Ps::ZERO))
    }
}
