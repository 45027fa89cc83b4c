//! Locks of the driver, as contended memory.
//!
//! A lock is a word that threads test before they try an atomic (pthread_spin_lock(3)). All its time comes
//! from accesses to its line: of the holder, and of the threads that spin. When the holder releases the lock,
//! every spinning thread loads the line again, and then tries an atomic. One of them succeeds. The line
//! serves these accesses one after the other, so a release takes the longer the more threads spin.

use super::state::World;
use super::thread::{Thread, Waiting};
use crate::core::index::{DeviceId, DriverLockId, ThreadId};
use crate::core::ps::Ps;
use crate::host::{AccessKind, Agent, Lines};

impl World {
    /// Lets a thread's core access a line from `at` on. Returns when the access is done.
    fn reach(&mut self, at: Ps, thread: ThreadId, line: Lines, kind: AccessKind) -> Ps {
        let Thread { machine, core, .. } = self.threads[thread];
        let done = self.hosts[machine].access(at, Agent::Core(core), line, kind).done;
        self.wake_others(machine);
        done
    }

    /// Lets a thread access a line at its clock, and moves the clock to the end of the access.
    fn reach_now(&mut self, thread: ThreadId, line: Lines, kind: AccessKind) {
        let clock = self.threads[thread].clock;
        self.threads[thread].clock = self.reach(clock, thread, line, kind);
    }

    /// Lets a thread wait until its core's MMIO writes have left the core.
    pub(crate) fn drain(&mut self, thread: ThreadId) {
        let t = &mut self.threads[thread];
        t.clock = t.clock.max(self.hosts[t.machine].cores[t.core].drained);
    }

    /// Lets a thread try to acquire a lock at its clock. Returns false if the thread spins from now on. It is
    /// scheduled when it has the lock.
    pub(crate) fn try_lock(&mut self, thread: ThreadId, device: DeviceId, lock: DriverLockId) -> bool {
        let line = self.devices[device].lock_mut(lock).line(0);
        self.reach_now(thread, line, AccessKind::Atomic);
        if self.devices[device].lock_mut(lock).holder.is_none() {
            self.devices[device].lock_mut(lock).holder = Some(thread);
            return true;
        }
        self.reach_now(thread, line, AccessKind::Load);
        let t = &mut self.threads[thread];
        t.waiting = Waiting::Lock;
        self.devices[device].lock_mut(lock).spinning.push_back((thread, t.clock));
        false
    }

    /// Lets the holder of a lock access the other lines that the lock guards.
    pub(crate) fn use_guarded(&mut self, thread: ThreadId, device: DeviceId, lock: DriverLockId) {
        for number in 1..self.devices[device].lock_mut(lock).lines {
            let line = self.devices[device].lock_mut(lock).line(number);
            self.reach_now(thread, line, AccessKind::Store);
        }
    }

    /// Lets a thread access a line that a lock guards, at its clock and without the lock.
    pub(crate) fn use_line(
        &mut self,
        thread: ThreadId,
        (device, lock): (DeviceId, DriverLockId),
        number: u8,
        kind: AccessKind,
    ) {
        let line = self.devices[device].lock_mut(lock).line(number);
        self.reach_now(thread, line, kind);
    }

    /// Lets a thread release a lock at its clock.
    pub(crate) fn unlock(&mut self, thread: ThreadId, device: DeviceId, lock: DriverLockId) {
        let line = self.devices[device].lock_mut(lock).line(0);
        self.reach_now(thread, line, AccessKind::Store);
        let released = self.threads[thread].clock;
        let held = self.devices[device].lock_mut(lock).holder.take();
        assert!(held == Some(thread), "only its holder releases a lock");
        self.hand_over(device, lock, released);
    }

    /// Lets the threads that spin see that a lock was released, and try to acquire it. The first of them,
    /// which spins for the longest time, succeeds.
    fn hand_over(&mut self, device: DeviceId, lock: DriverLockId, released: Ps) {
        let line = self.devices[device].lock_mut(lock).line(0);
        let spinning = self.devices[device].lock_mut(lock).spinning.len();
        for at in 0..spinning {
            let (thread, ready) = self.devices[device].lock_mut(lock).spinning[at];
            let seen = self.reach(released.max(ready), thread, line, AccessKind::Load);
            self.devices[device].lock_mut(lock).spinning[at].1 = seen;
        }
        for at in 0..spinning {
            let (thread, seen) = self.devices[device].lock_mut(lock).spinning[at];
            let tried = self.reach(seen, thread, line, AccessKind::Atomic);
            self.devices[device].lock_mut(lock).spinning[at].1 = tried;
        }
        let Some((next, acquired)) = self.devices[device].lock_mut(lock).spinning.pop_front() else { return };
        for at in 0..spinning - 1 {
            let (thread, tried) = self.devices[device].lock_mut(lock).spinning[at];
            let again = self.reach(tried, thread, line, AccessKind::Load);
            self.devices[device].lock_mut(lock).spinning[at].1 = again;
        }
        self.devices[device].lock_mut(lock).holder = Some(next);
        let t = &mut self.threads[next];
        t.waiting = Waiting::Turn;
        t.clock = acquired;
        self.schedule(next, acquired);
    }
}
