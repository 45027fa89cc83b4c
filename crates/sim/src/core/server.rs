//! A resource that serves one request at a time.

use crate::core::ps::Ps;

/// The part of a run in which use is metered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeterWindow {
    pub(crate) from: Ps,
    pub(crate) to: Ps,
}

impl MeterWindow {
    /// The length of the part of `start..end` that lies in the window: mostly all of it. `end` must not be
    /// before `start`.
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

/// A first-come, first-served resource. Requests must arrive in the order of time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MeteredServer {
    free_at: Ps,
    /// Busy time within the window.
    pub(crate) busy: Ps,
}

impl MeteredServer {
    /// Serves for `duration`, from `now` or from when the server becomes free. Returns the end.
    pub(crate) fn serve(&mut self, now: Ps, duration: Ps, window: MeterWindow) -> Ps {
        let start = now.max(self.free_at);
        self.free_at = start + duration;
        self.busy += window.overlap(start, self.free_at);
        self.free_at
    }

    /// When the server becomes free. A request that arrives before then waits until then.
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
