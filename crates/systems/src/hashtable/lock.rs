//! The locks of the blocks.

use super::cold::Step;
use super::front_end::Terms;
use super::io::{Io, Part, Request, Slot};
use crate::SystemError;
use crate::spinlock::Leased;
use crate::spinlock::backoff::Backoff;
use crate::spinlock::word::Word;
use doorbell_verbs::{Provider, Time};

/// A front-end's view of the locks: each block's word as it was seen last, or left.
pub(super) struct Locks {
    pub(super) leased: Leased,
    /// This front-end, as words name it.
    pub(super) holder: u32,
    pub(super) known: Vec<Word>,
    /// Whether something of this front-end asks for a block's lock, or has it: what is late of one would else be WRITTEN where the other has published.
    asked: Vec<bool>,
}

impl Locks {
    /// As all are at first, of so many blocks.
    pub(super) fn new(leased: Leased, holder: u32, blocks: u32) -> Locks {
        let (known, asked) = (vec![Word::default(); blocks as usize], vec![false; blocks as usize]);
        Locks { leased, holder, known, asked }
    }

    /// Whether a block's lock may be asked for.
    pub(super) fn may_ask(&self, block: u32) -> bool {
        !self.asked[block as usize]
    }

    /// What asked for a block's lock has ended.
    fn end(&mut self, block: u32) {
        self.asked[block as usize] = false;
    }

    /// Where in its area the block is that a word names.
    pub(super) fn data<P: Provider>(io: &Io<P>, block: u32, word: Word) -> u64 {
        io.table.locks().data(io.table.lock(block).1, word.slot)
    }
}

/// The lock of a block, that is asked for, had, and given back.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) block: u32,
    /// What the word is compared with, what it becomes, and what when it is given back.
    expected: Word,
    taken: Word,
    free: Word,
    /// When the lease ends, if it is had.
    pub(super) until: Time,
    backoff: Backoff,
    /// Whether the last attempt told more than that another has the lock.
    has_learnt: bool,
    /// Attempts that failed.
    pub(super) again: u64,
}

/// What came of an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    /// The lock is had, and the block was READ.
    Had,
    /// It is not.
    Not(Step),
}

impl Asking {
    /// One that nobody asks for yet.
    pub(super) fn new(terms: &Terms, block: u32) -> Asking {
        let (expected, taken, free) = Default::default();
        let (until, backoff) = (Time::START, Backoff::new(terms.waits));
        Asking { block, expected, taken, free, until, backoff, has_learnt: false, again: 0 }
    }

    /// Begins to ask for one that [`Locks::may_ask`] for.
    pub(super) fn begin<P: Provider>(
        &mut self,
        io: &Io<P>,
        slot: Slot,
        locks: &mut Locks,
    ) -> Result<Step, SystemError> {
        locks.asked[self.block as usize] = true;
        self.resume(io, slot, locks)
    }

    /// The lock's area, and a compare-and-swap of its word there.
    fn swap<P: Provider>(&self, io: &Io<P>, compare: Word, swap: Word) -> (u32, Request) {
        let (area, lock) = io.table.lock(self.block);
        let at = io.table.locks().word(lock);
        (area, Request::Swap { at, compare: compare.bits(), swap: swap.bits() })
    }

    /// Asks for the lock, and READs the block that is there if it gets it.
    pub(super) fn resume<P: Provider>(
        &mut self,
        io: &Io<P>,
        slot: Slot,
        locks: &Locks,
    ) -> Result<Step, SystemError> {
        let now = io.cpu.now();
        let expected = locks.leased.expected(locks.known[self.block as usize], now);
        let taken = expected.taken(locks.holder, now + locks.leased.lease);
        (self.expected, self.taken, self.until) = (expected, taken, now + locks.leased.lease);
        let (area, swap) = self.swap(io, expected, taken);
        let block = Request::Read(Locks::data(io, self.block, expected), Part::Body, io.table.block());
        io.post(slot, area, [swap, block])?;
        Ok(Step::Posted)
    }

    /// What it has posted has completed. Asks again at once where all that failed is what it knew of the word, else after a while.
    pub(super) fn completed<P: Provider>(
        &mut self,
        io: &mut Io<P>,
        slot: Slot,
        locks: &mut Locks,
    ) -> Result<Answer, SystemError> {
        let seen = io.answer(slot);
        if seen == self.expected.bits() {
            locks.known[self.block as usize] = self.taken;
            return Ok(Answer::Had);
        }
        if self.has_learnt {
            return Ok(Answer::Not(self.lost(io, slot, locks)));
        }
        self.again += 1;
        locks.known[self.block as usize] = Word::of(seen);
        self.has_learnt = true;
        self.resume(io, slot, locks).map(Answer::Not)
    }

    /// Gives the lock back with the block that is in the operation's scratch.
    pub(super) fn publish<P: Provider>(
        &mut self,
        io: &Io<P>,
        slot: Slot,
        locks: &Locks,
    ) -> Result<Step, SystemError> {
        self.free = locks.leased.given_back(self.taken);
        let block = Request::Write(Locks::data(io, self.block, self.free), Part::Body, io.table.block());
        let (area, give) = self.swap(io, self.taken, self.free);
        io.post(slot, area, [block, give])?;
        Ok(Step::Posted)
    }

    /// Gives the lock back with the block as it was.
    pub(super) fn resign<P: Provider>(&mut self, io: &Io<P>, slot: Slot) -> Result<Step, SystemError> {
        self.free = self.taken.free(self.taken.slot);
        let (area, give) = self.swap(io, self.taken, self.free);
        io.post(slot, area, [give])?;
        Ok(Step::Posted)
    }

    /// What it gave back has completed: whether it was its own to the end. Else another has taken it over, and what was WRITTEN lies where nobody looks.
    pub(super) fn given<P: Provider>(&self, io: &Io<P>, slot: Slot, locks: &mut Locks) -> bool {
        let is_mine = io.answer(slot) == self.taken.bits();
        if is_mine {
            locks.known[self.block as usize] = self.free;
            locks.end(self.block);
        }
        is_mine
    }

    /// The lock was not had, or was taken over: asks after a while.
    pub(super) fn lost<P: Provider>(&mut self, io: &mut Io<P>, slot: Slot, locks: &mut Locks) -> Step {
        self.again += 1;
        locks.known[self.block as usize] = Word::of(io.answer(slot));
        self.has_learnt = false;
        Step::Wait(io.cpu.now() + self.backoff.next(&mut io.random))
    }

    /// The lock is not asked for any more, whoever has it.
    pub(super) fn leave<P: Provider>(&self, io: &Io<P>, slot: Slot, locks: &mut Locks) {
        locks.known[self.block as usize] = Word::of(io.answer(slot));
        locks.end(self.block);
    }
}
