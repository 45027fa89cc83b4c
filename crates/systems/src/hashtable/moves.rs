//! Moves of keys, and operations on keys that have moved. The module [`super`] defines the terms.
//!
//! `TableOp::Move` moves a key k from its record into its entry of its block. It moves the key j, which has
//! this entry, to j's record (ours: in the paper, hot keys stay hot). Any front-end may move a key at any
//! time.
//!
//! # Steps
//! To move key k, the front-end
//! 1. READs the block. If the block has k, the move ends;
//! 2. READs the slots and the head of k's record, in one list;
//! 3. if k is marked, pauses for `backoff` and begins again at step 1 (see the wait for another mover);
//! 4. marks k by a fetch-and-add on k's count, and READs the head of k's record in the same list;
//! 5. begins again at step 1 if k is no longer marked, or has moved since step 4 marked it. If step 3 found k
//!    marked and went on, moves since step 3 count instead;
//! 6. goes to step 8 if all writers that drew versions before the mark have ended (see the wait for writers);
//! 7. pauses for at most `backoff`, READs the head of k's record, and goes back to step 5;
//! 8. exchanges k and j under the lock of the block (`exchange.rs`). If the block already has k, the move
//!    ends. If another front-end has moved k meanwhile, the front-end begins again at step 1;
//! 9. removes the marks from j's count, by a compare-and-swap of the count that the exchange READ. The new
//!    count has j's version as the version drawn last. If the compare-and-swap fails, a void draw or a
//!    further mark may have changed the count. The front-end then repeats it with the returned count, unless
//!    another front-end has moved j or removed its marks.
//!
//! k keeps its version. If j has version v, the next version of j is v + 1. So the versions of a key never go
//! back.
//!
//! *The wait for another mover* (step 3):
//! - It begins when the front-end first finds k marked and not in the block.
//! - It ends when k is in the block, or when k is no longer marked.
//! - It takes at most `table_lease` + `drift`. After that time the front-end that marked k may have exited.
//!   So the waiting front-end goes on at step 5, with the mark that it found.
//!
//! *The wait for writers* (steps 5 to 7):
//! - It begins when the front-end has marked k, or has ended the wait for another mover.
//! - It ends when each slot of k's record is settled. A slot is settled when the periods (`claim.rs`) of all
//!   writers that drew a version of the slot before the mark have ended.
//! - For each slot, it takes at most m x (`table_lease` + `drift`), if m versions of the slot are missing.
//!   This time begins anew when the slot's `done` word changes, with a smaller m.
//! - If another operation of the front-end asks for the lock of the block or holds it, the move also waits
//!   until this operation no longer does (`asking.rs`).
//!
//! # Keys that have moved
//! A front-end takes a key for hot if it last saw the key in its block. It also takes a key for hot if its
//! cache has an unpublished value of the key. It takes all other keys for cold. It may be wrong, and then the
//! operation goes on at the key's other location:
//! - *A read of a cold key finds the key marked.* The reader READs the block. If the key is not there, the
//!   reader READs the record again, and takes its newest version despite the mark. The record then has every
//!   write that ended before the block was READ.
//! - *A read of a hot key finds another key in the entry.* The reader READs the record, and takes its newest
//!   version despite a mark.
//! - *A write of a cold key draws a void version.* The writer READs the block. If the key is there, the write
//!   becomes a write of a hot key. Otherwise the writer waits for another mover, as in step 3 of a move. If
//!   the key is no longer marked then, the writer draws again. If the wait reaches its longest time, the
//!   writer moves the key itself.
//! - *A publication finds another key in the entry of a value.* The front-end publishes its other values. It
//!   then writes this value as a write of a cold key. If the drawn version is void, the previous rule
//!   applies.
//!
//! # Assumptions
//! - `drift` also bounds the delay of the WRITEs to j's record (step 5 of `exchange.rs`), as it bounds the
//!   delay of the WRITEs of a cold key (`cold.rs`).
//! - The count has the number of moves modulo 4096. So a key must not move 4096 times between two looks of a
//!   front-end at the key's count.

use super::claim::{Look, SlotClaim};
use super::cold::{head, head_of, look_at};
use super::count::{Count, MARK};
use super::exchange::{Exchange, Exchanged};
use super::hot::HotGet;
use super::request::AreaRequest;
use super::table::{Hot, KeyRecord};
use super::turn::{OpStep, OpTurn};
use crate::SystemError;
use doorbell_verbs::{Provider, Time};

