//! The receiving side of a NIC: from a packet at the port to memory, completions and answers.

use crate::core::queue::Event;
use crate::core::slab::Payload;
use crate::device::tx::FIRST_LID;
use crate::device::{
    Cqe, DmaRead, DmaWrite, Flight, FlowId, NONE, NicState, PendingAtomic, ReadPurpose, Written,
};
use crate::world::World;
use doorbell_nic::wqe;
use doorbell_transport::{Action, AtomicOp, Body, Part, Queue, Source, TxPacket};
use doorbell_verbs::{QpType, Time, Wc};

impl World {
    /// The last bit of a packet would be at its port now, were the port not busy with others.
    pub(crate) fn arrived(&mut self, flight: u32) {
        let Flight { link_bytes, to: (machine, _), port, .. } = self.flights[flight];
        let bytes = u64::from(link_bytes);
        let window = self.window;
        let into = &mut self.machines[usize::from(machine)].nic.ports[usize::from(port)].into;
        let began = self.now - into.duration(bytes).min(self.now);
        let done = into.carry(began, bytes, window);
        if done > self.now {
            self.queue.push(done, Event::Ingress { machine, port, flight });
        } else {
            self.receive_queue(flight);
        }
    }

    /// A packet is in the NIC and waits for a receiving unit.
    pub(crate) fn receive_queue(&mut self, flight: u32) {
        let Flight { packet, link_bytes, from: (from, _), to: (machine, _), port, .. } = self.flights[flight];
        let lost = packet.transport != QpType::Rc && self.loss.draw();
        let nic = &mut self.machines[usize::from(machine)].nic;
        let Some(qp) = nic.find_qp(packet.dest_qp).filter(|_| !lost) else {
            self.drop_flight(flight);
            return self.make_room(machine, port, link_bytes.into());
        };
        self.flights[flight].to.1 = qp;
        let id = FlowId::of(&packet, from, qp);
        let flow = nic.flow(id);
        let starts = !std::mem::replace(&mut flow.served, true);
        if let Some(before) = flow.push(flight) {
            self.flights[before].next = flight;
        }
        if starts {
            nic.rx_waiting.push_back(id);
            if let Some(unit) = nic.rx_idle.pop() {
                self.rx_start(machine, unit.into());
            }
        }
    }

    /// A receiving unit is done with its packet.
    fn rx_goes_on(&mut self, machine: u16, unit: usize) {
        let nic = &mut self.machines[usize::from(machine)].nic;
        if let Some(id) = nic.rx[unit].flow.take() {
            let flow = nic.flow(id);
            flow.served = !flow.is_empty();
            if flow.served {
                nic.rx_waiting.push_back(id);
            }
        }
        self.rx_start(machine, unit);
    }

    /// An idle receiving unit takes up the next packet.
    fn rx_start(&mut self, machine: u16, unit: usize) {
        let nic = &mut self.machines[usize::from(machine)].nic;
        let Some(id) = nic.rx_waiting.pop_front() else { return nic.rx_idle.push(unit as u16) };
        let flights = &self.flights;
        // A flow that waits for a unit has a packet.
        let Some(flight) = nic.flow(id).pop(|first| flights[first].next) else {
            return nic.rx_idle.push(unit as u16);
        };
        self.flights[flight].rx_unit = unit as u32;
        let rx = &mut nic.rx[unit];
        rx.flow = Some(id);
        let start = rx.free_at.max(self.now);
        let Flight { packet, link_bytes, to: (_, qp), port, .. } = self.flights[flight];
        let rx = &self.profile.rx;
        let cost = match packet.body {
            Body::Ack(_) => rx.ack,
            Body::Atomic { .. } => rx.atomic,
            _ => rx.packet,
        }
        .as_ps();
        let end = start + cost + self.context(machine, qp, packet.is_answer());
        let busy = self.window.overlap(start, end);
        let nic = &mut self.machines[usize::from(machine)].nic;
        nic.flow(id).busy += busy;
        nic.rx[unit].busy += busy;
        self.queue.push(end, Event::RxDone { machine, unit: unit as u16, flight });
        self.make_room(machine, port, link_bytes.into());
    }

