//! What is measured of a run, from when to when: said beforehand, or decided while it goes on.
#![expect(clippy::disallowed_types, reason = "who measures is no part of the system; that shares `Mem`")]

use crate::series::{Seen, Series};
use doorbell_verbs::{Span, Time};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// Batches that a measured time said beforehand is cut into, at least; at most twice as many.
const BATCHES: u64 = 128;

/// A moment that others may change.
#[derive(Debug)]
struct Moment(AtomicU64);

impl Moment {
    fn new(time: Time) -> Moment {
        Moment(AtomicU64::new(time.as_ps()))
    }

    #[inline]
    fn get(&self) -> Time {
        Time::from_ps(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, time: Time) {
        self.0.store(time.as_ps(), Ordering::Relaxed);
    }
}

/// From when to when a run is measured, and what all threads together saw. Threads share it where one clock counts
/// for all of them: its clones are the same.
#[derive(Clone, Debug)]
pub struct Measurement(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    from: Moment,
    end: Moment,
    /// When threads that wait look at these again.
    look: Moment,
    series: Mutex<Series>,
}

impl Measurement {
    fn of(shared: Shared) -> Measurement {
        Measurement(Arc::new(shared))
    }

    /// Of `span` from `from` on.
    pub fn fixed(from: Time, span: Span) -> Measurement {
        let end = from + span;
        let log_length = (span.as_ps() / BATCHES).max(1).ilog2();
        Measurement::of(Shared {
            from: Moment::new(from),
            end: Moment::new(end),
            look: Moment::new(end),
            series: Mutex::new(Series::new(from, log_length, true)),
        })
    }

    /// One whose times are decided later. Until then `start` begins what is seen, in batches of 2^`log_length` ps,
    /// and threads look again at `look`.
    pub fn open(start: Time, log_length: u32, look: Time) -> Measurement {
        Measurement::of(Shared {
            from: Moment::new(Time::NEVER),
            end: Moment::new(Time::NEVER),
            look: Moment::new(look),
            series: Mutex::new(Series::new(start, log_length, false)),
        })
    }

    /// Forgets what was seen and measures from `from` on.
    pub fn measure_from(&self, from: Time, log_length: u32) {
        self.0.from.set(from);
        *self.series() = Series::new(from, log_length, true);
    }

    /// Has threads that wait look again at `look`.
    pub fn look_at(&self, look: Time) {
        self.0.look.set(look);
    }

    /// Ends it at `end`.
    pub fn end_at(&self, end: Time) {
        self.0.end.set(end);
        self.0.look.set(end);
    }

    /// The first moment that counts.
    pub fn from(&self) -> Time {
        self.0.from.get()
    }

    /// The first moment that does not.
    #[inline]
    pub fn end(&self) -> Time {
        self.0.end.get()
    }

    /// Until when a thread waits that finds nothing to do.
    #[inline]
    pub fn look(&self) -> Time {
        self.0.look.get()
    }

    /// Whether what happens at `time` is measured.
    #[inline]
    pub fn contains(&self, time: Time) -> bool {
        self.0.from.get() <= time && time < self.0.end.get()
    }

    /// How much of the time between two moments is measured.
    #[inline]
    pub fn overlap(&self, begin: Time, end: Time) -> Span {
        let (begin, end) = (begin.max(self.0.from.get()), end.min(self.0.end.get()));
        if begin < end { end - begin } else { Span::ZERO }
    }

    /// What was seen.
    pub fn series(&self) -> MutexGuard<'_, Series> {
        self.0.series.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// A thread saw something.
    #[inline]
    pub fn saw(&self, seen: Seen) {
        if seen.at < self.0.end.get() {
            self.series().add(seen);
        }
    }
}
