//! The layout tables of a generation.

use crate::wqe::{LINE, Payload};
use doorbell_verbs::{Opcode, QpType};
use serde::Serialize;

/// How WQEs reach the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// The CPU writes the WQE to the NIC, line by line.
    WqeByMmio,
    /// The CPU writes a Doorbell, and the NIC reads this many WQEs.
    Doorbell {
        /// WQEs that the Doorbell announces, at least 1.
        batch: u32,
    },
}

impl Method {
    /// WQEs that reach the NIC this way.
    pub const fn wqes(self) -> u32 {
        match self {
            Method::WqeByMmio => 1,
            Method::Doorbell { batch } => batch,
        }
    }
}

/// The layout tables of a generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerationLayout {
    /// Sizes of WQEs.
    pub wqe: WqeLayout,
    /// How the driver announces WQEs to the NIC.
    pub posting: Posting,
    /// Sizes of packet headers.
    pub headers: Headers,
    /// Sizes of completions.
    pub completion: CompletionLayout,
}

/// Sizes of work queue elements (WQEs), in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WqeLayout {
    /// Send WQE of a connected QP before its payload.
    pub connected: u32,
    /// Send WQE of a UD QP before its payload, with the address.
    pub datagram: u32,
    /// Pointer to payload: address, length, lkey.
    pub sge: u32,
    /// Operands of an atomic.
    pub atomic: u32,
    /// An SGE of a RECV WQE. These WQEs have no header.
    pub recv_sge: u32,
}

impl WqeLayout {
    /// Bytes of a send WQE before its payload.
    pub const fn header_bytes(&self, transport: QpType) -> u32 {
        match transport {
            QpType::Rc | QpType::Uc => self.connected,
            QpType::Ud => self.datagram,
        }
    }

    /// Bytes of a send WQE, without padding. A UD SEND without payload fits into one line because it omits
    /// the part of the header that a payload needs (ATC'16, Figure 5).
    pub const fn send_bytes(&self, opcode: Opcode, transport: QpType, payload: Payload) -> u32 {
        let header = self.header_bytes(transport);
        let operands = if opcode.is_atomic() { self.atomic } else { 0 };
        match payload {
            Payload::None if header > LINE => LINE,
            Payload::None => header + operands,
            Payload::Inline(bytes) => (header + operands).saturating_add(bytes),
            Payload::Sges(sges) => (header + operands).saturating_add(sges.saturating_mul(self.sge)),
        }
    }

    /// Bytes of a RECV WQE and of its slot. The slot holds at least one SGE and is rounded up to a power of
    /// two, the stride of a receive queue.
    pub const fn recv_bytes(&self, sges: u32) -> u32 {
        let sges = if sges == 0 { 1 } else { sges };
        (sges * self.recv_sge).next_power_of_two()
    }

    /// Largest inline payload of a WQE of `lines` cache lines; `None` if the header alone does not fit.
    pub const fn max_inline_in(&self, lines: u32, transport: QpType) -> Option<u32> {
        (lines * LINE).checked_sub(self.header_bytes(transport))
    }
}

/// How the driver announces send WQEs to the NIC. A parameter of the profile says how many WQEs the NIC then
/// reads with one DMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posting {
    /// Whether the CPU itself writes a single posted WQE to the NIC, by MMIO.
    pub alone_by_mmio: bool,
    /// Bytes of a Doorbell.
    pub doorbell: u32,
}

impl Posting {
    /// How a list of `wqes` reaches the NIC.
    pub const fn method(&self, wqes: u32) -> Method {
        match wqes {
            0 | 1 if self.alone_by_mmio => Method::WqeByMmio,
            0 => Method::Doorbell { batch: 1 },
            batch => Method::Doorbell { batch },
        }
    }
}

/// Bytes of the headers of packets (IB specification vol. 1, chapters 5, 7 and 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// Bytes in every packet: routing header, base transport header, and CRCs.
    pub every: u32,
    /// Additional bytes in each packet of a SEND.
    pub send: u32,
    /// Datagram extended transport header.
    pub deth: u32,
    /// RDMA extended transport header of a WRITE, in its first packet or in every packet.
    pub reth: u32,
    /// RDMA extended transport header of a READ request.
    pub read_request: u32,
    /// Atomic extended transport header.
    pub atomic_eth: u32,
    /// ACK extended transport header.
    pub aeth: u32,
    /// Atomic ACK extended transport header.
    pub atomic_ack_eth: u32,
    /// Immediate.
    pub imm: u32,
}

/// The layout of a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionLayout {
    /// Possible sizes of a CQE in bytes; a parameter of the profile chooses one. The NIC writes a CQE with
    /// one DMA, including inline payload.
    pub sizes: &'static [u32],
}

impl CompletionLayout {
    /// Checks that a CQE can have `bytes`. The error says in one sentence which sizes are possible.
    pub(crate) fn check(&self, generation: &str, bytes: u32) -> Result<(), String> {
        if self.sizes.contains(&bytes) {
            return Ok(());
        }
        let sizes: Vec<String> = self.sizes.iter().map(u32::to_string).collect();
        Err(format!("nic.cqe_bytes is {bytes}, but a CQE of {generation} has {}", sizes.join(" or ")))
    }
}

/// Table 1 of ATC'16. It holds for both Mellanox generations. A connected WQE has control and remote address
/// segments of 16 bytes each and 4 bytes before inline payload. A datagram WQE has the control segment, an
/// address of 48 bytes and these 4 bytes.
pub(super) const TABLE_1: WqeLayout =
    WqeLayout { connected: 36, datagram: 68, sge: 16, atomic: 16, recv_sge: 16 };

/// Both drivers write a single posted WQE to the NIC by MMIO, even if batching is on (ATC'16, section 4). The
/// size of a Doorbell is from appendix A.
pub(super) const ALONE_BY_MMIO: Posting = Posting { alone_by_mmio: true, doorbell: DOORBELL_BYTES };

/// Bytes of a Doorbell (d of appendix A), in all generations.
pub const DOORBELL_BYTES: u32 = 8;

/// InfiniBand: local route header, base transport header, ICRC and VCRC in every packet.
pub(super) const INFINIBAND: Headers = Headers {
    every: 8 + 12 + 4 + 2,
    send: 0,
    deth: 8,
    reth: 16,
    read_request: 16,
    atomic_eth: 28,
    aeth: 4,
    atomic_ack_eth: 8,
    imm: 4,
};

/// RoCEv2 over IPv4: Ethernet header and FCS, IPv4 and UDP headers, base transport header and ICRC in every
/// packet (InfiniBand Architecture Specification, annex A17). Preamble and gap are no headers.
pub(super) const ROCE_V2: Headers = Headers { every: 14 + 4 + 20 + 8 + 12 + 4, ..INFINIBAND };
