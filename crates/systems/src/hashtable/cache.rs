//! The cache of a front-end: writes of hot keys that the front-end has not published. The module [`super`]
//! defines the terms.
//!
//! # Writes of a hot key
//! A front-end puts the value into its cache. **This acknowledges the write.** Then the write is pending.
//!
//! # When a block is published
//! A block becomes *due* for publication in four cases:
//! - `theta` writes to the block are pending.
//! - The oldest pending write to the block is `time_out` old. (The paper calls this age a lease.)
//! - Writes to the block are pending, and another write waits because the cache has an unpublished value of
//!   another key for its entry.
//! - The front-end has begun and ended all operations of its work.
//!
//! The publication of a due block begins when three conditions hold:
//! - The last publication of the block has ended.
//! - The front-end has fewer than `outstanding` publications in flight.
//! - No other operation of the front-end asks for the block's lock or holds it.
//!
//! The publication takes the pending writes of the block once it has acquired the lock (`hot.rs`). If
//! several writes to an entry are pending, it publishes only the last one.
//!
//! # Writes during a publication
//! A write to a block whose pending writes were taken joins the next publication of the block. Writes that
//! were taken do not count as pending.
//!
//! A write waits for a publication in two cases: `theta` writes to the block are pending, or the cache has an
//! unpublished value of another key for the entry.

use super::table::{Hot, TableLayout};
use super::terms::Terms;
use crate::SystemError;
use crate::device::Device;
use crate::work;
use doorbell_verbs::{AccessFlags, Mr, Provider, Time};
use std::collections::VecDeque;

/// The pending writes of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    /// Entries that were written since the last [`HeldWrites::take`] of the block, a bit each.
    written: u64,
    /// Entries that are being published, a bit each.
    under_way: u64,
    /// Writes to the entries in `written`.
    writes: u32,
    /// When the first of these writes was made.
    since: Time,
    /// Whether the block is to be published, or is being published.
    is_due: bool,
}

/// The newest value that the front-end has written to each hot entry.
pub(super) struct HeldWrites<P: Provider> {
    cpu: P,
    table: TableLayout,
    values: Mr<P>,
    /// Bytes from the start of a value to the start of the next.
    apart: u64,
    pending: Vec<Pending>,
    /// How often each entry was written. A publication reports this count, so that its reader knows which
    /// write it published.
    counts: Vec<u64>,
    /// For each entry, the key that it had when this front-end last saw its block.
    known: Vec<u64>,
    /// The key of each value.
    owners: Vec<u64>,
    /// Blocks in the order in which the first of their pending writes was made.
    order: VecDeque<(u32, Time)>,
    /// Blocks that are to be published.
    due: VecDeque<u32>,
}

/// Writes that a publication has taken: the entries of the block, a bit each, the number of writes, and when
/// the first write was made.
#[derive(Clone, Copy, Debug)]
pub(super) struct TakenWrites {
    pub(super) entries: u64,
    pub(super) writes: u32,
    pub(super) since: Time,
}

impl<P: Provider> HeldWrites<P> {
    pub(super) fn new(device: &Device<P>, table: &TableLayout) -> Result<HeldWrites<P>, SystemError> {
        let apart = u64::from(table.value).next_multiple_of(64);
        let entries = 0..u64::from(table.blocks) * u64::from(table.entries);
        let first = |number: u64| {
            let (block, entry) = (number / u64::from(table.entries), number % u64::from(table.entries));
            table.first_key(Hot { block: block as u32, entry: entry as u32 })
        };
        let known: Vec<u64> = entries.map(first).collect();
        Ok(HeldWrites {
            owners: known.clone(),
            known,
            cpu: device.cpu.clone(),
            values: device.registered(table.hot() * apart, AccessFlags::LOCAL_WRITE)?,
            apart,
            pending: vec![Pending::default(); table.blocks as usize],
            counts: vec![0; table.hot() as usize],
            order: VecDeque::new(),
            due: VecDeque::new(),
            table: table.clone(),
        })
    }

    fn number(&self, Hot { block, entry }: Hot) -> u64 {
        u64::from(block) * u64::from(self.table.entries) + u64::from(entry)
    }

    /// Notes that an entry of a block holds this key.
    pub(super) fn learn(&mut self, hot: Hot, key: u64) {
        let number = self.number(hot);
        self.known[number as usize] = key;
    }

    /// Whether the cache has an unpublished value of this key for the entry.
    fn has(&self, hot: Hot, key: u64) -> bool {
        let Pending { written, under_way, .. } = self.pending[hot.block as usize];
        (written | under_way) >> hot.entry & 1 == 1 && self.owner(hot) == key
    }

    /// The key to which the entry's cached value belongs.
    pub(super) fn owner(&self, hot: Hot) -> u64 {
        self.owners[self.number(hot) as usize]
    }

    /// Whether a write of the key goes to the cache. It does if the front-end last saw the key in its block,
    /// or if the cache has an unpublished value of the key.
    pub(super) fn takes(&self, hot: Hot, key: u64) -> bool {
        self.known[self.number(hot) as usize] == key || self.has(hot, key)
    }

