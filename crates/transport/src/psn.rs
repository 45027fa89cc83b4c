//! Arithmetic of packet sequence numbers: 24 bits, wrapping (IB specification vol. 1, 9.7.2).

/// The largest PSN.
const MASK: u32 = 0xff_ffff;

/// Half of the PSN space: so many packets may be outstanding, and a PSN at least this far ahead of
/// the expected one is behind it.
pub(crate) const HALF: u32 = 1 << 23;

/// The PSN `n` packets after `psn`.
pub(crate) const fn add(psn: u32, n: u32) -> u32 {
    psn.wrapping_add(n) & MASK
}

/// How many packets `psn` is ahead of `from`, from 0 to 2^24 - 1.
pub(crate) const fn sub(psn: u32, from: u32) -> u32 {
    psn.wrapping_sub(from) & MASK
}
