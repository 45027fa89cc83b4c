//! Tests memory windows: the binds that are allowed, the peers that can access a window, and its
//! invalidation.

use crate::common::launch;
use crate::common::running::{Running, alone, hear, role, say};
use crate::common::verbs::{Endpoint, Node, SIGNALED, Wr, call, errno};
use doorbell_abi::{
    CEnum, IBV_WC_WITH_INV, ibv_context, ibv_mr, ibv_mw, ibv_mw_bind, ibv_mw_bind_info, ibv_pd, ibv_qp,
    ibv_qp_ex, ibv_send_wr, ibv_send_wr_bind_mw, ibv_send_wr_operands, ibv_send_wr_rdma, ibv_sge, ibv_wc,
};
use doorbell_launch::{Launch, Link, Ptrace};
use doorbell_verbs::{AccessFlags, QpState, RemoteAddr, SendOp, WcStatus};
use libc::{EBUSY, EINVAL, c_int, c_void};
use std::ptr::null_mut;

/// The module of the test `program`, which the other tests run as a program.
const HERE: &str = module_path!();

/// The program that the tests start: this executable again, with a role for each process.
#[test]
#[ignore = "a program that the other tests run"]
fn program() {
    match &role()[..] {
        "type-1" => type_1(),
        "type-2" => type_2(),
        "refused" => binds_refused(),
        "rights" => rights(),
        "lives" => lives(),
        "sends" => sends_that_invalidate(),
        "ordered" => ordered(),
        "functions" => by_functions(),
        "owner" => own(),
        "user" => use_it(),
        role => panic!("no role {role:?}"),
    }
}

const BYTES: usize = 8192;
/// Offset of the windows. Payload is at lower offsets.
const HALF: usize = BYTES / 2;
/// Access flags of verbs.h: `IBV_ACCESS_*`. Some have no name in `AccessFlags`.
const LOCAL_WRITE: u32 = AccessFlags::LOCAL_WRITE.bits();
const REMOTE_WRITE: u32 = AccessFlags::REMOTE_WRITE.bits();
const REMOTE_READ: u32 = AccessFlags::REMOTE_READ.bits();
const MW_BIND: u32 = 1 << 4;
const ZERO_BASED: u32 = 1 << 5;
/// Types of windows of verbs.h: `IBV_MW_TYPE_*`.
const TYPE_1: u32 = 1;
const TYPE_2: u32 = 2;
/// Opcodes of work requests (`IBV_WR_*`) and of completions (`IBV_WC_*`) of verbs.h.
const LOCAL_INV: u32 = 7;
const BIND_MW: u32 = 8;
const SEND_WITH_INV: u32 = 9;
const WC_BIND_MW: u32 = 5;
const WC_LOCAL_INV: u32 = 6;

/// A node with four QPs, 0 connected to 1 and 2 to 3, and a region to which windows may be bound.
struct Windows {
    node: Node,
    mr: *mut ibv_mr,
}

impl Windows {
    fn new() -> Windows {
        Windows::of(Node::open(BYTES, 4))
    }

    /// Connects the node's QPs in pairs.
    fn of(node: Node) -> Windows {
        let mr = register(&node, LOCAL_WRITE | MW_BIND);
        let windows = Windows { node, mr };
        windows.connect();
        windows
    }

    fn connect(&self) {
        let node = &self.node;
        for (qp, peer) in [(0, 1), (1, 0), (2, 3), (3, 2)] {
            node.connect(qp, &node.endpoint(peer));
        }
    }

    /// Resets and connects all QPs after an error.
    fn connect_again(&self) {
        (0..4).for_each(|qp| self.node.reset(qp));
        self.connect();
    }

    fn at(&self, offset: usize) -> u64 {
        self.node.address(offset) as u64
    }

    /// The parameters that bind a window to `length` bytes of the region from `offset` on.
    fn part(&self, offset: usize, length: u64, access: u32) -> ibv_mw_bind_info {
        ibv_mw_bind_info { mr: self.mr, addr: self.at(offset), length, mw_access_flags: access }
    }

    /// WRITEs 8 bytes to this address and rkey. The WRITE must complete with this status.
    #[track_caller]
    fn write(&self, qp: usize, addr: u64, rkey: u32, status: WcStatus) {
        write(&self.node, qp, addr, rkey, status);
        if status != WcStatus::Success {
            self.connect_again();
        }
    }

