//! Objects that libibverbs allocates and programs hold pointers to.
#![allow(non_camel_case_types)]
#![expect(missing_docs, reason = "fields are those of infiniband/verbs.h")]

use crate::{ibv_mw_bind, ibv_recv_wr, ibv_send_wr, ibv_wc};
use libc::{c_char, c_int, c_void, pthread_cond_t, pthread_mutex_t};

/// Entries of the operations table that no program calls any more.
type Unused<const N: usize> = [*mut c_void; N];

/// `ibv_poll_cq(3)`: returns the number of completions, or a negative value.
pub type PollCq = unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int;
/// `ibv_post_srq_recv(3)`: returns an errno; on failure the last argument names the first work
/// request that was not posted.
pub type PostSrqRecv = unsafe extern "C" fn(*mut ibv_srq, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;
/// `ibv_post_send(3)`; as [`PostSrqRecv`].
pub type PostSend = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;
/// `ibv_post_recv(3)`; as [`PostSrqRecv`].
pub type PostRecv = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int;

/// `ibv_alloc_mw(3)`: returns null and sets errno where it fails.
pub type AllocMw = unsafe extern "C" fn(*mut ibv_pd, u32) -> *mut ibv_mw;
/// `ibv_bind_mw(3)`: returns an errno.
pub type BindMw = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_mw, *mut ibv_mw_bind) -> c_int;
/// `ibv_dealloc_mw(3)`: returns an errno.
pub type DeallocMw = unsafe extern "C" fn(*mut ibv_mw) -> c_int;
/// `ibv_req_notify_cq(3)`: returns an errno.
pub type ReqNotifyCq = unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int;

/// The operations that verbs.h calls inline, through the context.
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
    /// An `enum ibv_qp_state`: what the last ibv_modify_qp(3) or ibv_query_qp(3) left.
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
