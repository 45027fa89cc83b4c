//! Where everything lies.

use crate::spinlock::{Layout, word};

/// Bytes of an entry beside its value: its version, and its check.
const BESIDE: u64 = 16;

/// The table: each area has the locks of its blocks and what they guard, then the records of its cold keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) pairs: u64,
    /// Hot blocks.
    pub(super) blocks: u32,
    pub(super) entries: u32,
    /// Bytes of a value.
    pub(super) value: u32,
    pub(super) versions: u32,
    pub(super) areas: u32,
    pub(super) clients: u32,
}

/// Where a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In a record.
    Cold(Record),
    /// In a block.
    Hot(Hot),
}

/// A cold key's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) area: u32,
    /// Its offset in the area.
    pub(super) at: u64,
}

/// A hot key's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hot {
    pub(super) block: u32,
    pub(super) entry: u32,
}

impl Table {
    /// Hot keys: the first ones.
    pub(super) fn hot(&self) -> u64 {
        u64::from(self.blocks) * u64::from(self.entries)
    }

    /// Where a key is.
    pub(super) fn place(&self, key: u64) -> Place {
        if key < self.hot() {
            let blocks = u64::from(self.blocks);
            return Place::Hot(Hot { block: (key % blocks) as u32, entry: (key / blocks) as u32 });
        }
        let cold = key - self.hot();
        let (areas, record) = (u64::from(self.areas), self.record());
        Place::Cold(Record { area: (cold % areas) as u32, at: self.locks().bytes() + cold / areas * record })
    }

    /// The key of an entry.
    pub(super) fn key(&self, hot: Hot) -> u64 {
        u64::from(hot.entry) * u64::from(self.blocks) + u64::from(hot.block)
    }

    /// Bytes of an entry.
    pub(super) fn entry(&self) -> u64 {
        BESIDE + u64::from(self.value).next_multiple_of(8)
    }

    /// Bytes of a block.
    pub(super) fn block(&self) -> u64 {
        u64::from(self.entries) * self.entry()
    }

    /// Bytes of what a record begins with: the count of numbers, and a word for each slot.
    pub(super) fn head(&self) -> u64 {
        8 + 8 * u64::from(self.versions)
    }

    /// Where a record's slots begin.
    pub(super) fn slots(&self) -> u64 {
        self.head().next_multiple_of(64)
    }

    /// Bytes of all slots of a record.
    pub(super) fn slots_bytes(&self) -> u64 {
        u64::from(self.versions) * self.entry()
    }

    /// Bytes from a record to the next.
    fn record(&self) -> u64 {
        (self.slots() + self.slots_bytes()).next_multiple_of(64)
    }

    /// The locks of an area, and what they guard.
    pub(super) fn locks(&self) -> Layout {
        let locks = self.blocks.div_ceil(self.areas);
        Layout { locks, data: self.block() as u32, slots: word::slots(self.clients) }
    }

    /// A block's area, and its lock there.
    pub(super) fn lock(&self, block: u32) -> (u32, u32) {
        (block % self.areas, block / self.areas)
    }

    /// Bytes of an area.
    pub(super) fn area_bytes(&self) -> u64 {
        let cold = (self.pairs - self.hot()).div_ceil(u64::from(self.areas));
        self.locks().bytes() + cold * self.record()
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn no_two_keys_share_a_place(
            pairs in 1..400u64, part in 0..=4u64, log in 0..4u32, areas in 1..5u32, value in 1..100u32,
            versions in 2..6u32,
        ) {
            let entries = 1 << log;
            let blocks = (pairs * part / 4 / u64::from(entries)) as u32;
            let table = Table { pairs, blocks, entries, value, versions, areas, clients: 3 };
            let mut seen = BTreeSet::new();
            for key in 0..pairs {
                let (area, at, len) = match table.place(key) {
                    Place::Cold(Record { area, at }) => (area, at, table.slots() + table.slots_bytes()),
                    Place::Hot(hot) => {
                        prop_assert_eq!(table.key(hot), key);
                        let (area, lock) = table.lock(hot.block);
                        let at = table.locks().data(lock, 0) + u64::from(hot.entry) * table.entry();
                        (area, at, table.entry())
                    }
                };
                prop_assert!(area < areas && at + len <= table.area_bytes());
                prop_assert!(seen.insert((area, at)));
            }
        }
    }
}
