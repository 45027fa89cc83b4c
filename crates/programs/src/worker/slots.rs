//! Arithmetic on slots of a ring, and the `wr_id`s that identify slots.

/// `n % len`. Avoids the division in the usual case that `n` is below `2 * len`.
pub(super) fn wrap(n: usize, len: usize) -> usize {
    if n < len {
        n
    } else if n - len < len {
        n - len
    } else {
        n % len
    }
}

/// The `wr_id` of a work request: the index of its ring (for RECVs, of its QP; for QPs that threads share, of
/// the thread), and its slot in it.
pub(super) fn wr_id(ring: usize, slot: usize) -> u64 {
    (ring as u64) << 32 | slot as u64
}

/// The inverse of [`wr_id`].
pub(super) fn from_wr_id(wr_id: u64) -> (usize, usize) {
    ((wr_id >> 32) as usize, wr_id as u32 as usize)
}
