//! Packets as typed headers. They refer to the payload but do not carry it.

use doorbell_verbs::{LinkLayer, Opcode, QpType, WcStatus};

/// Position of a packet within its message (IB specification vol. 1, 9.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketPart {
    /// First of several.
    First,
    /// Neither first nor last.
    Middle,
    /// Last of several.
    Last,
    /// The whole message.
    Only,
}

impl PacketPart {
    /// Whether a message begins here.
    pub const fn begins(self) -> bool {
        matches!(self, PacketPart::First | PacketPart::Only)
    }

    /// Whether a message ends here.
    pub const fn ends(self) -> bool {
        matches!(self, PacketPart::Last | PacketPart::Only)
    }
}

/// RDMA extended transport header: the remote memory of a WRITE or READ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reth {
    /// Virtual address at the responder.
    pub va: u64,
    /// Key at the responder.
    pub rkey: u32,
    /// Length of the whole message in bytes.
    pub dma_len: u32,
}

/// An atomic as a packet carries it (AtomicETH).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtomicOp {
    /// Compare-and-swap.
    CompareSwap {
        /// The expected value of the word.
        compare: u64,
        /// The new value of the word.
        swap: u64,
    },
    /// Fetch-and-add, wrapping.
    FetchAdd {
        /// The addend.
        add: u64,
    },
}

impl AtomicOp {
    /// The opcode of a work request with this operation.
    pub const fn opcode(self) -> Opcode {
        match self {
            AtomicOp::CompareSwap { .. } => Opcode::CompareSwap,
            AtomicOp::FetchAdd { .. } => Opcode::FetchAdd,
        }
    }

    /// The new value of the word.
    pub const fn apply(self, original: u64) -> u64 {
        match self {
            AtomicOp::CompareSwap { compare, swap } => {
                if original == compare {
                    swap
                } else {
                    original
                }
            }
            AtomicOp::FetchAdd { add } => original.wrapping_add(add),
        }
    }
}

/// Reason of a NAK (IB specification vol. 1, table 46).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NakCode {
    /// A PSN is missing.
    PsnSequence,
    /// Invalid request.
    InvalidRequest,
    /// Remote access error.
    RemoteAccess,
    /// Remote operational error.
    RemoteOperation,
}

impl NakCode {
    /// The status of a work request that the responder refuses with this NAK (table 46). A sequence error is
    /// not a refusal: the request is sent again.
    pub const fn status(self) -> WcStatus {
        match self {
            NakCode::InvalidRequest => WcStatus::RemInvReqErr,
            NakCode::RemoteAccess => WcStatus::RemAccessErr,
            NakCode::RemoteOperation => WcStatus::RemOpErr,
            NakCode::PsnSequence => WcStatus::GeneralErr,
        }
    }
}

/// Syndrome of an ACK extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// Acknowledged.
    Ack,
    /// No RECV is posted. The requester waits for the time of this code.
    RnrNak(u8),
    /// Refused.
    Nak(NakCode),
}

/// The kind of a packet, with the extended headers of this kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Part of a SEND.
    Send {
        /// Position in the message.
        part: PacketPart,
        /// Immediate, on a packet that ends the message.
        imm: Option<u32>,
    },
    /// Part of a WRITE.
    Write {
        /// Position in the message.
        part: PacketPart,
        /// Present if the packet begins the message.
        reth: Option<Reth>,
        /// Immediate, on a packet that ends the message.
        imm: Option<u32>,
    },
    /// READ request.
    ReadRequest(Reth),
    /// Part of the answer to a READ.
    ReadResponse {
        /// Position in the answer; `Middle` has no AETH.
        part: PacketPart,
    },
    /// Atomic request.
    Atomic {
        /// Virtual address of the word.
        va: u64,
        /// Key at the responder.
        rkey: u32,
        /// The operation.
        op: AtomicOp,
    },
    /// Answer to an atomic.
    AtomicAck {
        /// The previous value of the word.
        original: u64,
    },
    /// ACK or NAK.
    Ack(Syndrome),
}

/// Datagram extended transport header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deth {
    /// Q_Key.
    pub qkey: u32,
    /// Sending QP.
    pub src_qp: u32,
}

/// A packet without its payload bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Transport service.
    pub transport: QpType,
    /// Destination QP.
    pub dest_qp: u32,
    /// Packet sequence number, 24 bits.
    pub psn: u32,
    /// Whether the requester asks for an ACK.
    pub ack_req: bool,
    /// Whether the packet solicits an event.
    pub solicited: bool,
    /// Message sequence number, 24 bits; answers only.
    pub msn: u32,
    /// Present on UD only.
    pub deth: Option<Deth>,
    /// Kind of packet and its extended headers.
    pub body: Body,
    /// Payload bytes, without padding.
    pub payload_len: u32,
}

impl Packet {
    /// Whether the packet goes from responder to requester.
    pub const fn is_answer(&self) -> bool {
        matches!(self.body, Body::ReadResponse { .. } | Body::AtomicAck { .. } | Body::Ack(_))
    }

    /// Bytes of the transport headers: BTH and the extended headers (IB specification vol. 1, chapter 9),
    /// without routing headers and CRCs.
    pub const fn transport_header_bytes(&self) -> u32 {
        const BTH: u32 = 12;
        let extended = match self.body {
            Body::Send { imm: Some(_), .. } => 4,
            Body::Send { imm: None, .. } => 0,
            Body::Write { reth, imm, .. } => {
                (if reth.is_some() { 16 } else { 0 }) + (if imm.is_some() { 4 } else { 0 })
            }
            Body::ReadRequest(_) => 16,
            Body::ReadResponse { part: PacketPart::Middle } => 0,
            Body::ReadResponse { .. } => 4,
            Body::Atomic { .. } => 28,
            Body::AtomicAck { .. } => 4 + 8,
            Body::Ack(_) => 4,
        };
        BTH + extended + if self.deth.is_some() { 8 } else { 0 }
    }

    /// Bytes on the wire, including routing headers and CRCs. The payload is padded to 4 bytes. InfiniBand:
    /// LRH (8), ICRC (4), VCRC (2). RoCEv2 over IPv4: Ethernet (14) and FCS (4), IP (20), UDP (8), ICRC (4).
    /// Preamble and gap are left out.
    pub const fn wire_bytes(&self, link: LinkLayer) -> u32 {
        let around = match link {
            LinkLayer::Infiniband => 8 + 4 + 2,
            LinkLayer::Ethernet => 14 + 4 + 20 + 8 + 4,
        };
        around + self.transport_header_bytes() + self.payload_len.next_multiple_of(4)
    }
}
