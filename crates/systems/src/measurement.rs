//! The interval in which a run is measured, and the observations of its threads. The interval is fixed
//! beforehand, or decided during the run.
#![expect(
    clippy::disallowed_types,
    reason = "measuring is no part of the system; threads of the system share `Mem`"
)]

use crate::series::{CompletionSeries, SeriesPoint};
use doorbell_verbs::{Span, Time};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// A fixed interval is cut into at least this many batches, and at most twice as many.
const BATCHES: u64 = 128;

/// A time that other threads may change.
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

/// The interval in which a run is measured, and the observations of all threads. Clones share one state, for
/// threads that share a clock.
#[derive(Clone, Debug)]
pub struct Measurement {
    shared: Arc<SharedMeasurement>,
    /// The part of the threads that records with this clone, if the threads are split into parts.
    part: Option<usize>,
}

#[derive(Debug)]
struct SharedMeasurement {
    from: Moment,
    end: Moment,
    /// When waiting threads load these three times again.
    look: Moment,
    series: Mutex<CompletionSeries>,
    /// Observations of each part of the threads.
    parts: Box<[Mutex<CompletionSeries>]>,
}

fn lock(series: &Mutex<CompletionSeries>) -> MutexGuard<'_, CompletionSeries> {
    series.lock().unwrap_or_else(|e| e.into_inner())
}

impl Measurement {
    fn of(shared: SharedMeasurement) -> Measurement {
        Measurement { shared: Arc::new(shared), part: None }
    }

    /// Splits the threads into `parts` parts. Besides the series of all threads, each part has its own
    /// series. Must be called before the first observation.
    pub fn by_parts(self, parts: usize) -> Measurement {
        let series = self.series().clone();
        let moment = |moment: &Moment| Moment::new(moment.get());
        let SharedMeasurement { from, end, look, .. } = &*self.shared;
        Measurement::of(SharedMeasurement {
            from: moment(from),
            end: moment(end),
            look: moment(look),
            parts: (0..parts).map(|_| Mutex::new(series.clone())).collect(),
            series: Mutex::new(series),
        })
    }

    /// A clone for the threads of part `part`, from 0. Their observations go to the part's series and to the
    /// series of all threads.
    pub fn of_part(&self, part: usize) -> Measurement {
        Measurement { shared: self.shared.clone(), part: Some(part) }
    }

    /// The observations of one part of the threads.
    pub fn series_of(&self, part: usize) -> Option<MutexGuard<'_, CompletionSeries>> {
        self.shared.parts.get(part).map(lock)
    }

    /// Measures `span` from `from` on.
    pub fn fixed(from: Time, span: Span) -> Measurement {
        let end = from + span;
        let log_length = (span.as_ps() / BATCHES).max(1).ilog2();
        Measurement::of(SharedMeasurement {
            from: Moment::new(from),
            end: Moment::new(end),
            look: Moment::new(end),
            series: Mutex::new(CompletionSeries::new(from, log_length, true)),
            parts: Box::default(),
        })
    }

    /// A measurement whose interval is decided later. Until then the series begins at `start`, in batches of
    /// 2^`log_length` ps, and waiting threads load the times again at `look`.
    pub fn open(start: Time, log_length: u32, look: Time) -> Measurement {
        Measurement::of(SharedMeasurement {
            from: Moment::new(Time::NEVER),
            end: Moment::new(Time::NEVER),
            look: Moment::new(look),
            series: Mutex::new(CompletionSeries::new(start, log_length, false)),
            parts: Box::default(),
        })
    }

    /// Discards all observations, and measures from `from` on. The batches last 2^`log_length` ps at first.
    pub fn measure_from(&self, from: Time, log_length: u32) {
        self.shared.from.set(from);
        *self.series() = CompletionSeries::new(from, log_length, true);
        for part in &self.shared.parts {
            *lock(part) = CompletionSeries::new(from, log_length, true);
        }
    }

    /// Makes waiting threads load the times again at `look`.
    pub fn look_at(&self, look: Time) {
        self.shared.look.set(look);
    }

    /// Ends the measurement at `end`.
    pub fn end_at(&self, end: Time) {
        self.shared.end.set(end);
        self.shared.look.set(end);
    }

    /// The first moment that is measured.
    pub fn from(&self) -> Time {
        self.shared.from.get()
    }

    /// The first moment that is no longer measured.
    #[inline]
    pub fn end(&self) -> Time {
        self.shared.end.get()
    }

    /// Time until which an idle thread may wait before it loads the end again.
    #[inline]
    pub fn look(&self) -> Time {
        self.shared.look.get()
    }

    /// Whether an event at `time` is measured.
    #[inline]
    pub fn contains(&self, time: Time) -> bool {
        self.shared.from.get() <= time && time < self.shared.end.get()
    }

    /// How much of the time from `begin` to `end` is measured.
    #[inline]
    pub fn overlap(&self, begin: Time, end: Time) -> Span {
        let (begin, end) = (begin.max(self.shared.from.get()), end.min(self.shared.end.get()));
        if begin < end { end - begin } else { Span::ZERO }
    }

    /// The observations of all threads.
    pub fn series(&self) -> MutexGuard<'_, CompletionSeries> {
        lock(&self.shared.series)
    }

    /// Records an observation of a thread, unless the end has passed.
    #[inline]
    pub fn saw(&self, seen: SeriesPoint) {
        if seen.at < self.shared.end.get() {
            self.series().add(seen);
            if let Some(mut series) = self.part.and_then(|part| self.series_of(part)) {
                series.add(seen);
            }
        }
    }
}
