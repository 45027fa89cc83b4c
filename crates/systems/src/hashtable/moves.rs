//! Moves of keys: a key moves from its record to its block, and the key in its place moves to its own record.

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
    /// The key's count when the key was marked, or first seen marked.
    count: Count,
    /// Claims that a writer of the next number of each slot would have.
    claims: Vec<SlotClaim>,
    /// When the READ of the head was posted.
    posted: Time,
}

/// The state of a move.
#[derive(Debug)]
enum Moving {
    /// The block is being READ: the key may be there.
    Finding(HotGet),
    /// The record is being READ, by a list that was posted at this time.
    Looking(Time),
    /// The move waits and then looks again, because another front-end may be about to end a move of the key.
    Watching,
    /// The key is being marked, by a list that was posted at this time.
    Marking(Time),
    Settling(Settling),
    /// The key and the key in its place are being exchanged.
    Exchanging(Exchange),
    /// The record of the evicted key is being made cold with this version, if its count is still `before`.
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
    /// Whether the move serves a write of a marked key. Such a move does not mark the key itself.
    for_write: bool,
    moving: Moving,
    /// When the key was first seen marked and not in its block.
    since: Option<Time>,
    /// Times that the move began again.
    again: u64,
    /// Failed attempts at the lock in the last exchange that has ended.
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

    /// The entry of the block that the key moves to.
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
                // A front-end that draws a void number changes the count, too: try again. If another
                // front-end has moved the key again, that front-end has done the rest.
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

    /// Goes on when the record of a key that is not in its block has been READ.
    fn looked<P: Provider>(&mut self, turn: &mut OpTurn<'_, P>, posted: Time) -> Result<OpStep, SystemError> {
        let (count, _) = head_of(turn);
        if count.is_marked() {
            // The front-end that marked the key, or moved it to its record, will finish, unless it is gone.
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

    /// Begins to wait for all writers that drew numbers up to the number in `count`. It waits as the writers
    /// of the next number of each slot would.
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

    /// Exchanges the keys once the earlier writers have ended; else waits.
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

    /// Does as the result of the exchange says.
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

    /// Makes the evicted key cold, with the version that its record was given.
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
