//! A device: the state of a simulated NIC.

pub(crate) mod cache;
mod dma;
pub(crate) mod pcie;
mod rx;
pub(crate) mod tx;

use crate::core::queue::Event;
use crate::core::server::Link;
use crate::core::slab::{Payload, PayloadPool};
use crate::device::cache::Cache;
use doorbell_nic::Profile;
use doorbell_transport::{AtomicOp, Keys, Packet, Qp, RecvQueue};
use doorbell_verbs::{AhAttr, Wc};
use std::collections::VecDeque;

/// Number of the first QP.
pub(crate) const FIRST_QPN: u32 = 0x40;
/// No number.
pub(crate) const NONE: u32 = u32::MAX;

/// A send WQE in its slot, beside what `transport` knows of it.
#[derive(Clone, Copy)]
pub(crate) struct WqeSlot {
    /// Inline payload.
    pub(crate) inline: Payload,
    /// Bytes of the WQE.
    pub(crate) bytes: u16,
    /// It came by MMIO rather than by DMA.
    pub(crate) by_mmio: bool,
    /// Number in the order in which WQEs entered the WQE cache.
    pub(crate) entered: u64,
}

/// A QP with what surrounds it in the NIC and the driver.
pub(crate) struct QpSlot {
    pub(crate) qp: Qp,
    pub(crate) send_cq: u32,
    pub(crate) recv_cq: u32,
    pub(crate) recv_queue: u32,
    pub(crate) alive: bool,
    pub(crate) wqes: Vec<WqeSlot>,
    /// Slots of WQEs that were posted, in order, whose doorbell has not reached the NIC.
    pub(crate) posted: VecDeque<u32>,
    /// How many of these the NIC is reading.
    pub(crate) fetching: u32,
    /// What sending units have to do for it, one at a time.
    pub(crate) work: VecDeque<TxWork>,
    /// It waits for a sending unit, or is being served.
    pub(crate) served: bool,
    /// Time in the metering window that sending units spent on it.
    pub(crate) tx_busy: u64,
    /// Its requests are among its work, or being made.
    pub(crate) active: bool,
    /// Requests that wait for their payload, and those behind them.
    pub(crate) requests: VecDeque<u32>,
    /// Largest payload of a RECV that comes in the CQE; 0 for none.
    pub(crate) max_inl_recv: u32,
    /// Answers that wait for memory, and those behind them.
    pub(crate) answers: VecDeque<u32>,
    /// Packets that came in for it, where it is connected.
    pub(crate) flow: Flow,
    /// When the pending timer event fires; `u64::MAX` for none.
    pub(crate) timer_at: u64,
}

impl QpSlot {
    /// Forgets what was posted, as a reset does.
    pub(crate) fn forget(&mut self, payloads: &mut PayloadPool) {
        self.posted.clear();
        self.fetching = 0;
        for wqe in &mut self.wqes {
            payloads.give(std::mem::replace(&mut wqe.inline, Payload::EMPTY));
        }
    }
}

/// A completion in a CQ.
#[derive(Clone, Copy)]
pub(crate) struct Cqe {
    pub(crate) wc: Wc,
    pub(crate) qp: u32,
    /// Slot of the send queue that it frees, or [`NONE`].
    pub(crate) slot: u32,
    /// Bytes of payload that the driver copies out of it.
    pub(crate) inline: u32,
}

/// A completion queue.
pub(crate) struct CqSlot {
    pub(crate) entries: VecDeque<Cqe>,
    pub(crate) capacity: usize,
    pub(crate) overrun: bool,
    /// Cores whose threads sleep until it has an entry.
    pub(crate) watchers: u32,
}

/// A receive queue, of a QP or shared.
pub(crate) struct RecvSlot {
    pub(crate) queue: RecvQueue,
    pub(crate) wqe_bytes: u32,
    /// The QP it belongs to, or [`NONE`] for an SRQ.
    pub(crate) qp: u32,
}

/// What a sending unit has to do for a QP.
#[derive(Clone, Copy)]
pub(crate) enum TxWork {
    /// The next request.
    Requests,
    /// An answer that is ready.
    Answer(u32),
}

/// A processing unit for sending.
#[derive(Default)]
pub(crate) struct TxUnit {
    /// The packet it works on, and the QP that it is of.
    pub(crate) current: Option<(u32, u32)>,
    pub(crate) busy: u64,
}

/// Flows of datagrams that a NIC tells apart, as a power of two.
const FLOW_BITS: u32 = 12;

/// Names a flow.
#[derive(Clone, Copy)]
pub(crate) enum FlowId {
    /// Of a connected QP.
    Connection(u32),
    /// Of a UD QP.
    Datagrams(u32),
}

impl FlowId {
    /// The packets that a received one must keep its order with: those of the same connection, or
    /// from the same QP to the same UD QP (and, now and then, of another pair).
    pub(crate) fn of(packet: &Packet, from: u16, qp: u32) -> FlowId {
        match packet.deth {
            None => FlowId::Connection(qp),
            Some(deth) => {
                let pair = packet.dest_qp.wrapping_mul(0x9e37_79b1)
                    ^ deth.src_qp.wrapping_add(u32::from(from) << 16).wrapping_mul(0x85eb_ca6b);
                FlowId::Datagrams(pair >> (32 - FLOW_BITS))
            }
        }
    }
}

