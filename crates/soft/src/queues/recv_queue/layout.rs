//! The layout of a receive queue in the segment.

use crate::errno::{ENOMEM, Errno};
use crate::fabric::process::Process;
use crate::memory::records::{RqSlot, SenderTurn};
use crate::rings::recvs::{SlotPhase, SlotState, stride};
use crate::sync::Anew;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::{Duration, Instant};

/// The senders that take RECVs from a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Senders {
    /// The peer of a connected QP.
    One,
    /// Senders of datagrams to a UD QP. The QP completes its RECVs in order, although several senders take
    /// them.
    ManyInOrder,
    /// Senders to the QPs of an SRQ.
    Many,
    /// Senders to QPs of an XRC domain. Their messages name the SRQ.
    Named,
}

impl Senders {
    /// Whether RECVs are taken, and their slots freed, in the order of posting.
    pub(super) fn take_in_turn(self) -> bool {
        match self {
            Senders::One => true,
            Senders::ManyInOrder | Senders::Many | Senders::Named => false,
        }
    }

    /// Whether a sender may place the payload of its earlier messages in the RECV's buffers. A connected QP
    /// does this before a READ or WRITE that touches the buffers. Datagrams need no such placing.
    pub(super) fn may_place(self) -> bool {
        match self {
            Senders::ManyInOrder => false,
            Senders::One | Senders::Many | Senders::Named => true,
        }
    }

    /// Whether the senders take RECVs from an SRQ.
    pub(super) fn are_of_srq(self) -> bool {
        match self {
            Senders::One | Senders::ManyInOrder => false,
            Senders::Many | Senders::Named => true,
        }
    }
}

/// The capacity of a receive queue: `depth` RECVs of at most `max_sge` SGEs each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) depth: u32,
    pub(crate) max_sge: u32,
}

/// The location and order of a queue's slots in the segment. Offsets are in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecvLayout {
    pub(super) slots: u64,
    pub(super) order: SlotOrder,
    pub(super) capacity: u32,
    max_sge: u32,
    /// Slots from this index on have held no RECV since the queue was created or cleared.
    pub(super) used: u32,
}

/// The way in which senders find the slot of the next RECV.
#[derive(Clone, Copy, Debug)]
pub(super) enum SlotOrder {
    /// Slots are used in order. The only sender's `SenderTurn` is at this offset.
    Turn(u64),
    /// Several senders take RECVs. The ring that names the slot of each RECV is at this offset.
    Ring(u64),
}

impl RecvLayout {
    pub(super) fn alloc(process: &Process, sizes: Sizes, senders: Senders) -> Result<RecvLayout, Errno> {
        let capacity = sizes.depth.max(1).next_power_of_two();
        let mut is_new = true;
        let mut alloc = |bytes: u64| -> Result<u64, Errno> {
            let (at, is_unused) = process.heap.alloc_piece(bytes).ok_or(ENOMEM)?;
            is_new &= is_unused;
            Ok(at)
        };
        let slots = alloc(u64::from(capacity) * stride(sizes.max_sge))?;
        let order = match senders.take_in_turn() {
            true => SlotOrder::Turn(alloc(size_of::<SenderTurn>() as u64)?),
            false => SlotOrder::Ring(alloc(u64::from(capacity) * 8)?),
        };
        // A reused piece of the heap may hold any bytes, so `clear` must reset all slots.
        let mut layout = RecvLayout { slots, order, capacity, max_sge: sizes.max_sge, used: capacity };
        if !is_new {
            layout.clear(process);
        }
        layout.used = 0;
        Ok(layout)
    }

    /// Frees all used slots, and resets the ring or the turn.
    pub(super) fn clear(&mut self, process: &Process) {
        for index in 0..self.used {
            if let Some(slot) = self.slot(process, index) {
                slot.set_state(SlotState::FREE);
            }
        }
        if let SlotOrder::Ring(at) = self.order {
            let cells = (0..u64::from(self.capacity)).map(|position| at + 8 * position);
            for cell in cells.filter_map(|at| process.segment.in_heap::<AtomicU64>(at)) {
                // Relaxed: no sender reads the ring before the record publishes the queue.
                cell.store(0, Relaxed);
            }
        }
        if let Some(turn) = self.turn(process) {
            turn.set_state(SlotState::FREE);
        }
        self.used = 0;
    }

    /// The turn of the only sender; `None` if the queue may have several senders.
    #[inline]
    pub(super) fn turn<'a>(&self, process: &'a Process) -> Option<&'a SenderTurn> {
        match self.order {
            SlotOrder::Turn(at) => process.segment.in_heap(at),
            SlotOrder::Ring(_) => None,
        }
    }

    /// The slot with this index. Its address is computed from private memory, because peers can write to the
    /// shared record.
    #[inline]
    pub(super) fn slot(&self, process: &Process, index: u32) -> Option<&'static RqSlot> {
        let at = u64::from(index & (self.capacity - 1)) * stride(self.max_sge);
        process.segment.in_heap(self.slots + at)
    }

    /// Withdraws the only sender's turn, unless that sender is filling a slot.
    pub(super) fn end_turn(&self, process: &Process) {
        if let Some(turn) = self.turn(process) {
            let state = turn.state();
            if state.phase() == SlotPhase::Posted {
                turn.change(state, SlotState::FREE);
            }
        }
    }

    /// Whether a sender that has not exited is filling a slot or placing a payload.
    fn is_being_filled(&self, process: &Process) -> bool {
        let is_filled = |state: SlotState| match state.phase() {
            SlotPhase::Claimed(who) | SlotPhase::Placing(who) => !process.is_gone(who),
            SlotPhase::Free | SlotPhase::Posted | SlotPhase::Done => false,
        };
        let is_slot_filled =
            |index: u32| self.slot(process, index).is_some_and(|slot| is_filled(slot.state()));
        self.turn(process).is_some_and(|turn| is_filled(turn.state())) || (0..self.used).any(is_slot_filled)
    }

    /// Frees the queue's memory when no live sender is filling its slots any more. The wait for senders
    /// begins with this call, and takes at most 1 ms. After that, a later call of [`sweep`] frees the memory.
    pub(super) fn free(self, process: &'static Process) {
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
        match self.order {
            SlotOrder::Turn(at) => process.heap.free(at, size_of::<SenderTurn>() as u64),
            SlotOrder::Ring(at) => process.heap.free(at, u64::from(self.capacity) * 8),
        }
    }
}

/// Queues that ended while a sender was filling their slots, each with the process that owns the queue. A
/// child of fork(2) may end queues of its parent.
static LIMBO: Anew<Vec<(&Process, RecvLayout)>> = Anew::new(Vec::new());

/// Frees the memory of this process's queues in [`LIMBO`] that no sender is filling any more.
pub(super) fn sweep(process: &'static Process) {
    LIMBO.lock().retain(|(owner, layout)| {
        let stays = !std::ptr::eq(*owner, process) || layout.is_being_filled(process);
        if !stays {
            layout.free_now(process);
        }
        stays
    });
}
