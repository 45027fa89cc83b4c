//! ConnectX to ConnectX-3.

use super::layout::{ALONE_BY_MMIO, CompletionLayout, GenerationLayout, INFINIBAND, TABLE_1};

pub(super) const LAYOUT: GenerationLayout = GenerationLayout {
    wqe: TABLE_1,
    posting: ALONE_BY_MMIO,
    headers: INFINIBAND,
    // Its driver asks for CQEs of 64 bytes where the host's cache lines have so many.
    completion: CompletionLayout { sizes: &[32, 64] },
};
