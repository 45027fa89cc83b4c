//! Queue pairs, completion queues and receive queues, with what the driver knows of them.

use super::receiving::Flow;
use super::sending::{TxTask, TxWork};
use crate::core::index::{CoreId, CqId, FlightId, Maybe, QpId, RecvQueueId, WqeId};
use crate::core::payload::{Payload, PayloadPool};
use crate::core::ps::Ps;
use crate::core::slab::Slab;
use crate::fabric::{Flight, Row};
use crate::host::{AccessKind, Agent, CoreSet, Host, Ring};
use doorbell_transport::{Qp, RecvQueue};
use doorbell_verbs::{QpInitAttr, QpType, Wc, WcOpcode, WcStatus};
use std::collections::VecDeque;

/// Number of the first QP.
pub(crate) const FIRST_QPN: u32 = 0x40;

/// A send WQE in its slot, beside what `transport` knows of it.
#[derive(Clone, Copy)]
pub(crate) struct WqeSlot {
    /// Inline payload.
    pub(crate) inline: Payload,
    /// Bytes of the WQE.
    pub(crate) bytes: u16,
    /// It came by MMIO rather than by DMA.
    pub(crate) by_mmio: bool,
    /// Number in the order in which WQEs came to be sent.
    pub(crate) entered: u64,
    /// Number in the order in which those were sent that are answered with data.
    pub(crate) asked: u64,
}

impl WqeSlot {
    const EMPTY: WqeSlot = WqeSlot { inline: Payload::EMPTY, bytes: 0, by_mmio: false, entered: 0, asked: 0 };
}

/// The WQEs of a send queue: as `transport`'s queue, with room for as many as have been in use at once, where
/// its depth is a power of two. Those that were posted and whose doorbell has not reached the NIC follow each
/// other, round and round.
pub(crate) struct WqeSlots {
    slots: Box<[WqeSlot]>,
    /// What of a slot's number says where it is: all of it where the depth is no power of two, and there is
    /// room for all.
    mask: u32,
    depth: u32,
    first_posted: u32,
    posted: u32,
}

impl WqeSlots {
    fn new(depth: u32) -> WqeSlots {
        let (room, mask) = if depth.is_power_of_two() { (0, 0) } else { (depth, u32::MAX) };
        WqeSlots {
            slots: vec![WqeSlot::EMPTY; room as usize].into(),
            mask,
            depth,
            first_posted: 0,
            posted: 0,
        }
    }

    /// Where a slot is.
    #[inline]
    fn place(&self, wqe: WqeId) -> usize {
        (wqe.0 & self.mask) as usize
    }

    pub(super) fn bytes(&self, wqe: WqeId) -> u32 {
        self.slots[self.place(wqe)].bytes.into()
    }

    /// Makes room for `in_use` slots in a row, the last of which is `newest` and not yet written.
    #[inline]
    pub(crate) fn make_room(&mut self, newest: WqeId, in_use: u32) {
        if in_use as usize > self.slots.len() {
            self.grow(newest, in_use);
        }
    }

    #[cold]
    fn grow(&mut self, newest: WqeId, in_use: u32) {
        let room = in_use.next_power_of_two();
        let old_mask = std::mem::replace(&mut self.mask, room - 1);
        let old = std::mem::replace(&mut self.slots, vec![WqeSlot::EMPTY; room as usize].into());
        for before in 1..in_use {
            let wqe = WqeId((newest.0 + self.depth - before) % self.depth);
            let place = self.place(wqe);
            self.slots[place] = old[(wqe.0 & old_mask) as usize];
        }
    }

    /// A work request is posted to the slot behind those that are.
    pub(crate) fn post(&mut self, wqe: WqeId) {
        if self.posted == 0 {
            self.first_posted = wqe.0;
        }
        debug_assert_eq!(self.at(self.posted), wqe, "work requests are posted to one slot after another");
        self.posted += 1;
    }

    /// The slots that were posted to last.
    pub(crate) fn last_posted(&self, count: u32) -> impl Iterator<Item = WqeId> {
        (self.posted - count..self.posted).map(|number| self.at(number))
    }

    /// The slot that is so many behind the first that is posted.
    fn at(&self, number: u32) -> WqeId {
        let slot = self.first_posted + number;
        WqeId(if slot < self.depth { slot } else { slot - self.depth })
    }

    /// The posted slot that is so many behind the first.
    pub(super) fn posted(&self, number: u32) -> Option<WqeId> {
        (number < self.posted).then(|| self.at(number))
    }

    /// Takes the first posted slot.
    #[inline]
    pub(super) fn pop_posted(&mut self) -> Option<WqeId> {
        let first = self.posted(0)?;
        self.first_posted = self.at(1).0;
        self.posted -= 1;
        Some(first)
    }
}

