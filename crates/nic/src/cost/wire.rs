//! The cost of packets on the link.

use super::packet::{PacketKind, PacketShape};
use crate::generation::Headers;
use crate::{Generation, Link};
use serde::Serialize;

/// Packets of a message in one direction, and the bytes they occupy on the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct OnLink {
    /// Packets.
    pub packets: u32,
    /// Bytes, with headers, CRCs, padding to 4 bytes and the link's overhead per packet.
    pub bytes: u64,
}

/// Bytes of packets on the link, and their time in picoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireCost {
    /// From when a bit has left a port until it is at the other port.
    pub one_way: u64,
    /// A port accepts another packet if at most this much time of accepted packets is left to send. It is the
    /// time of a payload of the MTU.
    pub ahead: u64,
    headers: Headers,
    /// RETH of the packets of a WRITE after the first.
    later_reth: u32,
    /// Headers and overhead of every packet.
    every: u32,
    fs_per_byte: u64,
}

impl WireCost {
    pub(super) fn new(link: &Link, generation: Generation) -> WireCost {
        let headers = *generation.headers(link.layer());
        let fs_per_byte = 1_000_000_000_000_000 / link.port_bytes_per_s.max(1);
        WireCost {
            one_way: link.one_way.as_ps(),
            ahead: u64::from(link.mtu) * fs_per_byte / 1000,
            headers,
            later_reth: if link.reth_in_every_packet { headers.reth } else { 0 },
            every: headers.every + link.packet_overhead,
            fs_per_byte,
        }
    }

    /// Bytes that a packet occupies: headers, payload padded to 4 bytes, and the link's overhead.
    #[inline]
    pub fn bytes(&self, packet: &PacketShape) -> u32 {
        let h = &self.headers;
        let extended = match packet.kind {
            PacketKind::Send => h.send,
            PacketKind::Write if packet.begins => h.reth,
            PacketKind::Write => self.later_reth,
            PacketKind::ReadRequest => h.read_request,
            PacketKind::Atomic => h.atomic_eth,
            // The first and the last packet have an AETH.
            PacketKind::ReadResponse if packet.begins || packet.ends => h.aeth,
            PacketKind::ReadResponse => 0,
            PacketKind::AtomicAck => h.aeth + h.atomic_ack_eth,
            PacketKind::Ack => h.aeth,
        };
        let imm = if packet.imm { h.imm } else { 0 };
        let deth = if packet.datagram { h.deth } else { 0 };
        self.every + extended + imm + deth + packet.payload.next_multiple_of(4)
    }

    /// Picoseconds that `bytes` take to pass a port.
    #[inline]
    pub fn time(&self, bytes: u64) -> u64 {
        bytes * self.fs_per_byte / 1000
    }
}
