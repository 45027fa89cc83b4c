//! Progress of a run in virtual time, for an observer on another thread.

use doorbell_verbs::{Span, Time};
use std::sync::atomic::{AtomicU64, Ordering};

/// Virtual time of a run, and the expected virtual time of its end. The run writes, and another thread reads.
#[derive(Debug, Default)]
pub struct Pace {
    /// Picoseconds of virtual time; 0 before the threads run.
    now: AtomicU64,
    /// Expected picoseconds of virtual time at the end; 0 while unknown.
    end: AtomicU64,
}

impl Pace {
    pub(super) fn is_at(&self, now: Time) {
        self.now.store(now.as_ps(), Ordering::Relaxed);
    }

    pub(super) fn ends_at(&self, end: Time) {
        self.end.store(end.as_ps(), Ordering::Relaxed);
    }

    /// Virtual time since the start of the run; 0 before its threads run.
    pub fn now(&self) -> Span {
        Span::from_ps(self.now.load(Ordering::Relaxed))
    }

    /// Virtual time from now to the expected end; `None` while no end is expected.
    pub fn left(&self) -> Option<Span> {
        let end = self.end.load(Ordering::Relaxed);
        (end > 0).then(|| Span::from_ps(end.saturating_sub(self.now.load(Ordering::Relaxed))))
    }
}
