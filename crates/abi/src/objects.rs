//! Objects that libibverbs allocates for programs, work requests and completions. They share a module because
//! they refer to each other.
#![allow(non_camel_case_types)]
#![expect(missing_docs, reason = "infiniband/verbs.h documents the fields")]

use libc::{c_char, c_int, c_void, pthread_cond_t, pthread_mutex_t};
use std::ptr::null_mut;

/// Entries of the operations table that programs no longer call.
type Unused<const N: usize> = [*mut c_void; N];

/// `ibv_poll_cq(3)`: returns the number of completions, or a negative value.
pub type PollCq = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;
/// `ibv_post_srq_recv(3)`: returns an errno. On failure, the last argument receives the address of the first
/// work request that was not posted.
pub type PostSrqRecv = unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;
/// `ibv_post_send(3)`; returns like [`PostSrqRecv`].
pub type PostSend = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;
/// `ibv_post_recv(3)`; returns like [`PostSrqRecv`].
pub type PostRecv = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;

/// `ibv_alloc_mw(3)`: returns null and sets errno on failure.
pub type AllocMw = unsafe extern "C" fn(*mut ibv_pd, u32) -> *mut ibv_mw;
/// `ibv_bind_mw(3)`: returns an errno.
pub type BindMw = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_mw, *mut ibv_mw_bind) -> c_int;
/// `ibv_dealloc_mw(3)`: returns an errno.
pub type DeallocMw = unsafe extern "C" fn(*mut ibv_mw) -> c_int;
/// `ibv_req_notify_cq(3)`: returns an errno.
pub type ReqNotifyCq = unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int;

/// The operations that inline functions of verbs.h call through the context.
#[repr(C)]
pub struct ibv_context_ops {
    _compat_before_alloc_mw: Unused<7>,
    pub alloc_mw: Option<AllocMw>,
    pub bind_mw: Option<BindMw>,
    pub dealloc_mw: Option<DeallocMw>,
    _compat_create_cq: Unused<1>,
    pub poll_cq: Option<PollCq>,
    pub req_notify_cq: Option<ReqNotifyCq>,
    _compat_before_post_srq_recv: Unused<7>,
    pub post_srq_recv: Option<PostSrqRecv>,
    _compat_before_post_send: Unused<4>,
    pub post_send: Option<PostSend>,
    pub post_recv: Option<PostRecv>,
    _compat_after_post_recv: Unused<5>,
}

/// An opened device.
#[repr(C)]
pub struct ibv_context {
    pub device: *mut ibv_device,
    pub ops: ibv_context_ops,
    pub cmd_fd: c_int,
    pub async_fd: c_int,
    pub num_comp_vectors: c_int,
    pub mutex: pthread_mutex_t,
    pub abi_compat: *mut c_void,
}

/// A device that can be opened.
#[repr(C)]
pub struct ibv_device {
    _ops: Unused<2>,
    pub node_type: c_int,
    pub transport_type: c_int,
    pub name: [c_char; 64],
    pub dev_name: [c_char; 64],
    pub dev_path: [c_char; 256],
    pub ibdev_path: [c_char; 256],
}

/// A protection domain.
#[repr(C)]
pub struct ibv_pd {
    pub context: *mut ibv_context,
    pub handle: u32,
}

/// A memory region.
#[repr(C)]
pub struct ibv_mr {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub addr: *mut c_void,
    pub length: usize,
    pub handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

/// A memory window.
#[repr(C)]
pub struct ibv_mw {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub rkey: u32,
    pub handle: u32,
    /// An `enum ibv_mw_type`.
    pub mw_type: u32,
}

/// A completion queue.
#[repr(C)]
pub struct ibv_cq {
    pub context: *mut ibv_context,
    /// A `struct ibv_comp_channel`.
    pub channel: *mut c_void,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
}

/// A shared receive queue.
#[repr(C)]
pub struct ibv_srq {
    pub context: *mut ibv_context,
    pub srq_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub handle: u32,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
}

/// A queue pair.
#[repr(C)]
pub struct ibv_qp {
    pub context: *mut ibv_context,
    pub qp_context: *mut c_void,
    pub pd: *mut ibv_pd,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub handle: u32,
    pub qp_num: u32,
    /// An `enum ibv_qp_state`, from the last call of ibv_modify_qp(3) or ibv_query_qp(3).
    pub state: u32,
    pub qp_type: u32,
    pub mutex: pthread_mutex_t,
    pub cond: pthread_cond_t,
    pub events_completed: u32,
}

/// An address handle.
#[repr(C)]
pub struct ibv_ah {
    pub context: *mut ibv_context,
    pub pd: *mut ibv_pd,
    pub handle: u32,
}

/// A scatter/gather element.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

/// Operands of WRITE and READ.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr_rdma {
    pub remote_addr: u64,
    pub rkey: u32,
}

