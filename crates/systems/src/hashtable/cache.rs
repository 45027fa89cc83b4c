//! What a front-end has written of hot keys and not published.

use super::table::{Hot, TableLayout};
use super::terms::Terms;
use crate::SystemError;
use crate::device::Device;
use crate::work;
use doorbell_verbs::{AccessFlags, Mr, Provider, Time};
use std::collections::VecDeque;

/// What is pending of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Pending {
    /// Entries that were written since the block was published last, a bit each.
    written: u64,
    /// Entries that are being published.
    under_way: u64,
    /// Writes of the former.
    writes: u32,
    /// When the first of these was.
    since: Time,
    /// Whether it is to be published, or is being published.
    is_due: bool,
}

/// Values that a front-end has written, of each hot entry the newest.
pub(super) struct HeldWrites<P: Provider> {
    cpu: P,
    table: TableLayout,
    values: Mr<P>,
    /// Bytes from a value to the next.
    apart: u64,
    pending: Vec<Pending>,
    /// How often each entry was written: which write it is that is published.
    counts: Vec<u64>,
    /// The key that each entry had when it was seen last.
    known: Vec<u64>,
    /// Whose each value is.
    owners: Vec<u64>,
    /// Blocks by when the first of what is pending was written.
    order: VecDeque<(u32, Time)>,
    /// Blocks that are to be published.
    due: VecDeque<u32>,
}

/// What is published of a block: its entries, a bit each; how many writes these are, and since when.
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

    /// An entry has this key.
    pub(super) fn learn(&mut self, hot: Hot, key: u64) {
        let number = self.number(hot);
        self.known[number as usize] = key;
    }

    /// Whether an entry's value is this key's, and is not published.
    fn has(&self, hot: Hot, key: u64) -> bool {
        let Pending { written, under_way, .. } = self.pending[hot.block as usize];
        (written | under_way) >> hot.entry & 1 == 1 && self.owner(hot) == key
    }

    /// Whose the value of an entry is.
    pub(super) fn owner(&self, hot: Hot) -> u64 {
        self.owners[self.number(hot) as usize]
    }

    /// Whether a key is written here: it is in its block as far as is known, or a value of it is not published yet, which is older.
    pub(super) fn takes(&self, hot: Hot, key: u64) -> bool {
        self.known[self.number(hot) as usize] == key || self.has(hot, key)
    }

    /// Writes a key's value, unless it has to wait: so many are pending, or that of another key is. How often the entry was written with it.
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

    /// The value of a key, if it is not published.
    pub(super) fn read(&self, hot: Hot, key: u64) -> Option<Vec<u8>> {
        self.has(hot, key).then(|| self.value(hot))
    }

    /// The value of an entry as it was written last.
    pub(super) fn value(&self, hot: Hot) -> Vec<u8> {
        let mut value = vec![0; self.table.value as usize];
        self.cpu.read(self.values.mem(), self.number(hot) * self.apart, &mut value);
        value
    }

    /// How often an entry was written.
    pub(super) fn count(&self, hot: Hot) -> u64 {
        self.counts[self.number(hot) as usize]
    }

    /// Blocks whose time is over are to be published. When the next one's is.
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

    /// All that is pending is to be published; whether anything is, or is being published.
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

    /// A block that is to be published.
    pub(super) fn next_due(&mut self) -> Option<u32> {
        self.due.pop_front()
    }

    /// How many there are.
    pub(super) fn due(&self) -> usize {
        self.due.len()
    }

    /// One that cannot be published yet is after all others.
    pub(super) fn is_due_later(&mut self, block: u32) {
        self.due.push_back(block);
    }

    /// Takes what is pending of a block, to publish it.
    pub(super) fn take(&mut self, block: u32) -> TakenWrites {
        let pending = &mut self.pending[block as usize];
        let taken = TakenWrites { entries: pending.written, writes: pending.writes, since: pending.since };
        (pending.under_way, pending.written, pending.writes) = (pending.written, 0, 0);
        taken
    }

    /// What was taken is not published, and is pending as before.
    pub(super) fn put_back(&mut self, block: u32, taken: TakenWrites) {
        let pending = &mut self.pending[block as usize];
        pending.written |= taken.entries;
        pending.writes += taken.writes;
        (pending.under_way, pending.since) = (0, taken.since);
    }

    /// Of what was taken, these entries are published, a bit each.
    pub(super) fn are_there(&mut self, block: u32, entries: u64) {
        self.pending[block as usize].under_way &= !entries;
    }

    /// A value that was taken is not published, and is pending again; the block is published once more.
    pub(super) fn put_one_back(&mut self, hot: Hot, since: Time) {
        let pending = &mut self.pending[hot.block as usize];
        pending.under_way &= !(1 << hot.entry);
        pending.written |= 1 << hot.entry;
        pending.writes += 1;
        pending.since = since;
    }

    /// What was taken is published.
    pub(super) fn published(&mut self, block: u32, terms: &Terms) {
        let pending = &mut self.pending[block as usize];
        (pending.under_way, pending.is_due) = (0, false);
        if pending.writes >= terms.theta {
            pending.is_due = true;
            self.due.push_back(block);
        } else if pending.writes > 0 {
            // Its place in the order may be gone: it was due already.
            let at = self.order.partition_point(|(_, since)| *since < pending.since);
            self.order.insert(at, (block, pending.since));
        }
    }
}
