//! Copies payload into the memory of programs, as the DMA of a NIC writes it.
//!
//! Each aligned unit of 1, 2, 4 or 8 bytes within the payload is stored once, by one instruction, and in
//! ascending order of addresses. So a reader never loads a half-written unit, and a unit that the reader has
//! loaded or changed is not stored again. x86 keeps the order of stores. If a reader loads a unit with
//! `Acquire` and the unit is new, all earlier units are new too. In particular, the end of a message arrives
//! last.
//!
//! memcpy(3) guarantees none of this. It may store some bytes twice, copy from both ends, or copy byte by
//! byte.
//!
//! `tests/placing.rs` checks these rules: it executes the copies instruction by instruction.

use crate::point::{Point, reach};
use libc::iovec;
use std::arch::asm;
use std::mem::{align_of, offset_of, size_of};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::*};

/// Bytes of a word, the largest unit.
const WORD: usize = 8;
/// Copies of whole words up to this length are inlined.
const INLINE: usize = 64;
/// Copies of at least this many bytes use vectors.
const VECTORS_FROM: usize = 128;
/// Bytes of a vector. A processor with AVX stores an aligned vector at once, or in halves of whole words.
const VECTOR: usize = 32;
/// Bytes of the intermediate buffer of `split_units`.
const KEPT: usize = 512;

/// A piece of memory of this process or another one, laid out as an `iovec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Piece {
    pub(crate) addr: u64,
    pub(crate) len: usize,
}

const _: () = {
    assert!(size_of::<Piece>() == size_of::<iovec>() && align_of::<Piece>() == align_of::<iovec>());
    assert!(offset_of!(Piece, addr) == offset_of!(iovec, iov_base));
    assert!(offset_of!(Piece, len) == offset_of!(iovec, iov_len));
};

/// Copies one range to another, in the units and the order that the module documents.
///
/// # Safety
/// Both ranges are mapped, and do not overlap.
#[inline(always)]
pub(crate) unsafe fn copy_in_order(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: the caller guarantees it.
    unsafe {
        if !(to.addr() | len).is_multiple_of(WORD) {
            copy_units(from, to, len);
        } else if len == WORD {
            copy_word(from, to);
        } else if len <= INLINE {
            copy_words(from, to, len);
        } else {
            copy_aligned(from, to, len);
        }
    }
}

/// Copies a word to an aligned address.
///
/// # Safety
/// As for [`copy_in_order`].
#[inline(always)]
unsafe fn copy_word(from: *const u8, to: *mut u8) {
    // SAFETY: the word lies within the ranges, and `to` is aligned. Release keeps the order of the stores.
    unsafe { (*to.cast::<AtomicU64>()).store(from.cast::<u64>().read_unaligned(), Release) };
}

/// Copies whole words to an aligned address, one by one.
///
/// # Safety
/// As for [`copy_in_order`].
#[inline(always)]
unsafe fn copy_words(from: *const u8, to: *mut u8, len: usize) {
    let mut at = 0;
    while at < len {
        if at > 0 && at + WORD == len {
            reach(Point::WithinCopy);
        }
        // SAFETY: within the ranges.
        unsafe { copy_word(from.add(at), to.add(at)) };
        at += WORD;
    }
}

/// Copies any number of whole words to an aligned address.
///
/// # Safety
/// As for [`copy_in_order`].
#[inline(never)]
unsafe fn copy_aligned(from: *const u8, to: *mut u8, len: usize) {
    if len < VECTORS_FROM {
        // SAFETY: the caller guarantees it.
        return unsafe { copy_words(from, to, len) };
    }
    let first = to.align_offset(VECTOR);
    let vectors = (len - first) / VECTOR;
    let done = first + vectors * VECTOR;
    // SAFETY: the three parts are within the ranges.
    unsafe {
        copy_words(from, to, first);
        match std::arch::is_x86_feature_detected!("avx") {
            true => copy_vectors(from.add(first), to.add(first), vectors),
            false => copy_words(from.add(first), to.add(first), vectors * VECTOR),
        }
        reach(Point::WithinCopy);
        copy_words(from.add(done), to.add(done), len - done);
    }
}

/// Copies any number of bytes to any address.
///
/// # Safety
/// As for [`copy_in_order`].
#[inline(never)]
unsafe fn copy_units(from: *const u8, to: *mut u8, len: usize) {
    let mut done = 0;
    macro_rules! unit {
        ($atomic:ty, $value:ty, $is_next:expr) => {
            if $is_next {
                // SAFETY: within the ranges, and aligned. Release keeps the order of the stores.
                unsafe {
                    let value = from.add(done).cast::<$value>().read_unaligned();
                    (*to.add(done).cast::<$atomic>()).store(value, Release);
                }
                done += size_of::<$value>();
            }
        };
    }
    let is_odd = |done: usize, unit: usize| (to.addr() + done) & unit != 0 && len - done >= unit;
    unit!(AtomicU8, u8, is_odd(done, 1));
    unit!(AtomicU16, u16, is_odd(done, 2));
    unit!(AtomicU32, u32, is_odd(done, 4));
    // If the address is still not aligned to a word, fewer bytes than a word are left.
    let words = (len - done) / WORD * WORD;
    // SAFETY: the words lie within the ranges. If `words` is not 0, the address is aligned to a word.
    unsafe { copy_aligned(from.add(done), to.add(done), words) };
    done += words;
    unit!(AtomicU32, u32, len - done >= 4);
    unit!(AtomicU16, u16, len - done >= 2);
    unit!(AtomicU8, u8, len - done >= 1);
    debug_assert_eq!(done, len);
}