/// Received packets that keep their order: one unit at a time looks at them.
#[derive(Clone, Copy)]
pub(crate) struct Flow {
    /// The first and the last that wait, linked by [`Flight::next`]; [`NONE`] for none.
    first: u32,
    last: u32,
    /// It waits for a receiving unit, or has one.
    pub(crate) served: bool,
    /// Time in the metering window that units spent on it.
    pub(crate) busy: u64,
}

impl Default for Flow {
    fn default() -> Flow {
        Flow { first: NONE, last: NONE, served: false, busy: 0 }
    }
}

impl Flow {
    pub(crate) fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// Adds a packet; returns the one that it is linked behind.
    pub(crate) fn push(&mut self, flight: u32) -> Option<u32> {
        let before = (self.first != NONE).then_some(self.last);
        if before.is_none() {
            self.first = flight;
        }
        self.last = flight;
        before
    }

    /// The first packet; the next one is `next`.
    pub(crate) fn pop(&mut self, next: impl FnOnce(u32) -> u32) -> Option<u32> {
        let first = self.first;
        if first == NONE {
            return None;
        }
        self.first = if first == self.last { NONE } else { next(first) };
        Some(first)
    }
}

/// A processing unit for receiving.
#[derive(Default)]
pub(crate) struct RxUnit {
    /// What it works on, until all of that is done.
    pub(crate) flow: Option<FlowId>,
    /// Until when it issues DMAs for the last packet.
    pub(crate) free_at: u64,
    pub(crate) busy: u64,
}

/// A port: what leaves and what comes in.
pub(crate) struct Port {
    pub(crate) out: Link,
    pub(crate) into: Link,
    /// Packets that may not leave yet, with the sending unit that stands still for each, or [`NONE`].
    pub(crate) queue: VecDeque<(u32, u32)>,
    /// It will be looked at again: at an event, or when its peer has room.
    pub(crate) stalled: bool,
    /// Bytes that still fit into the receive buffer.
    pub(crate) room: u64,
    /// Ports of other machines that wait for room here.
    pub(crate) waiting: VecDeque<(u16, u8)>,
}

/// A lock for atomics, and the answers that wait for it.
#[derive(Default)]
pub(crate) struct Lock {
    pub(crate) held: bool,
    pub(crate) since: u64,
    pub(crate) waiting: VecDeque<u32>,
    pub(crate) busy: u64,
}

/// A packet under way, or being made.
#[derive(Clone, Copy)]
pub(crate) struct Flight {
    pub(crate) packet: Packet,
    /// Bytes it takes on the link.
    pub(crate) link_bytes: u32,
    pub(crate) payload: Payload,
    pub(crate) from: (u16, u32),
    /// Machine it goes to, and the QP there, once it is known to exist.
    pub(crate) to: (u16, u32),
    pub(crate) port: u8,
    /// DMA reads it waits for.
    pub(crate) reads: u16,
    /// It may leave.
    pub(crate) ready: bool,
    /// The completion of an unreliable request, due when its last packet leaves.
    pub(crate) completion: Option<(Wc, u32, bool)>,
    /// The atomic it is the answer to.
    pub(crate) atomic: Option<PendingAtomic>,
    /// The receiving unit that looks at it or, of an answer, that stands still until its atomic has
    /// the lock; or [`NONE`].
    pub(crate) rx_unit: u32,
    /// The packet that waits behind it for a receiving unit.
    pub(crate) next: u32,
    /// Slot, first byte and length of the part of a work request's message that it carries.
    pub(crate) gather: (u32, u32, u32),
}

impl Flight {
    /// A packet of QP `from` to a machine by a port, still without payload.
    pub(crate) fn new(packet: Packet, link_bytes: u32, from: (u16, u32), to: u16, port: u8) -> Flight {
        Flight {
            packet,
            link_bytes,
            payload: Payload::EMPTY,
            from,
            to: (to, NONE),
            port,
            reads: 0,
            ready: false,
            completion: None,
            atomic: None,
            rx_unit: NONE,
            next: NONE,
            gather: (0, 0, 0),
        }
    }
}

/// An atomic to execute.
#[derive(Clone, Copy)]
pub(crate) struct PendingAtomic {
    pub(crate) addr: u64,
    pub(crate) op: AtomicOp,
    pub(crate) resource: u8,
    pub(crate) original: u64,
}

/// What a DMA read is for.
#[derive(Clone, Copy)]
pub(crate) enum ReadPurpose {
    /// Send WQEs that a doorbell announced.
    SendWqes { qp: u32, count: u16 },
    /// RECV WQEs.
    RecvWqes { recv_queue: u32, count: u16 },
    /// `len` bytes at `addr` for the payload of a packet, from `into` on.
    Payload { flight: u32, addr: u64, into: u32 },
    /// The word of an atomic.
    Atomic { flight: u32 },
    /// Something that fell out of a cache.
    Refetch,
}

