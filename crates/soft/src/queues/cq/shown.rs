//! The lock of a CQ, and what polls see without it.

use super::state::{CqState, SendDone};
use crate::memory::records::RqSlot;
use crate::memory::segment::Segment;
use crate::rings::completions::{CompletionRing, RingPlace};
use crate::sync::biased::{Biased, BiasedGuard};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};

/// The state of a CQ under its lock, and beside it what is to be seen of it without the lock: whether nothing is there.
///
/// Whoever takes the lock may change the state, and what is seen of it is written when the lock is dropped.
#[derive(Debug)]
pub(super) struct ShownState {
    state: Biased<CqState>,
    /// Whether something may be there that only the holder of the lock can see.
    waiting: AtomicBool,
    /// The newest ring, and where in it the next completion will be.
    ring: AtomicU64,
    head: AtomicU64,
    /// The slot of the lane's next RECV, with its state as long as nothing came; null without a lane.
    lane_slot: AtomicPtr<RqSlot>,
    lane_state: AtomicU64,
}

/// The lock of a CQ, until it is dropped.
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
            lane_state: AtomicU64::new(0),
        }
    }

    #[inline(always)]
    pub(super) fn lock(&self) -> CqGuard<'_> {
        CqGuard { shown: self, state: self.state.lock() }
    }

    /// Adds a completion of this process, where the CQ holds less than `cqe`; `false` where it does not.
    #[inline(always)]
    pub(super) fn push(&self, own: SendDone, cqe: u64) -> bool {
        let mut state = self.state.lock();
        if state.held(cqe) >= cqe {
            return false;
        }
        state.push(own);
        // All else that is shown is as it was. Release: whoever sees it takes the lock, and finds the completion.
        self.waiting.store(true, Release);
        true
    }

    /// Writes what is to be seen without the lock.
    ///
    /// Only `waiting` is ordered with the state. The others may be seen old or mixed: a poll that sees nothing new by them looks
    /// again, as it does where a completion comes a moment later, and what it does see it takes under the lock.
    #[inline]
    fn show(&self, state: &CqState) {
        self.waiting.store(state.has_waiting(), Release);
        let (ring, head) = state.newest_ring().front();
        self.ring.store(ring.in_record(), Relaxed);
        self.head.store(head, Relaxed);
        let (slot, untaken) = state
            .next_of_lane()
            .map_or((std::ptr::null(), 0), |(slot, untaken)| (&raw const *slot, untaken.word()));
        self.lane_state.store(untaken, Relaxed);
        self.lane_slot.store(slot.cast_mut(), Relaxed);
    }

    /// Whether nothing is there, as far as can be seen without the lock. The segment is this process's.
    pub(super) fn looks_empty(&self, segment: &'static Segment) -> bool {
        // Acquire: what is shown beside it is read after it.
        if self.waiting.load(Acquire) {
            return false;
        }
        let lane = self.lane_slot.load(Relaxed);
        // SAFETY: null, or a slot in this process's segment, which is never unmapped.
        if let Some(slot) = unsafe { lane.as_ref() }
            // Acquire: with the state comes what the sender has written before.
            && slot.state.load(Acquire) != self.lane_state.load(Relaxed)
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
    /// Before the lock is let go.
    #[inline(always)]
    fn drop(&mut self) {
        self.shown.show(&self.state);
    }
}
