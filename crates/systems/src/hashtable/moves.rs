//! Moves of keys: one goes from its record to its block, and who was there in its place to the record of its own.

use super::cache::Cache;
use super::claim::{Claim, Look};
use super::cold::{Step, head, head_of, look_at, newest};
use super::count::{Count, MARK};
use super::entry;
use super::front_end::Terms;
use super::hot::Get;
use super::io::{Io, Part, Request, Slot};
use super::lock::{Answer, Asking, Locks};
use super::table::{Hot, OWNER, Record};
use crate::{SystemError, checksum};
use doorbell_verbs::{Provider, Time};

/// Where a move is.
#[derive(Debug)]
enum Moving {
    /// The block is READ: the key may be there.
    Finding(Get),
    /// The record is looked at.
    Looking,
    /// Somebody else may be about to end a move of the key; it looks again.
    Watching,
    /// The key is marked.
    Marking,
    /// Those who drew numbers before that are waited for.
    Settling(Vec<Claim>),
    /// The lock of the block is asked for.
    Taking,
    /// With the lock: the record is READ.
    Reading,
    /// The record says that the key moves.
    Counting(Count),
    /// The head of the record of who is there is READ.
    Meeting,
    /// Who is there goes to its record.
    Leaving(Count),
    /// The block is on its way, and the lock goes back.
    Giving(Count),
    /// The record of who was there says that it is cold.
    Freeing(Count),
    /// The lock goes back, and all is as it was; whether the move has ended.
    Resigning(bool),
}

/// A move of a key into its block.
#[derive(Debug)]
pub(super) struct Move {
    key: u64,
    record: Record,
    hot: Hot,
    /// Whether it is only for a write of a key that was found on its way.
    for_write: bool,
    moving: Moving,
    /// When what is looked at was posted.
    posted: Time,
    /// When the key was first seen marked, and not in its block.
    since: Option<Time>,
    /// The key's count when those were settled who drew numbers before it was marked.
    count: Count,
    asking: Asking,
    /// The block that it READ with the lock.
    block: Vec<u8>,
    /// Who is there, and its version.
    other: (u64, u64),
    /// The key's newest entry.
    entry: Vec<u8>,
    /// Moves that began again.
    again: u64,
}

impl Move {
    pub(super) fn begin<P: Provider>(
        io: &Io<P>,
        slot: Slot,
        locks: &Locks,
        terms: &Terms,
        (key, hot): (u64, Hot),
        for_write: bool,
    ) -> Result<Move, SystemError> {
        let moving = Moving::Finding(Get::begin(io, slot, locks, (key, hot))?);
        let (count, block, other, entry) = Default::default();
        let (record, posted) = (io.table.record(key), Time::START);
        let (since, asking, again) = (None, Asking::new(terms, hot.block), 0);
        Ok(Move {
            key,
            record,
            hot,
            for_write,
            moving,
            posted,
            since,
            count,
            asking,
            block,
            other,
            entry,
            again,
        })
    }

    /// How often it or a part of it was done again.
    pub(super) fn again(&self) -> u64 {
        self.again + self.asking.again
    }

    /// What it has posted has completed.
    pub(super) fn completed<P: Provider>(
        &mut self,
        io: &mut Io<P>,
        slot: Slot,
        terms: &Terms,
        locks: &mut Locks,
        cache: &mut Cache<P>,
    ) -> Result<Step, SystemError> {
        match &mut self.moving {
            Moving::Finding(get) => match get.completed(io, slot, locks, cache)? {
                Step::Elsewhere => {
                    self.moving = Moving::Looking;
                    self.posted = look_at(io, slot, self.record)?;
                    Ok(Step::Posted)
                }
                step => Ok(step),
            },
            Moving::Looking => self.looked(io, slot, terms, locks),
            Moving::Marking => {
                let before = Count::of(io.answer(slot));
                self.settle(io, slot, terms, locks, before)
            }
            Moving::Settling(_) => self.look_again(io, slot, terms, locks),
            Moving::Taking => match self.asking.completed(io, slot, locks)? {
                Answer::Had => self.meet(io, slot, cache),
                Answer::Not(step) => Ok(step),
            },
            Moving::Watching => Ok(Step::Posted),
            Moving::Reading => self.read(io, slot),
            Moving::Counting(before) => {
                let (before, seen) = (*before, Count::of(io.answer(slot)));
                if seen == before {
                    self.count = before.moved();
                    self.moving = Moving::Meeting;
                    let Record { area, at } = io.table.record(self.other.0);
                    io.post(slot, area, [head(io, at)])?;
                    return Ok(Step::Posted);
                }
                self.count_move(io, slot, seen)
            }
            Moving::Meeting => self.evict(io, slot),
            Moving::Leaving(others) => {
                let others = *others;
                self.give(io, slot, locks, others)
            }
            Moving::Giving(others) => {
                let others = *others;
                self.gave(io, slot, locks, cache, others)
            }
            Moving::Freeing(before) => {
                let (before, seen) = (*before, Count::of(io.answer(slot)));
                // Who draws in vain changes it, too; who has moved the key again has done the rest.
                match seen == before || !is_same(seen, before) {
                    true => Ok(Step::Ended(0)),
                    false => self.free(io, slot, seen),
                }
            }
            Moving::Resigning(has_ended) => {
                let has_ended = *has_ended;
                if !self.asking.given(io, slot, locks) {
                    self.asking.leave(io, slot, locks);
                }
                if has_ended { Ok(Step::Ended(0)) } else { self.begin_again(io, slot, locks) }
            }
        }
    }