/// Operands of compare-and-swap and fetch-and-add.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr_atomic {
    pub remote_addr: u64,
    pub compare_add: u64,
    pub swap: u64,
    pub rkey: u32,
}

/// Destination of a datagram.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr_ud {
    pub ah: *mut ibv_ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
}

/// The union `wr` of [`ibv_send_wr`].
#[repr(C)]
#[derive(Clone, Copy)]
pub union ibv_send_wr_operands {
    pub rdma: ibv_send_wr_rdma,
    pub atomic: ibv_send_wr_atomic,
    pub ud: ibv_send_wr_ud,
}

/// The range that a memory window is bound to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_mw_bind_info {
    pub mr: *mut ibv_mr,
    pub addr: u64,
    pub length: u64,
    /// `IBV_ACCESS_*`.
    pub mw_access_flags: u32,
}

/// Parameters of the bind of a memory window of type 1.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_mw_bind {
    pub wr_id: u64,
    pub send_flags: u32,
    pub bind_info: ibv_mw_bind_info,
}

/// Operands of a bind of a memory window of type 2.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_send_wr_bind_mw {
    pub mw: *mut ibv_mw,
    /// The new rkey of the window.
    pub rkey: u32,
    pub bind_info: ibv_mw_bind_info,
}

impl Default for ibv_send_wr_bind_mw {
    /// No window, for work requests that bind none.
    fn default() -> ibv_send_wr_bind_mw {
        let bind_info = ibv_mw_bind_info { mr: null_mut(), addr: 0, length: 0, mw_access_flags: 0 };
        ibv_send_wr_bind_mw { mw: null_mut(), rkey: 0, bind_info }
    }
}

/// A send work request.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_send_wr {
    pub wr_id: u64,
    pub next: *mut ibv_send_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
    /// An `enum ibv_wr_opcode`.
    pub opcode: u32,
    pub send_flags: u32,
    /// The immediate in network byte order, or the rkey to invalidate in host byte order.
    pub imm_data: u32,
    pub wr: ibv_send_wr_operands,
    /// The union `qp_type`, which only XRC uses.
    pub remote_srqn: u32,
    /// The union of memory window and segmentation operands.
    pub bind_mw: ibv_send_wr_bind_mw,
}

/// A receive work request.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_recv_wr {
    pub wr_id: u64,
    pub next: *mut ibv_recv_wr,
    pub sg_list: *mut ibv_sge,
    pub num_sge: c_int,
}

/// The first 40 bytes of the UD RECV's buffer are a GRH (`IBV_WC_GRH`).
pub const IBV_WC_GRH: u32 = 1;
/// The completion carries an immediate (`IBV_WC_WITH_IMM`).
pub const IBV_WC_WITH_IMM: u32 = 2;
/// The responder's memory window was invalidated (`IBV_WC_WITH_INV`).
pub const IBV_WC_WITH_INV: u32 = 1 << 3;

/// A work completion.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ibv_wc {
    pub wr_id: u64,
    /// An `enum ibv_wc_status`.
    pub status: u32,
    /// An `enum ibv_wc_opcode`.
    pub opcode: u32,
    pub vendor_err: u32,
    pub byte_len: u32,
    /// The immediate in network byte order. With [`IBV_WC_WITH_INV`], it is the invalidated rkey in host byte
    /// order.
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: u32,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}
