//! Moves of keys: a key moves from its record into its block, and the key that occupied its entry moves to
//! its own record.

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