    /// Its wait is over.
    pub(super) fn resume<P: Provider>(
        &mut self,
        io: &Io<P>,
        slot: Slot,
        locks: &Locks,
    ) -> Result<Step, SystemError> {
        match self.moving {
            Moving::Settling(_) => {
                let Record { area, at } = self.record;
                self.posted = io.post(slot, area, [head(io, at)])?;
                Ok(Step::Posted)
            }
            Moving::Taking => self.asking.resume(io, slot, locks),
            Moving::Watching => self.begin_again(io, slot, locks),
            _ => Ok(Step::Posted),
        }
    }

    fn begin_again<P: Provider>(
        &mut self,
        io: &Io<P>,
        slot: Slot,
        locks: &Locks,
    ) -> Result<Step, SystemError> {
        self.again += 1;
        self.moving = Moving::Finding(Get::begin(io, slot, locks, (self.key, self.hot))?);
        Ok(Step::Posted)
    }

    /// The key is not in its block, and this is its record.
    fn looked<P: Provider>(
        &mut self,
        io: &Io<P>,
        slot: Slot,
        terms: &Terms,
        locks: &mut Locks,
    ) -> Result<Step, SystemError> {
        let (count, _) = head_of(io, slot);
        if count.is_marked() {
            // Who marked it, or brought it here, goes on, unless it is gone.
            let now = io.cpu.now();
            if now < *self.since.get_or_insert(now) + terms.lease + terms.drift {
                self.moving = Moving::Watching;
                return Ok(Step::Wait(now + terms.waits.turns(1)));
            }
            return self.settle(io, slot, terms, locks, count);
        }
        if self.for_write {
            return Ok(Step::Elsewhere);
        }
        self.moving = Moving::Marking;
        let Record { area, at } = self.record;
        self.posted = io.post(slot, area, [Request::Add(at, MARK), head(io, at)])?;
        Ok(Step::Posted)
    }

    /// Waits for all who drew numbers up to that of a count, as who drew the next one of each slot would.
    fn settle<P: Provider>(
        &mut self,
        io: &Io<P>,
        slot: Slot,
        terms: &Terms,
        locks: &mut Locks,
        count: Count,
    ) -> Result<Step, SystemError> {
        self.count = count;
        let versions = io.table.versions;
        let next = |nth: u32| {
            let number = count.number + 1 + u64::from(nth);
            Claim::new(number, versions, (terms.lease, terms.drift), self.posted)
        };
        self.moving = Moving::Settling((0..versions).map(next).collect());
        self.look_again(io, slot, terms, locks)
    }

    fn look_again<P: Provider>(
        &mut self,
        io: &Io<P>,
        slot: Slot,
        terms: &Terms,
        locks: &mut Locks,
    ) -> Result<Step, SystemError> {
        let Moving::Settling(claims) = &mut self.moving else { return Ok(Step::Posted) };
        let (count, done) = head_of(io, slot);
        if !is_same(count, self.count) {
            return self.begin_again(io, slot, locks);
        }
        let now = io.cpu.now();
        let look = Look { done: &done, whole: None, posted: self.posted, now };
        let settled = claims.iter_mut().map(|claim| claim.settles(look)).max().unwrap_or(now);
        if now < settled || !locks.may_ask(self.hot.block) {
            let soon = now + terms.waits.turns(1);
            return Ok(Step::Wait(if now < settled { soon.min(settled) } else { soon }));
        }
        self.moving = Moving::Taking;
        self.asking = Asking::new(terms, self.hot.block);
        self.asking.begin(io, slot, locks)
    }

    /// The lock is had: looks who is there, and what the record says now.
    fn meet<P: Provider>(
        &mut self,
        io: &Io<P>,
        slot: Slot,
        cache: &mut Cache<P>,
    ) -> Result<Step, SystemError> {
        let at = io.table.owner_at(self.hot);
        let owner = io.word(slot, Part::Body, at);
        cache.learn(self.hot, owner);
        if owner == self.key {
            return self.resign(io, slot, true);
        }
        if owner >= io.table.pairs {
            return Err(SystemError::Protocol(format!("a block has key {owner}, which there is not")));
        }
        self.other = (owner, io.word(slot, Part::Body, at + OWNER));
        self.block.resize(io.table.block() as usize, 0);
        io.read(slot, Part::Body, 0, &mut self.block);
        self.moving = Moving::Reading;
        look_at(io, slot, self.record)?;
        Ok(Step::Posted)
    }

