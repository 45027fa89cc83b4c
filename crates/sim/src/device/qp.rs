//! Queue pairs, completion queues and receive queues, with the driver's state of them.

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

/// State of a send WQE in its slot, besides the state that `transport` keeps.
#[derive(Clone, Copy)]
pub(crate) struct WqeSlot {
    /// Inline payload.
    pub(crate) inline: Payload,
    /// Bytes of the WQE.
    pub(crate) bytes: u16,
    /// Whether the WQE came by MMIO rather than by DMA.
    pub(crate) by_mmio: bool,
    /// Number of the WQE in the cache of WQEs to be sent, see [`super::caches::WqeCache`].
    pub(crate) entered: u64,
    /// Number of the WQE in the cache of sent WQEs that are answered with data.
    pub(crate) asked: u64,
}

impl WqeSlot {
    /// Value of `entered` for a WQE that has not entered the cache.
    pub(crate) const NOT_ENTERED: u64 = 0;

    const EMPTY: WqeSlot =
        WqeSlot { inline: Payload::EMPTY, bytes: 0, by_mmio: false, entered: WqeSlot::NOT_ENTERED, asked: 0 };
}

/// The WQEs of a send queue, by the slot numbers of `transport`'s queue. If the depth is a power of two, the
/// storage is only as large as the most WQEs that were in use at a time. The posted WQEs, whose doorbell has
/// not reached the NIC, are consecutive and wrap around.
pub(crate) struct WqeSlots {
    slots: Box<[WqeSlot]>,
    /// Mask that gives the storage index of a slot's number. If the depth is no power of two, all slots have
    /// storage, and the mask has all bits.
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

    /// The storage index of a slot.
    #[inline]
    fn place(&self, wqe: WqeId) -> usize {
        (wqe.0 & self.mask) as usize
    }

    pub(super) fn bytes(&self, wqe: WqeId) -> u32 {
        self.slots[self.place(wqe)].bytes.into()
    }

    /// Makes room for `in_use` consecutive slots. The last is `newest`, which is not yet written.
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

    /// Posts a work request to the slot after the posted slots.
    pub(crate) fn post(&mut self, wqe: WqeId) {
        if self.posted == 0 {
            self.first_posted = wqe.0;
        }
        debug_assert_eq!(self.at(self.posted), wqe, "work requests are posted to consecutive slots");
        self.posted += 1;
    }

    /// The last `count` posted slots.
    pub(crate) fn last_posted(&self, count: u32) -> impl Iterator<Item = WqeId> {
        (self.posted - count..self.posted).map(|number| self.at(number))
    }

    /// The slot `number` slots after the first posted slot.
    fn at(&self, number: u32) -> WqeId {
        let slot = self.first_posted + number;
        WqeId(if slot < self.depth { slot } else { slot - self.depth })
    }

    /// The posted slot `number` slots after the first, if there is one.
    pub(super) fn posted(&self, number: u32) -> Option<WqeId> {
        (number < self.posted).then(|| self.at(number))
    }

    /// Removes the first posted slot.
    #[inline]
    pub(super) fn pop_posted(&mut self) -> Option<WqeId> {
        let first = self.posted(0)?;
        self.first_posted = self.at(1).0;
        self.posted -= 1;
        Some(first)
    }
}

/// A QP with its state in the NIC and the driver. There are many QPs, and successive events concern different
/// ones. So a QP has only eight cache lines, and fields that are used together are neighbours.
#[repr(C, align(64))]
pub(crate) struct QpSlot {
    /// Inbound packets of the QP, if it is connected.
    pub(crate) flow: Flow,
    /// Time in the metering window that sending units spent on the QP.
    pub(crate) tx_busy: Ps,
    /// When the pending timer event fires; [`Ps::NEVER`] for none.
    pub(super) timer_at: Ps,
    /// Tasks of sending units for this QP, one at a time.
    pub(super) work: TxWork,
    pub(crate) recv_queue: RecvQueueId,
    /// Responses that wait for memory, and responses behind them.
    pub(super) answers: Row,
    /// Requests that wait for their payload, and requests behind them.
    pub(super) requests: Row,
    /// Number of packets that complete their work requests when they leave. The next field is the number of
    /// these packets that have left.
    pub(super) leaving: u64,
    pub(super) left: u64,
    pub(crate) send_cq: CqId,
    pub(crate) recv_cq: CqId,
    /// Largest payload that goes into the CQE of a RECV, in bytes; 0 for none.
    pub(super) max_inl_recv: u32,
    /// Number of posted WQEs that the NIC is reading.
    pub(crate) fetching: u32,
    /// Number of resets. Work from before a reset does not concern the QP's present life.
    pub(crate) life: u16,
    pub(crate) alive: bool,
    /// Whether the QP waits for a sending unit or is being served.
    pub(super) served: bool,
    /// Whether requests are among the QP's tasks, or one is being made.
    pub(super) active: bool,
    /// Whether the next request of an RC QP is the first after an idle time.
    pub(super) was_idle: bool,
    pub(crate) wqes: WqeSlots,
    pub(crate) ring: Ring,
    pub(crate) qp: Qp,
    /// Ended work requests that wait until packets have left, each with the value of `left` for which it
    /// waits. `None` until one must wait, because `None` takes a quarter of the memory of an empty queue.
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
    /// Whether the NIC needs the WQE at the end: to place a response's data, or to write a CQE.
    pub(super) fn needs_wqe(&self) -> bool {
        self.brought_data() || self.signaled && self.wc.status == WcStatus::Success
    }

