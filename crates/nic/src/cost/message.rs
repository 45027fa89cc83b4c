//! The packets of a message, and sums over them.

use super::costs::Costs;
use super::packet::{PacketKind, PacketShape, dmas};
use super::send::Wqe;
use super::wire::OnLink;
use crate::Profile;
use crate::generation::Method;
use crate::shape::PostShape;
use doorbell_verbs::{Opcode, QpType};

/// A message: the packets that one send work request exchanges with the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageShape {
    /// Verb.
    pub opcode: Opcode,
    /// Transport.
    pub qp_type: QpType,
    /// Payload bytes; for a READ the bytes it asks for. Ignored for an atomic.
    pub payload: u32,
    /// Largest payload of a packet in bytes.
    pub mtu: u32,
}

/// A packet with the part of the payload that it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessagePacket {
    /// The packet.
    pub packet: PacketShape,
    /// Offset of the packet's payload in the message.
    pub offset: u32,
}

/// Splits `payload` bytes into packets. An empty message also has one packet.
fn pieces(payload: u32, mtu: u32, like: PacketShape) -> impl Iterator<Item = MessagePacket> + use<> {
    let mtu = mtu.max(1);
    let last = payload.div_ceil(mtu).saturating_sub(1);
    (0..=last).map(move |i| {
        let offset = i * mtu;
        let (begins, ends) = (i == 0, i == last);
        let packet =
            PacketShape { begins, ends, imm: like.imm && ends, payload: mtu.min(payload - offset), ..like };
        MessagePacket { packet, offset }
    })
}

impl MessageShape {
    /// The packets that the requester sends.
    pub fn requests(&self) -> impl Iterator<Item = MessagePacket> + use<> {
        let datagram = self.qp_type == QpType::Ud;
        let (kind, imm, payload) = match self.opcode {
            Opcode::Send => (PacketKind::Send, false, self.payload),
            Opcode::SendWithImm => (PacketKind::Send, true, self.payload),
            Opcode::Write => (PacketKind::Write, false, self.payload),
            Opcode::WriteWithImm => (PacketKind::Write, true, self.payload),
            Opcode::Read => (PacketKind::ReadRequest, false, 0),
            Opcode::CompareSwap | Opcode::FetchAdd => (PacketKind::Atomic, false, 0),
        };
        pieces(payload, self.mtu, PacketShape { imm, datagram, ..PacketShape::only(kind) })
    }

    /// The packets with which the responder answers: the data of a READ or an atomic, an ACK on RC, otherwise
    /// none.
    pub fn answers(&self) -> impl Iterator<Item = MessagePacket> + use<> {
        let (kind, payload) = match self.opcode {
            Opcode::Read => (Some(PacketKind::ReadResponse), self.payload),
            Opcode::CompareSwap | Opcode::FetchAdd => (Some(PacketKind::AtomicAck), 0),
            _ => ((self.qp_type == QpType::Rc).then_some(PacketKind::Ack), 0),
        };
        let mtu = self.mtu;
        kind.into_iter().flat_map(move |kind| pieces(payload, mtu, PacketShape::only(kind)))
    }
}

impl Costs {
    /// Bytes of `packets` on the link.
    pub fn on_link(&self, packets: impl Iterator<Item = MessagePacket>) -> OnLink {
        packets.fold(OnLink::default(), |sum, piece| OnLink {
            packets: sum.packets + 1,
            bytes: sum.bytes + u64::from(self.wire.bytes(&piece.packet)),
        })
    }

    /// Picoseconds of a sending unit for the request packets of one work request of `shape`.
    pub fn send_requests(&self, shape: &PostShape, message: &MessageShape) -> u64 {
        message.requests().map(|piece| self.send_request(shape, &piece)).sum()
    }

    /// Picoseconds of a sending unit for the first request packet of one work request of `shape`.
    pub fn send_first(&self, shape: &PostShape, message: &MessageShape) -> u64 {
        message.requests().next().map_or(0, |piece| self.send_request(shape, &piece))
    }

    fn send_request(&self, shape: &PostShape, piece: &MessagePacket) -> u64 {
        let wqe = Wqe {
            lines: shape.wqe_lines(self.generation),
            by_mmio: matches!(shape.method, Method::WqeByMmio),
        };
        let reads = match shape.payload_read() {
            0 => 0,
            _ => dmas(shape.buffers(), piece.offset, piece.packet.payload),
        };
        self.send.request(&piece.packet, wqe, reads)
    }

    /// Picoseconds of the responder's sending unit for the answer to a message.
    pub fn send_answers(&self, message: &MessageShape) -> u64 {
        message.answers().map(|piece| self.send.answer(&piece.packet)).sum()
    }
}

impl Profile {
    /// A message on this NIC's link.
    pub fn message(&self, opcode: Opcode, qp_type: QpType, payload: u32) -> MessageShape {
        MessageShape { opcode, qp_type, payload, mtu: self.device.link.mtu }
    }

    /// Packets and bytes that the requester sends for one message.
    pub fn request_on_link(&self, opcode: Opcode, qp_type: QpType, payload: u32) -> OnLink {
        Costs::new(self).on_link(self.message(opcode, qp_type, payload).requests())
    }

    /// Packets and bytes with which the responder answers one message: the data of a READ or an atomic, or an
    /// ACK on RC.
    pub fn response_on_link(&self, opcode: Opcode, qp_type: QpType, payload: u32) -> OnLink {
        Costs::new(self).on_link(self.message(opcode, qp_type, payload).answers())
    }
}
