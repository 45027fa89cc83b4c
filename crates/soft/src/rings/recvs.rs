//! The slots of a receive queue: posted RECVs and their results.
//!
//! Terms:
//! - The *owner* is the process of the receive queue.
//! - A *sender* is a QP whose messages take RECVs of the queue.
//! - The *claimer* of a RECV is the process that writes a message or an error into the RECV.
//! - A *turn* ([`SenderTurn`]) is the word in which the only sender of a queue claims RECVs.
//! - To *flush* a queue is to complete its RECVs with an error, because the QP is in Err.
//!
//! No process waits for another process here, because any process may be stopped. A RECV has these steps:
//! 1. The owner writes the RECV into a slot, and posts it.
//! 2. A sender claims the RECV by a compare-and-swap of the slot's state. The new state names the claimer.
//! 3. The sender writes the message's result into the slot, and marks the RECV as done.
//! 4. The owner takes the completion, and frees the slot.
//!
//! The owner repairs slots with a claimer that has exited.
//!
//! The only sender of a queue claims RECVs in its turn, and not in the slot. So each message writes only once
//! to the cache line that the owner polls. A process that flushes the queue claims RECVs in their slots. It
//! leaves out the RECV that the sender has claimed in its turn. Either the sender sees that the QP is in Err,
//! or the flushing process sees the claimed turn.
//!
//! A [`Receipt`] names the RECV that a message took. With the receipt, any thread of the sender can find out
//! whether the receiver's program has the completion. The sender can also copy the payload from the slot to
//! the RECV's buffers, if a later request must find the payload there.

use super::completions;
use crate::fabric::peer::Owner;
use crate::fabric::pipe::tell;
use crate::memory::copy::Piece;
use crate::memory::records::*;
use crate::memory::segment::Segment;
use crate::memory::transfer::copy_short;
use crate::point::{Point, reach};
use crate::sync::atomics::{AtomicU64, Ordering::*, fence};
use doorbell_abi::CEnum;
use doorbell_launch::limits::OWN;
use doorbell_verbs::{Sge, WcOpcode, WcStatus};
use std::mem::MaybeUninit;
use std::num::NonZeroU64;

/// `IBV_EVENT_SRQ_LIMIT_REACHED`.
const EVENT_SRQ_LIMIT_REACHED: u32 = 15;
/// A bit of a completion's flags that verbs.h does not use: the sender asked for a solicited event.
pub(crate) const SOLICITED: u8 = 1 << 7;
/// Words of a completion in a slot.
const DONE_WORDS: usize = 3;
/// Number of payload bytes that a slot can carry after the words of its completion.
pub(crate) const CARRIED_BYTES: usize = (SLOT_WORDS - DONE_WORDS) * 8;
const CARRIED_WORDS: usize = SLOT_WORDS - DONE_WORDS;
/// Index of the completion word that contains the number of carried bytes.
const CARRIED_WORD: usize = 2;

/// The state word of a slot. It has four parts: the lower 32 bits of the RECV's position in the queue, the
/// claimer number, the lower 8 bits of the queue's generation, and the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotState(u64);

/// The phase of a slot's RECV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotPhase {
    /// The slot holds no RECV, or a RECV whose completion was taken.
    Free,
    /// The RECV was complete. Its sender, the process with this claimer number, is copying the carried
    /// payload to the RECV's buffers, and then completes the RECV again.
    Placing(u32),
    /// The RECV is posted, and a sender may claim it.
    Posted,
    /// The process with this claimer number is writing a message into the RECV.
    Claimed(u32),
    /// The RECV is complete.
    Done,
}

const POSITION_BITS: u32 = 32;
const GENERATION_BITS: u32 = 8;
const CLAIMER_AT: u32 = POSITION_BITS;
const GENERATION_AT: u32 = CLAIMER_AT + CLAIMER_BITS;
const PHASE_AT: u32 = GENERATION_AT + GENERATION_BITS;
const _: () = assert!(PHASE_AT + 2 == u64::BITS);

impl SlotState {
    pub(crate) const FREE: SlotState = SlotState(0);

    pub(crate) fn posted(position: u64, generation: u32) -> SlotState {
        let generation = u64::from(generation) & ((1 << GENERATION_BITS) - 1);
        SlotState(u64::from(position as u32) | generation << GENERATION_AT | 1 << PHASE_AT)
    }

    pub(crate) fn claimed(self, claimer: u32) -> SlotState {
        let claimer = u64::from(claimer) & ((1 << CLAIMER_BITS) - 1);
        SlotState(self.without_phase() | claimer << CLAIMER_AT | 2 << PHASE_AT)
    }

    pub(crate) fn done(self) -> SlotState {
        SlotState(self.without_phase() | 3 << PHASE_AT)
    }

    /// The state while the sender with this claimer number, which is not 0, places the payload.
    fn placing(self, claimer: u32) -> SlotState {
        SlotState(self.without_phase() | self.claimed(claimer).claimer())
    }

    /// The state of a RECV whose completion was taken.
    fn taken(self) -> SlotState {
        SlotState(self.without_phase())
    }

    /// The state as the word that a slot stores.
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    /// The state that a slot stores as this word.
    pub(crate) fn of_word(word: u64) -> SlotState {
        SlotState(word)
    }

    /// The position and the generation, without claimer and phase.
    #[inline]
    fn without_phase(self) -> u64 {
        let claimer = ((1 << CLAIMER_BITS) - 1) << CLAIMER_AT;
        self.0 & !claimer & !(3 << PHASE_AT)
    }