/// A QP with what surrounds it in the NIC and the driver. There are many, and each event is of another: so a QP
/// has eight lines of memory, and what is needed together lies together.
#[repr(C, align(64))]
pub(crate) struct QpSlot {
    /// Packets that came in for it, where it is connected.
    pub(crate) flow: Flow,
    /// Time in the metering window that sending units spent on it.
    pub(crate) tx_busy: Ps,
    /// When the pending timer event fires; [`Ps::NEVER`] for none.
    pub(super) timer_at: Ps,
    /// What sending units have to do for it, one at a time.
    pub(super) work: TxWork,
    pub(crate) recv_queue: RecvQueueId,
    /// Answers that wait for memory, and those behind them.
    pub(super) answers: Row,
    /// Requests that wait for their payload, and those behind them.
    pub(super) requests: Row,
    /// Packets that complete their work requests when they leave, and how many of them have left.
    pub(super) leaving: u64,
    pub(super) left: u64,
    pub(crate) send_cq: CqId,
    pub(crate) recv_cq: CqId,
    /// Largest payload of a RECV that comes in the CQE; 0 for none.
    pub(super) max_inl_recv: u32,
    /// How many of the posted WQEs the NIC is reading.
    pub(crate) fetching: u32,
    /// How often it was reset: what was under way then is not of the QP that it is now.
    pub(crate) life: u16,
    pub(crate) alive: bool,
    /// It waits for a sending unit, or is being served.
    pub(super) served: bool,
    /// Its requests are among its work, or being made.
    pub(super) active: bool,
    /// Its next request is the first after it had none, where it is an RC QP.
    pub(super) was_idle: bool,
    pub(crate) wqes: WqeSlots,
    pub(crate) ring: Ring,
    pub(crate) qp: Qp,
    /// How work requests behind such packets ended, each with the number of packets that must leave before;
    /// nowhere as long as there has been none, which takes a quarter of the room of an empty queue.
    #[allow(clippy::box_collection)]
    pub(super) behind: Option<Box<VecDeque<(u64, EndedSend)>>>,
}

const _: () = assert!(size_of::<QpSlot>() == 512);

/// How a send work request ended.
#[derive(Clone, Copy)]
pub(crate) struct EndedSend {
    pub(super) wc: Wc,
    pub(super) wqe: WqeId,
    pub(super) signaled: bool,
}

impl EndedSend {
    /// Whether an answer with data completed it.
    pub(super) fn brought_data(&self) -> bool {
        let answered = matches!(self.wc.opcode, WcOpcode::Read | WcOpcode::CompareSwap | WcOpcode::FetchAdd);
        answered && self.wc.status == WcStatus::Success
    }
}

impl QpSlot {
    pub(crate) fn new(
        qp: Qp,
        attr: &QpInitAttr,
        send_cq: CqId,
        recv_cq: CqId,
        recv_queue: RecvQueueId,
        ring: Ring,
    ) -> QpSlot {
        let depth = attr.cap.max_send_wr;
        QpSlot {
            qp,
            send_cq,
            recv_cq,
            recv_queue,
            alive: true,
            ring,
            wqes: WqeSlots::new(depth.max(1)),
            fetching: 0,
            work: TxWork::NONE,
            served: false,
            tx_busy: Ps::ZERO,
            active: false,
            was_idle: false,
            requests: Row::EMPTY,
            max_inl_recv: attr.max_inl_recv,
            answers: Row::EMPTY,
            flow: Flow::default(),
            timer_at: Ps::NEVER,
            life: 0,
            leaving: 0,
            left: 0,
            behind: None,
        }
    }

    /// Forgets what was posted, as a reset does.
    pub(crate) fn forget(&mut self, payloads: &mut PayloadPool) {
        self.wqes.posted = 0;
        self.fetching = 0;
        self.was_idle = false;
        self.life = self.life.wrapping_add(1);
        self.leaving = 0;
        self.left = 0;
        self.behind = None;
        for wqe in &mut self.wqes.slots {
            payloads.give(std::mem::replace(&mut wqe.inline, Payload::EMPTY));
            wqe.entered = 0;
        }
    }

    #[inline]
    pub(crate) fn wqe(&mut self, wqe: WqeId) -> &mut WqeSlot {
        let place = self.wqes.place(wqe);
        &mut self.wqes.slots[place]
    }

    /// The next task for a sending unit; it is no longer active where all its requests are sent.
    #[inline]
    pub(super) fn next_task(&mut self, flights: &Slab<FlightId, Flight>) -> Option<TxTask> {
        loop {
            match self.work.pop(flights) {
                Some(TxTask::Request) if self.qp.all_sent() => self.active = false,
                task => return task,
            }
        }
    }

    /// Whether it is an RC QP that has nothing to send and waits for no answer.
    #[inline]
    pub(super) fn is_idle(&self) -> bool {
        self.qp.qp_type() == QpType::Rc && self.qp.all_sent() && self.qp.outstanding() == 0
    }
}

