//! Connect-IB, ConnectX-4 and later.

use super::layout::{ALONE_BY_MMIO, CompletionLayout, GenerationLayout, INFINIBAND, TABLE_1};

pub(super) const LAYOUT: GenerationLayout = GenerationLayout {
    wqe: TABLE_1,
    posting: ALONE_BY_MMIO,
    headers: INFINIBAND,
    completion: CompletionLayout { sizes: &[64, 128] },
};
