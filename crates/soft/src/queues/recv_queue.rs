//! Receive queues: those of QPs, and shared ones.
//!
//! The posted RECVs lie in slots in the segment, where senders take them. What the program asked
//! for is kept in private memory as well: completions are made from that, not from what others
//! could have changed.
//!
//! Only one sender takes from the queue of a connected QP, so that its slots are taken, and free
//! again, in the order in which they are posted. Others have a ring beside them that names the slot
//! of each RECV, as a slot is free again when its completion is taken, whatever became of those
//! before it.

use crate::engine::diagnosis::of_sge;
use crate::errno::{EINVAL, ENOMEM, Errno};
use crate::fabric::domains::DomainId;
use crate::fabric::peer::Owner;
use crate::fabric::process::Process;
use crate::memory::cause::Memory;
use crate::memory::records::*;
use crate::memory::regions::{RegionCache, Regions};
use crate::memory::transfer::copy_short;
use crate::point::{Point, reach};
use crate::rings::completions::RecvNotice;
use crate::rings::recvs::{
    Carried, Completer, Phase, RecvDone, SlotState, expect_write, flush, limit_event, order_cell, stride,
    write_posted,
};
use crate::sync::Anew;
use crate::sync::biased::Biased;
use crate::watch::strict::{Held, Holder, violated};
use crate::watch::trace::{self, Slice};
use doorbell_abi::CEnum;
use doorbell_abi::status_name;
use doorbell_launch::qp_numbers::qp_num;
use doorbell_launch::strict::Strict;
use doorbell_verbs::{AccessFlags, Sge, WcStatus};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*, fence};
use std::time::{Duration, Instant};

/// How long a RECV that a sender has begun to fill keeps those behind it waiting: a copy takes less, also where the
/// sender has to wait for a processor, unless it is stopped.
const PATIENCE: Duration = Duration::from_millis(80);

/// Who takes RECVs from a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Senders {
    /// The peer of a connected QP.
    One,
    /// Those of datagrams to a QP: it completes RECVs in order all the same.
    ManyInOrder,
    /// Those of the QPs of an SRQ.
    Many,
    /// The same where QPs do not say it, but messages: XRC.
    Named,
}

/// What a receive queue is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// RECVs.
    pub(crate) depth: u32,
    pub(crate) max_sge: u32,
}

/// A receive queue of this process.
#[derive(Debug)]
pub(crate) struct RecvQueue {
    process: &'static Process,
    /// Index of its record.
    pub(crate) index: u32,
    record: &'static RqRecord,
    pd: u32,
    senders: Senders,
    /// RECVs that it was made for.
    pub(crate) depth: u32,
    pub(crate) max_sge: u32,
    capacity: u32,
    /// Position of the next RECV to complete, where that is in order.
    next: AtomicU64,
    /// RECVs that were passed over.
    late: AtomicU32,
    /// Where the slots begin in the segment.
    slots: AtomicU64,
    state: Biased<State>,
}

#[derive(Debug)]
struct State {
    place: Place,
    /// RECVs posted since the queue was made.
    tail: u64,
    /// RECVs posted whose completion was not taken.
    outstanding: u32,
    entries: Box<[Entry]>,
    sges: Box<[Sge]>,
    /// Slots that are free, where there is a ring that orders them.
    free: VecDeque<u32>,
    /// The slot of each position, as that ring has it.
    order: Box<[u32]>,
    /// Up to this position RECVs were seen complete.
    complete: u64,
    /// Slots of RECVs that were passed over, as their senders do not go on.
    late: Vec<u32>,
    /// Since when the next RECV is seen begun and not ended.
    begun: Option<(u64, Instant)>,
    cache: RegionCache,
    /// What is wanted of the RECV of each slot: the regions that it uses, in strict mode, and its slice of a trace.
    watched: Option<Vec<(Option<Held>, Option<Slice>)>>,
}

/// Whether somebody wants to know of each RECV.
fn is_watched() -> bool {
    Strict::own().is_some() || trace::is_wanted()
}

