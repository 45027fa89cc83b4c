//! The receiving units of a NIC, and the flows whose packets they look at.

use crate::core::index::{DeviceId, Id, IdVec, QpId, UnitId};
use crate::core::ps::Ps;
use crate::fabric::Row;
use doorbell_transport::Packet;
use std::collections::VecDeque;

/// Flows of datagrams that a NIC tells apart, as a power of two.
const FLOW_BITS: u32 = 12;

/// Names a flow.
#[derive(Clone, Copy)]
pub(super) enum FlowId {
    /// Of a connected QP.
    Connection(QpId),
    /// Of a UD QP.
    Datagrams(u32),
}

impl FlowId {
    /// The packets that a received one must keep its order with: those of the same connection, or
    /// from the same QP to the same UD QP (and, now and then, of another pair).
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

/// Received packets that keep their order: one unit at a time looks at them.
#[derive(Clone, Copy)]
pub(crate) struct Flow {
    /// Those that wait.
    pub(super) waiting: Row,
    /// It waits for a receiving unit, or has one.
    pub(super) served: bool,
    /// Time in the metering window in which a unit looked at a packet of it, or one waited until the unit had issued
    /// its DMAs: it is never more than the window.
    pub(crate) busy: Ps,
}

impl Default for Flow {
    fn default() -> Flow {
        Flow { waiting: Row::EMPTY, served: false, busy: Ps::ZERO }
    }
}

/// A processing unit for receiving.
#[derive(Default)]
pub(crate) struct RxUnit {
    /// What it works on, or has worked on last.
    pub(super) flow: Option<FlowId>,
    /// Since when it looks at its packet, or looked at its last.
    pub(super) since: Ps,
    /// Until when.
    pub(super) until: Ps,
    /// Until when it issues DMAs for the last packet.
    pub(super) issues_until: Ps,
    /// The same, or until when the link holds it up.
    pub(super) free_at: Ps,
    /// Time in the metering window that it worked.
    pub(crate) busy: Ps,
}

/// The receiving units, and the flows that wait for one.
pub(crate) struct Receiving {
    pub(crate) units: IdVec<UnitId, RxUnit>,
    /// Units that have nothing to do; the last is taken first.
    pub(super) idle: Vec<UnitId>,
    pub(super) waiting: VecDeque<FlowId>,
    /// Flows of datagrams; none before the first datagram.
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
