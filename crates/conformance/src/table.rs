//! The suite: one row for each check.

use crate::bench::Bench;
use crate::step::{CheckStep, failed};
use doorbell_verbs::Provider;

/// A check's row in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TableCheck {
    /// Name: `group/check`. The group is the file, and the check is the function.
    pub(crate) name: &'static str,
    /// Number of machines that the check needs. With two machines, the function runs on both.
    pub(crate) machines: u32,
}

macro_rules! suite {
    ($($group:ident { $($machines:literal $check:ident)* })*) => {
        /// All checks, in the order in which they run.
        pub(crate) const SUITE: &[TableCheck] = &[$($(
            TableCheck { name: concat!(stringify!($group), "/", stringify!($check)), machines: $machines },
        )*)*];

        /// Runs the check of this name.
        pub(crate) fn body<P: Provider>(name: &str, bench: &Bench<P>) -> CheckStep {
            $($(
                if name == concat!(stringify!($group), "/", stringify!($check)) {
                    return crate::$group::$check(bench);
                }
            )*)*
            Err(failed(format!("no check is called {name}")))
        }
    };
}

suite! {
    states {
        1 new_qp_is_reset
        1 full_circle
        1 any_state_to_error_and_reset
        1 illegal_transitions
        1 missing_attributes
        1 foreign_attributes
        1 bad_port
        1 path_without_gid
        1 any_rnr_timer
        1 no_sends_before_rts
        1 recvs_from_init_on
        2 rtr_receives
        1 reset_forgets
        1 sqd_holds_back
    }
    verbs_per_transport {
        2 rc_send
        2 rc_send_with_imm
        2 rc_write
        2 rc_write_with_imm
        2 rc_read
        2 uc_send
        2 uc_send_with_imm
        2 uc_write
        2 uc_write_with_imm
        2 ud_send
        2 ud_send_with_imm
        2 every_mtu
        1 uc_refuses
        1 ud_refuses
        2 gather_and_scatter
        2 scatter_apart
        2 no_sges
        2 rc_inline
        2 uc_inline
        2 ud_inline
        2 inline_write
    }
    completions {
        2 fields
        1 byte_len_of_read
        2 unsignaled
        2 slots_are_reclaimed
        2 sq_sig_all
        2 failures_are_signaled
        1 polls_many
        2 lists
        2 one_cq_for_all
    }
    ordering {
        2 completions_in_post_order
        2 write_then_send
        2 write_with_imm_has_landed
        2 read_after_write
        2 later_write_stays
        2 last_byte_last
        2 whole_words
        2 fence_after_read
        2 fenced_write_after_read
        2 atomics_in_order
        2 recvs_in_order
    }
    atomics {
        2 compare_swap
        2 fetch_add
        2 concurrent_sum
        2 lock
        2 misaligned
        1 refused_without
    }
    keys {
        2 wrong_rkey
        2 stale_rkey
        2 rkey_of_other_pd
        2 rkey_out_of_bounds
        2 bounds_are_exact
        2 rights_of_region
        2 rights_of_qp
        2 refusal_ends_responder
        2 nothing_of_a_long_write
        2 zero_length_needs_no_rkey
        2 uc_drops_bad_writes
        2 uc_rights_of_qp
        2 uc_rights_of_region
        2 wrong_lkey
        2 wrong_lkey_status
        2 wrong_lkey_of_read
        2 lkey_of_other_pd
        2 lkey_of_other_pd_status
        2 lkey_out_of_bounds
        2 read_needs_local_write
        2 atomic_needs_local_write
        2 sending_needs_no_rights
        2 recv_needs_local_write
        2 recv_protection_error
        1 remote_write_needs_local
        2 regions_may_overlap
    }
    limits {
        1 no_such_device
        1 over_device_limits
        1 empty_cq
        1 too_many_sges
        1 too_much_inline
        1 too_many_recv_sges
        2 send_queue_full
        1 recv_queue_full
        1 srq_full
        1 empty_list
    }
    rnr {
        2 no_retry
        2 few_retries
        2 write_with_imm_needs_recv
        2 late_recv
        2 one_sided_needs_none
        2 exact_fit
        2 recv_too_small
        2 recv_too_small_statuses
        2 uc_drops
        2 ud_drops
    }
    flush {
        2 sends_after_a_failure
        1 recvs
        2 waiting_sends
        1 sends_posted_in_error
        1 recvs_posted_in_error
        2 recvs_of_a_refusing_responder
        2 recvs_when_retries_run_out
        1 only_the_rest
        2 recovery
    }
    srq {
        2 rc_shared
        2 ud_shared
        2 empty_then_filled
        1 no_own_recvs
        2 survives_a_qp
    }
    datagrams {
        2 grh_offset
        2 wrong_qkey
        2 wrong_qpn
        2 over_mtu
        2 many_to_many
        1 to_itself
        2 answer
        1 no_destination
        1 bad_address_handles
    }
    connections {
        2 no_peer
        2 peer_in_reset
        2 peer_in_init
        2 peer_in_error
        2 late_peer
        2 two_side_by_side
        2 both_ways
        1 to_itself
        2 one_read_at_a_time
        2 many_reads_at_a_time
        1 too_many_rd_atomic
        2 psn_wraps
    }
    sockets {
        2 in_order
        2 parts
        2 both_ways
        2 two_apart
        2 before_accept
        2 end_of_stream
        2 closed_while_sending
        2 full_window
        2 peer_goes
        2 peer_gone
        2 nobody_listens
        2 poll_waits
        2 poll_first
        1 wrong_sockets
    }
}