    /// Binds a window of type 2 by a work request. The bind must complete with this status.
    #[track_caller]
    fn bind(&self, qp: usize, mw: *mut ibv_mw, rkey: u32, part: ibv_mw_bind_info, status: WcStatus) {
        assert_eq!(post(&self.node, qp, bind_wr(mw, rkey, part)), 0);
        let wc = self.node.completion(status);
        if status == WcStatus::Success {
            assert_eq!((wc.opcode, wc.wr_id), (WC_BIND_MW, 77));
        } else {
            self.connect_again();
        }
    }

    #[track_caller]
    fn invalidate(&self, qp: usize, rkey: u32, status: WcStatus) {
        assert_eq!(post(&self.node, qp, inv_wr(LOCAL_INV, rkey)), 0);
        let wc = self.node.completion(status);
        if status == WcStatus::Success {
            assert_eq!(wc.opcode, WC_LOCAL_INV);
        } else {
            self.connect_again();
        }
    }
}

fn register(node: &Node, access: u32) -> *mut ibv_mr {
    let mr = call!(c"ibv_reg_mr"(
        node.pd => *mut ibv_pd, node.address(0).cast() => *mut c_void, BYTES => usize, access as c_int => c_int
    ) -> *mut ibv_mr);
    assert!(!mr.is_null());
    mr
}

fn deregister(mr: *mut ibv_mr) -> c_int {
    call!(c"ibv_dereg_mr"(mr => *mut ibv_mr) -> c_int)
}

fn alloc(node: &Node, pd: *mut ibv_pd, mw_type: u32) -> *mut ibv_mw {
    // SAFETY: the context and the PD are live.
    unsafe { (*node.context).ops.alloc_mw.expect("it is served")(pd, mw_type) }
}

fn dealloc(node: &Node, mw: *mut ibv_mw) {
    // SAFETY: the context and the window are live.
    assert_eq!(unsafe { (*node.context).ops.dealloc_mw.expect("it is served")(mw) }, 0);
}

/// A window's rkey, from its struct.
fn rkey_of(mw: *mut ibv_mw) -> u32 {
    // SAFETY: the window is live.
    unsafe { (*mw).rkey }
}

/// The next rkey, as ibv_inc_rkey(3) computes it: only the lowest 8 bits change.
fn next(rkey: u32) -> u32 {
    rkey & !0xff | rkey.wrapping_add(1) & 0xff
}

/// Calls ibv_bind_mw(3) for a window of type 1.
fn bind_type_1(node: &Node, qp: usize, mw: *mut ibv_mw, bind_info: ibv_mw_bind_info) -> c_int {
    let mut bind = ibv_mw_bind { wr_id: 77, send_flags: SIGNALED, bind_info };
    // SAFETY: the objects are live, and the struct belongs to this function.
    unsafe { (*node.context).ops.bind_mw.expect("it is served")(node.qps[qp], mw, &mut bind) }
}

fn wr(opcode: u32) -> ibv_send_wr {
    let rdma = ibv_send_wr_rdma { remote_addr: 0, rkey: 0 };
    ibv_send_wr {
        wr_id: 77,
        next: null_mut(),
        sg_list: null_mut(),
        num_sge: 0,
        opcode,
        send_flags: SIGNALED,
        imm_data: 0,
        wr: ibv_send_wr_operands { rdma },
        remote_srqn: 0,
        bind_mw: ibv_send_wr_bind_mw::default(),
    }
}

fn bind_wr(mw: *mut ibv_mw, rkey: u32, bind_info: ibv_mw_bind_info) -> ibv_send_wr {
    ibv_send_wr { bind_mw: ibv_send_wr_bind_mw { mw, rkey, bind_info }, ..wr(BIND_MW) }
}

fn inv_wr(opcode: u32, rkey: u32) -> ibv_send_wr {
    ibv_send_wr { imm_data: rkey, ..wr(opcode) }
}

fn post(node: &Node, qp: usize, mut wr: ibv_send_wr) -> c_int {
    let mut bad = null_mut();
    // SAFETY: the QP is live, and the work request outlives the call.
    unsafe { (*node.context).ops.post_send.expect("it is served")(node.qps[qp], &mut wr, &mut bad) }
}

#[track_caller]
fn write(node: &Node, qp: usize, addr: u64, rkey: u32, status: WcStatus) {
    let op = SendOp::Write(RemoteAddr { addr, rkey });
    node.post(qp, &[Wr { op, buffers: &[(0, 8)], flags: SIGNALED }]);
    node.completion(status);
}

