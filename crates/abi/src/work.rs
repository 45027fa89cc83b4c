//! Work requests and work completions.
#![allow(non_camel_case_types)]
#![expect(missing_docs, reason = "fields are those of infiniband/verbs.h")]

use crate::{ibv_ah, ibv_mr, ibv_mw};
use libc::c_int;
use std::ptr::null_mut;

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

/// What a memory window is bound to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_mw_bind_info {
    pub mr: *mut ibv_mr,
    pub addr: u64,
    pub length: u64,
    /// `IBV_ACCESS_*`.
    pub mw_access_flags: u32,
}

/// How to bind a memory window of type 1.
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
    /// The rkey that it is to have.
    pub rkey: u32,
    pub bind_info: ibv_mw_bind_info,
}

impl Default for ibv_send_wr_bind_mw {
    /// Of no window: what any other work request has there.
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
    /// In network byte order; or the rkey to invalidate, as it is.
    pub imm_data: u32,
    pub wr: ibv_send_wr_operands,
    /// The union `qp_type`; XRC only.
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

/// The completion carries the GRH (`IBV_WC_GRH`).
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
    /// In network byte order; with `IBV_WC_WITH_INV` the rkey that was invalidated, as it is.
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: u32,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}
