//! Prefetches the data of the next events before their turn comes.
//!
//! A large cluster has more QPs, packets and threads than the caches of the simulating processor hold, and
//! each event touches different ones. Without prefetches, that processor would wait for memory at each event.
//! So the data that an event names is prefetched some events ahead, and later the data that it points to.
//! This changes no result.

use super::state::{Fetched, World};
use crate::core::fetch::{fetch, fetch_lines};
use crate::core::index::{DeviceId, FlightId};
use crate::core::queue::SimEvent;
use crate::device::SimDevice;

/// Numbers of buckets by which data is prefetched before its event. The first is for data that an event
/// names, the second for data to which that data points.
const NAMED: u64 = 10;
const LED_TO: u64 = 5;

/// Cache lines of a thread's stack that its next turn uses, from where the thread stopped.
const STACK: usize = 24;

impl World {
    /// Prefetches for the events that have come near since the last call.
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

    /// Prefetches the QP that sent a packet. A TCP frame has no QP.
    #[inline]
    fn fetch_qp(&self, device: &SimDevice, flight: FlightId) {
        if let Some(slot) = device.qps.get(self.env.flights[flight].from_qp) {
            fetch(slot);
        }
    }

    /// Prefetches the QP that receives a packet, if it exists.
    #[inline]
    fn fetch_receiver(&self, device: DeviceId, flight: FlightId) {
        let device = &self.devices[device];
        let qp = SimDevice::qp_numbered(self.env.flights[flight].packet.dest_qp);
        if let Some(slot) = qp.and_then(|qp| device.qps.get(qp)) {
            fetch(slot);
        }
    }
}
