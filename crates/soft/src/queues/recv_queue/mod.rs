//! Receive queues of QPs, and SRQs.
//!
//! Posted RECVs are in slots in the segment, where senders take them. This process also keeps a private copy
//! of each RECV. A completion's `wr_id` and buffers come from this copy, because peers can write to the slot.
//!
//! There are two kinds of queues:
//! - The queue of a connected QP has one sender. So its slots are taken and freed in the order of posting.
//! - Any other queue has several senders. It has a ring that names the slot of each RECV. A slot is free as
//!   soon as the completion of its RECV is taken, in any order.

mod late;
mod layout;

use crate::causes;
use crate::engine::diagnosis::of_sge;
use crate::errno::{EINVAL, Errno};
use crate::fabric::copier::Copier;
use crate::fabric::domains::DomainId;
use crate::fabric::peer::Owner;
use crate::fabric::process::{HeldNumber, Process};
use crate::memory::cause::Memory;
use crate::memory::copy::copy_in_order;
use crate::memory::records::*;
use crate::memory::regions::{RegionCache, Regions};
use crate::point::{Point, reach};
use crate::refused::{self, Called, Fullness, QueueKind};
use crate::rings::completions::RecvNotice;
use crate::rings::recvs::{
    Carried, Completer, RecvDone, SlotPhase, SlotState, abandon_placing, begin_taking, end_taking,
    expect_write, flush, limit_event, order_slot, pass, show_posted, stride, write_posted,
};
use crate::sync::biased::Biased;
use crate::watch::strict::{Held, Holder, violated};
use crate::watch::trace::{self, Slice};
use doorbell_abi::CEnum;
use doorbell_abi::status_name;
use doorbell_launch::strict::Strict;
use doorbell_transport::Refused;
use doorbell_verbs::{AccessFlags, Sge, WcStatus};
use late::LateRecvs;
use layout::{RecvLayout, SlotOrder, sweep};
pub(crate) use layout::{Senders, Sizes};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::*, fence};
use std::time::{Duration, Instant};

/// Longest time for which a claimed RECV delays the RECVs behind it. The time begins when a poll first finds
/// the RECV claimed. It ends when the RECV is complete. A copy takes less time, even if the sender has to
/// wait for a processor. Only a stopped sender takes longer. After this time, polls pass the RECV over.
const PATIENCE: Duration = Duration::from_millis(80);

/// A receive queue of this process.
#[derive(Debug)]
pub(crate) struct RecvQueue {
    process: &'static Process,
    /// Index of the queue's record in the segment.
    pub(crate) index: u32,
    record: &'static RqRecord,
    pd: u32,
    senders: Senders,
    /// Maximum number of posted RECVs whose completions were not taken.
    pub(crate) depth: u32,
    pub(crate) max_sge: u32,
    capacity: u32,
    /// Position of the next RECV to complete, if completions are in order. The position changes under the
    /// lock. A CQ that reads without the lock may find an old position. It reads again at the next poll.
    next: AtomicU64,
    late: LateRecvs,
    /// Marks the copies by which the queue places payloads in this process's memory. Used under the lock.
    copier: Arc<Copier>,
    /// Offset of the first slot in the segment, for [`RecvQueue::next_slot`].
    slots: AtomicU64,
    state: Biased<RecvState>,
    /// Reserves the queue's number, so that no other queue gets the record while this queue exists.
    _number: Option<Arc<HeldNumber>>,
    fullness: Fullness,
}

/// The part of a receive queue that its lock protects.
#[derive(Debug)]
struct RecvState {
    layout: RecvLayout,
    /// Position of the next RECV to post. Positions continue through all queues that use the record in turn.
    tail: u64,
    /// Posted RECVs whose completions were not taken.
    outstanding: u32,
    /// The RECV in each slot that was ever used.
    entries: Vec<PostedRecv>,
    /// The SGEs of these RECVs, `max_sge` for each slot.
    sges: Vec<Sge>,
    order: PostOrder,
    /// All RECVs before this position are complete, as far as this process has seen.
    complete: u64,
    /// Position of the next RECV, and the time when a poll first found this RECV claimed but not complete.
    begun: Option<(u64, Instant)>,
    cache: RegionCache,
    /// For the RECV in each slot: the regions that it uses (strict mode), and its slice of the trace. `None`
    /// without strict mode and trace.
    watched: Option<Vec<(Option<Held>, Option<Slice>)>>,
    /// Whether the program has destroyed the queue. Then only untaken completions are left in the queue.
    is_closed: bool,
}

/// Whether each RECV is watched, for strict mode or a trace.
fn is_watched() -> bool {
    Strict::own().is_some() || trace::is_wanted()
}

