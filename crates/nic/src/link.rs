//! Bytes of messages on an InfiniBand link (IB specification vol. 1, chapters 7 and 9).

use crate::Link;
use doorbell_verbs::{Opcode, QpType, Span};
use serde::Serialize;

/// Local route header, base transport header, ICRC and VCRC: what every packet has.
const EVERY_PACKET: u32 = 8 + 12 + 4 + 2;
/// Datagram extended transport header.
const DETH: u32 = 8;
/// RDMA extended transport header.
const RETH: u32 = 16;
/// Atomic extended transport header.
const ATOMIC_ETH: u32 = 28;
/// ACK extended transport header.
const AETH: u32 = 4;
/// Atomic ACK extended transport header.
const ATOMIC_ACK_ETH: u32 = 8;
/// Immediate.
const IMM: u32 = 4;

/// Packets of a message in one direction, and the bytes they occupy on the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OnLink {
    /// Packets.
    pub packets: u32,
    /// Bytes, with headers, CRCs, padding to 4 bytes and the link's overhead per packet.
    pub bytes: u64,
}

impl Link {
    /// What the requester sends for one message.
    pub fn request(&self, opcode: Opcode, transport: QpType, payload: u32) -> OnLink {
        let deth = if transport == QpType::Ud { DETH } else { 0 };
        match opcode {
            Opcode::Send => self.packets(payload, deth),
            Opcode::SendWithImm => self.packets(payload, deth + IMM),
            Opcode::Write => self.packets(payload, RETH),
            Opcode::WriteWithImm => self.packets(payload, RETH + IMM),
            Opcode::Read => self.packets(0, RETH),
            Opcode::CompareSwap | Opcode::FetchAdd => self.packets(0, ATOMIC_ETH),
        }
    }

    /// What the responder answers: the data of a READ or an atomic, and an ACK on RC.
    pub fn response(&self, opcode: Opcode, transport: QpType, payload: u32) -> OnLink {
        match opcode {
            // The first and the last packet have an AETH.
            Opcode::Read if payload > self.mtu => self.packets(payload, 2 * AETH),
            Opcode::Read => self.packets(payload, AETH),
            Opcode::CompareSwap | Opcode::FetchAdd => self.packets(0, AETH + ATOMIC_ACK_ETH),
            _ if transport == QpType::Rc => self.packets(0, AETH),
            _ => OnLink::default(),
        }
    }

    /// Time that `bytes` take to pass a port, rounded to the nearest ps.
    pub fn time(&self, bytes: u64) -> Span {
        let rate = u128::from(self.port_bytes_per_s);
        Span::from_ps(((u128::from(bytes) * 1_000_000_000_000 + rate / 2) / rate) as u64)
    }

    /// Packets of a message of `payload` bytes with `extended` bytes of extended headers in all.
    fn packets(&self, payload: u32, extended: u32) -> OnLink {
        let packets = payload.div_ceil(self.mtu).max(1);
        let each = u64::from(EVERY_PACKET + self.packet_overhead);
        let bytes = u64::from(payload.next_multiple_of(4)) + u64::from(packets) * each + u64::from(extended);
        OnLink { packets, bytes }
    }
}
