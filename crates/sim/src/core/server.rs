//! A resource that serves one after another.

/// The part of a run in which use is metered, in picoseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeterWindow {
    pub(crate) from: u64,
    pub(crate) to: u64,
}

impl MeterWindow {
    /// How much of `start..end`, which may not end before it starts, lies within: mostly all of it.
    #[inline]
    pub(crate) fn overlap(self, start: u64, end: u64) -> u64 {
        if self.from <= start && end <= self.to { end - start } else { self.part(start, end) }
    }

    #[cold]
    fn part(self, start: u64, end: u64) -> u64 {
        end.min(self.to).saturating_sub(start.max(self.from))
    }

    #[inline]
    pub(crate) fn contains(self, time: u64) -> bool {
        (self.from..self.to).contains(&time)
    }

    pub(crate) fn len(self) -> u64 {
        self.to.saturating_sub(self.from)
    }
}

/// First come, first served. Whoever asks must ask in the order of time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MeteredServer {
    free_at: u64,
    /// Busy time within the window.
    pub(crate) busy: u64,
}

impl MeteredServer {
    /// Serves for `duration` from `now` on, or from when it is free; returns the end.
    pub(crate) fn serve(&mut self, now: u64, duration: u64, window: MeterWindow) -> u64 {
        let start = now.max(self.free_at);
        self.free_at = start + duration;
        self.busy += window.overlap(start, self.free_at);
        self.free_at
    }

    /// When it would begin to serve someone who comes now.
    pub(crate) fn free_at(&self) -> u64 {
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_meters_only_the_window() {
        let window = MeterWindow { from: 100, to: 200 };
        let mut s = MeteredServer::default();
        assert_eq!(s.serve(50, 100, window), 150);
        assert_eq!(s.serve(120, 100, window), 250);
        assert_eq!(s.busy, 100);
    }
}
