//! Execution of atomics under their locks (ATC'16, 3.4 and 5.4).
//!
//! An atomic acquires the lock of its address. In host memory, it reads the word over PCIe, writes the new
//! word, and releases the lock some time later. In the NIC's memory (`device_memory`), the lock is held for a
//! time that is known from the beginning. If a profile says so, an atomic first waits until the earlier
//! atomics of its QP are done.

use super::device_memory::is_own;
use super::hold::UnitHold;
use super::locks::IS_ATOMIC;
use super::nic::SimDevice;
use super::reads::{DmaRead, ReadPurpose};
use crate::core::index::{FlightId, LockId, Maybe, QpId, UnitId};
use crate::core::ps::Ps;
use crate::core::queue::SimEvent;
use crate::env::Env;
use crate::fabric::PendingAtomic;
use crate::host::Host;
use doorbell_transport::{AtomicOp, Body};

impl SimDevice {
    pub(super) fn lock_of(&self, addr: u64) -> LockId {
        LockId(self.profile.device.atomics.slot(addr))
    }

    /// Begins an atomic that `unit` has received, or queues it behind the earlier atomics of its QP. Returns
    /// how the unit waits for the atomic's lock.
    pub(super) fn atomic_received(
        &mut self,
        host: &Host,
        env: &mut Env,
        flight: FlightId,
        unit: Maybe<UnitId>,
    ) -> UnitHold {
        let qp = env.flights[flight].from_qp;
        if self.profile.device.atomics.one_per_qp && self.locks.is_behind_its_qp(qp, flight) {
            return UnitHold::NONE;
        }
        self.lock(host, env, flight, unit)
    }

    /// Acquires the lock of an atomic, or queues the atomic for its lock. Returns how `unit`, which received
    /// the atomic, waits for the lock.
    fn lock(&mut self, host: &Host, env: &mut Env, flight: FlightId, unit: Maybe<UnitId>) -> UnitHold {
        let addr = env.flights[flight].atomic.expect(IS_ATOMIC).addr;
        let blocks = self.profile.device.atomics.blocks_unit;
        if is_own(addr) {
            let wait = self.atomic_on_own(env, flight);
            return UnitHold::for_time(if blocks { wait } else { Ps::ZERO });
        }
        let number = self.lock_of(addr);
        let lock = self.locks.get(number);
        if !lock.is_held() {
            self.locked(host, env, flight, number);
            return UnitHold::NONE;
        }
        lock.waiting.push_back(flight);
        if blocks {
            env.flights[flight].rx_unit = unit;
        }
        UnitHold::for_event(blocks)
    }

    /// Handles an atomic that has acquired its lock: starts the DMA read of its word.
    fn locked(&mut self, host: &Host, env: &mut Env, flight: FlightId, number: LockId) {
        let qp = env.flights[flight].from_qp;
        self.locks.get(number).acquire(qp, env.now);
        let addr = env.flights[flight].atomic.expect(IS_ATOMIC).addr;
        let (_, stall) = self.translate(host, env, addr, 8);
        self.start_read(env, DmaRead::of(8, ReadPurpose::Atomic { flight }).late(stall));
    }

    /// Handles the word of an atomic in the NIC: changes it, writes it back and answers.
    pub(super) fn atomic_read(&mut self, host: &mut Host, env: &mut Env, flight: FlightId) {
        let PendingAtomic { addr, op, original, .. } = env.flights[flight].atomic.expect(IS_ATOMIC);
        let new = op.apply(original);
        // A failed compare-and-swap writes nothing.
        if !matches!(op, AtomicOp::CompareSwap { compare, .. } if compare != original) {
            self.write_word(host, env, addr, new, Ps::ZERO);
        }
        let hold = Ps(self.costs.atomics.hold(op.opcode()));
        env.after(hold, SimEvent::Unlock { device: self.id, lock: self.lock_of(addr) });
        self.atomic_done(env, flight);
    }

    /// Answers an atomic that has its word.
    pub(super) fn atomic_done(&mut self, env: &mut Env, flight: FlightId) {
        let f = &mut env.flights[flight];
        let PendingAtomic { resource, life, original, .. } = f.atomic.expect(IS_ATOMIC);
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
        let (qp, next) = self.locks.get(number).release(env.now, env.window);
        if let Some(next) = next {
            let blocked = std::mem::replace(&mut env.flights[next].rx_unit, Maybe::NONE);
            self.locked(host, env, next, number);
            if let Some(unit) = blocked.get() {
                self.rx_goes_on(env, unit);
            }
        }
        self.atomics_of_qp_go_on(host, env, qp);
    }

    /// Begins the next atomic of a QP whose atomics are executed one after another.
    pub(super) fn atomics_of_qp_go_on(&mut self, host: &Host, env: &mut Env, qp: QpId) {
        if let Some(next) = self.locks.next_of_qp(qp) {
            self.lock(host, env, next, Maybe::NONE);
        }
    }
}
