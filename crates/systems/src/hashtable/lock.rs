//! The locks of the blocks.

use super::cold::Step;
use super::front_end::Terms;
use super::io::{Io, Part, Request, Slot};
use crate::SystemError;
use crate::spinlock::Leased;
use crate::spinlock::backoff::Backoff;
use crate::spinlock::word::Word;
use doorbell_verbs::Provider;

/// A front-end's view of the locks: each block's word as it was seen last, or left.
pub(super) struct Locks {
    pub(super) leased: Leased,
    /// This front-end, as words name it.
    pub(super) holder: u32,
    pub(super) known: Vec<Word>,
}

impl Locks {
    /// Where in its area the block is that a word names.
    pub(super) fn data<P: Provider>(io: &Io<P>, block: u32, word: Word) -> u64 {
        io.table.locks().data(io.table.lock(block).1, word.slot)
    }
}

/// A lock that is asked for.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) block: u32,
    /// What the word is compared with, and what it becomes.
    expected: Word,
    taken: Word,
    backoff: Backoff,
    /// Whether the last attempt told more than that another has the lock.
    has_learnt: bool,
    /// Attempts that failed.
    pub(super) again: u64,
}

/// What came of an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) enum Answer {
    /// The lock is had, by this word, and the block was READ.
    Had(Word),
    /// It is not.
    Not(Step),
}

impl Asking {
    pub(super) fn begin<P: Provider>(
        io: &Io<P>,
        slot: Slot,
        locks: &Locks,
        terms: &Terms,
        block: u32,
    ) -> Result<Asking, SystemError> {
        let (expected, taken) = Default::default();
        let backoff = Backoff::new(terms.waits);
        let mut asking = Asking { block, expected, taken, backoff, has_learnt: false, again: 0 };
        asking.resume(io, slot, locks)?;
        Ok(asking)
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
        let (area, lock) = io.table.lock(self.block);
        let at = io.table.locks().word(lock);
        (self.expected, self.taken) = (expected, taken);
        let swap = Request::Swap { at, compare: expected.bits(), swap: taken.bits() };
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
            return Ok(Answer::Had(self.taken));
        }
        if self.has_learnt {
            return Ok(Answer::Not(self.lost(io, slot, locks)));
        }
        self.again += 1;
        locks.known[self.block as usize] = Word::of(seen);
        self.has_learnt = true;
        self.resume(io, slot, locks).map(Answer::Not)
    }

    /// The lock was not had, or was taken over: asks after a while.
    pub(super) fn lost<P: Provider>(&mut self, io: &mut Io<P>, slot: Slot, locks: &mut Locks) -> Step {
        self.again += 1;
        locks.known[self.block as usize] = Word::of(io.answer(slot));
        self.has_learnt = false;
        Step::Wait(io.cpu.now() + self.backoff.next(&mut io.random))
    }
}
