//! The fabric between devices: ports, and the links from one port to another.

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

/// First LID of the fabric. Ports get LIDs in the order in which they are made.
const FIRST_LID: u16 = 1;

/// Ports, and the faults between them.
pub(crate) struct Fabric {
    pub(crate) ports: IdVec<PortId, Port>,
    layers: LinkLayers,
    /// The port whose receive buffer has room again, if other ports may wait for it.
    made_room: Option<PortId>,
    /// Arrival time and delay of delayed packets. An id may belong to another packet by now.
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

    /// Adds the ports of a device and returns the first.
    pub(crate) fn add_ports(&mut self, device: DeviceId, link: &Link, wire: &WireCost) -> PortId {
        let first = PortId(self.ports.len() as u32);
        for number in 0..link.ports {
            self.ports.push(Port::new(device, number as u8, link, wire));
            self.layers.add_link();
        }
        first
    }

    /// Number of packets lost between ports.
    pub(crate) fn lost(&self) -> u64 {
        self.layers.lost
    }

    /// The delay of a packet that arrives now.
    pub(crate) fn held_up(&self, now: Ps, flight: FlightId) -> Ps {
        self.held_up.get(&flight).filter(|(arrives, _)| *arrives == now).map_or(Ps::ZERO, |(_, late)| *late)
    }

    pub(crate) fn lid(&self, port: PortId) -> u16 {
        FIRST_LID + port.0 as u16
    }

    /// The port with this LID, if `from` reaches it. A port reaches only ports with its own number.
    pub(crate) fn reached(&self, from: PortId, lid: u16) -> Maybe<PortId> {
        let to = PortId(u32::from(lid.wrapping_sub(FIRST_LID)));
        match self.ports.get(to) {
            Some(port) if port.number == self.ports[from].number => Maybe::some(to),
            _ => Maybe::NONE,
        }
    }

    /// Whether the packet may leave its port. It must wait if too much is in flight at its port, or if the
    /// peer port has no room. It must also wait if other ports wait for the peer's room and it is not this
    /// port's turn. If it must wait, an event or freed room lets the port try again.
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

    /// Sends a packet that may leave. Returns false if no port has its LID.
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

    /// Receives a packet whose last bit reaches the port now. Returns when the packet has passed the port:
    /// now, or later if the port is busy with other packets.
    #[inline]
    pub(crate) fn receive(&mut self, now: Ps, window: MeterWindow, into: PortId, bytes: u32) -> Ps {
        self.ports[into].receive(now, bytes, window)
    }

    /// Frees a packet's room in the receive buffer of a port. Ports that wait for room get their turn after
    /// the present event, see [`Fabric::next_waiting`].
    #[inline]
    pub(crate) fn make_room(&mut self, port: PortId, bytes: u32) {
        let own = &mut self.ports[port];
        own.room += u64::from(bytes);
        if !own.waiting.is_empty() {
            self.remember_room(port);
        }
    }

    /// Remembers a port with new room, for which other ports wait.
    #[inline(never)]
    fn remember_room(&mut self, port: PortId) {
        assert!(self.made_room.is_none(), "an event makes room at one port at most");
        self.made_room = Some(port);
    }

    /// Takes the port that has room again.
    #[inline]
    pub(crate) fn take_made_room(&mut self) -> Option<PortId> {
        self.made_room.take()
    }

    /// Removes and returns the next port that waits for room at `port`, if its packet fits there.
    pub(crate) fn next_waiting(&mut self, port: PortId, flights: &Slab<FlightId, Flight>) -> Option<PortId> {
        let Port { room, least_room, ref waiting, .. } = self.ports[port];
        let first = self.ports[*waiting.front()?].queue.front();
        let bytes = first.map_or(0, |(flight, _)| u64::from(flights[*flight].link_bytes));
        if room < least_room.max(bytes) { None } else { self.ports[port].waiting.pop_front() }
    }

    /// Queues a packet at its port because it may not leave yet. `unit` is the sending unit that waits with
    /// it.
    pub(crate) fn wait(&mut self, flight: FlightId, port: PortId, unit: Maybe<UnitId>) {
        self.ports[port].queue.push_back((flight, unit));
    }
}
