//! Sending units: from a WQE in the NIC to a packet on the wire.
//!
//! A *sending unit* is a processor of the NIC that makes one packet at a time, a request or a response. Each
//! QP has at most one unit at a time. A packet's *cost* is the time for which its unit works on it.
//! Then the unit may stall, or wait until the port sends the packet ([`UnitHold`]).

use super::hold::UnitHold;
use super::nic::{SimDevice, priced};
use super::qp::{EndedSend, QpSlot, WqeSlot};
use super::reads::{DmaRead, ReadPurpose};
use super::sending::TxTask;
use crate::core::index::{FlightId, Maybe, PortId, QpId, UnitId, WqeId};
use crate::core::payload::Payload;
use crate::core::ps::Ps;
use crate::core::queue::SimEvent;
use crate::env::Env;
use crate::fabric::{Fabric, Flight, Gather, OwnCompletion};
use crate::host::Host;
use doorbell_nic::{cost, wqe};
use doorbell_transport::{Action, Queue, Source, TxPacket};
use doorbell_verbs::{SendFlags, UdDest};

impl SimDevice {
    /// Queues the QP's requests for a sending unit, unless they are queued already.
    pub(crate) fn kick(&mut self, env: &mut Env, qp: QpId) {
        let slot = &mut self.qps[qp];
        if !slot.active {
            slot.active = true;
            slot.work.push_requests();
            self.has_work(env, qp);
        }
    }

    /// Gives the QP to an idle sending unit, or queues it for one.
    fn has_work(&mut self, env: &mut Env, qp: QpId) {
        let slot = &mut self.qps[qp];
        if !slot.served {
            slot.served = true;
            match self.sending.idle.pop() {
                Some(unit) => self.tx_serve(env, unit, qp),
                None => self.sending.waiting.push_back(qp),
            }
        }
    }

    /// Handles the end of a sending unit's work on a packet.
    pub(crate) fn tx_done(&mut self, host: &Host, env: &mut Env, unit: UnitId, flight: FlightId) {
        let Flight { packet, from_qp: qp, .. } = &env.flights[flight];
        let qp = *qp;
        let hold = if packet.is_answer() {
            self.depart(env, flight, Maybe::some(unit))
        } else {
            self.request_made(host, env, flight, unit)
        };
        match hold {
            UnitHold { waits: true, .. } => {}
            UnitHold { stall: Ps::ZERO, .. } => self.tx_goes_on(env, unit, qp),
            UnitHold { stall, .. } => self.tx_stands_still(env, unit, qp, stall),
        }
    }

    /// Stalls a sending unit until the address translations for its packet are there.
    fn tx_stands_still(&mut self, env: &mut Env, unit: UnitId, qp: QpId, stall: Ps) {
        let end = env.now + stall;
        let busy = env.window.overlap(env.now, end);
        self.qps[qp].tx_busy += busy;
        let state = &mut self.sending.units[unit];
        state.until = end;
        state.busy += busy;
        env.queue.push(end, SimEvent::TxOn { device: self.id, unit, qp });
    }

    /// The unit has finished a packet of this QP. Starts the unit's next packet, which may be of another QP.
    pub(crate) fn tx_goes_on(&mut self, env: &mut Env, unit: UnitId, qp: QpId) {
        let burst = &mut self.sending.units[unit].burst;
        *burst += 1;
        let is_over = *burst >= self.profile.device.tx.burst;
        let next = match is_over.then(|| self.sending.waiting.pop_front()).flatten() {
            Some(next) => {
                // The QP goes behind the waiting QPs, because QPs take turns after `tx.burst` packets.
                self.sending.waiting.push_back(qp);
                *burst = 0;
                next
            }
            None => qp,
        };
        self.tx_serve(env, unit, next);
    }

    /// Starts a sending unit's next packet, of this QP or else of the next waiting QP. If no QP has one, the
    /// unit becomes idle.
    fn tx_serve(&mut self, env: &mut Env, unit: UnitId, mut qp: QpId) {
        loop {
            if let Some((flight, cost)) = self.next_work(env, qp) {
                let start = self.begins(env, flight);
                let end = start + cost;
                let busy = env.window.overlap(start, end);
                self.qps[qp].tx_busy += busy;
                let state = &mut self.sending.units[unit];
                state.since = start;
                state.until = end;
                state.busy += busy;
                return env.queue.push(end, SimEvent::TxPu { device: self.id, unit, flight });
            }
            self.sending.units[unit].burst = 0;
            let Some(next) = self.sending.waiting.pop_front() else { return self.sending.idle.push(unit) };
            qp = next;
        }
    }

