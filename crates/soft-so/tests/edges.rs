//! Where verbs end: what may be registered, what is refused and how that is told, and headers and events to the bit.

mod common;

use common::running::{Running, alone, end_in_time, hear, say};
use common::verbs::{Endpoint, Node, PORT, SIGNALED, Wr, call, errno, to_gid, to_lid};
use common::{ROLE, launch};
use doorbell_abi::{
    CEnum, IBV_WC_GRH, ibv_ah, ibv_ah_attr, ibv_comp_channel, ibv_context, ibv_cq, ibv_gid, ibv_global_route,
    ibv_grh, ibv_mr, ibv_pd, ibv_recv_wr, ibv_srq, ibv_srq_attr, ibv_srq_init_attr, ibv_wc,
};
use doorbell_soft::launch::{Launch, Link};
use doorbell_verbs::{AccessFlags, QpType, RemoteAddr, SendOp, WcStatus};
use libc::{c_int, c_void};
use std::net::Ipv4Addr;
use std::ptr::null_mut;

/// What the programs below do; the tests run this executable once more for each.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    let role = std::env::var(ROLE).expect("a test says what to do");
    end_in_time();
    match role.split_whitespace().collect::<Vec<_>>()[..] {
        ["notified"] => be_notified(),
        ["registers"] => register(),
        ["sparse", begins] => reach_sparse(begins == "begins"),
        ["refuses", srq] => refuse_writes(srq == "srq"),
        ["writes-outside"] => write_outside(),
        ["refuses-itself"] => refuse_itself(),
        ["headers"] => headers(),
        _ => panic!("no role {role:?}"),
    }
}

/// `IBV_SEND_SOLICITED`.
const SOLICITED: u32 = 4;
const BYTES: usize = 8192;

