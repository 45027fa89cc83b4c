//! The receiving units of a NIC: from a packet at the port to memory, completions and answers.

use super::qp::Ended;
use super::{Cqe, Device, QpSlot, priced};
use crate::core::index::{DeviceId, FlightId, Id, IdVec, Maybe, QpId, UnitId, WqeId};
use crate::core::payload::Payload;
use crate::core::queue::Event;
use crate::fabric::{Flight, PendingAtomic, Row};
use crate::host::{Data, Host, Write};
use crate::world::Env;
use doorbell_transport::{Action, Body, Packet, Part, Queue, Source, TxPacket};
use doorbell_verbs::{QpType, Time, Wc, WcStatus};
use std::collections::VecDeque;

/// Why a received packet has a port, a flow and a QP.
const CAME_IN: &str = "a packet that was received came in by a port";
const HAS_FLOW: &str = "a receiving unit that is done had a packet of a flow";
const HAS_QP: &str = "a packet that waits for a unit has a QP";

/// Bytes that an atomic brings back.
const ATOMIC_BYTES: u64 = 8;

/// Flows of datagrams that a NIC tells apart, as a power of two.
const FLOW_BITS: u32 = 12;

/// Names a flow.
#[derive(Clone, Copy)]
pub(super) enum FlowId {
    /// Of a connected QP.
    Connection(QpId),
    /// Of a UD QP.
    Datagrams(u32),
}

impl FlowId {
    /// The packets that a received one must keep its order with: those of the same connection, or
    /// from the same QP to the same UD QP (and, now and then, of another pair).
    fn of(packet: &Packet, from: DeviceId, qp: QpId) -> FlowId {
        match packet.deth {
            None => FlowId::Connection(qp),
            Some(deth) => {
                let source = deth.src_qp.wrapping_add((from.index() as u32) << 16);
                let pair = packet.dest_qp.wrapping_mul(0x9e37_79b1) ^ source.wrapping_mul(0x85eb_ca6b);
                FlowId::Datagrams(pair >> (32 - FLOW_BITS))
            }
        }
    }
}

/// Received packets that keep their order: one unit at a time looks at them.
#[derive(Clone, Copy)]
pub(crate) struct Flow {
    /// Those that wait.
    waiting: Row,
    /// It waits for a receiving unit, or has one.
    served: bool,
    /// Time in the metering window in which a unit looked at a packet of it, or one waited until the unit had issued
    /// its DMAs: it is never more than the window.
    pub(crate) busy: u64,
}

impl Default for Flow {
    fn default() -> Flow {
        Flow { waiting: Row::EMPTY, served: false, busy: 0 }
    }
}

/// A processing unit for receiving.
#[derive(Default)]
pub(crate) struct RxUnit {
    /// What it works on, or has worked on last.
    flow: Option<FlowId>,
    /// Since when it looks at its packet, or looked at its last.
    pub(super) since: u64,
    /// Until when.
    pub(super) until: u64,
    /// Until when it issues DMAs for the last packet.
    issues_until: u64,
    /// The same, or until when the link holds it up.
    pub(super) free_at: u64,
    /// Time in the metering window that it worked.
    pub(crate) busy: u64,
}

/// The receiving units, and the flows that wait for one.
pub(crate) struct Receiving {
    pub(crate) units: IdVec<UnitId, RxUnit>,
    /// Units that have nothing to do; the last is taken first.
    idle: Vec<UnitId>,
    pub(super) waiting: VecDeque<FlowId>,
    /// Flows of datagrams; none before the first datagram.
    pub(crate) datagrams: Vec<Flow>,
}

impl Receiving {
    pub(super) fn new(units: u32) -> Receiving {
        Receiving {
            units: (0..units).map(|_| RxUnit::default()).collect(),
            idle: (0..units as u16).rev().map(UnitId).collect(),
            waiting: VecDeque::new(),
            datagrams: Vec::new(),
        }
    }

    #[inline]
    fn datagrams(&mut self, number: u32) -> &mut Flow {
        if self.datagrams.is_empty() {
            self.datagrams = vec![Flow::default(); 1 << FLOW_BITS];
        }
        &mut self.datagrams[number as usize]
    }
}

