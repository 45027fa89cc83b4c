//! Clients that draw numbers from a sequencer (ATC'16, 4.2): one server gives out an increasing 8-byte
//! integer.
//!
//! A number drawn by a request that began after another's ended is larger (of Spec-S0's clients, those
//! with one request outstanding). The servers' threads share the counter by
//! [`doorbell_verbs::Cpu::fetch_add_u64`]: how much they hold each other up is a matter of the machine's
//! caches.

use crate::measure::How;
use crate::{Interval, Measured};
use doorbell_verbs::Time;

/// How a client draws.
#[derive(Clone, Copy, Debug)]
pub struct Drawing {
    /// Requests outstanding, at least 1.
    pub outstanding: u32,
    /// Send that many, wait until all have ended, and again; rather than replace each at once.
    pub windows: bool,
    /// Stop after so many numbers; 0 for no end.
    pub limit: u64,
    /// Keep each number drawn.
    pub record: bool,
}

/// A number that a client drew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draw {
    /// The number.
    pub value: u64,
    /// When its request began.
    pub began: Time,
    /// When the client had it.
    pub ended: Time,
}

/// What a client drew.
#[derive(Clone, Debug, Default)]
pub struct Drawn {
    /// What it measured.
    pub measured: Measured,
    /// Its numbers in the order in which they came, if it was to keep them.
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
    /// What it drew so far.
    pub drawn: Drawn,
}

impl Drawer {
    /// A client that has drawn nothing yet.
    pub fn new(drawing: Drawing, interval: &Interval) -> Drawer {
        Drawer { drawing, interval: interval.clone(), begun: 0, ended: 0, drawn: Drawn::default() }
    }

    /// How many requests to send now.
    pub fn wanted(&self) -> u32 {
        let outstanding = (self.begun - self.ended) as u32;
        if self.drawing.windows && outstanding > 0 {
            return 0;
        }
        let left = if self.drawing.limit == 0 { u64::MAX } else { self.drawing.limit - self.begun };
        (self.drawing.outstanding - outstanding).min(u32::try_from(left).unwrap_or(u32::MAX))
    }

    /// So many requests were sent.
    pub fn sent(&mut self, requests: u32) {
        self.begun += u64::from(requests);
    }

    /// A number came whose request began at `began`.
    pub fn got(&mut self, value: u64, began: Time, ended: Time, header_only: bool) {
        self.ended += 1;
        let how = How { header_only, ..How::default() };
        self.drawn.measured.operation(&self.interval, began, ended, how);
        if self.drawing.record {
            self.drawn.draws.push(Draw { value, began, ended });
        }
    }

    /// Whether it has all that it was to draw, or its time is over.
    pub fn is_done(&self, now: Time) -> bool {
        let all = self.drawing.limit > 0 && self.ended == self.drawing.limit;
        all || now >= self.interval.end()
    }
}
