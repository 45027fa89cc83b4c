//! What packets cost a receiving unit, and what they make it do.

use super::packet::{PacketKind, PacketShape};
use crate::{Nic, Profile, RecvShape, Sockets};
use doorbell_verbs::Span;

/// What a packet makes the NIC do that receives it, beside looking at it. A CQE of the requester is not
/// among it: it has a cost of its own, [`ReceiveCost::requester_cqe`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveWork {
    /// Bytes of payload to place in memory; 0 for none.
    pub place: u32,
    /// Whether payload goes into the CQE of the RECV.
    pub inline: bool,
    /// Whether a RECV completes.
    pub recv_cqe: bool,
}

impl ReceiveWork {
    /// Of a packet that is received with RECVs like `recv` posted. A READ request asks for no DMA here:
    /// its answers do, one each.
    pub const fn of(packet: &PacketShape, nic: &Nic, recv: RecvShape) -> ReceiveWork {
        let recv_cqe = packet.ends && (matches!(packet.kind, PacketKind::Send) || packet.imm);
        let only = packet.begins && packet.ends && matches!(packet.kind, PacketKind::Send);
        let inline = only && recv.inline && nic.receives_inline(packet.payload, packet.datagram);
        ReceiveWork { place: if inline { 0 } else { packet.payload }, inline, recv_cqe }
    }

    /// DMA writes that it takes, where payload goes to one buffer.
    pub const fn writes(&self) -> u32 {
        (self.place > 0) as u32 + self.recv_cqe as u32
    }
}

/// Time of a receiving unit, in picoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiveCost {
    /// Issuing a DMA write: payload to one buffer, or the CQE of a RECV.
    pub dma_write: u64,
    /// Issuing a DMA read: the data of one packet of the answer to a READ.
    pub dma_read: u64,
    /// Moving payload into a CQE.
    pub inline: u64,
    /// The CQE of a signalled work request that an answer completes.
    pub requester_cqe: u64,
    /// What a request takes more whose DMA write leaves the NIC's socket.
    pub crossing_write: u64,
    /// The same of a read.
    pub crossing_read: u64,
    packet: u64,
    atomic: u64,
    ack: u64,
}

impl ReceiveCost {
    pub(super) fn new(profile: &Profile) -> ReceiveCost {
        let rx = &profile.device.rx;
        let crossing = |span: fn(&Sockets) -> Span| profile.sockets.as_ref().map_or(0, |s| span(s).as_ps());
        ReceiveCost {
            dma_write: rx.dma_write.as_ps(),
            dma_read: rx.dma_read.as_ps(),
            inline: rx.inline_recv.as_ps(),
            requester_cqe: rx.requester_cqe.as_ps(),
            crossing_write: crossing(|sockets| sockets.unit_write),
            crossing_read: crossing(|sockets| sockets.unit_read),
            packet: rx.packet.as_ps(),
            atomic: rx.atomic.as_ps(),
            ack: rx.ack.as_ps(),
        }
    }

    /// Looking at a packet: before it is done, nothing that the packet asks for begins. Of an atomic
    /// this is all.
    #[inline]
    pub fn look(&self, packet: &PacketShape) -> u64 {
        match packet.kind {
            PacketKind::Ack => self.ack,
            PacketKind::Atomic => self.atomic,
            _ => self.packet,
        }
    }
}
