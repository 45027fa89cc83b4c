//! What events show: packets on their way, and what becomes busy or waits.

use super::operations::{Message, Of, Operation, is_unreliable};
use super::pcapng::Captured;
use super::tracks::Place;
use super::way::{Stage, Wait, Way};
use super::{Drawing, Seen, Tracer};
use crate::core::index::{DeviceId, FlightId, IdVec, PortId, ReadId, UnitId};
use crate::core::queue::Event;
use crate::device::{Device, FIRST_QPN, ReadPurpose};
use crate::fabric::{Control, Flight};
use crate::world::Env;
use doorbell_transport::{Body, Packet, Syndrome};

/// What a receiving unit is done with.
pub(super) enum Received {
    /// The answer to an operation of a QP, with this PSN, that has data for memory.
    Data(Of, u32),
    /// A message without acknowledgement.
    Message(Message),
}

/// The world as the tracer sees it.
#[derive(Clone, Copy)]
struct View<'a> {
    /// Time of the event that is looked at.
    now: u64,
    env: &'a Env,
    devices: &'a IdVec<DeviceId, Device>,
}

/// A packet, or frame, in words.
fn name(view: View<'_>, flight: &Flight) -> String {
    let Some(segment) = flight.segment.get() else { return packet_name(&flight.packet) };
    match (view.env.segments[segment].control, view.env.segments[segment].len) {
        (Control::None, 0) => "TCP ACK".into(),
        (Control::None, len) => format!("TCP {len} B"),
        (Control::Syn, _) => "TCP SYN".into(),
        (Control::SynAck, _) => "TCP SYN ACK".into(),
        (Control::Fin, _) => "TCP FIN".into(),
        (Control::Reset, _) => "TCP RST".into(),
    }
}

fn packet_name(packet: &Packet) -> String {
    let with_size = |what| format!("{what} {} B", packet.payload_len);
    match packet.body {
        Body::Send { .. } => with_size("SEND"),
        Body::Write { .. } => with_size("WRITE"),
        Body::ReadRequest(_) => "READ request".into(),
        Body::ReadResponse { .. } => with_size("READ response"),
        Body::Atomic { .. } => "atomic request".into(),
        Body::AtomicAck { .. } => "atomic answer".into(),
        Body::Ack(Syndrome::Ack) => "ACK".into(),
        Body::Ack(Syndrome::RnrNak(_)) => "RNR NAK".into(),
        Body::Ack(Syndrome::Nak(_)) => "NAK".into(),
    }
}

/// What is to be said of a packet that a good link would not do to it.
fn comment(&Flight { lost, twice, .. }: &Flight, late: u64) -> Option<String> {
    let late = (late > 0).then(|| format!("held up by {late} ps"));
    let all = [lost.then(|| "lost on its link".into()), twice.then(|| "arrives twice".into()), late];
    let said: Vec<String> = all.into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join(", "))
}

impl View<'_> {
    /// The QP that a packet is the answer to.
    fn requester(self, flight: &Flight) -> Option<Of> {
        let device = self.env.fabric.ports[flight.into.get()?].device;
        Some((device, self.devices[device].find_qp(flight.packet.dest_qp)?))
    }
}

impl Tracer {
    /// An event is going to be processed. What the one before has changed is looked at now: posts and polls since
    /// then change none of it. False where all is seen that was asked for: then it need not be told of more.
    pub(crate) fn event(&mut self, env: &Env, devices: &IdVec<DeviceId, Device>, event: Event) -> bool {
        self.settle(env, devices);
        if self.is_done() {
            return false;
        }
        if env.now < self.from {
            return true;
        }
        self.last = Some((env.now, event));
        let view = View { now: env.now, env, devices };
        match event {
            Event::ReadDone { device, read } => self.read_done(view, device, read),
            Event::Arrive { flight, .. } => self.arrived(view, flight),
            Event::Ingress { flight, .. } => self.came_in(view, flight),
            Event::TxPu { device, unit, flight } => self.sent(view, device, unit, flight),
            Event::RxDone { device, unit, flight } => self.received(view, device, unit, flight),
            _ => {}
        }
        true
    }

    /// Looks at what the last event has changed: its device, and those with packets at ports, which may have
    /// found room.
    pub(super) fn settle(&mut self, env: &Env, devices: &IdVec<DeviceId, Device>) {
        let Some((now, event)) = self.last.take() else { return };
        let view = View { now, env, devices };
        let own = event.device();
        if let Event::RxDone { device, unit, .. } = event {
            self.issued(view, device, unit);
        }
        for device in devices.iter() {
            let had_packets = self.seen[device.id].at_ports.is_none_or(|packets| packets > 0);
            if own == Some(device.id) || had_packets {
                self.seen[device.id].look(&mut self.drawing, view, device);
            }
        }
    }

