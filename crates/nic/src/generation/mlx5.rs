//! Connect-IB, ConnectX-4 and later.

use super::{ALONE_BY_MMIO, CompletionLayout, INFINIBAND, Layout, TABLE_1};

pub(super) const LAYOUT: Layout = Layout {
    wqe: TABLE_1,
    posting: ALONE_BY_MMIO,
    headers: INFINIBAND,
    completion: CompletionLayout { sizes: &[64, 128] },
};
