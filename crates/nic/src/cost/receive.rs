//! The cost of packets on a receiving unit, and the work that the packets cause there.

use super::packet::{PacketKind, PacketShape};
use crate::{Nic, Profile, RecvShape, Sockets};
use doorbell_verbs::Span;

/// The work that a packet causes at the receiving NIC, in addition to the look at the packet. The CQE of a
/// work request at the requester is not part of this work, but costs [`ReceiveCost::requester_cqe`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveWork {
    /// Bytes of payload to write to memory; 0 for none.
    pub place: u32,
    /// Whether payload goes into the CQE of the RECV.
    pub inline: bool,
    /// Whether a RECV completes.
    pub recv_cqe: bool,
}

impl ReceiveWork {
    /// The work of a packet that arrives at a queue with RECVs like `recv`. A READ request causes no DMA
    /// here: each packet of its response causes one.
    pub const fn of(packet: &PacketShape, nic: &Nic, recv: RecvShape) -> ReceiveWork {
        let recv_cqe = packet.ends && (matches!(packet.kind, PacketKind::Send) || packet.imm);
        let only = packet.begins && packet.ends && matches!(packet.kind, PacketKind::Send);
        let inline = only && recv.inline && nic.receives_inline(packet.payload, packet.datagram);
        ReceiveWork { place: if inline { 0 } else { packet.payload }, inline, recv_cqe }
    }

    /// DMA writes of this work if the payload goes to one buffer.
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
    /// Stall on the WQE of a request that an answer completes, if the WQE is no longer in the NIC's store of
    /// requests. Zero without such a store.
    pub wqe_stall: u64,
    /// Additional time of a request whose DMA write crosses to another CPU socket.
    pub crossing_write: u64,
    /// Additional time of a request whose DMA read comes from another CPU socket.
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
            wqe_stall: profile.device.requests.map_or(0, |requests| requests.stall.as_ps()),
            crossing_write: crossing(|sockets| sockets.unit_write),
            crossing_read: crossing(|sockets| sockets.unit_read),
            packet: rx.packet.as_ps(),
            atomic: rx.atomic.as_ps(),
            ack: rx.ack.as_ps(),
        }
    }

    /// Time to look at a packet. The DMAs that the packet causes begin only afterwards. For an atomic, this
    /// is the whole cost.
    #[inline]
    pub fn look(&self, packet: &PacketShape) -> u64 {
        match packet.kind {
            PacketKind::Ack => self.ack,
            PacketKind::Atomic => self.atomic,
            _ => self.packet,
        }
    }
}
