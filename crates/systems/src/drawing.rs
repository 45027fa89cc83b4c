//! Clients that draw numbers from a sequencer (ATC'16, 4.2). One server gives out an increasing 8-byte
//! integer.
//!
//! A request that begins after another request has ended draws a larger number. With Spec-S0 this holds only
//! if each client has one outstanding request. The servers' threads share the counter by
//! [`doorbell_verbs::Cpu::fetch_add_u64`]. The machine's caches decide how much they delay each other.

use crate::measure::How;
use crate::{Interval, Measured};
use doorbell_verbs::Time;

/// How a client draws numbers.
#[derive(Clone, Copy, Debug)]
pub struct Drawing {
    /// Requests outstanding, at least 1.
    pub outstanding: u32,
    /// Send `outstanding` requests, wait until all have ended, and repeat. Otherwise each ended request is
    /// replaced at once.
    pub windows: bool,
    /// Stop after this many numbers; 0 for no limit.
    pub limit: u64,
    /// Keep each number drawn.
    pub record: bool,
}

/// A number that a client drew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// The number drawn.
    pub value: u64,
    /// When the request began.
    pub began: Time,
    /// When the client received the number.
    pub ended: Time,
}

/// Results of a drawing client.
#[derive(Clone, Debug, Default)]
pub struct Drawn {
    /// The client's measurements.
    pub measured: Measured,
    /// The numbers in order of arrival, if the client keeps them.
    pub draws: Vec<Draw>,
}

impl From<Drawn> for Measured {
    fn from(drawn: Drawn) -> Measured {
        drawn.measured
    }
}

/// The state of a drawing client.
#[derive(Debug)]
pub struct Drawer {
    drawing: Drawing,
    interval: Interval,
    begun: u64,
    ended: u64,
    /// Results so far.
    pub drawn: Drawn,
}

impl Drawer {
    /// A client that has drawn nothing yet.
    pub fn new(drawing: Drawing, interval: &Interval) -> Drawer {
        Drawer { drawing, interval: interval.clone(), begun: 0, ended: 0, drawn: Drawn::default() }
    }

    /// Number of requests to send now.
    pub fn wanted(&self) -> u32 {
        let outstanding = (self.begun - self.ended) as u32;
        if self.drawing.windows && outstanding > 0 {
            return 0;
        }
        let left = if self.drawing.limit == 0 { u64::MAX } else { self.drawing.limit - self.begun };
        (self.drawing.outstanding - outstanding).min(u32::try_from(left).unwrap_or(u32::MAX))
    }

    /// Notes that this many requests were sent.
    pub fn sent(&mut self, requests: u32) {
        self.begun += u64::from(requests);
    }

    /// Notes a number. Its request began at `began`, and the number arrived at `ended`.
    pub fn got(&mut self, value: u64, began: Time, ended: Time, header_only: bool) {
        self.ended += 1;
        let how = How { header_only, ..How::default() };
        self.drawn.measured.operation(&self.interval, began, ended, how);
        if self.drawing.record {
            self.drawn.draws.push(Draw { value, began, ended });
        }
    }

    /// Whether the client has drawn all its numbers, or its time is over.
    pub fn is_done(&self, now: Time) -> bool {
        let all = self.drawing.limit > 0 && self.ended == self.drawing.limit;
        all || now >= self.interval.end()
    }
}
