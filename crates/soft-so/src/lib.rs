//! `libibverbs.so`: the library by which unmodified programs use the software NIC. This crate has only the
//! exports. `doorbell_soft` implements the verbs.
//!
//! The library exports every symbol of rdma-core 44's libibverbs.so.1 under its version. The loader binds
//! programs and drivers to these symbols, and some programs look them up by dlvsym(3). A Rust function cannot
//! have a symbol version, so each export is a jump in assembly. `build.rs` passes the versions to the linker.
//!
//! Some programs are linked to driver libraries (perftest to libmlx5 and libefa). A driver library registers
//! its driver by a private symbol when it is loaded. Doorbell's library ignores the registration. All other
//! private symbols do nothing or report an error, except `ibv_query_gid_type`.

mod buffers;
mod descriptors;
mod files;
mod loading;
mod next;

use doorbell_soft::capi::{absent, ah, cq, device, event, marshall, mcast, mr, qp, query, srq, text};

/// Exports public symbols: `version { symbol => function; }`.
macro_rules! export {
    ($($version:literal { $($symbol:literal => $function:path;)* })*) => {
        $($(export_one!("doorbell_", "@@", $version, $symbol, $function);)*)*
    };
}

/// Exports a symbol of a version as a jump to a function. `label` makes the assembly label unique. `at` is
/// `@@` for the default version, which programs get that ask for no version. Otherwise `at` is `@`.
macro_rules! export_one {
    ($label:expr, $at:literal, $version:literal, $symbol:literal, $function:path) => {
        std::arch::global_asm!(
            concat!(".text\n.globl ", $label, $symbol, "\n.type ", $label, $symbol, ", @function"),
            concat!($label, $symbol, ":"),
            "jmp {function}",
            concat!(".size ", $label, $symbol, ", . - ", $label, $symbol),
            concat!(".symver ", $label, $symbol, ", ", $symbol, $at, $version),
            function = sym $function,
        );
    };
}

