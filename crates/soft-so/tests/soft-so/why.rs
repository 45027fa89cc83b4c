//! Tests the lines that explain why a QP is in error. The requester's process and the responder's process
//! each print one line, with the check that failed.

use crate::common::running::{Running, hear, role, say};
use crate::common::verbs::{Endpoint, Node, Retries, SIGNALED, Wr, call, state, to_gid, to_lid};
use crate::common::{finish, launch, own_program, text};
use doorbell_abi::ibv_qp_attr_mask::*;
use doorbell_abi::{ibv_context, ibv_cq, ibv_mr, ibv_pd, ibv_qp, ibv_qp_attr, ibv_qp_init_attr, ibv_sge};
use doorbell_launch::{Launch, Link};
use doorbell_verbs::{AccessFlags, QpState, QpType, RemoteAddr, SendOp, WcStatus};
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
        ["pair", "requests"] => request_of_peer(),
        ["pair", "responds"] => respond_to_peer(),
        ["ended", "stays"] => outlive_peer(),
        ["ended", "ends"] => end_first(),
        ["many"] => many(),
        ["own-end"] => end_by_itself(),
        ["datagrams"] => lose_datagrams(),
        [case] => fail(case),
        _ => panic!("no role {role:?}"),
    }
}

const BYTES: usize = 8192;
const RETRIES: Retries = Retries { timeout: 1, retry_cnt: 1, rnr_retry: 1 };

/// Two QPs of one process. QP 0 is the requester, QP 1 is the responder.
struct Ends {
    node: Node,
    ends: [Endpoint; 2],
}

impl Ends {
    fn new() -> Ends {
        let node = Node::open(BYTES, 2);
        let ends = [node.endpoint(0), node.endpoint(1)];
        Ends { node, ends }
    }

    /// Connects both QPs with each other. `alter` changes the responder's attributes.
    fn connect(&self, alter: impl Fn(&mut ibv_qp_attr) -> c_int) {
        self.node.connect_with(0, &self.ends[1], RETRIES);
        self.node.connect_altered(1, to_lid(self.ends[0].lid), self.ends[0].qpn, RETRIES, alter);
    }
}

/// Waits for the next completion. Returns its `wr_id` and status.
fn next(node: &Node) -> (u64, WcStatus) {
    loop {
        if let Some(wc) = node.poll() {
            let status = doorbell_abi::CEnum::from_c(wc.status).expect("a status");
            return (wc.wr_id, status);
        }
    }
}

/// Waits until a work request fails with this status, skips all other completions, and queries all QPs.
fn failed(node: &Node, status: WcStatus) {
    while next(node).1 != status {}
    node.qps.iter().for_each(|qp| look(*qp));
}

/// Queries a QP's state, as a program does that has not noticed the error yet.
fn look(qp: *mut ibv_qp) {
    let mut attr = state(QpState::Reset);
    // SAFETY: the struct has integers and pointers, which may be zero.
    let mut init: ibv_qp_init_attr = unsafe { std::mem::zeroed() };
    let asked = call!(c"ibv_query_qp"(
        qp => *mut ibv_qp, &raw mut attr => *mut ibv_qp_attr, IBV_QP_STATE => c_int,
        &raw mut init => *mut ibv_qp_init_attr
    ) -> c_int);
    assert_eq!(asked, 0);
}

/// Tells the test the parts that the lines of requester and responder must contain.
fn expect(lines: &[(&str, u32, &[String])]) {
    for (whose, qpn, parts) in lines {
        say(format!("{whose}|QP {qpn:#x} (RC) is in error|{}", parts.join("|")));
    }
    say("all");
}

fn register(node: &Node, pd: *mut ibv_pd, access: AccessFlags) -> (u32, u64) {
    let addr = node.address(4096);
    let mr = call!(c"ibv_reg_mr"(
        pd => *mut ibv_pd, addr.cast() => *mut c_void, 64 => usize, access.bits() as c_int => c_int
    ) -> *mut ibv_mr);
    assert!(!mr.is_null());
    // SAFETY: the region was just created.
    (unsafe { (*mr).rkey }, addr as u64)
}

fn other_pd(node: &Node) -> *mut ibv_pd {
    call!(c"ibv_alloc_pd"(node.context => *mut ibv_context) -> *mut ibv_pd)
}