/// A wait for the writers that drew numbers before a key was marked.
#[derive(Debug)]
struct Settling {
    /// The key's count at the time when this move marked the key, or when it found the key marked.
    count: Count,
    /// For each slot, the claim that a writer of the slot's next number would have.
    claims: Vec<SlotClaim>,
    /// When the last READ of the head was posted.
    posted: Time,
}

/// The state of a move.
#[derive(Debug)]
enum Moving {
    /// The block is being READ: the key may be there.
    Finding(HotGet),
    /// The record is being READ, by a list that was posted at this time.
    Looking(Time),
    /// The move waits before it READs the block again, because another front-end may be about to finish its
    /// move of the key.
    Watching,
    /// The key is being marked, by a list that was posted at this time.
    Marking(Time),
    Settling(Settling),
    /// The key and the key that occupies its entry are being exchanged.
    Exchanging(Exchange),
    /// The marks are being removed from the count of the evicted key `key`, whose newest version is
    /// `version`. This fails if the count is no longer `before`.
    Freeing {
        key: u64,
        version: u64,
        before: Count,
    },
}

/// A move of a key into its block.
#[derive(Debug)]
pub(super) struct Move {
    key: u64,
    record: KeyRecord,
    hot: Hot,
    /// Whether the move belongs to a write that found the key marked. Such a move does not mark the key
    /// itself.
    for_write: bool,
    moving: Moving,
    /// When the key was first seen marked and not in its block.
    since: Option<Time>,
    /// How often the move began again.
    again: u64,
    /// How many attempts to acquire the lock failed in the last exchange.
    lock_again: u64,
}

impl Move {
    pub(super) fn begin<P: Provider>(
        turn: &OpTurn<'_, P>,
        (key, hot): (u64, Hot),
        for_write: bool,
    ) -> Result<Move, SystemError> {
        let moving = Moving::Finding(HotGet::begin(turn, (key, hot))?);
        let record = turn.table().record(key);
        Ok(Move { key, record, hot, for_write, moving, since: None, again: 0, lock_again: 0 })
    }

    /// The entry to which the key moves.
    pub(super) fn hot(&self) -> Hot {
        self.hot
    }

    /// How often the move, or a part of it, was repeated.
    pub(super) fn again(&self) -> u64 {
        let of_lock = match &self.moving {
            Moving::Exchanging(exchange) => exchange.again(),
            _ => self.lock_again,
        };
        self.again + of_lock
    }

    /// Goes on after the posted list has completed.
    ///
    /// # Panics
    /// If the move has posted nothing.
    pub(super) fn completed<P: Provider>(&mut self, turn: &mut OpTurn<'_, P>) -> Result<OpStep, SystemError> {
        match &mut self.moving {
            Moving::Finding(get) => match get.completed(turn)? {
                OpStep::Elsewhere => {
                    self.moving = Moving::Looking(look_at(turn, self.record)?);
                    Ok(OpStep::Posted)
                }
                step => Ok(step),
            },
            Moving::Looking(posted) => {
                let posted = *posted;
                self.looked(turn, posted)
            }
            Moving::Watching => panic!(
                "a list completed for a move of key {}, but the move waits and has posted none",
                self.key
            ),
            Moving::Marking(posted) => {
                let (posted, before) = (*posted, Count::of(turn.answer()));
                self.settle(turn, before, posted)
            }
            Moving::Settling(_) => self.look_again(turn),
            Moving::Exchanging(exchange) => {
                let exchanged = exchange.completed(turn)?;
                self.exchanged(turn, exchanged)
            }
            Moving::Freeing { key, version, before } => {
                let (key, version, before, seen) = (*key, *version, *before, Count::of(turn.answer()));
                // A front-end that draws a void number changes the count, too. The move then tries again. But
                // if another front-end has moved the key again, nothing is left to do here.
                match seen == before || !seen.is_same_mark(before) {
                    true => Ok(OpStep::Ended(0)),
                    false => self.free(turn, (key, version), seen),
                }
            }
        }
    }

    /// Goes on after a wait.
    ///
    /// # Panics
    /// If the move does not wait.
    pub(super) fn resume<P: Provider>(&mut self, turn: &OpTurn<'_, P>) -> Result<OpStep, SystemError> {
        match &mut self.moving {
            Moving::Settling(settling) => {
                let KeyRecord { area, at } = self.record;
                settling.posted = turn.post(area, [head(turn.table(), at)])?;
                Ok(OpStep::Posted)
            }
            Moving::Exchanging(exchange) => exchange.resume(turn),
            Moving::Watching => self.begin_again(turn),
            Moving::Finding(_) | Moving::Looking(_) | Moving::Marking(_) | Moving::Freeing { .. } => {
                panic!("a move of key {} was resumed, but does not wait: {:?}", self.key, self.moving)
            }
        }
    }

