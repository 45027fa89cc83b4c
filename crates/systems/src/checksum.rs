//! Checksums. They tell the poster of a READ whether the value is whole, or was READ during a write.

use crate::work;
use doorbell_verbs::Span;

/// A checksum that changes if any single word changes.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    words.fold(0x9e37_79b9_7f4a_7c15, |sum, word| {
        (sum ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9).rotate_left(29)
    })
}

/// Processor time of a checksum over `bytes` bytes.
pub(crate) fn work(bytes: u64) -> Span {
    work::CHECKSUM_WORD * bytes.div_ceil(8)
}
