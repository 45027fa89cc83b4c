//! The bytes of an allocation.

use super::touched::Touched;
use crate::core::spare::Spare;
use std::ops::Range;

/// Least bytes of a block that the C library gets from the system, and gives back as soon as the block is
/// freed.
const LARGE: usize = 1 << 25;
/// Number of spare blocks that are kept, and bytes of the largest of them.
const MOST: usize = 4;
const LARGEST: usize = 1 << 27;
/// Bytes of a larger block that are created together. This is some lines, much less than a page, because
/// accesses at random places touch a line or two each.
const PART: usize = 256;

static SPARE: Spare<Vec<u8>> = Spare::new(MOST);

/// Bytes that are zero at first. A large block is used again, because writing zeros takes less time than new
/// pages of the system. A block above [`LARGEST`] takes memory only for the parts that are touched.
pub(super) enum Block {
    Whole(Vec<u8>),
    Touched(Touched<u8, PART>),
}

/// Maximum number of bytes that a block of `len` and the states of its lines take, after `accesses` accesses
/// of `each` bytes.
pub(super) fn bytes(len: u64, accesses: u64, each: u64) -> u64 {
    let with_lines = |bytes: u64| bytes + bytes / 4;
    if len <= LARGEST as u64 {
        return with_lines(len);
    }
    let numbers = 2 * 4 * len / PART as u64;
    let parts = accesses.saturating_mul(each.div_ceil(PART as u64) + 1);
    numbers + with_lines(len.min(parts.saturating_mul(PART as u64)))
}

impl Block {
    pub(super) fn zeroed(len: usize) -> Block {
        if len > LARGEST {
            return Block::Touched(Touched::zeroed(len));
        }
        let spare = if len < LARGE { None } else { SPARE.take(|block| block.capacity() >= len) };
        Block::Whole(match spare {
            Some(mut bytes) => {
                bytes.clear();
                bytes.resize(len, 0);
                bytes
            }
            None => vec![0; len],
        })
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Block::Whole(bytes) => bytes.len(),
            Block::Touched(touched) => touched.len(),
        }
    }

    /// Fills `into` with the bytes from `at` on.
    #[inline]
    pub(super) fn read(&self, at: usize, into: &mut [u8]) {
        match self {
            Block::Whole(bytes) => into.copy_from_slice(&bytes[at..][..into.len()]),
            Block::Touched(touched) => read_touched(touched, at, into),
        }
    }

    /// Replaces the bytes from `at` on.
    #[inline]
    pub(super) fn write(&mut self, at: usize, from: &[u8]) {
        match self {
            Block::Whole(bytes) => bytes[at..][..from.len()].copy_from_slice(from),
            Block::Touched(touched) => {
                for part in Touched::<u8, PART>::parts(at..at + from.len()) {
                    touched.get_mut(part.clone()).copy_from_slice(&from[part.start - at..part.end - at]);
                }
            }
        }
    }

    /// Mutable bytes within one line.
    #[inline]
    pub(super) fn in_line(&mut self, range: Range<usize>) -> &mut [u8] {
        match self {
            Block::Whole(bytes) => &mut bytes[range],
            Block::Touched(touched) => touched.get_mut(range),
        }
    }

    /// All bytes as one mutable slice. From then on all of them take memory.
    pub(super) fn whole(&mut self) -> &mut [u8] {
        if let Block::Touched(touched) = self {
            let mut bytes = vec![0; touched.len()];
            read_touched(touched, 0, &mut bytes);
            *self = Block::Whole(bytes);
        }
        let Block::Whole(bytes) = self else { unreachable!("the block was just made whole") };
        bytes
    }

    /// Address of byte `at` in the simulator's own memory, if the address is known without a look-up.
    #[inline]
    pub(super) fn address(&self, at: usize) -> Option<usize> {
        match self {
            Block::Whole(bytes) => Some(bytes.as_ptr().addr() + at),
            Block::Touched(_) => None,
        }
    }
}

#[inline(never)]
fn read_touched(touched: &Touched<u8, PART>, at: usize, into: &mut [u8]) {
    for part in Touched::<u8, PART>::parts(at..at + into.len()) {
        let to = &mut into[part.start - at..part.end - at];
        match touched.get(part) {
            Some(bytes) => to.copy_from_slice(bytes),
            None => to.fill(0),
        }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Block::Whole(bytes) = self
            && (LARGE..=LARGEST).contains(&bytes.capacity())
        {
            SPARE.give(std::mem::take(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_block_that_is_used_again_is_zero() {
        for len in [LARGE, LARGE + 1, LARGE] {
            let mut block = Block::zeroed(len);
            assert_eq!(block.len(), len);
            assert!(block.whole().iter().all(|byte| *byte == 0));
            block.whole().fill(7);
        }
    }

    #[test]
    fn a_large_block_takes_what_is_touched() {
        let large = LARGEST as u64 + 1;
        assert_eq!(bytes(1000, 0, 0), 1250, "a small one is there from the beginning");
        assert_eq!(bytes(large, 1000, 32), 8 * large / 256 + 2 * 1000 * 320);
        assert_eq!(bytes(large, u64::MAX, 32), 8 * large / 256 + large + large / 4, "all of it");
    }

    fn both() -> [Block; 2] {
        [Block::Whole(vec![0; 1000]), Block::Touched(Touched::zeroed(1000))]
    }

    proptest! {
        /// Both kinds of block return the bytes that were written.
        #[test]
        fn both_kinds_keep_what_is_written(
            writes in prop::collection::vec((0usize..1000, prop::collection::vec(any::<u8>(), 0..600)), 0..8),
            read in (0usize..1000, 0usize..600),
            line in 0usize..15,
        ) {
            let found = both().map(|mut block| {
                for (at, bytes) in &writes {
                    block.write(*at, &bytes[..bytes.len().min(1000 - at)]);
                }
                block.in_line(line * 64 + 3..line * 64 + 60).fill(9);
                let mut part = vec![1; read.1.min(1000 - read.0)];
                block.read(read.0, &mut part);
                (part, block.whole().to_vec())
            });
            prop_assert_eq!(&found[0], &found[1]);
            prop_assert_eq!(&found[0].0, &found[0].1[read.0..][..found[0].0.len()]);
        }
    }
}
