//! RoCEv2: packets as the payload of UDP datagrams to port 4791, from BTH to ICRC.
//!
//! Headers follow IB specification vol. 1, chapter 9, in network byte order. The ICRC (annex A17 of the
//! specification) also covers the preceding IP and UDP headers. So encoding and decoding need a [`Route`].
//! For the ICRC, all bits of the fields that routers change count as ones.

use crate::{AtomicOp, Body, Deth, NakCode, Packet, PacketPart, Reth, Syndrome};
use doorbell_verbs::QpType;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use thiserror::Error;

/// UDP port of RoCEv2.
pub const ROCE_V2_PORT: u16 = 4791;

const BTH_BYTES: usize = 12;
const ICRC_BYTES: usize = 4;
/// The default partition, full membership.
const PKEY: u16 = 0xffff;
/// AETH credit code that means no end-to-end flow control.
const CREDITS_UNLIMITED: u8 = 31;

/// The parts of the IP and UDP headers that the ICRC covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Addresses.
    pub ip: IpRoute,
    /// UDP source port.
    pub src_port: u16,
}

/// The parts of the IP header that the ICRC covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpRoute {
    /// IPv4 without options.
    V4 {
        /// Source.
        src: Ipv4Addr,
        /// Destination.
        dst: Ipv4Addr,
        /// Identification.
        id: u16,
        /// Don't Fragment.
        dont_fragment: bool,
    },
    /// IPv6 without extension headers.
    V6 {
        /// Source.
        src: Ipv6Addr,
        /// Destination.
        dst: Ipv6Addr,
    },
}

/// The reason why bytes are not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DecodeError {
    /// The bytes end before the headers of the opcode, the padding and the ICRC.
    #[error("{0} bytes are too few for the headers")]
    Truncated(usize),
    /// More bytes than a UDP datagram holds.
    #[error("{0} bytes are too many for a UDP datagram")]
    TooLong(usize),
    /// The ICRC is wrong.
    #[error("the ICRC is {found:#010x}, must be {expected:#010x}")]
    Icrc {
        /// ICRC in the packet.
        found: u32,
        /// ICRC computed from the packet.
        expected: u32,
    },
    /// The transport header version is not 0.
    #[error("transport header version {0}, must be 0")]
    Version(u8),
    /// Not an opcode of RC, UC or UD.
    #[error("unknown opcode {0:#04x}")]
    Opcode(u8),
    /// Not the default partition.
    #[error("P_Key {0:#06x} is not the default partition")]
    PKey(u16),
    /// A reserved AETH syndrome.
    #[error("reserved AETH syndrome {0:#04x}")]
    Syndrome(u8),
    /// A payload, although the opcode has none.
    #[error("opcode {opcode:#04x} carries no payload, got {len} bytes")]
    Payload {
        /// The opcode.
        opcode: u8,
        /// Bytes of payload.
        len: usize,
    },
}

/// Appends `packet` with its `payload` to `out`, in the form of a UDP payload. The packet must come from this
/// crate.
///
/// # Panics
/// If the length of `payload` is not `packet.payload_len`, or exceeds a UDP datagram.
pub fn encode(packet: &Packet, payload: &[u8], route: &Route, out: &mut Vec<u8>) {
    assert_eq!(payload.len(), packet.payload_len as usize, "the payload is not that of the packet");
    let start = out.len();
    let pad = payload.len().wrapping_neg() % 4;
    out.push(opcode(packet));
    out.push(u8::from(packet.solicited) << 7 | 1 << 6 | (pad as u8) << 4);
    out.extend_from_slice(&PKEY.to_be_bytes());
    out.extend_from_slice(&packet.dest_qp.to_be_bytes());
    out.extend_from_slice(&(u32::from(packet.ack_req) << 31 | packet.psn).to_be_bytes());
    if let Some(deth) = packet.deth {
        out.extend_from_slice(&deth.qkey.to_be_bytes());
        out.extend_from_slice(&deth.src_qp.to_be_bytes());
    }
    encode_body(packet, out);
    out.extend_from_slice(payload);
    out.resize(out.len() + pad, 0);
    let crc = icrc(&out[start..], route);
    out.extend_from_slice(&crc.to_le_bytes());
}