/// Copies vectors to a vector-aligned address, four in each round. The loop is in assembly, because a
/// compiler may replace a copying loop by memcpy(3).
///
/// # Safety
/// As for [`copy_in_order`]. The processor has AVX.
unsafe fn copy_vectors(from: *const u8, to: *mut u8, vectors: usize) {
    // SAFETY: the vectors lie within the ranges. The upper halves of the registers are cleared, as the ABI
    // demands.
    unsafe {
        asm!(
            "sub {left}, 4",
            "jb 3f",
            "2:",
            "vmovdqu ymm0, [{from}]",
            "vmovdqu ymm1, [{from} + 32]",
            "vmovdqu ymm2, [{from} + 64]",
            "vmovdqu ymm3, [{from} + 96]",
            "vmovdqa [{to}], ymm0",
            "vmovdqa [{to} + 32], ymm1",
            "vmovdqa [{to} + 64], ymm2",
            "vmovdqa [{to} + 96], ymm3",
            "add {from}, 128",
            "add {to}, 128",
            "sub {left}, 4",
            "jae 2b",
            "3:",
            "add {left}, 4",
            "jz 5f",
            "4:",
            "vmovdqu ymm0, [{from}]",
            "vmovdqa [{to}], ymm0",
            "add {from}, 32",
            "add {to}, 32",
            "dec {left}",
            "jnz 4b",
            "5:",
            "vzeroupper",
            from = inout(reg) from => _,
            to = inout(reg) to => _,
            left = inout(reg) vectors => _,
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            options(nostack),
        );
    }
}

/// Copies pieces to one contiguous range. A word whose bytes come from several pieces is stored once, like
/// any other word.
struct Joiner {
    /// Address of the next byte to be stored.
    to: *mut u8,
    /// The bytes of the word at `to` that are collected and not stored yet, and their number.
    word: [u8; WORD],
    held: usize,
}

impl Joiner {
    fn new(to: *mut u8) -> Joiner {
        Joiner { to, word: [0; WORD], held: 0 }
    }

    /// Appends a piece. The bytes of an incomplete last word are held back.
    ///
    /// # Safety
    /// Both ranges are mapped, and do not overlap.
    unsafe fn add(&mut self, mut from: *const u8, mut len: usize) {
        // SAFETY: within the ranges. A word has at most `WORD` bytes.
        unsafe {
            let room = WORD - self.to.addr() % WORD - self.held;
            if room < WORD {
                let part = room.min(len);
                from.copy_to_nonoverlapping(self.word.as_mut_ptr().add(self.held), part);
                (from, len) = (from.add(part), len - part);
                self.held += part;
                if part < room {
                    return;
                }
                self.store();
            }
            let words = len / WORD * WORD;
            copy_in_order(from, self.to, words);
            self.to = self.to.add(words);
            self.held = len - words;
            from.add(words).copy_to_nonoverlapping(self.word.as_mut_ptr(), self.held);
        }
    }

    /// Stores the bytes that are held back.
    ///
    /// # Safety
    /// The range is mapped.
    unsafe fn store(&mut self) {
        // SAFETY: the caller guarantees it.
        unsafe {
            copy_in_order(self.word.as_ptr(), self.to, self.held);
            self.to = self.to.add(self.held);
        }
        self.held = 0;
    }
}

/// Copies the pieces to one range, one after the other.
///
/// # Safety
/// All ranges are mapped. The pieces do not overlap with the range at `to`.
#[inline(always)]
pub(crate) unsafe fn join(pieces: &[Piece], to: *mut u8) {
    if let [piece] = pieces {
        // SAFETY: the caller guarantees it.
        return unsafe { copy_in_order(piece.addr as *const u8, to, piece.len) };
    }
    let mut joiner = Joiner::new(to);
    for piece in pieces {
        // SAFETY: the caller guarantees it.
        unsafe { joiner.add(piece.addr as *const u8, piece.len) };
    }
    // SAFETY: the caller guarantees it.
    unsafe { joiner.store() };
}

