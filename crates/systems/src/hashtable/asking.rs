//! Acquiring and releasing the lock of a block. The lock has a lease and fencing
//! ([`crate::spinlock::Leased`], which calls a copy of a block a slot). The module [`super`] defines the
//! terms.
//!
//! # Attempts
//! - A front-end tries to acquire the lock by a compare-and-swap. The attempt fails if the known word is out
//!   of date, or if another front-end holds the lock.
//! - After the first failure, the front-end tries again at once, with the word that the compare-and-swap
//!   returned. If this attempt fails, too, the front-end pauses. Then it begins anew with two attempts.
//! - A pause takes a drawn time between half of a bound and the bound. The bound is `backoff` at first. It
//!   doubles with each pause, up to `backoff_most`.
//! - For each lock, at most one operation or publication of a front-end asks for the lock or holds it. The
//!   front-end's other operations and publications that need the lock wait for this one.
//!
//! # The wait for a lock
//! - The wait begins when an attempt fails because another front-end holds the lock.
//! - It ends when an attempt succeeds. An attempt can succeed once the holder has released the lock, or once
//!   `table_lease` + `drift` have passed since the holder acquired it.
//! - Each front-end that has the lock during the wait prolongs the wait by at most `table_lease` + `drift`
//!   and one pause. The word counts the ends of leases in ticks, which may add 2.1 us. Other front-ends may
//!   get the lock before this front-end any number of times.

use super::locks::BlockLocks;
use super::request::AreaRequest;
use super::scratch::ScratchPart;
use super::turn::{OpStep, OpTurn};
use crate::SystemError;
use crate::spinlock::backoff::Backoff;
use crate::spinlock::word::Word;
use doorbell_verbs::{Provider, Time};

/// A posted attempt to acquire a lock.
#[derive(Clone, Copy, Debug)]
struct LockAttempt {
    /// The compare operand: the value that the lock's word must have.
    expected: Word,
    /// The value of the lock's word after a successful attempt.
    taken: Word,
    /// When the lease ends, if the attempt succeeds.
    until: Time,
}

/// A request for the lock of a block, or the acquired lock.
#[derive(Debug)]
pub(super) struct Asking {
    pub(super) block: u32,
    attempt: LockAttempt,
    backoff: Backoff,
    /// Whether an attempt has failed since the last wait. The first failure after a wait only updates the
    /// known word.
    has_learnt: bool,
    /// Attempts that failed.
    pub(super) again: u64,
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug)]
pub(super) enum LockAnswer {
    /// The lock is acquired, and the block was READ.
    Had,
    /// The lock is not acquired.
    Not(OpStep),
}

/// A lock that is being released. Holds the value that its word gets.
#[derive(Clone, Copy, Debug)]
pub(super) struct GivenBack(Word);

impl LockAttempt {
    /// Posts a compare-and-swap of a block's lock, and a READ of the copy that is current if the
    /// compare-and-swap succeeds.
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

/// A compare-and-swap of the word of a block's lock, and the area of this lock.
fn swap<P: Provider>(turn: &OpTurn<'_, P>, block: u32, compare: Word, swap: Word) -> (u32, AreaRequest) {
    let (area, lock) = turn.table().lock(block);
    let at = turn.table().locks().word(lock);
    (area, AreaRequest::Swap { at, compare: compare.bits(), swap: swap.bits() })
}

impl Asking {
    /// Begins to ask for a lock. [`BlockLocks::may_ask`] must hold for the block.
    pub(super) fn begin<P: Provider>(turn: &mut OpTurn<'_, P>, block: u32) -> Result<Asking, SystemError> {
        turn.locks.ask(block);
        let attempt = LockAttempt::post(turn, block)?;
        let backoff = Backoff::new(turn.terms.waits);
        Ok(Asking { block, attempt, backoff, has_learnt: false, again: 0 })
    }

    /// When the lease of the acquired lock ends.
    pub(super) fn until(&self) -> Time {
        self.attempt.until
    }

    /// Posts another attempt.
    pub(super) fn resume<P: Provider>(&mut self, turn: &OpTurn<'_, P>) -> Result<OpStep, SystemError> {
        self.attempt = LockAttempt::post(turn, self.block)?;
        Ok(OpStep::Posted)
    }

    /// Continues after an attempt has completed. After the first failure since the last wait, posts another
    /// attempt at once. After any other failure, schedules another attempt after a wait.
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

    /// Releases the lock, with the block in the operation's scratch as the new block.
    pub(super) fn publish<P: Provider>(&self, turn: &OpTurn<'_, P>) -> Result<GivenBack, SystemError> {
        let free = turn.locks.leased.given_back(self.attempt.taken);
        let (at, bytes) = (BlockLocks::data(turn.table(), self.block, free), turn.table().block());
        let (area, give) = swap(turn, self.block, self.attempt.taken, free);
        turn.post(area, [AreaRequest::Write(at, ScratchPart::Body, bytes), give])?;
        Ok(GivenBack(free))
    }

    /// Releases the lock and leaves the block unchanged.
    pub(super) fn resign<P: Provider>(&self, turn: &OpTurn<'_, P>) -> Result<GivenBack, SystemError> {
        let taken = self.attempt.taken;
        let free = taken.free(taken.slot);
        let (area, give) = swap(turn, self.block, taken, free);
        turn.post(area, [give])?;
        Ok(GivenBack(free))
    }

    /// Continues after the release has completed. Returns whether this front-end held the lock until then. If
    /// not, another front-end has taken the lock over, and no front-end reads the copy that was WRITTEN.
    pub(super) fn given<P: Provider>(&self, turn: &mut OpTurn<'_, P>, GivenBack(free): GivenBack) -> bool {
        let is_mine = turn.answer() == self.attempt.taken.bits();
        if is_mine {
            turn.locks.known[self.block as usize] = free;
            turn.locks.end(self.block);
        }
        is_mine
    }

    /// Schedules another attempt, because the lock was not acquired or was taken over.
    pub(super) fn lost<P: Provider>(&mut self, turn: &mut OpTurn<'_, P>) -> OpStep {
        self.again += 1;
        turn.locks.known[self.block as usize] = Word::of(turn.answer());
        self.has_learnt = false;
        OpStep::Wait(turn.now() + self.backoff.next(&mut turn.io.random))
    }

    /// Ends the request after a failed release, which shows that another front-end has taken the lock over.
    pub(super) fn leave<P: Provider>(&self, turn: &mut OpTurn<'_, P>) {
        turn.locks.known[self.block as usize] = Word::of(turn.answer());
        turn.locks.end(self.block);
    }
}
