//! The ring of a CQ, which lists complete RECVs.
//!
//! Terms:
//! - A *notice* names a complete RECV. The RECV's result is in its slot of the receive queue.
//! - A *cell* of the ring is one word, which holds a notice.
//! - A *producer* is a process that completes a RECV and puts its notice into the ring. It is usually the
//!   process of the message's sender.
//! - The *owner* is the process of the CQ. It takes notices from the ring.
//! - The *lane* is a receive queue that the CQ polls itself. RECVs of the lane need no notice.
//!
//! A producer writes a cell by one compare-and-swap. So no cell is ever half written, and no process waits
//! for another process.

use crate::fabric::peer::Owner;
use crate::fabric::pipe::tell;
use crate::memory::records::*;
use crate::memory::segment::Segment;
use crate::point::{Point, reach};
use crate::sync::atomics::{AtomicU64, Ordering::*, fence};

/// `IBV_EVENT_CQ_ERR`.
const EVENT_CQ_ERR: u32 = 0;

/// The kind of completion that the program waits for, in the lower 2 bits of `CqRecord::armed`. The other
/// bits count the requests for a notification. A process may be suspended while it notifies the program, and
/// the program may ask again meanwhile. Then the count changes. So the compare-and-swap of the suspended
/// process fails when this process resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Armed {
    /// No completion.
    Not = 0,
    /// The next completion that is solicited or an error.
    Solicited = 1,
    /// The next completion.
    Next = 2,
    /// A process has begun to notify the program, so other processes do not. If that process stops, the owner
    /// notifies the program (`wake_late`).
    Told = 3,
}

const ARMED: u32 = 3;

impl Armed {
    /// The kind of completion that a record's word asks for.
    fn of(word: u32) -> Armed {
        match word & ARMED {
            0 => Armed::Not,
            1 => Armed::Solicited,
            2 => Armed::Next,
            _ => Armed::Told,
        }
    }
}

/// The notification that the program has asked for. Relaxed: the result is a hint.
pub(crate) fn armed(record: &CqRecord) -> Armed {
    Armed::of(record.armed.load(Relaxed))
}

/// Arms a notification for the program. An earlier request for any completion stays in force, even if the
/// program now asks only for a solicited completion (IB specification vol. 1, 11.4.2.2). `holds` tells
/// whether the CQ holds a completion of the armed kind. If it does, the program is notified at once, as by a
/// ConnectX.
pub(crate) fn arm(record: &CqRecord, index: u32, which: Armed, holds: impl FnOnce(Armed) -> bool) {
    let asked = |word: u32| {
        let before = if word & ARMED == Armed::Told as u32 { 0 } else { word & ARMED };
        (word & !ARMED).wrapping_add(ARMED + 1) | before.max(which as u32)
    };
    // Release, for the Acquire in `wake`. Relaxed on failure: the word is loaded again.
    let before = record.armed.fetch_update(Release, Relaxed, |word| Some(asked(word)));
    let word = asked(before.unwrap_or_else(|word| word));
    // SeqCst, as in `wake`: a producer sees that it has to notify, or `holds` sees the completion.
    fence(SeqCst);
    if holds(Armed::of(word)) {
        tell_owner(record, index, word);
    }
}

/// Notifies this process's own program and disarms, if the record's word is still `word`.
fn tell_owner(record: &CqRecord, index: u32, word: u32) {
    // Relaxed: the word publishes nothing. The event goes through a pipe.
    if record.armed.compare_exchange(word, word & !ARMED, Relaxed, Relaxed).is_ok() {
        let generation = record.generation.load(Relaxed);
        tell(Owner::This, record.channel_fd.load(Relaxed), EventRecord { event_type: 0, index, generation });
    }
}

/// Names a RECV that is complete: its queue, the lower bits of its position, and its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecvNotice(u64);

const SLOT_BITS: u32 = 15;
const POSITION_BITS: u32 = 16;
const RQ_BITS: u32 = 17;
const NOTICE_BITS: u32 = SLOT_BITS + POSITION_BITS + RQ_BITS;
const NOTICE: u64 = (1 << NOTICE_BITS) - 1;
/// Number of laps that a cell can distinguish. The bits of a cell above the notice hold the lap in which the
/// cell was written.
const LAPS: u64 = 1 << (u64::BITS - NOTICE_BITS);