export! {
    "IBVERBS_1.0" {
        "ibv_copy_path_rec_from_kern" => marshall::ibv_copy_path_rec_from_kern;
        "ibv_copy_path_rec_to_kern" => marshall::ibv_copy_path_rec_to_kern;
        "ibv_copy_qp_attr_from_kern" => marshall::ibv_copy_qp_attr_from_kern;
        "ibv_create_comp_channel" => cq::ibv_create_comp_channel;
        "ibv_destroy_comp_channel" => cq::ibv_destroy_comp_channel;
        "ibv_get_sysfs_path" => query::ibv_get_sysfs_path;
        "ibv_rate_to_mult" => text::ibv_rate_to_mult;
        "ibv_read_sysfs_file" => query::ibv_read_sysfs_file;
        "mult_to_ibv_rate" => text::mult_to_ibv_rate;
    }
    "IBVERBS_1.1" {
        "ibv_ack_async_event" => event::ibv_ack_async_event;
        "ibv_ack_cq_events" => cq::ibv_ack_cq_events;
        "ibv_alloc_pd" => mr::ibv_alloc_pd;
        "ibv_attach_mcast" => mcast::ibv_attach_mcast;
        "ibv_close_device" => device::ibv_close_device;
        "ibv_copy_ah_attr_from_kern" => marshall::ibv_copy_ah_attr_from_kern;
        "ibv_create_ah" => ah::ibv_create_ah;
        "ibv_create_ah_from_wc" => ah::ibv_create_ah_from_wc;
        "ibv_create_cq" => cq::ibv_create_cq;
        "ibv_create_qp" => qp::ibv_create_qp;
        "ibv_create_srq" => srq::ibv_create_srq;
        "ibv_dealloc_pd" => mr::ibv_dealloc_pd;
        "ibv_dereg_mr" => mr::ibv_dereg_mr;
        "ibv_destroy_ah" => ah::ibv_destroy_ah;
        "ibv_destroy_cq" => cq::ibv_destroy_cq;
        "ibv_destroy_qp" => qp::ibv_destroy_qp;
        "ibv_destroy_srq" => srq::ibv_destroy_srq;
        "ibv_detach_mcast" => mcast::ibv_detach_mcast;
        "ibv_dofork_range" => mr::ibv_dofork_range;
        "ibv_dontfork_range" => mr::ibv_dontfork_range;
        "ibv_event_type_str" => text::ibv_event_type_str;
        "ibv_fork_init" => query::ibv_fork_init;
        "ibv_free_device_list" => device::ibv_free_device_list;
        "ibv_get_async_event" => event::ibv_get_async_event;
        "ibv_get_cq_event" => cq::ibv_get_cq_event;
        "ibv_get_device_guid" => device::ibv_get_device_guid;
        "ibv_get_device_list" => device::ibv_get_device_list;
        "ibv_get_device_name" => device::ibv_get_device_name;
        "ibv_init_ah_from_wc" => ah::ibv_init_ah_from_wc;
        "ibv_modify_qp" => qp::ibv_modify_qp;
        "ibv_modify_srq" => srq::ibv_modify_srq;
        "ibv_node_type_str" => text::ibv_node_type_str;
        "ibv_open_device" => device::ibv_open_device;
        "ibv_port_state_str" => text::ibv_port_state_str;
        "ibv_query_device" => query::ibv_query_device;
        "ibv_query_gid" => query::ibv_query_gid;
        "ibv_query_pkey" => query::ibv_query_pkey;
        "ibv_query_port" => query::ibv_query_port;
        "ibv_query_qp" => qp::ibv_query_qp;
        "ibv_query_srq" => srq::ibv_query_srq;
        "ibv_rate_to_mbps" => text::ibv_rate_to_mbps;
        "ibv_reg_mr" => mr::ibv_reg_mr;
        "ibv_rereg_mr" => mr::ibv_rereg_mr;
        "ibv_resize_cq" => cq::ibv_resize_cq;
        "ibv_resolve_eth_l2_from_gid" => absent::not_implemented;
        "ibv_wc_status_str" => text::ibv_wc_status_str;
        "mbps_to_ibv_rate" => text::mbps_to_ibv_rate;
    }
    "IBVERBS_1.5" {
        "ibv_get_pkey_index" => query::ibv_get_pkey_index;
    }
    "IBVERBS_1.6" {
        "ibv_qp_to_qp_ex" => qp::ibv_qp_to_qp_ex;
    }
    "IBVERBS_1.7" {
        "ibv_reg_mr_iova" => mr::ibv_reg_mr_iova;
    }
    "IBVERBS_1.8" {
        "ibv_reg_mr_iova2" => mr::ibv_reg_mr_iova2;
    }
    "IBVERBS_1.9" {
        "ibv_get_device_index" => device::ibv_get_device_index;
    }
    "IBVERBS_1.10" {
        "ibv_import_device" => absent::no_object;
        "ibv_import_mr" => absent::no_object;
        "ibv_import_pd" => absent::no_object;
        "ibv_query_ece" => query::ibv_query_ece;
        "ibv_set_ece" => query::ibv_set_ece;
        "ibv_unimport_mr" => absent::ignored;
        "ibv_unimport_pd" => absent::ignored;
    }
    "IBVERBS_1.11" {
        "_ibv_query_gid_ex" => query::_ibv_query_gid_ex;
        "_ibv_query_gid_table" => query::_ibv_query_gid_table;
    }
    "IBVERBS_1.12" {
        "ibv_reg_dmabuf_mr" => mr::ibv_reg_dmabuf_mr;
    }
    "IBVERBS_1.13" {
        "ibv_import_dm" => absent::no_object;
        "ibv_is_fork_initialized" => query::ibv_is_fork_initialized;
        "ibv_unimport_dm" => absent::ignored;
    }
    "IBVERBS_1.14" {
        "ibv_query_qp_data_in_order" => query::ibv_query_qp_data_in_order;
    }
}

/// Exports private symbols of one version: `version at; symbol => function;`. Several versions have the same
/// symbols, so the label contains the version.
macro_rules! export_private {
    ($version:literal $at:literal; $($symbol:literal => $function:path;)*) => {
        $(export_one!(concat!("doorbell_", $version, "_"), $at, $version, $symbol, $function);)*
    };
}

