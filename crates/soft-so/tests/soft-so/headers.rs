//! Checks each bit of the global route headers (GRH) of datagrams, and the reply paths that follow from them.

use crate::common::running::{alone, role};
use crate::common::verbs::{Node, PORT, Wr, call, errno, to_gid, to_lid};
use doorbell_abi::{
    IBV_WC_GRH, ibv_ah, ibv_ah_attr, ibv_context, ibv_gid, ibv_global_route, ibv_grh, ibv_pd, ibv_wc,
};
use doorbell_launch::Link;
use doorbell_verbs::{QpType, SendOp, WcStatus};
use libc::c_int;
use std::net::Ipv4Addr;

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// The program that the tests start: this executable again.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    assert_eq!(role(), "headers");
    headers();
}

const BYTES: usize = 8192;
/// Offset of the RECV buffers, which have room for the header and the datagram.
const ARRIVAL: usize = 4096;
const TRAFFIC_CLASS: u8 = 0xa5;
const FLOW_LABEL: u32 = 0x5_4321;
const HOP_LIMIT: u8 = 7;

/// Sends datagrams from the node to itself by every GID, and replies to each.
fn headers() {
    let node = Node::open_as(QpType::Ud, BYTES, 2);
    (0..2).for_each(|qp| node.connect(qp, &node.endpoint(qp)));
    node.fill(0, 1024, 0x44);
    let gids = if node.endpoint(0).lid == 0 { 4 } else { 1 };
    for index in 0..gids {
        let path = to_gid(index, node.gid(index));
        let grh = ibv_global_route {
            flow_label: FLOW_LABEL,
            hop_limit: HOP_LIMIT,
            traffic_class: TRAFFIC_CLASS,
            ..path.grh
        };
        let ah = node.ah(ibv_ah_attr { grh, ..path });
        for (bytes, op) in [(5, SendOp::Send), (300, SendOp::Send), (8, SendOp::SendWithImm(1))] {
            let wc = arrive(&node, ah, bytes, op);
            assert_ne!(wc.wc_flags & IBV_WC_GRH, 0);
            let header: [u8; 40] = *node.read(ARRIVAL, 40).first_chunk().expect("40 bytes");
            let imm = if op == SendOp::Send { 0 } else { 4 };
            check_header(&node, index, &header, 20 + imm + bytes.next_multiple_of(4) + 4);
            let own = init_ah(&node, &wc);
            assert_eq!(format!("{own:?}"), format!("{:?}", as_rdma_core(&node, &wc, &header)));
            answer(&node, &wc, node.ah(own));
        }
    }
    if gids == 1 {
        // Without a global route header, the reply path has the sender's LID.
        let wc = arrive(&node, node.ah(to_lid(node.endpoint(0).lid)), 8, SendOp::Send);
        assert_eq!((wc.wc_flags & IBV_WC_GRH, wc.slid), (0, node.endpoint(0).lid));
        answer(&node, &wc, node.ah(init_ah(&node, &wc)));
    }
}

/// Sends a datagram from QP 0 to QP 1, and returns the completion of its RECV.
fn arrive(node: &Node, ah: *mut ibv_ah, bytes: u32, op: SendOp) -> ibv_wc {
    node.fill(ARRIVAL, 1024, 0xee);
    node.post_recv(1, 1, &[(ARRIVAL, 40 + 512)]);
    node.post_to(0, &[Wr { op, buffers: &[(0, bytes)], flags: 0 }], Some((ah, node.endpoint(1).qpn)));
    let wc = node.completion(WcStatus::Success);
    assert_eq!((wc.byte_len, wc.src_qp), (40 + bytes, node.endpoint(0).qpn));
    assert!(node.is_all(ARRIVAL + 40, bytes as usize, 0x44));
    assert!(node.is_all(ARRIVAL + 40 + bytes as usize, 1, 0xee));
    wc
}

/// Replies to a datagram twice: with this address handle, and with a handle from ibv_create_ah_from_wc(3).
/// Destroys both handles.
fn answer(node: &Node, wc: &ibv_wc, ah: *mut ibv_ah) {
    let (mut wc, header) = (*wc, node.address(ARRIVAL).cast::<ibv_grh>());
    let made = call!(c"ibv_create_ah_from_wc"(
        node.pd => *mut ibv_pd, &raw mut wc => *mut ibv_wc, header => *mut ibv_grh, PORT => u8
    ) -> *mut ibv_ah);
    assert!(!made.is_null(), "no handle from a completion");
    for ah in [ah, made] {
        node.post_recv(0, 1, &[(ARRIVAL + 1024, 128)]);
        node.post_to(1, &[Wr { op: SendOp::Send, buffers: &[(0, 8)], flags: 0 }], Some((ah, wc.src_qp)));
        let back = node.completion(WcStatus::Success);
        assert_eq!((back.qp_num, back.src_qp), (wc.src_qp, wc.qp_num));
        assert_eq!(call!(c"ibv_destroy_ah"(ah => *mut ibv_ah) -> c_int), 0);
    }
}

