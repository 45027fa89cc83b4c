//! ConnectX to ConnectX-3.

use super::layout::{ALONE_BY_MMIO, CompletionLayout, GenerationLayout, INFINIBAND, TABLE_1};

pub(super) const LAYOUT: GenerationLayout = GenerationLayout {
    wqe: TABLE_1,
    posting: ALONE_BY_MMIO,
    headers: INFINIBAND,
    // The driver asks for CQEs of 64 bytes if the host's cache lines have 64 bytes.
    completion: CompletionLayout { sizes: &[32, 64] },
};