/// Checks windows of type 1. Each ibv_bind_mw(3) gives a window a new rkey, which is valid for all QPs of the
/// protection domain.
fn type_1() {
    let windows = Windows::new();
    let node = &windows.node;
    let mw = alloc(node, node.pd, TYPE_1);
    let bind = |part| {
        let before = rkey_of(mw);
        assert_eq!(bind_type_1(node, 1, mw, part), 0);
        assert_eq!(node.completion(WcStatus::Success).opcode, WC_BIND_MW);
        assert_eq!((rkey_of(mw) ^ before) & !0xff, 0);
        assert_ne!(rkey_of(mw), before);
        rkey_of(mw)
    };
    let unbound = rkey_of(mw);
    windows.write(0, windows.at(HALF), unbound, WcStatus::RemAccessErr);
    let first = bind(windows.part(HALF, 64, REMOTE_WRITE));
    node.fill(0, 8, 0x11);
    for qp in [0, 0, 2] {
        node.fill(HALF, 8, 0);
        windows.write(qp, windows.at(HALF), first, WcStatus::Success);
        assert!(node.is_all(HALF, 8, 0x11));
    }
    let second = bind(windows.part(HALF + 64, 64, REMOTE_WRITE));
    windows.write(0, windows.at(HALF), first, WcStatus::RemAccessErr);
    windows.write(0, windows.at(HALF), second, WcStatus::RemAccessErr);
    windows.write(0, windows.at(HALF + 64), second, WcStatus::Success);
    assert_eq!(deregister(windows.mr), EBUSY);
    let nothing = bind(ibv_mw_bind_info { mr: null_mut(), addr: 0, length: 0, mw_access_flags: 0 });
    for rkey in [second, nothing] {
        windows.write(0, windows.at(HALF + 64), rkey, WcStatus::RemAccessErr);
    }
    // An invalid bind is refused at once.
    assert_eq!(bind_type_1(node, 1, mw, windows.part(HALF, 64, REMOTE_WRITE | ZERO_BASED)), EINVAL);
    assert_eq!(post(node, 1, bind_wr(mw, next(rkey_of(mw)), windows.part(HALF, 64, REMOTE_WRITE))), EINVAL);
    assert_eq!(bind_type_1(node, 1, alloc(node, node.pd, TYPE_2), windows.part(HALF, 64, 0)), EINVAL);
    assert!(alloc(node, node.pd, 3).is_null() && errno() == EINVAL);
    // A window of type 1 cannot be invalidated.
    let third = bind(windows.part(HALF, 64, REMOTE_WRITE));
    windows.invalidate(1, third, WcStatus::LocQpOpErr);
    windows.write(0, windows.at(HALF), third, WcStatus::Success);
    dealloc(node, mw);
    windows.write(0, windows.at(HALF), third, WcStatus::RemAccessErr);
    assert_eq!(deregister(windows.mr), 0);
}

/// Checks windows of type 2. A work request binds a window to its own QP, with an rkey that the program
/// chooses.
fn type_2() {
    let windows = Windows::new();
    let node = &windows.node;
    let mw = alloc(node, node.pd, TYPE_2);
    let part = windows.part(HALF, 64, REMOTE_WRITE);
    let first = rkey_of(mw) & !0xff | 0x5a;
    windows.bind(1, mw, first, part, WcStatus::Success);
    node.fill(0, 8, 0x22);
    for _ in 0..3 {
        node.fill(HALF, 8, 0);
        windows.write(0, windows.at(HALF), first, WcStatus::Success);
        assert!(node.is_all(HALF, 8, 0x22));
    }
    windows.write(2, windows.at(HALF), first, WcStatus::RemAccessErr);
    windows.bind(1, mw, next(first), part, WcStatus::MwBindErr);
    windows.write(0, windows.at(HALF), first, WcStatus::Success);
    windows.write(0, windows.at(HALF), first, WcStatus::Success);
    windows.invalidate(1, first, WcStatus::Success);
    windows.write(0, windows.at(HALF), first, WcStatus::RemAccessErr);
    windows.invalidate(1, first, WcStatus::LocQpOpErr);
    // Only the lowest 8 bits of the rkey in a bind count.
    let own = next(first);
    windows.bind(1, mw, own ^ 0xabcd_ef00, part, WcStatus::Success);
    windows.write(0, windows.at(HALF), own, WcStatus::Success);
    windows.write(0, windows.at(HALF), own ^ 0xabcd_ef00, WcStatus::RemAccessErr);
    // No other QP of the protection domain can invalidate the window.
    for qp in [0, 2, 3] {
        windows.invalidate(qp, own, WcStatus::LocQpOpErr);
        windows.write(0, windows.at(HALF), own, WcStatus::Success);
    }
    windows.invalidate(1, own, WcStatus::Success);
    // After another QP binds the window, neither the old rkey nor the old QP's peer can access it.
    let second = next(first);
    windows.bind(3, mw, second, part, WcStatus::Success);
    windows.write(2, windows.at(HALF), second, WcStatus::Success);
    windows.write(2, windows.at(HALF), first, WcStatus::RemAccessErr);
    windows.write(0, windows.at(HALF), second, WcStatus::RemAccessErr);
    dealloc(node, mw);
    windows.write(2, windows.at(HALF), second, WcStatus::RemAccessErr);
}

