//! Reads of blocks, and their publication.

use super::cache::{Cache, Taken};
use super::cold::Step;
use super::entry;
use super::front_end::Terms;
use super::io::{Io, Part, Request, Slot};
use super::lock::{Answer, Asking, Locks};
use super::table::{Hot, OWNER};
use crate::spinlock::word::Word;
use crate::{SystemError, checksum};
use doorbell_verbs::Provider;

/// A read of a key in its block.
#[derive(Debug)]
pub(super) struct Get {
    key: u64,
    hot: Hot,
    /// The word by which the block was READ, and whether that was seen after the read began.
    by: Word,
    is_new: bool,
    found: Vec<u8>,
    /// READs of blocks that were written meanwhile.
    pub(super) again: u64,
}

impl Get {
    pub(super) fn begin<P: Provider>(
        io: &Io<P>,
        slot: Slot,
        locks: &Locks,
        (key, hot): (u64, Hot),
    ) -> Result<Get, SystemError> {
        let by = locks.known[hot.block as usize];
        let get = Get { key, hot, by, is_new: false, found: Vec::new(), again: 0 };
        get.post(io, slot)?;
        Ok(get)
    }

    /// READs the block, and its word after it.
    fn post<P: Provider>(&self, io: &Io<P>, slot: Slot) -> Result<(), SystemError> {
        let (area, lock) = io.table.lock(self.hot.block);
        let block = Request::Read(Locks::data(io, self.hot.block, self.by), Part::Body, io.table.block());
        let word = Request::Read(io.table.locks().word(lock), Part::Word, 8);
        io.post(slot, area, [block, word]).map(drop)
    }

    pub(super) fn completed<P: Provider>(
        &mut self,
        io: &Io<P>,
        slot: Slot,
        locks: &mut Locks,
        cache: &mut Cache<P>,
    ) -> Result<Step, SystemError> {
        let Hot { block, entry } = self.hot;
        let word = Word::of(io.word(slot, Part::Word, 0));
        locks.known[block as usize] = word;
        // Who takes the lock may name another slot; only who takes it after that may write to this one. A word that was seen taken has one of the two behind it.
        let most = u32::from(self.by.holder == 0);
        let is_still = word.takes_since(self.by) <= most;
        if is_still && (word.slot == self.by.slot || self.is_new) {
            let (at, bytes) = (io.table.owner_at(self.hot), io.table.entry());
            let owner = io.word(slot, Part::Body, at);
            cache.learn(self.hot, owner);
            if owner != self.key {
                return Ok(Step::Elsewhere);
            }
            self.found.resize(bytes as usize, 0);
            io.read(slot, Part::Body, at + OWNER, &mut self.found);
            io.cpu.work(checksum::work(bytes));
            if !entry::is_whole(self.key, &self.found) {
                return Err(SystemError::Protocol(format!("entry {entry} of block {block} is not whole")));
            }
            return Ok(Step::Ended(entry::version(&self.found)));
        }
        self.again += 1;
        (self.by, self.is_new) = (word, true);
        self.post(io, slot)?;
        Ok(Step::Posted)
    }

    pub(super) fn value(&self, bytes: u32) -> &[u8] {
        entry::value(&self.found, bytes)
    }
}

/// Where a publication is.
#[derive(Clone, Copy, Debug)]
enum Publishing {
    /// The lock is asked for.
    Taking,
    /// The block is on its way, and the lock goes back.
    Giving,
}

/// A publication of a block.
#[derive(Debug)]
pub(super) struct Publish {
    publishing: Publishing,
    asking: Asking,
    taken: Option<Taken>,
    /// Of each entry that it has, its key, the version, and how often the front-end had written it.
    entries: Vec<(u64, u64, u64)>,
    /// Entries that it has, a bit each.
    there: u64,
    strays: Vec<Stray>,
}

/// A value of a key that is not in its block any more.
#[derive(Debug)]
pub(super) struct Stray {
    pub(super) key: u64,
    pub(super) hot: Hot,
    pub(super) value: Vec<u8>,
    /// How often the front-end had written the entry.
    pub(super) count: u64,
}

