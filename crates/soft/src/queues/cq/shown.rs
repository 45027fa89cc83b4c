//! The lock of a CQ, and the words that polls read without it.

use super::state::{CqState, SendDone};
use crate::memory::records::RqSlot;
use crate::memory::segment::Segment;
use crate::rings::completions::{CompletionRing, RingPlace};
use crate::rings::recvs::Receipt;
use crate::sync::biased::{Biased, BiasedGuard};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering::*};

/// The state of a CQ under its lock, and a copy of a few words that polls read without the lock, to see an
/// empty CQ.
///
/// A thread that takes the lock may change the state. The copy is written when the lock is dropped.
#[derive(Debug)]
pub(super) struct ShownState {
    state: Biased<CqState>,
    /// Whether there may be completions that only the holder of the lock can see.
    waiting: AtomicBool,
    /// The newest ring, and the position of its next completion.
    ring: AtomicU64,
    head: AtomicU64,
    /// The slot of the lane's next RECV, and the state word that it has when the RECV is posted. Null without
    /// a lane.
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

    /// Enters a completion of this process; `false` if the CQ holds `cqe` completions already.
    #[inline(always)]
    pub(super) fn enter(&self, own: SendDone, sender: u32, receipt: Option<Receipt>, cqe: u64) -> bool {
        let mut state = self.state.lock();
        if !state.enter(own, sender, receipt, cqe) {
            return false;
        }
        // The other words of the copy are unchanged. Release: a poll that sees this takes the lock, and finds
        // the completion.
        self.waiting.store(true, Release);
        true
    }

    /// Writes the copy for polls without the lock.
    ///
    /// Only `waiting` is ordered with the state. The other words may be seen old or mixed. A poll that sees
    /// nothing new in them looks again, as it does if a completion arrives a moment later. What a poll does
    /// see, it takes under the lock.
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

    /// Whether the CQ is empty, as far as it can be seen without the lock. The segment is this process's.
    pub(super) fn looks_empty(&self, segment: &'static Segment) -> bool {
        // Acquire: the other words of the copy are read after it.
        if self.waiting.load(Acquire) {
            return false;
        }
        let lane = self.lane_slot.load(Relaxed);
        // SAFETY: the pointer is null, or leads to a slot in this process's segment, which is never unmapped.
        if let Some(slot) = unsafe { lane.as_ref() }
            // Acquire: makes visible what the sender wrote before the state. If the RECV was not posted when
            // the copy was written, another slot may have it now. Then this one has another state.
            && slot.state.load(Acquire) != self.lane_posted.load(Relaxed)
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
        self.shown.show(&self.state);
    }
}
