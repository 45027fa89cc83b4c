//! The bytes of a block that were written.

use std::ops::Range;

/// Ranges of bytes, ascending. No two overlap or touch.
#[derive(Clone, Debug, Default)]
pub(super) struct Spans(Vec<Range<u32>>);

impl Spans {
    /// Adds a range that is not empty.
    pub(super) fn add(&mut self, range: Range<u32>) {
        let first = self.0.partition_point(|span| span.end < range.start);
        let end = self.0.partition_point(|span| span.start <= range.end);
        let start = self.0[first..end].first().map_or(range.start, |span| span.start.min(range.start));
        let last = self.0[first..end].last().map_or(range.end, |span| span.end.max(range.end));
        self.0.splice(first..end, std::iter::once(start..last));
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn ranges(&self) -> &[Range<u32>] {
        &self.0
    }

    /// Number of comparisons of a binary search for a range's position.
    pub(super) fn steps(&self) -> u64 {
        u64::from(self.0.len().checked_ilog2().map_or(0, |log| log + 1))
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK: u32 = 64;

    proptest! {
        /// Spans consist of exactly the added bytes. There are as few spans as possible.
        #[test]
        fn spans_are_the_bytes_that_were_added(ranges in prop::collection::vec((0..BLOCK, 1..12u32), 0..20)) {
            let (mut spans, mut bytes) = (Spans::default(), [false; BLOCK as usize]);
            for (start, len) in ranges {
                let end = (start + len).min(BLOCK);
                spans.add(start..end);
                bytes[start as usize..end as usize].fill(true);
            }
            let mut found = [false; BLOCK as usize];
            for span in spans.ranges() {
                prop_assert!(span.start < span.end);
                found[span.start as usize..span.end as usize].fill(true);
            }
            prop_assert_eq!(found, bytes);
            prop_assert!(spans.ranges().windows(2).all(|two| two[0].end < two[1].start));
        }
    }
}
