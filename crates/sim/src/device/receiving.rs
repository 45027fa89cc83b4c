//! The receiving units of a NIC, and the flows whose packets they process.

use crate::core::index::{DeviceId, Id, IdVec, QpId, UnitId};
use crate::core::ps::Ps;
use crate::fabric::Row;
use doorbell_transport::Packet;
use std::collections::VecDeque;

/// Number of datagram flows that a NIC tells apart, as a power of two.
const FLOW_BITS: u32 = 12;

/// Names a flow.
#[derive(Clone, Copy)]
pub(super) enum FlowId {
    /// The flow of a connected QP.
    Connection(QpId),
    /// A flow to UD QPs.
    Datagrams(u32),
}

impl FlowId {
    /// The flow of a received packet. Packets of one flow keep their order. A flow is a connection, or one
    /// sender QP and one UD QP. Different pairs of UD QPs occasionally share a flow.
    pub(super) fn of(packet: &Packet, from: DeviceId, qp: QpId) -> FlowId {
        match packet.deth {
            None => FlowId::Connection(qp),
            Some(deth) => {
                let source = deth.src_qp.wrapping_add((from.index() as u32) << 16);
                let pair = packet.dest_qp.wrapping_mul(0x9e37_79b1) ^ source.wrapping_mul(0x85eb_ca6b);
                FlowId::Datagrams(pair >> (32 - FLOW_BITS))
            }
        }
    }
}

/// Received packets that keep their order: one unit at a time processes them.
#[derive(Clone, Copy)]
pub(crate) struct Flow {
    /// Packets that wait.
    pub(super) waiting: Row,
    /// Whether the flow waits for a receiving unit or has one.
    pub(super) served: bool,
    /// Time in the metering window for which the flow was busy. It is busy while a unit processes one of its
    /// packets, and while such a packet waits until the unit has issued the DMAs of the unit's previous
    /// packet. The time never exceeds the window.
    pub(crate) busy: Ps,
}

impl Default for Flow {
    fn default() -> Flow {
        Flow { waiting: Row::EMPTY, served: false, busy: Ps::ZERO }
    }
}

/// A receiving unit.
#[derive(Default)]
pub(crate) struct RxUnit {
    /// The flow of the unit's present or last packet.
    pub(super) flow: Option<FlowId>,
    /// When the unit began its present or last packet.
    pub(super) since: Ps,
    /// When the unit ends that packet.
    pub(super) until: Ps,
    /// When the unit has issued the DMAs of its last packet.
    pub(super) issues_until: Ps,
    /// When the unit is free: `issues_until`, or later if the PCIe link delays the unit.
    pub(super) free_at: Ps,
    /// Time in the metering window in which the unit worked.
    pub(crate) busy: Ps,
}

/// The receiving units, and the flows that wait for one.
pub(crate) struct Receiving {
    pub(crate) units: IdVec<UnitId, RxUnit>,
    /// Idle units; the last is taken first.
    pub(super) idle: Vec<UnitId>,
    pub(super) waiting: VecDeque<FlowId>,
    /// Flows of datagrams. Empty before the first datagram.
    pub(crate) datagrams: Vec<Flow>,
}

impl Receiving {
    pub(super) fn new(units: u32) -> Receiving {
        Receiving {
            units: (0..units).map(|_| RxUnit::default()).collect(),
            idle: (0..units as u16).rev().map(UnitId).collect(),
            waiting: VecDeque::new(),
            datagrams: Vec::new(),
        }
    }

    #[inline]
    pub(super) fn datagrams(&mut self, number: u32) -> &mut Flow {
        if self.datagrams.is_empty() {
            self.datagrams = vec![Flow::default(); 1 << FLOW_BITS];
        }
        &mut self.datagrams[number as usize]
    }
}
