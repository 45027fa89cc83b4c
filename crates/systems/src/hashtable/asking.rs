//! The lock of a block: asked for, had, and given back.

use super::locks::BlockLocks;
use super::request::AreaRequest;
use super::scratch::ScratchPart;
use super::turn::{OpStep, OpTurn};
use crate::SystemError;
use crate::spinlock::backoff::Backoff;
use crate::spinlock::word::Word;
use doorbell_verbs::{Provider, Time};

/// An attempt at a lock, which is posted.
#[derive(Clone, Copy, Debug)]
struct LockAttempt {
    /// What the word is compared with.
    expected: Word,
    /// What it becomes.
    taken: Word,
    /// When the lease ends, if the lock is had.
    until: Time,
}

/// The lock of a block, which is asked for, or had.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) block: u32,
    attempt: LockAttempt,
    backoff: Backoff,
    /// Whether the last attempt told more than that another has the lock.
    has_learnt: bool,
    /// Attempts that failed.
    pub(super) again: u64,
}

/// What came of an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) enum LockAnswer {
    /// The lock is had, and the block was READ.
    Had,
    /// It is not.
    Not(OpStep),
}

/// The lock is on its way back: its word becomes this.
#[derive(Clone, Copy, Debug)]
pub(super) struct GivenBack(Word);

impl LockAttempt {
    /// Asks for a block's lock, and READs the block that is there if it gets it.
    fn post<P: Provider>(turn: &OpTurn<'_, P>, block: u32) -> Result<LockAttempt, SystemError> {
        let (now, locks) = (turn.now(), &turn.locks);
        let until = now + locks.leased.lease;
        let expected = locks.leased.expected(locks.known[block as usize], now);
        let attempt = LockAttempt { expected, taken: expected.taken(locks.holder, until), until };
        let (area, swap) = swap(turn, block, expected, attempt.taken);
        let (at, bytes) = (BlockLocks::data(turn.table(), block, expected), turn.table().block());
        turn.post(area, [swap, AreaRequest::Read(at, ScratchPart::Body, bytes)])?;
        Ok(attempt)
    }
}

/// The area of a block's lock, and a compare-and-swap of its word there.
fn swap<P: Provider>(turn: &OpTurn<'_, P>, block: u32, compare: Word, swap: Word) -> (u32, AreaRequest) {
    let (area, lock) = turn.table().lock(block);
    let at = turn.table().locks().word(lock);
    (area, AreaRequest::Swap { at, compare: compare.bits(), swap: swap.bits() })
}

impl Asking {
    /// Begins to ask for one that [`BlockLocks::may_ask`] for.
    pub(super) fn begin<P: Provider>(turn: &mut OpTurn<'_, P>, block: u32) -> Result<Asking, SystemError> {
        turn.locks.ask(block);
        let attempt = LockAttempt::post(turn, block)?;
        let backoff = Backoff::new(turn.terms.waits);
        Ok(Asking { block, attempt, backoff, has_learnt: false, again: 0 })
    }

    /// When the lease ends of a lock that is had.
    pub(super) fn until(&self) -> Time {
        self.attempt.until
    }

    /// Asks again.
    pub(super) fn resume<P: Provider>(&mut self, turn: &OpTurn<'_, P>) -> Result<OpStep, SystemError> {
        self.attempt = LockAttempt::post(turn, self.block)?;
        Ok(OpStep::Posted)
    }

    /// What it has posted has completed. Asks again at once where all that failed is what it knew of the word, else after
    /// a while.
    pub(super) fn completed<P: Provider>(
        &mut self,
        turn: &mut OpTurn<'_, P>,
    ) -> Result<LockAnswer, SystemError> {
        let seen = turn.answer();
        if seen == self.attempt.expected.bits() {
            turn.locks.known[self.block as usize] = self.attempt.taken;
            return Ok(LockAnswer::Had);
        }
        if self.has_learnt {
            return Ok(LockAnswer::Not(self.lost(turn)));
        }
        self.again += 1;
        turn.locks.known[self.block as usize] = Word::of(seen);
        self.has_learnt = true;
        self.resume(turn).map(LockAnswer::Not)
    }

    /// Gives the lock back with the block that is in the operation's scratch.
    pub(super) fn publish<P: Provider>(&self, turn: &OpTurn<'_, P>) -> Result<GivenBack, SystemError> {
        let free = turn.locks.leased.given_back(self.attempt.taken);
        let (at, bytes) = (BlockLocks::data(turn.table(), self.block, free), turn.table().block());
        let (area, give) = swap(turn, self.block, self.attempt.taken, free);
        turn.post(area, [AreaRequest::Write(at, ScratchPart::Body, bytes), give])?;
        Ok(GivenBack(free))
    }

    /// Gives the lock back with the block as it was.
    pub(super) fn resign<P: Provider>(&self, turn: &OpTurn<'_, P>) -> Result<GivenBack, SystemError> {
        let taken = self.attempt.taken;
        let free = taken.free(taken.slot);
        let (area, give) = swap(turn, self.block, taken, free);
        turn.post(area, [give])?;
        Ok(GivenBack(free))
    }

    /// What it gave back has completed: whether it was its own to the end. Else another has taken it over, and what was
    /// WRITTEN lies where nobody looks.
    pub(super) fn given<P: Provider>(&self, turn: &mut OpTurn<'_, P>, GivenBack(free): GivenBack) -> bool {
        let is_mine = turn.answer() == self.attempt.taken.bits();
        if is_mine {
            turn.locks.known[self.block as usize] = free;
            turn.locks.end(self.block);
        }
        is_mine
    }

    /// The lock was not had, or was taken over: asks after a while.
    pub(super) fn lost<P: Provider>(&mut self, turn: &mut OpTurn<'_, P>) -> OpStep {
        self.again += 1;
        turn.locks.known[self.block as usize] = Word::of(turn.answer());
        self.has_learnt = false;
        OpStep::Wait(turn.now() + self.backoff.next(&mut turn.io.random))
    }

    /// The lock is not asked for any more, whoever has it.
    pub(super) fn leave<P: Provider>(&self, turn: &mut OpTurn<'_, P>) {
        turn.locks.known[self.block as usize] = Word::of(turn.answer());
        turn.locks.end(self.block);
    }
}
