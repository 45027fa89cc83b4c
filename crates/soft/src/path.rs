//! Paths of address handles: their destinations, and the global route header of their datagrams.

use crate::causes;
use crate::device::{GidType, MAX_AH, PORT, gids, lid, link_layer};
use crate::errno::{ENOMEM, Errno};
use crate::memory::groups::{GroupAddress, is_multicast_gid, is_multicast_lid};
use crate::sync::lock;
use doorbell_transport::Refused;
use doorbell_verbs::{AhAttr, AhHandle, FlowLabel, GRH_BYTES, Gid, GlobalRoute, LinkLayer};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::{Mutex, PoisonError, RwLock};

/// A global route header as it precedes a datagram's payload: 40 bytes. An IPv4 header is in the last 20
/// bytes.
pub(crate) type Header = [u8; GRH_BYTES as usize];

/// Values of the header field "next header": a base transport header (IB specification vol. 1, 8.3), or a UDP
/// header (annex A17.3.1).
const NEXT_BTH: u8 = 0x1b;
const NEXT_UDP: u8 = 0x11;
/// Bytes of BTH and DETH together, of immediate data, of the ICRC, of a UDP header, and of an IPv4 header.
const TRANSPORT: usize = 12 + 8;
const IMMEDIATE: usize = 4;
const ICRC: usize = 4;
const UDP: usize = 8;
const IPV4: usize = 20;

/// A path to a port, or to multicast groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    /// Whether the path leads to this device, which is the only device that can be reached.
    pub(crate) is_reachable: bool,
    /// Service level that the receiver's completion shows; 0 on Ethernet.
    pub(crate) sl: u8,
    dlid: u16,
    route: Option<GlobalRoute>,
}

impl Path {
    /// The path that these attributes describe. Fails if they are invalid on this port.
    pub(crate) fn new(attr: &AhAttr) -> Result<Path, Refused> {
        if attr.port_num != PORT {
            return Err(causes::PATH_PORT.of([&attr.port_num]));
        }
        let Some(route) = attr.grh else {
            // An Ethernet port has no addresses but GIDs.
            if link_layer() == LinkLayer::Ethernet {
                return Err(causes::PATH_GRH.bare());
            }
            let is_reachable = attr.dlid == lid();
            return Ok(Path { is_reachable, sl: attr.sl, dlid: attr.dlid, route: None });
        };
        if usize::from(route.sgid_index) >= gids().len() {
            return Err(causes::PATH_SGID.of([&route.sgid_index, &gids().len()]));
        }
        let is_reachable = gids().iter().any(|(gid, _)| *gid == route.dgid);
        let sl = if link_layer() == LinkLayer::Infiniband { attr.sl } else { 0 };
        Ok(Path { is_reachable, sl, dlid: attr.dlid, route: Some(route) })
    }

    /// The LID or the route that the path leads to.
    pub(crate) fn destination(&self) -> (u16, Option<GlobalRoute>) {
        (self.dlid, self.route)
    }

    /// The multicast groups that the path leads to; `None` for a unicast path.
    pub(crate) fn groups(&self) -> Option<GroupAddress> {
        let gid = self.route.map(|route| route.dgid);
        let is_of_group = gid.is_none_or(|gid| is_multicast_gid(&gid));
        match link_layer() {
            LinkLayer::Infiniband if !is_multicast_lid(self.dlid) => None,
            LinkLayer::Infiniband => is_of_group.then_some(GroupAddress { gid, lid: Some(self.dlid) }),
            LinkLayer::Ethernet => is_of_group.then_some(GroupAddress { gid, lid: None }),
        }
    }

    /// The global route header of a datagram with `payload` bytes; `None` for a path without a global route.
    pub(crate) fn header(&self, payload: u32, has_imm: bool) -> Option<Header> {
        let route = self.route.as_ref()?;
        let (sgid, kind) = gids().get(usize::from(route.sgid_index))?;
        let immediate = if has_imm { IMMEDIATE } else { 0 };
        let behind = TRANSPORT + immediate + payload.next_multiple_of(4) as usize + ICRC;
        Some(match (kind, ipv4(sgid).zip(ipv4(&route.dgid))) {
            (GidType::RoceV2, Some((from, to))) => ipv4_header(route, from, to, UDP + behind),
            (GidType::RoceV2, None) => grh(route, sgid, NEXT_UDP, UDP + behind),
            (GidType::Ib | GidType::RoceV1, _) => grh(route, sgid, NEXT_BTH, behind),
        })
    }
}

