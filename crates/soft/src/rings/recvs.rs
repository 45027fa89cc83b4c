//! The slots of a receive queue: posted RECVs, and what comes of them.
//!
//! Nobody waits for anybody here, as whoever is waited for may be stopped. The owner posts a slot;
//! who has a message for it claims it by a compare-and-swap that names the claimer, fills it, and
//! marks it done. What a claimer that ended has left is put right by the owner.
//!
//! Where only one sender takes RECVs it claims them elsewhere, in its [`SenderTurn`], so that the cache
//! line which the owner watches is written once for a message. Who flushes the queue claims slots,
//! but not the one whose turn it is: the sender sees that the QP is in Err, or is seen to be there.

use super::completions;
use crate::fabric::peer::Owner;
use crate::fabric::pipe::tell;
use crate::memory::records::*;
use crate::memory::segment::Segment;
use crate::memory::transfer::{Piece, copy_short};
use crate::point::{Point, reach};
use crate::sync::atomics::{AtomicU64, Ordering::*, fence};
use doorbell_abi::CEnum;
use doorbell_launch::limits::OWN;
use doorbell_verbs::{Sge, WcOpcode, WcStatus};
use std::mem::MaybeUninit;

/// `IBV_EVENT_SRQ_LIMIT_REACHED`.
const EVENT_SRQ_LIMIT_REACHED: u32 = 15;
/// Bit of a completion's flags, beside those of verbs.h: the sender asked for a solicited event.
pub(crate) const SOLICITED: u8 = 1 << 7;
/// Words of a completion, and payload bytes that it can carry behind them.
const DONE_WORDS: usize = 3;
pub(crate) const CARRIED_BYTES: usize = (SLOT_WORDS - DONE_WORDS) * 8;
const CARRIED_WORDS: usize = SLOT_WORDS - DONE_WORDS;

/// What a slot is: its RECV's position in the queue, counted in 32 bits, and the queue's generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotState(u64);

/// What has become of a slot's RECV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SlotPhase {
    /// There is none.
    Free,
    /// It may be taken.
    Posted,
    /// A message is being put there, by the process with this number of a claimer.
    Claimed(u32),
    /// It is complete.
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

    fn done(self) -> SlotState {
        SlotState(self.without_phase() | 3 << PHASE_AT)
    }

    /// As it stands in a slot.
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    /// Position and generation.
    #[inline]
    fn without_phase(self) -> u64 {
        let claimer = ((1 << CLAIMER_BITS) - 1) << CLAIMER_AT;
        self.0 & !claimer & !(3 << PHASE_AT)
    }

    #[inline]
    pub(crate) fn phase(self) -> SlotPhase {
        match self.0 >> PHASE_AT {
            0 => SlotPhase::Free,
            1 => SlotPhase::Posted,
            2 => SlotPhase::Claimed((self.0 >> CLAIMER_AT) as u32 & ((1 << CLAIMER_BITS) - 1)),
            _ => SlotPhase::Done,
        }
    }

    /// The position that it is of, as far as it is counted.
    fn position(self) -> u64 {
        self.0 & ((1 << POSITION_BITS) - 1)
    }

    /// The same of the RECV behind it.
    pub(crate) fn next(self) -> SlotState {
        let position = (self.position() as u32).wrapping_add(1);
        SlotState(self.without_phase() & !((1 << POSITION_BITS) - 1) | u64::from(position) | 1 << PHASE_AT)
    }

    /// The phase of the RECV that was posted as this; `None` where the slot is no longer its.
    #[inline]
    pub(crate) fn phase_of(self, posted: SlotState) -> Option<SlotPhase> {
        (self.without_phase() == posted.without_phase()).then(|| self.phase())
    }
}

impl RqSlot {
    pub(crate) fn state(&self) -> SlotState {
        // Acquire: sees the words that were written before the state was.
        SlotState(self.state.load(Acquire))
    }

    pub(crate) fn set_state(&self, state: SlotState) {
        // Release: publishes the slot's words.
        self.state.store(state.0, Release);
    }

