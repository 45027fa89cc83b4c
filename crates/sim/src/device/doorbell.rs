//! How WQEs reach the NIC: by MMIO, or by a doorbell followed by DMA reads.

use super::nic::SimDevice;
use super::qp::{QpSlot, WqeSlot};
use super::reads::{DmaRead, ReadPurpose};
use crate::core::index::{QpId, RecvQueueId, WqeId};
use crate::core::ps::Ps;
use crate::env::Env;
use crate::host::{AccessKind, Core, Host, Mmio};
use doorbell_nic::accounting::doorbell_fetches;
use doorbell_nic::wqe;

/// Message of a panic if an announced WQE does not exist.
const POSTED: &str = "a doorbell announces only posted WQEs";

impl SimDevice {
    /// Handles an MMIO write that leaves its core.
    pub(crate) fn mmio_out(&mut self, env: &mut Env, core: &mut Core) {
        let Mmio { leaves, hop, doorbell, last, then } =
            core.mmio.pop_front().expect("an MMIO write that leaves a core is in the core's queue");
        let left = match doorbell {
            true => self.pcie.doorbell(leaves, env.window),
            false => self.pcie.mmio_line(leaves, env.window),
        };
        core.mmio_left.push_back(left);
        if last {
            env.queue.push_packed(self.pcie.mmio_arrives(left) + hop, then);
        }
    }

    /// Handles WQEs written by MMIO, or a doorbell, at the NIC.
    pub(crate) fn mmio_arrived(&mut self, env: &mut Env, (qp, life): (QpId, u16), count: u16, by_mmio: bool) {
        if self.qps[qp].life != life {
            return; // The QP was reset or destroyed, and has forgotten its posted WQEs.
        }
        if by_mmio {
            return self.wqes_entered(env, qp, count, true);
        }
        for group in doorbell_fetches(&self.profile.device.nic, u32::from(count)) {
            let slot = &mut self.qps[qp];
            let announced = slot.fetching..slot.fetching + group;
            slot.fetching += group;
            let first = slot.wqes.posted(announced.start).expect(POSTED);
            let slots = announced.map(|number| slot.wqes.posted(number).expect(POSTED));
            let bytes = slots.map(|s| wqe::pad(slot.wqes.bytes(s))).sum();
            let purpose = ReadPurpose::SendWqes { qp, life, first, count: group as u16 };
            self.start_read(env, DmaRead::of(bytes, purpose));
        }
    }

    /// Reads send WQEs from the ring. Returns when memory and caches have delivered the lines.
    pub(super) fn load_send_ring(&self, host: &mut Host, now: Ps, qp: QpId, first: WqeId, count: u16) -> Ps {
        let QpSlot { ring, wqes, .. } = &self.qps[qp];
        let mut entry = first.0;
        let mut done = now;
        for _ in 0..count {
            let bytes = wqes.bytes(WqeId(entry));
            done = done.max(host.reach_entry(now, self.agent(), ring.entry(entry, bytes), AccessKind::Load));
            entry = ring.next(entry);
        }
        done
    }

    /// Reads RECVs from the ring. Returns when memory and caches have delivered the lines.
    pub(super) fn load_recv_ring(&mut self, host: &mut Host, now: Ps, queue: RecvQueueId, count: u16) -> Ps {
        let agent = self.agent();
        let slot = &mut self.recv_queues[queue];
        let mut done = now;
        for _ in 0..count {
            done = done.max(host.reach_entry(now, agent, slot.ring.whole(slot.read), AccessKind::Load));
            slot.read = slot.ring.next(slot.read);
        }
        done
    }

    /// Handles the next `count` posted WQEs of a QP, which have arrived in the NIC.
    pub(super) fn wqes_entered(&mut self, env: &mut Env, qp: QpId, count: u16, by_mmio: bool) {
        env.with_actions(|env, actions| {
            let SimDevice { qps, caches, .. } = self;
            let slot = &mut qps[qp];
            slot.was_idle |= slot.is_idle();
            // The store of requests takes a WQE that came by DMA only when its request is sent.
            let at_once = by_mmio || !caches.wqes.keeps_requests();
            for _ in 0..count {
                let wqe = slot.wqes.pop_posted().expect(POSTED);
                let state = slot.wqe(wqe);
                state.by_mmio = by_mmio;
                state.entered = if at_once { caches.wqes.enter() } else { WqeSlot::NOT_ENTERED };
            }
            if !by_mmio {
                slot.fetching -= u32::from(count);
            }
            slot.qp.ring(count.into(), actions);
            self.settle_all(env, qp, actions);
        });
        self.kick(env, qp);
    }

    /// Handles a doorbell for RECVs at the NIC, which then reads the RECVs.
    pub(crate) fn recv_doorbell_arrived(&mut self, env: &mut Env, recv_queue: RecvQueueId, count: u16) {
        let per_read = self.profile.device.nic.recv_prefetch.max(1);
        let wqe = self.recv_queues[recv_queue].wqe_bytes;
        let mut left = u32::from(count);
        while left > 0 {
            let part = left.min(per_read);
            left -= part;
            let purpose = ReadPurpose::RecvWqes { recv_queue, count: part as u16 };
            self.start_read(env, DmaRead::of(part * wqe, purpose));
        }
    }

    /// Handles RECVs that have arrived in the NIC.
    pub(super) fn recv_wqes_entered(&mut self, env: &mut Env, recv_queue: RecvQueueId, count: u16) {
        let slot = &mut self.recv_queues[recv_queue];
        slot.queue.ring(u32::from(count));
        if let Some(owner) = slot.qp.get().filter(|&owner| self.qps[owner].alive) {
            self.flush_recvs(env, owner);
        }
    }
}