/// The IPv4 address in an IPv4-mapped GID; `None` for another GID.
fn ipv4(gid: &Gid) -> Option<Ipv4Addr> {
    Ipv6Addr::from(gid.0).to_ipv4_mapped()
}

/// Builds a global route header, which has the format of an IPv6 header (IB specification vol. 1, 8.3).
/// `behind` is the number of bytes that follow the header.
fn grh(route: &GlobalRoute, sgid: &Gid, next: u8, behind: usize) -> Header {
    let mut header = [0; GRH_BYTES as usize];
    let first = 6 << 28 | u32::from(route.traffic_class) << 20 | route.flow_label.number();
    header[..4].copy_from_slice(&first.to_be_bytes());
    header[4..6].copy_from_slice(&(behind as u16).to_be_bytes());
    (header[6], header[7]) = (next, route.hop_limit);
    header[8..24].copy_from_slice(&sgid.0);
    header[24..].copy_from_slice(&route.dgid.0);
    header
}

/// Builds an IPv4 header (RFC 791) in the last 20 bytes. The bytes before the IPv4 header are 0. `behind` is
/// the number of bytes that follow the header.
fn ipv4_header(route: &GlobalRoute, from: Ipv4Addr, to: Ipv4Addr, behind: usize) -> Header {
    const VERSION_AND_WORDS: u8 = 0x45;
    const DO_NOT_FRAGMENT: u8 = 0x40;
    let mut header = [0; GRH_BYTES as usize];
    let ip = &mut header[GRH_BYTES as usize - IPV4..];
    (ip[0], ip[1]) = (VERSION_AND_WORDS, route.traffic_class);
    ip[2..4].copy_from_slice(&((IPV4 + behind) as u16).to_be_bytes());
    (ip[6], ip[8], ip[9]) = (DO_NOT_FRAGMENT, route.hop_limit, NEXT_UDP);
    ip[12..16].copy_from_slice(&from.octets());
    ip[16..].copy_from_slice(&to.octets());
    let sum = checksum(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    header
}

/// The checksum for an IPv4 header whose checksum field is 0 (RFC 1071). For a header with a valid checksum,
/// the result is 0.
fn checksum(ip: &[u8]) -> u16 {
    let words = ip.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// The route back to the sender of a received datagram, from the datagram's header.
pub(crate) fn way_back(header: &Header) -> Result<GlobalRoute, Refused> {
    let ip = &header[GRH_BYTES as usize - IPV4..];
    let is_ipv6 = header[0] >> 4 == 6;
    // rdma-core makes this test too. The last bytes of an IPv6 header belong to a GID, which may look like an
    // IPv4 header but is unlikely to have a valid checksum.
    let is_ipv4 = if is_ipv6 { ip[0] == 0x45 && checksum(ip) == 0 } else { ip[0] >> 4 == 4 };
    let own = |dgid: Gid, is_v2: bool| {
        let is_it = |(gid, kind): &(Gid, GidType)| *gid == dgid && (*kind == GidType::RoceV2) == is_v2;
        let index = gids().iter().position(is_it).map(|index| index as u8);
        index.ok_or_else(|| causes::WC_GRH.of([&Ipv6Addr::from(dgid.0)]))
    };
    if is_ipv4 {
        let gid = |at: usize| {
            Gid(Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]).to_ipv6_mapped().octets())
        };
        let sgid_index = own(gid(16), true)?;
        return Ok(GlobalRoute {
            dgid: gid(12),
            sgid_index,
            flow_label: FlowLabel::default(),
            hop_limit: ip[8],
            traffic_class: ip[1],
        });
    }
    if !is_ipv6 {
        return Err(causes::WC_HEADER.bare());
    }
    let is_v2 = match header[6] {
        NEXT_UDP => true,
        NEXT_BTH => false,
        _ => return Err(causes::WC_HEADER.bare()),
    };
    let gid = |at: usize| {
        let mut gid = [0; 16];
        gid.copy_from_slice(&header[at..at + 16]);
        Gid(gid)
    };
    let first = u32::from_be_bytes([header[0], header[1], header[2], header[3]]);
    Ok(GlobalRoute {
        dgid: gid(8),
        sgid_index: own(gid(24), is_v2)?,
        flow_label: FlowLabel::new(first),
        hop_limit: header[7],
        traffic_class: (first >> 20) as u8,
    })
}

