//! Memory behind the caches.

/// What memory can do.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dram {
    /// From a read's beginning until its line is there, where nothing is before it, in picoseconds.
    latency: u64,
    /// Time that a line takes of its bandwidth.
    line: u64,
    /// When it is free for the next line.
    free: u64,
}

impl Dram {
    pub(super) fn new(latency: u64, line: u64) -> Dram {
        Dram { latency, line, free: 0 }
    }

    /// When a line that is read from `at` on is there.
    pub(super) fn read(&mut self, at: u64) -> u64 {
        self.take(at) + self.latency
    }

    /// When a line has left for memory that is written from `at` on.
    pub(super) fn write(&mut self, at: u64) -> u64 {
        self.take(at) + self.line
    }

    /// When the next line's transfer begins, that is asked for at `at`.
    fn take(&mut self, at: u64) -> u64 {
        let begins = self.free.max(at);
        self.free = begins + self.line;
        begins
    }
}