    /// When a sending unit that gets this packet now begins it. A request waits for the NIC's pipeline.
    #[inline]
    fn begins(&mut self, env: &Env, flight: FlightId) -> Ps {
        let gap = Ps(self.costs.send.pipeline);
        if gap == Ps::ZERO || env.flights[flight].packet.is_answer() {
            return env.now;
        }
        self.sending.pipeline.serve(env.now, gap, env.window) - gap
    }

    /// The next packet of a QP, a response or a request, and its cost.
    fn next_work(&mut self, env: &mut Env, qp: QpId) -> Option<(FlightId, Ps)> {
        loop {
            let slot = &mut self.qps[qp];
            match slot.next_task(&env.flights) {
                Some(TxTask::Answer(flight)) => {
                    return Some((flight, Ps(self.costs.send.answer(&priced(&env.flights[flight].packet)))));
                }
                Some(TxTask::Request) => {
                    if let Some(started) = self.next_request(env, qp) {
                        return Some(started);
                    }
                }
                None => {
                    slot.served = false;
                    return None;
                }
            }
        }
    }

    /// The next request packet of a QP and its cost; `None` if the QP has nothing to send.
    fn next_request(&mut self, env: &mut Env, qp: QpId) -> Option<(FlightId, Ps)> {
        let made = env.with_actions(|env, actions| self.make_request(env, qp, actions));
        self.arm_timer(env, qp);
        if made.is_some() {
            self.qps[qp].work.push_requests();
        }
        made
    }

    /// Makes the next request packet of a QP, and carries out the actions that `transport` returns.
    #[inline(always)] // It has one caller.
    fn make_request(&mut self, env: &mut Env, qp: QpId, actions: &mut Vec<Action>) -> Option<(FlightId, Ps)> {
        let slot = &mut self.qps[qp];
        let now = env.now.time();
        let next = if slot.alive { slot.qp.next_request(now, &self.keys, actions) } else { None };
        let Some(TxPacket { packet, source }) = next else {
            slot.active = false;
            self.settle_all(env, qp, actions);
            return None;
        };
        let Source::Wqe { slot: wqe, offset, len } = source else {
            unreachable!("the source of a request is a WQE, not {source:?}")
        };
        let mut gather = Gather { wqe: WqeId(wqe), offset, len, entered: 0 };
        let dest = slot.qp.send_wqe(wqe).dest;
        let priced = priced(&packet);
        let cost = self.request_cost(env, qp, &mut gather, &priced);
        let (out, into) = self.destination(&env.fabric, qp, dest);
        let link_bytes = self.costs.wire.bytes(&priced);
        let mut flight = Flight::new(packet, link_bytes, (self.id, qp), out, into);
        flight.gather = gather;
        // On UC and UD, a work request completes when its last packet leaves.
        let mut others = &actions[..];
        if let [before @ .., Action::Complete { queue: Queue::Send, wc, slot, signaled, .. }] = others
            && *slot == wqe
        {
            let slot = &mut self.qps[qp];
            slot.leaving += 1;
            flight.completion = Some(OwnCompletion { wc: *wc, signaled: *signaled, life: slot.life });
            others = before;
        }
        self.settle_all(env, qp, others);
        Some((env.flights.insert(flight), cost))
    }