/// What was published.
pub(super) struct Publication {
    pub(super) taken: Taken,
    /// Of each entry its key, the version, and how often the front-end had written it.
    pub(super) entries: Vec<(u64, u64, u64)>,
    /// The entries, a bit each.
    pub(super) there: u64,
    /// What has to go to records.
    pub(super) strays: Vec<Stray>,
}

impl Publish {
    pub(super) fn begin<P: Provider>(
        io: &Io<P>,
        slot: Slot,
        locks: &mut Locks,
        terms: &Terms,
        block: u32,
    ) -> Result<Publish, SystemError> {
        let mut asking = Asking::new(terms, block);
        asking.begin(io, slot, locks)?;
        let (entries, strays) = Default::default();
        Ok(Publish { publishing: Publishing::Taking, asking, taken: None, entries, there: 0, strays })
    }

    /// What it has posted has completed. Ends with how many writes it brought.
    pub(super) fn completed<P: Provider>(
        &mut self,
        io: &mut Io<P>,
        slot: Slot,
        locks: &mut Locks,
        cache: &mut Cache<P>,
    ) -> Result<Step, SystemError> {
        match self.publishing {
            Publishing::Taking => match self.asking.completed(io, slot, locks)? {
                Answer::Had => self.give(io, slot, locks, cache),
                Answer::Not(step) => Ok(step),
            },
            Publishing::Giving if self.asking.given(io, slot, locks) => {
                Ok(Step::Ended(self.taken.map_or(0, |taken| taken.writes.into())))
            }
            Publishing::Giving => {
                if let Some(taken) = self.taken.take() {
                    cache.put_back(self.block(), taken);
                }
                self.publishing = Publishing::Taking;
                Ok(self.asking.lost(io, slot, locks))
            }
        }
    }

    /// Puts into the block what is pending, and gives it back.
    fn give<P: Provider>(
        &mut self,
        io: &Io<P>,
        slot: Slot,
        locks: &Locks,
        cache: &mut Cache<P>,
    ) -> Result<Step, SystemError> {
        let block = self.block();
        let taken = cache.take(block);
        let size = io.table.entry();
        let mut bytes = Vec::new();
        self.entries.clear();
        self.strays.clear();
        self.there = 0;
        for entry in (0..io.table.entries).filter(|entry| taken.entries >> entry & 1 == 1) {
            let hot = Hot { block, entry };
            let (key, at) = (cache.owner(hot), io.table.owner_at(hot));
            let (owner, value, count) = (io.word(slot, Part::Body, at), cache.value(hot), cache.count(hot));
            cache.learn(hot, owner);
            if owner != key {
                self.strays.push(Stray { key, hot, value, count });
                continue;
            }
            let version = io.word(slot, Part::Body, at + OWNER) + 1;
            entry::encode(key, version, &value, &mut bytes);
            io.cpu.work(checksum::work(size));
            io.write(slot, Part::Body, at + OWNER, &bytes);
            self.entries.push((key, version, count));
            self.there |= 1 << entry;
        }
        self.taken = Some(taken);
        self.publishing = Publishing::Giving;
        self.asking.publish(io, slot, locks)
    }

    /// Its wait is over.
    pub(super) fn resume<P: Provider>(
        &mut self,
        io: &Io<P>,
        slot: Slot,
        locks: &Locks,
    ) -> Result<Step, SystemError> {
        self.asking.resume(io, slot, locks)
    }

    /// The block that it is of.
    pub(super) fn block(&self) -> u32 {
        self.asking.block
    }

    /// Attempts that failed.
    pub(super) fn again(&self) -> u64 {
        self.asking.again
    }

    /// What it published, once it has ended.
    pub(super) fn into_publication(self) -> Option<Publication> {
        let Publish { taken, entries, there, strays, .. } = self;
        Some(Publication { taken: taken?, entries, there, strays })
    }
}