    /// Whether a response with data completed the work request.
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

    /// Forgets everything that was posted, as a reset does.
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
            wqe.entered = WqeSlot::NOT_ENTERED;
        }
    }

    #[inline]
    pub(crate) fn wqe(&mut self, wqe: WqeId) -> &mut WqeSlot {
        let place = self.wqes.place(wqe);
        &mut self.wqes.slots[place]
    }

    /// The next task for a sending unit. The QP becomes inactive when all its requests are sent.
    #[inline]
    pub(super) fn next_task(&mut self, flights: &Slab<FlightId, Flight>) -> Option<TxTask> {
        loop {
            match self.work.pop(flights) {
                Some(TxTask::Request) if self.qp.all_sent() => self.active = false,
                task => return task,
            }
        }
    }

    /// Whether this is an RC QP that has nothing to send and waits for no response.
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
    /// The QP's life in which the work request was posted.
    pub(crate) life: u16,
    /// The send queue slot that polling the completion frees.
    pub(crate) wqe: Maybe<WqeId>,
    /// Bytes of inline payload that the driver copies out of the CQE.
    pub(crate) inline: u32,
}

/// A completion queue.
pub(crate) struct CqSlot {
    pub(crate) ring: Ring,
    /// Extra time that a completion takes to reach this CQ.
    pub(super) hop: Ps,
    /// The entry of the ring that becomes visible next, and the entry that is polled next.
    written: u32,
    pub(crate) polled: u32,
    /// Completions with their times of visibility: visible ones first, then those on their way to memory.
    cqes: VecDeque<(Ps, Cqe)>,
    /// Number of visible completions.
    visible: usize,
    pub(crate) capacity: usize,
    pub(crate) overrun: bool,
    /// Cores whose threads sleep until the CQ has an entry.
    watchers: CoreSet,
    /// Whether an event for the watchers is scheduled for the next completion.
    wakes: bool,
    /// Whether there is an event for each completion.
    at_once: bool,
}

impl CqSlot {
    /// An empty CQ. A completion takes `hop` longer to reach it. With `at_once`, each completion must be
    /// handled when it becomes visible.
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

    /// Adds a completion that is on its way. Returns whether there must be an event when it becomes visible.
    pub(super) fn send(&mut self, visible: Ps, cqe: Cqe) -> bool {
        self.cqes.push_back((visible, cqe));
        self.at_once || !self.watchers.is_empty() && !std::mem::replace(&mut self.wakes, true)
    }

    /// Counts the completions that are visible at `now`. Must be called before each read of the CQ.
    #[inline(always)] // Mostly there is nothing to do.
    pub(crate) fn settle(&mut self, host: &mut Host, agent: Agent, now: Ps) {
        while let Some(&(visible, _)) = self.cqes.get(self.visible)
            && visible <= now
        {
            // In the flat memory model, a ring's lines have no state that a device could change.
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

    /// Writes a completion to the ring.
    #[cold]
    fn write_entry(&mut self, host: &mut Host, agent: Agent, at: Ps) {
        host.reach_entry(at, agent, self.ring.whole(self.written), AccessKind::Store);
        self.written = self.ring.next(self.written);
    }

    /// Whether no visible completion is left to take.
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

    /// The first `most` visible completions, each with the time at which it became visible.
    pub(crate) fn first_visible(&self, most: usize) -> impl Iterator<Item = (Ps, Cqe)> {
        self.cqes.iter().take(self.visible.min(most)).copied()
    }

    /// Whether a poll of the CQ would find something now.
    pub(super) fn is_ready(&self, now: Ps) -> bool {
        let next = self.cqes.get(self.visible).is_some_and(|(visible, _)| *visible <= now);
        next || !self.is_empty() || self.overrun
    }

    /// Lets the thread on a core sleep until a poll of the CQ would find something. Returns the time of the
    /// event that must wake the thread, if no such event is scheduled yet.
    pub(super) fn watch(&mut self, host: &mut Host, core: CoreId) -> Option<Ps> {
        host.add_core(&mut self.watchers, core);
        let (visible, _) = self.cqes.get(self.visible)?;
        (!self.at_once && !std::mem::replace(&mut self.wakes, true)).then_some(*visible)
    }

    /// Removes and returns the cores that sleep. The caller wakes them.
    pub(super) fn take_watchers(&mut self) -> CoreSet {
        self.wakes = false;
        std::mem::take(&mut self.watchers)
    }
}

/// A receive queue: a QP's own or a shared one.
pub(crate) struct RecvSlot {
    pub(crate) queue: RecvQueue,
    pub(crate) ring: Ring,
    /// The entry of the ring that is posted next, and the entry that the NIC reads next.
    pub(crate) posted: u32,
    pub(super) read: u32,
    pub(crate) wqe_bytes: u32,
    /// The QP that owns the queue; none for an SRQ.
    pub(crate) qp: Maybe<QpId>,
}

impl RecvSlot {
    pub(crate) fn new(queue: RecvQueue, ring: Ring, wqe_bytes: u32, qp: Maybe<QpId>) -> RecvSlot {
        RecvSlot { queue, ring, posted: 0, read: 0, wqe_bytes, qp }
    }
}