/// Where a queue lies in the segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    slots: u64,
    /// The ring that orders the slots; 0 where there is none.
    order: u64,
    /// The turn of the only sender; 0 where there may be several.
    turn: u64,
    capacity: u32,
    max_sge: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// Position plus 1; 0 where nothing is posted here.
    position: u64,
    wr_id: u64,
    sges: u32,
}

/// A completed RECV.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken {
    pub(crate) wr_id: u64,
    pub(crate) done: RecvDone,
    /// Whether the payload that came along could be placed in its buffers.
    pub(crate) placed: bool,
}

impl Place {
    fn alloc(process: &Process, sizes: Sizes, senders: Senders) -> Result<Place, Errno> {
        let capacity = sizes.depth.max(1).next_power_of_two();
        let slots = process.heap.alloc(u64::from(capacity) * stride(sizes.max_sge)).ok_or(ENOMEM)?;
        let (order, turn) = match senders {
            Senders::One => (0, process.heap.alloc(size_of::<Turn>() as u64).ok_or(ENOMEM)?),
            _ => (process.heap.alloc(u64::from(capacity) * 8).ok_or(ENOMEM)?, 0),
        };
        let place = Place { slots, order, turn, capacity, max_sge: sizes.max_sge };
        place.clear(process);
        Ok(place)
    }

    /// A piece of heap may hold old slots.
    fn clear(&self, process: &Process) {
        for index in 0..self.capacity {
            let at = self.slots + u64::from(index) * stride(self.max_sge);
            if let Some(slot) = process.segment.in_heap::<RqSlot>(at) {
                slot.set_state(SlotState::FREE);
            }
            if self.order != 0
                && let Some(cell) = process.segment.in_heap::<AtomicU64>(self.order + 8 * u64::from(index))
            {
                cell.store(0, Relaxed);
            }
        }
        if let Some(turn) = self.turn(process) {
            turn.set_state(SlotState::FREE);
        }
    }

    /// The turn of the only sender.
    fn turn<'a>(&self, process: &'a Process) -> Option<&'a Turn> {
        process.segment.in_heap(self.turn).filter(|_| self.turn != 0)
    }

    /// Takes the only sender its turn, if it is not filling a slot.
    fn end_turn(&self, process: &Process) {
        if let Some(turn) = self.turn(process) {
            let state = turn.state();
            if state.phase() == Phase::Posted {
                turn.change(state, SlotState::FREE);
            }
        }
    }

    /// Whether somebody who may go on has begun to fill a slot.
    fn is_being_filled(&self, process: &Process) -> bool {
        let is_filled =
            |state: SlotState| matches!(state.phase(), Phase::Claimed(who) if !process.is_gone(who));
        let is_slot_filled = |index: u32| {
            let at = self.slots + u64::from(index) * stride(self.max_sge);
            process.segment.in_heap::<RqSlot>(at).is_some_and(|slot| is_filled(slot.state()))
        };
        self.turn(process).is_some_and(|turn| is_filled(turn.state()))
            || (0..self.capacity).any(is_slot_filled)
    }

    /// Gives it back, at once or when all have ended who fill its slots.
    fn free(self, process: &'static Process) {
        let begin = Instant::now();
        while self.is_being_filled(process) {
            if begin.elapsed() > Duration::from_millis(1) {
                return LIMBO.lock().push((process, self));
            }
            std::thread::yield_now();
        }
        self.free_now(process);
    }

    fn free_now(self, process: &Process) {
        process.heap.free(self.slots, u64::from(self.capacity) * stride(self.max_sge));
        if self.order != 0 {
            process.heap.free(self.order, u64::from(self.capacity) * 8);
        }
        if self.turn != 0 {
            process.heap.free(self.turn, size_of::<Turn>() as u64);
        }
    }
}

/// Queues that ended while somebody was filling their slots. A child of fork(2) may end those of its parent.
static LIMBO: Anew<Vec<(&Process, Place)>> = Anew::new(Vec::new());

