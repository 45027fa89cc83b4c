//! What all rooms share while an event is processed.

use crate::core::index::{FlightId, SegmentId};
use crate::core::payload::PayloadPool;
use crate::core::ps::Ps;
use crate::core::queue::{EventKey, EventQueue, SimEvent};
use crate::core::server::MeterWindow;
use crate::core::slab::Slab;
use crate::fabric::{Fabric, Flight, Segment};
use doorbell_transport::Action;

/// Counts of the whole run.
#[derive(Default)]
pub(crate) struct Totals {
    /// Events processed, and a hash over them.
    pub(crate) events: u64,
    pub(crate) event_hash: u64,
    /// Send work requests completed or handed to the wire for good.
    pub(crate) verbs: u64,
    /// Messages of unreliable transports that have left and that no receiving unit is done with.
    pub(crate) ahead: u64,
    /// Messages that unreliable transports dropped for want of a RECV.
    pub(crate) dropped: u64,
    /// Send work requests that were posted, and their payload in bytes.
    pub(crate) posted: u64,
    pub(crate) posted_bytes: u64,
    /// Messages that took a RECV.
    pub(crate) received: u64,
    /// Payload placed in memory where a work request wanted it, in bytes.
    pub(crate) placed_bytes: u64,
    /// Packets that came to no QP, or led to no port.
    pub(crate) unclaimed: u64,
}

impl Totals {
    /// Counts an event and takes it up in the hash: when it happens, what it is and whom it concerns. What
    /// only wakes threads is not in the hash: it depends on how they wait, not on what happens.
    #[inline]
    pub(crate) fn note(&mut self, event: EventKey) {
        self.events += 1;
        if event.is_wake_up() {
            return;
        }
        let mixed = (self.event_hash ^ event.order).rotate_left(29).wrapping_add(event.time.0);
        self.event_hash = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

/// The time, what is going to happen, and what is under way between devices.
pub(crate) struct Env {
    pub(crate) now: Ps,
    pub(crate) window: MeterWindow,
    pub(crate) queue: EventQueue,
    pub(crate) flights: Slab<FlightId, Flight>,
    /// What frames of TCP under way carry.
    pub(crate) segments: Slab<SegmentId, Segment>,
    pub(crate) payloads: PayloadPool,
    pub(crate) fabric: Fabric,
    /// Reused for what a QP asks for.
    actions: Vec<Action>,
    pub(crate) totals: Totals,
}

impl Env {
    pub(crate) fn new(window: MeterWindow, fabric: Fabric) -> Env {
        Env {
            now: Ps::ZERO,
            window,
            queue: EventQueue::new(),
            flights: Slab::new(Flight::BLANK),
            segments: Slab::new(Segment::BLANK),
            payloads: PayloadPool::new(),
            fabric,
            actions: Vec::with_capacity(64),
            totals: Totals::default(),
        }
    }

    /// Lets something happen after so long.
    #[inline]
    pub(crate) fn after(&mut self, after: Ps, event: SimEvent) {
        self.queue.push(self.now + after, event);
    }

    /// Whether what happens now is metered.
    #[inline]
    pub(crate) fn counts(&self) -> bool {
        self.window.contains(self.now)
    }

    /// Runs something with an empty list for what a QP asks for, which is used again afterwards. The list is without
    /// room of its own only while another is being worked off, as where a QP fails.
    #[inline]
    pub(crate) fn with_actions<R>(&mut self, run: impl FnOnce(&mut Env, &mut Vec<Action>) -> R) -> R {
        let mut actions = std::mem::take(&mut self.actions);
        let done = run(self, &mut actions);
        actions.clear();
        self.actions = actions;
        done
    }

    /// A second arrival of a packet, which takes no room of its own at the port.
    pub(crate) fn copy_flight(&mut self, flight: FlightId) -> FlightId {
        let original = self.flights[flight];
        let len = original.packet.payload_len;
        let payload = self.payloads.take(len);
        if len > 0 {
            self.payloads.copy(payload, original.payload, 0, len);
        }
        self.flights.insert(Flight { payload, link_bytes: 0, twice: false, completion: None, ..original })
    }

    /// Forgets a packet and its payload.
    pub(crate) fn drop_flight(&mut self, flight: FlightId) {
        let Flight { payload, completion, .. } = self.flights[flight];
        self.totals.ahead -= u64::from(completion.is_some());
        self.payloads.give(payload);
        self.flights.free(flight);
    }
}