    #[inline]
    pub(crate) fn phase(self) -> SlotPhase {
        let who = (self.0 >> CLAIMER_AT) as u32 & ((1 << CLAIMER_BITS) - 1);
        match (self.0 >> PHASE_AT, who) {
            (0, 0) => SlotPhase::Free,
            (0, who) => SlotPhase::Placing(who),
            (1, _) => SlotPhase::Posted,
            (2, who) => SlotPhase::Claimed(who),
            _ => SlotPhase::Done,
        }
    }

    /// The bits of the claimer number, at their place in the word.
    fn claimer(self) -> u64 {
        self.0 & ((1 << CLAIMER_BITS) - 1) << CLAIMER_AT
    }

    /// Whether a sender has claimed or completed the RECV whose posted state was `posted`, or the slot has a
    /// RECV of a later position by now.
    #[inline]
    pub(crate) fn is_begun(self, posted: SlotState) -> bool {
        self != posted
            && match self.phase_of(posted) {
                Some(phase) => matches!(phase, SlotPhase::Claimed(_) | SlotPhase::Done),
                None => self.phase() != SlotPhase::Free && self.is_later(posted),
            }
    }

    /// Whether the position of this state is later than the position of `than`, modulo 2^32.
    fn is_later(self, than: SlotState) -> bool {
        (self.position() as u32).wrapping_sub(than.position() as u32) as i32 > 0
    }

    /// The lower 32 bits of the RECV's position.
    fn position(self) -> u64 {
        self.0 & ((1 << POSITION_BITS) - 1)
    }

    /// The posted state of the RECV at the next position.
    pub(crate) fn next(self) -> SlotState {
        let position = (self.position() as u32).wrapping_add(1);
        SlotState(self.without_phase() & !((1 << POSITION_BITS) - 1) | u64::from(position) | 1 << PHASE_AT)
    }

    /// The phase of the RECV whose posted state was `posted`; `None` if another RECV has the slot now.
    #[inline]
    pub(crate) fn phase_of(self, posted: SlotState) -> Option<SlotPhase> {
        (self.without_phase() == posted.without_phase()).then(|| self.phase())
    }
}

impl RqSlot {
    pub(crate) fn state(&self) -> SlotState {
        // Acquire: this thread sees the words that were written before the state.
        SlotState(self.state.load(Acquire))
    }

    pub(crate) fn set_state(&self, state: SlotState) {
        // Release: publishes the slot's words.
        self.state.store(state.0, Release);
    }

    /// Changes the state from `from` to `to`. Fails if another thread or process changed it first.
    pub(crate) fn change(&self, from: SlotState, to: SlotState) -> bool {
        // SeqCst: after a sender has claimed the slot, it loads whether the queue is its CQ's lane. The owner
        // stores in `end_lane` that the queue is no lane, and then loads the slot states. So one of the two
        // sees the other's store. Relaxed on failure: the caller reads nothing then.
        self.state.compare_exchange(from.0, to.0, SeqCst, Relaxed).is_ok()
    }

    /// Frees the slot, because the completion of the RECV whose posted state was `posted` is taken. Only the
    /// owner calls this.
    pub(crate) fn set_taken(&self, posted: SlotState) {
        // Release: a sender that sees the new state also sees the payload in the RECV's buffers.
        self.state.store(posted.taken().0, Release);
    }

    /// Whether no sender has claimed the RECV that was posted in this slot at `position`. The owner calls
    /// this after `end_lane`.
    pub(crate) fn is_untaken(&self, turn: Option<&SenderTurn>, position: u64, generation: u32) -> bool {
        let posted = SlotState::posted(position, generation);
        // The turn is loaded before the slot's state. If the turn was claimed and has passed on, this thread
        // sees the slot done.
        let is_claimed = turn.is_some_and(|turn| turn.is_at(position));
        !is_claimed && self.state().phase_of(posted) == Some(SlotPhase::Posted)
    }
}

/// Prefetches a cache line that will be written soon.
#[inline]
pub(crate) fn expect_write<T>(line: &T) {
    // SAFETY: a prefetch is a hint and does not change memory.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
    }
}

impl SenderTurn {
    pub(crate) fn state(&self) -> SlotState {
        // Acquire: if the turn has passed on from a slot, this thread sees that slot done.
        SlotState(self.state.load(Acquire))
    }

    pub(crate) fn set_state(&self, state: SlotState) {
        // Release: publishes the slot that the sender has completed.
        self.state.store(state.0, Release);
    }

    /// Changes the state from `from` to `to`. Fails if another thread or process changed it first.
    pub(crate) fn change(&self, from: SlotState, to: SlotState) -> bool {
        // SeqCst: after a sender has claimed its turn, it loads whether the QP is in Err, and whether the
        // queue is its CQ's lane. A process that flushes the queue, or ends the lane, first stores the new
        // state, and then loads the turn. So one of the two sees the other's store. Relaxed on failure: the
        // caller reads nothing then.
        self.state.compare_exchange(from.0, to.0, SeqCst, Relaxed).is_ok()
    }

    /// Whether the sender has claimed the RECV at this position, and has not passed the turn on.
    pub(crate) fn is_at(&self, position: u64) -> bool {
        // SeqCst, for the reason given in `change`.
        let state = SlotState(self.state.load(SeqCst));
        matches!(state.phase(), SlotPhase::Claimed(_)) && state.position() == u64::from(position as u32)
    }
}

/// Bytes from the beginning of a slot to the beginning of the next slot, in a queue with this `max_sge`.
pub(crate) fn stride(max_sge: u32) -> u64 {
    let words = 2 + 2 * u64::from(max_sge);
    (words * 8).max(size_of::<RqSlot>() as u64).next_multiple_of(64)
}