/// Posts binds that fail with IBV_WC_MW_BIND_ERR, and other requests that name no valid window.
fn binds_refused() {
    let windows = Windows::new();
    let node = &windows.node;
    let mw = alloc(node, node.pd, TYPE_2);
    let rkey = next(rkey_of(mw));
    let refused = |mw, rkey, part| windows.bind(1, mw, rkey, part, WcStatus::MwBindErr);
    let part = windows.part(HALF, 64, REMOTE_WRITE);
    refused(mw, rkey, windows.part(BYTES - 8, 9, REMOTE_WRITE));
    refused(mw, rkey, ibv_mw_bind_info { addr: windows.at(0) - 1, ..part });
    refused(mw, rkey, ibv_mw_bind_info { length: u64::MAX, ..part });
    refused(mw, rkey, ibv_mw_bind_info { length: 0, ..part });
    refused(mw, rkey, ibv_mw_bind_info { mr: null_mut(), ..part });
    let read_only = register(node, MW_BIND);
    refused(mw, rkey, ibv_mw_bind_info { mr: read_only, ..part });
    refused(
        mw,
        rkey,
        ibv_mw_bind_info {
            mr: read_only,
            mw_access_flags: AccessFlags::REMOTE_ATOMIC.bits() | REMOTE_READ,
            ..part
        },
    );
    refused(mw, rkey, ibv_mw_bind_info { mr: register(node, LOCAL_WRITE), ..part });
    let zero_based = register(node, LOCAL_WRITE | MW_BIND | ZERO_BASED);
    refused(mw, rkey, ibv_mw_bind_info { mr: zero_based, addr: 0, ..part });
    let pd = call!(c"ibv_alloc_pd"(node.context => *mut ibv_context) -> *mut ibv_pd);
    let foreign = alloc(node, pd, TYPE_2);
    refused(foreign, next(rkey_of(foreign)), part);
    assert_eq!(call!(c"ibv_dealloc_pd"(pd => *mut ibv_pd) -> c_int), EBUSY);
    dealloc(node, foreign);
    assert_eq!(call!(c"ibv_dealloc_pd"(pd => *mut ibv_pd) -> c_int), 0);
    // SAFETY: the region is live.
    windows.invalidate(1, unsafe { (*windows.mr).rkey }, WcStatus::LocQpOpErr);
    assert_eq!(post(node, 1, bind_wr(null_mut(), rkey, part)), EINVAL);
    // A window cannot be bound to a region of another protection domain. A QP cannot invalidate a window of
    // another protection domain.
    let other = Windows::new();
    refused(mw, rkey, ibv_mw_bind_info { mr: other.mr, addr: other.at(HALF), ..part });
    let foreign = alloc(&other.node, other.node.pd, TYPE_2);
    let bound = next(rkey_of(foreign));
    other.bind(1, foreign, bound, other.part(HALF, 64, REMOTE_WRITE), WcStatus::Success);
    windows.invalidate(1, bound, WcStatus::LocQpOpErr);
    other.write(0, other.at(HALF), bound, WcStatus::Success);
    // None of these binds took effect.
    windows.write(0, windows.at(HALF), rkey, WcStatus::RemAccessErr);
    windows.bind(1, mw, rkey, part, WcStatus::Success);
    // In Err a bind is flushed.
    node.set_state(1, QpState::Err);
    assert_eq!(post(node, 1, bind_wr(mw, next(rkey), part)), 0);
    node.completion(WcStatus::WrFlushErr);
    node.reset(1);
    assert_eq!(post(node, 1, bind_wr(mw, next(rkey), part)), EINVAL);
}