/// Makes the mistake `case` with the two QPs of this process, and tells the test the expected lines.
fn fail(case: &str) {
    let ends = Ends::new();
    let Ends { node, ends: [here, there] } = &ends;
    let (here, there) = (*here, *there);
    let write = |remote: RemoteAddr| SendOp::Write(remote);
    let post = |op: SendOp, buffers: &[(usize, u32)], status: WcStatus| {
        node.post(0, &[Wr { op, buffers, flags: SIGNALED }]);
        failed(node, status);
    };
    let hex = |n: u64| format!("{n:#x}");
    let both = |status: &str, parts: &[String]| {
        let mut first =
            vec![status.to_owned(), format!("QP {:#x} of process {} ", there.qpn, std::process::id())];
        first.push("work request 1 (".into());
        first.extend_from_slice(parts);
        let mut second = vec![format!("of QP {:#x} of process {}", here.qpn, std::process::id())];
        second.extend_from_slice(parts);
        expect(&[("one", here.qpn, &first), ("other", there.qpn, &second)]);
    };
    let alone = |status: &str, parts: &[String]| {
        let mut first = vec![status.to_owned(), format!("sq_psn {:#x}", 0)];
        first.extend_from_slice(parts);
        expect(&[("one", here.qpn, &first)]);
    };
    let access = "IBV_WC_REM_ACCESS_ERR. ";
    let invalid = "IBV_WC_REM_INV_REQ_ERR. ";
    let silent = "IBV_WC_RETRY_EXC_ERR. ";
    let connect = || ends.connect(|_| 0);
    match case {
        "rkey" => {
            connect();
            let remote = RemoteAddr { rkey: there.memory.rkey + 256 * 40, addr: 0x1234_5678 };
            post(write(remote), &[(0, 64)], WcStatus::RemAccessErr);
            both(access, &[hex(remote.addr), format!("no region has rkey {:#x}", remote.rkey)]);
        }
        "rkey-pd" => {
            connect();
            let (rkey, addr) = register(node, other_pd(node), AccessFlags::all());
            post(write(RemoteAddr { rkey, addr }), &[(0, 64)], WcStatus::RemAccessErr);
            both(
                access,
                &[
                    hex(addr),
                    format!(
                        "the region of rkey {rkey:#x} belongs to protection domain 2, but the QP belongs to 1"
                    ),
                ],
            );
        }
        "bounds" => {
            connect();
            let remote = there.at(BYTES - 32);
            post(SendOp::Read(remote), &[(0, 64)], WcStatus::RemAccessErr);
            let (begin, end) = (there.memory.addr, there.memory.addr + BYTES as u64);
            let range = format!("[{:#x}, {:#x}) is not entirely within", remote.addr, remote.addr + 64);
            both(access, &[range, format!("rkey {:#x}, which is [{begin:#x}, {end:#x})", remote.rkey)]);
        }
        "rights" => {
            connect();
            let (rkey, addr) = register(node, node.pd, AccessFlags::REMOTE_READ);
            post(write(RemoteAddr { rkey, addr }), &[(0, 64)], WcStatus::RemAccessErr);
            both(access, &[hex(addr), format!("rkey {rkey:#x} lacks IBV_ACCESS_REMOTE_WRITE")]);
        }
        "not-enabled" => {
            ends.connect(|attr| {
                attr.qp_access_flags = AccessFlags::REMOTE_READ.bits();
                IBV_QP_ACCESS_FLAGS
            });
            post(write(there.at(0)), &[(0, 64)], WcStatus::RemInvReqErr);
            both(
                invalid,
                &[
                    hex(there.memory.addr),
                    "the responder's qp_access_flags lack IBV_ACCESS_REMOTE_WRITE".into(),
                ],
            );
        }
        "no-resources" => {
            ends.connect(|attr| {
                attr.max_dest_rd_atomic = 0;
                0
            });
            post(SendOp::Read(there.at(0)), &[(0, 64)], WcStatus::RemInvReqErr);
            both(invalid, &[hex(there.memory.addr), "the responder's max_dest_rd_atomic is 0".into()]);
        }
        "misaligned" => {
            connect();
            post(SendOp::FetchAdd { remote: there.at(4), add: 1 }, &[(0, 8)], WcStatus::RemInvReqErr);
            let addr = there.memory.addr + 4;
            both(
                invalid,
                &["ATOMIC_FETCH_AND_ADD".into(), format!("the bytes at {addr:#x} are not aligned")],
            );
        }
        "short-recv" => {
            connect();
            node.post_recv(1, 1, &[(4096, 32)]);
            post(SendOp::Send, &[(0, 64)], WcStatus::RemInvReqErr);
            both(invalid, &["the RECV has room for 32 bytes, but the message has 64 bytes".into()]);
        }
        "recv-lkey" => {
            connect();
            let (lkey, addr) = register(node, other_pd(node), AccessFlags::all());
            let mut sge = ibv_sge { addr, length: 64, lkey };
            recv(node, 1, &mut sge);
            post(SendOp::Send, &[(0, 64)], WcStatus::RemOpErr);
            both(
                "IBV_WC_REM_OP_ERR. ",
                &[format!(
                    "the RECV's lkey {lkey:#x} belongs to protection domain 2, but the QP belongs to 1"
                )],
            );
        }
        "immediate" => {
            connect();
            node.post_recv(1, 1, &[]);
            let remote = there.at(BYTES);
            post(SendOp::WriteWithImm(remote, 7), &[(0, 64)], WcStatus::RemAccessErr);
            both(access, &["RDMA_WRITE_WITH_IMM".into(), format!("[{:#x}, ", remote.addr)]);
        }
        "lkey" => {
            connect();
            let mut sge = ibv_sge { addr: 0x77, length: 64, lkey: 0xdead_0001 };
            post_sge(node, &mut sge);
            failed(node, WcStatus::LocProtErr);
            alone("IBV_WC_LOC_PROT_ERR. Local cause: ", &["no region has lkey 0xdead0001".into()]);
        }
        "lkey-bounds" => {
            connect();
            let mut sge = node.sges(&[(BYTES - 8, 64)])[0];
            post_sge(node, &mut sge);
            failed(node, WcStatus::LocProtErr);
            let key = format!("within the region of lkey {:#x}, which is", sge.lkey);
            alone("IBV_WC_LOC_PROT_ERR. Local cause: ", &[format!("[{:#x}, ", sge.addr), key]);
        }
        "no-initiator" => {
            ends.node.connect_altered(0, to_lid(there.lid), there.qpn, RETRIES, |attr| {
                attr.max_rd_atomic = 0;
                0
            });
            ends.node.connect_with(1, &here, RETRIES);
            post(SendOp::Read(there.at(0)), &[(0, 64)], WcStatus::LocQpOpErr);
            alone("IBV_WC_LOC_QP_OP_ERR. Local cause: ", &["the requester's max_rd_atomic is 0".into()]);
        }
        "no-recv" => {
            connect();
            post(SendOp::Send, &[(0, 64)], WcStatus::RnrRetryExcErr);
            alone(
                "IBV_WC_RNR_RETRY_EXC_ERR. ",
                &[
                    format!("QP {:#x} of process {} refused it: ", there.qpn, std::process::id()),
                    "the responder had no RECV posted, even after 1 RNR retries".into(),
                ],
            );
        }
        "cq-full" => fill_cq(node, here),
        "state" => {
            node.connect_with(0, &there, RETRIES);
            post(write(there.at(0)), &[(0, 64)], WcStatus::RetryExcErr);
            alone(
                silent,
                &[format!("QP {:#x} of", there.qpn), "the responder is in state IBV_QPS_INIT".into()],
            );
        }
        "reset" => {
            let mut attr = state(QpState::Reset);
            let reset = call!(c"ibv_modify_qp"(
                node.qps[1] => *mut ibv_qp, &raw mut attr => *mut ibv_qp_attr, IBV_QP_STATE => c_int
            ) -> c_int);
            assert_eq!(reset, 0);
            node.connect_with(0, &there, RETRIES);
            post(write(there.at(0)), &[(0, 64)], WcStatus::RetryExcErr);
            alone(silent, &["the responder is in state IBV_QPS_RESET".into()]);
        }
        "destroyed" => {
            let mut other = Node::open(4096, 1);
            let gone = other.endpoint(0);
            let qp = other.qps.remove(0);
            assert_eq!(call!(c"ibv_destroy_qp"(qp => *mut ibv_qp) -> c_int), 0);
            node.connect_with(0, &gone, RETRIES);
            post(write(there.at(0)), &[(0, 64)], WcStatus::RetryExcErr);
            alone(silent, &[format!("QP {:#x} of", gone.qpn), "the responder's QP was destroyed".into()]);
        }
        "never-made" => {
            let never = there.qpn + 500;
            node.connect_by(0, to_lid(there.lid), never, RETRIES);
            post(write(there.at(0)), &[(0, 64)], WcStatus::RetryExcErr);
            alone(
                silent,
                &[format!("QP {never:#x} of"), "no QP of the responder's process has had this number".into()],
            );
        }
        "dest" => {
            node.connect_with(0, &there, RETRIES);
            node.connect_with(1, &there, RETRIES);
            post(write(there.at(0)), &[(0, 64)], WcStatus::RetryExcErr);
            alone(silent, &[format!("the responder's dest_qp_num is {:#x}", there.qpn)]);
        }
        "psn" => {
            ends.connect(|attr| {
                attr.rq_psn = 0x1234;
                0
            });
            post(write(there.at(0)), &[(0, 64)], WcStatus::RetryExcErr);
            alone(silent, &["the responder's rq_psn is 0x1234, but the requester's sq_psn is 0x0".into()]);
        }
        "nobody" => {
            // A QP number in the range of another process.
            let nobody = there.qpn ^ 1 << 20;
            node.connect_by(0, to_lid(there.lid), nobody, RETRIES);
            post(write(there.at(0)), &[(0, 64)], WcStatus::RetryExcErr);
            alone(
                silent,
                &[format!("QP {nobody:#x} did not answer"), "no process has a QP with this number".into()],
            );
        }
        "lid" => {
            node.connect_by(0, to_lid(there.lid ^ 1), there.qpn, RETRIES);
            post(write(there.at(0)), &[(0, 64)], WcStatus::RetryExcErr);
            alone(silent, &[format!("no port has the LID of the path, {:#x}", there.lid ^ 1)]);
        }
        "gid" => {
            let mut gid = node.gid(0);
            gid.raw[15] ^= 1;
            node.connect_by(0, to_gid(0, gid), there.qpn, RETRIES);
            post(write(there.at(0)), &[(0, 64)], WcStatus::RetryExcErr);
            alone(
                silent,
                &[format!("no port has the GID of the path, {}", std::net::Ipv6Addr::from(gid.raw))],
            );
        }
        "type" => {
            let mut other = Node::open(4096, 0);
            let uc = other.add_qp(QpType::Uc, other.cq, null_mut());
            other.connect(uc, &here);
            let uc = other.endpoint(uc);
            node.connect_with(0, &uc, RETRIES);
            post(write(there.at(0)), &[(0, 64)], WcStatus::RetryExcErr);
            alone(silent, &["the responder is of type UC".into()]);
        }
        _ => panic!("no case {case}"),
    }
}

