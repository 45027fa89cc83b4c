//! Polling: the driver's work to return completions to the program.

use super::{SimProvider, invalid, object};
use crate::core::index::{CqId, DeviceId, DriverLockId};
use crate::core::ps::Ps;
use crate::device::SimDevice;
use crate::host::{AccessKind, Agent};
use crate::world::PassLook;
use crate::world::World;
use doorbell_verbs::{CqHandle, VerbsError, Wc};

impl SimProvider<'_> {
    /// Whether all completions that are visible at this thread's clock are on their way already. Completions
    /// that the world has still to produce become visible after this clock. Only this thread takes
    /// completions from its CQs.
    fn knows_completions(&self, w: &World, device: DeviceId) -> bool {
        let clock = w.threads[self.thread].clock;
        let ahead = |d: &SimDevice| clock < w.env.now + d.pcie.least_write();
        clock <= w.end && w.devices.get(device).is_some_and(ahead)
    }

    /// ibv_poll_cq(3).
    pub(super) fn poll(&self, cq: CqHandle, wc: &mut [Wc]) -> Result<usize, VerbsError> {
        let (device, cq) = (self.device_of(cq.0), object(cq.0));
        let look = PassLook::Poll { device, cq };
        let (replayed, known, lock) = self.with(|w| {
            let replayed = w.threads[self.thread].replayed(self.thread, |l| *l == look);
            let lock = w.devices.get(device).and_then(|device| device.driver.as_ref()?.cq_lock(cq));
            // With cache sizes, even an empty poll affects the accesses of other agents.
            (replayed.is_some(), !w.sized && self.knows_completions(w, device), lock)
        });
        if replayed {
            return Ok(0);
        }
        if let Some(lock) = lock {
            return self.poll_locked((device, cq), lock, wc);
        }
        if !known {
            self.sync();
        }
        self.take_completions(device, cq, wc)
    }

    /// Polls a CQ that several threads poll.
    #[cold]
    #[inline(never)]
    fn poll_locked(
        &self,
        (device, cq): (DeviceId, CqId),
        lock: DriverLockId,
        wc: &mut [Wc],
    ) -> Result<usize, VerbsError> {
        self.acquire(device, lock);
        let found = self.take_completions(device, cq, wc);
        self.with(|w| {
            let found = found.as_ref().map_or(0, |found| *found);
            self.update_tails(w, device, &wc[..found]);
            w.use_guarded(self.thread, device, lock);
        });
        self.release(device, lock);
        found
    }

    /// Takes the visible completions out of a CQ.
    #[inline(always)]
    fn take_completions(&self, device: DeviceId, cq: CqId, wc: &mut [Wc]) -> Result<usize, VerbsError> {
        let look = PassLook::Poll { device, cq };
        self.with(|w| {
            let World { env, devices, threads, hosts, tracer, .. } = w;
            let Some(device) = devices.get_mut(device) else {
                return invalid("there is no such CQ".into());
            };
            let agent = device.agent();
            let SimDevice { cqs, qps, .. } = device;
            let thread = &mut threads[self.thread];
            let Some(Some(slot)) = cqs.get_mut(cq) else {
                return invalid("there is no such CQ".into());
            };
            let (host, core) = (&mut hosts[self.machine], Agent::Core(self.core));
            slot.settle(host, agent, thread.clock.max(env.now));
            if slot.overrun {
                return Err(VerbsError::NoRoom(format!("the CQ of {} entries was overrun", slot.capacity)));
            }
            if slot.is_empty() {
                let looked = thread.clock + Ps(host.costs.poll_empty);
                let done = host.reach_entry(looked, core, slot.ring.whole(slot.polled), AccessKind::Spin);
                let cost = done - thread.clock;
                thread.clock = done;
                thread.note(look, cost);
                w.wake_others(self.machine);
                return Ok(0);
            }
            thread.effect();
            if let Some(tracer) = tracer {
                tracer.polls(slot, wc.len());
            }
            let mut clock = thread.clock + Ps(host.costs.poll_empty);
            let mut n = 0;
            while n < wc.len()
                && let Some(cqe) = slot.take()
            {
                wc[n] = cqe.wc;
                n += 1;
                clock = host.reach_entry(clock, core, slot.ring.whole(slot.polled), AccessKind::Load);
                clock += Ps(host.costs.take_cqe + host.costs.take_inline(cqe.inline));
                slot.polled = slot.ring.next(slot.polled);
                let of = &mut qps[cqe.qp];
                if let Some(wqe) = cqe.wqe.get()
                    && of.life == cqe.life
                {
                    of.qp.release(wqe.0);
                }
            }
            if let Some(tracer) = tracer {
                tracer.polled((self.machine, self.core), device, (thread.clock, clock));
            }
            thread.clock = clock;
            w.wake_others(self.machine);
            Ok(n)
        })
    }
}
