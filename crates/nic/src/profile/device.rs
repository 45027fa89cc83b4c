//! Parameters of a NIC and its PCIe link.

use super::parameter::{ProfileError, ProfileReader, Section, Unit, section};
use super::pipeline::Pipeline;
use super::requests::Requests;
use crate::Generation;
use doorbell_verbs::{Mtu, Span};
use serde::Serialize;
use toml::Spanned;

/// A NIC, on a PCIe link of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Device {
    /// The generation, which determines the layouts of WQEs, Doorbells, packets and completions.
    pub generation: Generation,
    /// The PCIe link.
    pub pcie: Pcie,
    /// Speed of each kind of TLP on the PCIe link.
    pub pcie_speed: PcieSpeed,
    /// Ports and link.
    pub link: Link,
    /// Limits and behaviour of the NIC.
    pub nic: Nic,
    /// Sending units.
    pub tx: Tx,
    /// The pipeline of all sending units, if the profile describes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<Pipeline>,
    /// Receiving units.
    pub rx: Rx,
    /// Locks for atomics.
    pub atomics: Atomics,
    /// Caches in the NIC.
    pub caches: Caches,
    /// The store of requests in flight, if the profile describes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<Requests>,
}

/// Bytes per second at which each kind of TLP passes the PCIe link. Each kind has the speed of all lanes
/// together, unless [`crate::Profile::relax`] raises the speed of one kind. MMIOs and read completions share
/// the host-to-device direction, but each kind occupies it at its own speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PcieSpeed {
    /// Write-combined MMIOs and Doorbells (host to device).
    pub mmio: u64,
    /// Read completions (host to device).
    pub completion: u64,
    /// DMA writes and read requests (device to host).
    pub device_to_host: u64,
}

section! {
    /// The PCIe link between host and NIC.
    Pcie in "pcie" {
        /// Lanes.
        lanes: u32 = "lanes" Count 1..=32;
        /// Bytes per second of a lane after encoding (P_bw of ATC'16, Figure 2a).
        lane_bytes_per_s: u64 = "lane_mb_per_s" MegabytesPerSecond 1..=100000;
        /// Header of a read or write request TLP in bytes (P_r).
        request_header: u32 = "request_header_bytes" Bytes 0..=64;
        /// Header of a read completion TLP in bytes (P_c).
        completion_header: u32 = "completion_header_bytes" Bytes 0..=64;
        /// Maximum number of payload bytes of a read completion (C_rc).
        read_completion: u32 = "read_completion_bytes" Bytes 64..=4096;
        /// Maximum number of bytes of one read request.
        max_read_request: u32 = "max_read_request_bytes" Bytes 64..=4096;
        /// Maximum number of payload bytes of a DMA write TLP.
        max_payload: u32 = "max_payload_bytes" Bytes 64..=4096;
        /// Thousandths of a byte that link-layer packets (DLLPs) add per TLP, each way.
        dllp_millibytes: u64 = "dllp_millibytes_per_tlp" Count 0..=64000;
        /// Additional bytes on the link for each write-combined MMIO TLP.
        mmio_overhead: u32 = "mmio_overhead_bytes" Bytes 0..=256;
        /// From a read request leaving the NIC to its first completion arriving, on an idle link.
        read_latency: Span = "read_latency_ns" Nanoseconds 1..=100000;
        /// From a DMA write leaving the NIC to its line being visible to the CPU.
        write_latency: Span = "write_latency_ns" Nanoseconds 1..=100000;
        /// From an MMIO leaving the core to its arrival at the NIC.
        mmio_latency: Span = "mmio_latency_ns" Nanoseconds 1..=100000;
        /// Read requests the NIC may have outstanding (tags).
        max_outstanding_reads: u32 = "max_outstanding_reads" Count 1..=4096;
    }
}

section! {
    /// The ports, and the cables and switch between them.
    Link in "link" {
        /// Ports. Port p of a machine reaches only ports p of the others.
        ports: u32 = "ports" Count 1..=8;
        /// Bytes per second of a port and direction after encoding.
        port_bytes_per_s: u64 = "port_rate_gbps" GigabitsPerSecond 0.1..=3200;
        /// Bytes that a packet takes on the link besides its headers, payload and CRCs.
        packet_overhead: u32 = "packet_overhead_bytes" Bytes 0..=256;
        /// Bytes of arrived packets that a port can buffer until its NIC has processed them. When the buffer
        /// is full, senders wait, because InfiniBand links lose nothing.
        receive_buffer: u32 = "receive_buffer_bytes" Bytes 8192..=16777216;
        /// Path MTU in bytes; on iWARP the payload of a full segment.
        mtu: u32 = "mtu_bytes" Bytes 256..=9000;
        /// One way from port to port: cables and switch.
        one_way: Span = "one_way_ns" Nanoseconds 0..=10000000;
    }
}