    /// Changes the state, unless somebody else has.
    pub(crate) fn change(&self, from: SlotState, to: SlotState) -> bool {
        // SeqCst: a sender that claims the slot loads whether the CQ has a lane behind this, and `end_lane`
        // looks for claims behind its store. One of the two sees the other. Relaxed on failure: the caller
        // reads nothing then.
        self.state.compare_exchange(from.0, to.0, SeqCst, Relaxed).is_ok()
    }

    /// For the owner, which has called `end_lane`: whether no sender has claimed the RECV that was posted
    /// here.
    pub(crate) fn is_untaken(&self, turn: Option<&SenderTurn>, position: u64, generation: u32) -> bool {
        let posted = SlotState::posted(position, generation);
        // The turn first: where it has passed on since it was claimed, the slot is seen done.
        let is_claimed = turn.is_some_and(|turn| turn.is_at(position));
        !is_claimed && self.state().phase_of(posted) == Some(SlotPhase::Posted)
    }
}

/// Asks for a cache line, as it will be written soon.
#[inline]
pub(crate) fn expect_write<T>(line: &T) {
    // SAFETY: a hint, which does nothing to memory.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
    }
}

impl SenderTurn {
    pub(crate) fn state(&self) -> SlotState {
        // Acquire: where the turn has passed on, the slot before it is seen done.
        SlotState(self.state.load(Acquire))
    }

    pub(crate) fn set_state(&self, state: SlotState) {
        // Release: publishes the slot that is done.
        self.state.store(state.0, Release);
    }

    /// Changes the state, unless somebody else has.
    pub(crate) fn change(&self, from: SlotState, to: SlotState) -> bool {
        // SeqCst: a sender that claims its turn loads behind this whether the QP is in Err, and whether the
        // CQ has a lane. A process that flushes, or ends the lane, stores that and then looks at the turn.
        // One of the two sees the other. Relaxed on failure: the caller reads nothing then.
        self.state.compare_exchange(from.0, to.0, SeqCst, Relaxed).is_ok()
    }

    /// Whether the sender is filling the RECV at this position, or has begun to.
    pub(crate) fn is_at(&self, position: u64) -> bool {
        // SeqCst, as in `change`.
        let state = SlotState(self.state.load(SeqCst));
        matches!(state.phase(), SlotPhase::Claimed(_)) && state.position() == u64::from(position as u32)
    }
}

/// Bytes between the slots of a queue.
pub(crate) fn stride(max_sge: u32) -> u64 {
    let words = 2 + 2 * u64::from(max_sge);
    (words * 8).max(size_of::<RqSlot>() as u64).next_multiple_of(64)
}

/// The slots of a queue, as its record tells them.
#[derive(Clone, Copy)]
pub(crate) struct Slots<'a> {
    segment: &'a Segment,
    pub(crate) record: &'a RqRecord,
    capacity: u32,
    max_sge: u32,
    first: u64,
    /// Where the ring is that orders the slots, if there is no turn.
    order: u64,
    /// That of the only sender, where there are not several.
    turn: Option<&'a SenderTurn>,
}

/// Why a queue has no RECV for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRecv {
    /// None is posted.
    Empty,
    /// Its records make no sense, or what a sender that has ended was doing has still to be put right.
    Nonsense,
}

/// The oldest RECV that nobody has taken, as it was seen.
#[derive(Clone, Copy)]
pub(crate) struct Front<'a> {
    slots: &'a Slots<'a>,
    slot: &'a RqSlot,
    index: u32,
    pub(crate) position: u64,
    posted: SlotState,
}

/// A RECV that one has taken.
pub(crate) struct RecvClaim<'a> {
    pub(crate) record: &'a RqRecord,
    slot: &'a RqSlot,
    posted: SlotState,
    index: u32,
    position: u64,
    /// Where it was claimed, if not in the slot.
    turn: Option<&'a SenderTurn>,
    slots: &'a Slots<'a>,
}

