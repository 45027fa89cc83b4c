//! Tests verbs that fail: each must return an error and set errno. Programs print `%m` after any failed verb.

use crate::common::running::{alone, role};
use crate::common::verbs::{INLINED, Node, PORT, call, errno, state, to_lid};
use doorbell_abi::ibv_qp_attr_mask::*;
use doorbell_abi::{
    CEnum, ibv_ah, ibv_ah_attr, ibv_alloc_dm_attr, ibv_comp_channel, ibv_context, ibv_cq, ibv_cq_ex,
    ibv_cq_init_attr_ex, ibv_device_attr, ibv_dm, ibv_gid, ibv_gid_entry, ibv_grh, ibv_mr, ibv_pd,
    ibv_port_attr, ibv_qp, ibv_qp_attr, ibv_qp_cap, ibv_qp_ex, ibv_qp_init_attr, ibv_recv_wr, ibv_send_wr,
    ibv_sge, ibv_srq, ibv_srq_attr, ibv_srq_init_attr, ibv_wc, verbs_context,
};
use doorbell_launch::Link;
use doorbell_verbs::{Opcode, QpState, QpType};
use libc::{EBUSY, EINVAL, ENOENT, ENOMEM, ENOSYS, EOPNOTSUPP, c_char, c_int, c_void};
use std::mem::{offset_of, zeroed};
use std::ptr::null_mut;

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// The program that the tests start: this executable again, with a role for each process.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    match &role()[..] {
        "refusals" => refusals(),
        "limits" => limits(),
        role => panic!("no role {role:?}"),
    }
}

/// Asserts that a verb sets errno to `expected`, and returns `expected`, `-expected` or -1.
#[track_caller]
fn fails(verb: &str, expected: c_int, call: impl FnOnce() -> c_int) {
    // SAFETY: errno belongs to this thread.
    unsafe { *libc::__errno_location() = 0 };
    let returned = call();
    let left = errno();
    let told = returned == expected || returned == -expected || returned == -1;
    assert!(told && left == expected, "{verb}: {returned}, errno {left}, not {expected}");
}

/// Asserts that a verb fails like [`fails`], and returns `expected` itself.
#[track_caller]
fn returns(verb: &str, expected: c_int, call: impl FnOnce() -> c_int) {
    fails(verb, expected, || {
        let returned = call();
        assert_eq!(returned, expected, "{verb}");
        returned
    });
}

/// Asserts that a verb returns a null object and sets errno to `expected`.
#[track_caller]
fn makes_none<T>(verb: &str, expected: c_int, call: impl FnOnce() -> *mut T) {
    fails(verb, expected, || if call().is_null() { expected } else { 0 });
}

fn create_cq(node: &Node, cqe: c_int, channel: *mut ibv_comp_channel) -> *mut ibv_cq {
    create_cq_at(node, cqe, channel, 0)
}

/// Creates a CQ whose events use this completion vector.
fn create_cq_at(node: &Node, cqe: c_int, channel: *mut ibv_comp_channel, vector: c_int) -> *mut ibv_cq {
    call!(c"ibv_create_cq"(
        node.context => *mut ibv_context, cqe => c_int, null_mut() => *mut c_void,
        channel => *mut ibv_comp_channel, vector => c_int
    ) -> *mut ibv_cq)
}

fn create_srq(node: &Node, max_wr: u32) -> *mut ibv_srq {
    let attr = ibv_srq_attr { max_wr, max_sge: 1, srq_limit: 0 };
    let mut init = ibv_srq_init_attr { srq_context: null_mut(), attr };
    call!(c"ibv_create_srq"(
        node.pd => *mut ibv_pd, &raw mut init => *mut ibv_srq_init_attr
    ) -> *mut ibv_srq)
}

