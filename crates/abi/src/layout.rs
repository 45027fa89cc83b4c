//! Compile-time checks of sizes and offsets on x86-64 Linux. A C compiler computed the values from rdma-core
//! 44's verbs.h.
#![cfg(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"))]

use crate::*;
use std::mem::{offset_of, size_of};

macro_rules! layout {
    ($($type:ident: $size:literal { $($field:ident @ $offset:literal),* $(,)? })*) => {
        const _: () = {$(
            assert!(size_of::<$type>() == $size);
            $(assert!(offset_of!($type, $field) == $offset);)*
        )*};
    };
}

layout! {
    ibv_context_ops: 256 {
        alloc_mw @ 56, bind_mw @ 64, dealloc_mw @ 72, poll_cq @ 88, req_notify_cq @ 96, post_srq_recv @ 160, post_send @ 200, post_recv @ 208 }
    ibv_context: 328 { device @ 0, ops @ 8, cmd_fd @ 264, async_fd @ 268, mutex @ 280, abi_compat @ 320 }
    ibv_device: 664 { node_type @ 16, name @ 24, dev_name @ 88, dev_path @ 152, ibdev_path @ 408 }
    ibv_pd: 16 { handle @ 8 }
    ibv_mr: 48 { lkey @ 36, rkey @ 40 }
    ibv_mw: 32 { pd @ 8, rkey @ 16, handle @ 20, mw_type @ 24 }
    ibv_mw_bind_info: 32 { addr @ 8, length @ 16, mw_access_flags @ 24 }
    ibv_mw_bind: 48 { send_flags @ 8, bind_info @ 16 }
    ibv_send_wr_bind_mw: 48 { rkey @ 8, bind_info @ 16 }
    ibv_cq: 128 { cqe @ 28, async_events_completed @ 124 }
    ibv_srq: 128 { events_completed @ 120 }
    ibv_qp: 160 { qp_num @ 52, state @ 56, qp_type @ 60, mutex @ 64, events_completed @ 152 }
    ibv_ah: 24 { handle @ 16 }
    ibv_sge: 16 { length @ 8, lkey @ 12 }
    ibv_send_wr: 128 {
        num_sge @ 24, opcode @ 28, send_flags @ 32, imm_data @ 36, wr @ 40, remote_srqn @ 72, bind_mw @ 80,
    }
    ibv_send_wr_operands: 32 {}
    ibv_recv_wr: 32 { num_sge @ 24 }
    ibv_wc: 48 { imm_data @ 24, qp_num @ 28, src_qp @ 32, wc_flags @ 36, dlid_path_bits @ 45 }
    ibv_device_attr: 232 {
        max_qp_wr @ 112, max_sge @ 120, max_cqe @ 132, max_qp_rd_atom @ 144, max_qp_init_rd_atom @ 156,
        atomic_cap @ 164, max_srq @ 212, max_srq_wr @ 216, phys_port_cnt @ 227,
    }
    ibv_port_attr: 52 { lid @ 34, phys_state @ 45, link_layer @ 46, port_cap_flags2 @ 48 }
    ibv_gid_entry: 32 { gid_index @ 16, gid_type @ 24 }
    ibv_global_route: 24 { sgid_index @ 20 }
    ibv_ah_attr: 32 { dlid @ 24, port_num @ 30 }
    ibv_srq_attr: 12 {}
    ibv_srq_init_attr: 24 { attr @ 8 }
    ibv_qp_cap: 20 {}
    ibv_qp_init_attr: 64 { cap @ 32, qp_type @ 52, sq_sig_all @ 56 }
    ibv_qp_attr: 144 {
        cap @ 36, ah_attr @ 56, alt_ah_attr @ 88, pkey_index @ 120, max_rd_atomic @ 126, rnr_retry @ 132,
        rate_limit @ 136,
    }
    verbs_context: 648 {
        query_port @ 0, reg_dm_mr @ 56, alloc_dm @ 64, free_dm @ 72, alloc_parent_domain @ 112, dealloc_td @ 120, alloc_td @ 128, modify_cq @ 136,
        query_rt_values @ 192, create_cq_ex @ 200, query_device_ex @ 216, open_qp @ 256, create_qp_ex @ 264,
        get_srq_num @ 272, create_srq_ex @ 280, open_xrcd @ 288, close_xrcd @ 296, sz @ 312, context @ 320,
    }
    ibv_qp_ex: 352 {
        comp_mask @ 160, wr_id @ 168, wr_flags @ 176, wr_atomic_cmp_swp @ 184, wr_rdma_read @ 216, wr_send @ 240,
        wr_set_ud_addr @ 272, wr_set_inline_data @ 288, wr_start @ 320, wr_complete @ 328, wr_abort @ 336,
    }
    ibv_cq_ex: 288 {
        comp_mask @ 128, status @ 132, wr_id @ 136, start_poll @ 144, next_poll @ 152, end_poll @ 160,
        read_opcode @ 168, read_byte_len @ 184, read_completion_wallclock_ns @ 280,
    }
    ibv_comp_channel: 16 { fd @ 8 }
    ibv_async_event: 16 { event_type @ 8 }
    ibv_qp_init_attr_ex: 136 { comp_mask @ 60, pd @ 64, create_flags @ 80, source_qpn @ 120, send_ops_flags @ 128 }
    ibv_srq_init_attr_ex: 64 { comp_mask @ 20, srq_type @ 24, pd @ 32 }
    ibv_cq_init_attr_ex: 56 {
        cq_context @ 8, channel @ 16, comp_vector @ 24, wc_flags @ 32, comp_mask @ 40, flags @ 44, parent_domain @ 48,
    }
    ibv_device_attr_ex: 400 {
        comp_mask @ 232, odp_general_caps @ 240, odp_per_transport @ 248, completion_timestamp_mask @ 264, hca_core_clock @ 272, device_cap_flags_ex @ 280,
        cq_mod_caps @ 368, max_dm_size @ 376, phys_port_cnt_ex @ 396,
    }
    ibv_alloc_dm_attr: 16 { log_align_req @ 8 }
    ibv_td_init_attr: 4 {}
    ibv_parent_domain_init_attr: 48 { td @ 8, comp_mask @ 16, allocators @ 24, pd_context @ 40 }
    ibv_modify_cq_attr: 8 { moderate @ 4 }
    ibv_values_ex: 24 { raw_clock @ 8 }
    ibv_dm: 32 { memcpy_to_dm @ 8, memcpy_from_dm @ 16, handle @ 28 }
    ibv_grh: 40 { sgid @ 8, dgid @ 24 }
    ibv_data_buf: 16 {}
    ibv_xrcd: 8 {}
    ibv_xrcd_init_attr: 12 { oflags @ 8 }
    ibv_qp_open_attr: 32 { qp_num @ 4, xrcd @ 8, qp_context @ 16, qp_type @ 24 }
}