impl<'a> Slots<'a> {
    /// Those of a queue; `None` where there is none.
    #[inline(always)]
    pub(crate) fn of(segment: &'a Segment, record: &'a RqRecord) -> Option<Slots<'a>> {
        // Acquire: the owner stores the capacity last of all when it shows the queue. The loads below are
        // Relaxed behind it.
        let capacity = record.capacity.load(Acquire);
        // Who looks for a RECV goes by all slots at most: their number must not be whatever somebody wrote
        // there.
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

    /// Those of a queue that one sender alone takes RECVs from; `None` where it is none.
    #[inline(always)]
    pub(crate) fn of_one_sender(segment: &'a Segment, record: &'a RqRecord) -> Option<Slots<'a>> {
        Slots::of(segment, record).filter(|slots| slots.turn.is_some())
    }

    /// The slot with this index, where the numbers make sense.
    #[inline]
    pub(crate) fn slot(&self, index: u32) -> Option<&'a RqSlot> {
        let at = u64::from(index & (self.capacity - 1)) * stride(self.max_sge);
        self.segment.in_heap(self.first.checked_add(at)?)
    }

    /// Which slot the RECV at a position is in; `None` where none was posted there yet.
    fn index_of(&self, position: u64) -> Result<Option<u32>, NoRecv> {
        let at = position & u64::from(self.capacity - 1);
        if self.turn.is_some() {
            return Ok(Some(at as u32));
        }
        let cell: Option<&AtomicU64> = self.order.checked_add(at * 8).and_then(|at| self.segment.in_heap(at));
        // Acquire: the owner has shown the slot before it names it here.
        let named = cell.ok_or(NoRecv::Nonsense)?.load(Acquire);
        Ok(order_index(named, position))
    }

    /// The oldest RECV that nobody has taken, in a queue that is still of this generation.
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
        // Each round helps one claimer that has not come that far itself, of which there are no more than
        // slots.
        for _ in 0..=2 * self.capacity {
            // Acquire: a sender that has advanced the head saw the slot before it claimed.
            let position = head.load(Acquire);
            let posted = SlotState::posted(position, generation);
            if let Some(index) = self.index_of(position)? {
                let slot = self.slot(index).ok_or(NoRecv::Nonsense)?;
                match slot.state().phase_of(posted) {
                    Some(SlotPhase::Posted) => {
                        return Ok(Front { slots: self, slot, index, position, posted });
                    }
                    Some(SlotPhase::Claimed(_) | SlotPhase::Done) => {
                        self.advance(position);
                        continue;
                    }
                    Some(SlotPhase::Free) | None => {}
                }
            }
            // Acquire: as above.
            if head.load(Acquire) == position {
                return Err(NoRecv::Empty);
            }
        }
        Err(NoRecv::Nonsense)
    }

    fn advance(&self, from: u64) {
        let head = &self.record.taken.0.head;
        // AcqRel: passes on that the slots before it are claimed.
        let _ = head.compare_exchange(from, from.wrapping_add(1), AcqRel, Relaxed);
    }

    /// The oldest RECV, for who flushes the queue, from this position on; not the one that the only sender
    /// fills.
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

    /// Where the only sender is.
    fn turn_position(&self) -> u64 {
        self.turn.map_or(0, |turn| turn.state().position())
    }

    /// Whether completions that are found in the slots are as many as their CQ may hold, before the one of
    /// this position.
    #[inline(always)]
    pub(crate) fn is_full(&self, position: u64, cqe: u32) -> bool {
        // Not where it is behind: the queue was reset meanwhile.
        let full =
            |polled: u64| i64::from((position as u32).wrapping_sub(polled as u32) as i32) >= i64::from(cqe);
        let seen = &self.record.taken.0.polled_seen;
        // Relaxed, here and below: numbers, which say nothing of what is in the slots. An older one only
        // leads to a look at `polled`, and the state of a slot says whether it is free.
        if !full(seen.load(Relaxed)) {
            return false;
        }
        let polled = self.record.posted.0.polled.load(Relaxed);
        seen.store(polled, Relaxed);
        full(polled)
    }
}