/// Checks the accesses that a window grants to peers.
fn rights() {
    let windows = Windows::new();
    let node = &windows.node;
    let read = |qp: usize, addr: u64, rkey: u32, status: WcStatus| {
        let op = SendOp::Read(RemoteAddr { addr, rkey });
        node.post(qp, &[Wr { op, buffers: &[(16, 8)], flags: SIGNALED }]);
        node.completion(status);
        if status != WcStatus::Success {
            windows.connect_again();
        }
    };
    let mw = alloc(node, node.pd, TYPE_2);
    let mut rkey = rkey_of(mw);
    // A region without write access, not even local write access.
    let read_only = register(node, MW_BIND);
    let bind = |rkey: &mut u32, part| {
        *rkey = next(*rkey);
        windows.bind(1, mw, *rkey, part, WcStatus::Success);
    };
    bind(&mut rkey, ibv_mw_bind_info { mr: read_only, ..windows.part(HALF, 64, REMOTE_READ) });
    node.fill(HALF, 64, 0x33);
    read(0, windows.at(HALF + 56), rkey, WcStatus::Success);
    assert!(node.is_all(16, 8, 0x33));
    read(0, windows.at(HALF + 57), rkey, WcStatus::RemAccessErr);
    read(0, windows.at(HALF - 1), rkey, WcStatus::RemAccessErr);
    windows.write(0, windows.at(HALF), rkey, WcStatus::RemAccessErr);
    windows.invalidate(1, rkey, WcStatus::Success);
    bind(&mut rkey, windows.part(HALF, 64, REMOTE_WRITE));
    read(0, windows.at(HALF), rkey, WcStatus::RemAccessErr);
    windows.write(0, windows.at(HALF), rkey, WcStatus::Success);
    // A window's rkey is not an lkey.
    let mut sge = ibv_sge { addr: windows.at(HALF), length: 8, lkey: rkey };
    let send = ibv_send_wr { sg_list: &mut sge, num_sge: 1, ..wr(2) };
    assert_eq!(post(node, 1, send), 0);
    node.completion(WcStatus::LocProtErr);
    windows.connect_again();
    windows.invalidate(1, rkey, WcStatus::Success);
    // Addresses in a zero-based window begin at 0.
    bind(&mut rkey, windows.part(HALF, 64, REMOTE_WRITE | ZERO_BASED));
    node.fill(0, 8, 0x44);
    windows.write(0, 8, rkey, WcStatus::Success);
    assert!(node.is_all(HALF + 8, 8, 0x44) && node.is_all(HALF + 16, 8, 0x33));
    windows.write(0, 57, rkey, WcStatus::RemAccessErr);
    windows.write(0, windows.at(HALF), rkey, WcStatus::RemAccessErr);
}

/// Checks that a region cannot be deregistered while a window is bound to it. Destroying a QP unbinds its
/// windows of type 2.
fn lives() {
    let windows = Windows::new();
    let node = &windows.node;
    let mw = alloc(node, node.pd, TYPE_2);
    let part = windows.part(HALF, 64, REMOTE_WRITE);
    let mut rkey = next(rkey_of(mw));
    let rereg = || {
        call!(c"ibv_rereg_mr"(
            windows.mr => *mut ibv_mr, 4 => c_int, null_mut() => *mut ibv_pd, null_mut() => *mut c_void,
            0 => usize, LOCAL_WRITE as c_int => c_int
        ) -> c_int)
    };
    windows.bind(1, mw, rkey, part, WcStatus::Success);
    assert_eq!(deregister(windows.mr), EBUSY);
    assert_eq!((rereg(), errno()), (-1, EBUSY));
    windows.write(0, windows.at(HALF), rkey, WcStatus::Success);
    windows.invalidate(1, rkey, WcStatus::Success);
    rkey = next(rkey);
    windows.bind(1, mw, rkey, part, WcStatus::Success);
    assert_eq!(deregister(windows.mr), EBUSY);
    assert_eq!(call!(c"ibv_destroy_qp"(node.qps[1] => *mut ibv_qp) -> c_int), 0);
    assert_eq!(deregister(windows.mr), 0);
    // Allocates as many windows as possible. Freed windows make room again.
    let all: Vec<*mut ibv_mw> =
        std::iter::repeat_with(|| alloc(node, node.pd, TYPE_1)).take_while(|mw| !mw.is_null()).collect();
    assert_eq!(errno(), libc::ENOMEM);
    // Regions and windows share 1048575 entries, and one more for a region of strict mode. A region and a
    // window exist already.
    assert_eq!(all.len(), 1_048_575 - 2 + 1);
    all.into_iter().for_each(|mw| dealloc(node, mw));
    dealloc(node, mw);
    assert_eq!(deregister(register(node, MW_BIND)), 0);
}