fn encode_body(packet: &Packet, out: &mut Vec<u8>) {
    let aeth = |syndrome: u8| u32::from(syndrome) << 24 | packet.msn;
    match packet.body {
        Body::Send { imm, .. } => encode_imm(imm, out),
        Body::Write { reth, imm, .. } => {
            if let Some(reth) = reth {
                encode_reth(reth, out);
            }
            encode_imm(imm, out);
        }
        Body::ReadRequest(reth) => encode_reth(reth, out),
        Body::ReadResponse { part: PacketPart::Middle } => {}
        Body::ReadResponse { .. } => out.extend_from_slice(&aeth(CREDITS_UNLIMITED).to_be_bytes()),
        Body::Atomic { va, rkey, op } => {
            let (swap_or_add, compare) = match op {
                AtomicOp::CompareSwap { compare, swap } => (swap, compare),
                AtomicOp::FetchAdd { add } => (add, 0),
            };
            out.extend_from_slice(&va.to_be_bytes());
            out.extend_from_slice(&rkey.to_be_bytes());
            out.extend_from_slice(&swap_or_add.to_be_bytes());
            out.extend_from_slice(&compare.to_be_bytes());
        }
        Body::AtomicAck { original } => {
            out.extend_from_slice(&aeth(CREDITS_UNLIMITED).to_be_bytes());
            out.extend_from_slice(&original.to_be_bytes());
        }
        Body::Ack(syndrome) => out.extend_from_slice(&aeth(syndrome_byte(syndrome)).to_be_bytes()),
    }
}

fn encode_imm(imm: Option<u32>, out: &mut Vec<u8>) {
    if let Some(imm) = imm {
        out.extend_from_slice(&imm.to_be_bytes());
    }
}

fn encode_reth(reth: Reth, out: &mut Vec<u8>) {
    out.extend_from_slice(&reth.va.to_be_bytes());
    out.extend_from_slice(&reth.rkey.to_be_bytes());
    out.extend_from_slice(&reth.dma_len.to_be_bytes());
}

/// Opcode of BTH (IB specification vol. 1, table 38): the service in the upper three bits.
fn opcode(packet: &Packet) -> u8 {
    let service = match packet.transport {
        QpType::Rc => 0x00,
        QpType::Uc => 0x20,
        QpType::Ud => 0x60,
    };
    let with_imm = |part, imm: Option<u32>| match part {
        PacketPart::First => 0,
        PacketPart::Middle => 1,
        PacketPart::Last => 2 + u8::from(imm.is_some()),
        PacketPart::Only => 4 + u8::from(imm.is_some()),
    };
    service
        | match packet.body {
            Body::Send { part, imm } => with_imm(part, imm),
            Body::Write { part, imm, .. } => 6 + with_imm(part, imm),
            Body::ReadRequest(_) => 12,
            Body::ReadResponse { part: PacketPart::First } => 13,
            Body::ReadResponse { part: PacketPart::Middle } => 14,
            Body::ReadResponse { part: PacketPart::Last } => 15,
            Body::ReadResponse { part: PacketPart::Only } => 16,
            Body::Ack(_) => 17,
            Body::AtomicAck { .. } => 18,
            Body::Atomic { op: AtomicOp::CompareSwap { .. }, .. } => 19,
            Body::Atomic { op: AtomicOp::FetchAdd { .. }, .. } => 20,
        }
}

/// Splits an opcode into service and operation. Returns `None` if the service has no such operation.
fn split_opcode(opcode: u8) -> Option<(QpType, u8)> {
    let operation = opcode & 0x1f;
    let (transport, known) = match opcode >> 5 {
        0 => (QpType::Rc, operation <= 20),
        1 => (QpType::Uc, operation <= 11),
        3 => (QpType::Ud, operation == 4 || operation == 5),
        _ => return None,
    };
    known.then_some((transport, operation))
}

