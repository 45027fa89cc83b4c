//! Memory behind the caches.

use crate::core::ps::Ps;

/// Latency and bandwidth of memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dram {
    /// Time from the beginning of a read until its line is there, if no other access is before it.
    latency: Ps,
    /// Time of the memory's bandwidth that a line takes.
    line: Ps,
    /// When memory is free for the next line.
    free: Ps,
}

impl Dram {
    pub(super) fn new(latency: Ps, line: Ps) -> Dram {
        Dram { latency, line, free: Ps::ZERO }
    }

    /// When a line whose read begins at `at` or later is there.
    pub(super) fn read(&mut self, at: Ps) -> Ps {
        self.take(at) + self.latency
    }

    /// When a line written at `at` or later has left for memory.
    pub(super) fn write(&mut self, at: Ps) -> Ps {
        self.take(at) + self.line
    }

    /// When the transfer of a line requested at `at` begins.
    fn take(&mut self, at: Ps) -> Ps {
        let begins = self.free.max(at);
        self.free = begins + self.line;
        begins
    }
}