/// Checks that a SEND with invalidate invalidates the receiver's window.
fn sends_that_invalidate() {
    let windows = Windows::new();
    let node = &windows.node;
    let mw = alloc(node, node.pd, TYPE_2);
    let part = windows.part(HALF, 64, REMOTE_WRITE);
    let rkey = next(rkey_of(mw));
    windows.bind(1, mw, rkey, part, WcStatus::Success);
    windows.write(0, windows.at(HALF), rkey, WcStatus::Success);
    windows.write(0, windows.at(HALF), rkey, WcStatus::Success);
    // Without a RECV nothing is invalidated.
    assert_eq!(post(node, 0, inv_wr(SEND_WITH_INV, rkey)), 0);
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert_eq!(deregister(windows.mr), EBUSY);
    node.post_recv(1, 1, &[(16, 64)]);
    let wcs = node.completions(2);
    let received: Vec<&ibv_wc> = wcs.iter().filter(|wc| wc.opcode == 128).collect();
    assert_eq!(received.len(), 1);
    assert_eq!((received[0].wc_flags, received[0].imm_data), (IBV_WC_WITH_INV, rkey));
    windows.write(0, windows.at(HALF), rkey, WcStatus::RemAccessErr);
    // The rkey belongs to another QP's window, or to no window.
    let rkey = next(rkey);
    windows.bind(3, mw, rkey, part, WcStatus::Success);
    for wrong in [rkey, next(rkey), 0] {
        node.post_recv(1, 1, &[(16, 64)]);
        assert_eq!(post(node, 0, inv_wr(SEND_WITH_INV, wrong)), 0);
        let mut all = [poll(node), poll(node)].map(|wc| wc.status);
        all.sort_unstable();
        assert_eq!(all, [WcStatus::WrFlushErr, WcStatus::RemAccessErr].map(CEnum::to_c));
        windows.connect_again();
    }
    windows.write(2, windows.at(HALF), rkey, WcStatus::Success);
}

/// Waits for the next completion, which may have any status.
fn poll(node: &Node) -> ibv_wc {
    loop {
        if let Some(wc) = node.poll() {
            return wc;
        }
    }
}

/// Checks that a bind waits for earlier requests of its QP, and that later requests wait for the bind.
fn ordered() {
    let windows = Windows::new();
    let node = &windows.node;
    let mw = alloc(node, node.pd, TYPE_2);
    let rkey = next(rkey_of(mw));
    let part = windows.part(HALF, 64, REMOTE_WRITE);
    // The SEND waits for a RECV.
    node.post(1, &[Wr { op: SendOp::Send, buffers: &[(0, 8)], flags: SIGNALED }]);
    assert_eq!(post(node, 1, bind_wr(mw, rkey, part)), 0);
    assert_eq!(post(node, 1, inv_wr(LOCAL_INV, rkey)), 0);
    assert_eq!(post(node, 1, bind_wr(mw, next(rkey), part)), 0);
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(node.poll().is_none());
    node.post_recv(0, 1, &[(16, 64)]);
    let wcs = node.completions(5);
    let sends: Vec<u32> = wcs.iter().map(|wc| wc.opcode).filter(|opcode| *opcode < 128).collect();
    assert_eq!(sends, [0, WC_BIND_MW, WC_LOCAL_INV, WC_BIND_MW]);
    windows.write(0, windows.at(HALF), next(rkey), WcStatus::Success);
}