/// A QP connected to itself completes its RECVs on a CQ with a channel.
fn be_notified() {
    let mut node = Node::open(BYTES, 0);
    let channel = call!(c"ibv_create_comp_channel"(
        node.context => *mut ibv_context
    ) -> *mut ibv_comp_channel);
    node.cq = call!(c"ibv_create_cq"(
        node.context => *mut ibv_context, 64 => c_int, null_mut() => *mut c_void,
        channel => *mut ibv_comp_channel, 0 => c_int
    ) -> *mut ibv_cq);
    node.add_qp(QpType::Rc, node.cq, null_mut());
    node.connect(0, &node.endpoint(0));
    let arm = |solicited_only: c_int| {
        // SAFETY: a live context and CQ.
        let armed =
            unsafe { (*node.context).ops.req_notify_cq.expect("it is served")(node.cq, solicited_only) };
        assert_eq!(armed, 0);
    };
    // A message, and whether there is an event for it.
    let tells = |flags: u32| {
        node.post_recv(0, 1, &[]);
        node.post(0, &[Wr { op: SendOp::Send, buffers: &[], flags }]);
        node.completions(1);
        // SAFETY: a live channel.
        let mut fd = libc::pollfd { fd: unsafe { (*channel).fd }, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry. An event is there before its completion is polled.
        if unsafe { libc::poll(&mut fd, 1, 0) } == 0 {
            return false;
        }
        let (mut cq, mut of) = (null_mut(), null_mut());
        let got = call!(c"ibv_get_cq_event"(
            channel => *mut ibv_comp_channel, &raw mut cq => *mut *mut ibv_cq, &raw mut of => *mut *mut c_void
        ) -> c_int);
        assert_eq!((got, cq), (0, node.cq));
        call!(c"ibv_ack_cq_events"(cq => *mut ibv_cq, 1 => u32) -> ());
        true
    };
    assert!(!tells(SOLICITED), "nobody has asked");
    // Asked for the next one and then for the next solicited one, in this order: that was no withdrawal.
    (arm(0), arm(1));
    assert!(tells(0), "the next one was asked for");
    assert!(!tells(SOLICITED), "it was told of already");
    arm(1);
    assert!(!tells(0), "only a solicited one was asked for");
    assert!(tells(SOLICITED));
    (arm(1), arm(0));
    assert!(tells(0), "the next one was asked for");
}

#[test]
fn a_notification_that_was_asked_for_stays() {
    alone(Link::Ib, "notified");
}

const PAGE: usize = 4096;
const READ_WRITE: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// New memory that takes no room.
fn map(bytes: usize, protection: c_int) -> *mut c_void {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: where the kernel finds room.
    let mapped = unsafe { libc::mmap(null_mut(), bytes, protection, flags, -1, 0) };
    assert_ne!(mapped, libc::MAP_FAILED, "{bytes} bytes");
    mapped
}

/// `IBV_ACCESS_MW_BIND`, `_ZERO_BASED`, `_ON_DEMAND`.
const MW_BIND: u32 = 1 << 4;
const ZERO_BASED: u32 = 1 << 5;
const ON_DEMAND: u32 = 1 << 6;

/// `IBV_REREG_MR_*`.
const TRANSLATION: c_int = 1;
const PD: c_int = 2;
const ACCESS: c_int = 4;
/// `IBV_REREG_MR_ERR_CMD`.
const ERR_CMD: c_int = -4;

/// Registers memory of all kinds, anew and instead of another.
fn register() {
    let node = Node::open(BYTES, 2);
    let register = |addr: *mut c_void, len: usize, access: u32| -> Result<*mut ibv_mr, c_int> {
        let mr = call!(c"ibv_reg_mr"(
            node.pd => *mut ibv_pd, addr => *mut c_void, len => usize, access as c_int => c_int
        ) -> *mut ibv_mr);
        if mr.is_null() { Err(errno()) } else { Ok(mr) }
    };
    let may = |addr: *mut c_void, len: usize, access: u32| -> Result<(), c_int> {
        let mr = register(addr, len, access)?;
        assert_eq!(call!(c"ibv_dereg_mr"(mr => *mut ibv_mr) -> c_int), 0);
        Ok(())
    };
    let rereg = |mr: *mut ibv_mr, flags: c_int, addr: *mut c_void, len: usize, access: u32| {
        let changed = call!(c"ibv_rereg_mr"(
            mr => *mut ibv_mr, flags => c_int, node.pd => *mut ibv_pd, addr => *mut c_void, len => usize,
            access as c_int => c_int
        ) -> c_int);
        if changed == 0 { Ok(()) } else { Err((changed, errno())) }
    };
    let local = AccessFlags::LOCAL_WRITE.bits();
    let remote_read = AccessFlags::REMOTE_READ.bits();
    let writes = [AccessFlags::REMOTE_WRITE, AccessFlags::REMOTE_ATOMIC].map(|remote| local | remote.bits());
    let none = map(PAGE, libc::PROT_NONE);
    let read_only = map(2 * PAGE, libc::PROT_READ);
    let writable = map(2 * PAGE, READ_WRITE);
    let holed = map(3 * PAGE, READ_WRITE);
    // SAFETY: a page of ours.
    assert_eq!(unsafe { libc::munmap(holed.byte_add(PAGE), PAGE) }, 0);
    let all = [0, remote_read, local, writes[0], writes[1], MW_BIND, local | ZERO_BASED];
    for access in all {
        let to_read = access & !remote_read == 0;
        assert_eq!(may(none, PAGE, access), Err(libc::EFAULT), "PROT_NONE, {access:#x}");
        assert_eq!(may(holed, 3 * PAGE, access), Err(libc::EFAULT), "a hole, {access:#x}");
        assert_eq!(may(holed, PAGE + 1, access), Err(libc::EFAULT), "a byte of a hole, {access:#x}");
        let expected = if to_read { Ok(()) } else { Err(libc::EFAULT) };
        assert_eq!(may(read_only, PAGE + 1, access), expected, "PROT_READ, {access:#x}");
        assert_eq!(may(writable, 2 * PAGE, access), Ok(()), "writable, {access:#x}");
        for unchecked in [none, read_only, holed] {
            assert_eq!(may(unchecked, PAGE, access | ON_DEMAND), Ok(()), "on demand, {access:#x}");
        }
    }
    assert_eq!(may(writable, PAGE, AccessFlags::REMOTE_WRITE.bits()), Err(libc::EINVAL));
    assert_eq!(may(writable, 0, 0), Err(libc::EINVAL));
    assert_eq!(may(writable, usize::MAX, 0), Err(libc::EINVAL));

    // Instead of another: what is refused changes nothing.
    let fault = Err((ERR_CMD, libc::EFAULT));
    let mr = register(writable, PAGE, writes[0]).expect("it may be");
    for (addr, len) in [(none, PAGE), (holed, 3 * PAGE), (read_only, PAGE)] {
        assert_eq!(rereg(mr, TRANSLATION, addr, len, 0), fault);
    }
    // SAFETY: a live region.
    let now = unsafe { &*mr };
    assert_eq!((now.addr, now.length), (writable, PAGE));
    node.connect(0, &node.endpoint(1));
    node.connect(1, &node.endpoint(0));
    let write = |addr: u64| {
        node.carry_out(0, SendOp::Write(RemoteAddr { addr, rkey: now.rkey }), &[(0, 8)]);
        // SAFETY: memory that stays mapped.
        unsafe { writable.cast::<u64>().read_volatile() }
    };
    node.fill(0, 8, 0x77);
    assert_eq!(write(writable as u64), 0x7777_7777_7777_7777);
    assert_eq!(rereg(mr, TRANSLATION | ACCESS, read_only, 2 * PAGE, remote_read), Ok(()));
    assert_eq!(rereg(mr, ACCESS, null_mut(), 0, local), fault);
    assert_eq!(rereg(mr, ACCESS, null_mut(), 0, 0), Ok(()));

    // On demand stays on demand, and from 0 on stays so.
    let mr = register(none, PAGE, local | ON_DEMAND).expect("it may be");
    assert_eq!(rereg(mr, PD, null_mut(), 0, 0), Ok(()));
    assert_eq!(rereg(mr, TRANSLATION, holed, 3 * PAGE, 0), Ok(()));
    assert_eq!(rereg(mr, ACCESS, null_mut(), 0, local), fault);
    let mr = register(writable, PAGE, writes[0] | ZERO_BASED).expect("it may be");
    // SAFETY: a live region.
    let rkey = unsafe { (*mr).rkey };
    for flags in [PD, ACCESS] {
        assert_eq!(rereg(mr, flags, null_mut(), 0, writes[0] | ZERO_BASED), Ok(()));
        node.carry_out(0, SendOp::Write(RemoteAddr { addr: 8, rkey }), &[(0, 8)]);
    }
}

#[test]
fn memory_is_registered_where_it_is_there() {
    alone(Link::Ib, "registers");
}

const SPARSE: usize = 64 << 30;

/// How many pages of a mapping are in memory.
fn resident(begin: *mut c_void, bytes: usize) -> usize {
    let mut pages = vec![0u8; bytes / PAGE];
    // SAFETY: a byte for each page.
    assert_eq!(unsafe { libc::mincore(begin, bytes, pages.as_mut_ptr()) }, 0);
    pages.iter().filter(|page| **page & 1 != 0).count()
}

/// A few pages, or huge ones for them.
const FEW: usize = 8 * 512;

/// Two processes with regions of which nearly nothing is there; one of them begins.
fn reach_sparse(begins: bool) {
    let mut node = Node::open(BYTES, 1);
    let memory = map(SPARSE, READ_WRITE);
    node.register(memory, SPARSE);
    assert_eq!(resident(memory, SPARSE), 0, "registering has brought pages");
    say(node.endpoint(0));
    let peer: Endpoint = hear().parse().expect("an endpoint");
    node.connect(0, &peer);
    say("ready");
    assert_eq!(hear(), "go");
    let (middle, last) = (SPARSE / 2, SPARSE - PAGE);
    if begins {
        node.fill(last, PAGE, 0x5a);
        node.carry_out(0, SendOp::Write(peer.at(0)), &[(last, PAGE as u32)]);
        node.carry_out(0, SendOp::Write(peer.at(last)), &[(last, PAGE as u32)]);
        node.carry_out(0, SendOp::FetchAdd { remote: peer.at(middle), add: 5 }, &[(middle, 8)]);
        node.carry_out(0, SendOp::Read(peer.at(last)), &[(0, PAGE as u32)]);
        // What nobody has written is zeroes at both ends.
        node.fill(1 << 30, 64, 1);
        node.carry_out(0, SendOp::Read(peer.at(SPARSE / 4)), &[(1 << 30, 64)]);
        assert!(node.is_all(0, PAGE, 0x5a) && node.is_all(1 << 30, 64, 0) && node.is_all(middle, 8, 0));
    } else {
        assert!(node.is_all(0, PAGE, 0x5a) && node.is_all(last, PAGE, 0x5a));
        assert_eq!(node.read(middle, 1), [5]);
    }
    assert!(resident(memory, SPARSE) <= FEW, "{} pages", resident(memory, SPARSE));
}

#[test]
fn a_region_of_pages_that_are_not_there_brings_none() {
    for private_buffers in [false, true] {
        let launch = Launch { private_buffers, ..launch(Link::Ib) };
        let mut ends = ["begins", "waits"].map(|part| Running::new(&launch, &format!("sparse {part}")));
        connect(&mut ends);
        let [mut begins, mut waits] = ends;
        begins.tell("go");
        begins.end("who begins");
        waits.tell("go");
        waits.end("who waits");
    }
}

/// Tells two programs of each other, and waits until they are ready.
fn connect(ends: &mut [Running; 2]) {
    let told = [ends[0].line(), ends[1].line()];
    ends[0].tell(&told[1]);
    ends[1].tell(&told[0]);
    ends.iter_mut().for_each(|end| assert_eq!(end.line(), "ready"));
}

/// A shared receive queue with so many RECVs of nothing, numbered from 0.
fn srq(node: &Node, recvs: u64) -> *mut ibv_srq {
    let attr = ibv_srq_attr { max_wr: 16, max_sge: 1, srq_limit: 0 };
    let mut init = ibv_srq_init_attr { srq_context: null_mut(), attr };
    let srq = call!(c"ibv_create_srq"(
        node.pd => *mut ibv_pd, &raw mut init => *mut ibv_srq_init_attr
    ) -> *mut ibv_srq);
    assert!(!srq.is_null(), "an SRQ cannot be made");
    for wr_id in 0..recvs {
        let mut recv = ibv_recv_wr { wr_id, next: null_mut(), sg_list: null_mut(), num_sge: 0 };
        let mut bad = null_mut();
        // SAFETY: a live SRQ, and a RECV that lives as long as the call.
        let posted =
            unsafe { (*node.context).ops.post_srq_recv.expect("it is served")(srq, &mut recv, &mut bad) };
        assert_eq!(posted, 0);
    }
    srq
}

/// A WRITE with immediate takes a RECV whose region it misses.
fn refuse_writes(uses_srq: bool) {
    let mut node = Node::open(BYTES, 0);
    let srq = if uses_srq { srq(&node, 3) } else { null_mut() };
    let qp = node.add_qp(QpType::Rc, node.cq, srq);
    if !uses_srq {
        node.post_recv(qp, 3, &[]);
    }
    say(node.endpoint(qp));
    node.connect(qp, &hear().parse().expect("an endpoint"));
    say("ready");
    let refused = node.completion(WcStatus::LocAccessErr);
    // SAFETY: a live QP.
    assert_eq!((refused.wr_id, refused.qp_num), (0, unsafe { (*node.qps[qp]).qp_num }));
    if uses_srq {
        // The others are for other QPs.
        let other = node.add_qp(QpType::Rc, node.cq, srq);
        node.connect(other, &node.endpoint(other));
        node.post(other, &[Wr { op: SendOp::Send, buffers: &[], flags: 0 }]);
        assert_eq!(node.completions(1)[0].wr_id, 1);
    } else {
        let flushed = [1, 2].map(|_| node.completion(WcStatus::WrFlushErr).wr_id);
        assert_eq!(flushed, [1, 2]);
    }
    assert!(node.poll().is_none() && node.is_all(0, BYTES, 0));
    assert_eq!(hear(), "enough");
}

fn write_outside() {
    let node = Node::open(BYTES, 1);
    node.fill(0, 64, 1);
    say(node.endpoint(0));
    let peer: Endpoint = hear().parse().expect("an endpoint");
    node.connect(0, &peer);
    say("ready");
    assert_eq!(hear(), "go");
    let op = SendOp::WriteWithImm(peer.at(BYTES - 32), 7);
    node.post(0, &[Wr { op, buffers: &[(0, 64)], flags: SIGNALED }]);
    node.completion(WcStatus::RemAccessErr);
}

/// The same where requester and responder are one.
fn refuse_itself() {
    let mut node = Node::open(BYTES, 1);
    node.add_qp(QpType::Uc, node.cq, null_mut());
    let outside = |qp: usize| {
        let own = node.endpoint(qp);
        node.connect(qp, &own);
        node.post_recv(qp, 3, &[]);
        let op = SendOp::WriteWithImm(own.at(BYTES), 7);
        node.post(qp, &[Wr { op, buffers: &[(0, 64)], flags: SIGNALED }]);
        own
    };
    outside(0);
    // One of each kind, RECVs in their order.
    let all: Vec<(u64, WcStatus)> = (0..4).map(|_| any(&node)).collect();
    let recvs = [WcStatus::LocAccessErr, WcStatus::WrFlushErr, WcStatus::WrFlushErr];
    let mut rest: Vec<(u64, WcStatus)> = all.clone();
    rest.retain(|one| *one != (0, WcStatus::RemAccessErr));
    assert_eq!(rest, (0..).zip(recvs).collect::<Vec<_>>(), "{all:?}");
    assert!(node.poll().is_none());
    // On UC nobody hears of it, and the RECV is for the next.
    let own = outside(1);
    node.completion(WcStatus::Success);
    assert!(node.poll().is_none());
    node.post(1, &[Wr { op: SendOp::WriteWithImm(own.at(0), 9), buffers: &[(0, 64)], flags: 0 }]);
    let wc = node.completion(WcStatus::Success);
    assert_eq!((wc.wr_id, u32::from_be(wc.imm_data)), (0, 9));
}

/// The next completion, of whatever status.
fn any(node: &Node) -> (u64, WcStatus) {
    loop {
        if let Some(wc) = node.poll() {
            return (wc.wr_id, WcStatus::from_c(wc.status).expect("a status"));
        }
    }
}

#[test]
fn a_write_with_immediate_outside_its_region_fails_its_recv() {
    alone(Link::Ib, "refuses-itself");
    for private_buffers in [false, true] {
        for queue in ["own", "srq"] {
            let launch = Launch { private_buffers, ..launch(Link::Ib) };
            let mut ends = [format!("refuses {queue}"), "writes-outside".into()]
                .map(|role| Running::new(&launch, &role));
            connect(&mut ends);
            let [mut refuses, mut writes] = ends;
            writes.tell("go");
            writes.end(queue);
            refuses.tell("enough");
            refuses.end(queue);
        }
    }
}

/// Where datagrams come to, with room for a header before them.
const ARRIVAL: usize = 4096;
const TRAFFIC_CLASS: u8 = 0xa5;
const FLOW_LABEL: u32 = 0x5_4321;
const HOP_LIMIT: u8 = 7;

/// Sends datagrams by every GID to itself, and answers them.
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
        // Without a global route header it is the LID that leads back.
        let wc = arrive(&node, node.ah(to_lid(node.endpoint(0).lid)), 8, SendOp::Send);
        assert_eq!((wc.wc_flags & IBV_WC_GRH, wc.slid), (0, node.endpoint(0).lid));
        answer(&node, &wc, node.ah(init_ah(&node, &wc)));
    }
}

