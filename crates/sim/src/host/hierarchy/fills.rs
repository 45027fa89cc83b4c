//! Lines on their way into a core's caches.

use super::cache::LineId;
use crate::core::ps::Ps;

/// Lines in flight, each with its arrival time. There are at most as many as buffers.
pub(super) struct Fills {
    under_way: Vec<(LineId, Ps)>,
    buffers: usize,
}

impl Fills {
    pub(super) fn new(buffers: u32) -> Fills {
        Fills { under_way: Vec::with_capacity(buffers as usize), buffers: buffers as usize }
    }

    /// When a line is there: at `at`, or later if the line is in flight.
    pub(super) fn ready(&self, line: LineId, at: Ps) -> Ps {
        self.under_way.iter().find(|(other, _)| *other == line).map_or(at, |(_, ready)| at.max(*ready))
    }

    /// When a buffer is free for a line that is wanted at `at`.
    pub(super) fn room(&mut self, at: Ps) -> Ps {
        self.under_way.retain(|(_, ready)| *ready > at);
        match self.under_way.len() < self.buffers {
            true => at,
            false => {
                let first = self.under_way.iter().map(|(_, ready)| *ready).min().unwrap_or(at);
                self.under_way.retain(|(_, ready)| *ready > first);
                first
            }
        }
    }

    /// Whether a buffer is free at `at` for a line that no instruction waits for.
    pub(super) fn has_room(&mut self, at: Ps) -> bool {
        self.under_way.retain(|(_, ready)| *ready > at);
        self.under_way.len() < self.buffers
    }

    /// Adds a line in flight.
    pub(super) fn push(&mut self, line: LineId, ready: Ps) {
        self.under_way.push((line, ready));
    }
}
