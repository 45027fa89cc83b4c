//! Memory behind the caches.

use crate::core::ps::Ps;

/// What memory can do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dram {
    /// From a read's beginning until its line is there, where nothing is before it.
    latency: Ps,
    /// Time that a line takes of its bandwidth.
    line: Ps,
    /// When it is free for the next line.
    free: Ps,
}

impl Dram {
    pub(super) fn new(latency: Ps, line: Ps) -> Dram {
        Dram { latency, line, free: Ps::ZERO }
    }

    /// When a line that is read from `at` on is there.
    pub(super) fn read(&mut self, at: Ps) -> Ps {
        self.take(at) + self.latency
    }

    /// When a line has left for memory that is written from `at` on.
    pub(super) fn write(&mut self, at: Ps) -> Ps {
        self.take(at) + self.line
    }

    /// When the next line's transfer begins, that is asked for at `at`.
    fn take(&mut self, at: Ps) -> Ps {
        let begins = self.free.max(at);
        self.free = begins + self.line;
        begins
    }
}
