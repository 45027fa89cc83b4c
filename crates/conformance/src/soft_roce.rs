//! Known differences between the kernel's Soft-RoCE and the suite.

use crate::KnownDifference;

/// Checks that `rdma_rxe` of Linux 6.1 fails with rdma-core 44. Runs of the suite showed this list. All of
/// these checks must fail there, and no other check may fail.
pub const SOFT_ROCE_DIFFERENCES: &[KnownDifference] = &[
    KnownDifference {
        check: "states/sqd_holds_back",
        reason: "work requests posted in Sqd stay in the queue after the return to Rts",
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
        reason: "posting a RECV does not wake the kernel, so the RECV is not flushed",
    },
];