/// Gives back what could not be given back when its queue ended.
fn sweep(process: &'static Process) {
    LIMBO.lock().retain(|(owner, place)| {
        let stays = !std::ptr::eq(*owner, process) || place.is_being_filled(process);
        if !stays {
            place.free_now(process);
        }
        stays
    });
}

impl State {
    fn new(place: Place, tail: u64) -> State {
        let capacity = place.capacity as usize;
        State {
            place,
            tail,
            outstanding: 0,
            entries: vec![Entry::default(); capacity].into(),
            sges: vec![Sge::default(); capacity * place.max_sge as usize].into(),
            free: (0..if place.order == 0 { 0 } else { place.capacity }).collect(),
            order: vec![0; if place.order == 0 { 0 } else { capacity }].into(),
            complete: tail,
            late: Vec::new(),
            begun: None,
            cache: RegionCache::default(),
            watched: is_watched().then(|| (0..capacity).map(|_| (None, None)).collect()),
        }
    }

    /// The slot that the RECV at a position is in, or was.
    #[inline]
    fn index_of(&self, position: u64) -> u32 {
        let at = position & u64::from(self.place.capacity - 1);
        if self.order.is_empty() { at as u32 } else { self.order[at as usize] }
    }

    /// Whether the RECV at a position is in this slot, and not complete for the program.
    #[inline]
    fn holds(&self, index: u32, position: u64) -> bool {
        self.entries[index as usize].position == position.wrapping_add(1)
    }
}

impl RecvQueue {
    /// A queue with record `index`.
    pub(crate) fn new(
        process: &'static Process,
        index: u32,
        pd: u32,
        sizes: Sizes,
        senders: Senders,
        async_fd: u32,
    ) -> Result<RecvQueue, Errno> {
        sweep(process);
        let record = process.segment.rq(index as usize).ok_or(EINVAL)?;
        let place = Place::alloc(process, sizes, senders)?;
        let tail = record.posted.0.tail.load(Relaxed);
        record.max_sge.store(sizes.max_sge, Relaxed);
        record.pd.store(pd, Relaxed);
        record.limit.store(0, Relaxed);
        record.async_fd.store(async_fd, Relaxed);
        record.srq.store(index.saturating_sub(QPS as u32), Relaxed);
        let queue = RecvQueue {
            process,
            index,
            record,
            pd,
            senders,
            depth: sizes.depth,
            max_sge: sizes.max_sge,
            capacity: place.capacity,
            next: AtomicU64::new(tail),
            late: AtomicU32::new(0),
            slots: AtomicU64::new(place.slots),
            state: Biased::new(State::new(place, tail)),
        };
        queue.begin(place, tail);
        Ok(queue)
    }

    /// Lets messages name it, of QPs of an XRC domain, or none any more; its RECVs complete in this CQ.
    pub(crate) fn set_domain(&self, domain: Option<DomainId>, cq: u32) {
        self.record.cq.store(cq, Relaxed);
        if let Some(record) = self.process.segment.domain(self.index as usize) {
            record.store(domain.map_or(0, DomainId::in_record), SeqCst);
        }
    }

    /// Whether messages name it: an SRQ of XRC.
    pub(crate) fn is_named(&self) -> bool {
        self.senders == Senders::Named
    }

    /// Shows senders where the queue is.
    fn begin(&self, place: Place, tail: u64) {
        let record = self.record;
        record.generation.fetch_add(1, Relaxed);
        record.slots.store(place.slots, Relaxed);
        record.order.store(place.order, Relaxed);
        record.turn.store(place.turn, Relaxed);
        record.taken.0.head.store(tail, Relaxed);
        if let Some(turn) = place.turn(self.process) {
            turn.set_state(SlotState::posted(tail, self.generation()));
        }
        record.posted.0.tail.store(tail, Relaxed);
        record.posted.0.polled.store(tail, Relaxed);
        record.taken.0.polled_seen.store(tail, Relaxed);
        self.next.store(tail, Relaxed);
        self.slots.store(place.slots, Relaxed);
        record.capacity.store(place.capacity, Release);
    }

