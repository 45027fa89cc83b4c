//! The sending side of a NIC: from a doorbell to a packet on the wire.

use crate::core::queue::Event;
use crate::core::slab::Payload;
use crate::device::{Cqe, DmaRead, Flight, NONE, NicState, QpSlot, ReadPurpose, TxWork, tx_event};
use crate::world::World;
use doorbell_nic::accounting::doorbell_fetches;
use doorbell_nic::wqe;
use doorbell_transport::{Action, Body, Packet, Part, Queue, Source, TxPacket};
use doorbell_verbs::{LinkLayer, SendFlags, Time, UdDest};

/// First LID of the fabric; machine m's port p (from 0) has `FIRST_LID + m * ports + p`.
pub(crate) const FIRST_LID: u16 = 1;

impl World {
    /// WQEs written by MMIO, or a doorbell, are at the NIC.
    pub(crate) fn mmio_arrived(&mut self, machine: u16, qp: u32, count: u16, by_mmio: bool) {
        if by_mmio {
            return self.wqes_entered(machine, qp, count, true);
        }
        for group in doorbell_fetches(&self.profile.nic, u32::from(count)) {
            let slot = &mut self.machines[usize::from(machine)].nic.qps[qp as usize];
            let first = slot.fetching as usize;
            let group = group.min((slot.posted.len() - first.min(slot.posted.len())) as u32);
            let bytes = slot
                .posted
                .iter()
                .skip(first)
                .take(group as usize)
                .map(|&s| wqe::pad(u32::from(slot.wqes[s as usize].bytes)))
                .sum();
            slot.fetching += group;
            if group > 0 {
                let purpose = ReadPurpose::SendWqes { qp, count: group as u16 };
                self.start_read(DmaRead { machine, bytes, purpose });
            }
        }
    }

    /// The next `count` posted WQEs of a QP are in the NIC.
    pub(crate) fn wqes_entered(&mut self, machine: u16, qp: u32, count: u16, by_mmio: bool) {
        let mut actions = self.take_actions();
        let nic = &mut self.machines[usize::from(machine)].nic;
        let slot = &mut nic.qps[qp as usize];
        let mut entered = 0;
        for _ in 0..count {
            // A reset or destroyed QP has forgotten what was posted.
            let Some(s) = slot.posted.pop_front() else { break };
            entered += 1;
            nic.wqes_entered += 1;
            let state = &mut slot.wqes[s as usize];
            state.by_mmio = by_mmio;
            state.entered = nic.wqes_entered;
        }
        if !by_mmio {
            slot.fetching = slot.fetching.saturating_sub(entered);
        }
        slot.qp.ring(entered, &mut actions);
        self.apply(machine, qp, None, &actions);
        self.give_actions(actions);
        self.kick(machine, qp);
    }

    /// Has the QP served by a sending unit.
    pub(crate) fn kick(&mut self, machine: u16, qp: u32) {
        let nic = &mut self.machines[usize::from(machine)].nic;
        let slot = &mut nic.qps[qp as usize];
        if !slot.active {
            slot.active = true;
            self.give_work(machine, qp, TxWork::Requests);
        }
    }

    fn give_work(&mut self, machine: u16, qp: u32, work: TxWork) {
        let nic = &mut self.machines[usize::from(machine)].nic;
        let slot = &mut nic.qps[qp as usize];
        slot.work.push_back(work);
        if !slot.served {
            slot.served = true;
            nic.tx_waiting.push_back(qp);
            if let Some(unit) = nic.tx_idle.pop() {
                self.tx_start(machine, unit.into());
            }
        }
    }

    /// A sending unit is done with its packet.
    pub(crate) fn tx_unit(&mut self, machine: u16, unit: usize) {
        let Some((flight, _)) = self.machines[usize::from(machine)].nic.tx[unit].current else { return };
        let left = if self.flights[flight].packet.is_answer() {
            self.depart(flight, unit as u32)
        } else {
            self.request_made(flight, unit as u32)
        };
        if left {
            self.unit_goes_on(machine, unit);
        }
    }

