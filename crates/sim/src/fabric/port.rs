//! A port: what leaves and what comes in.

use crate::core::index::{DeviceId, FlightId, Maybe, PortId, UnitId};
use crate::core::server::Link;
use doorbell_nic::Link as LinkProfile;
use std::collections::VecDeque;

/// A port of a device.
pub(crate) struct Port {
    pub(crate) device: DeviceId,
    /// Its number on the device, from 0.
    pub(crate) number: u8,
    pub(crate) out: Link,
    pub(crate) into: Link,
    /// Picoseconds from this port to any other.
    pub(crate) one_way: u64,
    /// How far ahead it takes packets to send, in picoseconds: the time of one of the MTU.
    ahead: u64,
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
    pub(super) fn new(device: DeviceId, number: u8, link: &LinkProfile) -> Port {
        let out = Link::new(link.port_bytes_per_s);
        Port {
            device,
            number,
            ahead: out.duration(link.mtu.into()),
            out,
            into: Link::new(link.port_bytes_per_s),
            one_way: link.one_way.as_ps(),
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
    pub(super) fn has_too_much(&self, now: u64) -> Option<u64> {
        (self.out.free_at() > now + self.ahead).then(|| self.out.free_at() - self.ahead)
    }
}
