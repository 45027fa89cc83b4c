//! The locks under which atomics are executed (ATC'16, 3.4 and 5.4).

use super::Device;
use super::dma::{DmaRead, ReadPurpose};
use crate::core::index::{FlightId, IdVec, LockId, Maybe, UnitId};
use crate::core::queue::Event;
use crate::core::server::Window;
use crate::fabric::PendingAtomic;
use crate::host::Host;
use crate::world::Env;
use doorbell_transport::{AtomicOp, Body};
use std::collections::VecDeque;

/// Why the answer to an atomic knows what is asked for.
pub(super) const IS_ATOMIC: &str = "what takes a lock is the answer to an atomic";

/// A lock, and the answers that wait for it.
#[derive(Default)]
pub(crate) struct Lock {
    held: bool,
    since: u64,
    waiting: VecDeque<FlightId>,
    /// Time in the metering window that it was held.
    pub(crate) busy: u64,
}

impl Lock {
    fn release(&mut self, now: u64, window: Window) -> Option<FlightId> {
        self.busy += window.overlap(self.since, now);
        self.held = false;
        self.waiting.pop_front()
    }
}

/// All locks of a device.
pub(crate) struct Locks {
    /// None before the first atomic.
    locks: IdVec<LockId, Lock>,
    count: u32,
}

impl Locks {
    pub(super) fn new(count: u32) -> Locks {
        Locks { locks: IdVec::new(), count }
    }

    #[inline]
    fn get(&mut self, number: LockId) -> &mut Lock {
        if self.locks.len() == 0 {
            self.locks = (0..self.count).map(|_| Lock::default()).collect();
        }
        &mut self.locks[number]
    }

    /// Whether there has been an atomic.
    pub(crate) fn were_used(&self) -> bool {
        self.locks.len() > 0
    }

    /// The lock that was held longest, the first of several, and for how long.
    pub(crate) fn busiest(&self) -> (LockId, u64) {
        let held = self.locks.named().map(|(id, lock)| (id, lock.busy));
        held.min_by_key(|(_, busy)| std::cmp::Reverse(*busy)).unwrap_or((LockId(0), 0))
    }
}

impl Device {
    fn lock_of(&self, addr: u64) -> LockId {
        LockId(self.profile.device.atomics.slot(addr))
    }

    /// An atomic takes its lock or waits for it; returns whether `unit`, which received it, waits too.
    pub(super) fn lock(
        &mut self,
        host: &Host,
        env: &mut Env,
        flight: FlightId,
        addr: u64,
        unit: Maybe<UnitId>,
    ) -> bool {
        let number = self.lock_of(addr);
        let lock = self.locks.get(number);
        if !lock.held {
            self.locked(host, env, flight, number);
            return false;
        }
        lock.waiting.push_back(flight);
        let blocks = self.profile.device.atomics.blocks_unit;
        if blocks {
            env.flights[flight].rx_unit = unit;
        }
        blocks
    }

    /// An atomic has its lock: it reads the word.
    fn locked(&mut self, host: &Host, env: &mut Env, flight: FlightId, number: LockId) {
        let lock = self.locks.get(number);
        lock.held = true;
        lock.since = env.now;
        let addr = env.flights[flight].atomic.expect(IS_ATOMIC).addr;
        let (_, stall) = self.translate(host, env, addr, 8);
        self.start_read(env, DmaRead::of(8, ReadPurpose::Atomic { flight }).late(stall));
    }

    /// The word of an atomic is in the NIC: it is changed, written and answered.
    pub(super) fn atomic_read(&mut self, host: &mut Host, env: &mut Env, flight: FlightId) {
        let atomic = env.flights[flight].atomic.expect(IS_ATOMIC);
        let PendingAtomic { addr, op, resource, life, original } = atomic;
        let new = op.apply(original);
        // A compare-and-swap that fails has nothing to write.
        if !matches!(op, AtomicOp::CompareSwap { compare, .. } if compare != original) {
            self.write_word(host, env, addr, new, 0);
        }
        env.after(self.costs.lock_hold, Event::Unlock { device: self.id, lock: self.lock_of(addr) });
        let f = &mut env.flights[flight];
        let qp = f.qp;
        if self.qps[qp].life == life {
            self.qps[qp].qp.atomic_done(resource, original);
        }
        f.packet.body = Body::AtomicAck { original };
        f.atomic = None;
        f.ready = true;
        self.answers_ready(env, qp);
    }

    /// A lock is free for the next atomic.
    pub(crate) fn unlock(&mut self, host: &Host, env: &mut Env, number: LockId) {
        let Some(next) = self.locks.get(number).release(env.now, env.window) else { return };
        let blocked = std::mem::replace(&mut env.flights[next].rx_unit, Maybe::NONE);
        self.locked(host, env, next, number);
        if let Some(unit) = blocked.get() {
            self.rx_goes_on(env, unit);
        }
    }
}
