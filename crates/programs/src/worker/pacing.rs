//! When a thread posts that does not just keep its window full.

use super::thread::Worker;
use doorbell_systems::Measurement;
use doorbell_systems::pace::{self, Pace};
use doorbell_systems::random::Random;
use doorbell_systems::series::Batch;
use doorbell_verbs::{Span, Time};
use doorbell_workload::{LoadLoop, topology};
use std::collections::VecDeque;

/// Streams of draws of arrivals; those of threads' other draws have smaller numbers.
const ARRIVALS: u64 = 1 << 63;

/// When the next batch may be posted.
pub(super) struct Pacing {
    pace: Pace,
    /// Operations taken of it, of the next batch: since when each waits.
    due: VecDeque<Time>,
    batch: usize,
    /// Whether operations are due whatever becomes of earlier ones: they then wait since they were due.
    open: bool,
}

impl Pacing {
    /// That of a thread that begins now, where its workload says any.
    pub(super) fn of(worker: &Worker, now: Time) -> Option<Pacing> {
        let w = &*worker.workload;
        let work = w.uniform().expect("a class of threads has no classes");
        let pace = match work.pace {
            LoadLoop::Open { arrivals, rate } => {
                let threads = topology::posting_threads(w);
                let number = topology::posting_number(w, worker.machine, worker.number);
                let random = Random::new(w.seed, ARRIVALS | worker.place());
                Pace::open(arrivals, pace::between(rate, threads), (number, threads), now, random)
            }
            LoadLoop::Closed { think } => Pace::closed(work.window.operations(), w.drain, think?.span(), now),
        };
        let batch = w.batch as usize;
        Some(Pacing { pace, due: VecDeque::with_capacity(batch), batch, open: w.open_loop().is_some() })
    }

    /// Whether a whole batch is due.
    pub(super) fn is_due(&mut self, now: Time) -> bool {
        while self.due.len() < self.batch {
            match self.pace.take(now) {
                Some(since) => self.due.push_back(since),
                None => return false,
            }
        }
        true
    }

    /// When one more operation is due; never, if that depends on one that has not ended.
    pub(super) fn next(&self) -> Time {
        self.pace.next()
    }

    /// An operation of a batch that is due is posted now: since when it waits.
    pub(super) fn begin(&mut self, now: Time) -> Time {
        let since = self.due.pop_front().expect("a batch is due");
        if self.open { since } else { now }
    }

    /// So many have ended now, and so many have not.
    pub(super) fn ended(&mut self, now: Time, operations: u64, under_way: u64) {
        (0..operations).for_each(|_| self.pace.ended(now, under_way as u32));
    }
}

/// What all threads together, or those of a class, are to post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// The number and the name of the class, where it is of one.
    pub class: Option<(usize, String)>,
    /// Operations in a second.
    pub rate: u64,
    /// Operations that may be under way.
    pub under_way: u64,
}

impl Due {
    /// Operations that are due in a time, on average.
    pub fn within(&self, span: Span) -> f64 {
        self.rate as f64 * span.as_ps() as f64 / 1e12
    }

    /// Whether so many that completed in a time are fewer than were due, by more than are under way and chance: then
    /// more and more wait. Five standard deviations of a Poisson process.
    fn is_ahead(&self, completed: u64, span: Span) -> bool {
        let due = self.within(span);
        due - completed as f64 > self.under_way as f64 + 5.0 * due.sqrt()
    }

    /// The same of those threads, by what was seen of them up to a time.
    pub fn is_ahead_of(&self, measurement: &Measurement, until: Time) -> bool {
        let seen = match &self.class {
            None => Some(measurement.series()),
            Some((number, _)) => measurement.series_of(*number),
        };
        let Some(seen) = seen.map(|series| series.until(until)) else { return false };
        let span = Span::from_ps(seen.length() * seen.batches().len() as u64);
        self.is_ahead(Batch::all(seen.batches()).completed, span)
    }
}
