//! Arithmetic of packet sequence numbers: 24 bits, wrapping (IB specification vol. 1, 9.7.2).

/// The largest PSN.
const MASK: u32 = 0xff_ffff;

/// Half of the PSN space. At most this many packets may be outstanding. A PSN at least this far ahead of the
/// expected PSN counts as an earlier PSN.
pub(crate) const HALF: u32 = 1 << 23;

/// The PSN `n` packets after `psn`.
pub(crate) const fn add(psn: u32, n: u32) -> u32 {
    psn.wrapping_add(n) & MASK
}

/// Distance from `from` to `psn` in packets, from 0 to 2^24 - 1.
pub(crate) const fn sub(psn: u32, from: u32) -> u32 {
    psn.wrapping_sub(from) & MASK
}