fn syndrome_byte(syndrome: Syndrome) -> u8 {
    match syndrome {
        Syndrome::Ack => CREDITS_UNLIMITED,
        Syndrome::RnrNak(code) => 0x20 | (code & 31),
        Syndrome::Nak(NakCode::PsnSequence) => 0x60,
        Syndrome::Nak(NakCode::InvalidRequest) => 0x61,
        Syndrome::Nak(NakCode::RemoteAccess) => 0x62,
        Syndrome::Nak(NakCode::RemoteOperation) => 0x63,
    }
}

/// Decodes a syndrome; credits are ignored.
fn syndrome(byte: u8) -> Result<Syndrome, DecodeError> {
    Ok(match byte {
        0x00..=0x1f => Syndrome::Ack,
        0x20..=0x3f => Syndrome::RnrNak(byte & 31),
        0x60 => Syndrome::Nak(NakCode::PsnSequence),
        0x61 => Syndrome::Nak(NakCode::InvalidRequest),
        0x62 => Syndrome::Nak(NakCode::RemoteAccess),
        0x63 => Syndrome::Nak(NakCode::RemoteOperation),
        _ => return Err(DecodeError::Syndrome(byte)),
    })
}

/// Reads headers one after the other.
struct HeaderReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl HeaderReader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let truncated = DecodeError::Truncated(self.bytes.len());
        let part = self.bytes.get(self.at..self.at + N).ok_or(truncated)?;
        self.at += N;
        part.try_into().map_err(|_| truncated)
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_be_bytes)
    }

    fn reth(&mut self) -> Result<Reth, DecodeError> {
        Ok(Reth { va: self.u64()?, rkey: self.u32()?, dma_len: self.u32()? })
    }

    fn imm(&mut self, present: bool) -> Result<Option<u32>, DecodeError> {
        present.then(|| self.u32()).transpose()
    }

    /// AETH: syndrome and message sequence number.
    fn aeth(&mut self) -> Result<(u8, u32), DecodeError> {
        let word = self.u32()?;
        Ok(((word >> 24) as u8, word & 0xff_ffff))
    }

    fn atomic(&mut self, compare_swap: bool) -> Result<Body, DecodeError> {
        let (va, rkey, swap_or_add, compare) = (self.u64()?, self.u32()?, self.u64()?, self.u64()?);
        let op = if compare_swap {
            AtomicOp::CompareSwap { compare, swap: swap_or_add }
        } else {
            AtomicOp::FetchAdd { add: swap_or_add }
        };
        Ok(Body::Atomic { va, rkey, op })
    }

    /// Reads the headers after BTH and DETH. Returns the body and the message sequence number, or 0 for a
    /// packet without one.
    fn body(&mut self, operation: u8) -> Result<(Body, u32), DecodeError> {
        let (part, with_imm) = match operation % 6 {
            0 => (PacketPart::First, false),
            1 => (PacketPart::Middle, false),
            2 | 3 => (PacketPart::Last, operation % 6 == 3),
            _ => (PacketPart::Only, operation % 6 == 5),
        };
        let request = |body| Ok((body, 0));
        match operation {
            0..=5 => request(Body::Send { part, imm: self.imm(with_imm)? }),
            6..=11 => {
                let reth = part.begins().then(|| self.reth()).transpose()?;
                request(Body::Write { part, reth, imm: self.imm(with_imm)? })
            }
            12 => request(Body::ReadRequest(self.reth()?)),
            14 => Ok((Body::ReadResponse { part: PacketPart::Middle }, 0)),
            13 | 15 | 16 => {
                let part = [PacketPart::First, PacketPart::Middle, PacketPart::Last, PacketPart::Only]
                    [usize::from(operation - 13)];
                Ok((Body::ReadResponse { part }, self.aeth()?.1))
            }
            17 => {
                let (byte, msn) = self.aeth()?;
                Ok((Body::Ack(syndrome(byte)?), msn))
            }
            18 => {
                let (_, msn) = self.aeth()?;
                Ok((Body::AtomicAck { original: self.u64()? }, msn))
            }
            _ => request(self.atomic(operation == 19)?),
        }
    }
}

