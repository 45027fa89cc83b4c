//! What the next events look at is fetched before their turn comes.
//!
//! A large cluster has more QPs, packets and threads than a processor's caches hold, and each event is of
//! others than the one before: the processor would wait for all of them, one after another. So they are asked
//! for some events ahead: first what an event names, then what that leads to. This changes nothing that happens.

use super::state::{Fetched, World};
use crate::core::fetch::{fetch, fetch_lines};
use crate::core::index::{DeviceId, FlightId};
use crate::core::queue::SimEvent;
use crate::device::SimDevice;

/// Buckets of the queue that what an event names is fetched ahead, and what that leads to.
const NAMED: u64 = 10;
const LED_TO: u64 = 5;

/// Lines of a thread's stack, from where it stopped, that its next turn uses.
const STACK: usize = 24;

impl World {
    /// Fetches for the events that have come near since it last did.
    #[inline(never)]
    pub(super) fn fetch_ahead(&mut self) {
        let World { env, ahead, .. } = &*self;
        let named = env.queue.show(ahead.named, NAMED, |event| self.fetch_named(event.event()));
        let led_to = env.queue.show(ahead.led_to, LED_TO, |event| self.fetch_led_to(event.event()));
        self.ahead = Fetched { named, led_to };
    }

    #[inline]
    fn fetch_named(&self, event: SimEvent) {
        match event {
            SimEvent::Thread(thread) => fetch(&self.threads[thread]),
            SimEvent::Arrive { flight, .. }
            | SimEvent::Ingress { flight, .. }
            | SimEvent::RxDone { flight, .. }
            | SimEvent::TxPu { flight, .. } => fetch(&self.env.flights[flight]),
            SimEvent::ReadAtHost { device, read } | SimEvent::ReadDone { device, read } => {
                if let Some(flight) = self.devices[device].reads_for(read) {
                    fetch(&self.env.flights[flight]);
                }
            }
            SimEvent::Mmio { device, qp, .. } | SimEvent::Timer { device, qp } => {
                fetch(&self.devices[device].qps[qp])
            }
            _ => {}
        }
    }

    #[inline]
    fn fetch_led_to(&self, event: SimEvent) {
        match event {
            SimEvent::Thread(thread) => fetch_lines(self.threads[thread].stopped_at, STACK),
            SimEvent::Arrive { device, flight, .. }
            | SimEvent::Ingress { device, flight, .. }
            | SimEvent::RxDone { device, flight, .. } => self.fetch_receiver(device, flight),
            SimEvent::TxPu { device, flight, .. } => {
                fetch(&self.devices[device].qps[self.env.flights[flight].from_qp])
            }
            SimEvent::ReadDone { device, read } => {
                let device = &self.devices[device];
                if let Some(flight) = device.reads_for(read) {
                    self.fetch_qp(device, flight);
                }
            }
            _ => {}
        }
    }

    /// The QP that a packet is of; a frame of TCP is of none.
    #[inline]
    fn fetch_qp(&self, device: &SimDevice, flight: FlightId) {
        if let Some(slot) = device.qps.get(self.env.flights[flight].from_qp) {
            fetch(slot);
        }
    }

    /// The QP that a packet is for, if there is one.
    #[inline]
    fn fetch_receiver(&self, device: DeviceId, flight: FlightId) {
        let device = &self.devices[device];
        let qp = SimDevice::qp_numbered(self.env.flights[flight].packet.dest_qp);
        if let Some(slot) = qp.and_then(|qp| device.qps.get(qp)) {
            fetch(slot);
        }
    }
}
