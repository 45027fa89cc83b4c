//! A resource that serves one after another.

use crate::core::ps::Ps;

/// The part of a run in which use is metered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeterWindow {
    pub(crate) from: Ps,
    pub(crate) to: Ps,
}

impl MeterWindow {
    /// How much of `start..end`, which may not end before it starts, lies within: mostly all of it.
    #[inline]
    pub(crate) fn overlap(self, start: Ps, end: Ps) -> Ps {
        if self.from <= start && end <= self.to { end - start } else { self.part(start, end) }
    }

    #[cold]
    fn part(self, start: Ps, end: Ps) -> Ps {
        end.min(self.to).saturating_sub(start.max(self.from))
    }

    #[inline]
    pub(crate) fn contains(self, time: Ps) -> bool {
        (self.from..self.to).contains(&time)
    }

    pub(crate) fn len(self) -> Ps {
        self.to.saturating_sub(self.from)
    }
}

/// First come, first served. Whoever asks must ask in the order of time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MeteredServer {
    free_at: Ps,
    /// Busy time within the window.
    pub(crate) busy: Ps,
}

impl MeteredServer {
    /// Serves for `duration` from `now` on, or from when it is free; returns the end.
    pub(crate) fn serve(&mut self, now: Ps, duration: Ps, window: MeterWindow) -> Ps {
        let start = now.max(self.free_at);
        self.free_at = start + duration;
        self.busy += window.overlap(start, self.free_at);
        self.free_at
    }

    /// When it would begin to serve someone who comes now.
    pub(crate) fn free_at(&self) -> Ps {
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_meters_only_the_window() {
        let window = MeterWindow { from: Ps(100), to: Ps(200) };
        let mut s = MeteredServer::default();
        assert_eq!(s.serve(Ps(50), Ps(100), window), Ps(150));
        assert_eq!(s.serve(Ps(120), Ps(100), window), Ps(250));
        assert_eq!(s.busy, Ps(100));
    }
}