    /// A receiving unit has looked at a packet.
    pub(crate) fn received(&mut self, flight: u32) {
        let Flight { packet, to: (machine, qp), rx_unit, .. } = self.flights[flight];
        let unit = rx_unit as usize;
        let mut actions = self.take_actions();
        let nic = &mut self.machines[usize::from(machine)].nic;
        let NicState { qps, keys, recv_queues, .. } = nic;
        let slot = &mut qps[qp as usize];
        if slot.alive {
            let recv_queue = &mut recv_queues[slot.recv_queue as usize].queue;
            let unreliable_send = packet.transport != QpType::Rc && matches!(packet.body, Body::Send { .. });
            if unreliable_send && recv_queue.visible() == 0 {
                self.dropped += 1;
            }
            slot.qp.receive(Time::from_ps(self.now), &packet, keys, recv_queue, &mut actions);
        }
        let blocked = self.apply(machine, qp, Some(flight), &actions);
        let busy = self.dma_cost(&actions, self.inline_bytes(machine, qp, Some(flight)) > 0);
        self.give_actions(actions);
        self.arm_timer(machine, qp);
        self.drop_flight(flight);
        let counted = self.window.overlap(self.now, self.now + busy);
        let nic = &mut self.machines[usize::from(machine)].nic;
        nic.rx[unit].free_at = self.now + busy;
        nic.rx[unit].busy += counted;
        if let Some(id) = nic.rx[unit].flow {
            nic.flow(id).busy += counted;
        }
        if !blocked {
            self.rx_goes_on(machine, unit);
        }
    }

    /// Payload bytes of a received packet that come in the CQE of its RECV; 0 where they are placed
    /// in memory.
    fn inline_bytes(&self, machine: u16, qp: u32, received: Option<u32>) -> u32 {
        let Some(flight) = received else { return 0 };
        let packet = &self.flights[flight].packet;
        let Body::Send { part: Part::Only, .. } = packet.body else { return 0 };
        let most = self.machines[usize::from(machine)].nic.qps[qp as usize].max_inl_recv;
        let ud = packet.transport == QpType::Ud;
        let inline = packet.payload_len <= most && self.profile.nic.receives_inline(packet.payload_len, ud);
        if inline { packet.payload_len } else { 0 }
    }

    /// Time that issuing DMAs takes a receiving unit; `inline` tells that payload goes into the CQE.
    fn dma_cost(&self, actions: &[Action], inline: bool) -> u64 {
        let rx = &self.profile.rx;
        actions
            .iter()
            .map(|action| match action {
                Action::Place { .. } if inline => rx.inline_recv.as_ps(),
                Action::Place { .. } | Action::PlaceAtomic { .. } => rx.dma_write.as_ps(),
                // As in the accounting of units, the CQE of a request costs the unit nothing.
                Action::Complete { queue: Queue::Recv, .. } => rx.dma_write.as_ps(),
                Action::RespondRead(_) => rx.dma_read.as_ps(),
                _ => 0,
            })
            .sum()
    }

    pub(crate) fn take_actions(&mut self) -> Vec<Action> {
        self.action_pool.pop().unwrap_or_else(|| Vec::with_capacity(64))
    }

    pub(crate) fn give_actions(&mut self, mut actions: Vec<Action>) {
        actions.clear();
        self.action_pool.push(actions);
    }

    /// Does what a QP asks for. `received` is the packet that caused it. Returns whether the
    /// receiving unit must stand still.
    pub(crate) fn apply(&mut self, machine: u16, qp: u32, received: Option<u32>, actions: &[Action]) -> bool {
        if actions.is_empty() {
            return false;
        }
        let mut blocked = false;
        let places = actions.iter().filter(|a| matches!(a, Action::Place { .. })).count();
        let inline = self.inline_bytes(machine, qp, received);
        for action in actions {
            match *action {
                Action::Place { addr, payload_offset, len } if inline > 0 => {
                    self.place_inline(machine, received, addr, payload_offset, len);
                }
                Action::Place { addr, payload_offset, len } => {
                    self.place(machine, received, addr, payload_offset, len, places == 1);
                }
                Action::PlaceAtomic { addr, original } => {
                    self.translate(machine, addr);
                    self.write_word(machine, addr, original);
                }
                Action::Complete { queue: Queue::Send, wc, slot, signaled, .. } => {
                    self.look_up_wqe(machine, qp, slot);
                    self.complete_send(machine, qp, slot, Cqe { wc, qp, slot, inline: 0 }, signaled);
                }
                Action::Complete { queue: Queue::Recv, wc, .. } => {
                    let wc = Wc { slid: self.sender_lid(received), ..wc };
                    let cq = self.machines[usize::from(machine)].nic.qps[qp as usize].recv_cq;
                    self.write_cqe(machine, cq, Cqe { wc, qp, slot: NONE, inline });
                }
                Action::Respond(answer) => blocked |= self.respond(machine, qp, received, answer),
                Action::RespondRead(stream) => {
                    for answer in stream {
                        self.respond(machine, qp, received, answer);
                    }
                }
                Action::Transmit => self.kick(machine, qp),
                Action::Failed => {}
            }
        }
        blocked
    }

