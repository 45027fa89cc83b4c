//! The rule that decides when the writer of a cold version may write it. The module [`super`] defines the
//! terms.
//!
//! # Further terms
//! A writer has drawn version n, which belongs in a slot of a record with V slots.
//! - *u* is the version that the slot's `done` word names.
//! - *m* is the number of versions of the slot between u and n. These versions are missing.
//! - *L* is `table_lease` + `drift`.
//! - A *look* is a READ of the record's head, with or without its slots. The READ of the head in the list
//!   with the fetch-and-add is the first look.
//! - *s* is when the writer learned that u is done: the time when the result of its first look that found u
//!   was known.
//! - *p* is when the writer posted its last look that found an older version than u done. If there was no
//!   such look, p is when the writer posted its fetch-and-add.
//!
//! # The writer's period
//! The writer may write n only in its *period*, from s + m L to p + m L + `table_lease`. The writer measures
//! time by its own clock. Its period takes at most `table_lease`, because s is not earlier than p. When u
//! changes, m is smaller, and the writer computes s, p and the period again.
//!
//! # The writer's wait
//! A version below V overwrites nothing, so its writer does not wait. Any other version n overwrites version
//! n - V or an older one, so its writer waits for two events:
//! - *The slot's turn comes.* This happens when version n - V is done. If m versions are missing before n,
//!   their writers may have exited. Then the turn comes m L after s: the writer passes over the missing
//!   versions.
//! - *The newest version is in another slot.* The newest version of a key is its last version that is done or
//!   whole. It is never overwritten, because it may be the only version that readers can read.
//!
//! The wait begins with the first look. After each look, the first row that applies has the answer:
//!
//! | condition | answer |
//! |---|---|
//! | the slot's `done` word names n or a later version | *never* |
//! | the period has ended | *never* |
//! | the slot's turn has not come | *not yet* |
//! | m > 0, and the look did not READ the slots | *not yet*: a writer that has exited may have left a whole entry |
//! | the newest version is in another slot, or n is below V | *yes* |
//! | the newest version is in this slot, and m > 0 | *never* |
//! | the newest version is in this slot, and m = 0 | *not yet* |
//!
//! The period can end during the wait for two reasons. The looks and the pauses between them may take too
//! long. Or the slot keeps the newest version, because the writers of all newer versions are slow or have
//! exited.
//!
//! While u stays, the wait takes at most m L + `table_lease` from p on. This time begins anew when u changes.
//!
//! # Why two periods do not overlap
//! Take the writers of n and of the slot's next version, n + V, with equal u. Let p be the time of the writer
//! of n, and s' the time of the writer of n + V:
//! 1. The period of n + V begins at s' + (m + 1) L, because n is missing, too.
//! 2. s' is no earlier than p. If p is the time of a look that did not find u yet, u was done after p. If p
//!    is the time of the fetch-and-add, n + V was drawn after p. In both cases the writer of n + V learned of
//!    u after p.
//! 3. So the period of n + V begins at p + m L + `table_lease` + `drift` or later. The period of n ends at
//!    p + m L + `table_lease`.

use doorbell_verbs::{Span, Time};

/// A writer's claim to write the version n that it has drawn. The claim tells after each look whether the
/// writer may write. Writers of one slot exclude each other by time, each by its own clock. The documentation
/// of the module `claim` has the rule.
#[derive(Clone, Copy, Debug)]
pub struct SlotClaim {
    number: u64,
    versions: u64,
    lease: Span,
    drift: Span,
    /// u at the last look; `None` before the first look.
    seen: Option<u64>,
    /// When the last look was posted. Before the first look: when the fetch-and-add was posted.
    posted: Time,
    /// The time p of the module's documentation.
    began: Time,
    /// The time s of the module's documentation.
    known: Time,
}

/// Whether the writer may write, after a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The writer may write now. It must post its WRITEs by this time.
    Write(Time),
    /// The writer may not write yet. If the `done` word of the slot does not change, the writer cannot write
    /// before this time.
    Wait(Time),
    /// The writer may never write this version. It must draw another one.
    Another,
}

/// The result of a look at a record: a READ of the record's head, or of its slots and its head.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// For each slot, the version that is done.
    pub done: &'a [u64],
    /// The newest whole version in the slots. `None` if the look did not READ the slots, or if no version is
    /// whole.
    pub whole: Option<u64>,
    /// When the look was posted.
    pub posted: Time,
    /// When the result of the look was known.
    pub now: Time,
}

impl SlotClaim {
    /// A claim to write version `number`. The fetch-and-add that drew it was posted at `posted`.
    pub fn new(number: u64, versions: u32, (lease, drift): (Span, Span), posted: Time) -> SlotClaim {
        let versions = u64::from(versions);
        SlotClaim { number, versions, lease, drift, seen: None, posted, began: posted, known: posted }
    }

    /// The slot that the version is written to.
    pub fn slot(&self) -> u64 {
        self.number % self.versions
    }

    /// The version that the writer drew.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The length of the writer's pause, as a multiple of `backoff`: (n - u) / V by the last look, rounded
    /// down, but at least one.
    pub(super) fn turns(&self) -> u64 {
        (self.number.saturating_sub(self.seen.unwrap_or(0)) / self.versions).max(1)
    }

