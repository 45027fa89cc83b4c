//! ConnectX to ConnectX-3.

use super::{ALONE_BY_MMIO, CompletionLayout, INFINIBAND, Layout, TABLE_1};

pub(super) const LAYOUT: Layout = Layout {
    wqe: TABLE_1,
    posting: ALONE_BY_MMIO,
    headers: INFINIBAND,
    // Its driver asks for CQEs of 64 bytes where the host's cache lines have so many.
    completion: CompletionLayout { sizes: &[32, 64] },
};