/// The slots of a queue, as the queue's record describes them.
#[derive(Clone, Copy)]
pub(crate) struct Slots<'a> {
    segment: &'a Segment,
    pub(crate) record: &'a RqRecord,
    capacity: u32,
    max_sge: u32,
    first: u64,
    /// Offset in the segment of the ring that orders the slots, if the queue has no turn.
    order: u64,
    /// The turn of the only sender; `None` if the queue may have several senders.
    turn: Option<&'a SenderTurn>,
}

/// The reason why a queue has no RECV for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRecv {
    /// No RECV is posted.
    Empty,
    /// The records are invalid, or have claims of exited senders that the owner has not repaired yet.
    Nonsense,
}

/// The oldest RECV that a sender has seen unclaimed.
#[derive(Clone, Copy)]
pub(crate) struct Front<'a> {
    slots: &'a Slots<'a>,
    slot: &'a RqSlot,
    index: u32,
    pub(crate) position: u64,
    posted: SlotState,
}

/// A RECV that a sender has claimed.
pub(crate) struct RecvClaim<'a> {
    pub(crate) record: &'a RqRecord,
    slot: &'a RqSlot,
    posted: SlotState,
    index: u32,
    position: u64,
    /// The turn in which the RECV was claimed; `None` if the RECV was claimed in its slot.
    turn: Option<&'a SenderTurn>,
    slots: &'a Slots<'a>,
}

