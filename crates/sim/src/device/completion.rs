//! How work requests end: CQEs, and what completing a WQE needs.

use super::dma::{DmaWrite, Written};
use super::{Cqe, Device};
use crate::core::index::{CoreId, CqId, Maybe, QpId, WqeId};
use crate::core::payload::Payload;
use crate::core::queue::Event;
use crate::host::{CoreSet, Host, Kind};
use crate::world::Env;
use doorbell_nic::wqe;
use doorbell_verbs::Wc;

impl Device {
    /// A send work request is done.
    pub(super) fn complete_send(&mut self, env: &mut Env, qp: QpId, wqe: WqeId, wc: Wc, signaled: bool) {
        env.totals.verbs += 1;
        let slot = &mut self.qps[qp];
        let cq = slot.send_cq;
        env.payloads.give(std::mem::replace(&mut slot.wqe(wqe).inline, Payload::EMPTY));
        if signaled {
            self.write_cqe(env, cq, Cqe { wc, qp, wqe: Maybe::some(wqe), inline: 0 });
        }
    }

    /// Starts the DMA write of a completion.
    pub(super) fn write_cqe(&mut self, env: &mut Env, cq: CqId, cqe: Cqe) {
        let bytes = u64::from(self.costs.cqe);
        let (_, last) = self.pcie.write(env.now, 0, bytes, env.window);
        let write = self.dma.writes.insert(DmaWrite { written: Written::Cqe { cq, cqe }, per_line: 0 });
        env.queue.push(last, Event::Visible { device: self.id, write });
    }

    /// A completion is in memory; returns the cores that wait for it.
    pub(super) fn cqe_visible(&mut self, host: &mut Host, now: u64, cq: CqId, cqe: Cqe) -> CoreSet {
        let agent = self.agent();
        let Some(slot) = &mut self.cqs[cq] else { return CoreSet::EMPTY };
        host.access(now, agent, slot.ring.whole(slot.written), Kind::Store);
        slot.written = slot.ring.next(slot.written);
        if slot.entries.len() == slot.capacity {
            slot.overrun = true;
        } else {
            slot.entries.push_back(cqe);
        }
        std::mem::take(&mut slot.watchers)
    }

    /// The NIC needs the WQE again to complete it (ATC'16, figure 13a).
    pub(super) fn look_up_wqe(&mut self, env: &mut Env, qp: QpId, wqe: WqeId) {
        let state = *self.qps[qp].wqe(wqe);
        if !self.caches.wqes.look_up(state.entered, env.counts()) {
            self.refetch(env, wqe::pad(u32::from(state.bytes)));
        }
    }

    /// Whether this thread's host sees a completion in a CQ.
    pub(crate) fn has_completion(&self, cq: CqId) -> bool {
        self.cqs[cq].as_ref().is_none_or(|c| !c.entries.is_empty() || c.overrun)
    }

    /// Lets the thread on a core sleep until the CQ has an entry.
    pub(crate) fn watch_cq(&mut self, host: &mut Host, cq: CqId, core: CoreId) {
        if let Some(slot) = &mut self.cqs[cq] {
            host.add_core(&mut slot.watchers, core);
        }
    }
}