/// Copies a range to the pieces, one after the other. Each aligned unit of the range is also loaded whole,
/// because the range's owner may store to the unit meanwhile.
///
/// # Safety
/// All ranges are mapped. The pieces do not overlap with the range at `from`.
#[inline(always)]
pub(crate) unsafe fn split(from: *const u8, pieces: &[Piece]) {
    match pieces {
        // Source and destination have the same alignment, so the loads have the units of the stores.
        [piece] if (piece.addr as usize ^ from.addr()).is_multiple_of(WORD) => {
            // SAFETY: the caller guarantees it.
            unsafe { copy_in_order(from, piece.addr as *mut u8, piece.len) }
        }
        // SAFETY: the caller guarantees it.
        _ => unsafe { split_units(from, pieces) },
    }
}

/// Splits a range whose alignment differs from the pieces'. The bytes go through an intermediate buffer with
/// the range's alignment.
///
/// # Safety
/// As for [`split`].
#[inline(never)]
unsafe fn split_units(mut from: *const u8, pieces: &[Piece]) {
    #[repr(align(8))]
    struct Kept([u8; KEPT]);
    let mut kept = Kept([0; KEPT]);
    let mut left: usize = pieces.iter().map(|piece| piece.len).sum();
    let mut targets = pieces.iter().filter(|piece| piece.len > 0);
    let mut target = Joiner::new(std::ptr::null_mut());
    let mut room = 0;
    while left > 0 {
        // Each part but the last ends at the end of a word.
        let skew = from.addr() % WORD;
        let part = left.min(KEPT - skew);
        let mut at = skew;
        // SAFETY: all bytes lie within the ranges. The part begins at byte `skew` of `kept`, and so has the
        // range's alignment.
        unsafe {
            copy_in_order(from, kept.0.as_mut_ptr().add(skew), part);
            while at < skew + part {
                if room == 0 {
                    let Some(piece) = targets.next() else { return };
                    (target, room) = (Joiner::new(piece.addr as *mut u8), piece.len);
                }
                let bytes = room.min(skew + part - at);
                target.add(kept.0.as_ptr().add(at), bytes);
                (at, room) = (at + bytes, room - bytes);
                if room == 0 {
                    target.store();
                }
            }
            from = from.add(part);
        }
        left -= part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(seed: usize) -> Vec<u8> {
        (0..2000).map(|n| ((n + seed) * 7 / 3) as u8).collect()
    }

    /// Lengths near the limits at which the copy changes its loop.
    fn lengths() -> impl Iterator<Item = usize> {
        (0..150).chain([255, 256, 257, 263, 264, 384, 511, 512, 513, 777, 1024, 1111])
    }

    #[test]
    fn every_length_and_alignment_is_copied_whole() {
        let from = pattern(1);
        for (start, target) in
            [0, 1, 4, 7].into_iter().flat_map(|start| (0..33).map(move |target| (start, target)))
        {
            for len in lengths() {
                let mut to = pattern(5);
                let before = to.clone();
                // SAFETY: the bytes lie within the vectors.
                unsafe { copy_in_order(from[start..].as_ptr(), to[target..].as_mut_ptr(), len) };
                let end = target + len;
                assert!(to[target..end] == from[start..start + len], "{start} to {target}, {len} bytes");
                assert!(to[..target] == before[..target] && to[end..] == before[end..], "beside it");
            }
        }
    }

    #[test]
    fn pieces_are_joined_and_split() {
        let from = pattern(2);
        for (start, target) in (0..9).flat_map(|start| (0..9).map(move |target| (start, target))) {
            for lens in [[3, 5, 9], [0, 8, 16], [1, 1, 1], [20, 0, 4], [300, 7, 600], [4, 4, 0]] {
                let total: usize = lens.iter().sum();
                let at = [0, 700, 1350].map(|piece| piece + start);
                let pieces = |memory: u64| {
                    std::array::from_fn::<_, 3, _>(|n| Piece { addr: memory + at[n] as u64, len: lens[n] })
                };
                let parts = |memory: &[u8]| {
                    (0..3).flat_map(|n| memory[at[n]..at[n] + lens[n]].to_vec()).collect::<Vec<u8>>()
                };
                let mut joined = vec![0xee; 2000];
                // SAFETY: the bytes lie within the vectors.
                unsafe { join(&pieces(from.as_ptr() as u64), joined[target..].as_mut_ptr()) };
                assert_eq!(joined[target..target + total], parts(&from), "{start} {target} {lens:?}");
                assert!(joined[..target].iter().chain(&joined[target + total..]).all(|byte| *byte == 0xee));
                let mut apart = vec![0xee; 2100];
                // SAFETY: the bytes lie within the vectors.
                unsafe { split(from[target..].as_ptr(), &pieces(apart.as_mut_ptr() as u64)) };
                assert_eq!(parts(&apart), from[target..target + total], "{start} {target} {lens:?}");
                at.iter().zip(lens).for_each(|(at, len)| apart[*at..at + len].fill(0xee));
                assert!(apart.iter().all(|byte| *byte == 0xee), "beside the pieces");
            }
        }
    }
}