impl<'a> Slots<'a> {
    /// The slots of the queue in this record; `None` if the record holds no valid queue.
    #[inline(always)]
    pub(crate) fn of(segment: &'a Segment, record: &'a RqRecord) -> Option<Slots<'a>> {
        // Acquire: the owner stores the capacity last when it publishes the queue. So the loads below may be
        // Relaxed.
        let capacity = record.capacity.load(Acquire);
        // A search for a RECV may visit all slots. Their number is limited, because any process of the user
        // can write the record.
        if !capacity.is_power_of_two() || capacity > OWN.wr {
            return None;
        }
        let turn = match record.turn.load(Relaxed) {
            0 => None,
            at => Some(segment.in_heap(at)?),
        };
        let max_sge = record.max_sge.load(Relaxed).min(1024);
        let (first, order) = (record.slots.load(Relaxed), record.order.load(Relaxed));
        Some(Slots { segment, record, capacity, max_sge, first, order, turn })
    }

    /// The slots of a queue from which only one sender takes RECVs; `None` for any other queue.
    #[inline(always)]
    pub(crate) fn of_one_sender(segment: &'a Segment, record: &'a RqRecord) -> Option<Slots<'a>> {
        Slots::of(segment, record).filter(|slots| slots.turn.is_some())
    }

    /// The slot with this index; `None` if the record's numbers are invalid.
    #[inline]
    pub(crate) fn slot(&self, index: u32) -> Option<&'a RqSlot> {
        let at = u64::from(index & (self.capacity - 1)) * stride(self.max_sge);
        self.segment.in_heap(self.first.checked_add(at)?)
    }

    /// Index of the slot that holds the RECV at a position; `None` if no RECV was posted at the position yet.
    fn index_of(&self, position: u64) -> Result<Option<u32>, NoRecv> {
        let at = position & u64::from(self.capacity - 1);
        if self.turn.is_some() {
            return Ok(Some(at as u32));
        }
        let cell: Option<&AtomicU64> = self.order.checked_add(at * 8).and_then(|at| self.segment.in_heap(at));
        // Acquire: the owner has published the slot before it stored the slot's index in the cell.
        let named = cell.ok_or(NoRecv::Nonsense)?.load(Acquire);
        Ok(order_index(named, position))
    }

    /// The oldest unclaimed RECV, if the queue still has this generation.
    #[inline(always)]
    pub(crate) fn front(&'a self, generation: u32) -> Result<Front<'a>, NoRecv> {
        let Some(turn) = self.turn else { return self.front_of_order(generation) };
        let posted = turn.state();
        if posted != SlotState::posted(posted.position(), generation) {
            let is_of_now =
                posted.without_phase() == SlotState::posted(posted.position(), generation).without_phase();
            return Err(if is_of_now { NoRecv::Nonsense } else { NoRecv::Empty });
        }
        let position = posted.position();
        let index = position as u32 & (self.capacity - 1);
        let slot = self.slot(index).ok_or(NoRecv::Nonsense)?;
        if slot.state() != posted {
            return Err(NoRecv::Empty);
        }
        Ok(Front { slots: self, slot, index, position, posted })
    }

    fn front_of_order(&'a self, generation: u32) -> Result<Front<'a>, NoRecv> {
        let head = &self.record.taken.0.head;
        // Each round helps one claimer that has not advanced the head itself. There are no more such claimers
        // than slots.
        for _ in 0..=2 * self.capacity {
            // Acquire, for the AcqRel in `advance`: this thread sees the slots before `position` claimed.
            let position = head.load(Acquire);
            let posted = SlotState::posted(position, generation);
            if let Some(index) = self.index_of(position)? {
                let slot = self.slot(index).ok_or(NoRecv::Nonsense)?;
                match slot.state().phase_of(posted) {
                    Some(SlotPhase::Posted) => {
                        return Ok(Front { slots: self, slot, index, position, posted });
                    }
                    Some(SlotPhase::Claimed(_) | SlotPhase::Done | SlotPhase::Placing(_)) => {
                        self.advance(position);
                        continue;
                    }
                    // No RECV is posted here, or the owner has taken its completion. In the latter case, the
                    // claimer had advanced the head before it completed the RECV.
                    Some(SlotPhase::Free) | None => {}
                }
            }
            // Acquire, as above.
            if head.load(Acquire) == position {
                return Err(NoRecv::Empty);
            }
        }
        Err(NoRecv::Nonsense)
    }

    fn advance(&self, from: u64) {
        let head = &self.record.taken.0.head;
        // AcqRel: a thread that sees the new head sees the slots before it claimed.
        let _ = head.compare_exchange(from, from.wrapping_add(1), AcqRel, Relaxed);
    }

    /// The oldest unclaimed RECV at position `from` or later, for a process that flushes the queue. Skips a
    /// RECV that the only sender has claimed in its turn. `from` becomes the position after the last visited
    /// RECV.
    fn unflushed(&'a self, generation: u32, from: &mut u64) -> Option<Front<'a>> {
        let Some(turn) = self.turn else { return self.front_of_order(generation).ok() };
        for _ in 0..=self.capacity {
            let position = *from;
            *from = u64::from((position as u32).wrapping_add(1));
            let index = position as u32 & (self.capacity - 1);
            let (slot, posted) = (self.slot(index)?, SlotState::posted(position, generation));
            match slot.state().phase_of(posted)? {
                SlotPhase::Free => return None,
                SlotPhase::Posted if !turn.is_at(position) => {
                    return Some(Front { slots: self, slot, index, position, posted });
                }
                _ => {}
            }
        }
        None
    }

    /// The position of the only sender's turn; 0 if the queue has no turn.
    fn turn_position(&self) -> u64 {
        self.turn.map_or(0, |turn| turn.state().position())
    }

    /// Whether the slots before this position hold at least `cqe` completions, the maximum of their CQ.
    #[inline(always)]
    pub(crate) fn is_full(&self, position: u64, cqe: u32) -> bool {
        // If `position` is less than `polled`, the queue was reset meanwhile, and is not full.
        let full =
            |polled: u64| i64::from((position as u32).wrapping_sub(polled as u32) as i32) >= i64::from(cqe);
        let seen = &self.record.taken.0.polled_seen;
        // Relaxed, here and below: these numbers do not order accesses to slots. An old `polled_seen` only
        // leads to a load of `polled`. The state of a slot says whether the slot is free.
        if !full(seen.load(Relaxed)) {
            return false;
        }
        let polled = self.record.posted.0.polled.load(Relaxed);
        seen.store(polled, Relaxed);
        full(polled)
    }
}

/// Writes a RECV into a slot, and publishes it to senders. Only the owner calls this.
#[inline]
pub(crate) fn show_posted(
    (segment, record): (&Segment, &RqRecord),
    slot: &RqSlot,
    (position, generation): (u64, u32),
    sges: &[Sge],
) {
    write_posted(segment, slot, sges);
    reach(Point::RecvWritten);
    // Relaxed: the tail is only a number. It is stored before the slot's state. A sender that takes the RECV
    // has seen this state, so it also sees the tail when it counts the RECVs that are left.
    record.posted.0.tail.store(position + 1, Relaxed);
    slot.set_state(SlotState::posted(position, generation));
}

/// Stores the index of a RECV's slot in a cell of the ring that orders slots. Only the owner calls this.
pub(crate) fn order_slot(cell: &AtomicU64, position: u64, index: u32) {
    // Release: a sender that finds the slot by this cell sees the slot posted.
    cell.store(order_cell(position, index), Release);
}

/// Ends the lane (`QpRecord::lane`): senders notify the CQ of the RECVs that they claim from now on. Loads
/// after this call see all earlier claims. Only the owner calls this.
pub(crate) fn end_lane(qp: &QpRecord) {
    qp.lane.store(0, SeqCst);
    // SeqCst: the loads of slot states after this fence are only Acquire. The fence makes them part of the
    // single order that contains `RqSlot::change`.
    fence(SeqCst);
}

/// The value of a cell of the ring that orders slots, for a position and the index of its slot.
fn order_cell(position: u64, index: u32) -> u64 {
    (position.wrapping_add(1) << 16) | u64::from(index as u16)
}

fn order_index(cell: u64, position: u64) -> Option<u32> {
    (cell >> 16 == position.wrapping_add(1) & (u64::MAX >> 16)).then_some(cell as u32 & 0xffff)
}

/// Writes a posted RECV into a slot. Relaxed: the slot's state publishes the words.
pub(crate) fn write_posted(segment: &Segment, slot: &RqSlot, sges: &[Sge]) {
    let total: u64 = sges.iter().map(|sge| u64::from(sge.length)).sum();
    let capacity = u64::from(u32::try_from(total).unwrap_or(u32::MAX));
    slot.words[0].store(sges.len() as u64 | capacity << 32, Relaxed);
    for (n, sge) in sges.iter().enumerate() {
        let halves = u64::from(sge.length) | u64::from(sge.lkey) << 32;
        for (word, value) in [(1 + 2 * n, sge.addr), (2 + 2 * n, halves)] {
            if let Some(to) = word_of(segment, slot, word) {
                to.store(value, Relaxed);
            }
        }
    }
}

/// A word of a slot, or of the memory after the slot for SGEs that do not fit.
fn word_of<'a>(segment: &'a Segment, slot: &'a RqSlot, word: usize) -> Option<&'a AtomicU64> {
    if let Some(word) = slot.words.get(word) {
        return Some(word);
    }
    segment.in_heap(segment.heap_offset(slot)? + 8 * (1 + word as u64))
}

impl<'a> Front<'a> {
    /// The number of the RECV's SGEs, and their bytes in total.
    #[inline(always)]
    pub(crate) fn room(&self) -> (u32, u32) {
        // Relaxed, as in `sge`: the slot's state was loaded before. `claim` or `is_posted` checks it again.
        let word = self.slot.words[0].load(Relaxed);
        ((word as u32).min(self.slots.max_sge), (word >> 32) as u32)
    }

    /// The RECV's SGE with index `n`.
    #[inline(always)]
    pub(crate) fn sge(&self, n: u32) -> Option<Sge> {
        let word = |n: usize| word_of(self.slots.segment, self.slot, n).map(|word| word.load(Relaxed));
        let (addr, halves) = (word(1 + 2 * n as usize)?, word(2 + 2 * n as usize)?);
        Some(Sge { addr, length: halves as u32, lkey: (halves >> 32) as u32 })
    }

    /// Whether the queue is its CQ's lane, and the CQ has no room for this RECV's completion.
    #[inline(always)]
    pub(crate) fn is_beyond_lane(&self, qp: &QpRecord, segment: &Segment) -> bool {
        // Relaxed: if a lane begins or ends meanwhile, the CQ has room for the completions in the lane.
        qp.lane.load(Relaxed) != 0
            && segment
                .cq(qp.cq.load(Relaxed) as usize)
                .is_none_or(|cq| self.slots.is_full(self.position, cq.cqe.load(Relaxed)))
    }

    /// The receipt of the message that takes the RECV, in receive queue `rq`.
    #[inline(always)]
    pub(crate) fn receipt(&self, rq: u32) -> Receipt {
        Receipt::new((rq, self.index), self.posted, self.slots.turn.is_some())
    }

    /// Whether no sender has claimed the RECV in its slot. Then everything that was read from the RECV before
    /// this call is as the owner posted it.
    #[inline]
    pub(crate) fn is_posted(&self) -> bool {
        // Acquire: the loads of the words stay before the load of the state.
        fence(Acquire);
        self.slot.state() == self.posted
    }

    /// Claims the RECV for this completer. Returns `None` in three cases: another sender has claimed the
    /// RECV, the owner has withdrawn the RECV, or the QP is in Err. After a claim, everything that was read
    /// from the RECV before this call is as the owner posted it.
    #[inline(always)]
    pub(crate) fn claim(self, completer: &Completer<'_>) -> Option<RecvClaim<'a>> {
        let Front { slots, slot, index, position, posted } = self;
        let Some(turn) = slots.turn else { return self.claim_slot(completer.claimer) };
        if !turn.change(posted, posted.claimed(completer.claimer)) {
            return None;
        }
        // A flushing process sees the turn claimed, or this load sees the Err state that the flushing process
        // stored before.
        if completer.qp.is_in_error() {
            turn.set_state(posted);
            flush(completer);
            return None;
        }
        reach(Point::TurnClaimed);
        Some(RecvClaim { record: slots.record, slot, posted, index, position, turn: Some(turn), slots })
    }

    /// Claims the RECV in the slot itself, without the turn.
    fn claim_slot(self, claimer: u32) -> Option<RecvClaim<'a>> {
        let Front { slots, slot, index, position, posted } = self;
        if !slot.change(posted, posted.claimed(claimer)) {
            return None;
        }
        reach(Point::SlotClaimed);
        if slots.turn.is_none() {
            slots.advance(position);
        }
        Some(RecvClaim { record: slots.record, slot, posted, index, position, turn: None, slots })
    }
}

/// Names the RECV that a message took. A receipt is two words, so that it is passed and stored word by word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Receipt {
    /// The posted state of the RECV.
    posted: NonZeroU64,
    /// The index of the receive queue, the slot's index from bit `SLOT_AT` on, and `IN_TURN` if the queue has
    /// only one sender.
    place: u64,
}

const SLOT_AT: u32 = 32;
const IN_TURN: u64 = 1 << 63;

impl Receipt {
    /// Makes the receipt for the RECV with this posted state in a slot of receive queue `rq`.
    #[inline(always)]
    fn new((rq, slot): (u32, u32), posted: SlotState, in_turn: bool) -> Receipt {
        const POSTED: NonZeroU64 = NonZeroU64::new(1 << PHASE_AT).expect("a bit");
        let place = u64::from(rq) | u64::from(slot) << SLOT_AT | if in_turn { IN_TURN } else { 0 };
        Receipt { posted: POSTED | posted.0, place }
    }

    /// Index of the receive queue.
    pub(crate) fn rq(&self) -> u32 {
        self.place as u32
    }

    /// Whether completions of the queue are taken in order, because it has only one sender.
    pub(crate) fn is_in_turn(&self) -> bool {
        self.place & IN_TURN != 0
    }

    fn posted(&self) -> SlotState {
        SlotState(self.posted.get())
    }

    fn slot<'a>(&self, segment: &'a Segment) -> Option<(&'a RqRecord, &'a RqSlot)> {
        let record = segment.rq(self.rq() as usize)?;
        let slot = (self.place & !IN_TURN) >> SLOT_AT;
        Some((record, Slots::of(segment, record)?.slot(slot as u32)?))
    }

    /// Whether the owner has taken the RECV's completion. Then the owner's program has the message, or gets
    /// the message from an outstanding poll. Also `true` if the queue was reset or destroyed.
    ///
    /// The owner marks the completion as taken (`pass`, `RqSlot::set_taken`) before its poll returns. So a
    /// sender that sees any effect of the message on the program also sees the completion taken.
    pub(crate) fn is_taken(&self, segment: &Segment) -> bool {
        let Some(record) = segment.rq(self.rq() as usize) else { return true };
        if self.is_in_turn() {
            // Acquire, for the Release in `pass`.
            let polled = record.posted.0.polled.load(Acquire);
            return (polled as u32).wrapping_sub(self.posted().position() as u32) as i32 > 0;
        }
        let state = self.slot(segment).map(|(_, slot)| slot.state());
        state.is_none_or(|state| matches!(state.phase_of(self.posted()), Some(SlotPhase::Free) | None))
    }

    /// Begins to place the payload that the RECV's slot carries, in place of the owner. Only the message's
    /// sender calls this.
    pub(crate) fn begin_placing<'a>(&self, segment: &'a Segment, claimer: u32) -> PlacingStep<'a> {
        let Some((record, slot)) = self.slot(segment) else { return PlacingStep::Over };
        let posted = self.posted();
        let placing = Placing { slot, done: posted.done(), during: posted.placing(claimer) };
        if !slot.change(placing.done, placing.during) {
            return PlacingStep::Over;
        }
        reach(Point::PlacingBegun);
        // SeqCst, after `change`: the owner sees that a sender is placing, or this load sees that the owner
        // has begun to copy (`begin_taking`).
        let taking = record.posted.0.taking.load(SeqCst);
        if taking == posted.0 {
            placing.end(false);
            return PlacingStep::Busy;
        }
        // In a queue with one sender, the slot's state does not show that the completion was taken. In other
        // queues, the owner may have taken the completion since the change.
        if taking == placing.done.0 || self.is_taken(segment) {
            placing.end(false);
            return PlacingStep::Over;
        }
        PlacingStep::Begun(placing)
    }
}