    /// Takes note of a look. Returns s + m L, and m: the time from which the writer may pass over the missing
    /// versions, and their number.
    fn reckon(&mut self, look: Look<'_>) -> (Time, u64) {
        let done = look.done[self.slot() as usize];
        if self.seen != Some(done) {
            (self.seen, self.began, self.known) = (Some(done), self.posted, look.now);
        }
        self.posted = look.posted;
        let missing = self.number.saturating_sub(self.versions).saturating_sub(done).div_ceil(self.versions);
        (self.known + (self.lease + self.drift) * missing, missing)
    }

    /// When the periods of all writers of earlier versions of the slot have ended, if the slot's `done` word
    /// does not change.
    pub(super) fn settles(&mut self, look: Look<'_>) -> Time {
        self.reckon(look).0
    }

    /// Takes note of a look, and decides whether the writer may write.
    pub fn look(&mut self, look: Look<'_>) -> Verdict {
        let (from, missing) = self.reckon(look);
        let SlotClaim { number, versions, lease, .. } = *self;
        if look.done[self.slot() as usize] >= number {
            return Verdict::Another;
        }
        let until = self.began + (from - self.known) + lease;
        if look.now > until {
            return Verdict::Another;
        }
        if look.now < from {
            return Verdict::Wait(from);
        }
        let newest = look.done.iter().copied().chain(look.whole).max().unwrap_or(0);
        // The version that this slot holds may be the only one that readers can read.
        let is_newest = number >= versions && newest % versions == self.slot();
        match (is_newest, missing) {
            (false, 0) => Verdict::Write(until),
            // Writers that have exited may have left entries in the slots, so only a look that READ the slots
            // counts.
            (false, _) if look.whole.is_some() => Verdict::Write(until),
            (true, 1..) if look.whole.is_some() => Verdict::Another,
            _ => Verdict::Wait(look.now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Span = Span::from_us(50);
    const DRIFT: Span = Span::from_us(10);

    fn at(us: u64) -> Time {
        Time::START + Span::from_us(us)
    }

    fn claim(number: u64) -> SlotClaim {
        SlotClaim::new(number, 4, (LEASE, DRIFT), at(100))
    }

    fn look(done: &[u64], posted: u64) -> Look<'_> {
        Look { done, whole: done.iter().copied().max(), posted: at(posted), now: at(posted + 2) }
    }

    #[test]
    fn who_follows_what_is_done_writes_at_once() {
        for (number, done) in [(1, [0; 4]), (3, [0; 4]), (5, [4, 1, 2, 3]), (6, [4, 1, 2, 3])] {
            assert_eq!(claim(number).look(look(&done, 100)), Verdict::Write(at(150)), "{number}");
        }
    }

    #[test]
    fn the_newest_version_is_not_overwritten() {
        let mut claim = claim(4);
        assert_eq!(claim.look(look(&[0; 4], 100)), Verdict::Wait(at(102)));
        assert_eq!(claim.look(look(&[0, 0, 2, 0], 110)), Verdict::Write(at(150)));
        assert_eq!(claim.look(look(&[0; 4], 149)), Verdict::Another);
    }

    #[test]
    fn a_number_that_is_missing_is_passed_over_after_lease_and_drift() {
        let done = [4, 1, 6, 7];
        let mut first = claim(9);
        assert_eq!(first.look(look(&done, 100)), Verdict::Wait(at(162)));
        assert_eq!(first.look(look(&done, 161)), Verdict::Write(at(210)));
        let mut second = claim(13);
        assert_eq!(second.look(look(&done, 100)), Verdict::Wait(at(222)));
        // The missing number is done now, so the time is reckoned anew.
        assert_eq!(second.look(look(&[4, 5, 6, 7], 161)), Verdict::Wait(at(223)));
        assert_eq!(second.look(look(&[4, 9, 10, 7], 170)), Verdict::Write(at(211)));
        assert_eq!(second.look(look(&[4, 13, 6, 7], 180)), Verdict::Another);
    }

    /// A mover has no number. It waits as the writer of the next number of each slot would.
    #[test]
    fn a_slot_settles_when_the_next_writer_could_write() {
        let done = [4, 1, 6, 7];
        // 9 is missing before 13.
        assert_eq!(claim(13).settles(look(&done, 100)), at(222));
        assert_eq!(claim(9).settles(look(&done, 100)), at(162));
        assert_eq!(claim(10).settles(look(&done, 100)), at(102));
        let mut claim = claim(9);
        claim.settles(look(&done, 100));
        assert_eq!(claim.settles(look(&[4, 5, 6, 7], 120)), at(122));
    }

    #[test]
    fn what_a_writer_that_is_gone_left_whole_is_not_overwritten() {
        // Number 9 was written, and its writer died before the `done` word was written.
        let mut claim = claim(13);
        let look = |posted| Look { whole: Some(9), ..look(&[4, 5, 6, 7], posted) };
        assert_eq!(claim.look(look(100)), Verdict::Wait(at(162)));
        assert_eq!(claim.look(look(161)), Verdict::Another);
    }
}
