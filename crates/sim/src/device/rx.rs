//! Receiving units: from a packet at the port to memory, completions and responses.

use super::hold::UnitHold;
use super::nic::{SimDevice, priced};
use super::qp::{Cqe, EndedSend, QpSlot};
use super::receiving::{Flow, FlowId};
use crate::core::index::{FlightId, Maybe, QpId, UnitId, WqeId};
use crate::core::payload::Payload;
use crate::core::ps::Ps;
use crate::core::queue::SimEvent;
use crate::env::Env;
use crate::fabric::{Flight, PendingAtomic};
use crate::host::{DmaWrite, Host, WriteData};
use doorbell_transport::{Action, Body, Packet, PacketPart, Queue, Source, TxPacket};
use doorbell_verbs::{QpType, Wc, WcStatus};

/// Messages of panics if a received packet has no port, no flow or no QP.
const CAME_IN: &str = "a received packet has an inbound port";
const HAS_FLOW: &str = "a receiving unit that ends its work had a packet of a flow";
const HAS_QP: &str = "a packet that waits for a unit has a QP";

/// Bytes that an atomic returns.
const ATOMIC_BYTES: u64 = 8;

/// A part of a received payload, and its address in memory.
#[derive(Clone, Copy)]
struct PayloadPart {
    addr: u64,
    /// Offset of the part within the payload.
    offset: u32,
    len: u32,
}

impl SimDevice {
    #[inline]
    fn flow(&mut self, id: FlowId) -> &mut Flow {
        match id {
            FlowId::Connection(qp) => &mut self.qps[qp].flow,
            FlowId::Datagrams(n) => self.receiving.datagrams(n),
        }
    }

    /// Handles the arrival of a packet. If the port is busy with earlier packets, the NIC has this packet
    /// only later.
    pub(crate) fn arrived(&mut self, env: &mut Env, flight: FlightId) {
        let Flight { link_bytes, in_port: into, .. } = env.flights[flight];
        let port = into.expect("an arriving packet has an inbound port");
        let done = env.fabric.receive(env.now, env.window, port, link_bytes);
        if done > env.now {
            let port = env.fabric.ports[port].number;
            env.queue.push(done, SimEvent::Ingress { device: self.id, port, flight });
        } else {
            self.came_in(env, flight);
        }
    }

    /// Handles a packet that is in the NIC: gives it to a receiving unit, or queues it.
    pub(crate) fn came_in(&mut self, env: &mut Env, flight: FlightId) {
        let f = &mut env.flights[flight];
        let Some(qp) = self.find_qp(f.packet.dest_qp).filter(|_| !f.lost) else {
            let (into, link_bytes) = (f.in_port.expect(CAME_IN), f.link_bytes);
            if !f.segment.is_none() {
                return self.frame_came_in(env, flight);
            }
            env.totals.unclaimed += 1;
            env.drop_flight(flight);
            return env.fabric.make_room(into, link_bytes);
        };
        f.to_qp = Maybe::some(qp);
        let id = FlowId::of(&f.packet, f.from_device, qp);
        let copy = if f.twice { Some(env.copy_flight(flight)) } else { None };
        let flow = self.flow(id);
        if std::mem::replace(&mut flow.served, true) {
            flow.waiting.push(flight, &mut env.flights);
        } else if let Some(unit) = self.receiving.idle.pop() {
            self.rx_look(env, unit, id, flight);
        } else {
            self.flow(id).waiting.push(flight, &mut env.flights);
            self.receiving.waiting.push_back(id);
        }
        if let Some(copy) = copy {
            // The original packet has a unit or waits for one, so the flow counts as served. The copy waits
            // behind the original packet.
            self.flow(id).waiting.push(copy, &mut env.flights);
        }
    }

    /// Gives a receiving unit its next packet.
    pub(super) fn rx_goes_on(&mut self, env: &mut Env, unit: UnitId) {
        let id = self.receiving.units[unit].flow.expect(HAS_FLOW);
        let flow = self.flow(id);
        flow.served = !flow.waiting.is_empty();
        if flow.served {
            self.receiving.waiting.push_back(id);
        }
        let Some(next) = self.receiving.waiting.pop_front() else { return self.receiving.idle.push(unit) };
        let flight =
            self.flow(next).waiting.pop(&env.flights).expect("a flow that waits for a unit has a packet");
        self.rx_look(env, unit, next, flight);
    }