fn create_qp(node: &Node, qp_type: u32, max_send_wr: u32) -> *mut ibv_qp {
    let cap =
        ibv_qp_cap { max_send_wr, max_send_sge: 1, max_recv_wr: 1, max_recv_sge: 1, ..Default::default() };
    let mut init = ibv_qp_init_attr {
        qp_context: null_mut(),
        send_cq: node.cq,
        recv_cq: node.cq,
        srq: null_mut(),
        cap,
        qp_type,
        sq_sig_all: 0,
    };
    call!(c"ibv_create_qp"(node.pd => *mut ibv_pd, &raw mut init => *mut ibv_qp_init_attr) -> *mut ibv_qp)
}

fn alloc_pd(node: &Node) -> *mut ibv_pd {
    call!(c"ibv_alloc_pd"(node.context => *mut ibv_context) -> *mut ibv_pd)
}

fn dealloc_pd(pd: *mut ibv_pd) -> c_int {
    call!(c"ibv_dealloc_pd"(pd => *mut ibv_pd) -> c_int)
}

fn create_ah(node: &Node, mut path: ibv_ah_attr) -> *mut ibv_ah {
    call!(c"ibv_create_ah"(node.pd => *mut ibv_pd, &raw mut path => *mut ibv_ah_attr) -> *mut ibv_ah)
}

fn modify(qp: *mut ibv_qp, mut attr: ibv_qp_attr, mask: c_int) -> c_int {
    call!(c"ibv_modify_qp"(qp => *mut ibv_qp, &raw mut attr => *mut ibv_qp_attr, mask => c_int) -> c_int)
}

/// Calls all verbs that can fail because of a program's arguments.
fn refusals() {
    let mut node = Node::open(8192, 1);
    node.connect(0, &node.endpoint(0));
    node.add_extended_qp();
    objects(&node);
    queries(&node);
    posts(&node);
    extended(&node);
}