fn recv(node: &Node, qp: usize, sge: &mut ibv_sge) {
    let mut wr = doorbell_abi::ibv_recv_wr { wr_id: 0, next: null_mut(), sg_list: sge, num_sge: 1 };
    let mut bad = null_mut();
    // SAFETY: the QP is live, and the RECV outlives the call.
    let posted = unsafe { (*node.context).ops.post_recv.expect("served")(node.qps[qp], &mut wr, &mut bad) };
    assert_eq!(posted, 0);
}

/// Posts a SEND with this SGE on QP 0.
fn post_sge(node: &Node, sge: &mut ibv_sge) {
    // SAFETY: the struct has integers, pointers and a union of these, which may be zero.
    let mut wr: doorbell_abi::ibv_send_wr = unsafe { std::mem::zeroed() };
    (wr.sg_list, wr.num_sge, wr.opcode, wr.send_flags) = (sge, 1, 2, SIGNALED);
    let mut bad = null_mut();
    // SAFETY: the QP is live, and the work request outlives the call.
    let posted = unsafe { (*node.context).ops.post_send.expect("served")(node.qps[0], &mut wr, &mut bad) };
    assert_eq!(posted, 0);
}

/// Sends two messages to a QP whose CQ has room for one completion.
fn fill_cq(node: &Node, here: Endpoint) {
    let mut small = Node::open(4096, 0);
    small.cq = call!(c"ibv_create_cq"(
        small.context => *mut ibv_context, 1 => c_int, null_mut() => *mut c_void, null_mut() => *mut c_void,
        0 => c_int
    ) -> *mut ibv_cq);
    small.add_qp(QpType::Rc, small.cq, null_mut());
    let there = small.endpoint(0);
    small.connect_with(0, &here, RETRIES);
    node.connect_with(0, &there, RETRIES);
    small.post_recv(0, 2, &[]);
    node.post(0, &[Wr { op: SendOp::Send, buffers: &[], flags: SIGNALED }]);
    node.completions(1);
    node.post(0, &[Wr { op: SendOp::Send, buffers: &[], flags: SIGNALED }]);
    failed(node, WcStatus::RemOpErr);
    let status = "work request 2 (SEND, wr_id 0x0, 0 bytes; sq_psn 0x0) failed with IBV_WC_REM_OP_ERR. ";
    expect(&[(
        "one",
        here.qpn,
        &[
            status.to_owned(),
            format!("QP {:#x} of", there.qpn),
            "the CQ of the responder's RECVs was full with 1 completions".into(),
        ],
    )]);
}