/// Binds and invalidates windows by ibv_wr_bind_mw(3) and similar functions.
fn by_functions() {
    let mut node = Node::open(BYTES, 0);
    for _ in 0..4 {
        node.add_extended_qp();
    }
    let windows = Windows::of(node);
    let node = &windows.node;
    let mw = alloc(node, node.pd, TYPE_2);
    let rkey = next(rkey_of(mw));
    let part = windows.part(HALF, 64, REMOTE_WRITE);
    let extended = |qp: usize| call!(c"ibv_qp_to_qp_ex"(node.qps[qp] => *mut ibv_qp) -> *mut ibv_qp_ex);
    // SAFETY: the QPs are live, and `make` is called between start and complete.
    let made = |qp: usize, make: &dyn Fn(*mut ibv_qp_ex)| unsafe {
        let qp = extended(qp);
        (*qp).wr_start.expect("served")(qp);
        ((*qp).wr_id, (*qp).wr_flags) = (5, SIGNALED);
        make(qp);
        (*qp).wr_complete.expect("served")(qp)
    };
    // SAFETY: the QP is live, and the call comes between start and complete.
    let bind = |qp: *mut ibv_qp_ex| unsafe { (*qp).wr_bind_mw.expect("served")(qp, mw, rkey, &part) };
    // SAFETY: the QP is live, and the call comes between start and complete.
    let local_inv = |qp: *mut ibv_qp_ex| unsafe { (*qp).wr_local_inv.expect("served")(qp, rkey) };
    // SAFETY: the QP is live, and the call comes between start and complete.
    let send_inv = |qp: *mut ibv_qp_ex| unsafe { (*qp).wr_send_inv.expect("served")(qp, rkey) };
    let both = |qp: *mut ibv_qp_ex| {
        bind(qp);
        local_inv(qp);
    };
    assert_eq!(made(1, &both), 0);
    let opcodes: Vec<(u32, u64)> = node.completions(2).iter().map(|wc| (wc.opcode, wc.wr_id)).collect();
    assert_eq!(opcodes, [(WC_BIND_MW, 5), (WC_LOCAL_INV, 5)]);
    windows.write(0, windows.at(HALF), rkey, WcStatus::RemAccessErr);
    assert_eq!(made(1, &bind), 0);
    node.completions(1);
    windows.write(0, windows.at(HALF), rkey, WcStatus::Success);
    node.post_recv(1, 1, &[(16, 64)]);
    assert_eq!(made(0, &send_inv), 0);
    let flags: Vec<u32> = node.completions(2).iter().map(|wc| wc.wc_flags).collect();
    assert!(flags.contains(&IBV_WC_WITH_INV), "{flags:?}");
    windows.write(0, windows.at(HALF), rkey, WcStatus::RemAccessErr);
    // A list is posted as a whole or not at all.
    let wrong = |qp: *mut ibv_qp_ex| {
        bind(qp);
        // SAFETY: the QP is live, and the call comes between start and complete.
        unsafe { (*qp).wr_bind_mw.expect("served")(qp, null_mut(), rkey, &part) };
    };
    assert_eq!(made(1, &wrong), EINVAL);
    assert!(node.poll().is_none());
}

/// Runs the owner of the windows, whose memory the other process accesses.
fn own() {
    let node = Node::open(BYTES, 2);
    let mr = register(&node, LOCAL_WRITE | MW_BIND);
    for qp in 0..2 {
        say(node.endpoint(qp));
        let peer: Endpoint = hear().parse().expect("an endpoint");
        node.connect(qp, &peer);
    }
    let addr = node.address(HALF) as u64;
    let part = ibv_mw_bind_info { mr, addr, length: 64, mw_access_flags: REMOTE_WRITE | REMOTE_READ };
    let mw = alloc(&node, node.pd, TYPE_2);
    let rkey = next(rkey_of(mw));
    let bind = |qp: usize, rkey: u32| {
        assert_eq!(post(&node, qp, bind_wr(mw, rkey, part)), 0);
        node.completion(WcStatus::Success);
    };
    bind(0, rkey);
    say(rkey);
    assert_eq!(hear(), "written");
    assert!(node.is_all(HALF, 8, 0x55));
    assert_eq!(deregister(mr), EBUSY);
    node.post_recv(0, 1, &[(1024, 1024)]);
    say("receives");
    let wc = node.completion(WcStatus::Success);
    assert_eq!((wc.wc_flags, wc.imm_data, wc.byte_len), (IBV_WC_WITH_INV, rkey, 600));
    assert!(node.is_all(1024, 600, 0x66));
    assert_eq!(hear(), "refused");
    // The window is free for another bind.
    bind(1, next(rkey));
    assert_eq!(post(&node, 1, inv_wr(LOCAL_INV, next(rkey))), 0);
    node.completion(WcStatus::Success);
    let mw = alloc(&node, node.pd, TYPE_1);
    assert_eq!(bind_type_1(&node, 1, mw, part), 0);
    node.completion(WcStatus::Success);
    say(rkey_of(mw));
    // Waits until the test kills this process.
    hear();
}