/// A datagram from QP 0 comes to QP 1.
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

/// A datagram comes back, by this handle and by the one that the library makes.
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

/// What ibv_query_gid_type says: 0 of InfiniBand and RoCEv1, 1 of RoCEv2.
fn gid_type(node: &Node, index: u8) -> u32 {
    let mut kind = u32::MAX;
    let asked = call!(c"ibv_query_gid_type"(
        node.context => *mut ibv_context, PORT => u8, index.into() => u32, &raw mut kind => *mut u32
    ) -> c_int);
    assert_eq!(asked, 0);
    kind
}

/// The IPv4 address that a GID is, if it is one (RFC 4291, 2.5.5.2).
fn ipv4(gid: &[u8; 16]) -> Option<Ipv4Addr> {
    std::net::Ipv6Addr::from(*gid).to_ipv4_mapped()
}

/// The sum of words that a header's checksum makes all ones (RFC 791, 1071).
fn ones_sum(ip: &[u8]) -> u16 {
    let add = |sum: u16, word: &[u8]| {
        let (sum, carry) = sum.overflowing_add(u16::from_be_bytes([word[0], word[1]]));
        sum + u16::from(carry)
    };
    ip.chunks(2).fold(0, add)
}

/// A header of a path to itself with `behind` bytes from the BTH to the ICRC.
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

/// The way back as rdma-core finds it: a header of IPv6 whose last 20 bytes are a valid one of IPv4 is IPv4's.
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
    alone(Link::Ib, "headers");
    alone(Link::Roce, "headers");
}
