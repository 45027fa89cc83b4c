//! Copy records, by which a process waits for the copies into and out of its memory.
//!
//! A process that revokes access to its memory must know when no running copy uses the old rights any more.
//! Copies take no lock. Instead, each *copier* (a QP, a receive queue, or the service thread) has a *copy
//! record* in the segment of the process with the memory. The copier counts the steps of its copies in the
//! record:
//!
//! 1. The copier begins a copy: the count becomes odd.
//! 2. The copier passes a fence.
//! 3. The copier checks the rights: the state of the QP, the region, the window.
//! 4. The copier copies.
//! 5. The copier ends the copy: the count becomes even.
//!
//! The revoking process changes the rights, passes the other fence, and then loads all copy records. Either
//! the copier sees the changed rights, or the revoking process sees an odd count. In the latter case, the
//! revoking process waits until that count changes (`fabric/revoking.rs`). The copier's fence is usually
//! no instruction (`sync/platform.rs`).
//!
//! Threads of the process itself have copy records too, if they post, poll or serve peers.

use super::records::{COPIES, CopiesRecord, CopyRecord};
use super::segment::Segment;
use crate::sync::atomics::{Ordering::*, fence};
use crate::sync::platform::light_fence;
use std::collections::HashMap;

/// The fence at the beginning of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyFence {
    /// No instruction. The revoking process passes the costly side of the pair of fences.
    Light,
    /// A full fence, because the system has no pair of fences, or hides it from one of the two processes.
    Full,
}

impl CopyRecord {
    /// Begins a copy. The caller checks the copy's rights after this call.
    #[inline(always)]
    pub(crate) fn begin(&self, kind: CopyFence) {
        // Relaxed load: only the copier that holds the record stores to it. Release store: a process that
        // waits for the end of the previous copy may see only this count. The fence keeps the store before
        // the loads of the checks.
        self.steps.store(self.steps.load(Relaxed).wrapping_add(1), Release);
        match kind {
            CopyFence::Light => light_fence(),
            CopyFence::Full => fence(SeqCst),
        }
    }

    /// Ends a copy.
    #[inline(always)]
    pub(crate) fn end(&self) {
        // Release: a process that sees the new count sees everything that the copy stored, and the copy has
        // loaded nothing that the process stores later.
        self.steps.store(self.steps.load(Relaxed).wrapping_add(1), Release);
    }

    /// The count of the running copy; `None` if no copy runs.
    fn running(&self) -> Option<u64> {
        // Acquire pairs with the Release in `end`, or in the `begin` after it.
        Some(self.steps.load(Acquire)).filter(|steps| !steps.is_multiple_of(2))
    }

    /// Takes the record for process `holder` if the record is free; returns whether it did so.
    fn take(&self, holder: u32) -> bool {
        // Acquire pairs with the Release in `free`: this thread sees the last copier's count. Relaxed on
        // failure: the caller reads nothing then.
        if self.holder.compare_exchange(0, holder, Acquire, Relaxed).is_err() {
            return false;
        }
        // Relaxed: only this thread uses the record now. A process that was killed during a copy leaves an
        // odd count.
        let steps = self.steps.load(Relaxed);
        self.steps.store(steps.wrapping_add(steps % 2), Relaxed);
        true
    }

    /// Frees the record of a process that has exited.
    pub(crate) fn free(&self, holder: u32) {
        // Release, for the Acquire in `take`. Relaxed on failure: another process has freed the record.
        let _ = self.holder.compare_exchange(holder, 0, Release, Relaxed);
    }
}

/// Takes a record in this segment for a copier of process `holder`, and returns the record's index.
/// `holder` is a claimer number plus 1. `is_gone` says whether the process with such a number has exited.
/// `None` if all records are in use.
pub(crate) fn take(segment: &Segment, holder: u32, is_gone: impl Fn(u32) -> bool) -> Option<usize> {
    let used = used(segment);
    let free = |index: &usize| segment.copy(*index).is_some_and(|record| record.take(holder));
    // Before a new record is used, this function searches the used records for a free one, and may free the
    // records of exited processes. The search takes a while. So it happens only while few records are used,
    // and when their number has reached a power of two.
    let seeks = used < FEW || used.is_power_of_two();
    let mut found = if seeks { (0..used).find(free) } else { None };
    if found.is_none() && seeks && used >= FEW {
        free_abandoned(segment, used, is_gone);
        found = (0..used).find(free);
    }
    let index = found.or_else(|| (used..COPIES).find(free))?;
    let is_more = |before: u32| (before <= index as u32).then_some(index as u32 + 1);
    // SeqCst, and before the copier's first copy: a revoking process that must wait for the copy also sees
    // the new number.
    let _ = segment.copies().used.fetch_update(SeqCst, Relaxed, is_more);
    Some(index)
}

/// Frees the records of exited processes.
fn free_abandoned(segment: &Segment, used: usize, is_gone: impl Fn(u32) -> bool) {
    let mut known = HashMap::from([(0, false)]);
    for record in (0..used).filter_map(|index| segment.copy(index)) {
        let holder = record.holder.load(Relaxed);
        if *known.entry(holder).or_insert_with(|| is_gone(holder)) {
            record.free(holder);
        }
    }
}

/// Number of used records from which the records of exited processes are freed. Fewer records are no burden.
const FEW: usize = 64;

/// A number above the indices of all records in use.
fn used(segment: &Segment) -> usize {
    let CopiesRecord { used, .. } = segment.copies();
    // SeqCst, like the store in `take`.
    (used.load(SeqCst) as usize).min(COPIES)
}

/// A running copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunningCopy {
    /// Index of the copy's record, and the count in the record.
    pub(crate) index: usize,
    pub(crate) steps: u64,
}

/// The running copies in a segment's records. Before this call, the revoking process has changed the rights
/// and passed its fence. All copies that are not returned have ended, or see the change.
pub(crate) fn running(segment: &Segment) -> Vec<RunningCopy> {
    let running = |index| Some(RunningCopy { index, steps: segment.copy(index)?.running()? });
    (0..used(segment)).filter_map(running).collect()
}

impl RunningCopy {
    /// Whether the copy still runs.
    pub(crate) fn runs(&self, segment: &Segment) -> bool {
        segment.copy(self.index).is_some_and(|record| record.running() == Some(self.steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::OnceLock;

    fn segment() -> &'static Segment {
        static SEGMENT: OnceLock<Segment> = OnceLock::new();
        SEGMENT.get_or_init(|| Segment::create().expect("a segment").1)
    }

    #[test]
    fn a_record_of_an_exited_process_is_taken_again() {
        let segment = segment();
        let alive = |_: u32| false;
        for index in 0..FEW {
            assert_eq!(take(segment, 7, alive), Some(index));
        }
        let record = segment.copy(5).expect("a record");
        record.begin(CopyFence::Light);
        assert_eq!(record.running(), Some(1));
        for index in 0..FEW {
            assert_eq!(take(segment, 8, |holder| holder == 7), Some(index), "before a new one is used");
        }
        assert_eq!(record.running(), None, "the process was killed within a copy");
        assert_eq!(take(segment, 9, alive), Some(FEW));
        assert_eq!(used(segment), FEW + 1);
        record.begin(CopyFence::Full);
        record.end();
        assert_eq!(record.running(), None);
    }
}