/// Whether a sender may place the payload that a slot carries.
pub(crate) enum PlacingStep<'a> {
    /// The payload is placed, or is no longer needed.
    Over,
    /// The owner is copying the payload.
    Busy,
    /// The sender has to place the payload.
    Begun(Placing<'a>),
}

/// A carried payload that its sender is placing.
pub(crate) struct Placing<'a> {
    slot: &'a RqSlot,
    done: SlotState,
    during: SlotState,
}

impl Placing<'_> {
    /// The RECV's result and the carried payload.
    pub(crate) fn payload(&self) -> (RecvDone, Carried) {
        let done = RecvDone::of(self.slot);
        let mut carried = Carried::none();
        carried.take(self.slot, done.carried.into());
        (done, carried)
    }

    /// Completes the RECV again. If the payload is not placed, the RECV's owner copies it.
    pub(crate) fn end(self, is_placed: bool) {
        // If this sender was stopped, the owner may have stopped waiting for it. The owner may then use the
        // slot for another RECV.
        if is_placed && self.slot.state() == self.during {
            let done = RecvDone { carried: 0, ..RecvDone::of(self.slot) };
            // Release: an owner that loaded the state earlier may load this word now. This owner then sees
            // the payload in place.
            self.slot.words[CARRIED_WORD].store(done.to_words()[CARRIED_WORD], Release);
        }
        reach(Point::PlacingEnds);
        // The change publishes the payload. The change fails if the owner has posted the slot again, after it
        // had taken the completion.
        self.slot.change(self.during, self.done);
    }
}