impl Device {
    #[inline]
    fn flow(&mut self, id: FlowId) -> &mut Flow {
        match id {
            FlowId::Connection(qp) => &mut self.qps[qp].flow,
            FlowId::Datagrams(n) => self.receiving.datagrams(n),
        }
    }

    /// The last bit of a packet would be at its port now, were the port not busy with others.
    pub(crate) fn arrived(&mut self, env: &mut Env, flight: FlightId) {
        let Flight { link_bytes, into, .. } = env.flights[flight];
        let port = into.expect("a packet that arrives has a port to arrive at");
        let done = env.fabric.receive(env.now, env.window, port, link_bytes);
        if done > env.now {
            let port = env.fabric.ports[port].number;
            env.queue.push(done, Event::Ingress { device: self.id, port, flight });
        } else {
            self.came_in(env, flight);
        }
    }

    /// A packet is in the NIC and waits for a receiving unit.
    pub(crate) fn came_in(&mut self, env: &mut Env, flight: FlightId) {
        let f = &mut env.flights[flight];
        let Some(qp) = self.find_qp(f.packet.dest_qp).filter(|_| !f.lost) else {
            let (into, link_bytes) = (f.into.expect(CAME_IN), f.link_bytes);
            if !f.segment.is_none() {
                return self.frame_came_in(env, flight);
            }
            env.totals.unclaimed += 1;
            env.drop_flight(flight);
            return env.fabric.make_room(into, link_bytes);
        };
        f.to = Maybe::some(qp);
        let id = FlowId::of(&f.packet, f.from, qp);
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
            // It comes behind the first, which has the flow served.
            self.flow(id).waiting.push(copy, &mut env.flights);
        }
    }

    /// A receiving unit is done with its packet.
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

    /// An idle receiving unit takes up a packet of a flow.
    #[inline(always)]
    fn rx_look(&mut self, env: &mut Env, unit: UnitId, id: FlowId, flight: FlightId) {
        let f = &mut env.flights[flight];
        f.rx_unit = Maybe::some(unit);
        let Flight { packet, link_bytes, into, to, .. } = f;
        let (link_bytes, into) = (*link_bytes, *into);
        let cost = self.costs.receive.look(&priced(packet));
        let (qp, is_answer) = (to.expect(HAS_QP), packet.is_answer());
        // What an answer needs the NIC keeps with the request under way.
        let stall = if is_answer { 0 } else { self.context(env, qp, false) };
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
        env.queue.push(end, Event::RxDone { device: self.id, unit, flight });
        env.fabric.make_room(into.expect(CAME_IN), link_bytes);
    }

    /// A receiving unit has looked at a packet.
    pub(crate) fn received(&mut self, host: &mut Host, env: &mut Env, unit: UnitId, flight: FlightId) {
        let mut actions = env.take_actions();
        let Flight { packet, to, .. } = &env.flights[flight];
        let qp = to.expect(HAS_QP);
        let Device { qps, keys, recv_queues, .. } = self;
        let slot = &mut qps[qp];
        if slot.alive {
            let recv_queue = &mut recv_queues[slot.recv_queue].queue;
            // What follows the first packet of a message needs no RECV of its own.
            let begins = matches!(packet.body, Body::Send { part, .. } if part.begins());
            if begins && packet.transport != QpType::Rc && recv_queue.visible() == 0 {
                env.totals.dropped += 1;
            }
            slot.qp.receive(Time::from_ps(env.now), packet, keys, recv_queue, &mut actions);
        } else {
            env.totals.unclaimed += 1;
        }
        let inline = self.inline_bytes(qp, packet);
        let (busy, blocked) = self.apply(host, env, qp, flight, inline, &actions);
        env.give_actions(actions);
        self.arm_timer(env, qp);
        env.drop_flight(flight);
        let state = &mut self.receiving.units[unit];
        state.issues_until = env.now + busy;
        state.free_at = env.now + busy.max(self.pcie.writes_hold_up(env.now));
        state.busy += env.window.overlap(env.now, state.issues_until);
        if !blocked {
            self.rx_goes_on(env, unit);
        }
    }

    /// Payload bytes of a received packet that come in the CQE of its RECV; 0 where they are placed
    /// in memory.
    fn inline_bytes(&self, qp: QpId, packet: &Packet) -> u32 {
        let Body::Send { part: Part::Only, .. } = packet.body else { return 0 };
        let most = self.qps[qp].max_inl_recv;
        let ud = packet.transport == QpType::Ud;
        let inline =
            packet.payload_len <= most && self.profile.device.nic.receives_inline(packet.payload_len, ud);
        if inline { packet.payload_len } else { 0 }
    }

    /// Does what a QP asks for when it has received a packet, of which `inline` bytes go into a CQE.
    /// Returns how long issuing its DMAs takes the receiving unit, and whether this must stand still.
    fn apply(
        &mut self,
        host: &mut Host,
        env: &mut Env,
        qp: QpId,
        received: FlightId,
        inline: u32,
        actions: &[Action],
    ) -> (u64, bool) {
        let (mut busy, mut blocked) = (0, false);
        let is_answer = env.flights[received].packet.is_answer();
        let mut rest = actions;
        while let [action, behind @ ..] = rest {
            rest = behind;
            match *action {
                Action::Place { addr, payload_offset, len } if inline > 0 => {
                    env.totals.placed_bytes += u64::from(len);
                    busy += self.costs.receive.inline;
                    self.place_inline(host, env, received, addr, payload_offset, len);
                }
                Action::Place { addr, payload_offset, len } => {
                    env.totals.placed_bytes += u64::from(len);
                    busy += self.costs.receive.dma_write;
                    if !is_answer {
                        busy += self.crossing_write(host, addr, len.into());
                    }
                    let last = !rest.iter().any(|a| matches!(a, Action::Place { .. }));
                    busy += self.place(host, env, received, addr, payload_offset, len, last);
                }
                Action::PlaceAtomic { addr, original } => {
                    env.totals.placed_bytes += ATOMIC_BYTES;
                    busy += self.costs.receive.dma_write;
                    let (_, stall) = self.translate(host, env, addr, ATOMIC_BYTES);
                    busy += stall;
                    self.write_word(host, env, addr, original, stall);
                }
                Action::Complete { queue: Queue::Recv, wc, .. } => {
                    env.totals.received += u64::from(wc.status == WcStatus::Success);
                    busy += self.costs.receive.dma_write;
                    let wc = Wc { slid: sender_lid(env, received), ..wc };
                    self.complete_recv(env, qp, wc, inline);
                }
                Action::Respond(answer) => {
                    let (waits, stall) = self.respond(host, env, qp, received, answer);
                    blocked |= waits;
                    busy += stall;
                }
                Action::RespondRead(stream) => {
                    // Each packet of the answer takes a DMA read.
                    for answer in stream {
                        busy += self.costs.receive.dma_read + self.crossing_read(host, &answer);
                        busy += self.respond(host, env, qp, received, answer).1;
                    }
                }
                Action::Complete { queue: Queue::Send, signaled, .. } => {
                    busy += if signaled { self.costs.receive.requester_cqe } else { 0 };
                    self.settle(env, qp, action);
                }
                Action::Transmit | Action::Failed => self.settle(env, qp, action),
            }
        }
        (busy, blocked)
    }

    /// What a receiving unit spends more on a request's DMA write to another socket.
    #[inline]
    fn crossing_write(&self, host: &Host, addr: u64, len: u64) -> u64 {
        if self.dma_hop(host, addr, len) > 0 { self.costs.receive.crossing_write } else { 0 }
    }

    /// What it spends more on the DMA read of an answer from another socket.
    #[inline]
    fn crossing_read(&self, host: &Host, answer: &TxPacket) -> u64 {
        match answer.source {
            Source::Memory { addr, len } if self.dma_hop(host, addr, len.into()) > 0 => {
                self.costs.receive.crossing_read
            }
            _ => 0,
        }
    }

    /// Does what a QP asks for when it has received nothing.
    pub(crate) fn settle_all(&mut self, env: &mut Env, qp: QpId, actions: &[Action]) {
        for action in actions {
            self.settle(env, qp, action);
        }
    }

    #[inline]
    fn settle(&mut self, env: &mut Env, qp: QpId, action: &Action) {
        match *action {
            Action::Complete { queue: Queue::Send, wc, slot, signaled, .. } => {
                self.ended(env, qp, Ended { wc, wqe: WqeId(slot), signaled });
            }
            Action::Complete { queue: Queue::Recv, wc, .. } => self.complete_recv(env, qp, wc, 0),
            Action::Transmit => self.kick(env, qp),
            Action::Failed => self.flush_recvs(env, qp),
            Action::Place { .. }
            | Action::PlaceAtomic { .. }
            | Action::Respond(_)
            | Action::RespondRead(_) => {
                unreachable!("a QP that has received nothing asks for {action:?}")
            }
        }
    }

    /// A QP has entered the error state, perhaps without its receive queue at hand.
    pub(super) fn flush_recvs(&mut self, env: &mut Env, qp: QpId) {
        let mut actions = env.take_actions();
        let Device { qps, recv_queues, .. } = self;
        let slot = &mut qps[qp];
        slot.qp.recv_posted(&mut recv_queues[slot.recv_queue].queue, &mut actions);
        self.settle_all(env, qp, &actions);
        env.give_actions(actions);
    }

    fn complete_recv(&mut self, env: &mut Env, qp: QpId, wc: Wc, inline: u32) {
        let QpSlot { recv_cq: cq, life, .. } = self.qps[qp];
        self.write_cqe(env, cq, Cqe { wc, qp, life, wqe: Maybe::NONE, inline });
    }

    /// Writes part of the received payload to memory; `last` where no other part follows. Returns for how long its unit stands
    /// still before.
    #[allow(clippy::too_many_arguments)]
    fn place(
        &mut self,
        host: &mut Host,
        env: &mut Env,
        received: FlightId,
        addr: u64,
        offset: u32,
        len: u32,
        last: bool,
    ) -> u64 {
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

    /// Payload that travels in the CQE, for which no TLP of its own is sent. The driver copies it when
    /// the completion is polled; here it is in its buffer before the CQE is visible.
    fn place_inline(
        &mut self,
        host: &mut Host,
        env: &mut Env,
        received: FlightId,
        addr: u64,
        offset: u32,
        len: u32,
    ) {
        let copy = env.payloads.take(len);
        env.payloads.copy(copy, env.flights[received].payload, offset, len);
        let visible = self.pcie.beside_writes(env.now);
        self.send_write(host, env, Write::new(visible, 0, addr, Data::Payload(copy, 0), len));
    }

    /// Makes the packet of an answer. Returns whether the receiving unit must stand still until it is there, and for how long it
    /// does before.
    #[inline]
    fn respond(
        &mut self,
        host: &Host,
        env: &mut Env,
        qp: QpId,
        received: FlightId,
        answer: TxPacket,
    ) -> (bool, u64) {
        let Flight { out, into, rx_unit: unit, .. } = env.flights[received];
        let TxPacket { packet, source } = answer;
        let by = into.expect(CAME_IN);
        let link_bytes = self.costs.wire.bytes(&priced(&packet));
        let answer = Flight::new(packet, link_bytes, (self.id, qp), by, Maybe::some(out));
        let flight = env.flights.insert(answer);
        self.qps[qp].answers.push(flight, &mut env.flights);
        match source {
            Source::Memory { addr, len } => {
                env.flights[flight].payload = env.payloads.take(len);
                (false, self.read_payload(host, env, flight, addr, len, 0))
            }
            Source::Atomic { addr, op, resource } => {
                let life = self.qps[qp].life;
                env.flights[flight].atomic = Some(PendingAtomic { addr, op, resource, life, original: 0 });
                (self.lock(host, env, flight, addr, unit), 0)
            }
            Source::None | Source::Wqe { .. } => {
                env.flights[flight].ready = true;
                self.answers_ready(env, qp);
                (false, 0)
            }
        }
    }
}

/// LID of the port that a received datagram comes from; 0 for other packets.
fn sender_lid(env: &Env, received: FlightId) -> u16 {
    let Flight { packet, out, .. } = &env.flights[received];
    if packet.transport == QpType::Ud { env.fabric.lid(*out) } else { 0 }
}
