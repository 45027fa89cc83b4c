//! The usual rule that maps a key to a receiver.

/// The receiver of a key, below `receivers`. The hash of the key determines it, so that neighbouring keys are
/// spread.
pub fn receiver(key: u64, receivers: u32) -> u32 {
    ((u128::from(hash(key)) * u128::from(receivers)) >> 64) as u32
}

/// A hash of a word (the finalizer of SplitMix64). A change of any bit of the key changes each bit of the
/// hash with a probability of about one half.
pub(crate) fn hash(key: u64) -> u64 {
    let mut word = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// The unevenness of keys: the entries of the fullest receiver, divided by the average of all receivers.
pub fn share_of_fullest(keys: impl Iterator<Item = u64>, receivers: u32) -> f64 {
    let mut counts = vec![0u64; receivers as usize];
    keys.for_each(|key| counts[receiver(key, receivers) as usize] += 1);
    let (all, most) = (counts.iter().sum::<u64>(), counts.iter().max().copied().unwrap_or(0));
    most as f64 * f64::from(receivers) / all.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_keys_are_spread_evenly() {
        for receivers in [1, 3, 16] {
            let fullest = share_of_fullest(0..100_000, receivers);
            assert!((1.0..1.05).contains(&fullest), "{receivers}: {fullest}");
        }
        assert_eq!(share_of_fullest([7; 10].into_iter(), 4), 4.0);
    }
}
