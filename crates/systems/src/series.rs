//! Completions and latencies of a run, in batches of equal time.

use doorbell_verbs::{Span, Time};
use hdrhistogram::Histogram;

/// Completions and latencies within a span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Operations that completed.
    pub completed: u64,
    /// Operations that completed, evened: if one completion reports several operations, they are spread over
    /// the time since the previous completion.
    pub evened: u64,
    /// Operations whose latency was measured.
    pub timed: u64,
    /// The sum of these latencies in picoseconds.
    pub latency: u64,
}

impl Batch {
    /// The sum of two batches.
    pub fn joined(self, other: Batch) -> Batch {
        Batch {
            completed: self.completed + other.completed,
            evened: self.evened + other.evened,
            timed: self.timed + other.timed,
            latency: self.latency.saturating_add(other.latency),
        }
    }

    /// The sum of all these batches.
    pub fn all(some: &[Batch]) -> Batch {
        some.iter().fold(Batch::default(), |all, one| all.joined(*one))
    }
}

/// An observation of a thread.
#[derive(Clone, Copy, Debug)]
pub struct SeriesPoint {
    /// When the thread made the observation.
    pub at: Time,
    /// Operations that this observation reports as completed.
    pub completed: u64,
    /// If one completion reports several operations: when the previous completion was seen. `None` if each
    /// operation has its own completion.
    pub since: Option<Time>,
    /// The latency of one of the operations, if it was measured.
    pub latency: Option<Span>,
}

/// Maximum number of batches. If more are needed, batches are joined in pairs, so each lasts twice as long.
pub const MOST_BATCHES: usize = 512;

/// Number of batches that share a histogram of latencies.
const PER_HISTOGRAM: usize = 8;

/// Lumps of completions are evened once the observed time is this many times the longest lump.
const LAGS: u64 = 4;

/// Longest latency that is distinguished, in nanoseconds. Longer latencies count as this one.
const LONGEST_NS: u64 = 10_000_000_000;

/// Batches of equal length, one after another.
#[derive(Clone, Debug)]
pub struct CompletionSeries {
    start: u64,
    /// A batch lasts 2^`log_length` picoseconds.
    log_length: u32,
    batches: Vec<Batch>,
    /// Latencies in nanoseconds, a histogram for each [`PER_HISTOGRAM`] batches; `None` if not kept.
    latencies: Option<Vec<Histogram<u32>>>,
    /// The longest latency, in picoseconds.
    longest: u64,
    /// The longest time over which completions were spread, in picoseconds.
    lag: u64,
}

fn empty() -> Histogram<u32> {
    Histogram::new(3).expect("three digits are a valid constant")
}

impl CompletionSeries {
    /// A series from `start` on, in batches that last 2^`log_length` ps at first. The series keeps sums of
    /// latencies. It keeps histograms of latencies only if `with_latencies` is set.
    pub fn new(start: Time, log_length: u32, with_latencies: bool) -> CompletionSeries {
        CompletionSeries {
            start: start.as_ps(),
            log_length,
            batches: Vec::with_capacity(MOST_BATCHES),
            latencies: with_latencies.then(Vec::new),
            longest: 0,
            lag: 0,
        }
    }

    /// Adds an observation, unless it is before the start.
    #[inline]
    pub fn add(&mut self, seen: SeriesPoint) {
        let Some(at) = seen.at.as_ps().checked_sub(self.start) else { return };
        if at >> self.log_length >= self.batches.len() as u64 {
            self.extend(at);
        }
        let number = (at >> self.log_length) as usize;
        let batch = &mut self.batches[number];
        batch.completed += seen.completed;
        match seen.since {
            Some(since) if since < seen.at => self.even(since.as_ps(), seen.at.as_ps(), seen.completed),
            _ => batch.evened += seen.completed,
        }
        if let Some(latency) = seen.latency {
            self.took(number, latency.as_ps());
        }
    }