/// For the owner: shows senders the RECV that is posted in a slot.
#[inline]
pub(crate) fn show_posted(
    (segment, record): (&Segment, &RqRecord),
    slot: &RqSlot,
    (position, generation): (u64, u32),
    sges: &[Sge],
) {
    write_posted(segment, slot, sges);
    reach(Point::RecvWritten);
    // Relaxed: a number. Before the RECV may be taken: whoever takes it asks how many are left, and sees this
    // by the slot's state.
    record.posted.0.tail.store(position + 1, Relaxed);
    slot.set_state(SlotState::posted(position, generation));
}

/// For the owner: names the slot of the RECV at a position in the ring that orders slots.
pub(crate) fn order_slot(cell: &AtomicU64, position: u64, index: u32) {
    // Release: a sender that is led to the slot sees it posted.
    cell.store(order_cell(position, index), Release);
}

/// For the owner: from now on senders tell the CQ of the RECVs that they claim. Those claimed before are seen
/// behind this.
pub(crate) fn end_lane(qp: &QpRecord) {
    qp.lane.store(0, SeqCst);
    // SeqCst: the loads of slots' states behind this, which are Acquire, are part of the one order that
    // `RqSlot::change` is in.
    fence(SeqCst);
}

/// What a ring that orders slots says of one.
fn order_cell(position: u64, index: u32) -> u64 {
    (position.wrapping_add(1) << 16) | u64::from(index as u16)
}

fn order_index(cell: u64, position: u64) -> Option<u32> {
    (cell >> 16 == position.wrapping_add(1) & (u64::MAX >> 16)).then_some(cell as u32 & 0xffff)
}

/// Writes what is posted into a slot. Relaxed: the slot's state publishes it.
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

/// A word of a slot, or of what follows it.
fn word_of<'a>(segment: &'a Segment, slot: &'a RqSlot, word: usize) -> Option<&'a AtomicU64> {
    if let Some(word) = slot.words.get(word) {
        return Some(word);
    }
    let at = std::ptr::from_ref(slot) as u64 - segment.base() as u64;
    segment.in_heap(at + 8 * (1 + word as u64))
}

impl<'a> Front<'a> {
    /// How many SGEs it has, and for how many bytes.
    #[inline(always)]
    pub(crate) fn room(&self) -> (u32, u32) {
        // Relaxed, as in `sge`: the slot's state was loaded before, and is looked at again by `claim` or
        // `is_posted`.
        let word = self.slot.words[0].load(Relaxed);
        ((word as u32).min(self.slots.max_sge), (word >> 32) as u32)
    }

    /// SGE `n`.
    #[inline(always)]
    pub(crate) fn sge(&self, n: u32) -> Option<Sge> {
        let word = |n: usize| word_of(self.slots.segment, self.slot, n).map(|word| word.load(Relaxed));
        let (addr, halves) = (word(1 + 2 * n as usize)?, word(2 + 2 * n as usize)?);
        Some(Sge { addr, length: halves as u32, lkey: (halves >> 32) as u32 })
    }

    /// Whether its completion is one that a CQ would have to look for here, and has no room for.
    #[inline(always)]
    pub(crate) fn is_beyond_lane(&self, qp: &QpRecord, segment: &Segment) -> bool {
        // Relaxed: a lane that begins or ends meanwhile has room for what is there.
        qp.lane.load(Relaxed) != 0
            && segment
                .cq(qp.cq.load(Relaxed) as usize)
                .is_none_or(|cq| self.slots.is_full(self.position, cq.cqe.load(Relaxed)))
    }

    /// Whether nobody has taken it yet, so that all that was read of it was posted.
    #[inline]
    pub(crate) fn is_posted(&self) -> bool {
        // Acquire: the words were loaded before the state is.
        fence(Acquire);
        self.slot.state() == self.posted
    }

