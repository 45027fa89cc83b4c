//! Where the kernel's Soft-RoCE is known to depart from the suite.

use crate::KnownDifference;

/// Checks that `rdma_rxe` of Linux 6.1, through rdma-core 44, is known to fail, each found by
/// running it. Nothing else may fail there, and each of these must.
pub const SOFT_ROCE_DIFFERENCES: &[KnownDifference] = &[
    KnownDifference {
        check: "states/sqd_holds_back",
        reason: "what was posted in Sqd stays where it is after the return to Rts",
    },
    KnownDifference { check: "keys/wrong_lkey_status", reason: "the status is LocQpOpErr" },
    KnownDifference { check: "keys/lkey_of_other_pd_status", reason: "the status is LocQpOpErr" },
    KnownDifference { check: "keys/recv_protection_error", reason: "the status is LocQpOpErr" },
    KnownDifference {
        check: "rnr/recv_too_small_statuses",
        reason: "the statuses are RemOpErr at the requester and LocQpOpErr at the responder",
    },
    KnownDifference {
        check: "flush/recvs_posted_in_error",
        reason: "posting a RECV does not wake the kernel, so it is not flushed",
    },
];
