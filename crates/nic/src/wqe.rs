//! Cache lines of work queue elements (WQEs) on Mellanox NICs.
//!
//! Slots are padded to cache lines (ATC'16, 2.2.2). The generation decides what a WQE holds
//! ([`crate::generation::WqeLayout`]).

/// Bytes of a cache line: the unit of a slot, and the size of a write-combined MMIO.
pub const LINE: u32 = 64;

/// How a send WQE carries or points to its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// None: the message is header-only.
    None,
    /// This many bytes in the WQE.
    Inline(u32),
    /// This many SGEs that point to the payload.
    Sges(u32),
}

/// Cache lines that `bytes` of a WQE occupy.
pub const fn lines(bytes: u32) -> u32 {
    bytes.div_ceil(LINE)
}

/// Bytes of a WQE's slot (x' in the paper, 2.2.3).
pub const fn pad(bytes: u32) -> u32 {
    lines(bytes) * LINE
}