/// Runs a program that prints the expected lines on standard output. Asserts that exactly these lines are on
/// its standard error.
#[track_caller]
fn check(launch: &Launch, case: &str) {
    let output = finish(own_program(launch, HERE, case).spawn().expect("it starts"), case);
    assert!(output.status.success(), "{case}: {}", text(&output));
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let told: Vec<&str> = told.lines().filter_map(|line| Some(line.split_once("> ")?.1)).collect();
    assert_eq!(told.last(), Some(&"all"), "{case}: {}", text(&output));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut lines: Vec<&str> = errors.lines().filter(|line| line.starts_with("doorbell: ")).collect();
    for expected in &told[..told.len() - 1] {
        let parts: Vec<&str> = expected.split('|').skip(1).collect();
        let found = lines.iter().position(|line| parts.iter().all(|part| line.contains(part)));
        let found = found.unwrap_or_else(|| panic!("{case}: no line has {parts:?}:\n{errors}"));
        lines.remove(found);
    }
    assert_eq!(lines, Vec::<&str>::new(), "{case}: more than was to come");
}

#[test]
fn each_refusal_says_what_was_looked_at() {
    let cases = [
        "rkey",
        "rkey-pd",
        "bounds",
        "rights",
        "not-enabled",
        "no-resources",
        "misaligned",
        "short-recv",
        "recv-lkey",
        "immediate",
        "lkey",
        "lkey-bounds",
        "no-initiator",
        "no-recv",
        "cq-full",
        "state",
        "reset",
        "destroyed",
        "never-made",
        "dest",
        "psn",
        "nobody",
        "lid",
        "type",
    ];
    for case in cases {
        check(&launch(Link::Ib), case);
    }
    check(&launch(Link::Roce), "gid");
}