    /// Takes it for this claimer; `None` where somebody else has, or the owner has taken it back. What was
    /// read of it before was posted if this succeeds.
    #[inline(always)]
    pub(crate) fn claim(self, completer: &Completer<'_>) -> Option<RecvClaim<'a>> {
        let Front { slots, slot, index, position, posted } = self;
        let Some(turn) = slots.turn else { return self.claim_slot(completer.claimer) };
        if !turn.change(posted, posted.claimed(completer.claimer)) {
            return None;
        }
        // Who flushes sees the turn taken, or this sees the state that it has set before.
        if completer.qp.is_in_error() {
            turn.set_state(posted);
            flush(completer);
            return None;
        }
        reach(Point::TurnClaimed);
        Some(RecvClaim { record: slots.record, slot, posted, index, position, turn: Some(turn), slots })
    }

    /// The same in the slot itself.
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

/// What came of a RECV.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecvDone {
    pub(crate) qpn: u32,
    pub(crate) generation: u32,
    pub(crate) status: u8,
    pub(crate) opcode: u8,
    pub(crate) byte_len: u32,
    /// In network byte order.
    pub(crate) imm: u32,
    pub(crate) flags: u8,
    pub(crate) src_qp: u32,
    /// Payload bytes that go along.
    pub(crate) carried: u8,
}

const _: () = assert!(CARRIED_BYTES <= u8::MAX as usize);

impl RecvDone {
    /// A SEND to this QP, without an immediate.
    #[inline(always)]
    pub(crate) fn of_send(qpn: u32, generation: u32) -> RecvDone {
        let (status, opcode) = (WcStatus::Success.to_c() as u8, WcOpcode::Recv.to_c() as u8);
        RecvDone { qpn, generation, status, opcode, ..RecvDone::default() }
    }

    /// An error.
    pub(crate) fn failed(qpn: u32, generation: u32, status: WcStatus) -> RecvDone {
        RecvDone { status: status.to_c() as u8, ..RecvDone::of_send(qpn, generation) }
    }

    #[inline]
    fn to_words(self) -> [u64; DONE_WORDS] {
        let bytes = [self.flags, self.status, self.opcode, self.carried];
        [
            u64::from(self.qpn) | u64::from(self.generation) << 32,
            u64::from(self.byte_len) | u64::from(self.imm) << 32,
            u64::from(self.src_qp) | u64::from(u32::from_le_bytes(bytes)) << 32,
        ]
    }

    /// What a slot says that is done.
    pub(crate) fn of(slot: &RqSlot) -> RecvDone {
        // Relaxed: the state, which was loaded before, publishes the words.
        let [first, second, third] = std::array::from_fn(|n| slot.words[n].load(Relaxed));
        let [flags, status, opcode, carried] = ((third >> 32) as u32).to_le_bytes();
        RecvDone {
            qpn: first as u32,
            generation: (first >> 32) as u32,
            byte_len: second as u32,
            imm: (second >> 32) as u32,
            src_qp: third as u32,
            carried: carried.min(CARRIED_BYTES as u8),
            flags,
            status,
            opcode,
        }
    }

    fn wakes(&self) -> bool {
        self.flags & SOLICITED != 0 || self.status != 0
    }
}

/// Payload that goes along with a completion.
pub(crate) struct Carried {
    /// Those of the first `len` bytes are set.
    words: [MaybeUninit<u64>; CARRIED_WORDS],
    len: usize,
}

impl Carried {
    /// Nothing yet. A function, as a constant would be copied, words that are not set and all.
    #[inline(always)]
    pub(crate) fn none() -> Carried {
        Carried { words: [MaybeUninit::uninit(); CARRIED_WORDS], len: 0 }
    }