    /// A sending unit has handed its packet on.
    fn unit_goes_on(&mut self, machine: u16, unit: usize) {
        let nic = &mut self.machines[usize::from(machine)].nic;
        if let Some((_, qp)) = nic.tx[unit].current.take() {
            // Behind the others: QPs have the units in turn.
            nic.tx_waiting.push_back(qp);
        }
        self.tx_start(machine, unit);
    }

    /// An idle sending unit takes up work of the next QP. A QP has one unit at a time.
    fn tx_start(&mut self, machine: u16, unit: usize) {
        loop {
            let nic = &mut self.machines[usize::from(machine)].nic;
            let Some(qp) = nic.tx_waiting.pop_front() else { return nic.tx_idle.push(unit as u16) };
            if let Some((flight, cost)) = self.next_work(machine, qp) {
                let end = self.now + cost;
                let window = self.window;
                let nic = &mut self.machines[usize::from(machine)].nic;
                let busy = window.overlap(self.now, end);
                nic.qps[qp as usize].tx_busy += busy;
                nic.tx[unit].current = Some((flight, qp));
                nic.tx[unit].busy += busy;
                return self.queue.push(end, tx_event(machine, unit));
            }
        }
    }

    /// The next packet of a QP, whatever it is, and what it costs a unit.
    fn next_work(&mut self, machine: u16, qp: u32) -> Option<(u32, u64)> {
        loop {
            let slot = &mut self.machines[usize::from(machine)].nic.qps[qp as usize];
            let started = match slot.work.pop_front() {
                Some(TxWork::Answer(flight)) => Some((flight, self.answer_cost(flight))),
                Some(TxWork::Requests) => self.next_request(machine, qp),
                None => {
                    slot.served = false;
                    return None;
                }
            };
            if started.is_some() {
                return started;
            }
        }
    }

    fn answer_cost(&self, flight: u32) -> u64 {
        let tx = &self.profile.tx;
        match self.flights[flight].packet.body {
            Body::Ack(_) => tx.ack,
            Body::ReadResponse { part: Part::Middle | Part::Last } => tx.extra_packet,
            _ => tx.response,
        }
        .as_ps()
    }

    /// The next request of a QP and what it costs the unit; none where the QP has nothing to send.
    fn next_request(&mut self, machine: u16, qp: u32) -> Option<(u32, u64)> {
        let slot = &mut self.machines[usize::from(machine)].nic.qps[qp as usize];
        if slot.qp.all_sent() {
            slot.active = false;
            return None;
        }
        let mut actions = self.take_actions();
        let now = Time::from_ps(self.now);
        let NicState { qps, keys, .. } = &mut self.machines[usize::from(machine)].nic;
        let slot = &mut qps[qp as usize];
        let next = if slot.alive { slot.qp.next_request(now, keys, &mut actions) } else { None };
        let Some(TxPacket { packet, source: Source::Wqe { slot: wqe, offset, len } }) = next else {
            slot.active = false;
            self.apply(machine, qp, None, &actions);
            self.give_actions(actions);
            self.arm_timer(machine, qp);
            return None;
        };
        let dest = slot.qp.send_wqe(wqe).dest;
        let cost = self.request_cost(machine, qp, wqe, &packet, len);
        let (to, port) = self.destination(machine, qp, dest);
        let link_bytes = self.link_bytes(&packet);
        let mut flight = Flight::new(packet, link_bytes, (machine, qp), to, port);
        flight.gather = (wqe, offset, len);
        // On UC and UD the last completion is this packet's own.
        let own = match actions.last() {
            Some(&Action::Complete { queue: Queue::Send, wc, slot, signaled, .. }) if slot == wqe => {
                flight.completion = Some((wc, slot, signaled));
                1
            }
            _ => 0,
        };
        self.apply(machine, qp, None, &actions[..actions.len() - own]);
        self.give_actions(actions);
        self.arm_timer(machine, qp);
        let flight = self.flights.insert(flight);
        self.machines[usize::from(machine)].nic.qps[qp as usize].work.push_back(TxWork::Requests);
        Some((flight, cost))
    }

