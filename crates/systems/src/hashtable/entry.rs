//! Entries: version, value, and a check that tells whether both are whole.

use crate::checksum::checksum;

/// Encodes a version of a key's value as an entry, for a slot of a record or for a block.
pub(super) fn encode(key: u64, version: u64, value: &[u8], into: &mut Vec<u8>) {
    into.clear();
    into.extend_from_slice(&version.to_le_bytes());
    into.extend_from_slice(value);
    into.resize(into.len().next_multiple_of(8), 0);
    let check = check(key, into);
    into.extend_from_slice(&check.to_le_bytes());
}

/// The check of an entry: a hash of the key and of all words before the check. It differs for an entry of
/// another key, and for memory that was never written.
fn check(key: u64, before: &[u8]) -> u64 {
    checksum(before) ^ key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

pub(super) fn version(entry: &[u8]) -> u64 {
    word(entry)
}

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

/// Whether an entry of `key` is whole.
pub(super) fn is_whole(key: u64, entry: &[u8]) -> bool {
    let (before, last) = entry.split_at(entry.len() - 8);
    word(last) == check(key, before)
}

/// The value of an entry, of `bytes` bytes.
pub(super) fn value(entry: &[u8], bytes: u32) -> &[u8] {
    &entry[8..][..bytes as usize]
}

/// Fills `value` with the value that write `number` gives to a key. The caller numbers the writes; number 0
/// stands for the initial value.
pub fn fill(key: u64, number: u64, value: &mut [u8]) {
    for (at, chunk) in (0u64..).zip(value.chunks_mut(8)) {
        let word = match at {
            0 => number,
            _ => (number ^ key << 40).wrapping_add(at).wrapping_mul(0x9e37_79b9_7f4a_7c15),
        };
        chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_entry_is_whole_with_all_its_words_and_no_others(
            key in 0..1000u64, number: u64, newer: u64, value in 1..200usize, place: u64,
        ) {
            let entry = |number| {
                let (mut bytes, mut entry) = (vec![0; value], Vec::new());
                fill(key, number, &mut bytes);
                encode(key, number, &bytes, &mut entry);
                (bytes, entry)
            };
            let ((bytes, one), (_, other)) = (entry(number), entry(newer));
            prop_assert!(is_whole(key, &one) && !is_whole(key + 1, &one));
            prop_assert_eq!((version(&one), super::value(&one, value as u32)), (number, &bytes[..]));
            prop_assume!(one != other);
            // An entry with the first words of `one` and the other words of `other`.
            let words = one.len() / 8;
            let at = 8 * (1 + place as usize % (words - 1));
            let torn = [&one[..at], &other[at..]].concat();
            prop_assert!(torn == one || torn == other || !is_whole(key, &torn));
            prop_assert!(!is_whole(key, &vec![0; one.len()]));
        }
    }
}
