//! The sending units of a NIC, and what they have to do for QPs.

use crate::core::index::{FlightId, IdVec, QpId, UnitId};
use crate::core::ps::Ps;
use crate::core::slab::Slab;
use crate::fabric::{Flight, Row};
use std::collections::VecDeque;

/// What a sending unit has to do for a QP.
pub(super) enum TxTask {
    /// The next request.
    Request,
    /// An answer that is ready.
    Answer(FlightId),
}

/// What sending units have to do for a QP: answers that are ready, in order, and its requests, which are there once at most.
/// Where there are both they take turns: neither end of a connection waits for as long as the other has work.
pub(super) struct TxWork {
    answers: Row,
    requests: bool,
    /// The last was an answer.
    answered: bool,
}

impl TxWork {
    pub(super) const NONE: TxWork = TxWork { answers: Row::EMPTY, requests: false, answered: false };

    pub(super) fn push_requests(&mut self) {
        debug_assert!(!self.requests, "a QP is active once");
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

/// A processing unit for sending.
#[derive(Default)]
pub(crate) struct TxUnit {
    /// Since when it works on its packet, or worked on its last.
    pub(super) since: Ps,
    /// Until when.
    pub(super) until: Ps,
    /// Time in the metering window that it worked.
    pub(crate) busy: Ps,
    /// Packets that it has sent for the QP whose turn it is.
    pub(super) burst: u32,
}

/// The sending units, and the QPs that wait for one.
pub(crate) struct Sending {
    pub(crate) units: IdVec<UnitId, TxUnit>,
    /// Units that have nothing to do; the last is taken first.
    pub(super) idle: Vec<UnitId>,
    pub(super) waiting: VecDeque<QpId>,
}

impl Sending {
    pub(super) fn new(units: u32) -> Sending {
        Sending {
            units: (0..units).map(|_| TxUnit::default()).collect(),
            idle: (0..units as u16).rev().map(UnitId).collect(),
            waiting: VecDeque::new(),
        }
    }
}