fn init_ah(node: &Node, wc: &ibv_wc) -> ibv_ah_attr {
    let (mut wc, mut attr) = (*wc, ibv_ah_attr::default());
    let header = node.address(ARRIVAL).cast::<ibv_grh>();
    let made = call!(c"ibv_init_ah_from_wc"(
        node.context => *mut ibv_context, PORT => u8, &raw mut wc => *mut ibv_wc, header => *mut ibv_grh,
        &raw mut attr => *mut ibv_ah_attr
    ) -> c_int);
    assert_eq!(made, 0, "no path from a completion: {}", errno());
    attr
}

/// The result of ibv_query_gid_type: 0 for InfiniBand and RoCEv1, 1 for RoCEv2.
fn gid_type(node: &Node, index: u8) -> u32 {
    let mut kind = u32::MAX;
    let asked = call!(c"ibv_query_gid_type"(
        node.context => *mut ibv_context, PORT => u8, index.into() => u32, &raw mut kind => *mut u32
    ) -> c_int);
    assert_eq!(asked, 0);
    kind
}

/// The IPv4 address of a GID that is an IPv4-mapped address (RFC 4291, 2.5.5.2).
fn ipv4(gid: &[u8; 16]) -> Option<Ipv4Addr> {
    std::net::Ipv6Addr::from(*gid).to_ipv4_mapped()
}

/// The ones' complement sum of a header's 16-bit words. A correct checksum makes this sum all ones (RFC 791
/// and 1071).
fn ones_sum(ip: &[u8]) -> u16 {
    let add = |sum: u16, word: &[u8]| {
        let (sum, carry) = sum.overflowing_add(u16::from_be_bytes([word[0], word[1]]));
        sum + u16::from(carry)
    };
    ip.chunks(2).fold(0, add)
}

/// Checks the header of a datagram from the node to itself. The packet has `behind` bytes from the BTH to the
/// ICRC.
fn check_header(node: &Node, index: u8, header: &[u8; 40], behind: u32) {
    let (gid, is_v2) = (node.gid(index).raw, gid_type(node, index) == 1);
    let behind = (behind + if is_v2 { 8 } else { 0 }) as u16;
    if let Some(own) = ipv4(&gid).filter(|_| is_v2) {
        let ip = &header[20..];
        assert_eq!((header[..20].to_vec(), ip[0], ip[1]), (vec![0; 20], 0x45, TRAFFIC_CLASS));
        assert_eq!(ip[2..4], (20 + behind).to_be_bytes());
        assert_eq!((ip[8], ip[9], ones_sum(ip)), (HOP_LIMIT, 17, u16::MAX));
        assert_eq!([&ip[12..16], &ip[16..]], [own.octets(); 2]);
        return;
    }
    let first = 6 << 28 | u32::from(TRAFFIC_CLASS) << 20 | FLOW_LABEL;
    assert_eq!(header[..4], first.to_be_bytes());
    assert_eq!(header[4..6], behind.to_be_bytes());
    assert_eq!(header[6..8], [if is_v2 { 0x11 } else { 0x1b }, HOP_LIMIT]);
    assert_eq!([&header[8..24], &header[24..]], [gid; 2]);
}

/// The reply path that rdma-core computes. rdma-core takes the last 20 of the 40 bytes for an IPv4 header if
/// they are a valid one.
fn as_rdma_core(node: &Node, wc: &ibv_wc, header: &[u8; 40]) -> ibv_ah_attr {
    let first = u32::from_be_bytes(*header.first_chunk().expect("4 bytes"));
    let ip = &header[20..];
    let is_ipv4 = match header[0] >> 4 {
        6 => ip[0] & 0xf == 5 && ones_sum(ip) == u16::MAX,
        _ => {
            assert_eq!(ip[0] >> 4, 4, "neither IPv6 nor IPv4");
            true
        }
    };
    let mapped =
        |at: usize| Ipv4Addr::new(ip[at], ip[at + 1], ip[at + 2], ip[at + 3]).to_ipv6_mapped().octets();
    let long = |at: usize| *header[at..].first_chunk().expect("16 bytes");
    let (source, own) = if is_ipv4 { (mapped(12), mapped(16)) } else { (long(8), long(24)) };
    let kind = if is_ipv4 || header[6] == 0x11 { 1 } else { 0 };
    assert!(is_ipv4 || [0x11, 0x1b].contains(&header[6]), "{:#x} follows", header[6]);
    let sgid_index = (0..4).find(|&index| node.gid(index).raw == own && gid_type(node, index) == kind);
    let grh = ibv_global_route {
        dgid: ibv_gid { raw: source },
        flow_label: first & 0xf_ffff,
        sgid_index: sgid_index.expect("its own GID"),
        hop_limit: if is_ipv4 { ip[8] } else { header[7] },
        traffic_class: if is_ipv4 { ip[1] } else { (first >> 20) as u8 },
    };
    let dlid = wc.slid;
    ibv_ah_attr { grh, dlid, sl: wc.sl, is_global: 1, port_num: PORT, ..ibv_ah_attr::default() }
}

#[test]
fn a_datagrams_header_is_that_of_its_path_and_leads_back() {
    alone(Link::Ib, HERE, "headers");
    alone(Link::Roce, HERE, "headers");
}
