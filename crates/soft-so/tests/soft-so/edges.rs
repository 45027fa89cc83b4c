//! Tests edge cases of verbs: memory that cannot be registered, notifications of CQs, inline payload, sparse
//! memory, and requests outside their region.

use crate::common::launch;
use crate::common::running::{Running, alone, hear, role, say};
use crate::common::verbs::{Endpoint, INLINED, Node, SIGNALED, Wr, c_wr, call, errno};
use doorbell_abi::{
    CEnum, ibv_comp_channel, ibv_cq, ibv_mr, ibv_pd, ibv_qp, ibv_qp_cap, ibv_qp_init_attr, ibv_recv_wr,
    ibv_sge, ibv_srq, ibv_srq_attr, ibv_srq_init_attr,
};
use doorbell_launch::{Launch, Link};
use doorbell_verbs::{AccessFlags, QpType, RemoteAddr, SendOp, WcStatus};
use libc::{c_int, c_void};
use std::ptr::null_mut;

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// The program that the tests start: this executable again, with a role for each process.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    let role = role();
    match role.split_whitespace().collect::<Vec<_>>()[..] {
        ["notified"] => be_notified(),
        ["inlines"] => inline_unasked(),
        ["unaligned"] => post_unaligned(),
        ["registers"] => register(),
        ["sparse", begins] => reach_sparse(begins == "begins"),
        ["refuses", srq] => refuse_writes(srq == "srq"),
        ["writes-outside"] => write_outside(),
        ["refuses-itself"] => refuse_itself(),
        _ => panic!("no role {role:?}"),
    }
}

/// `IBV_SEND_SOLICITED`.
const SOLICITED: u32 = 4;
const BYTES: usize = 8192;

