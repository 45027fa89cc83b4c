//! Ends of work requests: CQEs, and WQEs that the NIC reads again to learn where received data belongs.

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
    /// Ends a send work request. Work requests of a QP complete in order. Some packets complete their work
    /// request when they leave. The completion waits until all earlier such packets have left.
    pub(super) fn ended(&mut self, env: &mut Env, qp: QpId, ended: EndedSend) {
        if ended.brought_data() && !self.caches.wqes.keeps_requests() {
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

    /// Looks up the WQE of a request that a response completes, if the NIC keeps requests until then and
    /// needs the WQE. Returns how long the receiving unit stalls for the WQE: zero if the NIC still has it.
    #[inline]
    pub(super) fn completed_wqe(&mut self, env: &mut Env, qp: QpId, ended: EndedSend) -> Ps {
        if !self.caches.wqes.keeps_requests() || !ended.needs_wqe() {
            return Ps::ZERO;
        }
        let state = *self.qps[qp].wqe(ended.wqe);
        if self.caches.wqes.look_up_completed(state.entered, env.counts()) {
            return Ps::ZERO;
        }
        self.refetch(env, wqe::pad(u32::from(state.bytes)));
        let stall = Ps(self.costs.receive.wqe_stall);
        self.caches.wqes.stalled_completing(env.window.overlap(env.now, env.now + stall));
        stall
    }

    /// Reads the WQE of a response with data again, because the WQE says where the data belongs. The work
    /// request completes after this read.
    fn read_wqe_again(&mut self, env: &mut Env, qp: QpId, bytes: u32, ended: EndedSend) {
        let slot = &mut self.qps[qp];
        slot.leaving += 1;
        let life = slot.life;
        self.start_read(env, DmaRead::of(bytes, ReadPurpose::WqeAgain { qp, life, ended }));
    }

    /// Handles a packet that completes its work request by leaving, or a WQE that was read again. `life` is
    /// the QP's life in which the work request was posted.
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

    /// Takes the next work request from `behind`, if all packets for which it waits have left.
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

    /// Handles a completion that has become visible in an awaited CQ. Returns the cores that wait for it.
    pub(crate) fn completion_visible(&mut self, host: &mut Host, now: Ps, cq: CqId) -> CoreSet {
        let agent = self.agent();
        let Some(slot) = &mut self.cqs[cq] else { return CoreSet::EMPTY };
        slot.settle(host, agent, now);
        slot.take_watchers()
    }

    /// Whether a CQ shows a completion. Also true for a CQ that does not exist, because no completion will
    /// come.
    pub(crate) fn has_completion(&self, now: Ps, cq: CqId) -> bool {
        self.cqs[cq].as_ref().is_none_or(|slot| slot.is_ready(now))
    }

    /// The lines of the CQ entry that is polled next.
    ///
    /// # Panics
    /// If the CQ does not exist.
    pub(crate) fn next_cqe(&self, cq: CqId) -> Lines {
        let slot = self.cqs[cq].as_ref().expect("a polled CQ exists");
        slot.ring.whole(slot.polled).lines()
    }

    /// Lets the thread on a core sleep until the CQ shows a completion. The CQ shows none now.
    pub(crate) fn watch_cq(&mut self, host: &mut Host, queue: &mut EventQueue, cq: CqId, core: CoreId) {
        let Some(slot) = &mut self.cqs[cq] else { return };
        if let Some(visible) = slot.watch(host, core) {
            queue.push(visible, SimEvent::Completion { device: self.id, cq });
        }
    }
}