    /// Time a request takes its sending unit, with what the caches miss.
    fn request_cost(&mut self, machine: u16, qp: u32, wqe_slot: u32, packet: &Packet, len: u32) -> u64 {
        let tx = self.profile.tx;
        let counted = self.window.contains(self.now);
        let entries = u64::from(self.profile.caches.wqe_entries);
        let nic = &mut self.machines[usize::from(machine)].nic;
        let slot = &mut nic.qps[qp as usize];
        let wqe = slot.qp.send_wqe(wqe_slot);
        let state = &mut slot.wqes[wqe_slot as usize];
        let inline = wqe.flags.contains(SendFlags::INLINE);
        let reads = if len > 0 && !inline { wqe.sges.len() as u64 } else { 0 };
        let begins = match packet.body {
            Body::Send { part, .. } | Body::Write { part, .. } => part.begins(),
            _ => true,
        };
        let mut cost = reads * tx.payload_dma.as_ps();
        if begins {
            cost += match packet.body {
                Body::ReadRequest(_) => tx.read_request,
                Body::Atomic { .. } => tx.atomic_request,
                _ => tx.send,
            }
            .as_ps();
            let lines = wqe::lines(u32::from(state.bytes));
            cost += u64::from(lines.saturating_sub(1)) * tx.extra_line.as_ps();
            let evicted = nic.wqes_entered - state.entered >= entries;
            // A WQE that the NIC reads costs the same again where it fell out of the cache.
            if !state.by_mmio {
                cost += tx.fetched_wqe.as_ps();
            } else if evicted {
                cost += self.times.wqe_stall;
            }
            if evicted {
                nic.wqes_entered += 1;
                state.entered = nic.wqes_entered;
                nic.wqe_misses += u64::from(counted);
            } else {
                nic.wqe_hits += u64::from(counted);
            }
            if evicted {
                self.refetch(machine, lines * wqe::LINE);
            }
        } else {
            cost += tx.extra_packet.as_ps();
        }
        cost + self.context(machine, qp, true)
    }

    /// Looks up a QP context; returns how long the unit stands still for it.
    pub(crate) fn context(&mut self, machine: u16, qp: u32, requester: bool) -> u64 {
        let counted = self.window.contains(self.now);
        let nic = &mut self.machines[usize::from(machine)].nic;
        let cache = if requester { &mut nic.requester_contexts } else { &mut nic.responder_contexts };
        if cache.touch(qp, counted) {
            return 0;
        }
        self.refetch(machine, self.profile.caches.context);
        self.times.context_stall
    }

    /// Machine and own port of what a QP sends; a port without a peer leads to machine `u16::MAX`.
    fn destination(&self, machine: u16, qp: u32, dest: Option<UdDest>) -> (u16, u8) {
        let nic = &self.machines[usize::from(machine)].nic;
        let slot: &QpSlot = &nic.qps[qp as usize];
        let port = slot.qp.port_num().saturating_sub(1);
        let ah = match dest {
            Some(dest) => nic.ahs.get(dest.ah.0 as usize).copied().flatten(),
            None => slot.qp.ah_attr(),
        };
        let Some(ah) = ah else { return (u16::MAX, port) };
        let ports = nic.ports.len() as u16;
        let index = ah.dlid.wrapping_sub(FIRST_LID);
        let reaches = usize::from(index / ports) < self.machines.len() && index % ports == u16::from(port);
        (if reaches { index / ports } else { u16::MAX }, port)
    }