/// Calls that cannot create, change or destroy an object.
fn objects(node: &Node) {
    makes_none("ibv_create_cq", EINVAL, || create_cq(node, 0, null_mut()));
    makes_none("ibv_create_srq", EINVAL, || create_srq(node, 0));
    makes_none("ibv_create_qp of no type", EOPNOTSUPP, || create_qp(node, 99, 1));
    makes_none("ibv_create_qp", EINVAL, || create_qp(node, QpType::Rc.to_c(), u32::MAX));
    makes_none("ibv_create_ah", EINVAL, || create_ah(node, ibv_ah_attr { port_num: 2, ..to_lid(1) }));
    makes_none("ibv_reg_mr", EINVAL, || {
        call!(c"ibv_reg_mr"(
            node.pd => *mut ibv_pd, node.address(0).cast() => *mut c_void, 0 => usize, 0 => c_int
        ) -> *mut ibv_mr)
    });
    makes_none("ibv_reg_dmabuf_mr", EOPNOTSUPP, || {
        call!(c"ibv_reg_dmabuf_mr"(
            node.pd => *mut ibv_pd, 0 => u64, 8 => usize, 0 => u64, 0 => c_int, 0 => c_int
        ) -> *mut ibv_mr)
    });
    makes_none(
        "ibv_import_pd",
        EOPNOTSUPP,
        || call!(c"ibv_import_pd"(node.context => *mut ibv_context, 0 => u32) -> *mut ibv_pd),
    );
    fails("ibv_rereg_mr", EINVAL, || {
        call!(c"ibv_rereg_mr"(
            node.mr => *mut ibv_mr, 0 => c_int, null_mut() => *mut ibv_pd, null_mut() => *mut c_void,
            0 => usize, 0 => c_int
        ) -> c_int)
    });

    returns("ibv_dealloc_pd", EBUSY, || dealloc_pd(node.pd));
    returns("ibv_destroy_cq", EBUSY, || call!(c"ibv_destroy_cq"(node.cq => *mut ibv_cq) -> c_int));
    let channel =
        call!(c"ibv_create_comp_channel"(node.context => *mut ibv_context) -> *mut ibv_comp_channel);
    assert!(!create_cq(node, 1, channel).is_null());
    returns(
        "ibv_destroy_comp_channel",
        EBUSY,
        || call!(c"ibv_destroy_comp_channel"(channel => *mut ibv_comp_channel) -> c_int),
    );
    let (srq, pd) = (create_srq(node, 2), alloc_pd(node));
    let mut other = Node::open(4096, 0);
    let shared = create_srq(&other, 2);
    other.add_qp(QpType::Rc, other.cq, shared);
    returns("ibv_destroy_srq", EBUSY, || call!(c"ibv_destroy_srq"(shared => *mut ibv_srq) -> c_int));
    returns("ibv_dealloc_pd of an SRQ's", EBUSY, || dealloc_pd(other.pd));
    assert_eq!(dealloc_pd(pd), 0);

    returns("ibv_resize_cq", EINVAL, || call!(c"ibv_resize_cq"(node.cq => *mut ibv_cq, 0 => c_int) -> c_int));
    for (mask, expected) in [(1, EOPNOTSUPP), (2, EINVAL), (4, EINVAL)] {
        let mut attr = ibv_srq_attr { max_wr: 4, max_sge: 1, srq_limit: 100 };
        returns("ibv_modify_srq", expected, || {
            call!(c"ibv_modify_srq"(
                srq => *mut ibv_srq, &raw mut attr => *mut ibv_srq_attr, mask => c_int
            ) -> c_int)
        });
    }
    let new = create_qp(node, QpType::Rc.to_c(), 1);
    returns("ibv_modify_qp", EINVAL, || modify(new, state(QpState::Rts), IBV_QP_STATE));
    returns("ibv_modify_qp by no known bit", EINVAL, || modify(new, state(QpState::Reset), 1 << 30));
    let port = ibv_qp_attr { port_num: 2, ..state(QpState::Init) };
    let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
    returns("ibv_modify_qp to port 2", EINVAL, || modify(new, port, mask));
    let (mut gid, qp) = (ibv_gid::default(), node.qps[0]);
    returns(
        "ibv_attach_mcast",
        EINVAL,
        || call!(c"ibv_attach_mcast"(qp => *mut ibv_qp, &raw mut gid => *mut ibv_gid, 1 => u16) -> c_int),
    );
    returns(
        "ibv_detach_mcast",
        EINVAL,
        || call!(c"ibv_detach_mcast"(qp => *mut ibv_qp, &raw mut gid => *mut ibv_gid, 1 => u16) -> c_int),
    );
}