/// The way in which slots are chosen for RECVs.
#[derive(Debug)]
enum PostOrder {
    /// One slot after the other, in the order of posting.
    InTurn,
    /// Any free slot. The ring at this offset in the segment names the slot of each position. `slots` is a
    /// private copy of the ring.
    ByRing { ring: u64, slots: Box<[u32]>, free: VecDeque<u32> },
}

impl PostOrder {
    fn of(layout: &RecvLayout) -> PostOrder {
        match layout.order {
            SlotOrder::Turn(_) => PostOrder::InTurn,
            SlotOrder::Ring(ring) => PostOrder::ByRing {
                ring,
                slots: vec![0; layout.capacity as usize].into(),
                free: (0..layout.capacity).collect(),
            },
        }
    }
}

/// The private copy of a RECV that the program has posted in a slot.
#[derive(Clone, Copy, Debug, Default)]
struct PostedRecv {
    /// Position of the RECV; `None` once its completion is taken.
    position: Option<u64>,
    wr_id: u64,
    sges: u32,
}

/// A RECV whose completion was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TakenRecv {
    pub(crate) wr_id: u64,
    pub(crate) done: RecvDone,
    /// Whether the payload that the completion carried could be placed in the RECV's buffers.
    pub(crate) placed: bool,
}

impl RecvState {
    fn new(layout: RecvLayout, tail: u64) -> RecvState {
        RecvState {
            layout,
            tail,
            outstanding: 0,
            entries: Vec::new(),
            sges: Vec::new(),
            order: PostOrder::of(&layout),
            complete: tail,
            begun: None,
            cache: RegionCache::default(),
            watched: is_watched().then(|| (0..layout.capacity).map(|_| (None, None)).collect()),
            is_closed: false,
        }
    }

    /// Extends the private copies to all slots up to `index`.
    #[cold]
    fn use_up_to(&mut self, index: u32, max_sge: u32) {
        let slots = index as usize + 1;
        self.entries.resize(slots, PostedRecv::default());
        self.sges.resize(slots * max_sge as usize, Sge::default());
        self.layout.used = index + 1;
    }

    /// Index of the slot that holds, or held, the RECV at a position.
    #[inline]
    fn index_of(&self, position: u64) -> u32 {
        let at = position & u64::from(self.layout.capacity - 1);
        match &self.order {
            PostOrder::InTurn => at as u32,
            PostOrder::ByRing { slots, .. } => slots[at as usize],
        }
    }

    /// The slot of the RECV at a position. If that RECV is not posted yet, it is posted next.
    fn index_of_next(&self, position: u64) -> u32 {
        match &self.order {
            // Without a free slot, none is posted before a completion is taken.
            PostOrder::ByRing { free, .. } if position >= self.tail => {
                free.front().copied().unwrap_or_else(|| self.index_of(position))
            }
            PostOrder::ByRing { .. } | PostOrder::InTurn => self.index_of(position),
        }
    }

    /// The slot that holds, or held, the RECV at a position.
    #[inline]
    fn slot_of(&self, process: &Process, position: u64) -> Option<&'static RqSlot> {
        self.layout.slot(process, self.index_of(position))
    }

    #[inline]
    fn sges_of(&self, index: u32, max_sge: u32) -> &[Sge] {
        sges_of(&self.entries, &self.sges, index, max_sge)
    }

    /// Whether slot `index` holds the RECV at `position`, and the RECV's completion was not taken.
    #[inline]
    fn holds(&self, index: u32, position: u64) -> bool {
        self.entries[index as usize].position == Some(position)
    }
}

