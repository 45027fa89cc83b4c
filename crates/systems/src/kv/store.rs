//! A partition of a store: an index of set-associative buckets, and a log with the entries.
//!
//! The index is an array of buckets, one cache line each. A bucket has eight slots. A slot has a tag of 16
//! bits, and the place of an entry in the log. The log is circular. An entry begins a cache line. It consists
//! of a header (version, length, whether the entry is alive), the key, the value, and a checksum of these. A
//! value that needs as many lines as the old one is updated in place. Any other value is appended, after the
//! old entry has been marked dead. The head of the log is stored after the log. From the head, clients that
//! READ the tables learn which entries have been overwritten.
//!
//! # Eviction
//! The store forgets rather than grows. An append overwrites the oldest entries of the log (first in, first
//! out, no matter which entries were read since). Slots of overwritten entries stay in the index until a
//! later use finds that they are stale. A ninth key of a bucket takes the slot with the oldest entry. A
//! population stays whole while it fits the [`Layout`] and no bucket overflows.

use super::key::{self, KEY_BYTES, Key};
use crate::checksum::{self, checksum};
use crate::{SystemError, work};
use doorbell_verbs::{Cpu, Mem};

pub(crate) const BUCKET: u64 = 64;
const SLOTS: usize = 8;
const LINE: u64 = 64;
/// Bytes of header and key.
const BEFORE_VALUE: u64 = 8 + KEY_BYTES;
const CHECKSUM: u64 = 8;
/// Bits of a slot for the place of its entry: the number of lines that were appended before the entry.
const PLACE_BITS: u32 = 48;
const LONGEST_VALUE: u32 = 4000;

/// The state of a filled partition, from which its owner continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filled {
    /// As in [`PartitionStore`].
    pub(crate) head: u64,
    /// As in [`PartitionStore`].
    pub(crate) version: u32,
}

/// Sizes of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Buckets of the index, a power of two.
    pub buckets: u64,
    /// Bytes of the log, a multiple of 64.
    pub log: u64,
    /// Longest value in bytes, up to 4000.
    pub max_value: u32,
}

impl Layout {
    /// A layout for `pairs` pairs with values of `value` bytes. On average, at most four of a bucket's eight
    /// slots are in use, as in HERD. The log has room for all pairs.
    pub fn for_pairs(pairs: u64, value: u32) -> Layout {
        let buckets = pairs.div_ceil(4).max(1).next_power_of_two();
        Layout { buckets, log: (pairs + 1) * entry_bytes(value), max_value: value }
    }

    /// # Errors
    /// If a size is out of its range.
    pub fn check(&self) -> Result<(), SystemError> {
        if !self.buckets.is_power_of_two() || self.buckets > 1 << 32 {
            return SystemError::config(format!(
                "buckets must be a power of two up to 2^32, not {}",
                self.buckets
            ));
        }
        let least = entry_bytes(self.max_value);
        if self.max_value > LONGEST_VALUE || !self.log.is_multiple_of(LINE) || self.log < least {
            return SystemError::config(format!(
                "values must have at most {LONGEST_VALUE} bytes, and the log a multiple of {LINE} bytes, at \
                 least {least}, not {self:?}"
            ));
        }
        Ok(())
    }

    /// Bytes of a partition: index, log, and a line with the log's head.
    pub fn bytes(&self) -> u64 {
        self.head() + LINE
    }

    /// Offset of the word with the log's head, in the partition.
    pub(crate) fn head(&self) -> u64 {
        self.buckets * BUCKET + self.log
    }

    /// Whether the entry of a slot is not yet overwritten when the log's head is `head`.
    pub(crate) fn is_current(&self, slot: IndexSlot, head: u64) -> bool {
        head.saturating_sub(slot.place()) <= self.log / LINE
    }

    /// Offset of a key's bucket, in the partition.
    pub(crate) fn bucket(&self, key: &Key) -> u64 {
        (key::hash(key) & (self.buckets - 1)) * BUCKET
    }

    /// Offset of the entry of a slot, in the partition.
    pub(crate) fn entry(&self, slot: IndexSlot) -> u64 {
        self.buckets * BUCKET + slot.place() * LINE % self.log
    }

    /// Bytes of the longest entry.
    pub(crate) fn longest(&self) -> u64 {
        entry_bytes(self.max_value)
    }
}

