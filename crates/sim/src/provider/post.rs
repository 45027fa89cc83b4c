//! Posting: what the driver does until the NIC knows of a work request.

use super::{SimProvider, invalid};
use crate::core::queue::Event;
use crate::core::slab::Payload;
use crate::device::WqeSlot;
use crate::world::World;
use doorbell_nic::accounting::Method;
use doorbell_nic::{PostShape, wqe};
use doorbell_verbs::{PostError, QpHandle, RecvWr, SendFlags, SendWr, VerbsError};

impl SimProvider<'_> {
    /// Sends lines of a WQE, or a doorbell, through the core's write-combining buffers; returns when
    /// the last has left the host.
    fn mmio(&self, writes: u32, cost: u64, doorbell: bool) -> u64 {
        let mut left = 0;
        for _ in 0..writes {
            {
                let mut w = self.world.borrow_mut();
                let buffers = w.profile.host.wc_buffers as usize;
                let t = &mut w.threads[self.thread as usize];
                t.clock += cost;
                while t.mmio_leaves.front().is_some_and(|&l| l <= t.clock) {
                    t.mmio_leaves.pop_front();
                }
                if t.mmio_leaves.len() >= buffers {
                    t.clock = t.mmio_leaves.pop_front().unwrap_or(t.clock).max(t.clock);
                }
            }
            self.sync();
            let mut w = self.world.borrow_mut();
            let (clock, window) = (w.threads[self.thread as usize].clock, w.window);
            let pcie = &mut w.machines[usize::from(self.machine)].pcie;
            left = if doorbell { pcie.doorbell(clock, window) } else { pcie.mmio_line(clock, window) };
            let thread = &mut w.threads[self.thread as usize];
            thread.mmio_leaves.push_back(left);
            thread.serialized = true;
        }
        left
    }

    /// Writes one WQE to the send queue; returns how many lines it has.
    fn build_wqe(&self, qp: QpHandle, wr: &SendWr<'_>) -> Result<u32, VerbsError> {
        let mut w = self.world.borrow_mut();
        let World { machines, payloads, threads, profile, .. } = &mut *w;
        let host = &profile.host;
        let machine = &mut machines[usize::from(self.machine)];
        let slot = machine
            .nic
            .qps
            .get_mut(qp.0 as usize)
            .filter(|q| q.alive)
            .ok_or_else(|| VerbsError::Invalid("there is no such QP".into()))?;
        if let Some(dest) = wr.dest
            && machine.nic.ahs.get(dest.ah.0 as usize).copied().flatten().is_none()
        {
            return invalid("there is no such address handle".into());
        }
        let length = u32::try_from(wr.length()).unwrap_or(u32::MAX);
        let is_inline = wr.flags.contains(SendFlags::INLINE);
        if is_inline && wr.sg_list.iter().any(|s| machine.memory.place(s.addr, u64::from(s.length)).is_none())
        {
            return invalid("inline data outside of the machine's memory".into());
        }
        let index = slot.qp.post_send(wr)?;
        let shape = PostShape {
            opcode: wr.op.opcode(),
            qp_type: slot.qp.qp_type(),
            payload: length,
            sges: wr.sg_list.len() as u32,
            inline: is_inline,
            signaled: wr.flags.contains(SendFlags::SIGNALED),
            method: Method::WqeByMmio,
        };
        let bytes = shape.wqe_bytes();
        let mut inline = Payload::EMPTY;
        if is_inline && length > 0 {
            inline = payloads.take(length);
            let mut into = 0;
            for s in wr.sg_list {
                if let Some(place) = machine.memory.place(s.addr, u64::from(s.length)) {
                    let to = &mut payloads.bytes_mut(inline)[into..][..s.length as usize];
                    to.copy_from_slice(machine.memory.bytes(place, u64::from(s.length)));
                    into += s.length as usize;
                }
            }
        }
        payloads.give(slot.wqes[index as usize].inline);
        slot.wqes[index as usize] = WqeSlot { inline, bytes: bytes as u16, by_mmio: false, entered: 0 };
        slot.posted.push_back(index);
        let lines = wqe::lines(bytes);
        let copied = if is_inline { u64::from(length.div_ceil(wqe::LINE)) } else { 0 };
        threads[self.thread as usize].clock +=
            (host.build_wqe + host.build_line * u64::from(lines) + host.inline_copy_line * copied).as_ps();
        Ok(lines)
    }

    /// Tells the NIC of `count` WQEs, the only one of which has `lines` lines.
    fn announce(&self, qp: QpHandle, count: u32, lines: u32) {
        let (line, doorbell) = {
            let host = &self.world.borrow().profile.host;
            (host.mmio_line.as_ps(), host.doorbell.as_ps())
        };
        let by_mmio = Method::of_list(count) == Method::WqeByMmio;
        let left = if by_mmio { self.mmio(lines, line, false) } else { self.mmio(1, doorbell, true) };
        let mut w = self.world.borrow_mut();
        let at = w.machines[usize::from(self.machine)].pcie.mmio_arrives(left);
        w.queue.push(at, Event::Mmio { machine: self.machine, count: count as u16, qp: qp.0, by_mmio });
    }

    /// Posts RECVs to a receive queue.
    pub(super) fn post_to(&self, recv_queue: u32, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        let (call, each, doorbell) = {
            let host = &self.world.borrow().profile.host;
            (host.post_call, host.post_recv_wqe, host.doorbell)
        };
        let mut posted = 0;
        let mut refused = Ok(());
        for (index, wr) in list.iter().enumerate() {
            let mut w = self.world.borrow_mut();
            let queues = &mut w.machines[usize::from(self.machine)].nic.recv_queues;
            match queues[recv_queue as usize].queue.post(wr) {
                Ok(()) => posted += 1,
                Err(cause) => {
                    refused = Err(PostError { index, cause });
                    break;
                }
            }
        }
        self.advance((call + each * posted).as_ps());
        if posted > 0 {
            let left = self.mmio(1, doorbell.as_ps(), true);
            let mut w = self.world.borrow_mut();
            let at = w.machines[usize::from(self.machine)].pcie.mmio_arrives(left);
            let event = Event::RecvDoorbell { machine: self.machine, count: posted as u16, recv_queue };
            w.queue.push(at, event);
        }
        refused
    }

    /// ibv_post_send(3).
    pub(super) fn post_list(&self, qp: QpHandle, list: &[SendWr<'_>]) -> Result<(), PostError> {
        self.effect();
        let call = self.world.borrow().profile.host.post_call;
        self.advance(call.as_ps());
        let mut lines = 0;
        let mut posted = 0;
        let mut refused = Ok(());
        for (index, wr) in list.iter().enumerate() {
            match self.build_wqe(qp, wr) {
                Ok(n) => {
                    lines = n;
                    posted += 1;
                }
                Err(cause) => {
                    refused = Err(PostError { index, cause });
                    break;
                }
            }
        }
        if posted > 0 {
            self.announce(qp, posted, lines);
        }
        refused
    }

    /// ibv_post_recv(3).
    pub(super) fn post_recv_list(&self, qp: QpHandle, list: &[RecvWr<'_>]) -> Result<(), PostError> {
        self.effect();
        let refuse = |cause| PostError { index: 0, cause };
        self.live_qp(qp).map_err(refuse)?;
        let recv_queue = {
            let w = self.world.borrow();
            let slot = &w.machines[usize::from(self.machine)].nic.qps[qp.0 as usize];
            slot.qp.check_post_recv().map_err(refuse)?;
            slot.recv_queue
        };
        self.post_to(recv_queue, list)
    }
}