/// Marks a RECV done again, because its sender exited while it was placing the payload. The owner then copies
/// the payload.
pub(crate) fn abandon_placing(slot: &RqSlot, during: SlotState) {
    slot.change(during, during.done());
}

/// Announces that the owner copies the payload that a completion carries. `false` if the sender is placing
/// the payload: the RECV is not complete then. Only the owner calls this.
pub(crate) fn begin_taking(record: &RqRecord, slot: &RqSlot, posted: SlotState) -> bool {
    // SeqCst, here and below: see `Receipt::begin_placing`.
    record.posted.0.taking.store(posted.0, SeqCst);
    let is_done = SlotState(slot.state.load(SeqCst)).phase_of(posted) == Some(SlotPhase::Done);
    if !is_done {
        record.posted.0.taking.store(0, Relaxed);
    }
    is_done
}

/// Announces the end of the owner's copy. The owner has taken the completion before. Only the owner calls
/// this.
pub(crate) fn end_taking(record: &RqRecord, posted: SlotState) {
    // Release: a sender that sees the end of the copy also sees the completion taken.
    record.posted.0.taking.store(posted.done().0, Release);
}

/// Records that all completions up to the RECV at this position are taken or passed over, if completions are
/// taken in order. Only the owner calls this.
#[inline]
pub(crate) fn pass(record: &RqRecord, position: u64) {
    // Release, for the Acquire in `Receipt::is_taken`. Senders also use the number to count how many
    // completions the CQ has room for. That count needs no order.
    record.posted.0.polled.store(position + 1, Release);
}

/// The result of a RECV.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecvDone {
    pub(crate) qpn: u32,
    pub(crate) generation: u32,
    pub(crate) status: u8,
    pub(crate) opcode: u8,
    pub(crate) byte_len: u32,
    /// The immediate data, in network byte order.
    pub(crate) imm: u32,
    pub(crate) flags: u8,
    /// QP number of the sender (24 bits), and service level of the message (4 bits).
    pub(crate) src_qp: u32,
    pub(crate) sl: u8,
    /// Number of payload bytes that the slot carries.
    pub(crate) carried: u8,
}

const _: () = assert!(CARRIED_BYTES <= u8::MAX as usize);

/// The lowest bit of the service level in the word of `src_qp`.
const SL_AT: u32 = 24;

impl RecvDone {
    /// The result of a SEND to this QP without immediate data.
    #[inline(always)]
    pub(crate) fn of_send(qpn: u32, generation: u32) -> RecvDone {
        let (status, opcode) = (WcStatus::Success.to_c() as u8, WcOpcode::Recv.to_c() as u8);
        RecvDone { qpn, generation, status, opcode, ..RecvDone::default() }
    }

    /// The result of a RECV that failed with this status.
    pub(crate) fn failed(qpn: u32, generation: u32, status: WcStatus) -> RecvDone {
        RecvDone { status: status.to_c() as u8, ..RecvDone::of_send(qpn, generation) }
    }