/// Queries for things that do not exist.
fn queries(node: &Node) {
    let context = node.context;
    let mut port = ibv_port_attr::default();
    returns("ibv_query_port", EINVAL, || {
        call!(c"ibv_query_port"(
            context => *mut ibv_context, 2 => u8, &raw mut port => *mut ibv_port_attr
        ) -> c_int)
    });
    let (mut gid, mut pkey, mut kind) = (ibv_gid::default(), 0u16, 0u32);
    fails("ibv_query_gid", EINVAL, || {
        call!(c"ibv_query_gid"(
            context => *mut ibv_context, PORT => u8, 100 => c_int, &raw mut gid => *mut ibv_gid
        ) -> c_int)
    });
    fails("ibv_query_gid_type", EINVAL, || {
        call!(c"ibv_query_gid_type"(
            context => *mut ibv_context, PORT => u8, 100 => u32, &raw mut kind => *mut u32
        ) -> c_int)
    });
    let mut entry = ibv_gid_entry::default();
    let size = size_of::<ibv_gid_entry>();
    for (port, flags) in [(2, 0), (1, 1)] {
        returns("ibv_query_gid_ex", EINVAL, || {
            call!(c"_ibv_query_gid_ex"(
                context => *mut ibv_context, port => u32, 0 => u32, &raw mut entry => *mut ibv_gid_entry,
                flags => u32, size => usize
            ) -> c_int)
        });
    }
    fails("ibv_query_gid_table", EINVAL, || {
        call!(c"_ibv_query_gid_table"(
            context => *mut ibv_context, &raw mut entry => *mut ibv_gid_entry, 0 => usize, 0 => u32,
            size => usize
        ) -> isize) as c_int
    });
    fails("ibv_query_pkey", EINVAL, || {
        call!(c"ibv_query_pkey"(
            context => *mut ibv_context, PORT => u8, 1 => c_int, &raw mut pkey => *mut u16
        ) -> c_int)
    });
    fails(
        "ibv_get_pkey_index",
        EINVAL,
        || call!(c"ibv_get_pkey_index"(context => *mut ibv_context, PORT => u8, 7 => u16) -> c_int),
    );
    fails("ibv_read_sysfs_file", ENOENT, || {
        let (name, mut byte) = (c"x".as_ptr(), 0);
        call!(c"ibv_read_sysfs_file"(
            name => *const c_char, name => *const c_char, &raw mut byte => *mut c_char, 1 => usize
        ) -> c_int)
    });
    for verb in [c"ibv_query_ece", c"ibv_set_ece"] {
        let mut options = [0u32; 8];
        returns("ibv_query_ece, ibv_set_ece", EOPNOTSUPP, || {
            let options = options.as_mut_ptr().cast();
            if verb == c"ibv_query_ece" {
                call!(c"ibv_query_ece"(node.qps[0] => *mut ibv_qp, options => *mut c_void) -> c_int)
            } else {
                call!(c"ibv_set_ece"(node.qps[0] => *mut ibv_qp, options => *mut c_void) -> c_int)
            }
        });
    }
    returns("ibv_resolve_eth_l2_from_gid", ENOSYS, || {
        call!(c"ibv_resolve_eth_l2_from_gid"(
            context => *mut ibv_context, null_mut() => *mut ibv_ah_attr, null_mut() => *mut u8,
            null_mut() => *mut u16
        ) -> c_int)
    });
    let (mut wc, mut grh, mut attr) = (ibv_wc::default(), ibv_grh::default(), ibv_ah_attr::default());
    fails("ibv_init_ah_from_wc", EINVAL, || {
        call!(c"ibv_init_ah_from_wc"(
            context => *mut ibv_context, 2 => u8, &raw mut wc => *mut ibv_wc, &raw mut grh => *mut ibv_grh,
            &raw mut attr => *mut ibv_ah_attr
        ) -> c_int)
    });
    makes_none("ibv_create_ah_from_wc", EINVAL, || {
        call!(c"ibv_create_ah_from_wc"(
            node.pd => *mut ibv_pd, &raw mut wc => *mut ibv_wc, &raw mut grh => *mut ibv_grh, 2 => u8
        ) -> *mut ibv_ah)
    });
}