    fn generation(&self) -> u32 {
        self.record.generation.load(Relaxed)
    }

    /// The queue's slots; where they are is this process's own word, not that of its record.
    fn slot(&self, place: Place, index: u32) -> Option<&'static RqSlot> {
        let at = u64::from(index & (place.capacity - 1)) * stride(place.max_sge);
        self.process.segment.in_heap(place.slots + at)
    }

    /// Posts a RECV.
    #[inline]
    pub(crate) fn post(&self, wr_id: u64, sges: &[Sge]) -> Result<(), Errno> {
        if sges.len() > self.max_sge as usize {
            return Err(EINVAL);
        }
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.outstanding >= self.depth && matches!(self.senders, Senders::Many | Senders::Named) {
            self.reclaim(state);
        }
        if state.outstanding >= self.depth {
            return Err(ENOMEM);
        }
        let position = state.tail;
        let index = match self.senders {
            Senders::One => state.index_of(position),
            _ => state.free.pop_front().ok_or(ENOMEM)?,
        };
        if state.entries[index as usize].position != 0 {
            return Err(ENOMEM);
        }
        state.entries[index as usize] = Entry { position: 0, wr_id, sges: sges.len() as u32 };
        let first = index as usize * self.max_sge as usize;
        state.sges[first..first + sges.len()].copy_from_slice(sges);
        state.outstanding += 1;
        if let Some(watched) = &mut state.watched {
            watched[index as usize] = self.watch(wr_id, sges);
        }
        self.offer(state, index)
    }

    /// What is wanted of a RECV that is posted.
    #[cold]
    fn watch(&self, wr_id: u64, sges: &[Sge]) -> (Option<Held>, Option<Slice>) {
        let held = Strict::own().map(|_| {
            self.check_strictly(wr_id, sges);
            Held::new(sges, Holder::Recvs(self.index))
        });
        let track = match self.index.checked_sub(QPS as u32) {
            Some(srq) => format!("SRQ {srq} RECVs"),
            None => format!("QP {:#x} RECVs", qp_num(self.process.slot, self.index)),
        };
        let room: u64 = sges.iter().map(|sge| u64::from(sge.length)).sum();
        (held, Slice::begin(track, "RECV", wr_id, &format!("\"room\":{room}")))
    }

    /// In strict mode, whether a RECV may use all of its memory; else that is seen of what is used.
    #[cold]
    fn check_strictly(&self, wr_id: u64, sges: &[Sge]) {
        let need = AccessFlags::LOCAL_WRITE;
        let used = sges.iter().filter(|sge| sge.length > 0);
        let causes = used.filter_map(|sge| of_sge(self.process, Memory::Recv, self.pd, sge, need));
        for cause in causes {
            violated(format_args!(
                "the RECV with wr_id {wr_id:#x} of receive queue {} cannot use its memory: {cause} (ibv_post_recv(3))",
                self.index
            ));
        }
    }

    /// Lets senders have the RECV of a slot, behind all others.
    #[inline]
    fn offer(&self, state: &mut State, index: u32) -> Result<(), Errno> {
        let slot = self.slot(state.place, index).ok_or(EINVAL)?;
        let position = state.tail;
        state.tail += 1;
        state.entries[index as usize].position = position.wrapping_add(1);
        write_posted(self.process.segment, slot, self.sges_of(state, index));
        reach(Point::RecvWritten);
        // Before the RECV may be taken: whoever takes it asks how many are left.
        self.record.posted.0.tail.store(state.tail, Relaxed);
        slot.set_state(SlotState::posted(position, self.generation()));
        if self.senders != Senders::One {
            let at = position & u64::from(state.place.capacity - 1);
            reach(Point::RecvUnordered);
            state.order[at as usize] = index;
            let cell: Option<&AtomicU64> = self.process.segment.in_heap(state.place.order + 8 * at);
            cell.ok_or(EINVAL)?.store(order_cell(position, index), Release);
        }
        Ok(())
    }

    fn sges_of<'s>(&self, state: &'s State, index: u32) -> &'s [Sge] {
        let first = index as usize * self.max_sge as usize;
        &state.sges[first..first + state.entries[index as usize].sges as usize]
    }

    /// The slot of the next RECV in order, and its state as long as nobody has a message for it.
    #[inline]
    pub(crate) fn next_slot(&self) -> Option<(&'static RqSlot, SlotState)> {
        let position = self.next();
        let index = match self.senders {
            Senders::One => position as u32 & (self.capacity - 1),
            _ => self.state.lock().index_of(position),
        };
        let at = self.slots.load(Relaxed) + u64::from(index) * stride(self.max_sge);
        Some((self.process.segment.in_heap(at)?, SlotState::posted(position, self.generation())))
    }

    /// Position of the next RECV to complete, where that is in order.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Relaxed)
    }

    /// RECVs posted since the queue was made.
    pub(crate) fn tail(&self) -> u64 {
        self.record.posted.0.tail.load(Relaxed)
    }

    /// Position of the first RECV that nobody has taken yet, for sure.
    pub(crate) fn first_untaken(&self) -> u64 {
        let state = self.state.lock();
        let turn = state.place.turn(self.process);
        let is_posted = |position: u64| {
            let posted = SlotState::posted(position, self.generation());
            let slot = self.slot(state.place, state.index_of(position));
            slot.is_some_and(|slot| slot.state().phase_of(posted) == Some(Phase::Posted))
                && !turn.is_some_and(|turn| turn.is_at(position))
        };
        (self.next()..state.tail).find(|position| is_posted(*position)).unwrap_or(state.tail)
    }

    /// Takes the completion of the next RECV in order, if there is one.
    #[inline(always)]
    pub(crate) fn take_next(&self) -> Option<Taken> {
        let mut state = self.state.lock();
        let state = &mut *state;
        if self.has_late()
            && let Some(late) = self.take_late(state)
        {
            return Some(late);
        }
        loop {
            let position = self.next();
            if position >= state.tail {
                return None;
            }
            let index = state.index_of(position);
            // What was posted here may have been posted again, behind the others.
            if state.holds(index, position) {
                let slot = self.slot(state.place, index)?;
                match slot.state().phase_of(SlotState::posted(position, self.generation()))? {
                    Phase::Done => {
                        self.pass(position);
                        return Some(self.take(state, index, slot));
                    }
                    Phase::Claimed(_) if self.is_stuck(state, position) => {
                        state.late.push(index);
                        self.late.fetch_add(1, Relaxed);
                    }
                    _ => return None,
                }
            }
            self.pass(position);
        }
    }

    #[inline]
    fn pass(&self, position: u64) {
        self.next.store(position + 1, Relaxed);
        self.record.posted.0.polled.store(position + 1, Release);
    }

    /// Whether a RECV that is begun and not ended is to be passed over.
    fn is_stuck(&self, state: &mut State, position: u64) -> bool {
        if self.senders == Senders::One {
            return false;
        }
        let now = Instant::now();
        match state.begun {
            Some((then, since)) if then == position => now - since > PATIENCE,
            _ => {
                state.begun = Some((position, now));
                false
            }
        }
    }

    fn take_late(&self, state: &mut State) -> Option<Taken> {
        for n in 0..state.late.len() {
            let index = state.late[n];
            let slot = self.slot(state.place, index)?;
            if slot.state().phase() == Phase::Done {
                state.late.swap_remove(n);
                self.late.fetch_sub(1, Relaxed);
                return Some(self.take(state, index, slot));
            }
        }
        None
    }

    /// Takes the completion that a CQ was told of, of a RECV of an SRQ; `None` where it is no longer there.
    pub(crate) fn take_told(&self, what: RecvNotice) -> Option<Taken> {
        let mut state = self.state.lock();
        let index = what.slot() & (self.capacity - 1);
        let position = state.entries[index as usize].position.checked_sub(1)?;
        let slot = self.slot(state.place, index)?;
        let posted = SlotState::posted(position, self.generation());
        let is_it = what.is_at(position) && slot.state().phase_of(posted) == Some(Phase::Done);
        is_it.then(|| self.take(&mut state, index, slot))
    }

    /// Frees the slot of a completion that a CQ was told of, if it is one of this QP; returns whether it was.
    pub(crate) fn drop_told(&self, what: RecvNotice, qpn: u32) -> bool {
        let slot = self.slot(self.state.lock().place, what.slot());
        slot.is_some_and(|slot| RecvDone::of(slot).qpn == qpn) && self.take_told(what).is_some()
    }

    /// Whether RECVs were passed over that are not complete.
    pub(crate) fn has_late(&self) -> bool {
        self.late.load(Relaxed) > 0
    }

    /// Whether the RECVs before this one are complete, and those that were passed over.
    pub(crate) fn is_through(&self, until: u64) -> bool {
        self.next() >= until && !self.has_late()
    }

    /// Position up to which RECVs are complete by now, in order.
    pub(crate) fn complete_until(&self) -> u64 {
        let mut state = self.state.lock();
        let mut position = state.complete.max(self.next());
        while position < state.tail {
            let posted = SlotState::posted(position, self.generation());
            let slot = self.slot(state.place, state.index_of(position));
            if slot.and_then(|slot| slot.state().phase_of(posted)) != Some(Phase::Done) {
                break;
            }
            position += 1;
        }
        state.complete = position;
        position
    }

    /// Frees the slot of a RECV that is complete, and makes its completion.
    #[inline(always)]
    fn take(&self, state: &mut State, index: u32, slot: &RqSlot) -> Taken {
        // It is posted again soon.
        expect_write(slot);
        let done = RecvDone::of(slot);
        let len = usize::from(done.carried);
        let placed = len == 0 || {
            let mut carried = Carried::none();
            carried.take(slot, len);
            let entry = state.entries[index as usize];
            let first = index as usize * self.max_sge as usize;
            let sges = &state.sges[first..first + entry.sges as usize];
            place(&self.process.regions, self.pd, &mut state.cache, sges, &carried)
        };
        let wr_id = state.entries[index as usize].wr_id;
        if let Some(watched) = &mut state.watched
            && let Some(slice) = watched[index as usize].1.take()
        {
            slice.end(status_name(WcStatus::from_c(done.status.into()).unwrap_or_default()), done.byte_len);
        }
        reach(Point::Taking);
        self.release(state, index);
        Taken { wr_id, done, placed }
    }

    /// The slot is free.
    fn release(&self, state: &mut State, index: u32) {
        state.entries[index as usize].position = 0;
        state.outstanding -= 1;
        if let Some(watched) = &mut state.watched {
            watched[index as usize] = (None, None);
        }
        if self.senders != Senders::One {
            state.free.push_back(index);
        }
    }

    /// Frees the slots of an SRQ whose completions nobody will take: of QPs that there are no more, or whose CQ is
    /// overrun. Lets others have the RECVs that senders had begun to fill which have ended.
    fn reclaim(&self, state: &mut State) {
        for index in 0..self.capacity {
            let Some(slot) = self.slot(state.place, index) else { continue };
            if state.entries[index as usize].position == 0 {
                continue;
            }
            match slot.state().phase() {
                Phase::Done if self.is_lost(&RecvDone::of(slot)) => self.release(state, index),
                Phase::Claimed(_) if self.is_abandoned(slot) => {
                    let _ = self.offer(state, index);
                }
                _ => {}
            }
        }
    }

    /// Whether a process that has ended had begun to fill a slot, and not ended that before itself.
    fn is_abandoned(&self, slot: &RqSlot) -> bool {
        let state = slot.state();
        matches!(state.phase(), Phase::Claimed(who) if self.process.is_gone(who)) && slot.state() == state
    }

    /// Whether nobody will take a completion.
    fn is_lost(&self, done: &RecvDone) -> bool {
        let segment = self.process.segment;
        let overrun = |cq: &AtomicU32| {
            segment.cq(cq.load(Relaxed) as usize).is_none_or(|cq| cq.overrun.load(Relaxed) != 0)
        };
        if self.is_named() {
            return overrun(&self.record.cq);
        }
        let Some(qp) = segment.qp(index_of(done.qpn) as usize) else { return true };
        qp.generation.load(Relaxed) != done.generation || overrun(&qp.cq)
    }

    /// Puts right what senders that have ended had begun.
    pub(crate) fn recover(&self) {
        let mut state = self.state.lock();
        let state = &mut *state;
        match state.place.turn(self.process) {
            Some(turn) => {
                self.recover_turn(state, turn);
                // Nobody else claims slots.
                if !self.is_in_error() {
                    return;
                }
            }
            None if u64::from(state.outstanding) == self.posted() => return,
            None => {}
        }
        for index in 0..self.capacity {
            let Some(position) = state.entries[index as usize].position.checked_sub(1) else { continue };
            let Some(slot) = self.slot(state.place, index) else { continue };
            if !self.is_abandoned(slot) {
                continue;
            }
            if self.senders == Senders::One {
                // Who flushed the queue had begun to fill it.
                self.write_again(state, position);
                continue;
            }
            state.late.retain(|late| *late != index);
            self.late.store(state.late.len() as u32, Relaxed);
            // It was posted once, so there is room for it.
            let _ = self.offer(state, index);
        }
        // Who put the QP to Err may have ended before it flushed.
        self.flush_if_in_error();
    }

    /// The same of the only sender, who claims slots in its turn.
    fn recover_turn(&self, state: &State, turn: &Turn) {
        let before = turn.state();
        let Phase::Claimed(who) = before.phase() else { return };
        if !self.process.is_gone(who) {
            return;
        }
        let at = (self.next()..state.tail).find(|position| turn.is_at(*position));
        let is_done = |position: u64| {
            let slot = self.slot(state.place, state.index_of(position));
            let posted = SlotState::posted(position, self.generation());
            slot.and_then(|slot| slot.state().phase_of(posted)) == Some(Phase::Done)
        };
        let undone = at.filter(|position| !is_done(*position));
        if let Some(position) = undone {
            self.write_again(state, position);
        }
        // A RECV whose completion was taken is behind it, too.
        turn.change(before, undone.map_or(before.next(), |at| SlotState::posted(at, self.generation())));
        self.flush_if_in_error();
    }

    /// Posts a RECV again where it was.
    fn write_again(&self, state: &State, position: u64) {
        let index = state.index_of(position);
        if let Some(slot) = self.slot(state.place, index) {
            write_posted(self.process.segment, slot, self.sges_of(state, index));
            slot.set_state(SlotState::posted(position, self.generation()));
        }
    }

    fn is_in_error(&self) -> bool {
        let qp = self.process.segment.qp(self.index as usize);
        qp.is_some_and(QpRecord::is_in_error)
    }

    fn flush_if_in_error(&self) {
        let (segment, claimer) = (self.process.segment, self.process.claimer);
        if self.is_in_error()
            && let Some(qp) = segment.qp(self.index as usize)
        {
            let qpn = qp_num(self.process.slot, self.index);
            flush(&Completer { owner: Owner::This, segment, qp, qpn, srq: None, claimer });
        }
    }

    /// The program ends the queue: nothing is wanted of its RECVs any more, whoever else still has it for a moment.
    pub(crate) fn end_watch(&self) {
        if let Some(watched) = &mut self.state.lock().watched {
            watched.iter_mut().for_each(|slot| *slot = (None, None));
        }
    }

    /// Forgets all RECVs; the QP is reset.
    pub(crate) fn clear(&self) -> Result<(), Errno> {
        let mut state = self.state.lock();
        let old = state.place;
        let tail = state.tail;
        // Who has seen the queue of before takes nothing from now on.
        self.record.generation.fetch_add(1, SeqCst);
        reach(Point::QueueClearing);
        old.end_turn(self.process);
        let is_claimed = |turn: &Turn| matches!(turn.state().phase(), Phase::Claimed(_));
        let mut filled = old.turn(self.process).is_some_and(is_claimed);
        for index in 0..self.capacity {
            let Some(slot) = self.slot(old, index) else { continue };
            let before = slot.state();
            if before.phase() == Phase::Posted && slot.change(before, SlotState::FREE) {
                continue;
            }
            filled |= matches!(slot.state().phase(), Phase::Claimed(_));
        }
        let place = if filled {
            let sizes = Sizes { depth: self.depth, max_sge: self.max_sge };
            let new = Place::alloc(self.process, sizes, self.senders)?;
            old.free(self.process);
            new
        } else {
            old.clear(self.process);
            old
        };
        *state = State::new(place, tail);
        self.late.store(0, Relaxed);
        self.begin(place, tail);
        Ok(())
    }

    /// RECVs posted whose completion was not taken, at most, where that is in order.
    pub(crate) fn outstanding(&self) -> u64 {
        self.tail().saturating_sub(self.next())
    }

    /// Those of them that are complete.
    pub(crate) fn complete(&self) -> u64 {
        let state = self.state.lock();
        let is_complete = |index: &u32| {
            let slot = self.slot(state.place, *index);
            state.entries[*index as usize].position != 0
                && slot.is_some_and(|s| s.state().phase() == Phase::Done)
        };
        (0..self.capacity).filter(is_complete).count() as u64
    }

    /// RECVs posted and not taken by a message.
    pub(crate) fn posted(&self) -> u64 {
        self.tail().saturating_sub(self.record.taken.0.head.load(Relaxed))
    }

    /// Arms the SRQ's limit event, or with 0 disarms it.
    pub(crate) fn arm_limit(&self, limit: u32) {
        self.record.limit.store(limit, Release);
        fence(SeqCst);
        // It is due at once where there are fewer already.
        if self.posted() < u64::from(limit) {
            limit_event(Owner::This, self.record);
        }
    }

    /// The armed limit.
    pub(crate) fn limit(&self) -> u32 {
        self.record.limit.load(Relaxed)
    }

    /// Numbers that an event carries for this SRQ.
    pub(crate) fn event_identity(&self) -> (u32, u32) {
        (self.record.srq.load(Relaxed), self.generation())
    }
}

