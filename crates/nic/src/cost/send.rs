//! The cost of packets on a sending unit.

use super::packet::{PacketKind, PacketShape};
use super::wire::WireCost;
use crate::Profile;

/// The properties of a send WQE that determine the cost of its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wqe {
    /// Cache lines of the WQE, at least 1.
    pub lines: u32,
    /// Whether the CPU wrote the WQE to the NIC by MMIO. Otherwise the NIC read it by DMA.
    pub by_mmio: bool,
}

/// Time of a sending unit, in picoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendCost {
    /// Added for a request whose WQE came by MMIO and has been evicted from the NIC's cache.
    pub wqe_stall: u64,
    /// Added for a QP context that is not in the NIC's cache, including the PCIe read.
    pub context_stall: u64,
    /// Added for a request of an RC QP that was idle.
    pub idle_qp: u64,
    /// Least time between the beginnings of two request packets of the whole NIC; 0 for no limit. Responses
    /// do not count.
    pub pipeline: u64,
    message: u64,
    read: u64,
    atomic: u64,
    fetched: u64,
    extra_line: u64,
    dma: u64,
    gather: u64,
    extra_packet: u64,
    buffer: u32,
    larger_payload: u64,
    response: u64,
    ack: u64,
    /// The port's cost, if units are busy until the packet of an answer has left.
    wire: Option<WireCost>,
}

impl SendCost {
    pub(super) fn new(profile: &Profile) -> SendCost {
        let tx = &profile.device.tx;
        SendCost {
            wqe_stall: profile.device.caches.wqe_stall.as_ps(),
            context_stall: (profile.device.caches.context_stall + profile.device.pcie.read_latency).as_ps(),
            idle_qp: tx.idle_qp.as_ps(),
            pipeline: profile.device.pipeline.map_or(0, |pipeline| pipeline.request.as_ps()),
            message: tx.send.as_ps(),
            read: tx.read_request.as_ps(),
            atomic: tx.atomic_request.as_ps(),
            fetched: tx.fetched_wqe.as_ps(),
            extra_line: tx.extra_line.as_ps(),
            dma: tx.payload_dma.as_ps(),
            gather: tx.gather.as_ps(),
            extra_packet: tx.extra_packet.as_ps(),
            buffer: tx.payload_buffer,
            larger_payload: tx.larger_payload.as_ps(),
            response: tx.response.as_ps(),
            ack: tx.ack.as_ps(),
            wire: tx
                .response_until_sent
                .then(|| WireCost::new(&profile.device.link, profile.device.generation)),
        }
    }

    /// Time of a request packet. The first packet of a message also pays for the kind of the message and for
    /// its WQE. `dmas` are the DMAs for the packet's own bytes ([`super::dmas`]; 0 for inline payload). Cache
    /// misses are not included.
    #[inline]
    pub fn request(&self, packet: &PacketShape, wqe: Wqe, dmas: u32) -> u64 {
        let reading = self.reading(packet, dmas);
        if !packet.begins {
            return reading + self.extra_packet;
        }
        let base = match packet.kind {
            PacketKind::ReadRequest => self.read,
            PacketKind::Atomic => self.atomic,
            _ => self.message,
        };
        let fetched = if wqe.by_mmio { 0 } else { self.fetched };
        reading + base + fetched + self.extra_line * u64::from(wqe.lines.saturating_sub(1))
    }

    /// Additional time for the DMA reads of the packet's payload.
    #[inline]
    fn reading(&self, packet: &PacketShape, dmas: u32) -> u64 {
        match dmas {
            0 => 0,
            _ => self.dma + self.gather * u64::from(dmas - 1) + self.of_buffer(packet),
        }
    }

    /// Time of a response packet.
    #[inline]
    pub fn answer(&self, packet: &PacketShape) -> u64 {
        let made = match packet.kind {
            PacketKind::Ack => return self.ack,
            PacketKind::ReadResponse if !packet.begins => self.extra_packet,
            _ => self.response,
        };
        made + self.of_buffer(packet) + self.leaving(packet)
    }

    /// Additional time until the packet has left by the port, if the unit is busy until then.
    #[inline]
    fn leaving(&self, packet: &PacketShape) -> u64 {
        self.wire.as_ref().map_or(0, |wire| wire.time(wire.bytes(packet).into()))
    }

    /// Additional time if the payload does not fit into the buffer.
    #[inline]
    fn of_buffer(&self, packet: &PacketShape) -> u64 {
        if packet.payload > self.buffer { self.larger_payload } else { 0 }
    }
}