/// The remote address of memory that was registered and then unmapped.
fn unmapped(node: &Node) -> RemoteAddr {
    let (rw, private) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the kernel chooses the address.
    let mapped = unsafe { libc::mmap(null_mut(), 4096, rw, private, -1, 0) };
    let mr = call!(c"ibv_reg_mr"(
        node.pd => *mut ibv_pd, mapped => *mut c_void, 4096 => usize, 15 => c_int
    ) -> *mut ibv_mr);
    // SAFETY: the page belongs to this function, and the region is live.
    unsafe {
        assert_eq!(libc::munmap(mapped, 4096), 0);
        RemoteAddr { addr: mapped as u64, rkey: (*mr).rkey }
    }
}

fn respond_to_peer() {
    let node = Node::open(BYTES, 2);
    let gone = Endpoint { memory: unmapped(&node), ..node.endpoint(1) };
    for (qp, told) in [node.endpoint(0), gone].iter().enumerate() {
        say(told);
        let peer: Endpoint = hear().parse().expect("an endpoint");
        node.connect_with(qp, &peer, RETRIES);
        node.post_recv(qp, 1, &[]);
    }
    say("ready");
    // The flushed RECVs are the only sign of both errors on this side.
    for _ in 0..2 {
        assert_eq!(next(&node).1, WcStatus::WrFlushErr);
    }
    say("seen");
    hear();
}