/// Checks which messages cause an event at a CQ with a channel. A QP that is connected to itself sends them.
fn be_notified() {
    let mut node = Node::open(BYTES, 0);
    let (channel, cq) = node.sleeping_cq(64);
    node.cq = cq;
    node.add_qp(QpType::Rc, node.cq, null_mut());
    node.connect(0, &node.endpoint(0));
    let arm = |solicited_only: c_int| {
        // SAFETY: the context and the CQ are live.
        let armed =
            unsafe { (*node.context).ops.req_notify_cq.expect("it is served")(node.cq, solicited_only) };
        assert_eq!(armed, 0);
    };
    // Sends a message. Returns whether it causes an event.
    let tells = |flags: u32| {
        node.post_recv(0, 1, &[]);
        node.post(0, &[Wr { op: SendOp::Send, buffers: &[], flags }]);
        node.completions(1);
        // SAFETY: the channel is live.
        let mut fd = libc::pollfd { fd: unsafe { (*channel).fd }, events: libc::POLLIN, revents: 0 };
        // SAFETY: the array has one entry.
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
    // Requests the next event, then the next solicited event. The second request does not cancel the first.
    arm(0);
    arm(1);
    assert!(tells(0), "the next one was asked for");
    assert!(!tells(SOLICITED), "it was told of already");
    arm(1);
    assert!(!tells(0), "only a solicited one was asked for");
    assert!(tells(SOLICITED));
    arm(1);
    arm(0);
    assert!(tells(0), "the next one was asked for");
}

#[test]
fn a_notification_that_was_asked_for_stays() {
    alone(Link::Ib, HERE, "notified");
}

const PAGE: usize = 4096;
const READ_WRITE: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// An SGE at an odd address. libiscsi too embeds an SGE in a packed struct.
#[repr(C, packed)]
struct Unaligned {
    before: u8,
    sge: ibv_sge,
}

/// Posts a RECV and sends with SGEs that are not aligned.
fn post_unaligned() {
    let node = Node::open(BYTES, 1);
    let own = node.endpoint(0);
    node.connect(0, &own);
    // SAFETY: the memory region is live.
    let lkey = unsafe { (*node.mr).lkey };
    let sge = |offset| ibv_sge { addr: own.at(offset).addr, length: 64, lkey };
    let mut receives = Unaligned { before: 0, sge: sge(0) };
    let mut wr = ibv_recv_wr { wr_id: 1, next: null_mut(), sg_list: &raw mut receives.sge, num_sge: 1 };
    let mut bad = null_mut();
    // SAFETY: the QP is live, and the work request outlives the call.
    let posted =
        unsafe { (*node.context).ops.post_recv.expect("it is served")(node.qps[0], &mut wr, &mut bad) };
    assert_eq!(posted, 0);
    let send = |op: SendOp, offset: usize, flags: u32| {
        let mut sends = Unaligned { before: 0, sge: sge(offset) };
        let mut wr = c_wr(&Wr { op, buffers: &[], flags: SIGNALED | flags }, &mut []);
        (wr.sg_list, wr.num_sge) = (&raw mut sends.sge, 1);
        let mut bad = null_mut();
        // SAFETY: the QP is live, and the work request outlives the call.
        let posted =
            unsafe { (*node.context).ops.post_send.expect("it is served")(node.qps[0], &mut wr, &mut bad) };
        assert_eq!(posted, 0, "{op:?}");
    };
    node.fill(BYTES / 2, 64, 1);
    send(SendOp::Send, BYTES / 2, 0);
    node.completions(2);
    assert!(node.is_all(0, 64, 1));
    node.fill(BYTES / 2, 64, 2);
    send(SendOp::Write(own.at(64)), BYTES / 2, INLINED);
    send(SendOp::Read(own.at(BYTES / 2)), 128, 0);
    node.completions(2);
    assert!(node.is_all(64, 128, 2));
}

#[test]
fn sges_need_no_alignment() {
    alone(Link::Ib, HERE, "unaligned");
}

/// Checks that a QP accepts as much inline payload as it reports, even if the program requests less.
fn inline_unasked() {
    let mut node = Node::open(BYTES, 0);
    for (asked, room) in [(0, 64), (1, 64), (64, 64), (65, 128), (1024, 1024)] {
        let cap = ibv_qp_cap {
            max_send_wr: 8,
            max_recv_wr: 8,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: asked,
        };
        let mut attr = ibv_qp_init_attr {
            qp_context: null_mut(),
            send_cq: node.cq,
            recv_cq: node.cq,
            srq: null_mut(),
            cap,
            qp_type: QpType::Rc.to_c(),
            sq_sig_all: 0,
        };
        let qp = call!(c"ibv_create_qp"(
            node.pd => *mut ibv_pd, &raw mut attr => *mut ibv_qp_init_attr
        ) -> *mut ibv_qp);
        assert!(!qp.is_null());
        assert_eq!(attr.cap.max_inline_data, room, "{asked} asked for");
        node.qps.push(qp);
        let number = node.qps.len() - 1;
        node.reset(number);
        node.connect(number, &node.endpoint(number));
        let remote = node.endpoint(number).at(BYTES / 2);
        let buffers = [(0, room)];
        node.fill(0, room as usize, asked as u8 | 1);
        node.post(number, &[Wr { op: SendOp::Write(remote), buffers: &buffers, flags: SIGNALED | INLINED }]);
        node.completions(1);
        assert!(node.is_all(BYTES / 2, room as usize, asked as u8 | 1));
    }
}

#[test]
fn some_payload_may_be_inline_unasked() {
    alone(Link::Ib, HERE, "inlines");
}

/// Maps new memory, whose pages are not in memory yet.
fn map(bytes: usize, protection: c_int) -> *mut c_void {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: the kernel chooses the address.
    let mapped = unsafe { libc::mmap(null_mut(), bytes, protection, flags, -1, 0) };
    assert_ne!(mapped, libc::MAP_FAILED, "{bytes} bytes");
    mapped
}

/// Access flags of verbs.h: `IBV_ACCESS_MW_BIND`, `IBV_ACCESS_ZERO_BASED`, `IBV_ACCESS_ON_DEMAND`.
const MW_BIND: u32 = 1 << 4;
const ZERO_BASED: u32 = 1 << 5;
const ON_DEMAND: u32 = 1 << 6;

/// Flags of ibv_rereg_mr(3): `IBV_REREG_MR_*`.
const TRANSLATION: c_int = 1;
const PD: c_int = 2;
const ACCESS: c_int = 4;
/// An error of ibv_rereg_mr(3): `IBV_REREG_MR_ERR_CMD`.
const ERR_CMD: c_int = -4;

/// Registers memory with all combinations of protection and access flags, and re-registers regions.
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
    // SAFETY: the page belongs to this test.
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

    // Re-registration. A refused call changes nothing.
    let fault = Err((ERR_CMD, libc::EFAULT));
    let mr = register(writable, PAGE, writes[0]).expect("it may be");
    for (addr, len) in [(none, PAGE), (holed, 3 * PAGE), (read_only, PAGE)] {
        assert_eq!(rereg(mr, TRANSLATION, addr, len, 0), fault);
    }
    // SAFETY: the region is live.
    let now = unsafe { &*mr };
    assert_eq!((now.addr, now.length), (writable, PAGE));
    node.connect(0, &node.endpoint(1));
    node.connect(1, &node.endpoint(0));
    let write = |addr: u64| {
        node.carry_out(0, SendOp::Write(RemoteAddr { addr, rkey: now.rkey }), &[(0, 8)]);
        // SAFETY: the memory stays mapped.
        unsafe { writable.cast::<u64>().read_volatile() }
    };
    node.fill(0, 8, 0x77);
    assert_eq!(write(writable as u64), 0x7777_7777_7777_7777);
    assert_eq!(rereg(mr, TRANSLATION | ACCESS, read_only, 2 * PAGE, remote_read), Ok(()));
    assert_eq!(rereg(mr, ACCESS, null_mut(), 0, local), fault);
    assert_eq!(rereg(mr, ACCESS, null_mut(), 0, 0), Ok(()));

    // An on-demand region stays on demand, and a zero-based region stays zero-based.
    let mr = register(none, PAGE, local | ON_DEMAND).expect("it may be");
    assert_eq!(rereg(mr, PD, null_mut(), 0, 0), Ok(()));
    assert_eq!(rereg(mr, TRANSLATION, holed, 3 * PAGE, 0), Ok(()));
    assert_eq!(rereg(mr, ACCESS, null_mut(), 0, local), fault);
    let mr = register(writable, PAGE, writes[0] | ZERO_BASED).expect("it may be");
    // SAFETY: the region is live.
    let rkey = unsafe { (*mr).rkey };
    for flags in [PD, ACCESS] {
        assert_eq!(rereg(mr, flags, null_mut(), 0, writes[0] | ZERO_BASED), Ok(()));
        node.carry_out(0, SendOp::Write(RemoteAddr { addr: 8, rkey }), &[(0, 8)]);
    }
}