impl RecvQueue {
    /// Creates a queue with record `index`.
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
        let copier = process.copier()?;
        let layout = RecvLayout::alloc(process, sizes, senders)?;
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
            capacity: layout.capacity,
            next: AtomicU64::new(tail),
            late: LateRecvs::default(),
            copier,
            slots: AtomicU64::new(layout.slots),
            state: Biased::new(RecvState::new(layout, tail)),
            _number: None,
            fullness: Fullness::new(QueueKind::Recvs, index),
        };
        queue.begin(&layout, tail);
        Ok(queue)
    }

    /// Makes the queue hold this number until the queue is dropped.
    pub(crate) fn with_number(mut self, number: Arc<HeldNumber>) -> RecvQueue {
        self._number = Some(number);
        self
    }

    /// Sets the XRC domain whose QPs may take RECVs from this SRQ; `None` for no domain. Its RECVs complete
    /// in `cq`.
    pub(crate) fn set_domain(&self, domain: Option<DomainId>, cq: u32) {
        self.record.cq.store(cq, Relaxed);
        if let Some(record) = self.process.segment.domain(self.index as usize) {
            // At least Release: a sender that finds the domain also finds the complete queue.
            record.store(domain.map_or(0, DomainId::in_record), SeqCst);
        }
    }

    /// Whether the queue is an XRC SRQ. Messages name such a queue.
    pub(crate) fn is_named(&self) -> bool {
        match self.senders {
            Senders::Named => true,
            Senders::One | Senders::ManyInOrder | Senders::Many => false,
        }
    }

    /// Publishes the queue to senders.
    ///
    /// All other fields are stored before `capacity`, which senders load first, with Acquire. So a sender
    /// that sees the capacity sees all other fields. A sender that loaded the record before this call has the
    /// old generation. This sender claims nothing in this queue, because the slots have the new generation in
    /// their states.
    fn begin(&self, layout: &RecvLayout, tail: u64) {
        let record = self.record;
        record.generation.fetch_add(1, Relaxed);
        record.slots.store(layout.slots, Relaxed);
        let (order, turn) = match layout.order {
            SlotOrder::Turn(at) => (0, at),
            SlotOrder::Ring(at) => (at, 0),
        };
        record.order.store(order, Relaxed);
        record.turn.store(turn, Relaxed);
        record.taken.0.head.store(tail, Relaxed);
        if let Some(turn) = layout.turn(self.process) {
            turn.set_state(SlotState::posted(tail, self.generation()));
        }
        record.posted.0.tail.store(tail, Relaxed);
        record.posted.0.polled.store(tail, Relaxed);
        record.taken.0.polled_seen.store(tail, Relaxed);
        self.next.store(tail, Relaxed);
        self.slots.store(layout.slots, Relaxed);
        record.capacity.store(layout.capacity, Release);
    }

    fn generation(&self) -> u32 {
        self.record.generation.load(Relaxed)
    }

    /// Posts a RECV.
    #[inline]
    pub(crate) fn enqueue(&self, wr_id: u64, sges: &[Sge]) -> Result<(), Refused> {
        if sges.len() > self.max_sge as usize {
            return Err(causes::RECV_NUM_SGE.of([&sges.len(), &self.max_sge]));
        }
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.outstanding >= self.depth && self.senders.are_of_srq() {
            self.reclaim(state);
        }
        if state.outstanding >= self.depth {
            return Err(self.full(state));
        }
        let position = state.tail;
        let index = match &mut state.order {
            PostOrder::InTurn => state.index_of(position),
            PostOrder::ByRing { free, .. } => match free.pop_front() {
                Some(index) => index,
                None => return Err(self.full(state)),
            },
        };
        if index as usize >= state.entries.len() {
            state.use_up_to(index, self.max_sge);
        }
        if state.entries[index as usize].position.is_some() {
            return Err(self.full(state));
        }
        state.entries[index as usize] = PostedRecv { position: None, wr_id, sges: sges.len() as u32 };
        let first = index as usize * self.max_sge as usize;
        state.sges[first..first + sges.len()].copy_from_slice(sges);
        state.outstanding += 1;
        if let Some(watched) = &mut state.watched {
            watched[index as usize] = self.watch(wr_id, sges);
        }
        self.offer(state, index)
    }

    /// The error for a queue that is full.
    #[cold]
    fn full(&self, state: &RecvState) -> Refused {
        if self.depth == 0 {
            return causes::RECV_NONE.bare();
        }
        let refused = causes::RECV_FULL.of([&self.depth]);
        let (record, call) =
            (self.record, if self.senders.are_of_srq() { "ibv_post_srq_recv" } else { "ibv_post_recv" });
        // Relaxed: the tail is only compared with an earlier one, and it orders nothing.
        let posted_now = move || Some(record.posted.0.tail.load(Relaxed));
        refused::full(&self.fullness, Called::verbs(call), &refused, state.tail, posted_now);
        refused
    }

    /// Begins to watch a posted RECV: holds its regions in strict mode, and begins its slice of the trace.
    #[cold]
    fn watch(&self, wr_id: u64, sges: &[Sge]) -> (Option<Held>, Option<Slice>) {
        let held = Strict::own().map(|_| {
            self.check_strictly(wr_id, sges);
            Held::new(sges, Holder::Recvs(self.index))
        });
        let track = match self.index.checked_sub(QPS as u32) {
            Some(srq) => format!("SRQ {srq} RECVs"),
            None => format!("QP {:#x} RECVs", self.process.qp_num(self.index)),
        };
        let room: u64 = sges.iter().map(|sge| u64::from(sge.length)).sum();
        (held, Slice::begin(track, "RECV", wr_id, &format!("\"room\":{room}")))
    }

    /// Reports SGEs of a RECV that may not be used (strict mode). Without strict mode, only the bytes that a
    /// message fills are checked, when the message arrives.
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

    /// Offers the RECV in slot `index` to senders, behind all other RECVs.
    #[inline]
    fn offer(&self, state: &mut RecvState, index: u32) -> Result<(), Refused> {
        let slot = state.layout.slot(self.process, index).ok_or_else(|| causes::RECV_RECORD.bare())?;
        let position = state.tail;
        state.tail += 1;
        state.entries[index as usize].position = Some(position);
        let queue = (self.process.segment, self.record);
        show_posted(queue, slot, (position, self.generation()), state.sges_of(index, self.max_sge));
        if let PostOrder::ByRing { ring, slots, .. } = &mut state.order {
            let at = position & u64::from(state.layout.capacity - 1);
            reach(Point::RecvUnordered);
            slots[at as usize] = index;
            let cell: Option<&AtomicU64> = self.process.segment.in_heap(*ring + 8 * at);
            order_slot(cell.ok_or_else(|| causes::RECV_RECORD.bare())?, position, index);
        }
        Ok(())
    }

    /// The slot of the next RECV in order, and the slot's state while the RECV is posted.
    #[inline]
    pub(crate) fn next_slot(&self) -> Option<(&'static RqSlot, SlotState)> {
        let position = self.next();
        let index = match self.senders.take_in_turn() {
            // Slots are used in order, so no lock is needed to find this one.
            true => position as u32 & (self.capacity - 1),
            false => self.state.lock().index_of_next(position),
        };
        let at = self.slots.load(Relaxed) + u64::from(index) * stride(self.max_sge);
        Some((self.process.segment.in_heap(at)?, SlotState::posted(position, self.generation())))
    }

    /// Position of the next RECV to complete, if completions are in order.
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Relaxed)
    }

    /// Position of the next RECV to post.
    pub(crate) fn tail(&self) -> u64 {
        self.record.posted.0.tail.load(Relaxed)
    }

    /// Position of the first RECV that no sender has claimed; the tail if senders have claimed all RECVs.
    pub(crate) fn first_untaken(&self) -> u64 {
        let state = self.state.lock();
        let turn = state.layout.turn(self.process);
        let is_untaken = |position: &u64| {
            let slot = state.slot_of(self.process, *position);
            slot.is_some_and(|slot| slot.is_untaken(turn, *position, self.generation()))
        };
        (self.next()..state.tail).find(is_untaken).unwrap_or(state.tail)
    }

    /// Takes the completion of the next RECV in order; `None` if that RECV is not complete. But first takes
    /// the completions of RECVs that polls have passed over and that are complete by now.
    #[inline(always)]
    pub(crate) fn take_next(&self) -> Option<TakenRecv> {
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
            // The RECV of this position may have been offered again at a later position.
            if state.holds(index, position) {
                let slot = state.layout.slot(self.process, index)?;
                let posted = SlotState::posted(position, self.generation());
                match slot.state().phase_of(posted)? {
                    SlotPhase::Done => return self.take(state, index, (slot, posted), Some(position)),
                    SlotPhase::Claimed(_) if self.is_stuck(state, position) => {
                        self.late.add(index);
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
        pass(self.record, position);
    }

    /// Whether the claimed RECV at this position must be passed over, because it was first seen claimed more
    /// than [`PATIENCE`] ago. Always `false` for a queue with one sender.
    fn is_stuck(&self, state: &mut RecvState, position: u64) -> bool {
        if self.senders.take_in_turn() {
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

    fn take_late(&self, state: &mut RecvState) -> Option<TakenRecv> {
        let is_it = |index| state.layout.slot(self.process, index).is_some_and(is_done);
        let index = self.late.take(is_it)?;
        let slot = state.layout.slot(self.process, index)?;
        let posted = SlotState::posted(state.entries[index as usize].position?, self.generation());
        self.take(state, index, (slot, posted), None)
    }

    /// Takes the completion of the SRQ's RECV that a notice names. `None` if the completion was taken
    /// already, or if the sender is placing its payload.
    pub(crate) fn take_told(&self, what: RecvNotice) -> Option<TakenRecv> {
        let mut state = self.state.lock();
        let index = what.slot() & (self.capacity - 1);
        let position = state.entries.get(index as usize)?.position?;
        let slot = state.layout.slot(self.process, index)?;
        let posted = SlotState::posted(position, self.generation());
        let is_it = what.is_at(position) && slot.state().phase_of(posted) == Some(SlotPhase::Done);
        if is_it { self.take(&mut state, index, (slot, posted), None) } else { None }
    }

    /// Whether a poll would find the completion of the SRQ's RECV that a notice names. Only a completion that
    /// `wanted` accepts counts.
    pub(crate) fn holds_told(&self, what: RecvNotice, wanted: impl Fn(&RecvDone) -> bool) -> bool {
        let state = self.state.lock();
        let index = what.slot() & (self.capacity - 1);
        let entry = state.entries.get(index as usize);
        let Some(position) = entry.and_then(|entry| entry.position) else { return false };
        what.is_at(position) && self.done_at(&state, position).is_some_and(|done| wanted(&done))
    }

    /// Whether a sender is placing the payload of the SRQ's RECV that a notice names.
    pub(crate) fn is_unfinished(&self, what: RecvNotice) -> bool {
        let state = self.state.lock();
        let index = what.slot() & (self.capacity - 1);
        let entry = state.entries.get(index as usize);
        let is_it = entry.and_then(|entry| entry.position).is_some_and(|position| what.is_at(position));
        let slot = state.layout.slot(self.process, index).filter(|_| is_it);
        slot.is_some_and(|slot| matches!(slot.state().phase(), SlotPhase::Placing(_)))
    }

    /// Whether polls in order would find a completion that `wanted` accepts.
    pub(crate) fn holds_next(&self, wanted: impl Fn(&RecvDone) -> bool) -> bool {
        let state = self.state.lock();
        let late = |index| state.layout.slot(self.process, index).filter(|slot| is_done(slot));
        if self.late.any(|index| late(index).is_some_and(|slot| wanted(&RecvDone::of(slot)))) {
            return true;
        }
        // The RECV of a position may have been offered again at a later position.
        (self.next()..state.tail)
            .filter(|position| state.holds(state.index_of(*position), *position))
            .map_while(|position| self.done_at(&state, position))
            .any(|done| wanted(&done))
    }

    /// The result of the RECV at a position, if it is complete and was not taken.
    fn done_at(&self, state: &RecvState, position: u64) -> Option<RecvDone> {
        let index = state.index_of(position);
        let slot = state.layout.slot(self.process, index).filter(|_| state.holds(index, position))?;
        let posted = SlotState::posted(position, self.generation());
        (slot.state().phase_of(posted) == Some(SlotPhase::Done)).then(|| RecvDone::of(slot))
    }

    /// Frees the slot of the completion that a notice names, if the completion belongs to QP `qpn`. Returns
    /// whether it freed the slot.
    pub(crate) fn drop_told(&self, what: RecvNotice, qpn: u32) -> bool {
        let slot = self.state.lock().layout.slot(self.process, what.slot());
        slot.is_some_and(|slot| RecvDone::of(slot).qpn == qpn) && self.take_told(what).is_some()
    }

    /// Whether any passed-over RECV is left in the queue.
    pub(crate) fn has_late(&self) -> bool {
        self.late.has_any()
    }

    /// Whether the completions of all RECVs before `until` were taken, and no passed-over RECV is left.
    pub(crate) fn is_through(&self, until: u64) -> bool {
        self.next() >= until && !self.has_late()
    }

    /// Position of the first RECV that is not complete yet.
    pub(crate) fn complete_until(&self) -> u64 {
        let mut state = self.state.lock();
        let mut position = state.complete.max(self.next());
        while position < state.tail {
            let posted = SlotState::posted(position, self.generation());
            let slot = state.slot_of(self.process, position);
            if slot.and_then(|slot| slot.state().phase_of(posted)) != Some(SlotPhase::Done) {
                break;
            }
            position += 1;
        }
        state.complete = position;
        position
    }

    /// Frees the slot of a complete RECV, and returns its completion. `passed` is the RECV's position if
    /// completions are taken in order. Returns `None` if the sender is placing the payload, because the RECV
    /// is then not complete.
    #[inline(always)]
    fn take(
        &self,
        state: &mut RecvState,
        index: u32,
        (slot, posted): (&RqSlot, SlotState),
        passed: Option<u64>,
    ) -> Option<TakenRecv> {
        // The program will soon post another RECV in this slot.
        expect_write(slot);
        let is_announced = RecvDone::carried_in(slot) > 0 && self.senders.may_place();
        if is_announced {
            if !begin_taking(self.record, slot, posted) {
                return None;
            }
            reach(Point::TakingBegun);
        }
        // If the sender has placed the payload, the completion carries nothing any more.
        let done = RecvDone::of(slot);
        let placed = done.carried == 0 || self.place_carried(state, index, slot, done.carried.into());
        reach(Point::PayloadPlaced);
        if let Some(position) = passed {
            self.pass(position);
        }
        // In a queue with one sender, the record's polled position shows that the completion is taken: see
        // `Receipt::is_taken`.
        if !self.senders.take_in_turn() {
            slot.set_taken(posted);
        }
        reach(Point::MarkedTaken);
        if is_announced {
            end_taking(self.record, posted);
        }
        let wr_id = state.entries[index as usize].wr_id;
        if let Some(watched) = &mut state.watched
            && let Some(slice) = watched[index as usize].1.take()
        {
            slice.end(status_name(WcStatus::from_c(done.status.into()).unwrap_or_default()), done.byte_len);
        }
        reach(Point::Taking);
        self.release(state, index);
        Some(TakenRecv { wr_id, done, placed })
    }

    /// Places the `len` bytes of payload that a completion carries into the RECV's buffers. Returns whether
    /// all of them were placed.
    #[inline(always)]
    fn place_carried(&self, state: &mut RecvState, index: u32, slot: &RqSlot, len: usize) -> bool {
        let mut carried = Carried::none();
        carried.take(slot, len);
        let RecvState { entries, sges, cache, .. } = state;
        let sges = sges_of(entries, sges, index, self.max_sge);
        let _copying = self.copier.begin();
        place(&self.process.regions, self.pd, cache, sges, &carried)
    }

    /// Frees slot `index` for another RECV.
    fn release(&self, state: &mut RecvState, index: u32) {
        state.entries[index as usize].position = None;
        state.outstanding -= 1;
        if let Some(watched) = &mut state.watched {
            watched[index as usize] = (None, None);
        }
        if let PostOrder::ByRing { free, .. } = &mut state.order {
            free.push_back(index);
        }
    }

    /// Makes room in an SRQ. Frees completions that no poll will take: their QP no longer exists, or the CQ
    /// of their QP is overrun. Offers abandoned RECVs to senders again.
    fn reclaim(&self, state: &mut RecvState) {
        for index in 0..state.layout.used {
            let Some(slot) = state.layout.slot(self.process, index) else { continue };
            let Some(position) = state.entries[index as usize].position else { continue };
            match slot.state().phase() {
                SlotPhase::Done if self.is_lost(&RecvDone::of(slot)) => self.release(state, index),
                _ if self.is_abandoned(slot, position) => {
                    let _ = self.offer(state, index);
                }
                SlotPhase::Placing(who) => self.end_placing(slot, who),
                _ => {}
            }
        }
    }

    /// Whether the RECV at this position was claimed but will not become complete. This is so if the sender
    /// has exited or has given the RECV back.
    fn is_abandoned(&self, slot: &RqSlot, position: u64) -> bool {
        // Acquire, so that the head is loaded before the state. A sender moves the head after its claim. So
        // if the head has passed the RECV, the state loaded below is not older than the claim.
        let is_passed = position < self.record.taken.0.head.load(Acquire);
        let state = slot.state();
        match state.phase() {
            SlotPhase::Claimed(who) => self.process.is_gone(who) && slot.state() == state,
            // A queue with one sender does not move the head.
            SlotPhase::Posted => is_passed,
            SlotPhase::Free | SlotPhase::Done | SlotPhase::Placing(_) => false,
        }
    }

    /// Completes a RECV if process `who`, which was placing its payload, has exited.
    fn end_placing(&self, slot: &RqSlot, who: u32) {
        let state = slot.state();
        if state.phase() == SlotPhase::Placing(who) && self.process.is_gone(who) {
            abandon_placing(slot, state);
        }
    }

    /// Whether no poll will ever take this completion.
    fn is_lost(&self, done: &RecvDone) -> bool {
        let segment = self.process.segment;
        let overrun = |cq: &AtomicU32| {
            segment.cq(cq.load(Relaxed) as usize).is_none_or(|cq| cq.overrun.load(Relaxed) != 0)
        };
        if self.is_named() {
            return overrun(&self.record.cq);
        }
        let Some(qp) = segment.qp(segment.index_of(done.qpn)) else { return true };
        qp.generation.load(Relaxed) != done.generation || overrun(&qp.cq)
    }

    /// Repairs the operations that senders left unfinished when they exited.
    pub(crate) fn recover(&self) {
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.is_closed {
            return;
        }
        match state.layout.turn(self.process) {
            Some(turn) => {
                self.recover_turn(state, turn);
                if let Some(slot) = state.slot_of(self.process, self.next())
                    && let SlotPhase::Placing(who) = slot.state().phase()
                {
                    self.end_placing(slot, who);
                }
                // In a queue with one sender, only a flush claims single slots.
                if !self.is_in_error() {
                    return;
                }
            }
            None if u64::from(state.outstanding) == self.posted() => return,
            None => {}
        }
        for index in 0..state.layout.used {
            let Some(position) = state.entries[index as usize].position else { continue };
            let Some(slot) = state.layout.slot(self.process, index) else { continue };
            if let SlotPhase::Placing(who) = slot.state().phase() {
                self.end_placing(slot, who);
            }
            if !self.is_abandoned(slot, position) {
                continue;
            }
            match state.order {
                // A process that flushed the queue had claimed this slot and exited.
                PostOrder::InTurn => self.write_again(state, position),
                PostOrder::ByRing { .. } => {
                    self.late.remove(index);
                    // The RECV was posted before, so the call finds its slot.
                    let _ = self.offer(state, index);
                }
            }
        }
        // The process that put the QP into Err may have exited before it flushed.
        self.flush_if_in_error();
    }

    /// Repairs an unfinished operation of the only sender, which claims slots by its turn.
    fn recover_turn(&self, state: &RecvState, turn: &SenderTurn) {
        let before = turn.state();
        let SlotPhase::Claimed(who) = before.phase() else { return };
        if !self.process.is_gone(who) {
            return;
        }
        let at = (self.next()..state.tail).find(|position| turn.is_at(*position));
        let is_done = |position: u64| {
            let slot = state.slot_of(self.process, position);
            let posted = SlotState::posted(position, self.generation());
            slot.and_then(|slot| slot.state().phase_of(posted)) == Some(SlotPhase::Done)
        };
        let undone = at.filter(|position| !is_done(*position));
        if let Some(position) = undone {
            self.write_again(state, position);
        }
        // If the RECV is done, or its completion was taken already, the turn passes to the next RECV.
        turn.change(before, undone.map_or(before.next(), |at| SlotState::posted(at, self.generation())));
        self.flush_if_in_error();
    }

    /// Posts the RECV at this position again, in its slot.
    fn write_again(&self, state: &RecvState, position: u64) {
        let index = state.index_of(position);
        if let Some(slot) = state.layout.slot(self.process, index) {
            write_posted(self.process.segment, slot, state.sges_of(index, self.max_sge));
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
            let qpn = self.process.qp_num(self.index);
            flush(&Completer { owner: Owner::This, segment, qp, qpn, srq: None, claimer });
        }
    }

    /// Places the payloads of complete RECVs of QP `qpn` in their buffers. The QP is in Err or being
    /// destroyed, so the program may reuse or deregister the buffers before it polls. A NIC has written the
    /// payloads by then.
    pub(crate) fn settle(&self, qpn: u32) {
        let mut state = self.state.lock();
        let state = &mut *state;
        for index in 0..state.layout.used {
            let Some(slot) = state.layout.slot(self.process, index) else { continue };
            let is_taken = state.entries[index as usize].position.is_some() && has_message(slot);
            if is_taken && RecvDone::of(slot).qpn == qpn {
                self.settle_slot(state, index, slot);
            }
        }
    }

    /// Places the payload that the completion in a slot carries, even if its sender has begun to place it.
    fn settle_slot(&self, state: &mut RecvState, index: u32, slot: &RqSlot) {
        let before = slot.state();
        if matches!(before.phase(), SlotPhase::Placing(_)) {
            abandon_placing(slot, before);
        }
        let done = RecvDone::of(slot);
        if done.carried > 0 {
            let placed = self.place_carried(state, index, slot, done.carried.into());
            let status = if placed { done.status } else { WcStatus::LocProtErr.to_c() as u8 };
            RecvDone { carried: 0, status, ..done }.write(slot);
        }
        if let Some(watched) = &mut state.watched {
            watched[index as usize].0 = None;
        }
    }

    /// Ends the queue, because the program destroys it. No message takes a RECV from then on. Completions
    /// stay until they are taken. A message that a sender is still writing is dropped.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        let state = &mut *state;
        // A sender that loads capacity 0 takes no slot. A sender that loaded the old capacity either claims a
        // slot before the loop below withdraws it, or fails. No slot is posted again in this queue, so the
        // generation need not change.
        self.record.capacity.store(0, Release);
        reach(Point::QueueEnding);
        state.layout.end_turn(self.process);
        for index in 0..state.layout.used {
            let Some(slot) = state.layout.slot(self.process, index) else { continue };
            let before = slot.state();
            if before.phase() == SlotPhase::Posted {
                slot.change(before, SlotState::FREE);
            }
            if state.entries[index as usize].position.is_none() {
                continue;
            }
            if has_message(slot) {
                self.settle_slot(state, index, slot);
            } else {
                self.late.remove(index);
                self.release(state, index);
            }
        }
        state.is_closed = true;
    }

    /// Explains, if necessary, that the queue was full. The program destroys the queue, and the caller holds
    /// no lock.
    pub(crate) fn explain_end(&self) {
        refused::queue_ends(&self.fullness, self.tail());
    }

    /// The QP number in the completion that a notice names; `None` if the queue has no such completion.
    pub(crate) fn qpn_told(&self, what: RecvNotice) -> Option<u32> {
        let state = self.state.lock();
        let index = what.slot() & (self.capacity - 1);
        let position = state.entries.get(index as usize)?.position?;
        let slot = state.layout.slot(self.process, index)?;
        (what.is_at(position) && has_message(slot)).then(|| RecvDone::of(slot).qpn)
    }

    /// Forgets all RECVs, because the QP is reset.
    pub(crate) fn clear(&self) -> Result<(), Errno> {
        let mut state = self.state.lock();
        let mut old = state.layout;
        let tail = state.tail;
        // The generation changes before compare-and-swaps, which are SeqCst too, free the slots. So a sender
        // that finds a slot free reads the new generation from then on. A sender that has read the old
        // generation claims a slot only before the slot is freed, and the loop below sees this claim.
        self.record.generation.fetch_add(1, SeqCst);
        reach(Point::QueueClearing);
        old.end_turn(self.process);
        let is_claimed = |turn: &SenderTurn| matches!(turn.state().phase(), SlotPhase::Claimed(_));
        let mut filled = old.turn(self.process).is_some_and(is_claimed);
        for index in 0..state.layout.used {
            let Some(slot) = old.slot(self.process, index) else { continue };
            let before = slot.state();
            if before.phase() == SlotPhase::Posted && slot.change(before, SlotState::FREE) {
                continue;
            }
            filled |= matches!(slot.state().phase(), SlotPhase::Claimed(_) | SlotPhase::Placing(_));
        }
        let sizes = Sizes { depth: self.depth, max_sge: self.max_sge };
        let layout = if filled {
            let new = RecvLayout::alloc(self.process, sizes, self.senders)?;
            old.free(self.process);
            new
        } else {
            old.clear(self.process);
            old
        };
        *state = RecvState::new(layout, tail);
        self.late.clear();
        self.begin(&layout, tail);
        Ok(())
    }

    /// An upper bound on the number of posted RECVs whose completions were not taken. Valid if completions
    /// are in order.
    pub(crate) fn outstanding(&self) -> u64 {
        self.tail().saturating_sub(self.next())
    }

    /// Number of complete RECVs whose completions were not taken.
    pub(crate) fn complete(&self) -> u64 {
        let state = self.state.lock();
        let is_complete = |index: &u32| {
            let slot = state.layout.slot(self.process, *index);
            state.entries[*index as usize].position.is_some() && slot.is_some_and(has_message)
        };
        (0..state.layout.used).filter(is_complete).count() as u64
    }

    /// Number of posted RECVs that no message has taken.
    pub(crate) fn posted(&self) -> u64 {
        // Relaxed: the number may be old. The fence in `arm_limit` orders the load there.
        self.tail().saturating_sub(self.record.taken.0.head.load(Relaxed))
    }

    /// Arms the SRQ's limit event; a `limit` of 0 disarms it.
    pub(crate) fn arm_limit(&self, limit: u32) {
        // Relaxed: the fence below orders this store.
        self.record.limit.store(limit, Relaxed);
        // The limit is stored before the remaining RECVs are counted. A sender moves `head` before it loads
        // the limit, by a compare-and-swap, which is a fence on x86. So this thread or the sender sees that
        // the event is due.
        fence(SeqCst);
        // The event is due at once if fewer RECVs are left already.
        if self.posted() < u64::from(limit) {
            limit_event(Owner::This, self.record);
        }
    }

    pub(crate) fn limit(&self) -> u32 {
        self.record.limit.load(Relaxed)
    }

    /// The SRQ number and generation that an event carries for this SRQ.
    pub(crate) fn event_identity(&self) -> (u32, u32) {
        (self.record.srq.load(Relaxed), self.generation())
    }
}

impl Drop for RecvQueue {
    fn drop(&mut self) {
        let state = self.state.lock();
        // The generation changes first, as in `clear`. A sender that loads capacity 0 takes no slot.
        self.record.generation.fetch_add(1, SeqCst);
        self.record.capacity.store(0, Release);
        reach(Point::QueueEnding);
        state.layout.end_turn(self.process);
        for index in 0..state.layout.used {
            if let Some(slot) = state.layout.slot(self.process, index) {
                let before = slot.state();
                if before.phase() == SlotPhase::Posted {
                    slot.change(before, SlotState::FREE);
                }
            }
        }
        state.layout.free(self.process);
    }
}

/// Whether a slot holds a message. The message's sender may be placing the payload.
fn has_message(slot: &RqSlot) -> bool {
    matches!(slot.state().phase(), SlotPhase::Done | SlotPhase::Placing(_))
}

fn is_done(slot: &RqSlot) -> bool {
    slot.state().phase() == SlotPhase::Done
}

/// The SGEs of the RECV that is posted in a slot.
#[inline]
fn sges_of<'s>(entries: &[PostedRecv], sges: &'s [Sge], index: u32, max_sge: u32) -> &'s [Sge] {
    let first = index as usize * max_sge as usize;
    &sges[first..first + entries[index as usize].sges as usize]
}

/// Places the payload that a completion carried into the RECV's buffers. Returns whether all of it was
/// placed.
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
        // SAFETY: the copied bytes are within the payload. The buffer is within a region, which the program
        // keeps mapped while it is registered.
        unsafe {
            let from = (payload.addr as *const u8).add(at);
            copy_in_order(from, (found.host + offset) as *mut u8, part);
        }
        at += part;
    }
    at == payload.len
}