    /// Adds a header, then pieces of this process's memory: at most [`CARRIED_BYTES`] together. In place, as
    /// a copy of all there is room for would cost more than what is there.
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
            // Not all of its bytes need be of the payload.
            self.words[last - 1].write(0);
        }
        // SAFETY: at most CARRIED_BYTES in all; the piece was checked against its region.
        unsafe {
            let to = self.words.as_mut_ptr().cast::<u8>().add(self.len);
            copy_short(piece.addr as *const u8, to, part);
        }
        self.len += part;
    }

    /// Takes over what a slot carries: whoever writes it now cannot change what is checked.
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
        // SAFETY: all words are set of which a byte is.
        self.words[..self.len.div_ceil(8)].iter().map(|word| unsafe { word.assume_init() })
    }

    #[inline]
    pub(crate) fn as_piece(&self) -> Piece {
        Piece { addr: self.words.as_ptr() as u64, len: self.len }
    }
}

/// Who completes RECVs of a QP, and where.
#[derive(Clone, Copy)]
pub(crate) struct Completer<'a> {
    pub(crate) owner: Owner<'a>,
    pub(crate) segment: &'a Segment,
    pub(crate) qp: &'a QpRecord,
    pub(crate) qpn: u32,
    /// Index of the SRQ that the RECVs are of, where the message names it and not the QP: XRC.
    pub(crate) srq: Option<u32>,
    /// Who does it.
    pub(crate) claimer: u32,
}

impl Completer<'_> {
    /// Completes a RECV; `false` where its CQ could not take that.
    #[inline(always)]
    pub(crate) fn complete(&self, claim: &RecvClaim<'_>, done: RecvDone, carried: &Carried) -> bool {
        let done = RecvDone { carried: carried.len as u8, ..done };
        // Relaxed: the state publishes the words.
        for (to, from) in claim.slot.words.iter().zip(done.to_words()) {
            to.store(from, Relaxed);
        }
        for (to, from) in claim.slot.words[DONE_WORDS..].iter().zip(carried.words()) {
            to.store(from, Relaxed);
        }
        reach(Point::Filled);
        // SeqCst, behind the claim: who ends a lane does that before looking for what is claimed.
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
        // Relaxed, here and below: the records are as they were when the QP was found to take what comes.
        let cq = self.srq.map_or(&self.qp.cq, |_| &claim.record.cq).load(Relaxed);
        let Some(record) = self.segment.cq(cq as usize) else { return false };
        if !lane {
            let rq = self.srq.unwrap_or_else(|| self.qp.rq.load(Relaxed));
            let what = completions::RecvNotice::new(rq, claim.position, claim.index);
            if !completions::push(self.segment, record, what) {
                completions::overrun(self.owner, record, cq);
                return false;
            }
        }
        completions::wake(self.owner, record, cq, done.wakes());
        true
    }
}

/// Completes all RECVs of a queue with `WrFlushErr`: its QP is in Err. Done by the owner or by the
/// peer whose request put it there.
pub(crate) fn flush(completer: &Completer<'_>) {
    let Completer { segment, qp, qpn, claimer, .. } = *completer;
    let Some(record) = segment.rq(qp.rq.load(Relaxed) as usize) else { return };
    if qp.uses_srq.load(Relaxed) != 0 {
        return;
    }
    // Acquire: if the queue is reset meanwhile, no slot that is seen below is of this generation.
    let generation = record.generation.load(Acquire);
    let Some(slots) = Slots::of(segment, record) else { return };
    let done = RecvDone::failed(qpn, qp.generation.load(Relaxed), WcStatus::WrFlushErr);
    let mut from = slots.turn_position();
    // Where the owner goes on posting it flushes what it posts.
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

/// After a RECV was taken from an SRQ: its limit event, where it is armed and due.
pub(crate) fn check_limit(owner: Owner<'_>, record: &RqRecord) {
    // Relaxed, here and below: numbers. An owner that arms the limit looks by itself whether it is due.
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
    // Relaxed: chooses who tells, and the event goes through a pipe.
    if record.limit.swap(0, Relaxed) != 0 {
        let event = EventRecord {
            event_type: EVENT_SRQ_LIMIT_REACHED,
            index: record.srq.load(Relaxed),
            generation: record.generation.load(Relaxed),
        };
        tell(owner, record.async_fd.load(Relaxed), event);
    }
}