    /// A request is made and needs its payload; false where its sending unit must wait with it.
    fn request_made(&mut self, flight: u32, unit: u32) -> bool {
        let Flight { from: (machine, qp), gather: (wqe, offset, len), packet, .. } = self.flights[flight];
        let slot = &mut self.machines[usize::from(machine)].nic.qps[qp as usize];
        if !slot.alive {
            self.drop_flight(flight);
            return true;
        }
        if len > 0 {
            let inline = slot.wqes[wqe as usize].inline;
            if inline == Payload::EMPTY {
                self.gather(flight, machine, qp, wqe, offset, len);
            } else if self.flights[flight].completion.is_some() && packet.payload_len == len && offset == 0 {
                // Sent once and for all: the bytes need not be kept.
                slot.wqes[wqe as usize].inline = Payload::EMPTY;
                self.flights[flight].payload = inline;
            } else {
                let payload = self.payloads.take(len);
                self.payloads.copy(payload, inline, offset, len);
                self.flights[flight].payload = payload;
            }
        }
        let waits = self.flights[flight].reads > 0;
        let slot = &mut self.machines[usize::from(machine)].nic.qps[qp as usize];
        if waits || !slot.requests.is_empty() {
            slot.requests.push_back(flight);
            self.flights[flight].ready = !waits;
            true
        } else {
            self.depart(flight, unit)
        }
    }

    /// Reads `len` bytes from `offset` of a message from the buffers of its work request.
    fn gather(&mut self, flight: u32, machine: u16, qp: u32, wqe: u32, offset: u32, len: u32) {
        self.flights[flight].payload = self.payloads.take(len);
        let (mut skip, mut into) = (offset, 0);
        let mut sge = 0;
        while into < len {
            let wqe = self.machines[usize::from(machine)].nic.qps[qp as usize].qp.send_wqe(wqe);
            let Some(&s) = wqe.sges.get(sge) else { break };
            sge += 1;
            if skip >= s.length {
                skip -= s.length;
                continue;
            }
            let part = (s.length - skip).min(len - into);
            let addr = s.addr + u64::from(skip);
            skip = 0;
            self.read_payload(flight, machine, addr, part, into);
            into += part;
        }
    }

    /// Starts the DMA read of part of a packet's payload.
    pub(crate) fn read_payload(&mut self, flight: u32, machine: u16, addr: u64, len: u32, into: u32) {
        self.translate(machine, addr);
        self.flights[flight].reads += 1;
        let purpose = ReadPurpose::Payload { flight, addr, into };
        self.start_read(DmaRead { machine, bytes: len, purpose });
    }

    /// One of the DMA reads of a packet is done.
    pub(crate) fn payload_read(&mut self, flight: u32) {
        let f = &mut self.flights[flight];
        f.reads -= 1;
        if f.reads > 0 {
            return;
        }
        f.ready = true;
        let (machine, qp) = f.from;
        if f.packet.is_answer() {
            return self.answers_ready(machine, qp);
        }
        while let Some(&first) = self.machines[usize::from(machine)].nic.qps[qp as usize].requests.front()
            && self.flights[first].ready
        {
            self.machines[usize::from(machine)].nic.qps[qp as usize].requests.pop_front();
            self.depart(first, NONE);
        }
    }

    /// Gives the answers that may leave to a sending unit, in order.
    pub(crate) fn answers_ready(&mut self, machine: u16, qp: u32) {
        while let Some(&first) = self.machines[usize::from(machine)].nic.qps[qp as usize].answers.front()
            && self.flights[first].ready
        {
            self.machines[usize::from(machine)].nic.qps[qp as usize].answers.pop_front();
            self.give_work(machine, qp, TxWork::Answer(first));
        }
    }

    /// A packet goes out by its port, or waits there and its sending unit with it; false then.
    fn depart(&mut self, flight: u32, unit: u32) -> bool {
        let Flight { from: (machine, _), port, .. } = self.flights[flight];
        let out = &mut self.machines[usize::from(machine)].nic.ports[usize::from(port)];
        if out.queue.is_empty() && !out.stalled && self.may_leave(flight) {
            self.leave(flight);
            return true;
        }
        let out = &mut self.machines[usize::from(machine)].nic.ports[usize::from(port)];
        out.queue.push_back((flight, unit));
        unit == NONE
    }

