//! Tracing of events: packets in flight, and resources that are busy or wait.

use super::operations::{DeviceQp, TracedMessage, TracedOperation, is_unreliable};
use super::pcapng::Captured;
use super::tracer::{Drawing, LastSeen, ReceivedPacket, Tracer};
use super::tracks::TrackPlace;
use super::way::{OperationPath, OperationStage, Wait};
use crate::core::index::{DeviceId, FlightId, IdVec, MachineId, PortId, ReadId, UnitId};
use crate::core::ps::Ps;
use crate::core::queue::SimEvent;
use crate::device::{FIRST_QPN, ReadPurpose, SimDevice};
use crate::env::Env;
use crate::fabric::{Flight, SegmentControl};
use doorbell_transport::{Body, Packet, Syndrome};

/// The world's state for the tracer.
#[derive(Clone, Copy)]
struct TraceView<'a> {
    /// Time of the event that is traced.
    now: Ps,
    env: &'a Env,
    devices: &'a IdVec<DeviceId, SimDevice>,
}

/// The name of a packet or frame.
fn name(view: TraceView<'_>, flight: &Flight) -> String {
    let Some(segment) = flight.segment.get() else { return packet_name(&flight.packet) };
    match (view.env.segments[segment].control, view.env.segments[segment].len) {
        (SegmentControl::None, 0) => "TCP ACK".into(),
        (SegmentControl::None, len) => format!("TCP {len} B"),
        (SegmentControl::Syn, _) => "TCP SYN".into(),
        (SegmentControl::SynAck, _) => "TCP SYN ACK".into(),
        (SegmentControl::Fin, _) => "TCP FIN".into(),
        (SegmentControl::Reset, _) => "TCP RST".into(),
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
        Body::AtomicAck { .. } => "atomic response".into(),
        Body::Ack(Syndrome::Ack) => "ACK".into(),
        Body::Ack(Syndrome::RnrNak(_)) => "RNR NAK".into(),
        Body::Ack(Syndrome::Nak(_)) => "NAK".into(),
    }
}

/// Faults of a packet, in words; none on a good link.
fn comment(&Flight { lost, twice, .. }: &Flight, late: Ps) -> Option<String> {
    let late = (late > Ps::ZERO).then(|| format!("delayed by {} ps", late.0));
    let all = [lost.then(|| "lost on its link".into()), twice.then(|| "arrives twice".into()), late];
    let said: Vec<String> = all.into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join(", "))
}

impl TraceView<'_> {
    /// The machine of a device.
    fn machine(self, device: DeviceId) -> MachineId {
        self.devices[device].machine
    }

    /// The QP whose request a packet answers.
    fn requester(self, flight: &Flight) -> Option<DeviceQp> {
        let device = self.env.fabric.ports[flight.in_port.get()?].device;
        Some((device, self.devices[device].find_qp(flight.packet.dest_qp)?))
    }
}

impl Tracer {
    /// Called before an event is processed. First records the effects of the previous event. Posts and polls
    /// since then do not change these effects. Returns false if everything requested has been seen. The
    /// tracer then needs no further event.
    pub(crate) fn event(&mut self, env: &Env, devices: &IdVec<DeviceId, SimDevice>, event: SimEvent) -> bool {
        self.settle(env, devices);
        self.follower.join();
        if self.is_done() {
            return false;
        }
        if env.now < self.from {
            return true;
        }
        self.last = Some((env.now, event));
        let view = TraceView { now: env.now, env, devices };
        match event {
            SimEvent::ReadDone { device, read } => self.read_done(view, device, read),
            SimEvent::Arrive { flight, .. } => self.arrived(view, flight),
            SimEvent::Ingress { flight, .. } => self.came_in(view, flight),
            SimEvent::TxPu { device, unit, flight } => self.sent(view, device, unit, flight),
            SimEvent::RxDone { device, unit, flight } => self.received(view, device, unit, flight),
            _ => {}
        }
        true
    }

