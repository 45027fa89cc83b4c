//! The least time of an operation that never waits for a busy resource.

use super::mix::{Mix, gcd};
use super::operation_end::OperationEnd;
use super::terms::Terms;
use crate::accounting::{self, ATOMIC_WORD_BYTES, Method, PostShape};
use crate::cost::{MessageShape, PacketShape};
use crate::parts::LatencyPart;
use crate::wqe;

/// The steps of an operation. If two things happen at once, the longer one is a step.
pub(super) struct LatencyWay<'a> {
    requester: &'a OperationEnd<'a>,
    responder: &'a OperationEnd<'a>,
    mix: &'a Mix,
    shape: PostShape,
    message: MessageShape,
    /// Picoseconds of the DMA writes of returned data that delay the write of the CQE.
    written: u64,
    steps: Terms,
}

/// The post of a work request. If the list also holds unknown work requests, the result is a post of this
/// work request alone.
fn alone(mix: &Mix, shape: PostShape) -> PostShape {
    match shape.method {
        Method::Doorbell { .. } if mix.mixed_lists => {
            PostShape { method: Method::Doorbell { batch: 1 }, ..shape }
        }
        _ => shape,
    }
}

impl<'a> LatencyWay<'a> {
    fn new(requester: &'a OperationEnd<'a>, responder: &'a OperationEnd<'a>, mix: &'a Mix) -> LatencyWay<'a> {
        LatencyWay {
            requester,
            responder,
            mix,
            shape: alone(mix, mix.post(requester.profile, true)),
            message: mix.message(requester.profile, responder.profile),
            written: 0,
            steps: Terms::default(),
        }
    }

    /// The steps from the post until the completion has been polled.
    pub(super) fn whole(
        requester: &'a OperationEnd<'a>,
        responder: &'a OperationEnd<'a>,
        mix: &'a Mix,
    ) -> Terms {
        let mut way = LatencyWay::new(requester, responder, mix);
        way.post();
        way.those_before();
        way.there();
        way.answer();
        way.complete();
        way.steps
    }

    /// The steps from when a sending unit begins the request until its answer has been received. During this
    /// time, a READ or an atomic counts as outstanding on its QP.
    pub(super) fn in_the_nics(
        requester: &'a OperationEnd<'a>,
        responder: &'a OperationEnd<'a>,
        mix: &'a Mix,
    ) -> Terms {
        let mut way = LatencyWay::new(requester, responder, mix);
        way.there();
        way.answer();
        way.steps
    }

    fn step(&mut self, part: LatencyPart, what: &'static str, ps: u64) {
        self.steps.step(part, what, ps);
    }

    /// Picoseconds of a DMA read, from the request to its last completion.
    fn read(side: &OperationEnd<'_>, bytes: u32) -> u64 {
        let (pcie, bytes) = (&side.costs.pcie, u64::from(bytes));
        match bytes {
            0 => 0,
            _ => pcie.read_requests(bytes) + pcie.read_latency + pcie.completions(bytes),
        }
    }

    /// Least picoseconds of DMA reads of several pieces. The time of one request counts: if the first piece
    /// is short, its completion arrives while the NIC requests the other pieces.
    fn reads(side: &OperationEnd<'_>, bytes: u32) -> u64 {
        let pcie = &side.costs.pcie;
        pcie.read_requests(1) + pcie.read_latency + pcie.completions(bytes.into())
    }

    /// Picoseconds of a packet on the link, at the sender's rate. The receiver's rate adds nothing, because a
    /// port receives a packet while it arrives.
    fn wire(sender: &OperationEnd<'_>, packet: &PacketShape) -> u64 {
        let wire = &sender.costs.wire;
        wire.time(wire.bytes(packet).into())
    }

    /// Adds the steps until the WQE is in the NIC.
    fn post(&mut self) {
        let costs = &self.requester.costs;
        self.step(
            LatencyPart::Core,
            "core: the call, building WQEs, writing to the NIC",
            costs.cpu.post_send(costs.generation, &self.shape),
        );
        match self.shape.method {
            Method::WqeByMmio => {
                self.step(
                    LatencyPart::Pcie,
                    "PCIe: the last line of the WQE",
                    costs.pcie.mmio_line + costs.pcie.mmio_latency,
                );
            }
            Method::Doorbell { batch } => {
                self.step(
                    LatencyPart::Pcie,
                    "PCIe: the Doorbell",
                    costs.pcie.doorbell + costs.pcie.mmio_latency,
                );
                let wqes = accounting::doorbell_fetches(&self.requester.profile.device.nic, batch)
                    .next()
                    .unwrap_or(1);
                let slot = wqe::pad(self.shape.wqe_bytes(costs.generation));
                self.step(
                    LatencyPart::Pcie,
                    "PCIe: the NIC's read of WQEs",
                    LatencyWay::read(self.requester, wqes * slot),
                );
            }
        }
    }

    /// Adds the time of the work requests that precede a signalled one in its list.
    fn those_before(&mut self) {
        if self.mix.window_per_qp && !self.mix.mixed_lists {
            let before = gcd(self.mix.signal_every.into(), self.mix.batch.into()) - 1;
            let each = self.requester.costs.send_requests(&self.shape, &self.message);
            self.step(LatencyPart::SendingUnit, "sending unit: earlier requests in its list", each * before);
        }
    }

    /// Adds the steps until the responder has looked at the last request packet. On UC and UD, adds the steps
    /// until this packet begins to leave.
    fn there(&mut self) {
        let (requester, responder) = (self.requester, self.responder);
        let packets: Vec<PacketShape> = self.message.requests().map(|piece| piece.packet).collect();
        let (first, last) = (packets[0], packets[packets.len() - 1]);
        let read = |packet: &PacketShape| match self.shape.payload_read() {
            0 => 0,
            _ if self.shape.sges > 1 => LatencyWay::reads(requester, packet.payload),
            _ => LatencyWay::read(requester, packet.payload),
        };
        let units = requester.costs.send_requests(&self.shape, &self.message);
        let of_first = requester.costs.send_first(&self.shape, &self.message);
        let wires = |packets: &[PacketShape]| {
            packets.iter().map(|packet| LatencyWay::wire(requester, packet)).sum::<u64>()
        };
        let answered = self.message.answers().next().is_some();
        let (by_unit, by_port) = match answered {
            true => (wires(&[last]), wires(&packets)),
            // A port accepts the next packet before the previous one has left.
            false => (0, wires(&packets[..packets.len() - 1]).saturating_sub(requester.costs.wire.ahead)),
        };
        let steps = if units + read(&last) + by_unit >= of_first + read(&first) + by_port {
            (units, read(&last), by_unit)
        } else {
            (of_first, read(&first), by_port)
        };
        self.step(LatencyPart::SendingUnit, "sending unit: the request", steps.0);
        self.step(LatencyPart::Pcie, "PCIe: the NIC's read of payload", steps.1);
        self.step(LatencyPart::Link, "link: the request", steps.2);
        if answered {
            self.step(LatencyPart::Cables, "cables and switch", requester.costs.wire.one_way);
            self.step(
                LatencyPart::ReceivingUnit,
                "receiving unit: the request",
                responder.costs.receive.look(&last),
            );
        }
    }

    /// Adds the steps until the requester has looked at the last packet of the answer. UC and UD have no
    /// answers.
    fn answer(&mut self) {
        let (requester, responder) = (self.requester, self.responder);
        let packets: Vec<PacketShape> = self.message.answers().map(|piece| piece.packet).collect();
        let (Some(first), Some(last)) = (packets.first(), packets.last()) else { return };
        let word = if self.mix.opcode.is_atomic() { ATOMIC_WORD_BYTES } else { 0 };
        let memory = responder.costs.device_memory.filter(|_| self.mix.device_memory);
        let data = match memory {
            Some(memory) if first.payload.max(word) > 0 => memory.access,
            Some(_) => 0,
            None => LatencyWay::read(responder, first.payload.max(word)),
        };
        let units = responder.costs.send_answers(&self.message);
        let of_first = responder.costs.send.answer(first);
        let write = |packet: &PacketShape| requester.costs.pcie.write(packet.payload.max(word).into());
        // The longest path is one of two kinds. Either the sending units delay the last packet, and only its
        // write follows. Or the port delays the packets up to some packet, and the writes of this and of all
        // later packets follow.
        let mut longest = (units, LatencyWay::wire(responder, last), write(last));
        let (mut wires, mut writes) = (0, packets.iter().map(write).sum::<u64>());
        for packet in &packets {
            wires += LatencyWay::wire(responder, packet);
            let way = (of_first, wires, writes);
            if way.0 + way.1 + way.2 > longest.0 + longest.1 + longest.2 {
                longest = way;
            }
            writes -= write(packet);
        }
        let (unit, wire, written) = longest;
        self.written = written;
        let (one_way, look) = (responder.costs.wire.one_way, requester.costs.receive.look(last));
        match memory {
            Some(_) => {
                self.step(LatencyPart::ReceivingUnit, "receiving unit: its read of device memory", data)
            }
            None => self.step(LatencyPart::Pcie, "PCIe: the responder's read of data", data),
        }
        self.step(LatencyPart::SendingUnit, "sending unit: the response", unit);
        self.step(LatencyPart::Link, "link: the response", wire);
        self.step(LatencyPart::Cables, "cables and switch, back", one_way);
        self.step(LatencyPart::ReceivingUnit, "receiving unit: the response", look);
    }

    /// Adds the steps until the completion has been polled.
    fn complete(&mut self) {
        let (pcie, cpu) = (&self.requester.costs.pcie, &self.requester.costs.cpu);
        self.step(LatencyPart::Pcie, "PCIe: data written before the CQE", self.written);
        self.step(
            LatencyPart::Pcie,
            "PCIe: the CQE",
            pcie.write(self.requester.costs.cqe.into()) + pcie.write_latency,
        );
        self.step(LatencyPart::Core, "core: the poll", cpu.poll_empty + cpu.take(1));
    }
}