fn request_of_peer() {
    let node = Node::open(BYTES, 2);
    let mut peers = Vec::new();
    for qp in 0..2 {
        say(node.endpoint(qp));
        let peer: Endpoint = hear().parse().expect("an endpoint");
        node.connect_with(qp, &peer, RETRIES);
        peers.push(peer);
    }
    say("ready");
    hear();
    // On the first QP, the responder refuses the third request of a list. The fourth request is flushed.
    let outside = peers[0].at(BYTES - 8);
    let write = |remote| Wr { op: SendOp::Write(remote), buffers: &[(0, 16)], flags: SIGNALED };
    node.post(0, &[write(peers[0].at(0)), write(peers[0].at(16)), write(outside), write(peers[0].at(0))]);
    failed(&node, WcStatus::RemAccessErr);
    node.post(1, &[write(peers[1].at(0))]);
    failed(&node, WcStatus::RemAccessErr);
    say(outside.addr);
    hear();
}

#[test]
fn both_processes_say_why() {
    for private_buffers in [false, true] {
        let launch = Launch { private_buffers, ..launch(Link::Ib) };
        let mut ends = ["pair requests", "pair responds"].map(|role| Running::new(&launch, HERE, role));
        let mut qps = [Vec::new(), Vec::new()];
        let mut gone = String::new();
        for _ in 0..2 {
            let told = [ends[0].line(), ends[1].line()];
            for (side, line) in qps.iter_mut().zip(&told) {
                side.push(line.parse::<Endpoint>().expect("an endpoint").qpn);
            }
            gone = format!("{:#x}", told[1].parse::<Endpoint>().expect("an endpoint").memory.addr);
            ends[0].tell(&told[1]);
            ends[1].tell(&told[0]);
        }
        ends.iter_mut().for_each(|end| assert_eq!(end.line(), "ready"));
        let pids = [ends[0].child.id(), ends[1].child.id()];
        ends[0].tell("go");
        let outside = format!("{:#x}", ends[0].line().parse::<u64>().expect("an address"));
        assert_eq!(ends[1].line(), "seen");
        ends.iter_mut().for_each(|end| end.tell("end"));
        let [requests, responds] = ends.map(|end| end.end("a side"));
        let has = |text: &str, parts: &[String]| {
            let holds = |line: &&str| parts.iter().all(|part| line.contains(part));
            assert_eq!(text.lines().filter(holds).count(), 1, "{parts:?} in {text}");
        };
        let number = |n: u32| format!("{n:#x}");
        let bounds = format!("[{outside}, ");
        let not_there = format!("contains the 16 bytes at {gone}, but some of their memory is not mapped");
        has(
            &requests,
            &[
                format!(
                    "QP {} (RC) is in error: its work request 3 (RDMA_WRITE, wr_id 0x2, 16 bytes at",
                    number(qps[0][0])
                ),
                format!("QP {} of process {} refused it", number(qps[1][0]), pids[1]),
                bounds.clone(),
            ],
        );
        has(
            &requests,
            &[format!("QP {} of process {} refused it", number(qps[1][1]), pids[1]), not_there.clone()],
        );
        has(
            &responds,
            &[
                format!("QP {} (RC) is in error because of work request 3 (RDMA_WRITE)", number(qps[1][0])),
                format!("of QP {} of process {}", number(qps[0][0]), pids[0]),
                bounds,
            ],
        );
        has(&responds, &[format!("of QP {} of process {}", number(qps[0][1]), pids[0]), not_there]);
        for said in [&requests, &responds] {
            assert_eq!(said.lines().filter(|line| line.starts_with("doorbell: ")).count(), 2, "{said}");
        }
    }
}

fn end_first() {
    let node = Node::open(4096, 1);
    say(node.endpoint(0));
    node.connect(0, &hear().parse().expect("an endpoint"));
    say("ready");
    hear();
}

fn outlive_peer() {
    let node = Node::open(4096, 1);
    say(node.endpoint(0));
    let peer: Endpoint = hear().parse().expect("an endpoint");
    node.connect_with(0, &peer, RETRIES);
    say("ready");
    hear();
    node.carry_out(0, SendOp::Write(peer.at(0)), &[(0, 8)]);
    say("met");
    hear();
    // This process notices the peer's exit a moment later. Until then, requests succeed.
    loop {
        node.post(0, &[Wr { op: SendOp::Write(peer.at(0)), buffers: &[(0, 8)], flags: SIGNALED }]);
        match next(&node).1 {
            WcStatus::Success => std::thread::sleep(std::time::Duration::from_millis(1)),
            status => return assert_eq!(status, WcStatus::RetryExcErr),
        }
    }
}

