//! A port: its sending and its receiving side.

use crate::core::index::{DeviceId, FlightId, Maybe, PortId, UnitId};
use crate::core::ps::Ps;
use crate::core::server::{MeterWindow, MeteredServer};
use doorbell_nic::Link;
use doorbell_nic::cost::WireCost;
use std::collections::VecDeque;

/// A port of a device.
pub(crate) struct Port {
    pub(crate) device: DeviceId,
    /// The port's number on the device, from 0.
    pub(crate) number: u8,
    pub(crate) out: MeteredServer,
    pub(crate) into: MeteredServer,
    wire: WireCost,
    /// Packets that may not leave yet, each with the sending unit that waits for it.
    pub(crate) queue: VecDeque<(FlightId, Maybe<UnitId>)>,
    /// Whether the port waits for an event, or for room at its peer, before it tries to send again.
    pub(crate) stalled: bool,
    /// Free bytes of the receive buffer.
    pub(crate) room: u64,
    /// Bytes of the buffer that must be free before a waiting port tries to send again.
    pub(crate) least_room: u64,
    /// Ports that wait for room in this port's buffer.
    pub(crate) waiting: VecDeque<PortId>,
}

impl Port {
    pub(super) fn new(device: DeviceId, number: u8, link: &Link, wire: &WireCost) -> Port {
        Port {
            device,
            number,
            out: MeteredServer::default(),
            into: MeteredServer::default(),
            wire: wire.clone(),
            queue: VecDeque::new(),
            stalled: false,
            room: link.receive_buffer.into(),
            least_room: u64::from(link.mtu) / 2,
            waiting: VecDeque::new(),
        }
    }

    /// Whether packets wait at the port, or the port itself waits.
    pub(crate) fn is_blocked(&self) -> bool {
        self.stalled || !self.queue.is_empty()
    }

    /// If the port has accepted too much, returns when it will accept packets again.
    #[inline]
    pub(super) fn has_too_much(&self, now: Ps) -> Option<Ps> {
        let free_at = self.out.free_at();
        let ahead = Ps(self.wire.ahead);
        (free_at > now + ahead).then(|| free_at - ahead)
    }

    /// Time that `bytes` take to pass the port.
    #[inline]
    fn time(&self, bytes: u32) -> Ps {
        Ps(self.wire.time(bytes.into()))
    }

    /// Time that `bytes` take to pass the port, and one-way time of each bit to the peer port.
    pub(crate) fn times(&self, bytes: u32) -> (Ps, Ps) {
        (self.time(bytes), Ps(self.wire.one_way))
    }

    /// Sends `bytes` after the packets in flight. Returns when the last byte would be at the peer port.
    #[inline]
    pub(super) fn send(&mut self, now: Ps, bytes: u32, window: MeterWindow) -> Ps {
        self.out.serve(now, self.time(bytes), window) + Ps(self.wire.one_way)
    }

    /// Receives a packet of `bytes` bytes whose last byte reaches the port now. Returns when the packet has
    /// passed the port: now, or later if the port is busy with other packets.
    #[inline]
    pub(super) fn receive(&mut self, now: Ps, bytes: u32, window: MeterWindow) -> Ps {
        let duration = self.time(bytes);
        self.into.serve(now - duration.min(now), duration, window)
    }
}