/// A completion in a CQ.
#[derive(Clone, Copy)]
pub(crate) struct Cqe {
    pub(crate) wc: Wc,
    pub(crate) qp: QpId,
    /// Which of the QP's lives it is of.
    pub(crate) life: u16,
    /// Slot of the send queue that it frees.
    pub(crate) wqe: Maybe<WqeId>,
    /// Bytes of payload that the driver copies out of it.
    pub(crate) inline: u32,
}

/// A completion queue.
pub(crate) struct CqSlot {
    pub(crate) ring: Ring,
    /// How much longer a completion takes to it.
    pub(super) hop: Ps,
    /// The entry of the ring that becomes visible next, and the one that is polled next.
    written: u32,
    pub(crate) polled: u32,
    /// Completions with when they become visible: those that have, then those on their way to memory.
    cqes: VecDeque<(Ps, Cqe)>,
    /// How many have become visible.
    visible: usize,
    pub(crate) capacity: usize,
    pub(crate) overrun: bool,
    /// Cores whose threads sleep until it has an entry.
    watchers: CoreSet,
    /// There is an event for them when the next completion becomes visible.
    wakes: bool,
    /// There is one for each completion.
    at_once: bool,
}

impl CqSlot {
    /// Empty, to which a completion takes `hop` longer; `at_once`: completions must be taken in when they come.
    pub(crate) fn new(capacity: u32, (ring, hop): (Ring, Ps), at_once: bool) -> CqSlot {
        CqSlot {
            ring,
            hop,
            written: 0,
            polled: 0,
            cqes: VecDeque::new(),
            visible: 0,
            capacity: capacity as usize,
            overrun: false,
            watchers: CoreSet::EMPTY,
            wakes: false,
            at_once,
        }
    }

    /// A completion is on its way. Returns whether there must be an event when it becomes visible.
    pub(super) fn send(&mut self, visible: Ps, cqe: Cqe) -> bool {
        self.cqes.push_back((visible, cqe));
        self.at_once || !self.watchers.is_empty() && !std::mem::replace(&mut self.wakes, true)
    }

    /// Takes in what has become visible by now. Must come before every look.
    #[inline(always)] // Most find nothing to do.
    pub(crate) fn settle(&mut self, host: &mut Host, agent: Agent, now: Ps) {
        while let Some(&(visible, _)) = self.cqes.get(self.visible)
            && visible <= now
        {
            // Elsewhere the lines of a ring have no state that a device could change.
            if self.at_once {
                self.write_entry(host, agent, visible);
            }
            if self.visible == self.capacity {
                self.overrun = true;
                self.cqes.remove(self.visible);
            } else {
                self.visible += 1;
            }
        }
    }

    /// A completion reaches the ring.
    #[cold]
    fn write_entry(&mut self, host: &mut Host, agent: Agent, at: Ps) {
        host.reach_entry(at, agent, self.ring.whole(self.written), AccessKind::Store);
        self.written = self.ring.next(self.written);
    }

    /// Whether nothing has become visible that was not taken.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.visible == 0
    }

    /// Takes the first completion that has become visible.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Cqe> {
        self.visible = self.visible.checked_sub(1)?;
        self.cqes.pop_front().map(|(_, cqe)| cqe)
    }

    /// The first completions that have become visible, `most` of them, each with when it did.
    pub(crate) fn first_visible(&self, most: usize) -> impl Iterator<Item = (Ps, Cqe)> {
        self.cqes.iter().take(self.visible.min(most)).copied()
    }

    /// Whether there is something to be seen now.
    pub(super) fn is_ready(&self, now: Ps) -> bool {
        let next = self.cqes.get(self.visible).is_some_and(|(visible, _)| *visible <= now);
        next || !self.is_empty() || self.overrun
    }

    /// Lets the thread on a core sleep until there is something to be seen. Returns when the event must be
    /// that wakes it, if there must be one more.
    pub(super) fn watch(&mut self, host: &mut Host, core: CoreId) -> Option<Ps> {
        host.add_core(&mut self.watchers, core);
        let (visible, _) = self.cqes.get(self.visible)?;
        (!self.at_once && !std::mem::replace(&mut self.wakes, true)).then_some(*visible)
    }

    /// The cores that sleep; they are woken.
    pub(super) fn take_watchers(&mut self) -> CoreSet {
        self.wakes = false;
        std::mem::take(&mut self.watchers)
    }
}

/// A receive queue, of a QP or shared.
pub(crate) struct RecvSlot {
    pub(crate) queue: RecvQueue,
    pub(crate) ring: Ring,
    /// The entry of the ring that is posted next, and the one that the NIC reads next.
    pub(crate) posted: u32,
    pub(super) read: u32,
    pub(crate) wqe_bytes: u32,
    /// The QP it belongs to; none for an SRQ.
    pub(crate) qp: Maybe<QpId>,
}

impl RecvSlot {
    pub(crate) fn new(queue: RecvQueue, ring: Ring, wqe_bytes: u32, qp: Maybe<QpId>) -> RecvSlot {
        RecvSlot { queue, ring, posted: 0, read: 0, wqe_bytes, qp }
    }
}