    /// Adds a latency in picoseconds to a batch.
    #[inline]
    fn took(&mut self, number: usize, latency: u64) {
        let batch = &mut self.batches[number];
        batch.timed += 1;
        batch.latency = batch.latency.saturating_add(latency);
        self.longest = self.longest.max(latency);
        if let Some(all) = &mut self.latencies {
            let histogram = &mut all[number / PER_HISTOGRAM];
            histogram.record((latency / 1000).clamp(1, LONGEST_NS)).expect("the histogram grows");
        }
    }

    /// Spreads completions over the time from `since` to `at`.
    fn even(&mut self, since: u64, at: u64, completed: u64) {
        let lag = at - since;
        self.lag = self.lag.max(lag);
        // Number of these completions before `time`.
        let up_to = |time: u64| (u128::from(completed) * u128::from(time - since) / u128::from(lag)) as u64;
        let mut from = since.max(self.start);
        let mut before = up_to(from);
        loop {
            let number = (from - self.start) >> self.log_length;
            let end = at.min(self.start + ((number + 1) << self.log_length));
            let by_then = up_to(end);
            self.batches[number as usize].evened += by_then - before;
            if end == at {
                return;
            }
            (from, before) = (end, by_then);
        }
    }

    #[cold]
    fn extend(&mut self, since: u64) {
        while since >> self.log_length >= MOST_BATCHES as u64 {
            self.batches = self.batches.chunks(2).map(Batch::all).collect();
            self.log_length += 1;
            if let Some(all) = &mut self.latencies {
                *all = all.chunks(2).map(together).collect();
            }
        }
        let batches = 1 + (since >> self.log_length) as usize;
        self.batches.resize(batches.max(self.batches.len()), Batch::default());
        if let Some(all) = &mut self.latencies {
            all.resize_with(self.batches.len().div_ceil(PER_HISTOGRAM), empty);
        }
    }

    /// The batches that ended by `at`, and all latencies. All observations up to `at` must have been added.
    /// If [`CompletionSeries::is_evened`], completions are evened, and the result ends earlier by the longest
    /// lump, because operations of the next lump are still missing there.
    pub fn until(&self, at: Time) -> CompletionSeries {
        let mut series = self.clone();
        let since = at.as_ps().saturating_sub(self.start);
        let evened = self.is_evened(at);
        let ended = (if evened { since - self.lag } else { since }) >> self.log_length;
        series.batches.resize(ended.min(MOST_BATCHES as u64) as usize, Batch::default());
        if evened {
            series.batches.iter_mut().for_each(|batch| batch.completed = batch.evened);
        }
        series
    }

    /// Whether completions are evened in a result up to `at`. They must come in lumps that are far shorter
    /// than the observed time, and at least one batch must be left without the last lump.
    pub fn is_evened(&self, at: Time) -> bool {
        let since = at.as_ps().saturating_sub(self.start);
        self.lag > 0
            && LAGS.saturating_mul(self.lag) <= since
            && since.saturating_sub(self.lag) >= self.length()
    }

    /// Operations per picosecond over all batches.
    pub fn rate(&self) -> f64 {
        Batch::all(&self.batches).completed as f64 / (self.batches.len() as f64 * self.length() as f64)
    }

    /// When the series begins, in picoseconds.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Length of a batch in picoseconds.
    pub fn length(&self) -> u64 {
        1 << self.log_length
    }

    /// All batches, in order of time.
    pub fn batches(&self) -> &[Batch] {
        &self.batches
    }

    /// When a batch begins, in picoseconds.
    pub fn begin_of(&self, batch: usize) -> u64 {
        self.start + ((batch as u64) << self.log_length)
    }

    /// The longest latency in picoseconds.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// Histograms of latencies in nanoseconds, for consecutive spans of equal length; empty if histograms are
    /// not kept.
    pub fn latencies(&self) -> &[Histogram<u32>] {
        self.latencies.as_deref().unwrap_or_default()
    }

    /// All latencies in nanoseconds.
    pub fn latency(&self) -> Histogram<u32> {
        together(self.latencies())
    }
}

/// The sum of all these histograms.
pub fn together(some: &[Histogram<u32>]) -> Histogram<u32> {
    let mut all = empty();
    some.iter().for_each(|one| all.add(one).expect("the histograms have equal bounds"));
    all
}
