//! Causes each loss of a datagram (IB specification vol. 1, 9.8) between two processes, on both link layers.
//! The sender's work request completes with success, but the statistics and strict mode name the cause. The
//! losses of UC messages are also here. An exited process, `out-of-reach` and `unknown` are not caused here.

use crate::common::running::{Running, hear, role, say};
use crate::common::verbs::{Endpoint, Node, Retries, SIGNALED, Wr, call, errno, state, to_gid, to_lid};
use crate::common::{counting, launch, of_qps};
use doorbell_abi::ibv_qp_attr_mask::{IBV_QP_ACCESS_FLAGS, IBV_QP_QKEY, IBV_QP_STATE};
use doorbell_abi::{
    ibv_ah, ibv_ah_attr, ibv_context, ibv_cq, ibv_gid, ibv_pd, ibv_qp, ibv_qp_attr, ibv_recv_wr, ibv_srq,
};
use doorbell_launch::strict::Strict;
use doorbell_launch::{Launch, Link};
use doorbell_verbs::{QpState, QpType, RemoteAddr, SendOp};
use libc::{EINVAL, c_int, c_void};
use serde_json::json;
use std::ptr::null_mut;

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// The program that the tests start: this executable again, with a role for each process.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    match &role()[..] {
        "takes" => take(),
        "sends" => send_all(),
        "to itself" => send_to_itself(),
        role => panic!("no role {role:?}"),
    }
}