    /// Starts an idle receiving unit on a packet of a flow.
    #[inline(always)]
    fn rx_look(&mut self, env: &mut Env, unit: UnitId, id: FlowId, flight: FlightId) {
        let f = &mut env.flights[flight];
        f.rx_unit = Maybe::some(unit);
        let Flight { packet, link_bytes, in_port: into, to_qp: to, .. } = f;
        let (link_bytes, into) = (*link_bytes, *into);
        let cost = Ps(self.costs.receive.look(&priced(packet)));
        let (qp, is_answer) = (to.expect(HAS_QP), packet.is_answer());
        // A response needs no QP context, because the NIC keeps its data with the outstanding request.
        let stall = if is_answer { Ps::ZERO } else { self.context(env, qp, false) };
        let state = &mut self.receiving.units[unit];
        let start = state.free_at.max(env.now);
        let end = start + cost + stall;
        let busy = env.window.overlap(start, end);
        let waits = env.window.overlap(env.now, state.issues_until.max(env.now));
        state.flow = Some(id);
        state.since = start;
        state.until = end;
        state.busy += busy;
        self.flow(id).busy += waits + busy;
        env.queue.push(end, SimEvent::RxDone { device: self.id, unit, flight });
        env.fabric.make_room(into.expect(CAME_IN), link_bytes);
    }

    /// Handles a packet that a receiving unit has looked at: carries out its effects, and issues its DMAs.
    pub(crate) fn received(&mut self, host: &mut Host, env: &mut Env, unit: UnitId, flight: FlightId) {
        let (qp, hold) = env.with_actions(|env, actions| {
            let Flight { packet, to_qp: to, .. } = &env.flights[flight];
            let qp = to.expect(HAS_QP);
            let SimDevice { qps, keys, recv_queues, .. } = self;
            let slot = &mut qps[qp];
            if slot.alive {
                let recv_queue = &mut recv_queues[slot.recv_queue].queue;
                // Packets after the first of a message need no RECV of their own.
                let begins = matches!(packet.body, Body::Send { part, .. } if part.begins());
                if begins && packet.transport != QpType::Rc && recv_queue.visible() == 0 {
                    env.totals.dropped += 1;
                }
                slot.qp.receive(env.now.time(), packet, keys, recv_queue, actions);
            } else {
                env.totals.unclaimed += 1;
            }
            let inline = self.inline_bytes(qp, packet);
            (qp, self.apply(host, env, qp, flight, inline, actions))
        });
        self.arm_timer(env, qp);
        env.drop_flight(flight);
        let state = &mut self.receiving.units[unit];
        state.issues_until = env.now + hold.stall;
        state.free_at = env.now + hold.stall.max(self.pcie.writes_hold_up(env.now));
        state.busy += env.window.overlap(env.now, state.issues_until);
        if !hold.waits {
            self.rx_goes_on(env, unit);
        }
    }

    /// Payload bytes of a received packet that go into the CQE of its RECV; 0 if the payload goes to memory.
    fn inline_bytes(&self, qp: QpId, packet: &Packet) -> u32 {
        let Body::Send { part: PacketPart::Only, .. } = packet.body else { return 0 };
        let most = self.qps[qp].max_inl_recv;
        let ud = packet.transport == QpType::Ud;
        let inline =
            packet.payload_len <= most && self.profile.device.nic.receives_inline(packet.payload_len, ud);
        if inline { packet.payload_len } else { 0 }
    }

