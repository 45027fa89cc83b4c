//! Polling: what the driver does to hand completions over.

use super::{SimProvider, invalid};
use crate::core::thread::Look;
use crate::device::NONE;
use crate::world::World;
use doorbell_nic::wqe;
use doorbell_verbs::{CqHandle, VerbsError, Wc};

impl SimProvider<'_> {
    /// ibv_poll_cq(3).
    pub(super) fn poll(&self, cq: CqHandle, wc: &mut [Wc]) -> Result<usize, VerbsError> {
        {
            let mut w = self.world.borrow_mut();
            let t = self.thread;
            if w.threads[t as usize].replayed(t, |look| *look == Look::Poll { cq: cq.0 }).is_some() {
                return Ok(0);
            }
        }
        self.sync();
        let mut w = self.world.borrow_mut();
        let World { machines, threads, profile, .. } = &mut *w;
        let nic = &mut machines[usize::from(self.machine)].nic;
        let thread = &mut threads[self.thread as usize];
        let Some(Some(slot)) = nic.cqs.get_mut(cq.0 as usize) else {
            return invalid("there is no such CQ".into());
        };
        if slot.overrun {
            return Err(VerbsError::NoRoom(format!("the CQ of {} entries was overrun", slot.capacity)));
        }
        let host = &profile.host;
        let mut n = 0;
        let mut copied = 0;
        while n < wc.len()
            && let Some(cqe) = slot.entries.pop_front()
        {
            wc[n] = cqe.wc;
            n += 1;
            copied += u64::from(wqe::lines(cqe.inline));
            if cqe.slot != NONE {
                nic.qps[cqe.qp as usize].qp.release(cqe.slot);
            }
        }
        if n == 0 {
            let cost = host.poll_empty.as_ps();
            thread.clock += cost;
            thread.note(Look::Poll { cq: cq.0 }, cost);
        } else {
            thread.effect();
            thread.clock +=
                (host.poll_empty + (host.poll_cqe + host.dma_line) * n as u64 + host.copy_line * copied)
                    .as_ps();
        }
        Ok(n)
    }
}
