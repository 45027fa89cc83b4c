//! The exchange of two keys under the lock of their block. Key k moves into its entry of the block. The
//! *resident* j, the key that has this entry, moves out to its own record. The module [`super`] defines the
//! terms, and `moves.rs` has the steps of a move before and after the exchange.
//!
//! The front-end
//! 1. acquires the lock and READs the block, as a publication does (`hot.rs`). If the block has k, the
//!    front-end releases the lock, and the exchange ends. Otherwise the block has j, with version v;
//! 2. READs the slots and the head of k's record, in one list. It takes the newest whole version, which is
//!    the last version of k. If k is no longer marked, or has moved other than by step 3, the front-end
//!    *gives up*: it releases the lock, and the move begins again. It also gives up if a `done` word names a
//!    version that is newer than all whole versions;
//! 3. counts the move in k's count, by a compare-and-swap of the count that it READ in step 2. If this fails,
//!    a void draw or a further mark may have changed the count. The front-end then repeats the
//!    compare-and-swap with the returned count. But it gives up if k is no longer marked or has moved;
//! 4. READs the head of j's record;
//! 5. WRITEs j's record, in one list: the entry to the slot of v, and `done` words as if all versions up to
//!    v had been written. If the lock's lease has ended, the front-end gives up instead;
//! 6. WRITEs the block with k in the place of j and releases the lock, as a publication does. **Now k has
//!    moved.** If the compare-and-swap that releases the lock fails, another front-end has taken the lock
//!    over. The front-end then pauses and begins again at step 1.

use super::asking::{Asking, GivenBack, LockAnswer};
use super::cold::{head, head_of, look_at, newest};
use super::count::Count;
use super::entry;
use super::request::AreaRequest;
use super::scratch::ScratchPart;
use super::table::{Hot, KeyRecord, OWNER};
use super::turn::{OpStep, OpTurn};
use crate::{SystemError, checksum};
use doorbell_verbs::Provider;

/// The key that occupies the moving key's entry of the block.
#[derive(Debug)]
struct Resident {
    key: u64,
    version: u64,
    /// The block, as it was READ when the lock was acquired.
    block: Vec<u8>,
}

/// The state of an exchange. A `Vec<u8>` is the moving key's newest entry, which goes to the block.
#[derive(Debug)]
enum Exchanging {
    /// The lock of the block is requested.
    Taking,
    /// The lock is held, and the moving key's record is being READ.
    Reading(Resident),
    /// A compare-and-swap of the moving key's count is in flight. It counts the move if the count still has
    /// this value.
    Counting(Resident, Vec<u8>, Count),
    /// The head of the resident's record is being READ.
    Meeting(Resident, Vec<u8>),
    /// The resident is being WRITTEN to its record. The record has this count.
    Leaving(Resident, Vec<u8>, Count),
    /// The block is being WRITTEN with the moving key, and the lock is being released.
    Giving(Resident, GivenBack, Count),
    /// The lock is being released, and the block is unchanged. The flag tells whether the key was in the
    /// block already.
    Resigning(GivenBack, bool),
}

/// The result of a step of an exchange.
pub(super) enum Exchanged {
    /// The exchange goes on.
    Not(OpStep),
    /// The moving key is in the block. The evicted key `key` is in its record with version `version`. `count`
    /// was the record's count before.
    Left { key: u64, version: u64, count: Count },
    /// The key was in the block already.
    Already,
    /// Another front-end has moved the key meanwhile.
    Overtaken,
}

/// An exchange of a key and the key in its place.
#[derive(Debug)]
pub(super) struct Exchange {
    key: u64,
    record: KeyRecord,
    hot: Hot,
    /// The moving key's count after the earlier writers had ended. Later: the count that includes this move.
    count: Count,
    asking: Asking,
    exchanging: Exchanging,
}

impl Exchange {
    /// Begins an exchange. [`super::locks::BlockLocks::may_ask`] must hold for the block.
    pub(super) fn begin<P: Provider>(
        turn: &mut OpTurn<'_, P>,
        (key, hot): (u64, Hot),
        count: Count,
    ) -> Result<Exchange, SystemError> {
        let (record, asking) = (turn.table().record(key), Asking::begin(turn, hot.block)?);
        Ok(Exchange { key, record, hot, count, asking, exchanging: Exchanging::Taking })
    }