/// A loss: its name, the cause in statistics, and a part of the line in strict mode.
type Case = (&'static str, &'static str, &'static str);

const CASES: [Case; 24] = [
    ("a path to no port", "no-port", "no port has the "),
    ("a path to no port, GID", "no-port", "no port has the GID of the path, fe80::77"),
    ("a number of no process", "no-qp", "no process has a QP with this number"),
    ("a number of no QP", "no-qp", "no QP of the responder's process has had this number"),
    ("a destroyed QP", "no-qp", "the responder's QP was destroyed"),
    ("a QP in RESET", "qp-state", "the responder is in state IBV_QPS_RESET"),
    ("a QP in INIT", "qp-state", "the responder is in state IBV_QPS_INIT"),
    ("a QP in ERR", "qp-state", "the responder is in state IBV_QPS_ERR"),
    ("a QP of type RC", "qp-type", "the responder is of type RC"),
    ("another Q_Key", "q-key", "the responder's Q_Key is 0x5, but the datagram's Q_Key is 0x12345678"),
    ("no RECV", "no-recv", "the responder had no RECV posted"),
    ("a short RECV", "recv-too-small", "the RECV has room for 60 bytes, but the message has 104 bytes"),
    ("a short RECV, SRQ", "recv-too-small", "the RECV was too small for the message"),
    ("an lkey of no region", "recv-memory", "an lkey of the RECV does not allow the access"),
    ("a full CQ", "cq-full", "the CQ of the responder's RECVs was full"),
    ("a group without members", "no-group", "no other QP is attached to the multicast group"),
    ("a member without a RECV", "no-recv", "the responder had no RECV posted"),
    ("a member with another Q_Key", "q-key", "the responder has another Q_Key"),
    ("two members, one without a RECV", "no-recv", "the responder had no RECV posted"),
    ("no RECV, UC", "no-recv", "the responder had no RECV posted"),
    ("a short RECV, UC", "recv-too-small", "the RECV has room for 60 bytes, but the message has 64 bytes"),
    ("qp_access_flags, UC", "remote-memory", "the responder does not allow the access to its memory"),
    ("another connection, UC", "not-connected", "the responder's dest_qp_num is 0x"),
    ("an rkey of no region, UC", "remote-memory", "the responder does not allow the access to its memory"),
];

const BYTES: usize = 4096;
const PAYLOAD: u32 = 64;
/// Offset and length of a RECV that has room for payload and GRH, and the length of a shorter one.
const RECV: usize = 1024;
const ROOM: u32 = 256;
const SHORT: u32 = 60;
const RETRIES: Retries = Retries { timeout: 14, retry_cnt: 7, rnr_retry: 7 };
const MLID: u16 = 0xc123;
const MULTICAST_QPN: u32 = 0xff_ffff;
const NO_PROCESS: u32 = 0xff_fffe;

/// The path to the fabric's only port.
fn path(node: &Node) -> ibv_ah_attr {
    if node.lid == 0 { to_gid(0, node.gid(0)) } else { to_lid(node.lid) }
}

/// The path to a multicast group.
fn path_to_group(node: &Node, number: u8) -> ibv_ah_attr {
    ibv_ah_attr { dlid: if node.lid == 0 { 0 } else { MLID }, ..to_gid(0, group(number)) }
}

fn group(number: u8) -> ibv_gid {
    let mut raw = [0; 16];
    (raw[0], raw[1], raw[15]) = (0xff, 0x12, number);
    ibv_gid { raw }
}

fn type_of(case: &str) -> QpType {
    match case {
        "a QP of type RC" => QpType::Rc,
        _ if case.ends_with("UC") => QpType::Uc,
        _ => QpType::Ud,
    }
}

fn srq(node: &Node) -> *mut ibv_srq {
    let srq = node.srq();
    // The datagram uses up the first RECV. The second one has another length.
    for short in [SHORT, SHORT - 10] {
        let (mut sges, mut bad) = (node.sges(&[(RECV, short)]), null_mut());
        let mut wr = ibv_recv_wr { wr_id: 0, next: null_mut(), sg_list: sges.as_mut_ptr(), num_sge: 1 };
        // SAFETY: the SRQ is live, and the work request outlives the call.
        let posted =
            unsafe { (*node.context).ops.post_srq_recv.expect("it is served")(srq, &mut wr, &mut bad) };
        assert_eq!(posted, 0);
    }
    srq
}

/// Posts a RECV with an lkey that no region has.
fn post_without_region(node: &Node, qp: usize) {
    let (mut sges, mut bad) = (node.sges(&[(RECV, ROOM)]), null_mut());
    sges[0].lkey = 0xdead_0001;
    let mut wr = ibv_recv_wr { wr_id: 0, next: null_mut(), sg_list: sges.as_mut_ptr(), num_sge: 1 };
    // SAFETY: the QP is live, and the work request outlives the call.
    let posted =
        unsafe { (*node.context).ops.post_recv.expect("it is served")(node.qps[qp], &mut wr, &mut bad) };
    assert_eq!(posted, 0);
}

fn attach(node: &Node, qp: usize, number: u8) {
    let (gid, lid) = (group(number), if node.lid == 0 { 0 } else { MLID });
    let attached = call!(c"ibv_attach_mcast"(
        node.qps[qp] => *mut ibv_qp, &raw const gid => *const ibv_gid, lid => u16
    ) -> c_int);
    assert_eq!(attached, 0);
}

fn set_other_qkey(node: &Node, qp: usize) {
    let mut attr = ibv_qp_attr { qkey: 5, ..state(QpState::Rts) };
    let set = call!(c"ibv_modify_qp"(
        node.qps[qp] => *mut ibv_qp, &raw mut attr => *mut ibv_qp_attr, IBV_QP_STATE | IBV_QP_QKEY => c_int
    ) -> c_int);
    assert_eq!(set, 0);
}

/// Creates the responder of a case, and returns what its sender needs.
fn responder(node: &mut Node, case: &str) -> Endpoint {
    let cq = match case {
        "a full CQ" => call!(c"ibv_create_cq"(
            node.context => *mut ibv_context, 1 => c_int, null_mut() => *mut c_void,
            null_mut() => *mut c_void, 0 => c_int
        ) -> *mut ibv_cq),
        _ => node.cq,
    };
    let srq = if case.ends_with("SRQ") { srq(node) } else { null_mut() };
    let qp = node.add_qp(type_of(case), cq, srq);
    let own = node.endpoint(qp);
    if case == "a QP in INIT" {
        return own;
    }
    node.connect_by(qp, path(node), own.qpn, RETRIES);
    match case {
        "a destroyed QP" => {
            assert_eq!(call!(c"ibv_destroy_qp"(node.qps[qp] => *mut ibv_qp) -> c_int), 0);
        }
        "a QP in RESET" => node.set_state(qp, QpState::Reset),
        "a QP in ERR" => node.set_state(qp, QpState::Err),
        "another Q_Key" => set_other_qkey(node, qp),
        "a short RECV" => node.post_recv(qp, 1, &[(RECV, SHORT)]),
        "an lkey of no region" => post_without_region(node, qp),
        "a full CQ" => node.post_recv(qp, 2, &[(RECV, ROOM)]),
        "a member without a RECV" => attach(node, qp, 2),
        "a member with another Q_Key" => {
            set_other_qkey(node, qp);
            attach(node, qp, 3);
        }
        "two members, one without a RECV" => {
            let other = node.add_qp(QpType::Ud, node.cq, null_mut());
            node.connect_by(other, path(node), own.qpn, RETRIES);
            set_other_qkey(node, other);
            [qp, other].into_iter().for_each(|member| attach(node, member, 4));
        }
        _ => {}
    }
    own
}

/// Creates all responders, and prints what their senders need.
fn take() {
    let mut node = Node::open(BYTES, 0);
    for (case, ..) in CASES {
        let endpoint = responder(&mut node, case);
        say(endpoint);
    }
    hear();
}

/// The message of a case: its path and QP number, and how often it is sent. Only the last one is lost.
fn datagram(node: &Node, case: &str, peer: &Endpoint) -> (ibv_ah_attr, u32, usize) {
    let own = path(node);
    match case {
        "a path to no port" if node.lid != 0 => (to_lid(node.lid ^ 1), peer.qpn, 1),
        _ if case.starts_with("a path to no port") => {
            let mut raw = [0; 16];
            (raw[0], raw[1], raw[15]) = (0xfe, 0x80, 0x77);
            (to_gid(0, ibv_gid { raw }), peer.qpn, 1)
        }
        "a number of no process" => (own, NO_PROCESS, 1),
        "a number of no QP" => (own, peer.qpn ^ 0x200, 1),
        "a full CQ" => (own, peer.qpn, 2),
        "a group without members" => (path_to_group(node, 1), MULTICAST_QPN, 1),
        "a member without a RECV" => (path_to_group(node, 2), MULTICAST_QPN, 1),
        "a member with another Q_Key" => (path_to_group(node, 3), MULTICAST_QPN, 1),
        "two members, one without a RECV" => (path_to_group(node, 4), MULTICAST_QPN, 1),
        _ => (own, peer.qpn, 1),
    }
}

/// Sends the messages of all cases, each from a QP of its own.
fn send_all() {
    let mut node = Node::open(BYTES, 0);
    for (case, ..) in CASES {
        let peer: Endpoint = hear().parse().expect("an endpoint");
        let qp = node.add_qp(if case.ends_with("UC") { QpType::Uc } else { QpType::Ud }, node.cq, null_mut());
        if !case.ends_with("UC") {
            node.connect_by(qp, path(&node), 0, RETRIES);
            let (path, qpn, times) = datagram(&node, case, &peer);
            let ah = node.ah(path);
            (0..times).for_each(|_| send(&node, qp, ah, qpn));
            continue;
        }
        // The other QPs are connected to themselves.
        let to = if case == "another connection, UC" { peer.qpn } else { node.endpoint(qp).qpn };
        node.connect_altered(qp, path(&node), to, RETRIES, |attr| match case {
            "qp_access_flags, UC" => {
                attr.qp_access_flags = 0;
                IBV_QP_ACCESS_FLAGS
            }
            _ => 0,
        });
        if case == "a short RECV, UC" {
            node.post_recv(qp, 1, &[(RECV, SHORT)]);
        }
        let memory = node.endpoint(qp).at(0);
        let op = match case {
            "an rkey of no region, UC" => SendOp::Write(RemoteAddr { rkey: 0xdead_0001, ..memory }),
            "qp_access_flags, UC" => SendOp::Write(memory),
            _ => SendOp::Send,
        };
        node.carry_out(qp, op, &[(0, PAYLOAD)]);
    }
    if node.lid == 0 {
        refuse_path_without_route(&node);
    }
}

fn send(node: &Node, qp: usize, ah: *mut ibv_ah, qpn: u32) {
    let wr = Wr { op: SendOp::Send, buffers: &[(0, PAYLOAD)], flags: SIGNALED };
    node.post_to(qp, &[wr], Some((ah, qpn)));
    node.completions(1);
}

/// On Ethernet, a datagram without a global route cannot be lost, because it has no address handle.
fn refuse_path_without_route(node: &Node) {
    let mut path = to_lid(1);
    let ah = call!(c"ibv_create_ah"(
        node.pd => *mut ibv_pd, &raw mut path => *mut ibv_ah_attr
    ) -> *mut ibv_ah);
    assert_eq!((ah.is_null(), errno()), (true, EINVAL));
}

/// Asserts that the statistics and strict mode name the cause of each loss.
fn lose_all(link: Link) {
    let quiet = launch(link);
    let strict = Launch { strict: Some(Strict::Warn), ..quiet.clone() };
    let (counted, report) = counting(&format!("drops-{link:?}"), strict);
    let mut takes = Running::new(&quiet, HERE, "takes");
    let mut sends = Running::new(&counted, HERE, "sends");
    for _ in CASES {
        sends.tell(&takes.line());
    }
    let said = sends.end("the sender");
    takes.tell("end");
    takes.end("the responder");
    let report = report();
    let found = of_qps(&report, "undelivered_by_cause");
    for (n, (case, cause, _)) in CASES.into_iter().enumerate() {
        assert_eq!(found[n], json!({ cause: 1 }), "{case} on {link:?}: {said}");
    }
    assert_eq!(report["total"]["undelivered"], CASES.len());
    for (case, _, text) in CASES {
        let told = |line: &&str| line.contains("strict: no receiver took a message") && line.contains(text);
        assert!(said.lines().any(|line| told(&line)), "{case} on {link:?}: no {text:?} in {said}");
    }
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("no-port 2, no-qp 3, no-recv 4, "), "{said}");
}