/// Bytes of the entry of a value of `value` bytes.
fn entry_bytes(value: u32) -> u64 {
    (BEFORE_VALUE + u64::from(value).next_multiple_of(8) + CHECKSUM).next_multiple_of(LINE)
}

/// A slot of the index, as a word: tag and place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexSlot(u64);

impl IndexSlot {
    fn new(tag: u64, place: u64) -> IndexSlot {
        IndexSlot(tag << PLACE_BITS | place)
    }

    fn tag(self) -> u64 {
        self.0 >> PLACE_BITS
    }

    fn place(self) -> u64 {
        self.0 & ((1 << PLACE_BITS) - 1)
    }
}

/// The tag of a key. It is never 0, the tag of an empty slot.
fn tag(key: &Key) -> u64 {
    key::hash(key) >> 48 | 1 << 15
}

/// The slots of a bucket that may lead to the key's entry.
pub(crate) fn candidates(
    bucket: &[u8; BUCKET as usize],
    key: &Key,
) -> impl Iterator<Item = (usize, IndexSlot)> {
    let tag = tag(key);
    slots(bucket).enumerate().filter(move |(_, slot)| slot.tag() == tag)
}

fn slots(bucket: &[u8; BUCKET as usize]) -> impl Iterator<Item = IndexSlot> {
    bucket.as_chunks::<8>().0.iter().map(|word| IndexSlot(u64::from_ne_bytes(*word)))
}

/// The first word of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    version: u32,
    length: u16,
    alive: bool,
}

impl Header {
    fn to_word(self) -> u64 {
        u64::from(self.alive) << 48 | u64::from(self.length) << 32 | u64::from(self.version)
    }

    fn from_word(word: u64) -> Header {
        Header { version: word as u32, length: (word >> 32) as u16, alive: word >> 48 == 1 }
    }
}

/// Encodes an entry.
fn encoded(version: u32, key: &Key, value: &[u8]) -> Vec<u8> {
    let header = Header { version, length: value.len() as u16, alive: true };
    let mut bytes = Vec::with_capacity(entry_bytes(value.len() as u32) as usize);
    bytes.extend_from_slice(&header.to_word().to_ne_bytes());
    bytes.extend_from_slice(key);
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes.extend_from_slice(&checksum(&bytes).to_ne_bytes());
    bytes
}

/// The meaning of bytes that a client READ at the place of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SeenEntry {
    /// The key's value.
    Value(u32, Vec<u8>),
    /// A whole entry, but of another key.
    OtherKey,
    /// An entry that is being written, moved or deleted, or the bytes that have overwritten an entry.
    TornOrStale,
}

/// Interprets bytes that a reader of `key` READ at the place of an entry.
pub(crate) fn judge(bytes: &[u8], key: &Key) -> SeenEntry {
    let word = |at: usize| bytes.get(at..at + 8).and_then(|w| Some(u64::from_ne_bytes(w.try_into().ok()?)));
    let Some(header) = word(0).map(Header::from_word) else { return SeenEntry::TornOrStale };
    let end = (BEFORE_VALUE + u64::from(header.length).next_multiple_of(8)) as usize;
    if !header.alive || word(end) != bytes.get(..end).map(checksum) {
        return SeenEntry::TornOrStale;
    }
    if bytes[8..BEFORE_VALUE as usize] != key[..] {
        return SeenEntry::OtherKey;
    }
    let value = &bytes[BEFORE_VALUE as usize..][..usize::from(header.length)];
    SeenEntry::Value(header.version, value.to_vec())
}

/// Processor time of a checksum over an entry with a value of `value` bytes.
pub(crate) fn checksum_work(value: usize) -> doorbell_verbs::Span {
    checksum::work(BEFORE_VALUE + value as u64)
}

/// The result of comparing a key's version with a known version.
pub(crate) enum IfNot {
    /// The key has the known version.
    Same,
    /// The key has this other version and this value. `None` if the key is absent.
    Other(Option<(u32, Vec<u8>)>),
}

/// A key's slot and entry.
#[derive(Clone, Copy)]
struct FoundEntry {
    /// Offset of the slot.
    slot: u64,
    /// Offset of the entry.
    entry: u64,
    header: Header,
}