const _: () = assert!(RQS < 1 << RQ_BITS);

impl RecvNotice {
    /// The notice of a cell whose completion was removed.
    pub(crate) const NOTHING: RecvNotice = RecvNotice(NOTICE);

    pub(crate) fn new(rq: u32, position: u64, slot: u32) -> RecvNotice {
        let position = position & ((1 << POSITION_BITS) - 1);
        let slot = u64::from(slot) & ((1 << SLOT_BITS) - 1);
        RecvNotice((u64::from(rq) << POSITION_BITS | position) << SLOT_BITS | slot)
    }

    /// Index of the receive queue. No queue has the index of [`RecvNotice::NOTHING`].
    pub(crate) fn rq(self) -> u32 {
        (self.0 >> (SLOT_BITS + POSITION_BITS)) as u32
    }

    pub(crate) fn slot(self) -> u32 {
        self.0 as u32 & ((1 << SLOT_BITS) - 1)
    }

    /// The distance from `position` to this RECV, modulo the range of the position bits. Queues are at most
    /// half as long as that range.
    fn distance(self, position: u64) -> u64 {
        (self.0 >> SLOT_BITS).wrapping_sub(position) & ((1 << POSITION_BITS) - 1)
    }

    /// Whether the notice names the RECV at this position.
    pub(crate) fn is_at(self, position: u64) -> bool {
        self.distance(position) == 0
    }

    /// Whether the notice names a RECV before this position.
    pub(crate) fn is_before(self, position: u64) -> bool {
        self.distance(position) >= 1 << (POSITION_BITS - 1)
    }
}

/// The place of a ring: its offset in a segment, in cache lines, and the binary logarithm of its capacity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RingPlace(u64);

const SHIFT_BITS: u32 = 6;

impl RingPlace {
    pub(crate) fn new(at: u64, capacity: u32) -> RingPlace {
        RingPlace((at / 64) << SHIFT_BITS | u64::from(capacity.trailing_zeros()))
    }

    /// Bytes of a ring of this capacity.
    pub(crate) fn bytes(capacity: u32) -> u64 {
        size_of::<CqRing>() as u64 + 8 * u64::from(capacity)
    }

    pub(crate) fn at(self) -> u64 {
        (self.0 >> SHIFT_BITS) * 64
    }

    pub(crate) fn capacity(self) -> u64 {
        1 << self.shift()
    }

    fn shift(self) -> u32 {
        // No CQ has more than 2^24 entries.
        (self.0 as u32 & ((1 << SHIFT_BITS) - 1)).min(24)
    }

    /// The place from the word in a record.
    pub(crate) fn of_record(word: u64) -> RingPlace {
        RingPlace(word)
    }

    /// The word to store in a record.
    pub(crate) fn in_record(self) -> u64 {
        self.0
    }
}

/// A ring and its segment.
#[derive(Clone, Copy)]
pub(crate) struct CompletionRing<'a> {
    segment: &'a Segment,
    place: RingPlace,
    pub(crate) ends: &'a CqRing,
}

