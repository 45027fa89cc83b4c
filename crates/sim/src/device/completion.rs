//! How work requests end: CQEs, and what completing a WQE needs.

use super::dma::{DmaWrite, Written};
use super::qp::Ended;
use super::{Cqe, Device, QpSlot};
use crate::core::index::{CoreId, CqId, Maybe, QpId, WqeId};
use crate::core::payload::Payload;
use crate::core::queue::Event;
use crate::host::{CoreSet, Host, Kind};
use crate::world::Env;
use doorbell_nic::wqe;

impl Device {
    /// A send work request has ended. Those of a QP complete in order: behind packets that complete theirs
    /// when they leave, it must wait.
    pub(super) fn ended(&mut self, env: &mut Env, qp: QpId, ended: Ended) {
        let slot = &mut self.qps[qp];
        if slot.left < slot.leaving {
            return slot.behind.push_back((slot.leaving, ended));
        }
        self.look_up_wqe(env, qp, ended.wqe);
        self.complete_send(env, qp, ended);
    }

    /// A packet that completes its work request has left, in one of the lives of its QP.
    pub(super) fn left(&mut self, env: &mut Env, qp: QpId, life: u16, ended: Ended) {
        if self.qps[qp].life != life {
            env.totals.verbs += 1;
            return;
        }
        self.complete_send(env, qp, ended);
        self.qps[qp].left += 1;
        while let Some(next) = self.next_behind(qp) {
            self.look_up_wqe(env, qp, next.wqe);
            self.complete_send(env, qp, next);
        }
    }

    /// The next work request that waited for packets to leave that have left.
    #[inline]
    fn next_behind(&mut self, qp: QpId) -> Option<Ended> {
        let QpSlot { behind, left, .. } = &mut self.qps[qp];
        let (after, ended) = *behind.front()?;
        if after > *left {
            return None;
        }
        behind.pop_front();
        Some(ended)
    }

    /// Completes a send work request.
    fn complete_send(&mut self, env: &mut Env, qp: QpId, Ended { wc, wqe, signaled }: Ended) {
        env.totals.verbs += 1;
        let slot = &mut self.qps[qp];
        let (cq, life) = (slot.send_cq, slot.life);
        env.payloads.give(std::mem::replace(&mut slot.wqe(wqe).inline, Payload::EMPTY));
        if signaled {
            self.write_cqe(env, cq, Cqe { wc, qp, life, wqe: Maybe::some(wqe), inline: 0 });
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
    fn look_up_wqe(&mut self, env: &mut Env, qp: QpId, wqe: WqeId) {
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