    /// The cost of a request packet, including cache misses. Sets `gather.entered` to the identifier of the
    /// cache entry that holds the WQE.
    fn request_cost(
        &mut self,
        env: &mut Env,
        qp: QpId,
        gather: &mut Gather,
        packet: &cost::PacketShape,
    ) -> Ps {
        let slot = &mut self.qps[qp];
        let wqe = slot.qp.send_wqe(gather.wqe.0);
        let inline = wqe.flags.contains(SendFlags::INLINE);
        let dmas = match (gather.len > 0 && !inline, wqe.sges) {
            (false, _) => 0,
            (true, [_]) => 1,
            (true, sges) => cost::dmas(sges.iter().map(|s| s.length), gather.offset, gather.len),
        };
        let state = slot.wqe(gather.wqe);
        gather.entered = state.entered;
        let lines = wqe::lines(u32::from(state.bytes));
        let wqe = cost::Wqe { lines, by_mmio: state.by_mmio };
        let mut time = Ps(self.costs.send.request(packet, wqe, dmas));
        if packet.is_answered_with_data() {
            state.asked = self.caches.wqes.ask();
        }
        if packet.begins && state.entered == WqeSlot::NOT_ENTERED {
            state.entered = self.caches.wqes.enter();
            gather.entered = state.entered;
        } else if packet.begins && !self.caches.wqes.look_up(state.entered, env.counts()) {
            // The WQE is no longer in the cache, so the NIC reads it. `costs.send.request` includes the stall
            // of a WQE that the NIC reads, but not for a WQE that came by MMIO.
            if state.by_mmio {
                let stall = Ps(self.costs.send.wqe_stall);
                self.caches.wqes.stalled += env.window.overlap(env.now, env.now + stall);
                time += stall;
            }
            state.entered = self.caches.wqes.enter();
            gather.entered = state.entered;
            self.refetch(env, lines * wqe::LINE);
        }
        if std::mem::take(&mut self.qps[qp].was_idle) {
            time += Ps(self.costs.send.idle_qp);
        }
        time + self.context(env, qp, true)
    }

    /// The port by which a QP sends, and the port that the packet reaches.
    fn destination(&self, fabric: &Fabric, qp: QpId, dest: Option<UdDest>) -> (PortId, Maybe<PortId>) {
        let slot: &QpSlot = &self.qps[qp];
        let out = self.port(slot.qp.port_num().saturating_sub(1));
        let ah = match dest {
            Some(dest) => self.ah(dest.ah),
            None => slot.qp.ah_attr(),
        };
        (out, ah.map_or(Maybe::NONE, |ah| fabric.reached(out, ah.dlid)))
    }

    /// Starts to fetch the payload of a packet whose headers the sending unit has built. Returns how the
    /// packet holds up the unit.
    fn request_made(&mut self, host: &Host, env: &mut Env, flight: FlightId, unit: UnitId) -> UnitHold {
        let Flight { from_qp: qp, gather, .. } = env.flights[flight];
        let slot = &mut self.qps[qp];
        let Gather { wqe, offset, len, entered } = gather;
        // There are two reasons why the WQE may be gone: the QP was destroyed or reset, or this packet is a
        // retransmission of a message that was acknowledged while the unit made the packet.
        if !slot.alive || slot.wqe(wqe).entered != entered {
            // The packet never leaves.
            env.flights[flight].completion = None;
            env.drop_flight(flight);
            return UnitHold::NONE;
        }
        let mut stall = Ps::ZERO;
        if len > 0 {
            let inline = slot.wqe(wqe).inline;
            if inline == Payload::EMPTY {
                stall = self.gather(host, env, flight, gather);
            } else if env.flights[flight].completion.is_some() && offset == 0 {
                // `completion` marks the last packet of a UC or UD message. At offset 0, the message has one
                // packet. UC and UD never retransmit, so no later packet needs the bytes.
                slot.wqe(wqe).inline = Payload::EMPTY;
                env.flights[flight].payload = inline;
            } else {
                let payload = env.payloads.take(len);
                env.payloads.copy(payload, inline, offset, len);
                env.flights[flight].payload = payload;
            }
        }
        let waits = env.flights[flight].reads > 0;
        let slot = &mut self.qps[qp];
        if waits || !slot.requests.is_empty() {
            slot.requests.push(flight, &mut env.flights);
            env.flights[flight].ready = !waits;
            UnitHold::for_time(stall)
        } else {
            UnitHold { stall, ..self.depart(env, flight, Maybe::some(unit)) }
        }
    }

    /// Reads a packet's part of a message from the buffers of its work request. Returns how long the unit
    /// stalls.
    fn gather(&mut self, host: &Host, env: &mut Env, flight: FlightId, gather: Gather) -> Ps {
        let Gather { wqe, offset, len, .. } = gather;
        let qp = env.flights[flight].from_qp;
        env.flights[flight].payload = env.payloads.take(len);
        let (mut skip, mut into) = (offset, 0);
        let (mut sge, mut stall) = (0, Ps::ZERO);
        while into < len {
            let s = self.qps[qp].qp.send_wqe(wqe.0).sges[sge];
            sge += 1;
            if skip >= s.length {
                skip -= s.length;
                continue;
            }
            let part = (s.length - skip).min(len - into);
            let addr = s.addr + u64::from(skip);
            skip = 0;
            stall += self.read_payload(host, env, flight, addr, part, into);
            into += part;
        }
        stall
    }