    /// How many attempts to acquire the lock failed.
    pub(super) fn again(&self) -> u64 {
        self.asking.again
    }

    /// Goes on after the posted list has completed.
    pub(super) fn completed<P: Provider>(
        &mut self,
        turn: &mut OpTurn<'_, P>,
    ) -> Result<Exchanged, SystemError> {
        match std::mem::replace(&mut self.exchanging, Exchanging::Taking) {
            Exchanging::Taking => match self.asking.completed(turn)? {
                LockAnswer::Had => self.meet(turn),
                LockAnswer::Not(step) => Ok(Exchanged::Not(step)),
            },
            Exchanging::Reading(resident) => self.read(turn, resident),
            Exchanging::Counting(resident, entry, before) => {
                let seen = Count::of(turn.answer());
                if seen != before {
                    return self.count_move(turn, resident, entry, seen);
                }
                self.count = before.moved();
                let KeyRecord { area, at } = turn.table().record(resident.key);
                turn.post(area, [head(turn.table(), at)])?;
                self.posted(Exchanging::Meeting(resident, entry))
            }
            Exchanging::Meeting(resident, entry) => self.evict(turn, resident, entry),
            Exchanging::Leaving(resident, entry, others) => self.give(turn, resident, &entry, others),
            Exchanging::Giving(resident, given, others) => Ok(self.gave(turn, &resident, given, others)),
            Exchanging::Resigning(given, is_there) => {
                if !self.asking.given(turn, given) {
                    self.asking.leave(turn);
                }
                Ok(if is_there { Exchanged::Already } else { Exchanged::Overtaken })
            }
        }
    }

    /// Asks for the lock again after a wait.
    ///
    /// # Panics
    /// If the exchange does not wait for the lock.
    pub(super) fn resume<P: Provider>(&mut self, turn: &OpTurn<'_, P>) -> Result<OpStep, SystemError> {
        match &self.exchanging {
            Exchanging::Taking => self.asking.resume(turn),
            other => panic!("an exchange was resumed, but does not wait for a lock: {other:?}"),
        }
    }

    fn posted(&mut self, exchanging: Exchanging) -> Result<Exchanged, SystemError> {
        self.exchanging = exchanging;
        Ok(Exchanged::Not(OpStep::Posted))
    }

    /// Continues when the lock is acquired: determines the key in the entry, and READs the moving key's
    /// record.
    fn meet<P: Provider>(&mut self, turn: &mut OpTurn<'_, P>) -> Result<Exchanged, SystemError> {
        let at = turn.table().owner_at(self.hot);
        let owner = turn.word(ScratchPart::Body, at);
        turn.cache.learn(self.hot, owner);
        if owner == self.key {
            return self.resign(turn, true);
        }
        if owner >= turn.table().pairs {
            return Err(SystemError::Protocol(format!(
                "a block has key {owner}, but the table has no such key"
            )));
        }
        let version = turn.word(ScratchPart::Body, at + OWNER);
        let mut block = vec![0; turn.table().block() as usize];
        turn.read(ScratchPart::Body, 0, &mut block);
        look_at(turn, self.record)?;
        self.posted(Exchanging::Reading(Resident { key: owner, version, block }))
    }

    /// Evaluates the moving key's record, which was READ under the lock. If the key has not moved since the
    /// earlier writers ended, the newest version in the record is the key's last version.
    fn read<P: Provider>(
        &mut self,
        turn: &OpTurn<'_, P>,
        resident: Resident,
    ) -> Result<Exchanged, SystemError> {
        let (count, done) = head_of(turn);
        if !count.is_same_mark(self.count) {
            return self.resign(turn, false);
        }
        let mut slots = Vec::new();
        let found = newest(turn, self.key, &mut slots);
        let Some((_, at)) = found.filter(|(version, _)| Some(version) >= done.iter().max()) else {
            return self.resign(turn, false);
        };
        let entry = slots[at..][..turn.table().entry() as usize].to_vec();
        self.count_move(turn, resident, entry, count)
    }

