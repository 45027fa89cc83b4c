//! The lock of a CQ, and the words that polls read without the lock.

use super::state::{CqState, SendDone};
use crate::memory::records::RqSlot;
use crate::memory::segment::Segment;
use crate::point::{Point, reach};
use crate::rings::completions::{CompletionRing, RingPlace};
use crate::rings::recvs::{Receipt, SlotState};
use crate::sync::biased::{Biased, BiasedGuard};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};

/// The state of a CQ under its lock, and a copy of a few of its words. Polls read the copy without the lock
/// to detect an empty CQ.
///
/// A thread that acquires the lock may change the state, so it writes the copy before it releases the lock.
#[derive(Debug)]
pub(super) struct ShownState {
    state: Biased<CqState>,
    /// Whether there may be completions that only the holder of the lock can see.
    waiting: AtomicBool,
    /// The newest ring, and the position of its next completion.
    ring: AtomicU64,
    head: AtomicU64,
    /// The slot of the lane's next RECV, and the slot's state word while the RECV is posted. Null and 0
    /// without a lane.
    lane_slot: AtomicPtr<RqSlot>,
    lane_posted: AtomicU64,
}

/// Holds the lock of a CQ until it is dropped.
pub(super) struct CqGuard<'a> {
    shown: &'a ShownState,
    state: BiasedGuard<'a, CqState>,
}

impl ShownState {
    pub(super) fn new(state: CqState) -> ShownState {
        let (ring, head) = state.newest_ring().front();
        ShownState {
            state: Biased::new(state),
            waiting: AtomicBool::new(false),
            ring: AtomicU64::new(ring.in_record()),
            head: AtomicU64::new(head),
            lane_slot: AtomicPtr::new(std::ptr::null_mut()),
            lane_posted: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    pub(super) fn lock(&self) -> CqGuard<'_> {
        CqGuard { shown: self, state: self.state.lock() }
    }

    /// Enters a send's completion; `false` if the CQ holds `cqe` completions already.
    #[inline(always)]
    pub(super) fn enter(&self, own: SendDone, sender: u32, receipt: Option<Receipt>, cqe: u64) -> bool {
        let mut state = self.state.lock();
        if !state.enter(own, sender, receipt, cqe) {
            return false;
        }
        // The other words of the copy are unchanged. Release: a poll that sees `waiting` set acquires the
        // lock, and finds the completion.
        self.waiting.store(true, Release);
        true
    }

    /// Writes the copy for polls without the lock.
    ///
    /// Only `waiting` is ordered with the state. A poll may load old or mixed values of the other words. If a
    /// poll then misses a completion, the next poll finds it, as if the completion had arrived a moment
    /// later. If a poll sees a completion, it takes the completion under the lock.
    #[inline]
    fn show(&self, state: &CqState) {
        self.waiting.store(state.has_waiting(), Release);
        let (ring, head) = state.newest_ring().front();
        self.ring.store(ring.in_record(), Relaxed);
        self.head.store(head, Relaxed);
        let (slot, posted) = state
            .next_of_lane()
            .map_or((std::ptr::null(), 0), |(slot, posted)| (&raw const *slot, posted.word()));
        self.lane_posted.store(posted, Relaxed);
        self.lane_slot.store(slot.cast_mut(), Relaxed);
    }

    /// Whether the CQ looks empty without the lock. `segment` is this process's segment.
    #[inline(always)]
    pub(super) fn looks_empty(&self, segment: &'static Segment) -> bool {
        // Acquire: the other words of the copy are read after it.
        if self.waiting.load(Acquire) {
            return false;
        }
        let lane = self.lane_slot.load(Relaxed);
        // SAFETY: the pointer is null, or leads to a slot in this process's segment, which is never unmapped.
        if let Some(slot) = unsafe { lane.as_ref() }
            // The load of the state is Acquire: everything that the sender wrote before is visible after it.
            && slot.state().is_begun(SlotState::of_word(self.lane_posted.load(Relaxed)))
        {
            return false;
        }
        let ring = CompletionRing::at(segment, RingPlace::of_record(self.ring.load(Relaxed)));
        ring.is_none_or(|ring| ring.get(self.head.load(Relaxed)).is_none())
    }
}

impl Deref for CqGuard<'_> {
    type Target = CqState;

    #[inline(always)]
    fn deref(&self) -> &CqState {
        &self.state
    }
}

impl DerefMut for CqGuard<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut CqState {
        &mut self.state
    }
}

impl Drop for CqGuard<'_> {
    /// Writes the copy before the lock is released.
    #[inline(always)]
    fn drop(&mut self) {
        reach(Point::PollEnds);
        self.shown.show(&self.state);
    }
}
