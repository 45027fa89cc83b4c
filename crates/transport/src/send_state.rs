//! The state of a QP's sending side.

use crate::settings::Settings;
use crate::{Retries, psn};
use doorbell_verbs::{Span, Time};

/// State of the sending side. The fields `acked`, `current` and `started` are positions in the send queue.
/// Their order is:
///
/// `acked <= current <= started <= visible`
#[derive(Clone, Debug)]
pub(crate) struct Requester {
    /// Oldest work request not completed.
    pub(crate) acked: u64,
    /// Work request of the next packet.
    pub(crate) current: u64,
    /// First work request without a PSN.
    pub(crate) started: u64,
    /// PSN of the next packet; behind `next_psn` while packets are sent again.
    pub(crate) current_psn: u32,
    /// Oldest PSN not acknowledged.
    pub(crate) una_psn: u32,
    /// PSN after the furthest transmitted PSN.
    pub(crate) next_psn: u32,
    /// READs and atomics started and not completed.
    pub(crate) reads: u32,
    pub(crate) retries: Retries,
    /// The oldest unacknowledged PSN, if its missing answer has already caused a retransmission.
    pub(crate) implicit_nak: Option<u32>,
    /// Whether `deadline` ends the wait after an RNR NAK.
    pub(crate) rnr_wait: bool,
    pub(crate) deadline: Time,
    /// Whether `next_request` held back a work request until an answer arrives.
    pub(crate) stalled: bool,
}

impl Requester {
    pub(crate) fn new(sq_psn: u32) -> Requester {
        Requester {
            acked: 0,
            current: 0,
            started: 0,
            current_psn: sq_psn,
            una_psn: sq_psn,
            next_psn: sq_psn,
            reads: 0,
            retries: Retries::default(),
            implicit_nak: None,
            rnr_wait: false,
            deadline: Time::NEVER,
            stalled: false,
        }
    }

    pub(crate) fn acked(&self) -> u64 {
        self.acked
    }

    pub(crate) fn advance_acked(&mut self) {
        self.acked += 1;
    }

    pub(crate) fn refill_retries(&mut self, settings: &Settings) {
        self.retries = Retries::new(settings.retry_cnt, settings.rnr_retry);
    }

    /// Records that everything before `position` was flushed.
    pub(crate) fn skip_to(&mut self, position: u64) {
        self.acked = position;
        self.current = position;
        self.started = position;
        self.current_psn = self.next_psn;
        self.una_psn = self.next_psn;
        self.reads = 0;
    }

    /// Stops waiting for answers.
    pub(crate) fn stop(&mut self) {
        self.rnr_wait = false;
        self.stalled = false;
        self.deadline = Time::NEVER;
    }

    /// PSNs transmitted and not acknowledged.
    pub(crate) fn unacknowledged(&self) -> u32 {
        psn::sub(self.next_psn, self.una_psn)
    }

    /// Makes the oldest unacknowledged packet the next one.
    pub(crate) fn go_back(&mut self) {
        self.current = self.acked;
        self.current_psn = self.una_psn;
    }

    pub(crate) fn arm(&mut self, now: Time, settings: &Settings) {
        let idle = self.una_psn == self.next_psn || settings.ack_timeout == Span::ZERO;
        self.deadline = if idle { Time::NEVER } else { now + settings.ack_timeout };
    }

    /// Records that the oldest unacknowledged PSN has advanced.
    pub(crate) fn progress(&mut self, now: Time, settings: &Settings) {
        self.refill_retries(settings);
        self.implicit_nak = None;
        // Answers that arrive during the wait after an RNR NAK end this wait.
        self.stalled |= std::mem::take(&mut self.rnr_wait);
        if psn::sub(self.current_psn, self.una_psn) > self.unacknowledged() {
            self.go_back(); // The packets to send again have been acknowledged meanwhile.
        }
        self.arm(now, settings);
    }
}
