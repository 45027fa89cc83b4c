//! The rule that decides when a writer may write a version.

use doorbell_verbs::{Span, Time};

/// A writer's claim to write the version whose number it has drawn.
///
/// Writers of one slot exclude each other by time, each by its own clock. Let u be the version that the
/// slot's `done` word names. Let m be the count of numbers of the slot between u and n: these numbers are
/// missing. A writer that has drawn n may write it from `s + m L` to `p + m L + lease`, with L = lease +
/// drift, where
///
/// - s is when the writer *learned* that u is done. Other writers may have learned it earlier. But the period
///   of the writer with m - 1 missing numbers ends at a time that is reckoned from its own p;
/// - p is when the writer *posted* its last look that found an older version than u done. If there was no
///   such look, p is when it posted its fetch-and-add. Every writer that counts n as missing has an s after
///   p.
///
/// Take two writers of the slot with equal u. The period of number n, with m missing numbers, ends at
/// p + m L + lease. The next number of the slot, n + V, was drawn after n, and its writer looked after u was
/// done. So the s of n + V is no earlier than the p of n. The period of n + V begins at s + (m + 1) L, which
/// is at least p + m L + lease + drift. When u changes, both writers compute their periods again.
#[derive(Clone, Copy, Debug)]
pub struct SlotClaim {
    number: u64,
    versions: u64,
    lease: Span,
    drift: Span,
    /// The version of the slot that was done at the last look.
    seen: Option<u64>,
    /// When the last look was posted. Before the first look: when the fetch-and-add was posted.
    posted: Time,
    /// `began` is the time p of [`SlotClaim`], and `known` is s.
    began: Time,
    known: Time,
}

/// The result of a look: whether the writer may write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The writer may write until this time: it must post the WRITE by then.
    Write(Time),
    /// The writer may not write yet. If the record does not change, it may write from this time on at the
    /// earliest.
    Wait(Time),
    /// The writer may never write this number. It must draw another one.
    Another,
}

/// What a look at a record found. The look was a READ of the record's head, or of slots and head.
#[derive(Clone, Copy, Debug)]
pub struct Look<'a> {
    /// For each slot, the version that is done.
    pub done: &'a [u64],
    /// The newest whole version in the slots; `None` if the look did not READ the slots, or no version is
    /// whole.
    pub whole: Option<u64>,
    /// When the look was posted.
    pub posted: Time,
    /// When the result of the look was known.
    pub now: Time,
}

impl SlotClaim {
    /// A claim to write `number`, which was drawn by a fetch-and-add posted at `posted`.
    pub fn new(number: u64, versions: u32, (lease, drift): (Span, Span), posted: Time) -> SlotClaim {
        let versions = u64::from(versions);
        SlotClaim { number, versions, lease, drift, seen: None, posted, began: posted, known: posted }
    }

    /// The slot that the version is written to.
    pub fn slot(&self) -> u64 {
        self.number % self.versions
    }

    /// The number that the writer drew.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How many writes of the slot have to end before this write may begin, by the last look. At least one.
    pub(super) fn turns(&self) -> u64 {
        (self.number.saturating_sub(self.seen.unwrap_or(0)) / self.versions).max(1)
    }

    /// Takes note of a look. Returns how many earlier numbers of the slot are missing, and the time from
    /// which the writer may pass over them.
    fn reckon(&mut self, look: Look<'_>) -> (Time, u64) {
        let done = look.done[self.slot() as usize];
        if self.seen != Some(done) {
            (self.seen, self.began, self.known) = (Some(done), self.posted, look.now);
        }
        self.posted = look.posted;
        let missing = self.number.saturating_sub(self.versions).saturating_sub(done).div_ceil(self.versions);
        (self.known + (self.lease + self.drift) * missing, missing)
    }

    /// When the periods of all writers with earlier numbers of the slot have ended, if the record does not
    /// change.
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
