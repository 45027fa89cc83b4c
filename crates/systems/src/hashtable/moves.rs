//! Moves of keys: one goes from its record to its block, and who was there in its place to the record of its own.

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

/// Those who drew numbers before a key was marked are waited for.
#[derive(Debug)]
struct Settling {
    /// The key's count when it was marked, or seen marked.
    count: Count,
    /// As who drew the next number of each slot would wait.
    claims: Vec<SlotClaim>,
    /// When the READ of the head was posted.
    posted: Time,
}

/// Where a move is.
#[derive(Debug)]
enum Moving {
    /// The block is READ: the key may be there.
    Finding(HotGet),
    /// The record is looked at, by READs that were posted then.
    Looking(Time),
    /// Somebody else may be about to end a move of the key; it looks again.
    Watching,
    /// The key is marked, by a list that was posted then.
    Marking(Time),
    Settling(Settling),
    /// The key and the one in its place change places.
    Exchanging(Exchange),
    /// The record of the key that was there says that it is cold, as of this version, if its count is still this.
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
    /// Whether it is only for a write of a key that was found on its way.
    for_write: bool,
    moving: Moving,
    /// When the key was first seen marked, and not in its block.
    since: Option<Time>,
    /// Moves that began again.
    again: u64,
    /// Attempts at the lock that failed in the last exchange, which is over.
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

    /// The entry of its block that it moves to.
    pub(super) fn hot(&self) -> Hot {
        self.hot
    }

    /// How often it or a part of it was done again.
    pub(super) fn again(&self) -> u64 {
        let of_lock = match &self.moving {
            Moving::Exchanging(exchange) => exchange.again(),
            _ => self.lock_again,
        };
        self.again + of_lock
    }

    /// What it has posted has completed.
    ///
    /// # Panics
    /// If it has posted nothing.
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
            Moving::Watching => panic!("a move of key {} that waits has nothing posted", self.key),
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
                // Who draws in vain changes it, too; who has moved the key again has done the rest.
                match seen == before || !seen.is_same_mark(before) {
                    true => Ok(OpStep::Ended(0)),
                    false => self.free(turn, (key, version), seen),
                }
            }
        }
    }

    /// Its wait is over.
    ///
    /// # Panics
    /// If it does not wait.
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
                panic!("a move of key {} was resumed that does not wait: {:?}", self.key, self.moving)
            }
        }
    }

    fn begin_again<P: Provider>(&mut self, turn: &OpTurn<'_, P>) -> Result<OpStep, SystemError> {
        self.again += 1;
        self.moving = Moving::Finding(HotGet::begin(turn, (self.key, self.hot))?);
        Ok(OpStep::Posted)
    }

    /// The key is not in its block, and this is its record.
    fn looked<P: Provider>(&mut self, turn: &mut OpTurn<'_, P>, posted: Time) -> Result<OpStep, SystemError> {
        let (count, _) = head_of(turn);
        if count.is_marked() {
            // Who marked it, or brought it here, goes on, unless it is gone.
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

    /// Waits for all who drew numbers up to that of a count, as who drew the next one of each slot would.
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

    /// # Panics
    /// If nobody is waited for.
    fn look_again<P: Provider>(&mut self, turn: &mut OpTurn<'_, P>) -> Result<OpStep, SystemError> {
        let Moving::Settling(Settling { count: marked, claims, posted }) = &mut self.moving else {
            panic!("a move of key {} waits for nobody: {:?}", self.key, self.moving)
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

    /// Does what an exchange says.
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

    /// Says that the key that was there is cold, and has the version that its record was given.
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
