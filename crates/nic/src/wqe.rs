//! Lines that work queue elements (WQEs) take on Mellanox NICs.
//!
//! Slots are padded to cache lines (ATC'16, 2.2.2). What a WQE holds is its generation's
//! ([`crate::generation::WqeLayout`]).

/// Bytes of a slot's unit, and of a write-combined MMIO.
pub const LINE: u32 = 64;

/// How the payload of a send WQE is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// None: the message is header-only.
    None,
    /// In the WQE, this many bytes.
    Inline(u32),
    /// By this many SGEs.
    Sges(u32),
}

/// Cache lines that `bytes` of a WQE take.
pub const fn lines(bytes: u32) -> u32 {
    bytes.div_ceil(LINE)
}

/// Bytes of the slot of a WQE (x' in the paper, 2.2.3).
pub const fn pad(bytes: u32) -> u32 {
    lines(bytes) * LINE
}