    /// Records the effects of the last event: on its device, and on devices with packets at ports, because
    /// these packets may have found room.
    pub(super) fn settle(&mut self, env: &Env, devices: &IdVec<DeviceId, SimDevice>) {
        let Some((now, event)) = self.last.take() else { return };
        let view = TraceView { now, env, devices };
        let own = event.device();
        if let SimEvent::RxDone { device, unit, .. } = event {
            self.issued(view, device, unit);
        }
        for device in devices.iter() {
            let had_packets = self.seen[device.id].at_ports.is_none_or(|packets| packets > 0);
            if own == Some(device.id) || had_packets {
                self.seen[device.id].look(&mut self.drawing, view, device);
            }
        }
    }

    /// The operation to which a request packet or a response belongs.
    fn operation(&mut self, view: TraceView<'_>, flight: &Flight) -> Option<&mut TracedOperation> {
        if !flight.segment.is_none() {
            return None;
        }
        if flight.packet.is_answer() {
            self.operations.of_psn(view.requester(flight)?, flight.packet.psn)
        } else {
            self.operations.of_wqe((flight.from_device, flight.from_qp), flight.gather.wqe)
        }
    }

    /// The path that a packet in flight extends: the path of its message, or the path of its operation.
    fn way(&mut self, view: TraceView<'_>, number: FlightId) -> Option<&mut OperationPath> {
        let flight = &view.env.flights[number];
        if is_unreliable(flight.packet.transport) {
            return self.operations.messages.get_mut(&number)?.way.as_mut();
        }
        Some(&mut self.operation(view, flight)?.way)
    }

    /// The number of the flow that connects a packet to its operation's slices.
    fn flow(&mut self, view: TraceView<'_>, number: FlightId) -> Option<u64> {
        let flight = &view.env.flights[number];
        match self.operations.messages.get(&number) {
            Some(message) => Some(message.number),
            None if is_unreliable(flight.packet.transport) => None,
            None => self.operation(view, flight).map(|operation| operation.number),
        }
    }

    fn read_done(&mut self, view: TraceView<'_>, device: DeviceId, read: ReadId) {
        let (now, machine) = (view.now, view.machine(device));
        let read = view.devices[device].read(read);
        let purpose = read.purpose;
        let (what, flight, stage) = match purpose {
            ReadPurpose::SendWqes { .. } => ("WQEs", None, OperationStage::WqeRead),
            ReadPurpose::RecvWqes { .. } => ("RECVs", None, OperationStage::WqeRead),
            ReadPurpose::Payload { flight, .. } => {
                let answers = view.env.flights[flight].packet.is_answer();
                (
                    "payload",
                    Some(flight),
                    if answers { OperationStage::DataRead } else { OperationStage::PayloadRead },
                )
            }
            ReadPurpose::Atomic { flight } => ("word of an atomic", Some(flight), OperationStage::AtomicRead),
            ReadPurpose::Segment => ("descriptor", None, OperationStage::WqeRead),
            ReadPurpose::WqeAgain { .. } => ("WQE again", None, OperationStage::WqeRead),
            ReadPurpose::Refetch => ("after a cache miss", None, OperationStage::WqeRead),
        };
        let from = now - view.devices[device].completions(&read);
        self.drawing.slice(TrackPlace::ReadCompletions(device), what, from, now, None);
        if let ReadPurpose::SendWqes { qp, first, count, .. } = purpose {
            for operation in self.operations.of_wqes((device, qp), first, count.into()) {
                operation.way.on_machine(machine).on(stage, now);
            }
        }
        if let Some(operation) = flight.and_then(|flight| self.operation(view, &view.env.flights[flight])) {
            operation.way.on_machine(machine).on(stage, now);
        }
        let message = flight.and_then(|flight| self.operations.messages.get_mut(&flight));
        if let Some(before) = message.and_then(|message| message.before.as_mut()) {
            before.on_machine(machine).on(stage, now);
        }
    }

