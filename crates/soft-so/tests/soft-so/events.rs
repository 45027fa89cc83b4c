//! Tests asynchronous events of QPs: their types, their number, and calls that do not wait for an event.

use crate::common::running::{alone, role};
use crate::common::verbs::{Node, SIGNALED, Wr, call, errno, state, to_lid};
use doorbell_abi::ibv_qp_attr_mask::*;
use doorbell_abi::{
    CEnum, ibv_async_event, ibv_context, ibv_pd, ibv_qp, ibv_qp_attr, ibv_srq, ibv_srq_attr,
    ibv_srq_init_attr,
};
use doorbell_launch::Link;
use doorbell_verbs::{Mtu, QpState, QpType, RemoteAddr, SendOp, WcStatus};
use libc::{EAGAIN, c_int};
use std::ptr::null_mut;

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// The program that the tests start: this executable again, with a role for each process.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    match &role()[..] {
        "established" => established(),
        "last" => last(),
        role => panic!("no role {role:?}"),
    }
}

/// Asynchronous events of verbs.h: `IBV_EVENT_*`.
const QP_ACCESS_ERR: u32 = 3;
const COMM_EST: u32 = 4;
const LAST_WQE_REACHED: u32 = 16;

/// Makes the descriptor of asynchronous events non-blocking, and returns it.
fn without_waiting(node: &Node) -> c_int {
    // SAFETY: the context is live. The call sets a flag of its file.
    unsafe {
        let fd = (*node.context).async_fd;
        assert_eq!(libc::fcntl(fd, libc::F_SETFL, libc::O_NONBLOCK), 0);
        fd
    }
}

/// Takes the next event. Returns its type and its QP, or `None` if no event is pending.
fn next(node: &Node) -> Option<(u32, *mut ibv_qp)> {
    let ready = node.has_async_event();
    let mut event = ibv_async_event { element: null_mut(), event_type: 0 };
    let got = call!(c"ibv_get_async_event"(
        node.context => *mut ibv_context, &raw mut event => *mut ibv_async_event
    ) -> c_int);
    if got == -1 {
        assert_eq!((errno(), ready), (EAGAIN, false));
        return None;
    }
    assert!(ready, "what is there can be polled for");
    call!(c"ibv_ack_async_event"(&raw mut event => *mut ibv_async_event) -> ());
    Some((event.event_type, event.element.cast()))
}

/// Moves a QP from Init to Rtr, connected to the QP `peer`.
fn to_rtr(node: &Node, qp: usize, peer: usize) {
    let peer = node.endpoint(peer);
    let mut attr = ibv_qp_attr {
        path_mtu: Mtu::Mtu4096.to_c(),
        dest_qp_num: peer.qpn,
        max_dest_rd_atomic: 1,
        min_rnr_timer: 1,
        ah_attr: to_lid(peer.lid),
        ..state(QpState::Rtr)
    };
    let of_path = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    let mask = IBV_QP_STATE | of_path | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    let modified = call!(c"ibv_modify_qp"(
        node.qps[qp] => *mut ibv_qp, &raw mut attr => *mut ibv_qp_attr, mask => c_int
    ) -> c_int);
    assert_eq!(modified, 0);
}

/// Checks IBV_EVENT_COMM_EST: a peer that sends before the QP is in Rts causes it once between two resets.
fn established() {
    let node = Node::open(4096, 4);
    without_waiting(&node);
    assert_eq!(next(&node), None);
    for _ in 0..2 {
        node.connect(0, &node.endpoint(1));
        to_rtr(&node, 1, 0);
        assert_eq!(next(&node), None, "nothing has come");
        node.post_recv(1, 2, &[(64, 64)]);
        for _ in 0..2 {
            node.post(0, &[Wr { op: SendOp::Send, buffers: &[(0, 8)], flags: SIGNALED }]);
            node.completions(2);
        }
        assert_eq!(next(&node), Some((COMM_EST, node.qps[1])));
        assert_eq!(next(&node), None, "once");
        (0..2).for_each(|qp| node.reset(qp));
    }
    // A QP in Rts gets no such event.
    node.connect(2, &node.endpoint(3));
    node.connect(3, &node.endpoint(2));
    node.post_recv(3, 1, &[(64, 64)]);
    node.post(2, &[Wr { op: SendOp::Send, buffers: &[(0, 8)], flags: SIGNALED }]);
    node.completions(2);
    assert_eq!(next(&node), None);
}

/// Checks IBV_EVENT_QP_LAST_WQE_REACHED: a QP with an SRQ reports it whenever it enters state Err.
fn last() {
    let mut node = Node::open(4096, 0);
    without_waiting(&node);
    let attr = ibv_srq_attr { max_wr: 4, max_sge: 1, srq_limit: 0 };
    let mut init = ibv_srq_init_attr { srq_context: null_mut(), attr };
    let srq = call!(c"ibv_create_srq"(
        node.pd => *mut ibv_pd, &raw mut init => *mut ibv_srq_init_attr
    ) -> *mut ibv_srq);
    for _ in 0..2 {
        node.add_qp(QpType::Rc, node.cq, srq);
    }
    let connect = |node: &Node| {
        node.connect(0, &node.endpoint(1));
        node.connect(1, &node.endpoint(0));
    };
    connect(&node);
    node.set_state(0, QpState::Err);
    assert_eq!(next(&node), Some((LAST_WQE_REACHED, node.qps[0])));
    node.set_state(0, QpState::Err);
    assert_eq!(next(&node), None, "it was there already");
    (0..2).for_each(|qp| node.reset(qp));
    // An invalid request moves the responder's QP to Err, and the requester's QP too.
    connect(&node);
    let nowhere = SendOp::Write(RemoteAddr { addr: 0, rkey: 1 });
    node.post(0, &[Wr { op: nowhere, buffers: &[(0, 8)], flags: SIGNALED }]);
    node.completion(WcStatus::RemAccessErr);
    let came: Vec<_> = std::iter::from_fn(|| next(&node)).collect();
    let expected = [(QP_ACCESS_ERR, 1), (LAST_WQE_REACHED, 1), (LAST_WQE_REACHED, 0)];
    assert_eq!(came, expected.map(|(event, qp)| (event, node.qps[qp])));
}

#[test]
fn a_peer_that_sends_early_is_told_of_once() {
    alone(Link::Ib, HERE, "established");
}

#[test]
fn the_last_recv_of_a_qp_with_an_srq_is_told_of() {
    alone(Link::Ib, HERE, "last");
}