    /// The operation that a packet of its requester, or an answer, belongs to.
    fn operation(&mut self, view: View<'_>, flight: &Flight) -> Option<&mut Operation> {
        if !flight.segment.is_none() {
            return None;
        }
        if flight.packet.is_answer() {
            self.operations.of_psn(view.requester(flight)?, flight.packet.psn)
        } else {
            self.operations.of_wqe((flight.from, flight.qp), flight.gather.wqe)
        }
    }

    /// The way that a packet which has left takes part in: that of its message, or of its operation.
    fn way(&mut self, view: View<'_>, number: FlightId) -> Option<&mut Way> {
        let flight = &view.env.flights[number];
        if is_unreliable(flight.packet.transport) {
            return self.operations.messages.get_mut(&number)?.way.as_mut();
        }
        Some(&mut self.operation(view, flight)?.way)
    }

    /// A flow that leads to the slices of a packet's operation.
    fn flow(&mut self, view: View<'_>, number: FlightId) -> Option<u64> {
        let flight = &view.env.flights[number];
        match self.operations.messages.get(&number) {
            Some(message) => Some(message.number),
            None if is_unreliable(flight.packet.transport) => None,
            None => self.operation(view, flight).map(|operation| operation.number),
        }
    }

    fn read_done(&mut self, view: View<'_>, device: DeviceId, read: ReadId) {
        let now = view.now;
        let read = view.devices[device].read(read);
        let purpose = read.purpose;
        let (what, flight, stage) = match purpose {
            ReadPurpose::SendWqes { .. } => ("WQEs", None, Stage::WqeRead),
            ReadPurpose::RecvWqes { .. } => ("RECVs", None, Stage::WqeRead),
            ReadPurpose::Payload { flight, .. } => {
                let answers = view.env.flights[flight].packet.is_answer();
                ("payload", Some(flight), if answers { Stage::DataRead } else { Stage::PayloadRead })
            }
            ReadPurpose::Atomic { flight } => ("word of an atomic", Some(flight), Stage::AtomicRead),
            ReadPurpose::Segment => ("descriptor", None, Stage::WqeRead),
            ReadPurpose::WqeAgain { .. } => ("WQE again", None, Stage::WqeRead),
            ReadPurpose::Refetch => ("missed in a cache", None, Stage::WqeRead),
        };
        let from = now - view.devices[device].completions(&read);
        self.drawing.slice(Place::ReadCompletions(device), what, from, now, None);
        if let ReadPurpose::SendWqes { qp, first, count, .. } = purpose {
            for operation in self.operations.of_wqes((device, qp), first, count.into()) {
                operation.way.on(stage, now);
            }
        }
        if let Some(operation) = flight.and_then(|flight| self.operation(view, &view.env.flights[flight])) {
            operation.way.on(stage, now);
        }
    }

    /// A sending unit is done with a packet.
    fn sent(&mut self, view: View<'_>, device: DeviceId, unit: UnitId, number: FlightId) {
        let (now, flight) = (view.now, &view.env.flights[number]);
        let since = view.devices[device].sends_since(unit);
        // The number may have been that of another one.
        self.operations.messages.remove(&number);
        let mut flow = None;
        let mut message = None;
        let answer = flight.packet.is_answer();
        if let Some(operation) = self.operation(view, flight) {
            if !answer {
                operation.sent(flight.packet.psn);
            }
            operation.way.go(Wait::SendingUnit, Stage::SendingUnit, since, now);
            flow = Some(operation.number);
            if is_unreliable(flight.packet.transport) {
                let name = operation.name.clone();
                message = Some(Message { number: operation.number, name, way: None });
            }
        }
        if let Some(message) = message {
            self.operations.messages.insert(number, message);
        }
        self.drawing.slice(Place::SendingUnit(device, unit), &name(view, flight), since, now, flow);
    }

    /// The last bit of a packet would be at its port now, were that not busy with others.
    fn arrived(&mut self, view: View<'_>, number: FlightId) {
        let (now, flight) = (view.now, &view.env.flights[number]);
        let Flight { out, lost, link_bytes, .. } = *flight;
        let late = view.env.fabric.held_up(now, number);
        let Some(into) = flight.into.get() else { return };
        self.capture(view, number, into);
        let (duration, one_way) = view.env.fabric.ports[out].times(link_bytes);
        let left = (now - late).saturating_sub(one_way);
        let begun = left.saturating_sub(duration);
        if let Some(message) = self.operations.messages.get_mut(&number) {
            message.way = Some(Way::new(begun));
        }
        let flow = self.flow(view, number);
        // One that is held up would stand in the file behind those that have overtaken it.
        if late == 0 {
            self.drawing.slice(Place::PortOut(out), &name(view, flight), begun, left, flow);
        }
        let stage = if lost { Stage::Lost } else { Stage::Link };
        if let Some(way) = self.way(view, number) {
            way.go(Wait::Port, stage, begun, now);
        }
        let port = &view.env.fabric.ports[into];
        let (duration, _) = port.times(link_bytes);
        if port.into.free_at() <= now.saturating_sub(duration) {
            self.came_in(view, number);
        }
        if lost && let Some(message) = self.operations.messages.remove(&number) {
            self.drawing.message(port.device, &message);
        }
    }

