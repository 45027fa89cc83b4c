//! The packets of a message, and sums over them.

use super::{Costs, Kind, OnLink, Packet, Wqe};
use crate::accounting::{Method, PostShape};
use crate::{Profile, cost};
use doorbell_verbs::{Opcode, QpType};

/// A message: what one send work request says to the responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Verb.
    pub opcode: Opcode,
    /// Transport.
    pub qp_type: QpType,
    /// Payload bytes; what a READ asks for. Of an atomic it does not matter.
    pub payload: u32,
    /// Payload bytes of a packet at most.
    pub mtu: u32,
}

/// A packet with the part of the payload that it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The packet.
    pub packet: Packet,
    /// Its first byte in the message.
    pub offset: u32,
}

/// `payload` bytes packet by packet; also an empty message has one.
fn pieces(payload: u32, mtu: u32, like: Packet) -> impl Iterator<Item = Piece> + use<> {
    let mtu = mtu.max(1);
    let last = payload.div_ceil(mtu).saturating_sub(1);
    (0..=last).map(move |i| {
        let offset = i * mtu;
        let (begins, ends) = (i == 0, i == last);
        let packet =
            Packet { begins, ends, imm: like.imm && ends, payload: mtu.min(payload - offset), ..like };
        Piece { packet, offset }
    })
}

impl Message {
    /// The packets that the requester sends.
    pub fn requests(&self) -> impl Iterator<Item = Piece> + use<> {
        let datagram = self.qp_type == QpType::Ud;
        let (kind, imm, payload) = match self.opcode {
            Opcode::Send => (Kind::Send, false, self.payload),
            Opcode::SendWithImm => (Kind::Send, true, self.payload),
            Opcode::Write => (Kind::Write, false, self.payload),
            Opcode::WriteWithImm => (Kind::Write, true, self.payload),
            Opcode::Read => (Kind::ReadRequest, false, 0),
            Opcode::CompareSwap | Opcode::FetchAdd => (Kind::Atomic, false, 0),
        };
        pieces(payload, self.mtu, Packet { imm, datagram, ..Packet::only(kind) })
    }

    /// The packets that the responder answers: the data of a READ or an atomic, an ACK on RC, else none.
    pub fn answers(&self) -> impl Iterator<Item = Piece> + use<> {
        let (kind, payload) = match self.opcode {
            Opcode::Read => (Some(Kind::ReadResponse), self.payload),
            Opcode::CompareSwap | Opcode::FetchAdd => (Some(Kind::AtomicAck), 0),
            _ => ((self.qp_type == QpType::Rc).then_some(Kind::Ack), 0),
        };
        let mtu = self.mtu;
        kind.into_iter().flat_map(move |kind| pieces(payload, mtu, Packet::only(kind)))
    }
}

impl Costs {
    /// Bytes of `packets` on the link.
    pub fn on_link(&self, packets: impl Iterator<Item = Piece>) -> OnLink {
        packets.fold(OnLink::default(), |sum, piece| OnLink {
            packets: sum.packets + 1,
            bytes: sum.bytes + u64::from(self.wire.bytes(&piece.packet)),
        })
    }

    /// Time of a sending unit for the requests of one of the work requests of `shape`, in picoseconds.
    pub fn send_requests(&self, shape: &PostShape, message: &Message) -> u64 {
        message.requests().map(|piece| self.send_request(shape, &piece)).sum()
    }

    /// The same for the first of its packets.
    pub fn send_first(&self, shape: &PostShape, message: &Message) -> u64 {
        message.requests().next().map_or(0, |piece| self.send_request(shape, &piece))
    }

    fn send_request(&self, shape: &PostShape, piece: &Piece) -> u64 {
        let wqe = Wqe {
            lines: shape.wqe_lines(self.generation),
            by_mmio: matches!(shape.method, Method::WqeByMmio),
        };
        let dmas = match shape.payload_read() {
            0 => 0,
            _ => cost::dmas(shape.buffers(), piece.offset, piece.packet.payload),
        };
        self.send.request(&piece.packet, wqe, dmas)
    }

    /// Time of the responder's sending unit for the answer to a message, in picoseconds.
    pub fn send_answers(&self, message: &Message) -> u64 {
        message.answers().map(|piece| self.send.answer(&piece.packet)).sum()
    }
}

impl Profile {
    /// A message on this NIC's link.
    pub fn message(&self, opcode: Opcode, qp_type: QpType, payload: u32) -> Message {
        Message { opcode, qp_type, payload, mtu: self.device.link.mtu }
    }

    /// What the requester sends for one message.
    pub fn request_on_link(&self, opcode: Opcode, qp_type: QpType, payload: u32) -> OnLink {
        Costs::new(self).on_link(self.message(opcode, qp_type, payload).requests())
    }

    /// What the responder answers: the data of a READ or an atomic, and an ACK on RC.
    pub fn response_on_link(&self, opcode: Opcode, qp_type: QpType, payload: u32) -> OnLink {
        Costs::new(self).on_link(self.message(opcode, qp_type, payload).answers())
    }
}