    /// Starts the DMA read of part of a packet's payload. Returns how long the unit stalls until this read
    /// starts.
    pub(super) fn read_payload(
        &mut self,
        host: &Host,
        env: &mut Env,
        flight: FlightId,
        addr: u64,
        len: u32,
        into: u32,
    ) -> Ps {
        let (place, stall) = self.translate(host, env, addr, len.into());
        host.memory.fetch(place);
        env.flights[flight].reads += 1;
        let read = DmaRead::of(len, ReadPurpose::Payload { flight, addr, into });
        self.start_read(env, read.late(stall));
        stall
    }

    /// Handles the end of one of a packet's DMA reads.
    pub(super) fn payload_read(&mut self, env: &mut Env, flight: FlightId) {
        let f = &mut env.flights[flight];
        f.reads -= 1;
        if f.reads > 0 {
            return;
        }
        f.ready = true;
        if !f.segment.is_none() {
            return self.frames_read(env);
        }
        let qp = f.from_qp;
        if f.packet.is_answer() {
            return self.answers_ready(env, qp);
        }
        while let Some(first) = self.qps[qp].requests.first()
            && env.flights[first].ready
        {
            self.qps[qp].requests.pop(&env.flights);
            self.depart(env, first, Maybe::NONE);
        }
    }

    /// Queues a QP's ready responses for a sending unit, in order.
    pub(super) fn answers_ready(&mut self, env: &mut Env, qp: QpId) {
        let slot = &mut self.qps[qp];
        let mut some = false;
        while let Some(first) = slot.answers.first()
            && env.flights[first].ready
        {
            slot.answers.pop(&env.flights);
            slot.work.push_answer(first, &mut env.flights);
            some = true;
        }
        if some {
            self.has_work(env, qp);
        }
    }

    /// Sends a packet by its port. If the packet may not leave yet, it enters the port's queue. If
    /// `unit` is given, that unit waits until the packet leaves.
    fn depart(&mut self, env: &mut Env, flight: FlightId, unit: Maybe<UnitId>) -> UnitHold {
        let Env { fabric, flights, queue, now, .. } = env;
        let f = &flights[flight];
        if !fabric.ports[f.out_port].is_blocked() && fabric.may_leave(*now, queue, f, false) {
            self.leave(env, flight);
            return UnitHold::NONE;
        }
        fabric.wait(flight, f.out_port, unit);
        UnitHold::for_event(!unit.is_none())
    }

    /// Sends the queued packets of a sending port in order, up to the first packet that may not leave yet.
    /// Sending ports take turns for buffer space at a receiving port. With `is_its_turn`, the first packet
    /// may take free space although other sending ports wait for space.
    pub(crate) fn drain_port(&mut self, env: &mut Env, port: PortId, mut is_its_turn: bool) {
        env.fabric.ports[port].stalled = false;
        while let Some(&(flight, unit)) = env.fabric.ports[port].queue.front() {
            let first = std::mem::take(&mut is_its_turn);
            if !env.fabric.may_leave(env.now, &mut env.queue, &env.flights[flight], first) {
                return;
            }
            env.fabric.ports[port].queue.pop_front();
            let Flight { from_qp: qp, link_bytes, segment, .. } = env.flights[flight];
            self.leave(env, flight);
            if let Some(unit) = unit.get() {
                self.tx_goes_on(env, unit, qp);
            } else if !segment.is_none() {
                self.frame_left(env, link_bytes);
            }
        }
    }

    /// Sends a packet.
    #[inline]
    pub(super) fn leave(&mut self, env: &mut Env, flight: FlightId) {
        let Env { fabric, flights, queue, now, window, .. } = env;
        let f = &mut flights[flight];
        let leads_somewhere = fabric.send(*now, queue, *window, flight, f);
        let (qp, wqe, completion) = (f.from_qp, f.gather.wqe, f.completion);
        if let Some(OwnCompletion { wc, signaled, life }) = completion {
            env.totals.ahead += 1;
            self.left(env, qp, life, EndedSend { wc, wqe, signaled });
        }
        if !leads_somewhere {
            env.totals.unclaimed += 1;
            env.drop_flight(flight);
        }
    }
}
