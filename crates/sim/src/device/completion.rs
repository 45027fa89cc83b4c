//! How work requests end: CQEs, and what completing a WQE needs.

use super::nic::SimDevice;
use super::qp::{Cqe, EndedSend, QpSlot};
use super::reads::{DmaRead, ReadPurpose};
use crate::core::index::{CoreId, CqId, Maybe, QpId};
use crate::core::payload::Payload;
use crate::core::ps::Ps;
use crate::core::queue::{EventQueue, SimEvent};
use crate::env::Env;
use crate::host::{CoreSet, Host, Lines};
use doorbell_nic::wqe;

impl SimDevice {
    /// A send work request has ended. Those of a QP complete in order: behind packets that complete theirs
    /// when they leave, it must wait.
    pub(super) fn ended(&mut self, env: &mut Env, qp: QpId, ended: EndedSend) {
        if ended.brought_data() {
            let state = *self.qps[qp].wqe(ended.wqe);
            if !self.caches.wqes.look_up_asked(state.asked, env.counts()) {
                return self.read_wqe_again(env, qp, wqe::pad(u32::from(state.bytes)), ended);
            }
        }
        let slot = &mut self.qps[qp];
        if slot.left < slot.leaving {
            return slot.behind.get_or_insert_default().push_back((slot.leaving, ended));
        }
        self.complete_send(env, qp, ended);
    }

    /// The NIC needs the WQE of an answer with data again, which says where they belong, and completes it then.
    fn read_wqe_again(&mut self, env: &mut Env, qp: QpId, bytes: u32, ended: EndedSend) {
        let slot = &mut self.qps[qp];
        slot.leaving += 1;
        let life = slot.life;
        self.start_read(env, DmaRead::of(bytes, ReadPurpose::WqeAgain { qp, life, ended }));
    }

    /// A packet that completes its work request has left, or its WQE was read again, in one of the lives of its QP.
    pub(super) fn left(&mut self, env: &mut Env, qp: QpId, life: u16, ended: EndedSend) {
        if self.qps[qp].life != life {
            env.totals.verbs += 1;
            return;
        }
        self.complete_send(env, qp, ended);
        self.qps[qp].left += 1;
        while let Some(next) = self.next_behind(qp) {
            self.complete_send(env, qp, next);
        }
    }

    /// The next work request that waited for packets to leave that have left.
    #[inline]
    fn next_behind(&mut self, qp: QpId) -> Option<EndedSend> {
        let QpSlot { behind, left, .. } = &mut self.qps[qp];
        let behind = behind.as_mut()?;
        let (after, ended) = *behind.front()?;
        if after > *left {
            return None;
        }
        behind.pop_front();
        Some(ended)
    }

    /// Completes a send work request.
    fn complete_send(&mut self, env: &mut Env, qp: QpId, EndedSend { wc, wqe, signaled }: EndedSend) {
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
        let hop = self.cqs[cq].as_ref().map_or(Ps::ZERO, |slot| slot.hop);
        let (_, visible) = self.pcie.write(env.now, (0, bytes), hop, env.window);
        let Some(slot) = &mut self.cqs[cq] else { return };
        if slot.send(visible, cqe) {
            env.queue.push(visible, SimEvent::Completion { device: self.id, cq });
        }
    }

    /// A completion has become visible that somebody waits for; returns the cores that do.
    pub(crate) fn completion_visible(&mut self, host: &mut Host, now: Ps, cq: CqId) -> CoreSet {
        let agent = self.agent();
        let Some(slot) = &mut self.cqs[cq] else { return CoreSet::EMPTY };
        slot.settle(host, agent, now);
        slot.take_watchers()
    }

    /// Whether a completion is to be seen in a CQ, or never will be.
    pub(crate) fn has_completion(&self, now: Ps, cq: CqId) -> bool {
        self.cqs[cq].as_ref().is_none_or(|slot| slot.is_ready(now))
    }

    /// The lines of the entry of a CQ that is looked at next.
    ///
    /// # Panics
    /// If there is no such CQ.
    pub(crate) fn next_cqe(&self, cq: CqId) -> Lines {
        let slot = self.cqs[cq].as_ref().expect("a CQ that is polled is there");
        slot.ring.whole(slot.polled).lines()
    }

    /// Lets the thread on a core sleep until the CQ, in which there is nothing to be seen, has an entry.
    pub(crate) fn watch_cq(&mut self, host: &mut Host, queue: &mut EventQueue, cq: CqId, core: CoreId) {
        let Some(slot) = &mut self.cqs[cq] else { return };
        if let Some(visible) = slot.watch(host, core) {
            queue.push(visible, SimEvent::Completion { device: self.id, cq });
        }
    }
}