    #[inline]
    fn to_words(self) -> [u64; DONE_WORDS] {
        let bytes = [self.flags, self.status, self.opcode, self.carried];
        [
            u64::from(self.qpn) | u64::from(self.generation) << 32,
            u64::from(self.byte_len) | u64::from(self.imm) << 32,
            u64::from(self.src_qp) | u64::from(self.sl) << SL_AT | u64::from(u32::from_le_bytes(bytes)) << 32,
        ]
    }

    /// Writes the result into a claimed slot, or replaces the result in a done slot of this process.
    #[inline(always)]
    pub(crate) fn write(self, slot: &RqSlot) {
        // Relaxed: the state publishes the words of a claimed slot. If a sender wants to place the payload of
        // a done slot, it finds no payload.
        for (to, from) in slot.words.iter().zip(self.to_words()) {
            to.store(from, Relaxed);
        }
    }

    /// The result in a slot that is done.
    pub(crate) fn of(slot: &RqSlot) -> RecvDone {
        // Relaxed: the state, which was loaded before, publishes the words. Acquire: see `Placing::end`.
        let [first, second] = std::array::from_fn(|n| slot.words[n].load(Relaxed));
        let third = slot.words[CARRIED_WORD].load(Acquire);
        let [flags, status, opcode, carried] = ((third >> 32) as u32).to_le_bytes();
        RecvDone {
            qpn: first as u32,
            generation: (first >> 32) as u32,
            byte_len: second as u32,
            imm: (second >> 32) as u32,
            src_qp: third as u32 & ((1 << SL_AT) - 1),
            sl: (third >> SL_AT) as u8 & 0xf,
            carried: carried.min(CARRIED_BYTES as u8),
            flags,
            status,
            opcode,
        }
    }

    /// The payload bytes that the completion in a slot carries.
    #[inline(always)]
    pub(crate) fn carried_in(slot: &RqSlot) -> u8 {
        // Acquire: see `Placing::end`.
        (slot.words[CARRIED_WORD].load(Acquire) >> (u64::BITS - u8::BITS)) as u8
    }

    /// Whether the completion is solicited or an error.
    pub(crate) fn wakes(&self) -> bool {
        self.flags & SOLICITED != 0 || self.status != 0
    }
}

/// The payload that a slot carries.
pub(crate) struct Carried {
    /// The words that hold the first `len` bytes are initialised.
    words: [MaybeUninit<u64>; CARRIED_WORDS],
    len: usize,
}

impl Carried {
    /// No payload yet. A function, because a constant would be copied with all its uninitialised words.
    #[inline(always)]
    pub(crate) fn none() -> Carried {
        Carried { words: [MaybeUninit::uninit(); CARRIED_WORDS], len: 0 }
    }

    /// Adds a header, then pieces of this process's memory, at most [`CARRIED_BYTES`] together. The bytes are
    /// added in place, because a copy of the whole buffer would cost more than a copy of the payload.
    #[inline(always)]
    pub(crate) fn gather(&mut self, header: &[u8], pieces: &[Piece]) {
        if !header.is_empty() {
            self.add(Piece { addr: header.as_ptr() as u64, len: header.len() });
        }
        for piece in pieces {
            self.add(*piece);
        }
    }

    #[inline(always)]
    fn add(&mut self, piece: Piece) {
        let part = piece.len.min(CARRIED_BYTES - self.len);
        let last = (self.len + part).div_ceil(8);
        if last > self.len.div_ceil(8) {
            // The payload may not fill the last word, so the word is initialised first.
            self.words[last - 1].write(0);
        }
        // SAFETY: `part` keeps the total within CARRIED_BYTES, and the piece was checked against its region.
        unsafe {
            let to = self.words.as_mut_ptr().cast::<u8>().add(self.len);
            copy_short(piece.addr as *const u8, to, part);
        }
        self.len += part;
    }

    /// Copies the payload that a slot carries. A peer that writes the slot afterwards cannot change the
    /// checked copy.
    #[inline(always)]
    pub(crate) fn take(&mut self, slot: &RqSlot, len: usize) {
        let words = len.min(CARRIED_BYTES).div_ceil(8);
        for (to, from) in self.words[..words].iter_mut().zip(&slot.words[DONE_WORDS..]) {
            to.write(from.load(Relaxed));
        }
        self.len = len.min(CARRIED_BYTES);
    }

    #[inline(always)]
    fn words(&self) -> impl Iterator<Item = u64> {
        // SAFETY: every word that holds a byte of the payload is initialised.
        self.words[..self.len.div_ceil(8)].iter().map(|word| unsafe { word.assume_init() })
    }

    #[inline]
    pub(crate) fn as_piece(&self) -> Piece {
        Piece { addr: self.words.as_ptr() as u64, len: self.len }
    }
}

/// The process that completes RECVs of a QP, and the records that it uses.
#[derive(Clone, Copy)]
pub(crate) struct Completer<'a> {
    pub(crate) owner: Owner<'a>,
    pub(crate) segment: &'a Segment,
    pub(crate) qp: &'a QpRecord,
    pub(crate) qpn: u32,
    /// Index of the SRQ that has the RECVs, if the message names an SRQ (XRC).
    pub(crate) srq: Option<u32>,
    /// Claimer number of the process that completes.
    pub(crate) claimer: u32,
}