/// Runs the process that accesses the owner's memory through windows.
fn use_it() {
    let node = Node::open(BYTES, 2);
    let mut there = Vec::new();
    for qp in 0..2 {
        say(node.endpoint(qp));
        let peer: Endpoint = hear().parse().expect("an endpoint");
        node.connect(qp, &peer);
        there.push(peer);
    }
    let addr = there[0].at(HALF).addr;
    let number = || hear().parse::<u32>().expect("an rkey");
    let rkey = number();
    node.fill(0, 8, 0x55);
    for _ in 0..3 {
        write(&node, 0, addr, rkey, WcStatus::Success);
    }
    node.carry_out(0, SendOp::Read(RemoteAddr { addr, rkey }), &[(32, 8)]);
    assert!(node.is_all(32, 8, 0x55));
    say("written");
    assert_eq!(hear(), "receives");
    // The message has more bytes than a completion carries.
    node.fill(1024, 600, 0x66);
    let mut sges = node.sges(&[(1024, 600)]);
    let send = ibv_send_wr { sg_list: sges.as_mut_ptr(), num_sge: 1, ..inv_wr(SEND_WITH_INV, rkey) };
    assert_eq!(post(&node, 0, send), 0);
    node.completion(WcStatus::Success);
    // The WRITE is refused although only the SEND has invalidated the window, and not its owner.
    write(&node, 0, addr, rkey, WcStatus::RemAccessErr);
    say("refused");
    let rkey = number();
    write(&node, 1, addr, rkey, WcStatus::Success);
    write(&node, 1, addr, rkey, WcStatus::Success);
    say("to be killed");
    assert_eq!(hear(), "killed");
    // This process notices the peer's exit soon, but not at once.
    let op = SendOp::Write(RemoteAddr { addr, rkey });
    let mut statuses = std::iter::repeat_with(|| {
        node.post(1, &[Wr { op, buffers: &[(0, 8)], flags: SIGNALED }]);
        WcStatus::from_c(poll(&node).status)
    });
    let end = statuses.find(|status| *status != Some(WcStatus::Success));
    assert_eq!(end, Some(Some(WcStatus::RetryExcErr)));
}

#[test]
fn a_window_of_type_1_has_another_key_with_each_bind() {
    alone(Link::Ib, HERE, "type-1");
}

#[test]
fn a_window_of_type_2_is_its_qps_until_it_is_invalidated() {
    alone(Link::Ib, HERE, "type-2");
}

#[test]
fn what_may_not_be_bound_is_not() {
    alone(Link::Ib, HERE, "refused");
}

#[test]
fn a_window_gives_its_own_rights() {
    alone(Link::Ib, HERE, "rights");
}

#[test]
fn a_region_stays_while_windows_are_bound_to_it() {
    alone(Link::Ib, HERE, "lives");
}

#[test]
fn a_send_takes_a_window_back() {
    alone(Link::Ib, HERE, "sends");
}

#[test]
fn binds_keep_their_place_in_the_queue() {
    alone(Link::Ib, HERE, "ordered");
}

#[test]
fn windows_are_bound_by_functions_too() {
    alone(Link::Ib, HERE, "functions");
}

/// Runs owner and user of windows with shared and private buffers. If the launch is closed, the owner's
/// thread accesses private buffers for the peer.
#[test]
fn another_process_reaches_a_window_until_it_ends() {
    for ptrace in [Ptrace::Yes, Ptrace::No] {
        for private_buffers in [false, true] {
            reach_until_it_ends(&Launch { ptrace, private_buffers, ..launch(Link::Ib) });
        }
    }
}

fn reach_until_it_ends(launch: &Launch) {
    let [mut owner, mut user] = ["owner", "user"].map(|role| Running::new(launch, HERE, role));
    for _ in 0..2 {
        let ends = [owner.line(), user.line()];
        owner.tell(&ends[1]);
        user.tell(&ends[0]);
    }
    for _ in 0..2 {
        user.tell(&owner.line());
        owner.tell(&user.line());
    }
    user.tell(&owner.line());
    assert_eq!(user.line(), "to be killed");
    owner.child.kill().expect("it runs");
    owner.child.wait().expect("it has ended");
    user.tell("killed");
    user.end("the user of a window");
}
