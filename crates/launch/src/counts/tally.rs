//! Counts by key, fast for keys that repeat many times in a row.
//!
//! Only one thread at a time changes a tally, because its caller holds a lock. So this thread loads its own
//! stores Relaxed. Readers hold no lock, and may be in another process. Two kinds of Release stores publish
//! to the Acquire loads in `TallyRecord::counts`. A table's offset is stored after the table is filled. A
//! count is stored after its key, so a reader loads the count first.

use super::board::{Board, BoardRecord};
use std::sync::atomic::{AtomicU64, Ordering::*};

/// Slots of the first table.
const SLOTS: usize = 8;
/// A value that is never a key.
const NONE: u64 = u64::MAX;
/// Takes the counts for which the board has no room.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Counts by key on a board.
#[repr(C)]
#[derive(Debug, Default)]
pub(crate) struct TallyRecord {
    /// Offset of the table; 0 if nothing was counted.
    table: AtomicU64,
}

/// The header of a table. The slots follow.
#[repr(C)]
struct TallyTable {
    slots: AtomicU64,
    unused: AtomicU64,
}

/// A key and its count. The slot is free if the count is 0.
#[repr(C)]
#[derive(Debug, Default)]
struct TallySlot {
    key: AtomicU64,
    count: AtomicU64,
}

// SAFETY: all fields are atomics.
unsafe impl BoardRecord for TallyTable {}
// SAFETY: all fields are atomics.
unsafe impl BoardRecord for TallySlot {}

/// A counter by key. Finding the previous key again costs one comparison. All other keys are found by a cheap
/// hash, which does not resist attacks.
#[derive(Debug)]
pub(crate) struct Tally {
    board: &'static Board,
    record: &'static TallyRecord,
    slots: &'static [TallySlot],
    used: usize,
    last: u64,
    /// The count of `last`.
    count: &'static AtomicU64,
}

impl TallyRecord {
    /// The keys with counts above 0, in order of the keys.
    pub(crate) fn counts(&self, board: &Board) -> Vec<(u64, u64)> {
        let slots = slots(board, self.table.load(Acquire)).unwrap_or_default();
        // The count comes first: Acquire lets a thread that sees a count see its key, too.
        let counts = slots.iter().map(|slot| {
            let count = slot.count.load(Acquire);
            (slot.key.load(Relaxed), count)
        });
        let mut counts: Vec<_> = counts.filter(|(_, count)| *count > 0).collect();
        counts.sort_unstable();
        counts
    }
}

/// The slots of the table at offset `at`. `None` if they are not within the board.
fn slots(board: &Board, at: u64) -> Option<&[TallySlot]> {
    let [table] = board.slice::<TallyTable>(at, 1)? else { return None };
    let slots = table.slots.load(Relaxed) as usize;
    board.slice(at + size_of::<TallyTable>() as u64, slots)
}

/// The slot of a key, or a free slot for it. `None` if there is neither.
fn find(slots: &[TallySlot], key: u64) -> Option<&TallySlot> {
    let mask = slots.len().checked_sub(1)?;
    let begin = spread(key) as usize;
    let mut probed = (0..=mask).map(|step| &slots[begin.wrapping_add(step) & mask]);
    probed.find(|slot| slot.count.load(Relaxed) == 0 || slot.key.load(Relaxed) == key)
}

/// Multiplies by an odd number, which spreads keys over the upper bits. Then folds the upper bits into the
/// lower bits.
fn spread(key: u64) -> u64 {
    let product = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}

impl Tally {
    pub(crate) fn new(board: &'static Board, record: &'static TallyRecord) -> Tally {
        Tally { board, record, slots: &[], used: 0, last: NONE, count: &LOST }
    }

    /// Adds `n`, which is not 0, to the count of a key.
    #[inline]
    pub(crate) fn add(&mut self, key: u64, n: u64) {
        if key != self.last {
            self.change(key);
        }
        // No other thread writes here: the caller holds a lock.
        self.count.store(self.count.load(Relaxed) + n, Release);
    }

    #[cold]
    fn change(&mut self, key: u64) {
        self.last = key;
        self.count = self.slot(key).map_or(&LOST, |slot| &slot.count);
    }

    fn slot(&mut self, key: u64) -> Option<&'static TallySlot> {
        if let Some(known) = find(self.slots, key).filter(|slot| slot.count.load(Relaxed) > 0) {
            return Some(known);
        }
        if 4 * (self.used + 1) > 3 * self.slots.len() {
            self.grow()?;
        }
        let slot = find(self.slots, key)?;
        slot.key.store(key, Relaxed);
        self.used += 1;
        Some(slot)
    }

    /// Copies the counts to a larger table. Readers find the new table only when it is complete.
    fn grow(&mut self) -> Option<()> {
        let len = (2 * self.slots.len()).max(SLOTS);
        // The table's own words are as large as a slot.
        const { assert!(size_of::<TallyTable>() == size_of::<TallySlot>()) };
        let (at, _) = self.board.alloc::<TallySlot>(len + 1)?;
        let [table] = self.board.slice::<TallyTable>(at, 1)? else { return None };
        table.slots.store(len as u64, Relaxed);
        let larger = slots(self.board, at)?;
        for old in self.slots.iter().filter(|slot| slot.count.load(Relaxed) > 0) {
            let key = old.key.load(Relaxed);
            let new = find(larger, key)?;
            new.key.store(key, Relaxed);
            new.count.store(old.count.load(Relaxed), Relaxed);
        }
        self.record.table.store(at, Release);
        self.slots = larger;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn tally() -> (&'static Board, &'static TallyRecord, Tally) {
        let (_, board) = Board::create().expect("a board");
        let record: &TallyRecord = Box::leak(Box::default());
        (board, record, Tally::new(board, record))
    }

    #[test]
    fn nothing_is_lost_between_keys() {
        let (board, record, mut tally) = tally();
        assert_eq!(record.counts(board), []);
        for key in [0, 0, 7, 0, 7, 7, 1 << 40] {
            tally.add(key, 2);
        }
        assert_eq!(record.counts(board), [(0, 6), (7, 6), (1 << 40, 2)]);
    }

    #[test]
    fn each_count_can_be_read_as_soon_as_it_is_made() {
        let (board, record, mut tally) = tally();
        let mut expected = BTreeMap::new();
        for n in 0..500_u64 {
            let key = n * n % 131;
            tally.add(key, n % 3 + 1);
            *expected.entry(key).or_insert(0) += n % 3 + 1;
            assert_eq!(record.counts(board), expected.clone().into_iter().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_table_of_any_bytes_is_read() {
        let (board, record, mut tally) = tally();
        tally.add(1, 1);
        let [table] = board.slice::<TallyTable>(record.table.load(Relaxed), 1).expect("it is there") else {
            panic!()
        };
        table.slots.store(u64::MAX, Relaxed);
        assert_eq!(record.counts(board), []);
        record.table.store(u64::MAX, Relaxed);
        assert_eq!(record.counts(board), []);
    }
}