    /// Carries out a QP's actions for a received packet. `inline` bytes of its payload go into a CQE. Returns
    /// how the actions delay the receiving unit: the time to issue DMAs, and whether the unit waits for an
    /// atomic's lock.
    fn apply(
        &mut self,
        host: &mut Host,
        env: &mut Env,
        qp: QpId,
        received: FlightId,
        inline: u32,
        actions: &[Action],
    ) -> UnitHold {
        let UnitHold { stall: mut busy, mut waits } = UnitHold::NONE;
        let is_answer = env.flights[received].packet.is_answer();
        let mut rest = actions;
        while let [action, behind @ ..] = rest {
            rest = behind;
            match *action {
                Action::Place { addr, payload_offset: offset, len } if inline > 0 => {
                    env.totals.placed_bytes += u64::from(len);
                    busy += Ps(self.costs.receive.inline);
                    self.place_inline(host, env, received, PayloadPart { addr, offset, len });
                }
                Action::Place { addr, payload_offset: offset, len } => {
                    env.totals.placed_bytes += u64::from(len);
                    busy += Ps(self.costs.receive.dma_write);
                    if !is_answer {
                        busy += self.crossing_write(host, addr, len.into());
                    }
                    let last = !rest.iter().any(|a| matches!(a, Action::Place { .. }));
                    busy += self.place(host, env, received, PayloadPart { addr, offset, len }, last);
                }
                Action::PlaceAtomic { addr, original } => {
                    env.totals.placed_bytes += ATOMIC_BYTES;
                    busy += Ps(self.costs.receive.dma_write);
                    let (_, stall) = self.translate(host, env, addr, ATOMIC_BYTES);
                    busy += stall;
                    self.write_word(host, env, addr, original, stall);
                }
                Action::Complete { queue: Queue::Recv, wc, .. } => {
                    env.totals.received += u64::from(wc.status == WcStatus::Success);
                    busy += Ps(self.costs.receive.dma_write);
                    let wc = Wc { slid: sender_lid(env, received), ..wc };
                    self.complete_recv(env, qp, wc, inline);
                }
                Action::Respond(answer) => {
                    let hold = self.respond(host, env, qp, received, answer);
                    waits |= hold.waits;
                    busy += hold.stall;
                }
                Action::RespondRead(stream) => {
                    // Each packet of the response takes a DMA read.
                    for answer in stream {
                        busy += Ps(self.costs.receive.dma_read) + self.crossing_read(host, &answer);
                        busy += self.respond(host, env, qp, received, answer).stall;
                    }
                }
                Action::Complete { queue: Queue::Send, wc, slot, signaled, .. } => {
                    busy += if signaled { Ps(self.costs.receive.requester_cqe) } else { Ps::ZERO };
                    busy += self.completed_wqe(env, qp, EndedSend { wc, wqe: WqeId(slot), signaled });
                    self.settle(env, qp, action);
                }
                Action::Transmit | Action::Failed => self.settle(env, qp, action),
            }
        }
        UnitHold { stall: busy, waits }
    }

    /// Extra time that a receiving unit spends on a request's DMA write to another CPU socket.
    #[inline]
    fn crossing_write(&self, host: &Host, addr: u64, len: u64) -> Ps {
        if self.dma_hop(host, addr, len) > Ps::ZERO {
            Ps(self.costs.receive.crossing_write)
        } else {
            Ps::ZERO
        }
    }

    /// Extra time that a receiving unit spends on a response's DMA read from another CPU socket.
    #[inline]
    fn crossing_read(&self, host: &Host, answer: &TxPacket) -> Ps {
        match answer.source {
            Source::Memory { addr, len } if self.dma_hop(host, addr, len.into()) > Ps::ZERO => {
                Ps(self.costs.receive.crossing_read)
            }
            _ => Ps::ZERO,
        }
    }

    /// Carries out actions of a QP: completions, retransmissions and failures. For other actions, which only
    /// received packets cause, see `apply`.
    pub(crate) fn settle_all(&mut self, env: &mut Env, qp: QpId, actions: &[Action]) {
        for action in actions {
            self.settle(env, qp, action);
        }
    }

    #[inline]
    fn settle(&mut self, env: &mut Env, qp: QpId, action: &Action) {
        match *action {
            Action::Complete { queue: Queue::Send, wc, slot, signaled, .. } => {
                self.ended(env, qp, EndedSend { wc, wqe: WqeId(slot), signaled });
            }
            Action::Complete { queue: Queue::Recv, wc, .. } => self.complete_recv(env, qp, wc, 0),
            Action::Transmit => self.kick(env, qp),
            Action::Failed => self.flush_recvs(env, qp),
            Action::Place { .. }
            | Action::PlaceAtomic { .. }
            | Action::Respond(_)
            | Action::RespondRead(_) => {
                unreachable!("a QP without a received packet has the action {action:?}")
            }
        }
    }