/// Exports the private symbols, to which the loader binds drivers, in each private version node.
macro_rules! export_to_drivers {
    ($($version:literal $at:literal $register:literal;)*) => {$(
        export_variable!($version $at "verbs_allow_disassociate_destroy");
        export_private! {
            $version $at;
            $register => absent::ignored;
            "__ioctl_final_num_attrs" => absent::ignored;
            "__verbs_log" => absent::ignored;
            "_verbs_init_and_alloc_context" => absent::no_object;
            "execute_ioctl" => absent::not_implemented;
            "ibv_cmd_advise_mr" => absent::not_implemented;
            "ibv_cmd_alloc_dm" => absent::not_implemented;
            "ibv_cmd_alloc_mw" => absent::not_implemented;
            "ibv_cmd_alloc_pd" => absent::not_implemented;
            "ibv_cmd_attach_mcast" => absent::not_implemented;
            "ibv_cmd_close_xrcd" => absent::not_implemented;
            "ibv_cmd_create_ah" => absent::not_implemented;
            "ibv_cmd_create_counters" => absent::not_implemented;
            "ibv_cmd_create_cq" => absent::not_implemented;
            "ibv_cmd_create_cq_ex" => absent::not_implemented;
            "ibv_cmd_create_flow" => absent::not_implemented;
            "ibv_cmd_create_flow_action_esp" => absent::not_implemented;
            "ibv_cmd_create_qp" => absent::not_implemented;
            "ibv_cmd_create_qp_ex" => absent::not_implemented;
            "ibv_cmd_create_qp_ex2" => absent::not_implemented;
            "ibv_cmd_create_rwq_ind_table" => absent::not_implemented;
            "ibv_cmd_create_srq" => absent::not_implemented;
            "ibv_cmd_create_srq_ex" => absent::not_implemented;
            "ibv_cmd_create_wq" => absent::not_implemented;
            "ibv_cmd_dealloc_mw" => absent::not_implemented;
            "ibv_cmd_dealloc_pd" => absent::not_implemented;
            "ibv_cmd_dereg_mr" => absent::not_implemented;
            "ibv_cmd_destroy_ah" => absent::not_implemented;
            "ibv_cmd_destroy_counters" => absent::not_implemented;
            "ibv_cmd_destroy_cq" => absent::not_implemented;
            "ibv_cmd_destroy_flow" => absent::not_implemented;
            "ibv_cmd_destroy_flow_action" => absent::not_implemented;
            "ibv_cmd_destroy_qp" => absent::not_implemented;
            "ibv_cmd_destroy_rwq_ind_table" => absent::not_implemented;
            "ibv_cmd_destroy_srq" => absent::not_implemented;
            "ibv_cmd_destroy_wq" => absent::not_implemented;
            "ibv_cmd_detach_mcast" => absent::not_implemented;
            "ibv_cmd_free_dm" => absent::not_implemented;
            "ibv_cmd_get_context" => absent::not_implemented;
            "ibv_cmd_modify_cq" => absent::not_implemented;
            "ibv_cmd_modify_flow_action_esp" => absent::not_implemented;
            "ibv_cmd_modify_qp" => absent::not_implemented;
            "ibv_cmd_modify_qp_ex" => absent::not_implemented;
            "ibv_cmd_modify_srq" => absent::not_implemented;
            "ibv_cmd_modify_wq" => absent::not_implemented;
            "ibv_cmd_open_qp" => absent::not_implemented;
            "ibv_cmd_open_xrcd" => absent::not_implemented;
            "ibv_cmd_poll_cq" => absent::not_implemented;
            "ibv_cmd_post_recv" => absent::not_implemented;
            "ibv_cmd_post_send" => absent::not_implemented;
            "ibv_cmd_post_srq_recv" => absent::not_implemented;
            "ibv_cmd_query_context" => absent::not_implemented;
            "ibv_cmd_query_device_any" => absent::not_implemented;
            "ibv_cmd_query_mr" => absent::not_implemented;
            "ibv_cmd_query_port" => absent::not_implemented;
            "ibv_cmd_query_qp" => absent::not_implemented;
            "ibv_cmd_query_srq" => absent::not_implemented;
            "ibv_cmd_read_counters" => absent::not_implemented;
            "ibv_cmd_reg_dm_mr" => absent::not_implemented;
            "ibv_cmd_reg_dmabuf_mr" => absent::not_implemented;
            "ibv_cmd_reg_mr" => absent::not_implemented;
            "ibv_cmd_req_notify_cq" => absent::not_implemented;
            "ibv_cmd_rereg_mr" => absent::not_implemented;
            "ibv_cmd_resize_cq" => absent::not_implemented;
            "ibv_query_gid_type" => query::ibv_query_gid_type;
            "ibv_read_ibdev_sysfs_file" => absent::not_implemented;
            "verbs_init_cq" => absent::ignored;
            "verbs_open_device" => absent::no_object;
            "verbs_set_ops" => absent::ignored;
            "verbs_uninit_context" => absent::ignored;
        }
    )*};
}

/// Exports a boolean variable that drivers read. The variable is false because no device is ever
/// disassociated.
macro_rules! export_variable {
    ($version:literal $at:literal $symbol:literal) => {
        std::arch::global_asm!(
            concat!(".data\n.globl doorbell_", $version, "\n.type doorbell_", $version, ", @object"),
            concat!("doorbell_", $version, ":"),
            ".byte 0",
            concat!(".size doorbell_", $version, ", 1"),
            concat!(".symver doorbell_", $version, ", ", $symbol, $at, $version),
            ".text",
        );
    };
}

// The name of the function that registers a driver contains the number of the version node.
export_to_drivers! {
    "IBVERBS_PRIVATE_34" "@@" "verbs_register_driver_34";
    "IBVERBS_PRIVATE_57" "@" "verbs_register_driver_57";
    "IBVERBS_PRIVATE_59" "@" "verbs_register_driver_59";
    "IBVERBS_PRIVATE_64" "@" "verbs_register_driver_64";
}
