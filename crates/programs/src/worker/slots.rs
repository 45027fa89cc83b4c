//! Slots of outstanding operations in a ring, and the work request ids that name them.

/// `n % len`, without a division for the usual `n` below `2 * len`.
pub(super) fn wrap(n: usize, len: usize) -> usize {
    if n < len {
        n
    } else if n - len < len {
        n - len
    } else {
        n % len
    }
}

/// The `wr_id` of a work request: the index of its ring (or QP) and its slot there.
pub(super) fn wr_id(ring: usize, slot: usize) -> u64 {
    (ring as u64) << 32 | slot as u64
}

/// The inverse of [`wr_id`].
pub(super) fn from_wr_id(wr_id: u64) -> (usize, usize) {
    ((wr_id >> 32) as usize, wr_id as u32 as usize)
}
