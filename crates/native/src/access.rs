//! Access to memory that a device or another thread may touch at the same time.
//!
//! Everything goes through atomics, so that neither the compiler splits or repeats an access nor
//! two threads race in the sense of the language. Words of different sizes may overlap, as they do
//! in DMA; what such accesses see is what the hardware gives.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

/// Bytes of the words that longer accesses are made of.
const WORD: usize = 8;

/// Loads `into.len()` bytes from `from`; what happens later in the program stays behind the loads.
///
/// # Safety
/// `from` is valid for reads of that many bytes, which are only ever accessed through this module
/// or by a device.
pub(crate) unsafe fn load(from: *const u8, into: &mut [u8]) {
    let mut at = 0;
    while at < into.len() {
        // SAFETY: `at` is within the range.
        let source = unsafe { from.add(at) };
        if source.addr().is_multiple_of(WORD) && into.len() - at >= WORD {
            // SAFETY: aligned, and a whole word of the range is left.
            let word = unsafe { AtomicU64::from_ptr(source.cast_mut().cast()) }.load(Ordering::Relaxed);
            into[at..at + WORD].copy_from_slice(&word.to_ne_bytes());
            at += WORD;
        } else {
            // SAFETY: within the range; bytes are always aligned.
            into[at] = unsafe { AtomicU8::from_ptr(source.cast_mut()) }.load(Ordering::Relaxed);
            at += 1;
        }
    }
    fence(Ordering::Acquire);
}

/// Stores `from` to `to`; the last byte, and with it what happened earlier in the program, becomes
/// visible last.
///
/// # Safety
/// `to` is valid for writes of that many bytes, which are only ever accessed through this module
/// or by a device.
pub(crate) unsafe fn store(to: *mut u8, from: &[u8]) {
    let Some((&last, rest)) = from.split_last() else { return };
    let mut at = 0;
    while at < rest.len() {
        // SAFETY: `at` is within the range.
        let target = unsafe { to.add(at) };
        if let Some(word) = rest[at..].first_chunk().filter(|_| target.addr().is_multiple_of(WORD)) {
            // SAFETY: aligned, and a whole word of the range is left.
            unsafe { AtomicU64::from_ptr(target.cast()) }.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
            at += WORD;
        } else {
            // SAFETY: within the range; bytes are always aligned.
            unsafe { AtomicU8::from_ptr(target) }.store(rest[at], Ordering::Relaxed);
            at += 1;
        }
    }
    // SAFETY: the last byte of the range.
    unsafe { AtomicU8::from_ptr(to.add(rest.len())) }.store(last, Ordering::Release);
}

/// Copies `len` bytes between ranges that do not overlap, as [`load`] and [`store`] do.
///
/// # Safety
/// As theirs.
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    let mut buffer = [0; 1024];
    for at in (0..len).step_by(buffer.len()) {
        let part = &mut buffer[..usize::min(1024, len - at)];
        // SAFETY: `part` bytes from `at` are within both ranges.
        unsafe {
            load(from.add(at), part);
            store(to.add(at), part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 7 + 3) as u8).collect()
    }

    /// Every alignment and length around a word, with untouched bytes on both sides.
    #[test]
    fn every_alignment_and_length_is_exact() {
        for (start, len) in (0..9).flat_map(|s| (0..40).map(move |l| (s, l))) {
            let mut memory = vec![0xEE_u8; 64];
            let data = pattern(len);
            // SAFETY: `start + len` is less than 64.
            unsafe { store(memory.as_mut_ptr().add(start), &data) };
            assert_eq!(memory[start..start + len], data);
            assert!(memory[..start].iter().chain(&memory[start + len..]).all(|&b| b == 0xEE));
            let mut back = vec![0; len];
            // SAFETY: as above.
            unsafe { load(memory.as_mut_ptr().add(start), &mut back) };
            assert_eq!(back, data);
        }
    }

    #[test]
    fn a_copy_longer_than_the_buffer_is_exact() {
        let mut from = pattern(5000);
        let mut to = vec![0_u8; 5001];
        // SAFETY: both hold 5000 bytes from there.
        unsafe { copy(to.as_mut_ptr().add(1), from.as_mut_ptr(), 5000) };
        assert_eq!(to[1..], from);
    }
}
