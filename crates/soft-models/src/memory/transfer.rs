//! Stands in for the module of `doorbell-soft` that copies payload.

/// Copies a few bytes.
///
/// # Safety
/// Both ranges are mapped, and do not overlap.
pub(crate) unsafe fn copy_short(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller guarantees it.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
}