    /// Writes a key's value, and returns how often the entry has been written. Returns `None` if the write
    /// has to wait: theta writes to the block are pending, or the cache has an unpublished value of another
    /// key for this entry.
    pub(super) fn write(&mut self, hot: Hot, key: u64, value: &[u8], terms: &Terms) -> Option<u64> {
        self.cpu.work(work::HOLD);
        let number = self.number(hot);
        let pending = &mut self.pending[hot.block as usize];
        let is_taken = (pending.written | pending.under_way) >> hot.entry & 1 == 1
            && self.owners[number as usize] != key;
        if is_taken && pending.writes > 0 && !pending.is_due {
            pending.is_due = true;
            self.due.push_back(hot.block);
        }
        if is_taken || pending.writes >= terms.theta {
            return None;
        }
        if pending.writes == 0 {
            pending.since = self.cpu.now();
            self.order.push_back((hot.block, pending.since));
        }
        pending.writes += 1;
        pending.written |= 1 << hot.entry;
        if pending.writes >= terms.theta && !pending.is_due {
            pending.is_due = true;
            self.due.push_back(hot.block);
        }
        self.cpu.write(self.values.mem(), number * self.apart, value);
        self.owners[number as usize] = key;
        self.counts[number as usize] += 1;
        Some(self.counts[number as usize])
    }

    /// The key's value, if the cache has an unpublished one.
    pub(super) fn read(&self, hot: Hot, key: u64) -> Option<Vec<u8>> {
        self.has(hot, key).then(|| self.value(hot))
    }

    /// The value of an entry as it was last written.
    pub(super) fn value(&self, hot: Hot) -> Vec<u8> {
        let mut value = vec![0; self.table.value as usize];
        self.cpu.read(self.values.mem(), self.number(hot) * self.apart, &mut value);
        value
    }

    /// How often an entry was written.
    pub(super) fn count(&self, hot: Hot) -> u64 {
        self.counts[self.number(hot) as usize]
    }

    /// Makes the blocks due whose time-out is over. Returns when the next block's time-out is over.
    pub(super) fn look(&mut self, terms: &Terms) -> Time {
        while let Some(&(block, since)) = self.order.front() {
            let pending = &mut self.pending[block as usize];
            let is_over = self.cpu.now() >= since + terms.time_out;
            if pending.writes > 0 && pending.since == since && !pending.is_due {
                if !is_over {
                    return since + terms.time_out;
                }
                pending.is_due = true;
                self.due.push_back(block);
            }
            self.order.pop_front();
        }
        Time::NEVER
    }

    /// Makes all blocks with pending writes due. Returns whether any writes are pending or being published.
    pub(super) fn publish_all(&mut self) -> bool {
        let mut any = false;
        for (block, pending) in (0..).zip(&mut self.pending) {
            any |= pending.writes > 0 || pending.is_due;
            if pending.writes > 0 && !pending.is_due {
                pending.is_due = true;
                self.due.push_back(block);
            }
        }
        any
    }

    /// Removes the first block from the queue of due blocks.
    pub(super) fn next_due(&mut self) -> Option<u32> {
        self.due.pop_front()
    }

    /// The number of due blocks.
    pub(super) fn due(&self) -> usize {
        self.due.len()
    }

    /// Appends a block that cannot be published yet to the queue of due blocks.
    pub(super) fn is_due_later(&mut self, block: u32) {
        self.due.push_back(block);
    }

    /// Takes the pending writes of a block, for a publication.
    pub(super) fn take(&mut self, block: u32) -> TakenWrites {
        let pending = &mut self.pending[block as usize];
        let taken = TakenWrites { entries: pending.written, writes: pending.writes, since: pending.since };
        (pending.under_way, pending.written, pending.writes) = (pending.written, 0, 0);
        taken
    }

    /// Makes taken writes pending again, because they were not published.
    pub(super) fn put_back(&mut self, block: u32, taken: TakenWrites) {
        let pending = &mut self.pending[block as usize];
        pending.written |= taken.entries;
        pending.writes += taken.writes;
        (pending.under_way, pending.since) = (0, taken.since);
    }

    /// Notes that these taken entries are published. `entries` has a bit for each.
    pub(super) fn are_there(&mut self, block: u32, entries: u64) {
        self.pending[block as usize].under_way &= !entries;
    }

    /// Makes one taken value pending again, because it was not published. The next publication of the block
    /// takes it.
    pub(super) fn put_one_back(&mut self, hot: Hot, since: Time) {
        let pending = &mut self.pending[hot.block as usize];
        pending.under_way &= !(1 << hot.entry);
        pending.written |= 1 << hot.entry;
        pending.writes += 1;
        pending.since = since;
    }

    /// Notes that a publication of a block has ended.
    pub(super) fn published(&mut self, block: u32, terms: &Terms) {
        let pending = &mut self.pending[block as usize];
        (pending.under_way, pending.is_due) = (0, false);
        if pending.writes >= terms.theta {
            pending.is_due = true;
            self.due.push_back(block);
        } else if pending.writes > 0 {
            // The block's element of `order` may be gone, because the block was due already.
            let at = self.order.partition_point(|(_, since)| *since < pending.since);
            self.order.insert(at, (block, pending.since));
        }
    }
}