impl Completer<'_> {
    /// Completes a claimed RECV, and notifies its CQ. `false` if the CQ had no room for the completion.
    #[inline(always)]
    pub(crate) fn complete(&self, claim: &RecvClaim<'_>, done: RecvDone, carried: &Carried) -> bool {
        let done = RecvDone { carried: carried.len as u8, ..done };
        done.write(claim.slot);
        // Relaxed: the state publishes the words.
        for (to, from) in claim.slot.words[DONE_WORDS..].iter().zip(carried.words()) {
            to.store(from, Relaxed);
        }
        reach(Point::Filled);
        // SeqCst, after the claim: the owner stores the end of the lane first, and then looks for claims.
        let lane = self.srq.is_none() && self.qp.lane.load(SeqCst) != 0;
        claim.slot.set_state(claim.posted.done());
        reach(Point::Done);
        if let Some(turn) = claim.turn {
            turn.set_state(claim.posted.next());
            if let Some(next) = claim.slots.slot(claim.index.wrapping_add(1)) {
                expect_write(next);
            }
        }
        reach(Point::TurnPassed);
        let Some((cq, record)) = self.cq(claim.record) else { return false };
        if !lane {
            let what = completions::RecvNotice::new(self.rq(), claim.position, claim.index);
            if !completions::push(self.segment, record, what) {
                completions::overrun(self.owner, record, cq);
                return false;
            }
        }
        let is_there = |_| !self.receipt(claim).is_taken(self.segment);
        completions::wake(self.owner, record, cq, done.wakes(), is_there);
        true
    }

    /// Returns a claimed RECV to its queue, because its sender cannot send the message.
    #[cold]
    pub(crate) fn give_back(&self, claim: RecvClaim<'_>) {
        let Some(turn) = claim.turn else {
            // The head has passed the slot. The owner finds the RECV, and posts it again behind all other
            // RECVs.
            return claim.slot.set_state(claim.posted);
        };
        // `change` is SeqCst, for the reason given in `Front::claim`. Either a flushing process sees the RECV
        // unclaimed, or the load below sees the Err state that the flushing process has stored. No other
        // process changes a claimed turn.
        turn.change(claim.posted.claimed(self.claimer), claim.posted);
        if self.qp.is_in_error() {
            flush(self);
        }
    }

    /// Index and record of the CQ for RECVs of this queue. Relaxed, here and in [`Completer::rq`]: the
    /// records are unchanged since the QP was found to accept messages.
    fn cq(&self, rq: &RqRecord) -> Option<(u32, &CqRecord)> {
        let cq = self.srq.map_or(&self.qp.cq, |_| &rq.cq).load(Relaxed);
        Some((cq, self.segment.cq(cq as usize)?))
    }

    /// Index of the receive queue.
    #[inline(always)]
    pub(crate) fn rq(&self) -> u32 {
        self.srq.unwrap_or_else(|| self.qp.rq.load(Relaxed))
    }

    /// The receipt of the message that has taken this RECV.
    #[inline(always)]
    pub(crate) fn receipt(&self, claim: &RecvClaim<'_>) -> Receipt {
        Receipt::new((self.rq(), claim.index), claim.posted, claim.slots.turn.is_some())
    }

    /// Notifies the program of a RECV that is complete again. The program may have polled in vain while the
    /// RECV was not complete.
    pub(crate) fn wake_again(&self, receipt: &Receipt, done: &RecvDone) {
        let found = self.segment.rq(receipt.rq() as usize).and_then(|rq| self.cq(rq));
        if let Some((cq, record)) = found {
            let is_there = |_| !receipt.is_taken(self.segment);
            completions::wake(self.owner, record, cq, done.wakes(), is_there);
        }
    }
}

/// Completes all RECVs of a queue with `WrFlushErr`, because its QP is in Err. The caller is the owner, or a
/// peer that found the QP in Err or put it into Err. RECVs of an SRQ stay.
pub(crate) fn flush(completer: &Completer<'_>) {
    let Completer { segment, qp, qpn, claimer, .. } = *completer;
    let Some(record) = segment.rq(qp.rq.load(Relaxed) as usize) else { return };
    if qp.uses_srq.load(Relaxed) != 0 {
        return;
    }
    // Acquire: if the queue is reset meanwhile, no slot that is loaded below has this generation.
    let generation = record.generation.load(Acquire);
    let Some(slots) = Slots::of(segment, record) else { return };
    let done = RecvDone::failed(qpn, qp.generation.load(Relaxed), WcStatus::WrFlushErr);
    let mut from = slots.turn_position();
    // The loop is bounded. If the owner continues to post, the owner flushes these RECVs itself.
    for _ in 0..2 * u64::from(slots.capacity) {
        let Some(front) = slots.unflushed(generation, &mut from) else { return };
        reach(Point::Flushing);
        if let Some(claim) = front.claim_slot(claimer)
            && !completer.complete(&claim, done, &Carried::none())
        {
            return;
        }
    }
}

/// Raises the SRQ's limit event after a RECV was taken, if the event is armed and due.
pub(crate) fn check_limit(owner: Owner<'_>, record: &RqRecord) {
    // Relaxed, here and below: these numbers order nothing. An owner that arms the event also checks whether
    // the event is due.
    let limit = record.limit.load(Relaxed);
    if limit == 0 {
        return;
    }
    let posted = &record.posted.0.tail;
    let left = posted.load(Relaxed).saturating_sub(record.taken.0.head.load(Relaxed));
    if left < u64::from(limit) {
        limit_event(owner, record);
    }
}

pub(crate) fn limit_event(owner: Owner<'_>, record: &RqRecord) {
    // Relaxed: the swap only chooses which process notifies. The event goes through a pipe.
    if record.limit.swap(0, Relaxed) != 0 {
        let event = EventRecord {
            event_type: EVENT_SRQ_LIMIT_REACHED,
            index: record.srq.load(Relaxed),
            generation: record.generation.load(Relaxed),
        };
        tell(owner, record.async_fd.load(Relaxed), event);
    }
}
