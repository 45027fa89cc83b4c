//! Tests a device that is presented as a profile's NIC. The device reports and enforces the NIC's limits.

use crate::common::running::role;
use crate::common::verbs::{Node, call, errno};
use crate::common::{self, finish, text};
use doorbell_abi::{
    CEnum, ibv_context, ibv_cq, ibv_device_attr, ibv_pd, ibv_qp, ibv_qp_cap, ibv_qp_init_attr, ibv_srq,
    ibv_srq_init_attr,
};
use doorbell_launch::{Launch, Link};
use doorbell_nic::ShownNic;
use doorbell_verbs::QpType;
use libc::{c_int, c_void};
use std::ptr::null_mut;

#[test]
fn its_limits_are_told_and_hold() {
    for nic in ["cib", "cx3", "e7520-t4", "cx5", "cx6", "cx7"] {
        let launch = Launch { presented_as: Some(nic.into()), ..common::launch(Link::Ib) };
        let program = common::own_program(&launch, module_path!(), nic).spawn().expect("it starts");
        let output = finish(program, nic);
        assert!(output.status.success(), "{nic}: {}", text(&output));
    }
}

/// Whether a QP with these capacities can be created.
fn can_make(node: &Node, cap: ibv_qp_cap) -> bool {
    // SAFETY: the struct has integers and pointers, which may be zero.
    let mut attr: ibv_qp_init_attr = unsafe { std::mem::zeroed() };
    (attr.send_cq, attr.recv_cq, attr.cap, attr.qp_type) = (node.cq, node.cq, cap, QpType::Rc.to_c());
    let qp = call!(c"ibv_create_qp"(node.pd => *mut ibv_pd, &raw mut attr => *mut ibv_qp_init_attr) -> *mut ibv_qp);
    if qp.is_null() {
        assert_eq!(errno(), libc::EINVAL);
        return false;
    }
    let told = attr.cap;
    assert!(told.max_send_wr >= cap.max_send_wr && told.max_inline_data >= cap.max_inline_data);
    assert_eq!(call!(c"ibv_destroy_qp"(qp => *mut ibv_qp) -> c_int), 0);
    true
}

/// Whether a shared receive queue of this size can be created.
fn can_make_srq(node: &Node, max_wr: u32, max_sge: u32) -> bool {
    // SAFETY: the struct has integers and a pointer, which may be zero.
    let mut attr: ibv_srq_init_attr = unsafe { std::mem::zeroed() };
    (attr.attr.max_wr, attr.attr.max_sge) = (max_wr, max_sge);
    let srq = call!(c"ibv_create_srq"(
        node.pd => *mut ibv_pd, &raw mut attr => *mut ibv_srq_init_attr
    ) -> *mut ibv_srq);
    if srq.is_null() {
        assert_eq!(errno(), libc::EINVAL);
        return false;
    }
    assert_eq!(call!(c"ibv_destroy_srq"(srq => *mut ibv_srq) -> c_int), 0);
    true
}

#[test]
#[ignore = "a program that a test runs"]
fn program() {
    let nic = ShownNic::named_or_file(&role()).expect("it is built in").limits;
    let node = Node::open(64, 0);
    // SAFETY: the struct has only integers, which may be zero.
    let mut told: ibv_device_attr = unsafe { std::mem::zeroed() };
    let queried = call!(c"ibv_query_device"(
        node.context => *mut ibv_context, &raw mut told => *mut ibv_device_attr
    ) -> c_int);
    assert_eq!(queried, 0);
    let number = |number: u32| number as i32;
    assert_eq!((told.max_qp_wr, told.max_sge), (number(nic.qp_wr), number(nic.sge)));
    assert_eq!(told.max_cqe, number(nic.cqe.min(1 << 20)));
    assert_eq!(told.max_qp_rd_atom, number(nic.rd_atomic.min(16)));
    let (srq_wr, srq_sge) = nic.more.map_or((nic.qp_wr, nic.sge), |more| (more.max_srq_wr, more.max_srq_sge));
    assert_eq!((told.max_srq_wr, told.max_srq_sge), (number(srq_wr), number(srq_sge)));
    for (max_wr, max_sge, is_there) in
        [(srq_wr, srq_sge, true), (srq_wr + 1, 1, false), (1, srq_sge + 1, false)]
    {
        assert_eq!(can_make_srq(&node, max_wr, max_sge), is_there, "{max_wr} WRs, {max_sge} SGEs");
    }
    let most = ibv_qp_cap {
        max_send_wr: nic.qp_wr,
        max_recv_wr: nic.qp_wr,
        max_send_sge: nic.sge,
        max_recv_sge: nic.sge,
        max_inline_data: nic.inline,
    };
    assert!(can_make(&node, most));
    for more in [
        ibv_qp_cap { max_send_wr: most.max_send_wr + 1, ..most },
        ibv_qp_cap { max_recv_wr: most.max_recv_wr + 1, ..most },
        ibv_qp_cap { max_send_sge: most.max_send_sge + 1, ..most },
        ibv_qp_cap { max_recv_sge: most.max_recv_sge + 1, ..most },
        ibv_qp_cap { max_inline_data: most.max_inline_data + 1, ..most },
    ] {
        assert!(!can_make(&node, more), "{more:?}");
    }
    for (cqe, is_there) in [(told.max_cqe, true), (told.max_cqe + 1, false)] {
        let cq = call!(c"ibv_create_cq"(
            node.context => *mut ibv_context, cqe => c_int, null_mut() => *mut c_void, null_mut() => *mut c_void,
            0 => c_int
        ) -> *mut ibv_cq);
        assert_eq!(!cq.is_null(), is_there, "{cqe} completions");
    }
}
