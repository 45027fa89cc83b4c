//! The ABI between librdmacm and the kernel, version 4.
//!
//! librdmacm writes commands to `/dev/infiniband/rdma_cm`. A command is a header, followed by a struct. If
//! the struct has a field `response`, the kernel writes its response to this address. The definitions are in
//! rdma_user_cm.h, ib_user_verbs.h and ib_user_sa.h of Linux's uapi.
//!
//! Structs and fields have their C names. The structs of commands and responses have only integer fields and
//! no padding. So their bytes are exactly their fields, and any bytes are a valid struct.
#![allow(missing_docs, reason = "the headers name the fields")]
#![allow(non_camel_case_types)]

use crate::ibv_gid;
use std::mem::offset_of;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes};

/// Version of the ABI.
pub const RDMA_USER_CM_ABI_VERSION: u32 = 4;
/// Maximum size of private data, in bytes.
pub const RDMA_MAX_PRIVATE_DATA: usize = 256;

macro_rules! structs {
    ($($(#[$about:meta])* $name:ident: $size:literal { $($(#[$on:meta])* $field:ident: $t:ty),* $(,)? })*) => {$(
        $(#[$about])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
        pub struct $name { $($(#[$on])* pub $field: $t,)* }

        impl Default for $name {
            fn default() -> Self {
                Self::new_zeroed()
            }
        }

        const _: () = assert!(size_of::<$name>() == $size);
    )*};
}

/// Commands (`RDMA_USER_CM_CMD_*`).
pub mod command {
    pub const CREATE_ID: u32 = 0;
    pub const DESTROY_ID: u32 = 1;
    pub const BIND_IP: u32 = 2;
    pub const RESOLVE_IP: u32 = 3;
    pub const RESOLVE_ROUTE: u32 = 4;
    pub const QUERY_ROUTE: u32 = 5;
    pub const CONNECT: u32 = 6;
    pub const LISTEN: u32 = 7;
    pub const ACCEPT: u32 = 8;
    pub const REJECT: u32 = 9;
    pub const DISCONNECT: u32 = 10;
    pub const INIT_QP_ATTR: u32 = 11;
    pub const GET_EVENT: u32 = 12;
    pub const SET_OPTION: u32 = 14;
    pub const NOTIFY: u32 = 15;
    pub const JOIN_IP_MCAST: u32 = 16;
    pub const LEAVE_MCAST: u32 = 17;
    pub const MIGRATE_ID: u32 = 18;
}

/// `enum rdma_cm_event_type`.
pub mod event {
    pub const ADDR_RESOLVED: u32 = 0;
    pub const ADDR_ERROR: u32 = 1;
    pub const ROUTE_RESOLVED: u32 = 2;
    pub const ROUTE_ERROR: u32 = 3;
    pub const CONNECT_REQUEST: u32 = 4;
    pub const CONNECT_RESPONSE: u32 = 5;
    pub const CONNECT_ERROR: u32 = 6;
    pub const UNREACHABLE: u32 = 7;
    pub const REJECTED: u32 = 8;
    pub const ESTABLISHED: u32 = 9;
    pub const DISCONNECTED: u32 = 10;
    pub const DEVICE_REMOVAL: u32 = 11;
    pub const MULTICAST_JOIN: u32 = 12;
    pub const MULTICAST_ERROR: u32 = 13;
    pub const ADDR_CHANGE: u32 = 14;
    pub const TIMEWAIT_EXIT: u32 = 15;
}

/// Port spaces (`enum rdma_ucm_port_space`).
pub mod port_space {
    pub const IPOIB: u16 = 0x0002;
    pub const IB: u16 = 0x013f;
    pub const TCP: u16 = 0x0106;
    pub const UDP: u16 = 0x0111;
}

/// A `struct sockaddr_in6`, or a `sockaddr_in` padded with zeros.
pub type Address = [u8; 28];

structs! {
    rdma_ucm_cmd_hdr: 8 { cmd: u32, r#in: u16, out: u16 }
    rdma_ucm_create_id: 24 { uid: u64, response: u64, ps: u16, qp_type: u8, reserved: [u8; 5] }
    rdma_ucm_create_id_resp: 4 { id: u32 }
    rdma_ucm_destroy_id: 16 { response: u64, id: u32, reserved: u32 }
    /// The response to DESTROY_ID, MIGRATE_ID and LEAVE_MCAST.
    rdma_ucm_destroy_id_resp: 4 { events_reported: u32 }
    rdma_ucm_bind_ip: 40 { response: u64, addr: Address, id: u32 }
    rdma_ucm_resolve_ip: 64 { src_addr: Address, dst_addr: Address, id: u32, timeout_ms: u32 }
    rdma_ucm_resolve_route: 8 { id: u32, timeout_ms: u32 }
    rdma_ucm_query: 16 { response: u64, id: u32, option: u32 }
    ib_user_path_rec: 64 {
        dgid: [u8; 16], sgid: [u8; 16],
        /// In network byte order, like `slid`, `flow_label` and `pkey`.
        dlid: u16,
        slid: u16, raw_traffic: u32, flow_label: u32, reversible: u32, mtu: u32, pkey: u16, hop_limit: u8,
        traffic_class: u8, numb_path: u8, sl: u8, mtu_selector: u8, rate_selector: u8, rate: u8,
        packet_life_time_selector: u8, packet_life_time: u8, preference: u8,
    }
    rdma_ucm_query_route_resp: 208 {
        node_guid: u64, ib_route: [ib_user_path_rec; 2], src_addr: Address, dst_addr: Address, num_paths: u32,
        port_num: u8, reserved: [u8; 3], ibdev_index: u32, reserved1: u32,
    }
    rdma_ucm_conn_param: 272 {
        qp_num: u32, qkey: u32, private_data: [u8; RDMA_MAX_PRIVATE_DATA], private_data_len: u8, srq: u8,
        responder_resources: u8, initiator_depth: u8, flow_control: u8, retry_count: u8, rnr_retry_count: u8, valid: u8,
    }
    ib_uverbs_global_route: 24 {
        dgid: [u8; 16], flow_label: u32, sgid_index: u8, hop_limit: u8, traffic_class: u8, reserved: u8,
    }
    ib_uverbs_ah_attr: 32 {
        grh: ib_uverbs_global_route, dlid: u16, sl: u8, src_path_bits: u8, static_rate: u8, is_global: u8, port_num: u8,
        reserved: u8,
    }
    rdma_ucm_ud_param: 304 {
        qp_num: u32, qkey: u32, ah_attr: ib_uverbs_ah_attr, private_data: [u8; RDMA_MAX_PRIVATE_DATA],
        private_data_len: u8, reserved: [u8; 7],
    }
    /// Without the field `ece`, which later headers append.
    rdma_ucm_connect: 280 { conn_param: rdma_ucm_conn_param, id: u32, reserved: u32 }
    rdma_ucm_listen: 8 { id: u32, backlog: u32 }
    /// Without the field `ece`, which later headers append.
    rdma_ucm_accept: 288 { uid: u64, conn_param: rdma_ucm_conn_param, id: u32, reserved: u32 }
    rdma_ucm_reject: 264 {
        id: u32, private_data_len: u8, reason: u8, reserved: [u8; 2], private_data: [u8; RDMA_MAX_PRIVATE_DATA],
    }
    rdma_ucm_disconnect: 4 { id: u32 }
    rdma_ucm_init_qp_attr: 16 { response: u64, id: u32, qp_state: u32 }
    rdma_ucm_notify: 8 { id: u32, event: u32 }
    rdma_ucm_join_ip_mcast: 48 { response: u64, uid: u64, addr: Address, id: u32 }
    rdma_ucm_get_event: 8 { response: u64 }
    rdma_ucm_event_resp: 336 {
        uid: u64, id: u32, event: u32, status: u32,
        /// A `rdma_ucm_conn_param`, or on UD a `rdma_ucm_ud_param`.
        param: [u8; 304],
        reserved: u32, ece: [u32; 2],
    }
    rdma_ucm_set_option: 24 { optval: u64, id: u32, level: u32, optname: u32, optlen: u32 }
    rdma_ucm_migrate_id: 16 { response: u64, id: u32, fd: u32 }
    ib_uverbs_qp_attr: 144 {
        qp_attr_mask: u32, qp_state: u32, cur_qp_state: u32, path_mtu: u32, path_mig_state: u32, qkey: u32, rq_psn: u32,
        sq_psn: u32, dest_qp_num: u32, qp_access_flags: u32, ah_attr: ib_uverbs_ah_attr, alt_ah_attr: ib_uverbs_ah_attr,
        max_send_wr: u32, max_recv_wr: u32, max_send_sge: u32, max_recv_sge: u32, max_inline_data: u32, pkey_index: u16,
        alt_pkey_index: u16, en_sqd_async_notify: u8, sq_draining: u8, max_rd_atomic: u8, max_dest_rd_atomic: u8,
        min_rnr_timer: u8, port_num: u8, timeout: u8, retry_cnt: u8, rnr_retry: u8, alt_port_num: u8, alt_timeout: u8,
        reserved: [u8; 5],
    }
}

/// The path record that librdmacm gives to programs (infiniband/sa.h). It has the fields of
/// [`ib_user_path_rec`] in another layout.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ibv_sa_path_rec {
    pub dgid: ibv_gid,
    pub sgid: ibv_gid,
    pub dlid: u16,
    pub slid: u16,
    pub raw_traffic: i32,
    pub flow_label: u32,
    pub hop_limit: u8,
    pub traffic_class: u8,
    pub reversible: i32,
    pub numb_path: u8,
    pub pkey: u16,
    pub sl: u8,
    pub mtu_selector: u8,
    pub mtu: u8,
    pub rate_selector: u8,
    pub rate: u8,
    pub packet_life_time_selector: u8,
    pub packet_life_time: u8,
    pub preference: u8,
}

const _: () = {
    assert!(size_of::<ibv_sa_path_rec>() == 64 && offset_of!(ibv_sa_path_rec, reversible) == 48);
    assert!(offset_of!(ibv_sa_path_rec, pkey) == 54 && offset_of!(ibv_sa_path_rec, preference) == 63);
};
