//! Decides when a thread posts if it does not just keep its window full.

use super::thread::Worker;
use doorbell_systems::Measurement;
use doorbell_systems::pace::{self, Pace};
use doorbell_systems::random::Random;
use doorbell_systems::series::Batch;
use doorbell_verbs::{Span, Time};
use doorbell_workload::{LoadLoop, topology};
use std::collections::VecDeque;

/// Random streams of arrivals. The streams for other draws of threads have smaller numbers.
const ARRIVALS: u64 = 1 << 63;

/// Pacing of a thread: when its next batch may be posted.
pub(super) struct Pacing {
    pace: Pace,
    /// Start times of the operations already taken for the next batch.
    due: VecDeque<Time>,
    batch: usize,
    /// Whether operations are due independently of earlier ones. Their latency then counts from their due
    /// time.
    open: bool,
}

impl Pacing {
    /// The pacing of a thread that begins now; `None` if its workload sets none.
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

    /// Due time of the next operation. [`Time::NEVER`] if it must wait for one that has not ended.
    pub(super) fn next(&self) -> Time {
        self.pace.next()
    }

    /// Posts an operation of a due batch now. Returns the time from which its latency counts.
    pub(super) fn begin(&mut self, now: Time) -> Time {
        let since = self.due.pop_front().expect("a batch is due");
        if self.open { since } else { now }
    }

    /// Notes that `operations` operations have ended now while `under_way` are outstanding.
    pub(super) fn ended(&mut self, now: Time, operations: u64, under_way: u64) {
        (0..operations).for_each(|_| self.pace.ended(now, under_way as u32));
    }
}

/// The operations that all threads, or the threads of one class, are due to post.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// Number and name of the class; `None` for all threads.
    pub class: Option<(usize, String)>,
    /// Operations per second.
    pub rate: u64,
    /// Operations that may be outstanding.
    pub under_way: u64,
}

impl Due {
    /// Mean number of operations due in a time.
    pub fn within(&self, span: Span) -> f64 {
        self.rate as f64 * span.as_ps() as f64 / 1e12
    }

    /// Whether completions lag behind due operations by more than the outstanding ones and chance explain.
    /// The backlog then keeps growing. Chance is five standard deviations of a Poisson process.
    fn is_ahead(&self, completed: u64, span: Span) -> bool {
        let due = self.within(span);
        due - completed as f64 > self.under_way as f64 + 5.0 * due.sqrt()
    }

    /// Whether the completions that these threads saw until `until` lag behind the due operations.
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