#[test]
fn memory_is_registered_where_it_is_there() {
    alone(Link::Ib, HERE, "registers");
}

const SPARSE: usize = 64 << 30;

/// The number of pages of a mapping that are resident in memory.
fn resident(begin: *mut c_void, bytes: usize) -> usize {
    let mut pages = vec![0u8; bytes / PAGE];
    // SAFETY: the vector has a byte for each page.
    assert_eq!(unsafe { libc::mincore(begin, bytes, pages.as_mut_ptr()) }, 0);
    pages.iter().filter(|page| **page & 1 != 0).count()
}

/// The most resident pages: eight huge pages, because each access may bring in a huge page.
const FEW: usize = 8 * 512;

/// Runs one of two processes with large regions, nearly all of whose pages are not in memory. The process
/// with `begins` posts the requests.
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
        // A READ of remote bytes that were never written brings zeros.
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
        let mut ends = ["begins", "waits"].map(|part| Running::new(&launch, HERE, &format!("sparse {part}")));
        connect(&mut ends);
        let [mut begins, mut waits] = ends;
        begins.tell("go");
        begins.end("who begins");
        waits.tell("go");
        waits.end("who waits");
    }
}

/// Exchanges the endpoints of two programs, and waits until both are ready.
fn connect(ends: &mut [Running; 2]) {
    let told = [ends[0].line(), ends[1].line()];
    ends[0].tell(&told[1]);
    ends[1].tell(&told[0]);
    ends.iter_mut().for_each(|end| assert_eq!(end.line(), "ready"));
}

/// Creates an SRQ with `recvs` RECVs of 0 bytes. Their `wr_id`s count from 0.
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
        // SAFETY: the SRQ is live, and the RECV outlives the call.
        let posted =
            unsafe { (*node.context).ops.post_srq_recv.expect("it is served")(srq, &mut recv, &mut bad) };
        assert_eq!(posted, 0);
    }
    srq
}

/// Receives a WRITE with immediate that exceeds its region. The WRITE fails the RECV that it takes.
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
    // SAFETY: the QP is live.
    assert_eq!((refused.wr_id, refused.qp_num), (0, unsafe { (*node.qps[qp]).qp_num }));
    if uses_srq {
        // Other QPs still take the other RECVs of the SRQ.
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

/// Posts WRITEs with immediate that exceed their region on QPs that are connected to themselves.
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
    // Each request has one completion. The RECVs complete in order.
    let all: Vec<(u64, WcStatus)> = (0..4).map(|_| any(&node)).collect();
    let recvs = [WcStatus::LocAccessErr, WcStatus::WrFlushErr, WcStatus::WrFlushErr];
    let mut rest: Vec<(u64, WcStatus)> = all.clone();
    rest.retain(|one| *one != (0, WcStatus::RemAccessErr));
    assert_eq!(rest, (0..).zip(recvs).collect::<Vec<_>>(), "{all:?}");
    assert!(node.poll().is_none());
    // On UC nothing reports the failure, and the next message takes the RECV.
    let own = outside(1);
    node.completion(WcStatus::Success);
    assert!(node.poll().is_none());
    node.post(1, &[Wr { op: SendOp::WriteWithImm(own.at(0), 9), buffers: &[(0, 64)], flags: 0 }]);
    let wc = node.completion(WcStatus::Success);
    assert_eq!((wc.wr_id, u32::from_be(wc.imm_data)), (0, 9));
}

/// Waits for the next completion. Returns its `wr_id` and status.
fn any(node: &Node) -> (u64, WcStatus) {
    loop {
        if let Some(wc) = node.poll() {
            return (wc.wr_id, WcStatus::from_c(wc.status).expect("a status"));
        }
    }
}

#[test]
fn a_write_with_immediate_outside_its_region_fails_its_recv() {
    alone(Link::Ib, HERE, "refuses-itself");
    for private_buffers in [false, true] {
        for queue in ["own", "srq"] {
            let launch = Launch { private_buffers, ..launch(Link::Ib) };
            let mut ends = [format!("refuses {queue}"), "writes-outside".into()]
                .map(|role| Running::new(&launch, HERE, &role));
            connect(&mut ends);
            let [mut refuses, mut writes] = ends;
            writes.tell("go");
            writes.end(queue);
            refuses.tell("enough");
            refuses.end(queue);
        }
    }
}
