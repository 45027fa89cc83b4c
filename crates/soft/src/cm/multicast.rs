//! Maps IP addresses to multicast groups of the fabric, as the kernel does. IPv4 addresses on InfiniBand are
//! mapped by RFC 4391.

use super::attributes::{UDP_QKEY, path};
use super::causes::CM_JOIN_ADDR;
use crate::device;
use doorbell_abi::cm::{ib_uverbs_ah_attr, ib_uverbs_global_route, rdma_ucm_ud_param};
use doorbell_transport::Refused;
use doorbell_verbs::LinkLayer;
use std::net::{IpAddr, Ipv4Addr};

/// Destination QP number of datagrams to multicast groups (IB specification vol. 1, 10.5.2).
const MULTICAST_QP: u32 = 0xff_ffff;
/// The first multicast LID, and the number of multicast LIDs in use (4.1.1).
const FIRST_LID: u16 = 0xc000;
const LIDS: u16 = 0x3ffe;

/// A group membership that rdma_join_multicast(3) created.
#[derive(Clone, Copy, Debug)]
pub(super) struct JoinedGroup {
    /// The id that has joined.
    pub(super) of: u32,
    /// Number of the membership's events that the program has fetched.
    pub(super) events_reported: u32,
}

/// The parameters of the MULTICAST_JOIN event for the group with this IP address.
///
/// # Errors
/// `EINVAL` if the address is not a multicast address.
pub(super) fn told(address: IpAddr, tos: u8) -> Result<rdma_ucm_ud_param, Refused> {
    if !address.is_multicast() {
        return Err(CM_JOIN_ADDR.of([&address]));
    }
    let link = device::link_layer();
    let dgid = gid(address, link);
    let unicast = path(tos);
    let grh = ib_uverbs_global_route { dgid, hop_limit: 1, traffic_class: tos, ..unicast.grh };
    let dlid = if link == LinkLayer::Infiniband { lid(&dgid) } else { 0 };
    Ok(rdma_ucm_ud_param {
        qp_num: MULTICAST_QP,
        qkey: UDP_QKEY,
        ah_attr: ib_uverbs_ah_attr { grh, is_global: 1, dlid, ..unicast },
        ..Default::default()
    })
}

fn gid(address: IpAddr, link: LinkLayer) -> [u8; 16] {
    match (address, link) {
        (IpAddr::V6(ip), _) => ip.octets(),
        (IpAddr::V4(ip), LinkLayer::Infiniband) => of_ipv4_on_ib(ip),
        (IpAddr::V4(ip), LinkLayer::Ethernet) => {
            let mut gid = ip.to_ipv6_mapped().octets();
            (gid[0], gid[1]) = (0xff, 0x0e);
            gid
        }
    }
}

/// The GID of an IPv4 group on InfiniBand: link-local scope, the IPv4 signature, the default P_Key, a 1 for
/// rdma_cm, and the lowest 28 bits of the IPv4 address.
fn of_ipv4_on_ib(ip: Ipv4Addr) -> [u8; 16] {
    let [first, b, c, d] = ip.octets();
    [0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 1, 0, 0, 0, 0, first & 0xf, b, c, d]
}

/// The LID of a multicast group. It is derived from the GID, because no subnet manager assigns LIDs.
fn lid(gid: &[u8; 16]) -> u16 {
    let sum =
        gid.chunks(2).fold(0u16, |sum, pair| sum.rotate_left(5) ^ u16::from_be_bytes([pair[0], pair[1]]));
    FIRST_LID + sum % LIDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_groups() {
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        let of = |text: &str, link| std::net::Ipv6Addr::from(gid(ip(text), link)).to_string();
        assert_eq!(of("239.1.2.3", LinkLayer::Infiniband), "ff12:401b:ffff:1::f01:203");
        assert_eq!(of("239.1.2.3", LinkLayer::Ethernet), "ff0e::ffff:ef01:203");
        assert_eq!(of("ff0e::77", LinkLayer::Infiniband), "ff0e::77");
        assert!(told(ip("10.1.2.3"), 0).is_err());
        let lids = ["239.1.2.3", "239.1.2.4"].map(|text| lid(&gid(ip(text), LinkLayer::Infiniband)));
        assert!(lids[0] != lids[1] && lids.iter().all(|lid| (FIRST_LID..0xffff).contains(lid)));
    }
}