/// Posts and polls that are refused.
fn posts(node: &Node) {
    // SAFETY: the context is live.
    let ops = unsafe { &(*node.context).ops };
    let (post_send, post_recv) = (ops.post_send.expect("served"), ops.post_recv.expect("served"));
    let mut sges = [ibv_sge { addr: 0, length: 64, lkey: 0 }; 64];
    let mut send = |qp: *mut ibv_qp, opcode: u32, num_sge: c_int, send_flags: u32| {
        // SAFETY: the struct has integers, pointers and a union of these, which may be zero.
        let mut wr: ibv_send_wr = unsafe { zeroed() };
        (wr.sg_list, wr.num_sge, wr.opcode, wr.send_flags) = (sges.as_mut_ptr(), num_sge, opcode, send_flags);
        let mut bad = null_mut();
        // SAFETY: the QP is live, and the work request outlives the call.
        let returned = unsafe { post_send(qp, &mut wr, &mut bad) };
        assert!(returned == 0 || bad == &raw mut wr);
        returned
    };
    let (connected, new) = (node.qps[0], create_qp(node, QpType::Rc.to_c(), 1));
    let code = Opcode::Send.to_c();
    returns("ibv_post_send of no opcode", EINVAL, || send(connected, 99, 0, 0));
    returns("ibv_post_send of too many SGEs", EINVAL, || send(connected, code, 64, 0));
    returns("ibv_post_send of too much inline", EINVAL, || send(connected, code, 4, INLINED));
    returns("ibv_post_send in Reset", EINVAL, || send(new, code, 0, 0));
    // The posted SENDs wait for a RECV, so the queue becomes full.
    let sent = (0..1000).map(|_| send(connected, code, 0, 0)).take_while(|returned| *returned == 0).count();
    assert!(sent > 0);
    returns("ibv_post_send to a full queue", ENOMEM, || send(connected, code, 0, 0));

    let mut recv = ibv_recv_wr { wr_id: 0, next: null_mut(), sg_list: sges.as_mut_ptr(), num_sge: 64 };
    let mut post = |qp: *mut ibv_qp| {
        let mut bad = null_mut();
        // SAFETY: the QP is live, and the RECV outlives the call.
        unsafe { post_recv(qp, &mut recv, &mut bad) }
    };
    returns("ibv_post_recv of too many SGEs", EINVAL, || post(connected));
    returns("ibv_post_recv in Reset", EINVAL, || post(new));
    let srq = create_srq(node, 2);
    let shared = |num_sge: c_int| {
        let mut recv = ibv_recv_wr { num_sge, ..recv };
        let mut bad = null_mut();
        // SAFETY: the SRQ is live, and the RECV outlives the call.
        unsafe { ops.post_srq_recv.expect("served")(srq, &mut recv, &mut bad) }
    };
    returns("ibv_post_srq_recv of too many SGEs", EINVAL, || shared(64));
    assert_eq!((shared(0), shared(0)), (0, 0));
    returns("ibv_post_srq_recv to a full queue", ENOMEM, || shared(0));
    fails("ibv_poll_cq", EINVAL, || {
        // SAFETY: the CQ is live. The call refuses the count, so it writes nothing.
        unsafe { ops.poll_cq.expect("served")(node.cq, -1, null_mut()) }
    });
    // SAFETY: the PD is live.
    makes_none("ibv_alloc_mw", EINVAL, || unsafe { ops.alloc_mw.expect("served")(node.pd, 3) });
}

/// Checks the operations that verbs.h calls by tables: `verbs_context`, extended CQs and extended QPs.
fn extended(node: &Node) {
    // SAFETY: each context of this library is part of such a struct.
    let verbs =
        unsafe { &*node.context.byte_sub(offset_of!(verbs_context, context)).cast::<verbs_context>() };
    let qp = call!(c"ibv_qp_to_qp_ex"(node.qps[1] => *mut ibv_qp) -> *mut ibv_qp_ex);
    // SAFETY: all objects are live, and all structs belong to this function.
    unsafe {
        let mut port = ibv_port_attr::default();
        returns("query_port", EINVAL, || {
            verbs.query_port.expect("served")(node.context, 2, &mut port, size_of::<ibv_port_attr>())
        });
        let advise = verbs.advise_mr.expect("served");
        returns("ibv_advise_mr", EOPNOTSUPP, || advise(node.pd, 99, 0, null_mut(), 0));
        returns("ibv_advise_mr with flags", EINVAL, || advise(node.pd, 0, 1 << 20, null_mut(), 0));
        let mut nowhere = ibv_sge { addr: 0, length: 8, lkey: 0 };
        returns("ibv_advise_mr of nothing", ENOENT, || advise(node.pd, 0, 0, &mut nowhere, 1));
        let alloc = verbs.alloc_dm.expect("served");
        let mut asked: ibv_alloc_dm_attr = zeroed();
        makes_none("ibv_alloc_dm of nothing", EINVAL, || alloc(node.context, &mut asked));
        asked.length = 1 << 40;
        makes_none("ibv_alloc_dm of too much", ENOMEM, || alloc(node.context, &mut asked));
        asked.length = 64;
        let dm: *mut ibv_dm = alloc(node.context, &mut asked);
        let mut bytes = [0u8; 128];
        let bytes = bytes.as_mut_ptr().cast::<c_void>();
        returns("ibv_memcpy_to_dm", EINVAL, || (*dm).memcpy_to_dm.expect("served")(dm, 0, bytes, 128));
        returns("ibv_memcpy_from_dm", EINVAL, || (*dm).memcpy_from_dm.expect("served")(bytes, dm, 0, 128));
        makes_none("ibv_reg_dm_mr", EINVAL, || verbs.reg_dm_mr.expect("served")(node.pd, dm, 0, 128, 32));

        let mut asked: ibv_cq_init_attr_ex = zeroed();
        asked.cqe = 1;
        let cq: *mut ibv_cq_ex = verbs.create_cq_ex.expect("served")(node.context, &mut asked);
        assert!(!cq.is_null());
        let mut unknown = 1u32;
        let start = (*cq).start_poll.expect("served");
        returns("ibv_start_poll", EINVAL, || start(cq, (&raw mut unknown).cast()));
        // ENOENT from an empty CQ is not a failure, so errno stays unchanged.
        *libc::__errno_location() = 0;
        let empty = [start(cq, null_mut()), (*cq).next_poll.expect("served")(cq)];
        assert_eq!((empty, errno()), ([ENOENT; 2], 0));
        returns("ibv_wr_complete", EINVAL, || {
            (*qp).wr_start.expect("served")(qp);
            (*qp).wr_send.expect("served")(qp);
            (*qp).wr_set_ud_addr.expect("served")(qp, null_mut(), 0, 0);
            (*qp).wr_complete.expect("served")(qp)
        });
    }
}