    fn begin_again<P: Provider>(&mut self, turn: &OpTurn<'_, P>) -> Result<OpStep, SystemError> {
        self.again += 1;
        self.moving = Moving::Finding(HotGet::begin(turn, (self.key, self.hot))?);
        Ok(OpStep::Posted)
    }

    /// Continues when the record has been READ, after the key was not found in its block.
    fn looked<P: Provider>(&mut self, turn: &mut OpTurn<'_, P>, posted: Time) -> Result<OpStep, SystemError> {
        let (count, _) = head_of(turn);
        if count.is_marked() {
            // Another front-end has marked the key, or is moving it to its record. It will finish, unless it
            // has exited.
            let now = turn.now();
            if now < *self.since.get_or_insert(now) + turn.terms.lease + turn.terms.drift {
                self.moving = Moving::Watching;
                return Ok(OpStep::Wait(now + turn.terms.waits.turns(1)));
            }
            return self.settle(turn, count, posted);
        }
        if self.for_write {
            return Ok(OpStep::Elsewhere);
        }
        let KeyRecord { area, at } = self.record;
        let posted = turn.post(area, [AreaRequest::Add(at, MARK), head(turn.table(), at)])?;
        self.moving = Moving::Marking(posted);
        Ok(OpStep::Posted)
    }

    /// Begins to wait for all writers that drew numbers up to the number in `count`. For each slot, the wait
    /// is as long as that of a writer of the slot's next number.
    fn settle<P: Provider>(
        &mut self,
        turn: &mut OpTurn<'_, P>,
        count: Count,
        posted: Time,
    ) -> Result<OpStep, SystemError> {
        let (versions, terms) = (turn.table().versions, turn.terms);
        let next = |nth: u32| {
            let number = count.number + 1 + u64::from(nth);
            SlotClaim::new(number, versions, (terms.lease, terms.drift), posted)
        };
        self.moving = Moving::Settling(Settling { count, claims: (0..versions).map(next).collect(), posted });
        self.look_again(turn)
    }

    /// Begins the exchange if the earlier writers have ended. Otherwise waits.
    ///
    /// # Panics
    /// If the move does not wait for writers.
    fn look_again<P: Provider>(&mut self, turn: &mut OpTurn<'_, P>) -> Result<OpStep, SystemError> {
        let Moving::Settling(Settling { count: marked, claims, posted }) = &mut self.moving else {
            panic!("a move of key {} does not wait for writers: {:?}", self.key, self.moving)
        };
        let (count, done) = head_of(turn);
        if !count.is_same_mark(*marked) {
            return self.begin_again(turn);
        }
        let now = turn.now();
        let look = Look { done: &done, whole: None, posted: *posted, now };
        let settled = claims.iter_mut().map(|claim| claim.settles(look)).max().unwrap_or(now);
        if now < settled || !turn.locks.may_ask(self.hot.block) {
            let soon = now + turn.terms.waits.turns(1);
            return Ok(OpStep::Wait(if now < settled { soon.min(settled) } else { soon }));
        }
        let exchange = Exchange::begin(turn, (self.key, self.hot), *marked)?;
        self.moving = Moving::Exchanging(exchange);
        Ok(OpStep::Posted)
    }

    /// Continues after a step of the exchange.
    fn exchanged<P: Provider>(
        &mut self,
        turn: &OpTurn<'_, P>,
        exchanged: Exchanged,
    ) -> Result<OpStep, SystemError> {
        if let Exchanged::Not(step) = exchanged {
            return Ok(step);
        }
        self.lock_again = self.again() - self.again;
        match exchanged {
            Exchanged::Not(step) => Ok(step),
            Exchanged::Left { key, version, count } => self.free(turn, (key, version), count),
            Exchanged::Already => Ok(OpStep::Ended(0)),
            Exchanged::Overtaken => self.begin_again(turn),
        }
    }

    /// Makes the evicted key cold. Its record has this version as the newest.
    fn free<P: Provider>(
        &mut self,
        turn: &OpTurn<'_, P>,
        (key, version): (u64, u64),
        before: Count,
    ) -> Result<OpStep, SystemError> {
        let KeyRecord { area, at } = turn.table().record(key);
        let (compare, swap) = (before.bits(), before.cold(version).bits());
        turn.post(area, [AreaRequest::Swap { at, compare, swap }])?;
        self.moving = Moving::Freeing { key, version, before };
        Ok(OpStep::Posted)
    }
}