    /// LID of the port that a received datagram comes from; 0 for other packets.
    fn sender_lid(&self, received: Option<u32>) -> u16 {
        let Some(flight) = received else { return 0 };
        let Flight { packet, from: (machine, _), port, .. } = self.flights[flight];
        let ports = self.profile.link.ports as u16;
        if packet.transport == QpType::Ud { FIRST_LID + machine * ports + u16::from(port) } else { 0 }
    }

    /// Writes part of the received payload to memory.
    fn place(&mut self, machine: u16, received: Option<u32>, addr: u64, offset: u32, len: u32, only: bool) {
        let Some(flight) = received else { return };
        let payload = self.flights[flight].payload;
        if only {
            self.flights[flight].payload = Payload::EMPTY;
            self.write_data(machine, addr, payload, offset, len);
        } else {
            let copy = self.payloads.take(len);
            self.payloads.copy(copy, payload, offset, len);
            self.write_data(machine, addr, copy, 0, len);
        }
    }

    /// Payload that travels in the CQE, for which no TLP of its own is sent. The driver copies it when
    /// the completion is polled; here it is in its buffer once the CQE is visible.
    fn place_inline(&mut self, machine: u16, received: Option<u32>, addr: u64, offset: u32, len: u32) {
        let Some(flight) = received else { return };
        let copy = self.payloads.take(len);
        self.payloads.copy(copy, self.flights[flight].payload, offset, len);
        let written = Written::Data { addr, payload: copy, payload_offset: 0, len, done: 0 };
        let index = self.writes.insert(DmaWrite { machine, written, per_line: 0 });
        let visible = self.now + self.profile.pcie.write_latency.as_ps();
        self.queue.push(visible, Event::Visible { machine, write: index });
    }

    /// The NIC needs the WQE again to complete it (ATC'16, figure 13a).
    fn look_up_wqe(&mut self, machine: u16, qp: u32, slot: u32) {
        let entries = u64::from(self.profile.caches.wqe_entries);
        let counted = self.window.contains(self.now);
        let nic = &mut self.machines[usize::from(machine)].nic;
        let wqe = nic.qps[qp as usize].wqes[slot as usize];
        if nic.wqes_entered - wqe.entered < entries {
            nic.wqe_hits += u64::from(counted);
        } else {
            nic.wqe_misses += u64::from(counted);
            self.refetch(machine, wqe::pad(u32::from(wqe.bytes)));
        }
    }

    /// Makes the packet of an answer. Returns whether the receiving unit must stand still for it.
    fn respond(&mut self, machine: u16, qp: u32, received: Option<u32>, answer: TxPacket) -> bool {
        let Some(request) = received else { return false };
        let Flight { from: (to, _), port, rx_unit: unit, .. } = self.flights[request];
        let TxPacket { packet, source } = answer;
        let link_bytes = self.link_bytes(&packet);
        let flight = self.flights.insert(Flight::new(packet, link_bytes, (machine, qp), to, port));
        self.machines[usize::from(machine)].nic.qps[qp as usize].answers.push_back(flight);
        match source {
            Source::Memory { addr, len } => {
                self.flights[flight].payload = self.payloads.take(len);
                self.read_payload(flight, machine, addr, len, 0);
                false
            }
            Source::Atomic { addr, op, resource } => {
                self.flights[flight].atomic = Some(PendingAtomic { addr, op, resource, original: 0 });
                self.lock(flight, unit)
            }
            Source::None | Source::Wqe { .. } => {
                self.flights[flight].ready = true;
                self.answers_ready(machine, qp);
                false
            }
        }
    }

    /// An atomic takes its lock or waits for it; returns whether `unit`, which received it, waits too.
    fn lock(&mut self, flight: u32, unit: u32) -> bool {
        let Flight { from: (machine, _), atomic, .. } = self.flights[flight];
        let Some(atomic) = atomic else { return false };
        let slot = self.profile.atomics.slot(atomic.addr);
        let nic = &mut self.machines[usize::from(machine)].nic;
        let lock = &mut nic.locks[slot as usize];
        if !lock.held {
            self.locked(flight, slot);
            return false;
        }
        lock.waiting.push_back(flight);
        let blocks = self.profile.atomics.blocks_unit;
        if blocks {
            self.flights[flight].rx_unit = unit;
        }
        blocks
    }

