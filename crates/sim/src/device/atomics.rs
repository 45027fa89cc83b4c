//! Execution of atomics under their locks (ATC'16, 3.4 and 5.4).

use super::locks::IS_ATOMIC;
use super::nic::SimDevice;
use super::reads::{DmaRead, ReadPurpose};
use crate::core::index::{FlightId, LockId, Maybe, UnitId};
use crate::core::ps::Ps;
use crate::core::queue::SimEvent;
use crate::env::Env;
use crate::fabric::PendingAtomic;
use crate::host::Host;
use doorbell_transport::{AtomicOp, Body};

impl SimDevice {
    fn lock_of(&self, addr: u64) -> LockId {
        LockId(self.profile.device.atomics.slot(addr))
    }

    /// Acquires the lock of an atomic, or queues the atomic for its lock. Returns whether `unit`, which
    /// received the atomic, also waits for the lock.
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
        if lock.held_since.is_none() {
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

    /// Handles an atomic that has acquired its lock: starts the DMA read of its word.
    fn locked(&mut self, host: &Host, env: &mut Env, flight: FlightId, number: LockId) {
        self.locks.get(number).held_since = Some(env.now);
        let addr = env.flights[flight].atomic.expect(IS_ATOMIC).addr;
        let (_, stall) = self.translate(host, env, addr, 8);
        self.start_read(env, DmaRead::of(8, ReadPurpose::Atomic { flight }).late(stall));
    }

    /// Handles the word of an atomic in the NIC: changes it, writes it back and answers.
    pub(super) fn atomic_read(&mut self, host: &mut Host, env: &mut Env, flight: FlightId) {
        let atomic = env.flights[flight].atomic.expect(IS_ATOMIC);
        let PendingAtomic { addr, op, resource, life, original } = atomic;
        let new = op.apply(original);
        // A failed compare-and-swap writes nothing.
        if !matches!(op, AtomicOp::CompareSwap { compare, .. } if compare != original) {
            self.write_word(host, env, addr, new, Ps::ZERO);
        }
        env.after(Ps(self.costs.lock_hold), SimEvent::Unlock { device: self.id, lock: self.lock_of(addr) });
        let f = &mut env.flights[flight];
        let qp = f.from_qp;
        if self.qps[qp].life == life {
            self.qps[qp].qp.atomic_done(resource, original);
        }
        f.packet.body = Body::AtomicAck { original };
        f.atomic = None;
        f.ready = true;
        self.answers_ready(env, qp);
    }

    /// Releases a lock for the next atomic.
    pub(crate) fn unlock(&mut self, host: &Host, env: &mut Env, number: LockId) {
        let Some(next) = self.locks.get(number).release(env.now, env.window) else { return };
        let blocked = std::mem::replace(&mut env.flights[next].rx_unit, Maybe::NONE);
        self.locked(host, env, next, number);
        if let Some(unit) = blocked.get() {
            self.rx_goes_on(env, unit);
        }
    }
}