#[test]
fn a_verb_that_fails_sets_errno() {
    alone(Link::Ib, HERE, "refusals");
}

/// Creates as many protection domains and address handles as the device reports, and fails to create more.
/// Creates a CQ for each completion vector.
fn limits() {
    let node = Node::open(4096, 0);
    // SAFETY: the struct has only integers, which may be zero.
    let mut about: ibv_device_attr = unsafe { zeroed() };
    let asked = call!(c"ibv_query_device"(
        node.context => *mut ibv_context, &raw mut about => *mut ibv_device_attr
    ) -> c_int);
    assert_eq!(asked, 0);
    // The node already has one protection domain.
    let pds: Vec<*mut ibv_pd> = (1..about.max_pd).map(|_| alloc_pd(&node)).collect();
    assert!(pds.iter().all(|pd| !pd.is_null()), "fewer PDs than {}", about.max_pd);
    makes_none("ibv_alloc_pd", ENOMEM, || alloc_pd(&node));
    assert_eq!(dealloc_pd(pds[7]), 0);
    assert!(!alloc_pd(&node).is_null());
    makes_none("ibv_alloc_pd", ENOMEM, || alloc_pd(&node));

    let path = to_lid(1);
    let ahs: Vec<*mut ibv_ah> = (0..about.max_ah).map(|_| create_ah(&node, path)).collect();
    assert!(ahs.iter().all(|ah| !ah.is_null()), "fewer address handles than {}", about.max_ah);
    makes_none("ibv_create_ah", ENOMEM, || create_ah(&node, path));
    assert_eq!(call!(c"ibv_destroy_ah"(ahs[7] => *mut ibv_ah) -> c_int), 0);
    assert!(!create_ah(&node, path).is_null());
    makes_none("ibv_create_ah", ENOMEM, || create_ah(&node, path));

    // SAFETY: the context is live.
    let vectors = unsafe { (*node.context).num_comp_vectors };
    assert!(vectors > 1, "servers with a thread for each vector need several");
    let cqs: Vec<*mut ibv_cq> =
        (0..vectors).map(|vector| create_cq_at(&node, 8, null_mut(), vector)).collect();
    assert!(cqs.iter().all(|cq| !cq.is_null()), "fewer vectors than {vectors}");
    makes_none("ibv_create_cq", EINVAL, || create_cq_at(&node, 8, null_mut(), vectors));
}

#[test]
fn limits_are_those_announced() {
    alone(Link::Ib, HERE, "limits");
}