    /// Counts the move in the key's record. A front-end that brought the key to the record earlier then no
    /// longer declares it cold.
    fn count_move<P: Provider>(
        &mut self,
        turn: &OpTurn<'_, P>,
        resident: Resident,
        entry: Vec<u8>,
        count: Count,
    ) -> Result<Exchanged, SystemError> {
        if !count.is_same_mark(self.count) {
            return self.resign(turn, false);
        }
        let KeyRecord { area, at } = self.record;
        let (compare, swap) = (count.bits(), count.moved().bits());
        turn.post(area, [AreaRequest::Swap { at, compare, swap }])?;
        self.posted(Exchanging::Counting(resident, entry, count))
    }

    /// WRITEs the resident to its record. The entry goes to the slot of the resident's version. The `done`
    /// words get values as if all earlier versions had been written. While the lease lasts, the lock keeps
    /// other front-ends from doing this.
    fn evict<P: Provider>(
        &mut self,
        turn: &OpTurn<'_, P>,
        resident: Resident,
        entry: Vec<u8>,
    ) -> Result<Exchanged, SystemError> {
        let Resident { key, version, .. } = resident;
        let (count, _) = head_of(turn);
        let (versions, size) = (u64::from(turn.table().versions), turn.table().entry());
        let at = (turn.table().owner_at(self.hot) + OWNER) as usize;
        let done = |of: u64| version.saturating_sub((version + versions - of) % versions);
        for of in 0..versions {
            let word = if of > version { 0 } else { done(of) };
            turn.write(ScratchPart::Head, 8 * of, &word.to_le_bytes());
        }
        turn.work(checksum::work(size));
        let left = &resident.block[at..][..size as usize];
        turn.write(ScratchPart::Entry, 0, left);
        if turn.now() > self.asking.until() {
            return self.resign(turn, false);
        }
        if !count.is_marked() || !entry::is_whole(key, left) {
            return Err(SystemError::Protocol(format!(
                "key {key} is in its block, but its count is not marked or its entry is not whole: {count:?}"
            )));
        }
        let KeyRecord { area, at } = turn.table().record(key);
        let slot_at = at + turn.table().slots() + version % versions * size;
        let places = AreaRequest::Write(slot_at, ScratchPart::Entry, size);
        turn.post(area, [places, AreaRequest::Write(at + 8, ScratchPart::Head, 8 * versions)])?;
        self.posted(Exchanging::Leaving(resident, entry, count))
    }

    /// WRITEs the block with the moving key, and releases the lock.
    fn give<P: Provider>(
        &mut self,
        turn: &OpTurn<'_, P>,
        resident: Resident,
        entry: &[u8],
        others: Count,
    ) -> Result<Exchanged, SystemError> {
        let at = turn.table().owner_at(self.hot);
        turn.write(ScratchPart::Body, 0, &resident.block);
        turn.write(ScratchPart::Body, at, &self.key.to_le_bytes());
        turn.write(ScratchPart::Body, at + OWNER, entry);
        let given = self.asking.publish(turn)?;
        self.posted(Exchanging::Giving(resident, given, others))
    }

    fn gave<P: Provider>(
        &mut self,
        turn: &mut OpTurn<'_, P>,
        resident: &Resident,
        given: GivenBack,
        count: Count,
    ) -> Exchanged {
        if self.asking.given(turn, given) {
            turn.cache.learn(self.hot, self.key);
            return Exchanged::Left { key: resident.key, version: resident.version, count };
        }
        // The resident is still in the block.
        Exchanged::Not(self.asking.lost(turn))
    }

    /// Releases the lock and leaves the block unchanged.
    fn resign<P: Provider>(
        &mut self,
        turn: &OpTurn<'_, P>,
        is_there: bool,
    ) -> Result<Exchanged, SystemError> {
        let given = self.asking.resign(turn)?;
        self.posted(Exchanging::Resigning(given, is_there))
    }
}
