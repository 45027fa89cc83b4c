//! Counting by key, made for keys that come many times in a row.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Counts by key. A key like the one before costs a comparison; others are looked up without the
/// cost of a hash that resists attacks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    last: u64,
    /// Of `last`, not in `counts` yet.
    recent: u64,
    counts: HashMap<u64, u64, BuildHasherDefault<Multiply>>,
}

impl Tally {
    /// Adds to the count of a key.
    #[inline]
    pub(crate) fn add(&mut self, key: u64, n: u64) {
        if key != self.last {
            self.change(key);
        }
        self.recent += n;
    }

    #[cold]
    fn change(&mut self, key: u64) {
        self.settle();
        self.last = key;
    }

    fn settle(&mut self) {
        if self.recent > 0 {
            *self.counts.entry(self.last).or_default() += std::mem::take(&mut self.recent);
        }
    }

    /// Keys with their counts, none of them 0, in order of the keys.
    pub(crate) fn counts(&self) -> Vec<(u64, u64)> {
        let mut all = self.clone();
        all.settle();
        let mut counts: Vec<_> = all.counts.into_iter().collect();
        counts.sort_unstable();
        counts
    }
}

/// Multiplication by an odd number, which spreads keys over the upper bits, and these over all.
#[derive(Default)]
struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        let product = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_between_keys() {
        let mut tally = Tally::default();
        for key in [0, 0, 7, 0, 7, 7, 1 << 40] {
            tally.add(key, 2);
        }
        let expected = [(0, 6), (7, 6), (1 << 40, 2)];
        assert_eq!(tally.counts(), expected);
        assert_eq!(tally.counts(), expected);
        assert_eq!(Tally::default().counts(), []);
    }
}