#[test]
fn a_lost_datagram_names_its_cause_on_infiniband() {
    lose_all(Link::Ib);
}

#[test]
fn a_lost_datagram_names_its_cause_on_ethernet() {
    lose_all(Link::Roce);
}

/// Sends three datagrams from a QP to itself, which has RECVs.
fn send_to_itself() {
    let node = Node::open_as(QpType::Ud, BYTES, 1);
    node.connect(0, &node.endpoint(0));
    node.post_recv(0, 3, &[(RECV, ROOM)]);
    let ah = node.ah(path(&node));
    (0..3).for_each(|_| send(&node, 0, ah, node.endpoint(0).qpn));
}

#[test]
fn an_injected_loss_is_no_loss_of_the_program() {
    let faults = [("drop=1", "fault"), ("rnr=1", "fault"), ("port-down@1ns", "port-down")];
    for (link, (fault, cause)) in
        [Link::Ib, Link::Roce].into_iter().flat_map(|link| faults.map(|f| (link, f)))
    {
        let faults = Some((fault.parse().expect("a fault"), 1));
        let (counted, report) = counting(cause, Launch { faults, ..launch(link) });
        let program = Running::new(&counted, HERE, "to itself");
        let said = program.end(fault);
        assert_eq!(
            report()["total"]["undelivered_by_cause"],
            json!({ cause: 3 }),
            "{fault} on {link:?}: {said}"
        );
    }
}