/// The paths of this process's address handles.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    all: RwLock<Vec<Path>>,
    free: Mutex<Vec<u32>>,
}

impl Paths {
    /// Adds a path. Fails with `ENOMEM` if the process has [`MAX_AH`] address handles.
    pub(crate) fn add(&self, path: Path) -> Result<AhHandle, Errno> {
        let mut all = self.all.write().unwrap_or_else(PoisonError::into_inner);
        let free = lock(&self.free).pop();
        match free {
            Some(at) => all[at as usize] = path,
            None if all.len() < MAX_AH => all.push(path),
            None => return Err(ENOMEM),
        }
        Ok(AhHandle(free.unwrap_or(all.len() as u32 - 1)))
    }

    /// Frees a handle that [`Paths::add`] returned.
    pub(crate) fn remove(&self, handle: AhHandle) {
        lock(&self.free).push(handle.0);
    }

    pub(crate) fn get(&self, handle: AhHandle) -> Option<Path> {
        self.all.read().unwrap_or_else(PoisonError::into_inner).get(handle.0 as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTE: GlobalRoute = GlobalRoute {
        dgid: Gid([0xee; 16]),
        sgid_index: 0,
        flow_label: FlowLabel::new(0x5_4321),
        hop_limit: 7,
        traffic_class: 0xa5,
    };

    #[test]
    fn a_header_says_what_the_path_does() {
        let header = grh(&ROUTE, &Gid([0x11; 16]), NEXT_UDP, 300);
        assert_eq!(header[..8], [0x6a, 0x55, 0x43, 0x21, 1, 44, 17, 7]);
        assert_eq!((header[8], header[39]), (0x11, 0xee));
    }

    #[test]
    fn a_header_of_ipv4_is_valid() {
        let (from, to) = (Ipv4Addr::new(127, 1, 2, 3), Ipv4Addr::new(127, 4, 5, 6));
        let header = ipv4_header(&ROUTE, from, to, 300);
        assert_eq!(header[..20], [0; 20]);
        let ip = &header[20..];
        assert_eq!(ip[..10], [0x45, 0xa5, 1, 64, 0, 0, 0x40, 0, 7, 17]);
        assert_eq!(ip[12..], [127, 1, 2, 3, 127, 4, 5, 6]);
        assert_eq!(checksum(ip), 0);
        // The checksum, computed by hand: the complement of the folded sum of the header's words.
        let words = [0x45a5u32, 0x140, 0, 0x4000, 0x711, 0x7f01, 0x203, 0x7f04, 0x506];
        let sum: u32 = words.iter().sum();
        assert_eq!(u32::from(ip[10]) << 8 | u32::from(ip[11]), 0xffff - ((sum & 0xffff) + (sum >> 16)));
    }

    #[test]
    fn address_handles_are_as_many_as_announced() {
        let (paths, path) = (Paths::default(), Path { is_reachable: true, sl: 0, dlid: 1, route: None });
        let all: Vec<AhHandle> = (0..MAX_AH).map(|_| paths.add(path).expect("there is room")).collect();
        assert_eq!(paths.add(path), Err(ENOMEM));
        paths.remove(all[77]);
        let other = Path { is_reachable: false, ..path };
        assert_eq!(paths.add(other), Ok(all[77]));
        assert_eq!((paths.get(all[77]), paths.get(all[78])), (Some(other), Some(path)));
    }

    proptest::proptest! {
        #[test]
        fn any_header_is_taken(bytes in proptest::collection::vec(proptest::num::u8::ANY, 40)) {
            let mut header = [0; 40];
            header.copy_from_slice(&bytes);
            let _ = way_back(&header);
        }
    }
}