section! {
    /// Limits and behaviour of the NIC.
    Nic in "nic" {
        /// Whether the NIC reads all WQEs of a Doorbell with one DMA.
        doorbell_reads_all: bool = "doorbell_reads_all" Flag 0..=1;
        /// Send WQEs that the NIC reads with one DMA, unless it reads all WQEs of a Doorbell at once.
        wqe_prefetch: u32 = "wqe_prefetch" Count 1..=4096;
        /// RECV WQEs that the NIC reads with one DMA.
        recv_prefetch: u32 = "recv_prefetch" Count 1..=4096;
        /// Largest inline payload in bytes.
        max_inline: u32 = "max_inline_bytes" Bytes 0..=4096;
        /// Most SGEs of a work request.
        max_sge: u32 = "max_sge" Count 1..=256;
        /// Work requests a queue may hold.
        max_qp_wr: u32 = "max_qp_wr" Count 1..=65535;
        /// Entries a completion queue may have.
        max_cqe: u32 = "max_cqe" Count 1..=16777216;
        /// Most READs and atomics outstanding per QP, as requester and as responder.
        max_rd_atomic: u32 = "max_rd_atomic" Count 1..=255;
        /// Largest payload that inline-receive puts into the CQE, in bytes; 0 for none.
        max_inline_recv: u32 = "max_inline_recv_bytes" Bytes 0..=64;
        /// Whether inline-receive works on UD.
        inline_recv_ud: bool = "inline_recv_ud" Flag 0..=1;
        /// Bytes of a CQE.
        cqe: u32 = "cqe_bytes" Bytes 32..=128;
    }
}

section! {
    /// The processing units that send. One unit at a time serves a QP.
    Tx in "tx" {
        /// Processing units.
        units: u32 = "units" Count 1..=256;
        /// SEND or WRITE whose WQE is one line and came by MMIO.
        send: Span = "send_ns" Nanoseconds 0..=100000;
        /// READ request whose WQE is one line and came by MMIO.
        read_request: Span = "read_request_ns" Nanoseconds 0..=100000;
        /// Atomic request whose WQE is one line and came by MMIO.
        atomic_request: Span = "atomic_request_ns" Nanoseconds 0..=100000;
        /// Added for a WQE that the NIC read by DMA.
        fetched_wqe: Span = "fetched_wqe_ns" Nanoseconds 0..=100000;
        /// Added for each line of the WQE after the first.
        extra_line: Span = "extra_line_ns" Nanoseconds 0..=100000;
        /// Added for a request of an RC QP that had nothing queued or outstanding when its WQE came.
        idle_qp: Span = "idle_qp_ns" Nanoseconds 0..=100000;
        /// Added for the first DMA read of a packet's payload.
        payload_dma: Span = "payload_dma_ns" Nanoseconds 0..=100000;
        /// Added for each further DMA read of a packet's payload, one for each additional SGE.
        gather: Span = "gather_ns" Nanoseconds 0..=100000;
        /// Added for each packet of a message after the first.
        extra_packet: Span = "extra_packet_ns" Nanoseconds 0..=100000;
        /// Largest payload of a packet that a unit can buffer when it reads the payload by DMA.
        payload_buffer: u32 = "payload_buffer_bytes" Bytes 1..=65536;
        /// Added for a packet whose payload is larger than the buffer.
        larger_payload: Span = "larger_payload_ns" Nanoseconds 0..=100000;
        /// Whether a unit stays busy until the answer packet of a READ or an atomic has left by the port.
        response_until_sent: bool = "response_until_sent" Flag 0..=1;
        /// Packets that a QP sends in a row before the next QP's turn.
        burst: u32 = "burst_packets" Count 1..=1024;
        /// First packet of the answer to a READ, or the answer to an atomic (responder).
        response: Span = "response_ns" Nanoseconds 0..=100000;
        /// An ACK (responder).
        ack: Span = "ack_ns" Nanoseconds 0..=100000;
    }
}