    /// An atomic has its lock: it reads the word.
    fn locked(&mut self, flight: u32, slot: u32) {
        let Flight { from: (machine, _), atomic, .. } = self.flights[flight];
        let lock = &mut self.machines[usize::from(machine)].nic.locks[slot as usize];
        lock.held = true;
        lock.since = self.now;
        if let Some(atomic) = atomic {
            self.translate(machine, atomic.addr);
        }
        self.start_read(DmaRead { machine, bytes: 8, purpose: ReadPurpose::Atomic { flight } });
    }

    /// The word of an atomic is in the NIC: it is changed, written and answered.
    pub(crate) fn atomic_read(&mut self, flight: u32) {
        let Flight { from: (machine, qp), atomic, .. } = self.flights[flight];
        let Some(PendingAtomic { addr, op, resource, original }) = atomic else { return };
        let new = op.apply(original);
        // A compare-and-swap that fails has nothing to write.
        if !matches!(op, AtomicOp::CompareSwap { compare, .. } if compare != original) {
            self.write_word(machine, addr, new);
        }
        let slot = self.profile.atomics.slot(addr);
        self.queue.push(self.now + self.times.lock_hold, Event::Unlock { machine, slot: slot as u16 });
        self.machines[usize::from(machine)].nic.qps[qp as usize].qp.atomic_done(resource, original);
        let f = &mut self.flights[flight];
        f.packet.body = Body::AtomicAck { original };
        f.atomic = None;
        f.ready = true;
        self.answers_ready(machine, qp);
    }

    /// A lock is free for the next atomic.
    pub(crate) fn unlock(&mut self, machine: u16, slot: u16) {
        let (now, window) = (self.now, self.window);
        let lock = &mut self.machines[usize::from(machine)].nic.locks[usize::from(slot)];
        lock.busy += window.overlap(lock.since, now);
        lock.held = false;
        let Some(next) = lock.waiting.pop_front() else { return };
        let blocked = std::mem::replace(&mut self.flights[next].rx_unit, NONE);
        self.locked(next, u32::from(slot));
        if blocked != NONE {
            self.rx_goes_on(machine, blocked as usize);
        }
    }

    /// A doorbell for RECVs is at the NIC, which reads them.
    pub(crate) fn recv_doorbell_arrived(&mut self, machine: u16, recv_queue: u32, count: u16) {
        let per_read = self.profile.nic.recv_prefetch.max(1);
        let wqe = self.machines[usize::from(machine)].nic.recv_queues[recv_queue as usize].wqe_bytes;
        let mut left = u32::from(count);
        while left > 0 {
            let part = left.min(per_read);
            left -= part;
            let purpose = ReadPurpose::RecvWqes { recv_queue, count: part as u16 };
            self.start_read(DmaRead { machine, bytes: part * wqe, purpose });
        }
    }

    /// RECVs are in the NIC.
    pub(crate) fn recv_wqes_entered(&mut self, machine: u16, recv_queue: u32, count: u16) {
        let mut actions = self.take_actions();
        let NicState { qps, recv_queues, .. } = &mut self.machines[usize::from(machine)].nic;
        let slot = &mut recv_queues[recv_queue as usize];
        slot.queue.ring(u32::from(count));
        let owner = slot.qp;
        if owner != NONE {
            qps[owner as usize].qp.recv_posted(&mut slot.queue, &mut actions);
            self.apply(machine, owner, None, &actions);
        }
        self.give_actions(actions);
    }

    /// Makes sure that the QP's next time-out is an event.
    pub(crate) fn arm_timer(&mut self, machine: u16, qp: u32) {
        let slot = &mut self.machines[usize::from(machine)].nic.qps[qp as usize];
        if let Some(deadline) = slot.qp.deadline()
            && deadline.as_ps() < slot.timer_at
        {
            slot.timer_at = deadline.as_ps();
            self.queue.push(slot.timer_at.max(self.now), Event::Timer { machine, qp });
        }
    }

    /// A timer event, perhaps of a time-out that has been put off meanwhile.
    pub(crate) fn timer(&mut self, machine: u16, qp: u32) {
        let mut actions = self.take_actions();
        let now = Time::from_ps(self.now);
        let NicState { qps, keys, .. } = &mut self.machines[usize::from(machine)].nic;
        let slot = &mut qps[qp as usize];
        if self.now >= slot.timer_at {
            slot.timer_at = u64::MAX;
        }
        if slot.alive && slot.qp.deadline().is_some_and(|d| d <= now) {
            slot.qp.timeout(now, keys, &mut actions);
        }
        self.apply(machine, qp, None, &actions);
        self.give_actions(actions);
        self.arm_timer(machine, qp);
        if self.machines[usize::from(machine)].nic.qps[qp as usize].alive {
            self.kick(machine, qp);
        }
    }
}