/// A DMA read under way.
#[derive(Clone, Copy)]
pub(crate) struct DmaRead {
    pub(crate) machine: u16,
    pub(crate) bytes: u32,
    pub(crate) purpose: ReadPurpose,
}

/// What a DMA write writes.
#[derive(Clone, Copy)]
pub(crate) enum Written {
    /// `len` bytes of a payload to `addr`; `done` of them are visible.
    Data { addr: u64, payload: Payload, payload_offset: u32, len: u32, done: u32 },
    /// A word, of an atomic at its target or of its result.
    Word { addr: u64, value: u64 },
    /// A completion.
    Cqe { cq: u32, cqe: Cqe },
}

/// A DMA write under way.
#[derive(Clone, Copy)]
pub(crate) struct DmaWrite {
    pub(crate) machine: u16,
    pub(crate) written: Written,
    /// Picoseconds from one line to the next.
    pub(crate) per_line: u64,
}

/// A NIC.
pub(crate) struct NicState {
    pub(crate) qps: Vec<QpSlot>,
    pub(crate) cqs: Vec<Option<CqSlot>>,
    pub(crate) recv_queues: Vec<RecvSlot>,
    pub(crate) ahs: Vec<Option<AhAttr>>,
    pub(crate) pds: u32,
    pub(crate) keys: Keys,
    pub(crate) tx: Vec<TxUnit>,
    /// Sending units that have nothing to do.
    pub(crate) tx_idle: Vec<u16>,
    /// QPs that wait for a sending unit.
    pub(crate) tx_waiting: VecDeque<u32>,
    pub(crate) rx: Vec<RxUnit>,
    /// Receiving units that have nothing to do; the last is taken first.
    pub(crate) rx_idle: Vec<u16>,
    /// Flows that wait for a receiving unit.
    pub(crate) rx_waiting: VecDeque<FlowId>,
    /// Flows of datagrams.
    pub(crate) datagrams: Vec<Flow>,
    pub(crate) ports: Vec<Port>,
    pub(crate) locks: Vec<Lock>,
    /// WQEs that have entered the WQE cache, in which the oldest make room.
    pub(crate) wqes_entered: u64,
    pub(crate) wqe_hits: u64,
    pub(crate) wqe_misses: u64,
    pub(crate) requester_contexts: Cache,
    pub(crate) responder_contexts: Cache,
    pub(crate) translations: Cache,
    /// DMA reads outstanding, and those that wait for a tag.
    pub(crate) reads: u32,
    pub(crate) reads_waiting: VecDeque<u32>,
}

impl NicState {
    pub(crate) fn new(profile: &Profile) -> NicState {
        let port = || Port {
            out: Link::new(profile.link.port_bytes_per_s),
            into: Link::new(profile.link.port_bytes_per_s),
            queue: VecDeque::new(),
            stalled: false,
            room: u64::from(profile.link.receive_buffer),
            waiting: VecDeque::new(),
        };
        NicState {
            qps: Vec::new(),
            cqs: Vec::new(),
            recv_queues: Vec::new(),
            ahs: Vec::new(),
            pds: 0,
            keys: Keys::default(),
            tx: (0..profile.tx.units).map(|_| TxUnit::default()).collect(),
            tx_idle: (0..profile.tx.units as u16).rev().collect(),
            tx_waiting: VecDeque::new(),
            rx_idle: (0..profile.rx.units as u16).rev().collect(),
            rx_waiting: VecDeque::new(),
            datagrams: vec![Flow::default(); 1 << FLOW_BITS],
            rx: (0..profile.rx.units).map(|_| RxUnit::default()).collect(),
            ports: (0..profile.link.ports).map(|_| port()).collect(),
            locks: (0..profile.atomics.slots).map(|_| Lock::default()).collect(),
            wqes_entered: 0,
            wqe_hits: 0,
            wqe_misses: 0,
            requester_contexts: Cache::new(profile.caches.requester_entries as usize),
            responder_contexts: Cache::new(profile.caches.responder_entries as usize),
            translations: Cache::new(profile.caches.translation_entries as usize),
            reads: 0,
            reads_waiting: VecDeque::new(),
        }
    }

    /// Index of the QP with this number, if it lives.
    pub(crate) fn find_qp(&self, qpn: u32) -> Option<u32> {
        let index = qpn.checked_sub(FIRST_QPN)?;
        self.qps.get(index as usize).filter(|q| q.alive)?;
        Some(index)
    }

    pub(crate) fn flow(&mut self, id: FlowId) -> &mut Flow {
        match id {
            FlowId::Connection(qp) => &mut self.qps[qp as usize].flow,
            FlowId::Datagrams(n) => &mut self.datagrams[n as usize],
        }
    }
}

/// The event of a sending unit.
pub(crate) fn tx_event(machine: u16, unit: usize) -> Event {
    Event::TxPu { machine, unit: unit as u16 }
}