    /// Completes the RECVs of a QP in the error state. The call that put the QP into this state may not have
    /// had the receive queue, for example `timeout`.
    pub(super) fn flush_recvs(&mut self, env: &mut Env, qp: QpId) {
        env.with_actions(|env, actions| {
            let SimDevice { qps, recv_queues, .. } = self;
            let slot = &mut qps[qp];
            slot.qp.recv_posted(&mut recv_queues[slot.recv_queue].queue, actions);
            self.settle_all(env, qp, actions);
        });
    }

    fn complete_recv(&mut self, env: &mut Env, qp: QpId, wc: Wc, inline: u32) {
        let QpSlot { recv_cq: cq, life, .. } = self.qps[qp];
        self.write_cqe(env, cq, Cqe { wc, qp, life, wqe: Maybe::NONE, inline });
    }

    /// Writes part of the received payload to memory. `last` says that no other part follows. Returns how
    /// long the unit stalls before the write.
    fn place(
        &mut self,
        host: &mut Host,
        env: &mut Env,
        received: FlightId,
        PayloadPart { addr, offset, len }: PayloadPart,
        last: bool,
    ) -> Ps {
        let payload = env.flights[received].payload;
        let part = if last {
            env.flights[received].payload = Payload::EMPTY;
            (payload, offset)
        } else {
            let copy = env.payloads.take(len);
            env.payloads.copy(copy, payload, offset, len);
            (copy, 0)
        };
        self.write_data(host, env, addr, part, len)
    }

    /// Writes payload that travels in the CQE, without a TLP of its own. A real driver copies this payload
    /// when the completion is polled. Here the payload is in its buffer before the CQE is visible.
    fn place_inline(
        &mut self,
        host: &mut Host,
        env: &mut Env,
        received: FlightId,
        PayloadPart { addr, offset, len }: PayloadPart,
    ) {
        let copy = env.payloads.take(len);
        env.payloads.copy(copy, env.flights[received].payload, offset, len);
        let visible = self.pcie.beside_writes(env.now);
        self.send_write(host, env, DmaWrite::new(visible, Ps::ZERO, addr, WriteData::Payload(copy, 0), len));
    }

    /// Makes the packet of a response. Returns how this holds up the receiving unit.
    #[inline]
    fn respond(
        &mut self,
        host: &Host,
        env: &mut Env,
        qp: QpId,
        received: FlightId,
        answer: TxPacket,
    ) -> UnitHold {
        let Flight { out_port: out, in_port: into, rx_unit: unit, .. } = env.flights[received];
        let TxPacket { packet, source } = answer;
        let by = into.expect(CAME_IN);
        let link_bytes = self.costs.wire.bytes(&priced(&packet));
        let answer = Flight::new(packet, link_bytes, (self.id, qp), by, Maybe::some(out));
        let flight = env.flights.insert(answer);
        self.qps[qp].answers.push(flight, &mut env.flights);
        match source {
            Source::Memory { addr, len } => {
                env.flights[flight].payload = env.payloads.take(len);
                UnitHold::for_time(self.read_payload(host, env, flight, addr, len, 0))
            }
            Source::Atomic { addr, op, resource } => {
                let life = self.qps[qp].life;
                env.flights[flight].atomic = Some(PendingAtomic { addr, op, resource, life, original: 0 });
                UnitHold::for_event(self.lock(host, env, flight, addr, unit))
            }
            Source::None | Source::Wqe { .. } => {
                env.flights[flight].ready = true;
                self.answers_ready(env, qp);
                UnitHold::NONE
            }
        }
    }
}

/// LID of the port that sent a received datagram; 0 for other packets.
fn sender_lid(env: &Env, received: FlightId) -> u16 {
    let Flight { packet, out_port: out, .. } = &env.flights[received];
    if packet.transport == QpType::Ud { env.fabric.lid(*out) } else { 0 }
}
