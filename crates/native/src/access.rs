//! Access to memory that a device or another thread may access concurrently.
//!
//! All accesses are atomic. So the compiler neither splits nor repeats them, and threads cause no data race
//! as defined by Rust. Words of different sizes may overlap, as they do in DMA. The hardware defines the
//! result of such accesses.

use doorbell_verbs::{Scan, Touch};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// Size in bytes of the words that make up longer accesses.
const WORD: usize = 8;

/// Loads `into.len()` bytes from `from`. Later accesses of the program are not reordered before the loads.
///
/// # Safety
/// `from` is valid for reads of this many bytes. They are accessed only through this module or by a device.
pub(crate) unsafe fn load(from: *const u8, into: &mut [u8]) {
    let mut at = 0;
    while at < into.len() {
        // SAFETY: `at` is within the range.
        let source = unsafe { from.add(at) };
        if source.addr().is_multiple_of(WORD) && into.len() - at >= WORD {
            // SAFETY: The address is aligned, and a whole word of the range is left.
            let word = unsafe { AtomicU64::from_ptr(source.cast_mut().cast()) }.load(Ordering::Relaxed);
            into[at..at + WORD].copy_from_slice(&word.to_ne_bytes());
            at += WORD;
        } else {
            // SAFETY: The byte is within the range, and bytes are always aligned.
            into[at] = unsafe { AtomicU8::from_ptr(source.cast_mut()) }.load(Ordering::Relaxed);
            at += 1;
        }
    }
    fence(Ordering::Acquire);
}

/// Stores `from` to `to`. The last byte becomes visible last: a thread that sees it also sees all earlier
/// stores of the program.
///
/// # Safety
/// `to` is valid for writes of this many bytes. They are accessed only through this module or by a device.
pub(crate) unsafe fn store(to: *mut u8, from: &[u8]) {
    let Some((&last, rest)) = from.split_last() else { return };
    let mut at = 0;
    while at < rest.len() {
        // SAFETY: `at` is within the range.
        let target = unsafe { to.add(at) };
        if let Some(word) = rest[at..].first_chunk().filter(|_| target.addr().is_multiple_of(WORD)) {
            // SAFETY: The address is aligned, and a whole word of the range is left.
            unsafe { AtomicU64::from_ptr(target.cast()) }.store(u64::from_ne_bytes(*word), Ordering::Relaxed);
            at += WORD;
        } else {
            // SAFETY: The byte is within the range, and bytes are always aligned.
            unsafe { AtomicU8::from_ptr(target) }.store(rest[at], Ordering::Relaxed);
            at += 1;
        }
    }
    // SAFETY: This is the last byte of the range.
    unsafe { AtomicU8::from_ptr(to.add(rest.len())) }.store(last, Ordering::Release);
}

/// Copies `len` bytes between ranges that do not overlap, with the ordering of [`load`] and [`store`].
///
/// # Safety
/// The conditions of [`load`] hold for `from`, and the conditions of [`store`] hold for `to`.
pub(crate) unsafe fn copy(to: *mut u8, from: *const u8, len: usize) {
    let mut buffer = [0; 1024];
    for at in (0..len).step_by(buffer.len()) {
        let part = &mut buffer[..usize::min(1024, len - at)];
        // SAFETY: The bytes of `part`, from `at` on, are within both ranges.
        unsafe {
            load(from.add(at), part);
            store(to.add(at), part);
        }
    }
}

/// Scans `len` bytes from `start`.
///
/// # Safety
/// The range is valid for reads and writes. It is accessed only through this module or by a device. `start`
/// is a multiple of the width of an access.
pub(crate) unsafe fn scan(start: *mut u8, len: usize, scan: Scan) {
    let width = scan.width();
    for at in (0..len).step_by(scan.step as usize) {
        if len - at >= width as usize {
            // SAFETY: The access is within the range, and a step is a multiple of the width.
            unsafe { touch(start.add(at), width, scan.touch) };
        } else {
            // SAFETY: The bytes are within the range, and bytes are always aligned.
            (at..len).for_each(|at| unsafe { touch(start.add(at), 1, scan.touch) });
        }
        execute(scan.instructions.saturating_sub(OF_ACCESS));
    }
}

/// Approximate number of instructions of the scan's loop for each access.
const OF_ACCESS: u32 = 4;

/// Executes about this many instructions without effect: two for each iteration of a loop that is not
/// optimised away.
fn execute(instructions: u32) {
    for _ in 0..instructions / 2 {
        std::hint::black_box(());
    }
}

/// Makes one access of a scan.
///
/// # Safety
/// `place` is aligned and valid for `width` bytes, under the conditions of [`scan`].
unsafe fn touch(place: *mut u8, width: u32, touch: Touch) {
    macro_rules! word {
        ($atomic:ty, $word:ty) => {{
            // SAFETY: The caller guarantees the conditions.
            let word = unsafe { <$atomic>::from_ptr(place.cast()) };
            match touch {
                Touch::Load => drop(std::hint::black_box(word.load(Ordering::Relaxed))),
                Touch::Store(value) | Touch::StoreAround(value) => {
                    word.store(<$word>::from_ne_bytes([value; size_of::<$word>()]), Ordering::Relaxed)
                }
            }
        }};
    }
    match (width, touch) {
        #[cfg(target_arch = "x86_64")]
        (8, Touch::StoreAround(value)) => {
            // SAFETY: The caller guarantees eight aligned bytes, and every x86-64 processor has SSE2.
            unsafe { std::arch::x86_64::_mm_stream_si64(place.cast(), i64::from_ne_bytes([value; 8])) }
        }
        (8, _) => word!(AtomicU64, u64),
        (4, _) => word!(AtomicU32, u32),
        (2, _) => word!(AtomicU16, u16),
        _ => word!(AtomicU8, u8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(len: usize) -> Vec<u8> {
        (0..len).map(|i| (i * 7 + 3) as u8).collect()
    }

    /// Tries every alignment and length around a word. Bytes on both sides must stay untouched.
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
            // SAFETY: `start + len` is less than 64.
            unsafe { load(memory.as_mut_ptr().add(start), &mut back) };
            assert_eq!(back, data);
        }
    }

    #[test]
    fn a_scan_stores_at_each_step_and_loads_nothing_away() {
        for (step, touched) in [(1, 45), (2, 45), (4, 45), (8, 45), (16, 24), (64, 8)] {
            let mut memory = vec![0_u64; 8];
            for touch in [Touch::Store(7), Touch::Load, Touch::StoreAround(9)] {
                let walk = Scan { touch, step, instructions: 1 };
                // SAFETY: The 45 bytes are within 64 bytes and aligned to 8.
                unsafe { scan(memory.as_mut_ptr().cast(), 45, walk) };
            }
            let bytes: Vec<u8> = memory.iter().flat_map(|word| word.to_ne_bytes()).collect();
            assert_eq!(bytes.iter().filter(|byte| **byte == 9).count(), touched, "{step}");
            assert!(
                bytes.iter().all(|byte| [0, 9].contains(byte)) && bytes[45..].iter().all(|byte| *byte == 0)
            );
        }
    }

    #[test]
    fn a_copy_longer_than_the_buffer_is_exact() {
        let mut from = pattern(5000);
        let mut to = vec![0_u8; 5001];
        // SAFETY: Both ranges hold 5000 bytes.
        unsafe { copy(to.as_mut_ptr().add(1), from.as_mut_ptr(), 5000) };
        assert_eq!(to[1..], from);
    }
}
