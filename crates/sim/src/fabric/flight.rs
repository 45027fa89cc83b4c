//! Packets in flight.

use crate::core::index::{DeviceId, FlightId, Maybe, PortId, QpId, SegmentId, UnitId, WqeId};
use crate::core::payload::Payload;
use crate::core::slab::Slab;
use doorbell_transport::{AtomicOp, Body, Packet, Syndrome};
use doorbell_verbs::{QpType, Wc};

/// The completion of an unreliable request, due when its last packet leaves.
#[derive(Clone, Copy)]
pub(crate) struct OwnCompletion {
    pub(crate) wc: Wc,
    pub(crate) signaled: bool,
    /// The QP's life in which the request was posted.
    pub(crate) life: u16,
}

/// The part of a work request's message that a packet carries.
#[derive(Clone, Copy)]
pub(crate) struct Gather {
    pub(crate) wqe: WqeId,
    /// Offset of the part within the message.
    pub(crate) offset: u32,
    pub(crate) len: u32,
    /// Number of the work request in the WQE cache. If the slot has a different number, it now belongs to
    /// another work request.
    pub(crate) entered: u64,
}

/// An atomic to execute.
#[derive(Clone, Copy)]
pub(crate) struct PendingAtomic {
    pub(crate) addr: u64,
    pub(crate) op: AtomicOp,
    pub(crate) resource: u8,
    /// The QP's life in which the atomic arrived.
    pub(crate) life: u16,
    pub(crate) original: u64,
}

/// Packets in order of arrival, linked by [`Flight::next`]. A packet is in at most one row at a time.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    first: Maybe<FlightId>,
    last: Maybe<FlightId>,
}

impl Row {
    pub(crate) const EMPTY: Row = Row { first: Maybe::NONE, last: Maybe::NONE };

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    /// The first packet, which stays in the row.
    #[inline]
    pub(crate) fn first(&self) -> Option<FlightId> {
        self.first.get()
    }

    #[inline]
    pub(crate) fn push(&mut self, flight: FlightId, flights: &mut Slab<FlightId, Flight>) {
        let new = Maybe::some(flight);
        match self.first.get().and(self.last.get()) {
            Some(before) => flights[before].next = new,
            None => self.first = new,
        }
        self.last = new;
    }

    /// Removes the first packet.
    #[inline]
    pub(crate) fn pop(&mut self, flights: &Slab<FlightId, Flight>) -> Option<FlightId> {
        let first = self.first.get()?;
        self.first = if self.first == self.last { Maybe::NONE } else { flights[first].next };
        Some(first)
    }
}

/// A packet that is in flight or being made.
#[derive(Clone, Copy)]
pub(crate) struct Flight {
    pub(crate) packet: Packet,
    /// Bytes that the packet takes on the link.
    pub(crate) link_bytes: u32,
    pub(crate) payload: Payload,
    pub(crate) from_device: DeviceId,
    pub(crate) from_qp: QpId,
    pub(crate) out_port: PortId,
    /// The port by which the packet arrives; none if no port has its LID.
    pub(crate) in_port: Maybe<PortId>,
    /// The QP that receives the packet, once it is known to exist.
    pub(crate) to_qp: Maybe<QpId>,
    /// DMA reads that the packet waits for.
    pub(crate) reads: u16,
    /// Whether the packet may leave.
    pub(crate) ready: bool,
    /// Faults: the packet does not arrive, or arrives twice.
    pub(crate) lost: bool,
    pub(crate) twice: bool,
    pub(crate) completion: Option<OwnCompletion>,
    /// The atomic whose response this packet is.
    pub(crate) atomic: Option<PendingAtomic>,
    /// The receiving unit that processes the packet. For the response to an atomic: the unit that waits until
    /// the atomic has acquired its lock.
    pub(crate) rx_unit: Maybe<UnitId>,
    /// The next packet in the row.
    pub(crate) next: Maybe<FlightId>,
    /// The part of the message that a request carries.
    pub(crate) gather: Gather,
    /// The contents of a TCP frame, which belongs to no QP.
    pub(crate) segment: Maybe<SegmentId>,
}

impl Flight {
    /// No packet.
    pub(crate) const BLANK: Flight = {
        let packet = Packet {
            transport: QpType::Rc,
            dest_qp: 0,
            psn: 0,
            ack_req: false,
            solicited: false,
            msn: 0,
            deth: None,
            body: Body::Ack(Syndrome::Ack),
            payload_len: 0,
        };
        Flight::new(packet, 0, (DeviceId(0), QpId(0)), PortId(0), Maybe::NONE)
    };

    /// A packet of a QP from one port to another, without payload so far.
    #[inline]
    pub(crate) const fn new(
        packet: Packet,
        link_bytes: u32,
        (from_device, from_qp): (DeviceId, QpId),
        out_port: PortId,
        in_port: Maybe<PortId>,
    ) -> Flight {
        Flight {
            packet,
            link_bytes,
            payload: Payload::EMPTY,
            from_device,
            from_qp,
            out_port,
            in_port,
            to_qp: Maybe::NONE,
            reads: 0,
            ready: false,
            lost: false,
            twice: false,
            completion: None,
            atomic: None,
            rx_unit: Maybe::NONE,
            next: Maybe::NONE,
            gather: Gather { wqe: WqeId(0), offset: 0, len: 0, entered: 0 },
            segment: Maybe::NONE,
        }
    }

    /// A TCP frame. `bytes` is its size for the hosts, `link_bytes` its size on the link.
    pub(crate) const fn frame(
        segment: Maybe<SegmentId>,
        (bytes, link_bytes): (u32, u32),
        from_device: DeviceId,
        out_port: PortId,
        in_port: Maybe<PortId>,
    ) -> Flight {
        let packet = Packet { payload_len: bytes, ..Flight::BLANK.packet };
        Flight { segment, ..Flight::new(packet, link_bytes, (from_device, QpId(0)), out_port, in_port) }
    }
}
