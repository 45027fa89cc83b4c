//! The sending units of a NIC, and their tasks for QPs.

use crate::core::index::{FlightId, IdVec, QpId, UnitId};
use crate::core::ps::Ps;
use crate::core::server::MeteredServer;
use crate::core::slab::Slab;
use crate::fabric::{Flight, Row};
use std::collections::VecDeque;

/// A task of a sending unit for a QP.
pub(super) enum TxTask {
    /// The next request.
    Request,
    /// A response that is ready.
    Answer(FlightId),
}

/// Tasks of sending units for a QP: ready responses, in order, and at most one entry for the QP's requests.
/// Responses and requests take turns, so that neither end of a connection must wait until the other end has
/// no work left.
pub(super) struct TxWork {
    answers: Row,
    requests: bool,
    /// Whether the last task was a response.
    answered: bool,
}

impl TxWork {
    pub(super) const NONE: TxWork = TxWork { answers: Row::EMPTY, requests: false, answered: false };

    pub(super) fn push_requests(&mut self) {
        debug_assert!(!self.requests, "the requests of a QP have at most one entry");
        self.requests = true;
    }

    pub(super) fn push_answer(&mut self, answer: FlightId, flights: &mut Slab<FlightId, Flight>) {
        self.answers.push(answer, flights);
    }

    pub(super) fn pop(&mut self, flights: &Slab<FlightId, Flight>) -> Option<TxTask> {
        let is_turn_of_requests = self.requests && self.answered;
        if !is_turn_of_requests && let Some(answer) = self.answers.pop(flights) {
            self.answered = true;
            return Some(TxTask::Answer(answer));
        }
        self.answered = false;
        std::mem::take(&mut self.requests).then_some(TxTask::Request)
    }
}

/// A sending unit.
#[derive(Default)]
pub(crate) struct TxUnit {
    /// When the unit began its present or last packet.
    pub(super) since: Ps,
    /// When the unit ends that packet.
    pub(super) until: Ps,
    /// Time in the metering window in which the unit worked.
    pub(crate) busy: Ps,
    /// Packets that the unit has sent in the present QP's turn.
    pub(super) burst: u32,
}

/// The sending units, and the QPs that wait for one.
pub(crate) struct Sending {
    pub(crate) units: IdVec<UnitId, TxUnit>,
    /// Idle units; the last is taken first.
    pub(super) idle: Vec<UnitId>,
    pub(super) waiting: VecDeque<QpId>,
    /// The pipeline that begins the requests of all units, one after the other. Unused without a limit.
    pub(crate) pipeline: MeteredServer,
}

impl Sending {
    pub(super) fn new(units: u32) -> Sending {
        Sending {
            units: (0..units).map(|_| TxUnit::default()).collect(),
            idle: (0..units as u16).rev().map(UnitId).collect(),
            waiting: VecDeque::new(),
            pipeline: MeteredServer::default(),
        }
    }
}
