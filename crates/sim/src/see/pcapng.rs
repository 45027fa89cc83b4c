//! Packets as a pcapng file (draft-ietf-opsawg-pcapng): Ethernet, IPv4, UDP and RoCEv2, with an interface for
//! each port. A packet is written when its last bit reaches the destination port. Times are in picoseconds.

use super::file::TraceFile;
use crate::core::index::PortId;
use crate::core::ps::Ps;
use doorbell_transport::Packet;
use doorbell_transport::codec::{self, IpRoute, ROCE_V2_PORT, Route};
use std::collections::HashMap;
use std::io;
use std::net::Ipv4Addr;

/// Block types.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 6;
/// Option codes: for any block, for interfaces, for packets.
const COMMENT: u16 = 1;
const NAME: u16 = 2;
const TIME_RESOLUTION: u16 = 9;
const FLAGS: u16 = 2;
/// Exponent of the resolution of times: picoseconds.
const PICO: u8 = 12;
const ETHERNET: u16 = 1;
const IPV4: [u8; 2] = [0x08, 0];
const UDP: u8 = 17;
const HOPS: u8 = 64;
/// Flag of an inbound packet.
const INBOUND: u32 = 1;

/// A packet in flight between two ports.
#[derive(Clone, Copy)]
pub(super) struct Captured<'a> {
    pub(super) from: PortId,
    pub(super) into: PortId,
    /// Number of the sending QP.
    pub(super) qpn: u32,
    pub(super) packet: &'a Packet,
    pub(super) payload: &'a [u8],
    /// Faults of the packet, in words.
    pub(super) comment: Option<&'a str>,
}

/// The capture file.
pub(super) struct Pcapng {
    file: TraceFile,
    /// Number of each port's interface, if it has one.
    interfaces: HashMap<PortId, u32>,
}

fn pad(bytes: &mut Vec<u8>) {
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend_from_slice(&code.to_le_bytes());
    body.extend_from_slice(&(value.len() as u16).to_le_bytes());
    body.extend_from_slice(value);
    pad(body);
}

/// The IP address of a port. A fabric has fewer than 2^16 ports.
fn address(port: PortId) -> Ipv4Addr {
    let [.., high, low] = (port.0 + 1).to_be_bytes();
    Ipv4Addr::new(10, 0, high, low)
}

/// The locally administered MAC address of a port.
fn mac(port: PortId) -> [u8; 6] {
    let [.., high, low] = (port.0 + 1).to_be_bytes();
    [2, 0, 0, 0, high, low]
}

/// The checksum of an IPv4 header whose checksum field is zero.
fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// The Ethernet frame of a packet, without its FCS.
fn frame(c: &Captured<'_>) -> Vec<u8> {
    // NICs derive the port from the QP so that routers spread QPs over several paths.
    let src_port = 0xc000 | (c.qpn & 0x3fff) as u16;
    let (src, dst) = (address(c.from), address(c.into));
    let route = Route { ip: IpRoute::V4 { src, dst, id: 0, dont_fragment: true }, src_port };
    let mut datagram = Vec::new();
    codec::encode(c.packet, c.payload, &route, &mut datagram);
    let udp_len = 8 + datagram.len() as u16;
    let mut ip = vec![0x45, 0];
    ip.extend_from_slice(&(20 + udp_len).to_be_bytes());
    ip.extend_from_slice(&[0, 0, 1 << 6, 0, HOPS, UDP, 0, 0]);
    ip.extend_from_slice(&src.octets());
    ip.extend_from_slice(&dst.octets());
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut frame = [mac(c.into), mac(c.from)].concat();
    frame.extend_from_slice(&IPV4);
    frame.extend_from_slice(&ip);
    for half in [src_port, ROCE_V2_PORT, udp_len, 0] {
        frame.extend_from_slice(&half.to_be_bytes());
    }
    frame.extend_from_slice(&datagram);
    frame
}

impl Pcapng {
    pub(super) fn new(file: TraceFile) -> Pcapng {
        let mut pcapng = Pcapng { file, interfaces: HashMap::new() };
        let mut body = Vec::new();
        body.extend_from_slice(&0x1a2b_3c4du32.to_le_bytes());
        body.extend_from_slice(&[1, 0, 0, 0]); // Version 1.0.
        body.extend_from_slice(&u64::MAX.to_le_bytes()); // A section of unknown length.
        pcapng.block(SECTION, &body);
        pcapng
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        let len = (12 + body.len() as u32).to_le_bytes();
        self.file.write(&[&kind.to_le_bytes()[..], &len, body, &len].concat());
    }

    /// The interface of a port. If it is new, it is written with the given name.
    fn interface(&mut self, port: PortId, name: impl FnOnce() -> String) -> u32 {
        if let Some(number) = self.interfaces.get(&port) {
            return *number;
        }
        let number = self.interfaces.len() as u32;
        self.interfaces.insert(port, number);
        let mut body = [ETHERNET.to_le_bytes(), [0; 2]].concat();
        body.extend_from_slice(&[0; 4]); // Packets are whole.
        option(&mut body, NAME, name().as_bytes());
        option(&mut body, TIME_RESOLUTION, &[PICO]);
        option(&mut body, 0, &[]);
        self.block(INTERFACE, &body);
        number
    }

    /// Writes a packet that reaches its port at `time`. `name` gives the port's name.
    pub(super) fn packet(&mut self, time: Ps, captured: &Captured<'_>, name: impl FnOnce() -> String) {
        let interface = self.interface(captured.into, name);
        let frame = frame(captured);
        let len = frame.len() as u32;
        let mut body = Vec::with_capacity(frame.len() + 64);
        for word in [interface, (time.0 >> 32) as u32, time.0 as u32, len, len] {
            body.extend_from_slice(&word.to_le_bytes());
        }
        body.extend_from_slice(&frame);
        pad(&mut body);
        option(&mut body, FLAGS, &INBOUND.to_le_bytes());
        if let Some(comment) = captured.comment {
            option(&mut body, COMMENT, comment.as_bytes());
        }
        option(&mut body, 0, &[]);
        self.block(PACKET, &body);
    }

    /// Returns the first error of the file, if any.
    pub(super) fn close(self) -> io::Result<()> {
        self.file.close()
    }
}
