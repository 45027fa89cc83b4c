//! Decides when a thread posts, if the thread does not always fill its window at once.

use super::thread::Worker;
use doorbell_systems::pace::{self, Pace};
use doorbell_systems::random::Random;
use doorbell_verbs::{Span, Time};
use doorbell_workload::{LoadLoop, topology};
use std::collections::VecDeque;

/// Smallest number of the random streams of arrivals. Other draws of threads use smaller stream numbers.
const ARRIVALS: u64 = 1 << 63;

/// Pacing of a thread: when its next batch may be posted.
pub(super) struct Pacing {
    pace: Pace,
    /// Times from which the latencies count, of the operations that are due for the next batch.
    due: VecDeque<Time>,
    batch: usize,
    /// Whether the loop is open: operations are due independently of earlier ones, and latency counts from
    /// the due time.
    open: bool,
}

impl Pacing {
    /// The pacing of a thread that begins now; `None` if the thread fills its window at once.
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

    /// When the next operation is due. [`Time::NEVER`] if an outstanding operation has to end first.
    pub(super) fn next(&self) -> Time {
        self.pace.next()
    }

    /// Notes that an operation of a due batch is posted now. Returns the time from which its latency counts.
    pub(super) fn begin(&mut self, now: Time) -> Time {
        let since = self.due.pop_front().expect("a batch is due");
        if self.open { since } else { now }
    }

    /// Notes that `operations` operations have ended now. `under_way` operations are still outstanding.
    pub(super) fn ended(&mut self, now: Time, operations: u64, under_way: u64) {
        (0..operations).for_each(|_| self.pace.ended(now, under_way as u32));
    }
}

/// The due operations of all threads in an open loop, or of the threads of one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Due {
    /// Number and name of the class; `None` for all threads.
    pub class: Option<(usize, String)>,
    /// Operations that are due per second.
    pub rate: u64,
    /// Largest number of operations that may be outstanding.
    pub under_way: u64,
}

impl Due {
    /// Mean number of operations that become due in `span`.
    pub fn within(&self, span: Span) -> f64 {
        self.rate as f64 * span.as_ps() as f64 / 1e12
    }
}
