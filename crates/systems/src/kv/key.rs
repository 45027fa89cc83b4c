//! Keys, and the partitions that own them.

/// Bytes of a key.
pub const KEY_BYTES: u64 = 16;

/// A key of a store.
pub type Key = [u8; KEY_BYTES as usize];

/// The finalizer of SplitMix64: every bit of the result depends on every bit of `z`.
fn mixed(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A key as two words.
pub(crate) fn words(key: &Key) -> [u64; 2] {
    let word = |at: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&key[at..at + 8]);
        u64::from_le_bytes(bytes)
    };
    [word(0), word(8)]
}

/// The hash of a key. Its low bits choose the bucket, bits 32 to 47 the owner, and the highest bits are the
/// tag.
pub(crate) fn hash(key: &Key) -> u64 {
    let [low, high] = words(key);
    mixed(low ^ mixed(high))
}

/// The number of the partition to which a key belongs. There are `partitions` partitions.
pub fn owner(key: &Key, partitions: u32) -> u32 {
    ((((hash(key) >> 32) & 0xffff) * u64::from(partitions)) >> 16) as u32
}

/// Key number `n` of a population.
pub fn numbered(n: u64) -> Key {
    let mut key = [0; KEY_BYTES as usize];
    key[..8].copy_from_slice(&mixed(n.wrapping_add(1)).to_le_bytes());
    key[8..].copy_from_slice(&n.to_le_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_are_of_equal_size() {
        for partitions in [1, 3, 14] {
            let mut count = vec![0; partitions as usize];
            for n in 0..140_000 {
                count[owner(&numbered(n), partitions) as usize] += 1;
            }
            let mean = 140_000 / partitions;
            assert!(count.iter().all(|&c| c > mean * 9 / 10 && c < mean * 11 / 10), "{count:?}");
        }
    }
}