impl Drop for RecvQueue {
    fn drop(&mut self) {
        let state = self.state.lock();
        self.record.generation.fetch_add(1, SeqCst);
        self.record.capacity.store(0, Release);
        reach(Point::QueueEnding);
        state.place.end_turn(self.process);
        for index in 0..self.capacity {
            if let Some(slot) = self.slot(state.place, index) {
                let before = slot.state();
                if before.phase() == Phase::Posted {
                    slot.change(before, SlotState::FREE);
                }
            }
        }
        state.place.free(self.process);
    }
}

/// Places payload that came with a completion into a RECV's buffers.
fn place(regions: &Regions, pd: u32, cache: &mut RegionCache, sges: &[Sge], carried: &Carried) -> bool {
    let payload = carried.as_piece();
    let mut at = 0;
    for sge in sges {
        let part = (sge.length as usize).min(payload.len - at);
        if part == 0 {
            continue;
        }
        let Some(found) = cache.find(regions, sge.lkey) else { return false };
        let Ok(offset) = found.check(pd, sge.addr, part as u64, AccessFlags::LOCAL_WRITE) else {
            return false;
        };
        // SAFETY: within the payload; the buffer is within a region, which the program keeps mapped while it is
        // registered.
        unsafe {
            let from = (payload.addr as *const u8).add(at);
            copy_short(from, (found.host + offset) as *mut u8, part);
        }
        at += part;
    }
    at == payload.len
}
