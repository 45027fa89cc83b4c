//! What lies between devices: ports, and the way from one to another.

mod flight;
mod layers;
mod port;
mod segment;

pub(crate) use flight::{Flight, Gather, OwnCompletion, PendingAtomic, Row};
pub use layers::Layers;
pub(crate) use port::Port;
pub(crate) use segment::{Segment, SegmentControl, SegmentTo};

use crate::core::index::{DeviceId, FlightId, IdVec, Maybe, PortId, UnitId};
use crate::core::ps::Ps;
use crate::core::queue::{EventQueue, SimEvent};
use crate::core::server::MeterWindow;
use crate::core::slab::Slab;
use doorbell_nic::Link;
use doorbell_nic::cost::WireCost;
use layers::{Fate, LinkLayers};
use std::collections::HashMap;

/// First LID of the fabric; ports have theirs in the order in which they are made.
const FIRST_LID: u16 = 1;

/// Ports, and what is lost between them.
pub(crate) struct Fabric {
    pub(crate) ports: IdVec<PortId, Port>,
    layers: LinkLayers,
    /// The port whose receiving side has room again, for which others may wait.
    made_room: Option<PortId>,
    /// When packets that were held up arrive, and for how long they were. Their numbers may be those of others
    /// since.
    held_up: HashMap<FlightId, (Ps, Ps)>,
}

impl Fabric {
    pub(crate) fn new(layers: Layers, seed: u64) -> Fabric {
        Fabric {
            ports: IdVec::new(),
            layers: LinkLayers::new(layers, seed),
            made_room: None,
            held_up: HashMap::new(),
        }
    }

    /// Adds the ports of a device; returns the first.
    pub(crate) fn add_ports(&mut self, device: DeviceId, link: &Link, wire: &WireCost) -> PortId {
        let first = PortId(self.ports.len() as u32);
        for number in 0..link.ports {
            self.ports.push(Port::new(device, number as u8, link, wire));
            self.layers.add_link();
        }
        first
    }

    /// Packets that were lost on their way.
    pub(crate) fn lost(&self) -> u64 {
        self.layers.lost
    }

    /// For how long a packet that arrives now was held up.
    pub(crate) fn held_up(&self, now: Ps, flight: FlightId) -> Ps {
        self.held_up.get(&flight).filter(|(arrives, _)| *arrives == now).map_or(Ps::ZERO, |(_, late)| *late)
    }

    /// The LID of a port.
    pub(crate) fn lid(&self, port: PortId) -> u16 {
        FIRST_LID + port.0 as u16
    }

    /// The port with this LID, where `from` reaches it: port p of a device reaches only ports p of others.
    pub(crate) fn reached(&self, from: PortId, lid: u16) -> Maybe<PortId> {
        let to = PortId(u32::from(lid.wrapping_sub(FIRST_LID)));
        match self.ports.get(to) {
            Some(port) if port.number == self.ports[from].number => Maybe::some(to),
            _ => Maybe::NONE,
        }
    }

    /// Whether the port has not too much under way already, and its peer has room for the packet, for which no other port
    /// waits unless it is this one's turn; otherwise the port will be looked at again when that has changed.
    #[inline]
    pub(crate) fn may_leave(
        &mut self,
        now: Ps,
        queue: &mut EventQueue,
        flight: &Flight,
        is_its_turn: bool,
    ) -> bool {
        let bytes = u64::from(flight.link_bytes);
        let out = &mut self.ports[flight.out_port];
        if let Some(at) = out.has_too_much(now) {
            out.stalled = true;
            queue.push(at, SimEvent::PortOut { device: out.device, port: out.number });
            return false;
        }
        let Some(into) = flight.in_port.get() else { return true };
        let peer = &mut self.ports[into];
        if peer.room < bytes || !(is_its_turn || peer.waiting.is_empty()) {
            peer.waiting.push_back(flight.out_port);
            self.ports[flight.out_port].stalled = true;
            return false;
        }
        peer.room -= bytes;
        true
    }

    /// Sends a packet that may leave on its way, if it leads anywhere; returns whether it does.
    #[inline]
    pub(crate) fn send(
        &mut self,
        now: Ps,
        queue: &mut EventQueue,
        window: MeterWindow,
        number: FlightId,
        flight: &mut Flight,
    ) -> bool {
        let out = &mut self.ports[flight.out_port];
        let at = out.send(now, flight.link_bytes, window);
        let from = out.device;
        let Some(into) = flight.in_port.get() else { return false };
        let Port { device, number: port, .. } = self.ports[into];
        let Fate { lost, twice, late } = self.layers.draw(flight);
        (flight.lost, flight.twice) = (lost, twice);
        if late > Ps::ZERO {
            self.held_up.insert(number, (at + late, late));
        }
        queue.push(at + late, SimEvent::Arrive { device, port, from, flight: number });
        true
    }

    /// When a packet, whose last bit would be at its port now were that not busy with others, has come
    /// through it.
    #[inline]
    pub(crate) fn receive(&mut self, now: Ps, window: MeterWindow, into: PortId, bytes: u32) -> Ps {
        self.ports[into].receive(now, bytes, window)
    }

    /// The receiving side of a port has room again for what a packet took. Those who wait for it look
    /// again when the event that made it is done, see [`Fabric::next_waiting`].
    pub(crate) fn make_room(&mut self, port: PortId, bytes: u32) {
        let own = &mut self.ports[port];
        own.room += u64::from(bytes);
        if !own.waiting.is_empty() {
            assert!(self.made_room.is_none(), "an event makes room once");
            self.made_room = Some(port);
        }
    }

    /// The port that has room again.
    #[inline]
    pub(crate) fn take_made_room(&mut self) -> Option<PortId> {
        self.made_room.take()
    }

    /// The next port that waits for room at `port`, if there is some for its packet.
    pub(crate) fn next_waiting(&mut self, port: PortId, flights: &Slab<FlightId, Flight>) -> Option<PortId> {
        let Port { room, least_room, ref waiting, .. } = self.ports[port];
        let first = self.ports[*waiting.front()?].queue.front();
        let bytes = first.map_or(0, |(flight, _)| u64::from(flights[*flight].link_bytes));
        if room < least_room.max(bytes) { None } else { self.ports[port].waiting.pop_front() }
    }

    /// A packet that may not leave waits at its port, and the sending unit with it.
    pub(crate) fn wait(&mut self, flight: FlightId, port: PortId, unit: Maybe<UnitId>) {
        self.ports[port].queue.push_back((flight, unit));
    }
}