#[test]
fn a_peer_that_has_ended_is_named() {
    for end_by_kill in [false, true] {
        let launch = launch(Link::Ib);
        let mut ends = ["ended stays", "ended ends"].map(|role| Running::new(&launch, HERE, role));
        let told = [ends[0].line(), ends[1].line()];
        ends[0].tell(&told[1]);
        ends[1].tell(&told[0]);
        ends.iter_mut().for_each(|end| assert_eq!(end.line(), "ready"));
        let [mut stays, mut ends] = ends;
        stays.tell("go");
        assert_eq!(stays.line(), "met");
        let pid = ends.child.id();
        if end_by_kill {
            ends.child.kill().expect("it can be killed");
            ends.child.wait().expect("it ends");
        } else {
            ends.tell("go");
            ends.end("who ends");
        }
        stays.tell("go");
        let said = stays.end("who stays");
        assert!(said.contains(&format!("the responder's process {pid} has exited or was killed")), "{said}");
    }
}

/// Causes errors on more QPs than the number that get a line each.
fn many() {
    let node = Node::open(4096, 30);
    for qp in 0..30 {
        let own = node.endpoint(qp);
        node.connect_with(qp, &own, RETRIES);
        node.post(qp, &[Wr { op: SendOp::Write(own.at(4096)), buffers: &[(0, 8)], flags: SIGNALED }]);
        node.completion(WcStatus::RemAccessErr);
        // A second failed request of a QP before its reset gets no line.
        node.post(qp, &[Wr { op: SendOp::Write(own.at(4096)), buffers: &[(0, 8)], flags: SIGNALED }]);
        node.completion(WcStatus::WrFlushErr);
    }
    let own = node.endpoint(0);
    node.reset(0);
    node.connect_with(0, &own, RETRIES);
    node.carry_out(0, SendOp::Write(own.at(0)), &[(8, 8)]);
}

#[test]
fn many_qps_in_error_are_not_told_of_each() {
    let said = |launch: &Launch| {
        let output = finish(own_program(launch, HERE, "many").spawn().expect("it starts"), "many");
        assert!(output.status.success(), "{}", text(&output));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let lines = errors.lines().filter(|line| line.starts_with("doorbell: "));
        lines.map(str::to_owned).collect::<Vec<String>>()
    };
    let lines = said(&launch(Link::Ib));
    assert_eq!(lines.len(), 21, "{lines:#?}");
    assert_eq!(lines[20], "doorbell: further QPs in error are not explained");
    assert_eq!(said(&Launch { quiet: true, ..launch(Link::Ib) }), Vec::<String>::new());
}

/// Moves a QP with posted RECVs to state Err. That is no error to explain.
fn end_by_itself() {
    let Ends { node, ends: [here, there] } = Ends::new();
    node.connect(0, &there);
    node.connect(1, &here);
    node.post_recv(0, 2, &[]);
    node.set_state(0, QpState::Err);
    assert_eq!([next(&node).1, next(&node).1], [WcStatus::WrFlushErr; 2]);
    node.post(0, &[Wr { op: SendOp::Send, buffers: &[], flags: SIGNALED }]);
    assert_eq!(next(&node).1, WcStatus::WrFlushErr);
    node.qps.iter().for_each(|qp| look(*qp));
}

/// Sends datagrams that no QP receives. On UD that is no error.
fn lose_datagrams() {
    let node = Node::open_as(QpType::Ud, 4096, 1);
    node.connect(0, &node.endpoint(0));
    let ah = node.ah(to_lid(node.endpoint(0).lid));
    for qpn in [node.endpoint(0).qpn, node.endpoint(0).qpn ^ 1 << 20] {
        node.post_to(0, &[Wr { op: SendOp::Send, buffers: &[(0, 8)], flags: SIGNALED }], Some((ah, qpn)));
        node.completions(1);
    }
}

#[test]
fn what_is_no_error_is_not_told() {
    for case in ["own-end", "datagrams"] {
        let output = finish(own_program(&launch(Link::Ib), HERE, case).spawn().expect("it starts"), case);
        assert!(output.status.success(), "{case}: {}", text(&output));
        assert!(!text(&output).contains("doorbell: "), "{case}: {}", text(&output));
    }
}