    /// Whether the port has not too much under way already and its peer has room for the packet;
    /// otherwise the port will be looked at again when that has changed.
    #[inline]
    fn may_leave(&mut self, flight: u32) -> bool {
        let Flight { link_bytes, from: (machine, _), to: (to, _), port, .. } = self.flights[flight];
        let bytes = u64::from(link_bytes);
        let (now, ahead) = (self.now, self.times.port_ahead);
        let own = &mut self.machines[usize::from(machine)].nic.ports[usize::from(port)];
        if own.out.free_at() > now + ahead {
            own.stalled = true;
            let at = own.out.free_at() - ahead;
            self.queue.push(at, Event::PortOut { machine, port });
            return false;
        }
        if to == u16::MAX {
            return true;
        }
        let peer = &mut self.machines[usize::from(to)].nic.ports[usize::from(port)];
        if peer.room < bytes {
            peer.waiting.push_back((machine, port));
            self.machines[usize::from(machine)].nic.ports[usize::from(port)].stalled = true;
            return false;
        }
        peer.room -= bytes;
        true
    }

    /// A port sends what may leave by now.
    pub(crate) fn drain_port(&mut self, machine: u16, port: u8) {
        let index = usize::from(port);
        self.machines[usize::from(machine)].nic.ports[index].stalled = false;
        while let Some(&(flight, unit)) = self.machines[usize::from(machine)].nic.ports[index].queue.front() {
            if !self.may_leave(flight) {
                return;
            }
            self.machines[usize::from(machine)].nic.ports[index].queue.pop_front();
            self.leave(flight);
            if unit != NONE {
                self.unit_goes_on(machine, unit as usize);
            }
        }
    }

    /// A packet leaves.
    #[inline]
    fn leave(&mut self, flight: u32) {
        let Flight { link_bytes, from: (machine, qp), to: (to, _), port: by, completion, .. } =
            self.flights[flight];
        let window = self.window;
        let out = &mut self.machines[usize::from(machine)].nic.ports[usize::from(by)].out;
        let left = out.carry(self.now, link_bytes.into(), window);
        if let Some((wc, slot, signaled)) = completion {
            self.complete_send(machine, qp, slot, Cqe { wc, qp, slot, inline: 0 }, signaled);
        }
        if to == u16::MAX {
            self.drop_flight(flight);
        } else {
            self.queue.push(
                left + self.times.one_way,
                Event::Arrive { machine: to, port: by, from: machine, flight },
            );
        }
    }

    /// The receiving side of a port has room again for what a packet took.
    pub(crate) fn make_room(&mut self, machine: u16, port: u8, bytes: u64) {
        let own = &mut self.machines[usize::from(machine)].nic.ports[usize::from(port)];
        own.room += bytes;
        // Each that waits looks again once, and queues up again behind the others if need be.
        for _ in 0..own.waiting.len() {
            let own = &mut self.machines[usize::from(machine)].nic.ports[usize::from(port)];
            if own.room < u64::from(self.profile.link.mtu) / 2 {
                return;
            }
            let Some((from, by)) = own.waiting.pop_front() else { return };
            self.drain_port(from, by);
        }
    }

    /// Bytes of a packet on the link.
    pub(crate) fn link_bytes(&self, packet: &Packet) -> u32 {
        packet.wire_bytes(LinkLayer::Infiniband) + self.profile.link.packet_overhead
    }

    pub(crate) fn drop_flight(&mut self, flight: u32) {
        let payload = self.flights[flight].payload;
        self.payloads.give(payload);
        self.flights.free(flight);
    }

    /// A send work request is done.
    pub(crate) fn complete_send(&mut self, machine: u16, qp: u32, slot: u32, cqe: Cqe, signaled: bool) {
        self.verbs += 1;
        let q = &mut self.machines[usize::from(machine)].nic.qps[qp as usize];
        let inline = std::mem::replace(&mut q.wqes[slot as usize].inline, Payload::EMPTY);
        let cq = q.send_cq;
        self.payloads.give(inline);
        if signaled {
            self.write_cqe(machine, cq, cqe);
        }
    }
}