    fn capture(&mut self, view: View<'_>, number: FlightId, into: PortId) {
        let Some(pcap) = &mut self.pcap else { return };
        let flight = &view.env.flights[number];
        if !flight.segment.is_none() {
            return;
        }
        let Flight { ref packet, out, payload, .. } = *flight;
        let payload = match packet.payload_len {
            0 => &[],
            len => &view.env.payloads.bytes(payload)[..len as usize],
        };
        let comment = comment(flight, view.env.fabric.held_up(view.now, number));
        let qpn = FIRST_QPN + flight.qp.0;
        let captured = Captured { from: out, into, qpn, packet, payload, comment: comment.as_deref() };
        pcap.packet(view.now, &captured, || self.drawing.names.port(into));
    }

    /// A packet has come through its port.
    fn came_in(&mut self, view: View<'_>, number: FlightId) {
        let (now, flight) = (view.now, &view.env.flights[number]);
        let Some(into) = flight.into.get() else { return };
        let (duration, _) = view.env.fabric.ports[into].times(flight.link_bytes);
        let flow = self.flow(view, number);
        let begun = now.saturating_sub(duration);
        self.drawing.slice(Place::PortIn(into), &name(view, flight), begun, now, flow);
        if let Some(way) = self.way(view, number) {
            way.on(Stage::Wait(Wait::Port), now);
        }
    }

    /// A receiving unit has looked at a packet.
    fn received(&mut self, view: View<'_>, device: DeviceId, unit: UnitId, number: FlightId) {
        let (now, flight) = (view.now, &view.env.flights[number]);
        let since = view.devices[device].receives_since(unit);
        let flow = self.flow(view, number);
        self.drawing.slice(Place::ReceivingUnit(device, unit), &name(view, flight), since, now, flow);
        if let Some(way) = self.way(view, number) {
            way.go(Wait::ReceivingUnit, Stage::ReceivingUnit, since, now);
        }
        self.received = self.operations.messages.remove(&number).map(Received::Message);
        if let Some(qp) = flight.to.get().filter(|_| flight.packet.is_answer()) {
            let (of, psn) = ((device, qp), flight.packet.psn);
            let refused = matches!(flight.packet.body, Body::Ack(Syndrome::RnrNak(_) | Syndrome::Nak(_)));
            let over = self.operations.answered(of, psn, refused, now);
            over.into_iter().for_each(|over| self.drawing.operation(over));
            let data = flight.packet.payload_len > 0 || matches!(flight.packet.body, Body::AtomicAck { .. });
            self.received = data.then_some(Received::Data(of, psn));
        }
    }

    /// A receiving unit has begun to issue the DMAs for a packet.
    fn issued(&mut self, view: View<'_>, device: DeviceId, unit: UnitId) {
        let now = view.now;
        let of = &view.devices[device];
        self.drawing.slice(
            Place::ReceivingUnit(device, unit),
            "issues DMAs",
            now,
            of.issues_until(unit),
            None,
        );
        let seen = &self.seen[device];
        let writes = (of.last_visible() > seen.last_visible).then(|| seen.to_host.max(now));
        match self.received.take() {
            Some(Received::Data(of, psn)) => {
                if let Some((operation, began)) = self.operations.of_psn(of, psn).zip(writes) {
                    operation.placed(began);
                }
            }
            Some(Received::Message(mut message)) => {
                if let Some((way, began)) = message.way.as_mut().zip(writes) {
                    way.go(Wait::PcieLink, Stage::MessageWrite, began, of.last_visible());
                }
                self.drawing.message(device, &message);
            }
            None => {}
        }
    }
}

impl Seen {
    /// Looks at a device for what has changed.
    fn look(&mut self, drawing: &mut Drawing, view: View<'_>, device: &Device) {
        let (now, id) = (view.now, device.id);
        let (taken, visible) = (device.pcie.to_host.free_at(), device.last_visible());
        let what = if visible > self.last_visible { "DMA writes" } else { "DMA read requests" };
        drawing.slice(Place::ToHost(id), what, self.to_host.max(now), taken, None);
        (self.to_host, self.last_visible) = (taken, visible);
        for (number, (seen, count)) in (0..).zip(self.counts.iter_mut().zip(device.counts())) {
            if seen.replace(count) != Some(count) {
                drawing.count(Place::Count(id, number), now, count);
            }
        }
        let ports = (0..device.profile.device.link.ports).map(|number| device.port(number as u8));
        let waiting: usize = ports.map(|port| view.env.fabric.ports[port].queue.len()).sum();
        if self.at_ports.replace(waiting as u64) != Some(waiting as u64) {
            drawing.count(Place::AtPorts(id), now, waiting as u64);
        }
    }
}
