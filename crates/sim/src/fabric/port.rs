//! A port: what leaves and what comes in.

use crate::core::index::{DeviceId, FlightId, Maybe, PortId, UnitId};
use crate::core::ps::Ps;
use crate::core::server::{MeterWindow, MeteredServer};
use doorbell_nic::Link;
use doorbell_nic::cost::WireCost;
use std::collections::VecDeque;

/// A port of a device.
pub(crate) struct Port {
    pub(crate) device: DeviceId,
    /// Its number on the device, from 0.
    pub(crate) number: u8,
    pub(crate) out: MeteredServer,
    pub(crate) into: MeteredServer,
    wire: WireCost,
    /// Packets that may not leave yet, each with the sending unit that stands still for it.
    pub(crate) queue: VecDeque<(FlightId, Maybe<UnitId>)>,
    /// It will be looked at again: at an event, or when its peer has room.
    pub(crate) stalled: bool,
    /// Bytes that still fit into the receive buffer.
    pub(crate) room: u64,
    /// Bytes of it that must be free before those who wait look again.
    pub(crate) least_room: u64,
    /// Ports of others that wait for room here.
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

    /// Whether packets wait before it, or it will be looked at later.
    pub(crate) fn is_blocked(&self) -> bool {
        self.stalled || !self.queue.is_empty()
    }

    /// When it takes packets again, where too many are under way now.
    #[inline]
    pub(super) fn has_too_much(&self, now: Ps) -> Option<Ps> {
        let free_at = self.out.free_at();
        let ahead = Ps(self.wire.ahead);
        (free_at > now + ahead).then(|| free_at - ahead)
    }

    /// How long `bytes` take to pass.
    #[inline]
    fn time(&self, bytes: u32) -> Ps {
        Ps(self.wire.time(bytes.into()))
    }

    /// How long `bytes` take to pass, and how long each of their bits is on its way to the other port.
    pub(crate) fn times(&self, bytes: u32) -> (Ps, Ps) {
        (self.time(bytes), Ps(self.wire.one_way))
    }

    /// Sends `bytes` after what is already under way; returns when the last would be at the other port.
    #[inline]
    pub(super) fn send(&mut self, now: Ps, bytes: u32, window: MeterWindow) -> Ps {
        self.out.serve(now, self.time(bytes), window) + Ps(self.wire.one_way)
    }

    /// Takes in `bytes`, the last of which would have come now were the port not busy with others; returns
    /// when it has.
    #[inline]
    pub(super) fn receive(&mut self, now: Ps, bytes: u32, window: MeterWindow) -> Ps {
        let duration = self.time(bytes);
        self.into.serve(now - duration.min(now), duration, window)
    }
}