/// A partition, which one thread owns.
pub struct PartitionStore {
    mem: Mem,
    layout: Layout,
    /// The log's head: the number of lines ever appended, including lines that were skipped at the log's end.
    head: u64,
    /// The version that was assigned last.
    version: u32,
}

impl PartitionStore {
    /// An empty partition in zeroed memory of [`Layout::bytes`].
    ///
    /// # Errors
    /// If the sizes are out of range, or do not match the memory.
    pub fn new(mem: Mem, layout: Layout) -> Result<PartitionStore, SystemError> {
        layout.check()?;
        if mem.len() != layout.bytes() {
            return SystemError::config(format!(
                "a partition has {} bytes, not {}",
                layout.bytes(),
                mem.len()
            ));
        }
        // Place 0 with tag 0 is an empty slot; tags are never 0.
        Ok(PartitionStore { mem, layout, head: 0, version: 0 })
    }

    /// A partition that was [filled](super::fill()).
    ///
    /// # Errors
    /// As [`PartitionStore::new`].
    pub fn resume(mem: Mem, layout: Layout, filled: Filled) -> Result<PartitionStore, SystemError> {
        let Filled { head, version } = filled;
        Ok(PartitionStore { head, version, ..PartitionStore::new(mem, layout)? })
    }

    /// The state from which a later owner continues.
    pub(crate) fn filled(&self) -> Filled {
        Filled { head: self.head, version: self.version }
    }

    /// The sizes of the partition.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Prefetches the key's bucket.
    pub fn prefetch_bucket<C: Cpu>(&self, cpu: &C, key: &Key) {
        cpu.prefetch(self.mem, self.layout.bucket(key), BUCKET);
    }

    /// Prefetches the first line of each entry that may be the key's.
    pub fn prefetch_entry<C: Cpu>(&self, cpu: &C, key: &Key) {
        let bucket = self.bucket(cpu, key);
        for (_, slot) in candidates(&bucket, key) {
            if self.is_current(slot) {
                cpu.prefetch(self.mem, self.layout.entry(slot), LINE);
            }
        }
    }

    fn bucket<C: Cpu>(&self, cpu: &C, key: &Key) -> [u8; BUCKET as usize] {
        let mut bucket = [0; BUCKET as usize];
        cpu.read(self.mem, self.layout.bucket(key), &mut bucket);
        bucket
    }

    fn is_current(&self, slot: IndexSlot) -> bool {
        self.layout.is_current(slot, self.head)
    }

    fn find<C: Cpu>(&self, cpu: &C, key: &Key) -> Option<FoundEntry> {
        cpu.work(work::INDEX);
        let bucket = self.bucket(cpu, key);
        for (i, slot) in candidates(&bucket, key) {
            if !self.is_current(slot) {
                continue;
            }
            let entry = self.layout.entry(slot);
            let mut bytes = [0; BEFORE_VALUE as usize];
            cpu.read(self.mem, entry, &mut bytes);
            if bytes[8..] == key[..] {
                let mut word = [0; 8];
                word.copy_from_slice(&bytes[..8]);
                let header = Header::from_word(u64::from_ne_bytes(word));
                return Some(FoundEntry { slot: self.layout.bucket(key) + 8 * i as u64, entry, header });
            }
        }
        None
    }

    /// The value of a key and its version; `None` if the key is absent.
    pub fn get<C: Cpu>(&self, cpu: &C, key: &Key) -> Option<(u32, Vec<u8>)> {
        self.find(cpu, key).map(|found| self.value(cpu, &found))
    }

    fn value<C: Cpu>(&self, cpu: &C, found: &FoundEntry) -> (u32, Vec<u8>) {
        let mut value = vec![0; usize::from(found.header.length)];
        if !value.is_empty() {
            cpu.read(self.mem, found.entry + BEFORE_VALUE, &mut value);
        }
        (found.header.version, value)
    }

    /// The value and the version of a key, if the version differs from `version`.
    pub(crate) fn get_if_not<C: Cpu>(&self, cpu: &C, key: &Key, version: u32) -> IfNot {
        match self.find(cpu, key) {
            Some(found) if found.header.version == version => IfNot::Same,
            found => IfNot::Other(found.map(|found| self.value(cpu, &found))),
        }
    }

