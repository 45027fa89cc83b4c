//! The bytes of an allocation.

use crate::core::spare::Spare;
use std::ops::{Deref, DerefMut};

/// From so many bytes on the C library has every block of its own from the system, and gives it back at once.
const LARGE: usize = 1 << 25;
/// Blocks that are kept, and the bytes of the largest of them.
const MOST: usize = 4;
const LARGEST: usize = 1 << 27;

static SPARE: Spare<Vec<u8>> = Spare::new(MOST);

/// Bytes that are zero at first. A large block is used again: to write zeros takes less than the system's pages.
pub(super) struct Block(Vec<u8>);

impl Block {
    pub(super) fn zeroed(len: usize) -> Block {
        let spare = if len < LARGE { None } else { SPARE.take(|block| block.capacity() >= len) };
        Block(match spare {
            Some(mut bytes) => {
                bytes.clear();
                bytes.resize(len, 0);
                bytes
            }
            None => vec![0; len],
        })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if (LARGE..=LARGEST).contains(&self.0.capacity()) {
            SPARE.give(std::mem::take(&mut self.0));
        }
    }
}

impl Deref for Block {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for Block {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_is_used_again_is_zero() {
        for len in [LARGE, LARGE + 1, LARGE] {
            let mut block = Block::zeroed(len);
            assert_eq!(block.len(), len);
            assert!(block.iter().all(|byte| *byte == 0));
            block.fill(7);
        }
    }
}