/// Decodes the payload of a UDP datagram that arrived by `route`. Returns the packet, and the range of the
/// packet's own payload in `bytes`. The ICRC is checked first, because a packet with a wrong ICRC may hold
/// anything.
pub fn decode(bytes: &[u8], route: &Route) -> Result<(Packet, Range<usize>), DecodeError> {
    if bytes.len() > usize::from(u16::MAX) - 8 {
        return Err(DecodeError::TooLong(bytes.len()));
    }
    let truncated = DecodeError::Truncated(bytes.len());
    let (covered, trailer) = bytes.split_last_chunk::<ICRC_BYTES>().ok_or(truncated)?;
    if covered.len() < BTH_BYTES {
        return Err(truncated);
    }
    let (found, expected) = (u32::from_le_bytes(*trailer), icrc(covered, route));
    if found != expected {
        return Err(DecodeError::Icrc { found, expected });
    }
    let mut reader = HeaderReader { bytes: covered, at: 0 };
    let [code, flags, pkey @ ..] = reader.array::<4>()?;
    let (dest_qp, psn) = (reader.u32()? & 0xff_ffff, reader.u32()?);
    let (transport, operation) = split_opcode(code).ok_or(DecodeError::Opcode(code))?;
    if flags & 0xf != 0 {
        return Err(DecodeError::Version(flags & 0xf));
    }
    // The highest bit distinguishes full from limited members.
    let pkey = u16::from_be_bytes(pkey);
    if pkey | 1 << 15 != PKEY {
        return Err(DecodeError::PKey(pkey));
    }
    let deth = if transport == QpType::Ud {
        Some(Deth { qkey: reader.u32()?, src_qp: reader.u32()? & 0xff_ffff })
    } else {
        None
    };
    let (body, msn) = reader.body(operation)?;
    let end = covered.len().checked_sub(usize::from(flags >> 4 & 3)).filter(|end| *end >= reader.at);
    let payload = reader.at..end.ok_or(truncated)?;
    if matches!(operation, 12 | 17..) && !payload.is_empty() {
        return Err(DecodeError::Payload { opcode: code, len: payload.len() });
    }
    let packet = Packet {
        transport,
        dest_qp,
        psn: psn & 0xff_ffff,
        ack_req: psn >> 31 == 1,
        solicited: flags >> 7 == 1,
        msn,
        deth,
        body,
        payload_len: payload.len() as u32,
    };
    Ok((packet, payload))
}

/// ICRC of a packet from BTH up to the ICRC itself, which is stored little-endian.
fn icrc(packet: &[u8], route: &Route) -> u32 {
    let udp_len = (8 + packet.len() + ICRC_BYTES) as u16;
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&[0xff; 8]);
    match route.ip {
        IpRoute::V4 { src, dst, id, dont_fragment } => {
            hasher.update(&[0x45, 0xff]);
            hasher.update(&udp_len.wrapping_add(20).to_be_bytes());
            hasher.update(&id.to_be_bytes());
            hasher.update(&[u8::from(dont_fragment) << 6, 0, 0xff, 17, 0xff, 0xff]);
            hasher.update(&src.octets());
            hasher.update(&dst.octets());
        }
        IpRoute::V6 { src, dst } => {
            hasher.update(&[0x6f, 0xff, 0xff, 0xff]);
            hasher.update(&udp_len.to_be_bytes());
            hasher.update(&[17, 0xff]);
            hasher.update(&src.octets());
            hasher.update(&dst.octets());
        }
    }
    hasher.update(&route.src_port.to_be_bytes());
    hasher.update(&ROCE_V2_PORT.to_be_bytes());
    hasher.update(&udp_len.to_be_bytes());
    hasher.update(&[0xff, 0xff]);
    hasher.update(&packet[..4]);
    hasher.update(&[0xff]);
    hasher.update(&packet[5..]);
    hasher.finalize()
}
