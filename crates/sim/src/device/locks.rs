//! The locks under which atomics are executed, and the responses that wait for them.

use crate::core::index::{FlightId, IdVec, LockId, QpId};
use crate::core::ps::Ps;
use crate::core::server::MeterWindow;
use std::collections::VecDeque;

/// Message of a panic if a response that takes a lock has no atomic.
pub(super) const IS_ATOMIC: &str = "only responses to atomics take locks";

/// The holder of a lock.
struct Holder {
    /// The QP that received the atomic.
    qp: QpId,
    /// When the lock was acquired.
    since: Ps,
}

/// A lock, and the responses that wait for it.
#[derive(Default)]
pub(crate) struct AtomicLock {
    holder: Option<Holder>,
    pub(super) waiting: VecDeque<FlightId>,
    /// Time in the metering window for which the lock was held.
    pub(crate) busy: Ps,
}

impl AtomicLock {
    pub(super) fn is_held(&self) -> bool {
        self.holder.is_some()
    }

    pub(super) fn acquire(&mut self, qp: QpId, now: Ps) {
        self.holder = Some(Holder { qp, since: now });
    }

    /// Releases the lock. Returns its holder's QP, and the response that waits longest for the lock.
    pub(super) fn release(&mut self, now: Ps, window: MeterWindow) -> (QpId, Option<FlightId>) {
        let Holder { qp, since } = self.holder.take().expect("a lock that is released is held");
        self.busy += window.overlap(since, now);
        (qp, self.waiting.pop_front())
    }
}

/// All locks of a device.
pub(crate) struct AtomicLocks {
    /// The locks. Empty before the first atomic.
    locks: IdVec<LockId, AtomicLock>,
    count: u32,
    /// For each QP whose atomics are executed one after another: the response of the present atomic, and the
    /// responses that wait for its end.
    of_qps: IdVec<QpId, VecDeque<FlightId>>,
}

impl AtomicLocks {
    pub(super) fn new(count: u32) -> AtomicLocks {
        AtomicLocks { locks: IdVec::new(), count, of_qps: IdVec::new() }
    }

    #[inline]
    pub(super) fn get(&mut self, number: LockId) -> &mut AtomicLock {
        if self.locks.len() == 0 {
            self.locks = (0..self.count).map(|_| AtomicLock::default()).collect();
        }
        &mut self.locks[number]
    }

    /// Adds a response to the atomics of its QP. Returns whether it must wait for the end of another one.
    pub(super) fn is_behind_its_qp(&mut self, qp: QpId, flight: FlightId) -> bool {
        while self.of_qps.get(qp).is_none() {
            self.of_qps.push(VecDeque::new());
        }
        let all = &mut self.of_qps[qp];
        all.push_back(flight);
        all.len() > 1
    }

    /// Removes the present atomic of a QP. Returns the response of the next one. Without an order of the
    /// QP's atomics, there is none.
    pub(super) fn next_of_qp(&mut self, qp: QpId) -> Option<FlightId> {
        let all = self.of_qps.get_mut(qp)?;
        all.pop_front();
        all.front().copied()
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