section! {
    /// The processing units that receive. One unit at a time serves the packets of an ordered flow.
    Rx in "rx" {
        /// Processing units.
        units: u32 = "units" Count 1..=256;
        /// Each packet of a request, and each packet of an answer that carries data.
        packet: Span = "packet_ns" Nanoseconds 0..=100000;
        /// Added for each DMA write issued: payload or CQE.
        dma_write: Span = "dma_write_ns" Nanoseconds 0..=100000;
        /// Added for each DMA read issued: the data of a READ.
        dma_read: Span = "dma_read_ns" Nanoseconds 0..=100000;
        /// Added where inline-receive puts payload into the CQE.
        inline_recv: Span = "inline_recv_ns" Nanoseconds 0..=100000;
        /// An atomic request in total: packet, read-modify-write and its buffering.
        atomic: Span = "atomic_ns" Nanoseconds 0..=100000;
        /// An ACK (requester).
        ack: Span = "ack_ns" Nanoseconds 0..=100000;
        /// Added for each signalled work request that an answer completes: its CQE (requester).
        requester_cqe: Span = "requester_cqe_ns" Nanoseconds 0..=100000;
    }
}

section! {
    /// The locks under which atomics are executed.
    Atomics in "atomics" {
        /// Number of locks. An address belongs to lock `(address >> slot_low_bit) % slots`.
        slots: u32 = "slots" Count 1..=65536;
        /// First address bit that chooses the lock.
        slot_low_bit: u32 = "slot_low_bit" Count 0..=48;
        /// How long an atomic holds its lock, in addition to the PCIe read of the word.
        hold: Span = "hold_ns" Nanoseconds 0..=100000;
        /// Whether a receiving unit stalls while its atomic waits for a lock.
        blocks_unit: bool = "blocks_unit" Flag 0..=1;
    }
}

section! {
    /// The contents of the NIC's SRAM.
    Caches in "caches" {
        /// Send WQEs that are not yet sent.
        wqe_entries: u32 = "wqe_entries" Count 1..=1048576;
        /// How long a sending unit stalls on a missing WQE. Other work hides the rest of the WQE's PCIe read.
        wqe_stall: Span = "wqe_stall_ns" Nanoseconds 0..=100000;
        /// WQEs of READs and atomics that were sent and wait for their answers.
        read_wqe_entries: u32 = "read_wqe_entries" Count 1..=1048576;
        /// QP contexts of requesters.
        requester_entries: u32 = "requester_entries" Count 1..=1048576;
        /// QP contexts of responders.
        responder_entries: u32 = "responder_entries" Count 1..=1048576;
        /// Bytes read over PCIe for a QP context.
        context: u32 = "context_bytes" Bytes 1..=4096;
        /// How long a unit stalls on a missing QP context, in addition to the PCIe read.
        context_stall: Span = "context_stall_ns" Nanoseconds 0..=100000;
        /// QP contexts that the NIC can read at a time. A unit that needs a further context waits.
        context_reads: u32 = "context_reads" Count 1..=256;
        /// Address translations.
        translation_entries: u32 = "translation_entries" Count 1..=16777216;
        /// How long a unit stalls on a missing translation, in addition to the PCIe read.
        translation_stall: Span = "translation_stall_ns" Nanoseconds 0..=100000;
        /// Bytes read over PCIe for a translation.
        translation: u32 = "translation_bytes" Bytes 1..=4096;
    }
}

impl PcieSpeed {
    /// The speed of all lanes, for each kind of TLP.
    pub(super) const fn of_all_lanes(pcie: &Pcie) -> PcieSpeed {
        let all = pcie.bytes_per_s();
        PcieSpeed { mmio: all, completion: all, device_to_host: all }
    }
}

impl Pcie {
    /// Bytes per second of all lanes, each way.
    pub const fn bytes_per_s(&self) -> u64 {
        self.lane_bytes_per_s * self.lanes as u64
    }
}

impl Link {
    /// The path MTU. On iWARP, segments have other sizes. The result is then the largest MTU that is not
    /// above the segment's size.
    pub fn mtu(&self) -> Mtu {
        Mtu::from_bytes(1 << self.mtu.clamp(256, 4096).ilog2()).unwrap_or(Mtu::Mtu4096)
    }
}

impl Nic {
    /// DMA reads that fetch the `wqes` new send WQEs of one Doorbell.
    pub const fn wqe_reads(&self, wqes: u32) -> u32 {
        match (wqes, self.doorbell_reads_all) {
            (0, _) => 0,
            (_, true) => 1,
            (_, false) => wqes.div_ceil(self.wqe_prefetch),
        }
    }

    /// Whether inline-receive puts a message of `payload` bytes into the CQE.
    pub const fn receives_inline(&self, payload: u32, ud: bool) -> bool {
        payload > 0 && payload <= self.max_inline_recv && (self.inline_recv_ud || !ud)
    }
}

impl Atomics {
    /// The number of the lock that an atomic on `address` acquires.
    pub const fn slot(&self, address: u64) -> u32 {
        ((address >> self.slot_low_bit) % self.slots as u64) as u32
    }
}