impl<'a> CompletionRing<'a> {
    /// The ring at a place; `None` if the place is invalid.
    pub(crate) fn at(segment: &'a Segment, place: RingPlace) -> Option<CompletionRing<'a>> {
        Some(CompletionRing { segment, place, ends: segment.in_heap(place.at())? })
    }

    /// Initialises a ring at a place that may hold arbitrary bytes. The ring's number is the upper half of
    /// all its positions, so no other ring has these positions. At first, each cell also holds the number as
    /// its notice. So if a producer loaded the tail or a cell while an earlier ring was in this memory, its
    /// compare-and-swap fails.
    pub(crate) fn begin(segment: &'a Segment, place: RingPlace, number: u32) -> Option<CompletionRing<'a>> {
        let ring = CompletionRing::at(segment, place)?;
        let first = u64::from(number) << 32;
        // Relaxed: the CQ's record publishes the ring by a Release store. Only a producer that was stopped
        // long ago may access this place before that store.
        for position in first..first + place.capacity() {
            let lap_before = position.wrapping_sub(place.capacity());
            ring.cell(position)?.store(ring.word(lap_before, RecvNotice(number.into())), Relaxed);
        }
        ring.ends.head_seen.store(first, Relaxed);
        ring.ends.head.0.store(first, Relaxed);
        // Release: a producer of an earlier ring loads the tail before a cell. If it sees this tail, it sees
        // the new cells.
        ring.ends.tail.0.store(first, Release);
        Some(ring)
    }

    fn cell(&self, position: u64) -> Option<&'a AtomicU64> {
        let at = position & (self.place.capacity() - 1);
        self.segment.in_heap(self.place.at() + size_of::<CqRing>() as u64 + 8 * at)
    }

    fn lap(&self, position: u64) -> u64 {
        (position >> self.place.shift()) & (LAPS - 1)
    }

    fn word(&self, position: u64, notice: RecvNotice) -> u64 {
        self.lap(position) << NOTICE_BITS | notice.0
    }

    /// The notice in the cell of a position; `None` if no producer has stored it yet.
    pub(crate) fn get(&self, position: u64) -> Option<RecvNotice> {
        // Acquire, for the Release in `push`: this thread sees the slot as the producer left it.
        let word = self.cell(position)?.load(Acquire);
        (word >> NOTICE_BITS == self.lap(position)).then_some(RecvNotice(word & NOTICE))
    }

    /// Removes the notice in the cell of a position. Only the owner calls this.
    pub(crate) fn forget(&self, position: u64) {
        if let Some(cell) = self.cell(position) {
            // Relaxed: until `pass`, producers use only the cell's lap, which stays as it is.
            cell.store(self.word(position, RecvNotice::NOTHING), Relaxed);
        }
    }

    /// Position of a new ring's first completion. Only the owner calls this, before it publishes the ring.
    pub(crate) fn head(&self) -> u64 {
        // Relaxed: only the owner stores the head.
        self.ends.head.0.load(Relaxed)
    }

    /// Frees the cells before `head` for producers. The completions in these cells are taken. Only the owner
    /// calls this.
    pub(crate) fn pass(&self, head: u64) {
        // Release: a producer writes to a cell only after the owner has read it or removed its notice.
        self.ends.head.0.store(head, Release);
    }

    /// A lower bound on the position of the first free cell: a producer fills a cell before it advances the
    /// tail.
    pub(crate) fn tail(&self) -> u64 {
        // Acquire: `get` sees the completions before this position.
        self.ends.tail.0.load(Acquire)
    }

    /// Number of completions in the ring from position `head` on.
    pub(crate) fn len(&self, head: u64) -> u64 {
        self.tail().saturating_sub(head).min(self.place.capacity())
    }

    fn is_full(&self, position: u64, cqe: u64) -> bool {
        let limit = cqe.min(self.place.capacity());
        let full = |head: u64| position.saturating_sub(head) >= limit;
        // `head_seen` is a copy of `head` that a producer stored. That producer loaded `head` by
        // Acquire and stored the copy by Release (below). So after this Acquire load, the owner is done with
        // the cells before the loaded value.
        if !full(self.ends.head_seen.load(Acquire)) {
            return false;
        }
        // Acquire: the owner no longer accesses the cells before `head`.
        let head = self.ends.head.0.load(Acquire);
        self.ends.head_seen.store(head, Release);
        full(head)
    }

    /// Puts a notice into the next cell; `false` if the ring has no room.
    fn push(&self, cqe: u64, notice: RecvNotice) -> bool {
        let tail = &self.ends.tail.0;
        // A round fails if another producer was faster.
        for _ in 0..ROUNDS {
            // Acquire: if a producer that was stopped long ago sees a new ring's tail, it also sees that
            // ring's cells (`begin`). For other producers, an old tail only costs a round.
            let position = tail.load(Acquire);
            let Some(cell) = self.cell(position) else { return false };
            // Relaxed: the compare-and-swap fails unless the cell still holds this value.
            let before = cell.load(Relaxed);
            let taken = before >> NOTICE_BITS == self.lap(position);
            if !taken {
                if self.is_full(position, cqe) {
                    return false;
                }
                let free = before >> NOTICE_BITS == self.lap(position.wrapping_sub(self.place.capacity()));
                let word = self.word(position, notice);
                // Release: `get` sees the slot as this producer has left it.
                if !free || cell.compare_exchange(before, word, Release, Relaxed).is_err() {
                    continue;
                }
            }
            reach(Point::CellWritten);
            // Release: a thread that loads this tail, or a later one, sees the cells before it.
            let _ = tail.compare_exchange(position, position.wrapping_add(1), Release, Relaxed);
            if !taken {
                return true;
            }
        }
        false
    }
}

/// Maximum number of rounds of `push`, which then gives up as if the ring were full. Other producers do not
/// make so many rounds fail. If a faulty process has overwritten head or tail, every round can fail.
const ROUNDS: u32 = 1 << 20;

/// Notifies a CQ that a RECV is complete; `false` if its ring has no room.
pub(crate) fn push(segment: &Segment, record: &CqRecord, notice: RecvNotice) -> bool {
    // Acquire: the owner publishes a new ring by a Release store.
    let place = RingPlace::of_record(record.ring.load(Acquire));
    // Relaxed for `cqe`: a completion that arrives while the owner resizes the CQ may be checked
    // against the old or the new limit.
    place.at() != 0
        && CompletionRing::at(segment, place)
            .is_some_and(|ring| ring.push(record.cqe.load(Relaxed).into(), notice))
}

/// Notifies the program of a completion, if the program asked for a notification. `is_there` tells whether
/// the completion is still to be taken. Without this check, a program might take the completion, ask for the
/// next completion, and then be notified of the completion that it has already taken.
pub(crate) fn wake(
    owner: Owner<'_>,
    record: &CqRecord,
    index: u32,
    solicited: bool,
    is_there: impl FnOnce(Armed) -> bool,
) {
    // Relaxed: the owner stored the descriptor before it published the CQ's ring and the QPs that use the CQ.
    let fd = record.channel_fd.load(Relaxed);
    if fd == 0 {
        return;
    }
    // SeqCst, as in `arm`: this thread sees that it has to notify, or the program sees the completion.
    fence(SeqCst);
    // Acquire: if the program took the completion before it asked, `is_there` sees it taken. If the program
    // takes the completion and asks again after this load, the word has changed, and the change below fails.
    let word = record.armed.load(Acquire);
    let (armed, telling) = (Armed::of(word), word | Armed::Told as u32);
    let due = armed == Armed::Next || (armed == Armed::Solicited && solicited);
    // Relaxed: the word publishes nothing. The event goes through a pipe.
    if due && is_there(armed) && record.armed.compare_exchange(word, telling, Relaxed, Relaxed).is_ok() {
        reach(Point::Disarmed);
        let generation = record.generation.load(Relaxed);
        let told = tell(owner, fd, EventRecord { event_type: 0, index, generation });
        // If this process cannot notify the program, another producer does, or the owner in `wake_late`.
        let after = if told { word & !ARMED } else { word };
        let _ = record.armed.compare_exchange(telling, after, Relaxed, Relaxed);
    }
}

/// Notifies this process's own program of a completion, if another process had to do so and did not. The
/// owner calls this function repeatedly. `before` is the result of the last call. The function notifies the
/// program under three conditions:
/// - A notification was due at the last call.
/// - The record's word is unchanged since the last call.
/// - The CQ holds a completion of the armed kind.
///
/// The program is notified twice if the other process was suspended just after it had notified the program.
/// Returns the word if a notification is due, also after this call has notified the program.
pub(crate) fn wake_late(
    record: &CqRecord,
    index: u32,
    before: Option<u32>,
    holds: impl FnOnce(Armed) -> bool,
) -> Option<u32> {
    // Acquire, as in `wake`.
    let word = record.armed.load(Acquire);
    let armed = Armed::of(word);
    let is_due = armed != Armed::Not && holds(armed);
    if is_due && before == Some(word) {
        tell_owner(record, index, word);
    }
    is_due.then_some(word)
}

/// Reports that a completion is lost. The CQ is unusable from then on (IB specification vol. 1, 11.6.3.1).
pub(crate) fn overrun(owner: Owner<'_>, record: &CqRecord, index: u32) {
    // Relaxed: the swap only chooses which process notifies. The event goes through a pipe.
    if record.overrun.swap(1, Relaxed) == 0 {
        let generation = record.generation.load(Relaxed);
        tell(
            owner,
            record.async_fd.load(Relaxed),
            EventRecord { event_type: EVENT_CQ_ERR, index, generation },
        );
    }
}
