//! Structs of attributes: of devices, ports, paths, QPs and shared receive queues.
#![allow(non_camel_case_types)]
#![expect(missing_docs, reason = "infiniband/verbs.h documents the fields")]

use crate::{ibv_cq, ibv_srq};
use libc::{c_char, c_int, c_void};

/// The device does not execute atomics (`IBV_ATOMIC_NONE`).
pub const IBV_ATOMIC_NONE: u32 = 0;

/// Limits of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ibv_device_attr {
    pub fw_ver: [c_char; 64],
    pub node_guid: u64,
    pub sys_image_guid: u64,
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: c_int,
    pub max_qp_wr: c_int,
    pub device_cap_flags: u32,
    pub max_sge: c_int,
    pub max_sge_rd: c_int,
    pub max_cq: c_int,
    pub max_cqe: c_int,
    pub max_mr: c_int,
    pub max_pd: c_int,
    pub max_qp_rd_atom: c_int,
    pub max_ee_rd_atom: c_int,
    pub max_res_rd_atom: c_int,
    pub max_qp_init_rd_atom: c_int,
    pub max_ee_init_rd_atom: c_int,
    /// An `enum ibv_atomic_cap`.
    pub atomic_cap: u32,
    pub max_ee: c_int,
    pub max_rdd: c_int,
    pub max_mw: c_int,
    pub max_raw_ipv6_qp: c_int,
    pub max_raw_ethy_qp: c_int,
    pub max_mcast_grp: c_int,
    pub max_mcast_qp_attach: c_int,
    pub max_total_mcast_qp_attach: c_int,
    pub max_ah: c_int,
    pub max_fmr: c_int,
    pub max_map_per_fmr: c_int,
    pub max_srq: c_int,
    pub max_srq_wr: c_int,
    pub max_srq_sge: c_int,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
}

/// The port carries traffic (`IBV_PORT_ACTIVE`).
pub const IBV_PORT_ACTIVE: u32 = 4;

/// Attributes of a port.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ibv_port_attr {
    /// An `enum ibv_port_state`.
    pub state: u32,
    /// An `enum ibv_mtu`.
    pub max_mtu: u32,
    /// An `enum ibv_mtu`.
    pub active_mtu: u32,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    /// An `IBV_LINK_LAYER_*`.
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
}

/// RoCEv2, over UDP (`IBV_GID_TYPE_ROCE_V2`).
pub const IBV_GID_TYPE_ROCE_V2: u32 = 2;

/// An entry of a port's GID table.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ibv_gid_entry {
    /// A `union ibv_gid`, with the alignment of a 64-bit word.
    pub gid: ibv_gid,
    pub gid_index: u32,
    pub port_num: u32,
    /// An `enum ibv_gid_type`.
    pub gid_type: u32,
    pub ndev_ifindex: u32,
}

/// A GID in network byte order.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug, Default)]
pub struct ibv_gid {
    pub raw: [u8; 16],
}

/// Fields of a path's global route header.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ibv_global_route {
    pub dgid: ibv_gid,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

/// An address vector: the path to a destination port.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ibv_ah_attr {
    pub grh: ibv_global_route,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}

/// Sizes of a shared receive queue, and the limit for `IBV_EVENT_SRQ_LIMIT_REACHED`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ibv_srq_attr {
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}

/// Parameters of a new shared receive queue.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_srq_init_attr {
    pub srq_context: *mut c_void,
    pub attr: ibv_srq_attr,
}

/// Sizes of a QP's queues.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ibv_qp_cap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

/// Parameters of a new QP.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ibv_qp_init_attr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut ibv_cq,
    pub recv_cq: *mut ibv_cq,
    pub srq: *mut ibv_srq,
    pub cap: ibv_qp_cap,
    /// An `enum ibv_qp_type`.
    pub qp_type: u32,
    pub sq_sig_all: c_int,
}

/// Attributes of a QP.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ibv_qp_attr {
    /// An `enum ibv_qp_state`.
    pub qp_state: u32,
    /// An `enum ibv_qp_state`.
    pub cur_qp_state: u32,
    /// An `enum ibv_mtu`.
    pub path_mtu: u32,
    /// An `enum ibv_mig_state`.
    pub path_mig_state: u32,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: u32,
    pub cap: ibv_qp_cap,
    pub ah_attr: ibv_ah_attr,
    pub alt_ah_attr: ibv_ah_attr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}

/// Mask bits that select the fields of [`ibv_qp_attr`] (`enum ibv_qp_attr_mask`).
pub mod ibv_qp_attr_mask {
    pub const IBV_QP_STATE: i32 = 1 << 0;
    pub const IBV_QP_ACCESS_FLAGS: i32 = 1 << 3;
    pub const IBV_QP_PKEY_INDEX: i32 = 1 << 4;
    pub const IBV_QP_PORT: i32 = 1 << 5;
    pub const IBV_QP_QKEY: i32 = 1 << 6;
    pub const IBV_QP_AV: i32 = 1 << 7;
    pub const IBV_QP_PATH_MTU: i32 = 1 << 8;
    pub const IBV_QP_TIMEOUT: i32 = 1 << 9;
    pub const IBV_QP_RETRY_CNT: i32 = 1 << 10;
    pub const IBV_QP_RNR_RETRY: i32 = 1 << 11;
    pub const IBV_QP_RQ_PSN: i32 = 1 << 12;
    pub const IBV_QP_MAX_QP_RD_ATOMIC: i32 = 1 << 13;
    pub const IBV_QP_MIN_RNR_TIMER: i32 = 1 << 15;
    pub const IBV_QP_SQ_PSN: i32 = 1 << 16;
    pub const IBV_QP_MAX_DEST_RD_ATOMIC: i32 = 1 << 17;
    pub const IBV_QP_DEST_QPN: i32 = 1 << 20;
}