    /// Inserts or updates a key; returns the new version.
    ///
    /// # Panics
    /// If the value is longer than [`Layout::max_value`].
    pub fn put<C: Cpu>(&mut self, cpu: &C, key: &Key, value: &[u8]) -> u32 {
        assert!(
            value.len() <= self.layout.max_value as usize,
            "a value of {} bytes is longer than max_value",
            value.len()
        );
        let found = self.find(cpu, key);
        self.write(cpu, found, key, value)
    }

    /// Inserts a key; returns its version, or `None` if the key is present.
    ///
    /// # Panics
    /// As [`PartitionStore::put`].
    pub fn insert<C: Cpu>(&mut self, cpu: &C, key: &Key, value: &[u8]) -> Option<u32> {
        self.find(cpu, key).is_none().then(|| self.put(cpu, key, value))
    }

    /// Updates a key; returns the new version, or `None` if the key is absent.
    ///
    /// # Panics
    /// As [`PartitionStore::put`].
    pub fn update<C: Cpu>(&mut self, cpu: &C, key: &Key, value: &[u8]) -> Option<u32> {
        self.find(cpu, key).is_some().then(|| self.put(cpu, key, value))
    }

    fn write<C: Cpu>(&mut self, cpu: &C, found: Option<FoundEntry>, key: &Key, value: &[u8]) -> u32 {
        self.version = self.version.wrapping_add(1);
        let bytes = encoded(self.version, key, value);
        cpu.work(checksum_work(value.len()));
        let room = entry_bytes(value.len() as u32);
        match found {
            Some(old) if entry_bytes(old.header.length.into()) == room => {
                cpu.write(self.mem, old.entry, &bytes)
            }
            _ => {
                // The old entry is marked dead first, because the appended entry may take its place.
                if let Some(old) = found {
                    self.bury(cpu, &old);
                }
                let slot = self.append(cpu, key, &bytes, room);
                let at = found.map_or_else(|| self.free_slot(cpu, key), |old| old.slot);
                cpu.store_u64(self.mem, at, slot.0);
            }
        }
        self.version
    }

    /// Marks an entry dead. A client that READs the entry after this does not mistake it for the key's value.
    fn bury<C: Cpu>(&self, cpu: &C, old: &FoundEntry) {
        cpu.store_u64(self.mem, old.entry, Header { alive: false, ..old.header }.to_word());
    }

    /// Moves the log's head to `head`.
    fn advance<C: Cpu>(&mut self, cpu: &C, head: u64) {
        self.head = head;
        cpu.store_u64(self.mem, self.layout.head(), head);
    }

    fn append<C: Cpu>(&mut self, cpu: &C, key: &Key, bytes: &[u8], room: u64) -> IndexSlot {
        let log = self.layout.log / LINE;
        let lines = room / LINE;
        if self.head % log + lines > log {
            let rest = IndexSlot::new(0, self.head);
            self.advance(cpu, self.head.next_multiple_of(log));
            // The log skips the lines at its end, so their entries no longer count. The lines are zeroed, so
            // that clients that READ the tables do not find these entries.
            let zeros = vec![0; (self.layout.head() - self.layout.entry(rest)) as usize];
            cpu.write(self.mem, self.layout.entry(rest), &zeros);
        }
        let slot = IndexSlot::new(tag(key), self.head);
        self.advance(cpu, self.head + lines);
        cpu.write(self.mem, self.layout.entry(slot), bytes);
        slot
    }

    /// Offset of an empty or stale slot in the key's bucket, else of the slot with the oldest entry.
    fn free_slot<C: Cpu>(&self, cpu: &C, key: &Key) -> u64 {
        let bucket = self.bucket(cpu, key);
        let age = |slot: IndexSlot| match slot.tag() {
            0 => u64::MAX,
            _ => self.head - slot.place(),
        };
        let oldest = (0..SLOTS).zip(slots(&bucket)).max_by_key(|&(i, slot)| (age(slot), SLOTS - i));
        self.layout.bucket(key) + 8 * oldest.map_or(0, |(i, _)| i as u64)
    }

    /// Deletes a key; returns whether it was present.
    pub fn delete<C: Cpu>(&mut self, cpu: &C, key: &Key) -> bool {
        let Some(found) = self.find(cpu, key) else { return false };
        cpu.store_u64(self.mem, found.slot, 0);
        self.bury(cpu, &found);
        true
    }
}
