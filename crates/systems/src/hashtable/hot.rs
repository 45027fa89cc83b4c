//! Publications of blocks, and reads of hot keys. The code calls a copy of a block a slot. The module
//! [`super`] defines the terms.
//!
//! # Publications
//! To publish a block (`cache.rs` tells when), the front-end
//! 1. acquires the lock by a compare-and-swap, and READs the current copy in the same list;
//! 2. repeats step 1 while the compare-and-swap fails (`asking.rs`);
//! 3. takes its pending writes to the block, and puts their values into the block, each with the version
//!    after the entry's version. If an entry has another key than the value, `moves.rs` describes how the
//!    value is written;
//! 4. WRITEs the block to one of its own copies that is not current. In the same list, it releases the lock
//!    by a compare-and-swap that makes this copy the current one;
//! 5. if this compare-and-swap fails, makes the writes pending again, pauses, and begins again at step 1.
//!    Another front-end has taken the lock over. Nothing is lost.
//!
//! The lock is held only to publish (ours: the paper does not say). A front-end could hold it from the first
//! pending write on, as a core holds a cache line. But with Zipf's law all front-ends want the same blocks,
//! so they would wait for the holder, each time for up to `time_out`.
//!
//! # Reads
//! 1. If the front-end's cache has a value of the key that is not published yet, the read takes it and ends.
//! 2. The front-end READs the copy that its known word names, and then the word, in one list.
//! 3. The front-end accepts the copy if it is *unchanged* and *recent*. If the copy has another key in the
//!    entry, `moves.rs` describes how the read goes on.
//! 4. If the front-end does not accept the copy, the word that it READ becomes the known word. The front-end
//!    begins again at step 2.
//!
//! The known word shows that the copy was current. The copy is *unchanged* if no front-end has begun to
//! overwrite it since then. A front-end overwrites only its own copies that are not current. So two events
//! have to happen before the copy is overwritten:
//! 1. A holder releases the lock and makes another copy current.
//! 2. After that, the front-end to which the copy belongs acquires the lock.
//!
//! The token of the word that was READ minus the token of the known word is the number of acquisitions since
//! the known word.
//! - If the known word shows the lock as free, the holder of event 1 acquired the lock after the known word.
//!   Then events 1 and 2 need two acquisitions. So the copy is unchanged if this number is at most one.
//! - If the known word shows the lock as held, the holder of event 1 may have acquired the lock before the
//!   known word. Then one acquisition is enough for both events. So the front-end takes the copy as unchanged
//!   only if this number is zero.
//!
//! Tokens count modulo 2^25. So a lock must not be acquired 2^25 times between two looks of a front-end at
//! its word.
//!
//! The copy is *recent* if it was current at some time during the read. The front-end knows this in two
//! cases:
//! - The word that was READ still names the copy.
//! - The known word was READ in an earlier try of this read, so the copy was current at that time.

use super::asking::{Asking, GivenBack, LockAnswer};
use super::cache::TakenWrites;
use super::entry;
use super::locks::BlockLocks;
use super::request::AreaRequest;
use super::scratch::ScratchPart;
use super::table::{Hot, OWNER};
use super::turn::{OpStep, OpTurn};
use crate::spinlock::word::Word;
use crate::{SystemError, checksum};
use doorbell_verbs::Provider;

/// A read of a key in its block.
#[derive(Debug)]
pub(super) struct HotGet {
    key: u64,
    hot: Hot,
    /// `by` is the word that names the slot to READ. `is_new` tells whether that word was seen after the read
    /// began.
    by: Word,
    is_new: bool,
    found: Vec<u8>,
    /// How often the READs were repeated because the block was written during them.
    pub(super) again: u64,
}

impl HotGet {
    pub(super) fn begin<P: Provider>(
        turn: &OpTurn<'_, P>,
        (key, hot): (u64, Hot),
    ) -> Result<HotGet, SystemError> {
        let by = turn.locks.known[hot.block as usize];
        let get = HotGet { key, hot, by, is_new: false, found: Vec::new(), again: 0 };
        get.post(turn)?;
        Ok(get)
    }

    /// READs the block, then the word of its lock.
    fn post<P: Provider>(&self, turn: &OpTurn<'_, P>) -> Result<(), SystemError> {
        let table = turn.table();
        let (area, lock) = table.lock(self.hot.block);
        let at = BlockLocks::data(table, self.hot.block, self.by);
        let block = AreaRequest::Read(at, ScratchPart::Body, table.block());
        let word = AreaRequest::Read(table.locks().word(lock), ScratchPart::Word, 8);
        turn.post(area, [block, word]).map(drop)
    }

    pub(super) fn completed<P: Provider>(&mut self, turn: &mut OpTurn<'_, P>) -> Result<OpStep, SystemError> {
        let Hot { block, entry } = self.hot;
        let word = Word::of(turn.word(ScratchPart::Word, 0));
        turn.locks.known[block as usize] = word;
        // A front-end that acquires the lock may make another slot current. Only a front-end that acquires
        // the lock afterwards may write to this slot. So one acquisition since the word `by` is harmless. If
        // `by` shows the lock as held, that acquisition was before `by`.
        let most = u32::from(self.by.holder == 0);
        let is_still = word.takes_since(self.by) <= most;
        if is_still && (word.slot == self.by.slot || self.is_new) {
            let (at, bytes) = (turn.table().owner_at(self.hot), turn.table().entry());
            let owner = turn.word(ScratchPart::Body, at);
            turn.cache.learn(self.hot, owner);
            if owner != self.key {
                return Ok(OpStep::Elsewhere);
            }
            self.found.resize(bytes as usize, 0);
            turn.read(ScratchPart::Body, at + OWNER, &mut self.found);
            turn.work(checksum::work(bytes));
            if !entry::is_whole(self.key, &self.found) {
                return Err(SystemError::Protocol(format!("entry {entry} of block {block} is not whole")));
            }
            return Ok(OpStep::Ended(entry::version(&self.found)));
        }
        self.again += 1;
        (self.by, self.is_new) = (word, true);
        self.post(turn)?;
        Ok(OpStep::Posted)
    }