    /// What the record says with the lock: where the key has not moved since those were settled who drew numbers, its newest version is the last.
    fn read<P: Provider>(&mut self, io: &Io<P>, slot: Slot) -> Result<Step, SystemError> {
        let (count, done) = head_of(io, slot);
        if !is_same(count, self.count) {
            return self.resign(io, slot, false);
        }
        let mut slots = Vec::new();
        let found = newest(io, slot, self.key, &mut slots);
        let Some((_, at)) = found.filter(|(version, _)| Some(version) >= done.iter().max()) else {
            return self.resign(io, slot, false);
        };
        self.entry = slots[at..][..io.table.entry() as usize].to_vec();
        self.count_move(io, slot, count)
    }

    /// Says in the record that the key moves, so that who brought it there does not say that it is cold.
    fn count_move<P: Provider>(&mut self, io: &Io<P>, slot: Slot, count: Count) -> Result<Step, SystemError> {
        if !is_same(count, self.count) {
            return self.resign(io, slot, false);
        }
        self.moving = Moving::Counting(count);
        let Record { area, at } = self.record;
        io.post(slot, area, [Request::Swap { at, compare: count.bits(), swap: count.moved().bits() }])?;
        Ok(Step::Posted)
    }

    /// Puts who is there into its record: the slot of its version, and as if all versions before had been written. By the lock nobody else does, as long as the lease lasts.
    fn evict<P: Provider>(&mut self, io: &Io<P>, slot: Slot) -> Result<Step, SystemError> {
        let (key, version) = self.other;
        let (count, _) = head_of(io, slot);
        let (versions, size) = (u64::from(io.table.versions), io.table.entry());
        let at = (io.table.owner_at(self.hot) + OWNER) as usize;
        let done = |of: u64| version.saturating_sub((version + versions - of) % versions);
        for of in 0..versions {
            let word = if of > version { 0 } else { done(of) };
            io.write(slot, Part::Head, 8 * of, &word.to_le_bytes());
        }
        io.cpu.work(checksum::work(size));
        io.write(slot, Part::Entry, 0, &self.block[at..][..size as usize]);
        if io.cpu.now() > self.asking.until {
            return self.resign(io, slot, false);
        }
        if !count.is_marked() || !entry::is_whole(key, &self.block[at..][..size as usize]) {
            return Err(SystemError::Protocol(format!("key {key} is in its block, and {count:?}")));
        }
        let Record { area, at } = io.table.record(key);
        let slot_at = at + io.table.slots() + version % versions * size;
        self.moving = Moving::Leaving(count);
        let entry = Request::Write(slot_at, Part::Entry, size);
        io.post(slot, area, [entry, Request::Write(at + 8, Part::Head, 8 * versions)])?;
        Ok(Step::Posted)
    }

    /// Gives the lock back with the block, in which the key is now.
    fn give<P: Provider>(
        &mut self,
        io: &Io<P>,
        slot: Slot,
        locks: &Locks,
        others: Count,
    ) -> Result<Step, SystemError> {
        let at = io.table.owner_at(self.hot);
        io.write(slot, Part::Body, 0, &self.block);
        io.write(slot, Part::Body, at, &self.key.to_le_bytes());
        io.write(slot, Part::Body, at + OWNER, &self.entry);
        self.moving = Moving::Giving(others);
        self.asking.publish(io, slot, locks)
    }

    fn gave<P: Provider>(
        &mut self,
        io: &mut Io<P>,
        slot: Slot,
        locks: &mut Locks,
        cache: &mut Cache<P>,
        others: Count,
    ) -> Result<Step, SystemError> {
        if self.asking.given(io, slot, locks) {
            cache.learn(self.hot, self.key);
            return self.free(io, slot, others);
        }
        // Who is there has not moved.
        self.moving = Moving::Taking;
        Ok(self.asking.lost(io, slot, locks))
    }

    /// Says that who was there is cold, and has the version that its record was given.
    fn free<P: Provider>(&mut self, io: &Io<P>, slot: Slot, count: Count) -> Result<Step, SystemError> {
        let (key, version) = self.other;
        self.moving = Moving::Freeing(count);
        let Record { area, at } = io.table.record(key);
        let swap = Request::Swap { at, compare: count.bits(), swap: count.cold(version).bits() };
        io.post(slot, area, [swap])?;
        Ok(Step::Posted)
    }

    /// Gives the lock back with the block as it was.
    fn resign<P: Provider>(&mut self, io: &Io<P>, slot: Slot, has_ended: bool) -> Result<Step, SystemError> {
        self.moving = Moving::Resigning(has_ended);
        self.asking.resign(io, slot)
    }
}

/// Whether a key that was marked by then is, and has not moved since.
fn is_same(now: Count, then: Count) -> bool {
    now.is_marked() && now.moves == then.moves
}