    /// Handles the end of a sending unit's work on a packet.
    fn sent(&mut self, view: TraceView<'_>, device: DeviceId, unit: UnitId, number: FlightId) {
        let (now, flight) = (view.now, &view.env.flights[number]);
        let (since, machine) = (view.devices[device].sends_since(unit), view.machine(device));
        // The id may have belonged to an earlier packet.
        self.operations.messages.remove(&number);
        let mut flow = None;
        let mut message = None;
        let answer = flight.packet.is_answer();
        let follows = self.follower.follows();
        if let Some(operation) = self.operation(view, flight) {
            if !answer {
                operation.sent(flight.packet.psn);
            }
            let way = operation.way.on_machine(machine);
            way.go(Wait::SendingUnit, OperationStage::SendingUnit, since, now);
            flow = Some(operation.number);
            if is_unreliable(flight.packet.transport) {
                let (name, before) = (operation.name.clone(), follows.then(|| operation.way.clone()));
                message = Some(TracedMessage { number: operation.number, name, way: None, before });
            }
        }
        if let Some(message) = message {
            self.operations.messages.insert(number, message);
        }
        self.drawing.slice(TrackPlace::SendingUnit(device, unit), &name(view, flight), since, now, flow);
    }

    /// Handles the arrival of a packet's last bit at a port. The packet passes the port later if the port is
    /// busy with other packets.
    fn arrived(&mut self, view: TraceView<'_>, number: FlightId) {
        let (now, flight) = (view.now, &view.env.flights[number]);
        let Flight { out_port: out, lost, link_bytes, .. } = *flight;
        let late = view.env.fabric.held_up(now, number);
        let Some(into) = flight.in_port.get() else { return };
        self.capture(view, number, into);
        let (duration, one_way) = view.env.fabric.ports[out].times(link_bytes);
        let left = (now - late).saturating_sub(one_way);
        let begun = left.saturating_sub(duration);
        if let Some(message) = self.operations.messages.get_mut(&number) {
            let sender = view.machine(view.env.fabric.ports[out].device);
            message.way = Some(OperationPath::new(begun, sender));
        }
        let flow = self.flow(view, number);
        // A delayed packet would be out of order in the file, after packets that have overtaken it.
        if late == Ps::ZERO {
            self.drawing.slice(TrackPlace::PortOut(out), &name(view, flight), begun, left, flow);
        }
        let stage = if lost { OperationStage::Lost } else { OperationStage::Link };
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

    fn capture(&mut self, view: TraceView<'_>, number: FlightId, into: PortId) {
        let Some(pcap) = &mut self.pcap else { return };
        let flight = &view.env.flights[number];
        if !flight.segment.is_none() {
            return;
        }
        let Flight { ref packet, out_port: out, payload, .. } = *flight;
        let payload = match packet.payload_len {
            0 => &[],
            len => &view.env.payloads.bytes(payload)[..len as usize],
        };
        let comment = comment(flight, view.env.fabric.held_up(view.now, number));
        let qpn = FIRST_QPN + flight.from_qp.0;
        let captured = Captured { from: out, into, qpn, packet, payload, comment: comment.as_deref() };
        pcap.packet(view.now, &captured, || self.drawing.names.port(into));
    }

    /// Handles a packet that has come through its port.
    fn came_in(&mut self, view: TraceView<'_>, number: FlightId) {
        let (now, flight) = (view.now, &view.env.flights[number]);
        let Some(into) = flight.in_port.get() else { return };
        let (duration, _) = view.env.fabric.ports[into].times(flight.link_bytes);
        let flow = self.flow(view, number);
        let begun = now.saturating_sub(duration);
        self.drawing.slice(TrackPlace::PortIn(into), &name(view, flight), begun, now, flow);
        let machine = view.machine(view.env.fabric.ports[into].device);
        if let Some(way) = self.way(view, number) {
            way.on_machine(machine).on(OperationStage::Wait(Wait::Port), now);
        }
    }

    /// Handles the end of a receiving unit's look at a packet.
    fn received(&mut self, view: TraceView<'_>, device: DeviceId, unit: UnitId, number: FlightId) {
        let (now, flight) = (view.now, &view.env.flights[number]);
        let since = view.devices[device].receives_since(unit);
        let flow = self.flow(view, number);
        self.drawing.slice(TrackPlace::ReceivingUnit(device, unit), &name(view, flight), since, now, flow);
        if let Some(way) = self.way(view, number) {
            way.on_machine(view.machine(device));
            way.go(Wait::ReceivingUnit, OperationStage::ReceivingUnit, since, now);
        }
        self.received = self.operations.messages.remove(&number).map(ReceivedPacket::Message);
        if self.follower.follows() && !flight.packet.is_answer() && self.received.is_none() {
            let request = self.operation(view, flight).map(|of| (of.number, of.way.clone()));
            self.received = request.map(|(number, way)| ReceivedPacket::Request(number, way));
        }
        if let Some(qp) = flight.to_qp.get().filter(|_| flight.packet.is_answer()) {
            let (of, psn) = ((device, qp), flight.packet.psn);
            let refused = matches!(flight.packet.body, Body::Ack(Syndrome::RnrNak(_) | Syndrome::Nak(_)));
            let over = self.operations.answered(of, psn, refused, now);
            over.into_iter().for_each(|over| self.drawing.operation(over));
            let data = flight.packet.payload_len > 0 || matches!(flight.packet.body, Body::AtomicAck { .. });
            self.received = data.then_some(ReceivedPacket::Data(of, psn));
        }
    }

    /// Handles a receiving unit that begins to issue the DMAs for a packet.
    fn issued(&mut self, view: TraceView<'_>, device: DeviceId, unit: UnitId) {
        let now = view.now;
        let of = &view.devices[device];
        self.drawing.slice(
            TrackPlace::ReceivingUnit(device, unit),
            "issues DMAs",
            now,
            of.issues_until(unit),
            None,
        );
        let seen = &self.seen[device];
        let writes = (of.last_visible() > seen.last_visible).then(|| seen.to_host.max(now));
        match self.received.take() {
            Some(ReceivedPacket::Data(of, psn)) => {
                if let Some((operation, began)) = self.operations.of_psn(of, psn).zip(writes) {
                    operation.placed(began);
                }
            }
            Some(ReceivedPacket::Message(mut message)) => {
                if let Some((way, began)) = message.way.as_mut().zip(writes) {
                    way.go(Wait::PcieLink, OperationStage::MessageWrite, began, of.last_visible());
                    if let Some(mut path) = message.before.take() {
                        path.append(Wait::Port, way);
                        self.follower.landed(message.number, path);
                    }
                }
                self.drawing.message(device, &message);
            }
            Some(ReceivedPacket::Request(number, mut path)) => {
                if let Some(began) = writes {
                    path.go(Wait::PcieLink, OperationStage::MessageWrite, began, of.last_visible());
                    self.follower.landed(number, path);
                }
            }
            None => {}
        }
    }
}

impl LastSeen {
    /// Records the changes of a device.
    fn look(&mut self, drawing: &mut Drawing, view: TraceView<'_>, device: &SimDevice) {
        let (now, id) = (view.now, device.id);
        let (taken, visible) = (device.pcie.to_host.free_at(), device.last_visible());
        let what = if visible > self.last_visible { "DMA writes" } else { "DMA read requests" };
        drawing.slice(TrackPlace::ToHost(id), what, self.to_host.max(now), taken, None);
        (self.to_host, self.last_visible) = (taken, visible);
        for (number, (seen, count)) in (0..).zip(self.counts.iter_mut().zip(device.counts())) {
            if seen.replace(count) != Some(count) {
                drawing.count(TrackPlace::Count(id, number), now, count);
            }
        }
        let ports = (0..device.profile.device.link.ports).map(|number| device.port(number as u8));
        let waiting: usize = ports.map(|port| view.env.fabric.ports[port].queue.len()).sum();
        if self.at_ports.replace(waiting as u64) != Some(waiting as u64) {
            drawing.count(TrackPlace::AtPorts(id), now, waiting as u64);
        }
    }
}