    pub(super) fn value(&self, bytes: u32) -> &[u8] {
        entry::value(&self.found, bytes)
    }
}

/// The state of a publication.
#[derive(Debug)]
enum Publishing {
    /// The lock is requested.
    Taking,
    /// The block is being WRITTEN, and the lock is being released.
    Giving(GivenBack, Publication),
}

/// A publication of a block.
#[derive(Debug)]
pub(super) struct Publish {
    publishing: Publishing,
    asking: Asking,
}

/// A pending value of a key that has left its block.
#[derive(Debug)]
pub(super) struct Stray {
    pub(super) key: u64,
    pub(super) hot: Hot,
    pub(super) value: Vec<u8>,
    /// How often the front-end had written the entry.
    pub(super) count: u64,
}

/// The writes that a publication took, and their outcomes.
#[derive(Debug)]
pub(super) struct Publication {
    pub(super) taken: TakenWrites,
    /// For each published entry: its key, its version, and how often the front-end had written the entry.
    pub(super) entries: Vec<(u64, u64, u64)>,
    /// The published entries, a bit each.
    pub(super) there: u64,
    /// Values that have to go to records.
    pub(super) strays: Vec<Stray>,
}

impl Publish {
    pub(super) fn begin<P: Provider>(turn: &mut OpTurn<'_, P>, block: u32) -> Result<Publish, SystemError> {
        Ok(Publish { publishing: Publishing::Taking, asking: Asking::begin(turn, block)? })
    }

    /// Continues after the posted list has completed. [`OpStep::Ended`] has the number of published writes.
    pub(super) fn completed<P: Provider>(&mut self, turn: &mut OpTurn<'_, P>) -> Result<OpStep, SystemError> {
        match &self.publishing {
            Publishing::Taking => match self.asking.completed(turn)? {
                LockAnswer::Had => self.give(turn),
                LockAnswer::Not(step) => Ok(step),
            },
            Publishing::Giving(given, publication) if self.asking.given(turn, *given) => {
                Ok(OpStep::Ended(publication.taken.writes.into()))
            }
            Publishing::Giving(_, publication) => {
                turn.cache.put_back(self.asking.block, publication.taken);
                self.publishing = Publishing::Taking;
                Ok(self.asking.lost(turn))
            }
        }
    }

    /// Puts the pending values into the block, WRITEs the block, and releases the lock.
    fn give<P: Provider>(&mut self, turn: &mut OpTurn<'_, P>) -> Result<OpStep, SystemError> {
        let taken = turn.cache.take(self.asking.block);
        let publication = fill(turn, self.asking.block, taken);
        self.publishing = Publishing::Giving(self.asking.publish(turn)?, publication);
        Ok(OpStep::Posted)
    }

    /// Asks for the lock again after a wait.
    pub(super) fn resume<P: Provider>(&mut self, turn: &OpTurn<'_, P>) -> Result<OpStep, SystemError> {
        self.asking.resume(turn)
    }

    /// How many attempts to acquire the lock failed.
    pub(super) fn again(&self) -> u64 {
        self.asking.again
    }

    /// The number of the block, and the outcomes of the writes.
    ///
    /// # Panics
    /// If the publication has not ended.
    pub(super) fn into_publication(self) -> (u32, Publication) {
        let block = self.asking.block;
        match self.publishing {
            Publishing::Giving(_, publication) => (block, publication),
            Publishing::Taking => panic!("a publication of block {block} ended without the lock"),
        }
    }
}

/// Puts taken writes into a block that was READ. Values whose key has left the block become strays.
fn fill<P: Provider>(turn: &mut OpTurn<'_, P>, block: u32, taken: TakenWrites) -> Publication {
    let size = turn.table().entry();
    let mut bytes = Vec::new();
    let (entries, strays) = Default::default();
    let mut publication = Publication { taken, entries, there: 0, strays };
    for entry in (0..turn.table().entries).filter(|entry| taken.entries >> entry & 1 == 1) {
        let hot = Hot { block, entry };
        let (key, at) = (turn.cache.owner(hot), turn.table().owner_at(hot));
        let owner = turn.word(ScratchPart::Body, at);
        let (value, count) = (turn.cache.value(hot), turn.cache.count(hot));
        turn.cache.learn(hot, owner);
        if owner != key {
            publication.strays.push(Stray { key, hot, value, count });
            continue;
        }
        let version = turn.word(ScratchPart::Body, at + OWNER) + 1;
        entry::encode(key, version, &value, &mut bytes);
        turn.work(checksum::work(size));
        turn.write(ScratchPart::Body, at + OWNER, &bytes);
        publication.entries.push((key, version, count));
        publication.there |= 1 << entry;
    }
    publication
}
