//! The layout of the table.

use crate::spinlock::{Layout, word};

/// Bytes of the version and the check in an entry.
const BESIDE: u64 = 16;

/// Bytes of the word that names the key of a block's entry.
pub(super) const OWNER: u64 = 8;

/// The layout of the table. Each area consists of the locks of its blocks, the blocks, and the records of its
/// keys, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TableLayout {
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

/// The area and offset of a key's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyRecord {
    pub(super) area: u32,
    /// Offset in the area.
    pub(super) at: u64,
}

/// An entry of a hot block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hot {
    pub(super) block: u32,
    pub(super) entry: u32,
}

impl TableLayout {
    /// The number of keys that are hot at any time. At first these are the keys with the lowest numbers.
    pub(super) fn hot(&self) -> u64 {
        u64::from(self.blocks) * u64::from(self.entries)
    }

    pub(super) fn record(&self, key: u64) -> KeyRecord {
        let (areas, record) = (u64::from(self.areas), self.record_bytes());
        KeyRecord { area: (key % areas) as u32, at: self.locks().bytes() + key / areas * record }
    }

    /// The entry that a key uses while it is hot. Several keys share an entry. `None` if the table has no
    /// blocks.
    pub(super) fn entry_of(&self, key: u64) -> Option<Hot> {
        let number = key.checked_rem(self.hot())?;
        let blocks = u64::from(self.blocks);
        Some(Hot { block: (number % blocks) as u32, entry: (number / blocks) as u32 })
    }

    /// The key with the lowest number among the keys that share an entry.
    pub(super) fn first_key(&self, Hot { block, entry }: Hot) -> u64 {
        u64::from(entry) * u64::from(self.blocks) + u64::from(block)
    }

    /// Bytes of an entry.
    pub(super) fn entry(&self) -> u64 {
        BESIDE + u64::from(self.value).next_multiple_of(8)
    }

    /// Offset of an entry in its block. The entry begins with the word that names its key.
    pub(super) fn owner_at(&self, hot: Hot) -> u64 {
        u64::from(hot.entry) * (OWNER + self.entry())
    }

    /// Bytes of a block.
    pub(super) fn block(&self) -> u64 {
        u64::from(self.entries) * (OWNER + self.entry())
    }

    /// Bytes of a record's head: the count, and a `done` word for each slot.
    pub(super) fn head(&self) -> u64 {
        8 + 8 * u64::from(self.versions)
    }

    /// Offset of the slots in a record.
    pub(super) fn slots(&self) -> u64 {
        self.head().next_multiple_of(64)
    }

    /// Bytes of all slots of a record.
    pub(super) fn slots_bytes(&self) -> u64 {
        u64::from(self.versions) * self.entry()
    }

    /// Bytes from the start of a record to the start of the next.
    fn record_bytes(&self) -> u64 {
        (self.slots() + self.slots_bytes()).next_multiple_of(64)
    }

    /// The locks of an area, and the slots of the blocks that they guard.
    pub(super) fn locks(&self) -> Layout {
        let locks = self.blocks.div_ceil(self.areas);
        Layout { locks, data: self.block() as u32, slots: word::slots(self.clients) }
    }

    /// The area of a block, and the number of the block's lock among the locks of the area.
    pub(super) fn lock(&self, block: u32) -> (u32, u32) {
        (block % self.areas, block / self.areas)
    }

    pub(super) fn area_bytes(&self) -> u64 {
        self.locks().bytes() + self.pairs.div_ceil(u64::from(self.areas)) * self.record_bytes()
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
            let table = TableLayout { pairs, blocks, entries, value, versions, areas, clients: 3 };
            let mut seen = BTreeSet::new();
            for key in 0..pairs {
                let KeyRecord { area, at } = table.record(key);
                prop_assert!(area < areas && at + table.slots() + table.slots_bytes() <= table.area_bytes());
                prop_assert!(seen.insert((area, at)));
                let Some(hot) = table.entry_of(key) else { continue };
                prop_assert_eq!(table.first_key(hot), key % table.hot());
                let (area, lock) = table.lock(hot.block);
                let at = table.locks().data(lock, 0) + table.owner_at(hot);
                prop_assert!(area < areas && at + OWNER + table.entry() <= table.locks().bytes());
                prop_assert_eq!(seen.insert((area, at)), key < table.hot());
            }
        }
    }
}
