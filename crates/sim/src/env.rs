//! State that all parts of the simulator share while an event is processed.

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
    /// Send work requests that have completed, or would have completed if their QP had not been reset.
    pub(crate) verbs: u64,
    /// Messages of unreliable transports that have left, and that no receiving unit has finished yet.
    pub(crate) ahead: u64,
    /// Messages of unreliable transports that were dropped because no RECV was posted.
    pub(crate) dropped: u64,
    /// Posted send work requests, and their payload in bytes.
    pub(crate) posted: u64,
    pub(crate) posted_bytes: u64,
    /// Messages that consumed a RECV.
    pub(crate) received: u64,
    /// Payload bytes written to the addresses that work requests gave.
    pub(crate) placed_bytes: u64,
    /// Packets that reached no QP or no port.
    pub(crate) unclaimed: u64,
}

impl Totals {
    /// Counts an event and adds it to the hash: its time, its kind and the thing it concerns. Wake-up events
    /// are not hashed, because they depend on how threads wait and not on the simulated events.
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

/// The clock, the pending events, and everything in flight between devices.
pub(crate) struct Env {
    pub(crate) now: Ps,
    pub(crate) window: MeterWindow,
    pub(crate) queue: EventQueue,
    pub(crate) flights: Slab<FlightId, Flight>,
    /// Contents of TCP frames in flight.
    pub(crate) segments: Slab<SegmentId, Segment>,
    pub(crate) payloads: PayloadPool,
    pub(crate) fabric: Fabric,
    /// Reused list of actions that a QP requests.
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

    /// Schedules an event `after` from now.
    #[inline]
    pub(crate) fn after(&mut self, after: Ps, event: SimEvent) {
        self.queue.push(self.now + after, event);
    }

    /// Whether the present lies within the metering window.
    #[inline]
    pub(crate) fn counts(&self) -> bool {
        self.window.contains(self.now)
    }

    /// Runs `run` with an empty list for the actions that a QP requests. The list's memory is reused
    /// afterwards. A nested call gets a list without capacity: this happens when a QP fails while actions are
    /// processed.
    #[inline]
    pub(crate) fn with_actions<R>(&mut self, run: impl FnOnce(&mut Env, &mut Vec<Action>) -> R) -> R {
        let mut actions = std::mem::take(&mut self.actions);
        let done = run(self, &mut actions);
        actions.clear();
        self.actions = actions;
        done
    }

    /// Creates the second arrival of a duplicated packet. It takes no receive buffer of its own at the port.
    pub(crate) fn copy_flight(&mut self, flight: FlightId) -> FlightId {
        let original = self.flights[flight];
        let len = original.packet.payload_len;
        let payload = self.payloads.take(len);
        if len > 0 {
            self.payloads.copy(payload, original.payload, 0, len);
        }
        self.flights.insert(Flight { payload, link_bytes: 0, twice: false, completion: None, ..original })
    }

    /// Frees a packet and its payload.
    pub(crate) fn drop_flight(&mut self, flight: FlightId) {
        let Flight { payload, completion, .. } = self.flights[flight];
        self.totals.ahead -= u64::from(completion.is_some());
        self.payloads.give(payload);
        self.flights.free(flight);
    }
}
