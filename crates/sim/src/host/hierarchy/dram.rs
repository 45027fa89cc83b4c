//! Memory behind the caches.

use crate::core::ps::Ps;

/// Latency and bandwidth of memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dram {
    /// Time from the beginning of a read until its line is there, if no other access is before it.
    latency: Ps,
    /// Time for which the transfer of a line occupies the memory.
    line: Ps,
    /// When memory is free for the next line.
    free: Ps,
}

impl Dram {
    pub(super) fn new(latency: Ps, line: Ps) -> Dram {
        Dram { latency, line, free: Ps::ZERO }
    }

    /// Reads a line from `at` on, or later if the memory is busy. Returns when the line is there.
    pub(super) fn read(&mut self, at: Ps) -> Ps {
        self.take(at) + self.latency
    }

    /// Writes a line from `at` on, or later if the memory is busy. Returns when the line has left for memory.
    pub(super) fn write(&mut self, at: Ps) -> Ps {
        self.take(at) + self.line
    }

    /// Occupies the memory for a line that is requested at `at`. Returns when the line's transfer begins.
    fn take(&mut self, at: Ps) -> Ps {
        let begins = self.free.max(at);
        self.free = begins + self.line;
        begins
    }
}
