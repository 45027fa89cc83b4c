//! The workload as programs: one poll loop per thread, written on verbs alone.

mod requester;
mod responder;
mod ring;
mod session;

use crate::steady::Series;
use doorbell_verbs::{Mem, PostError, Program, Provider, Time, VerbsError, Wc, WcStatus};
use doorbell_workload::Resolved;
use doorbell_workload::topology;
use hdrhistogram::Histogram;
use requester::Requester;
use responder::Responder;
use session::Session;
pub(crate) use session::buffer_bytes;
use std::sync::Arc;
use thiserror::Error;

/// Longest latency that is told apart, in nanoseconds; longer ones count as this.
const LONGEST_NS: u64 = 10_000_000_000;

/// A cache line; buffers of different operations do not share one.
const LINE: u64 = 64;

/// Why a thread gave up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProgramError {
    /// A verb was refused.
    #[error("{0}")]
    Verbs(#[from] VerbsError),
    /// A post was refused.
    #[error("{0}")]
    Post(#[from] PostError),
    /// A work request failed.
    #[error("a work request completed with {0:?}")]
    Completion(WcStatus),
}

/// What a thread measured from the end of the warm-up to the end of the run.
#[derive(Clone, Debug)]
pub struct ThreadResult {
    /// Operations that this thread posted and saw completed.
    pub completed: u64,
    /// Messages it received.
    pub received: u64,
    /// Nanoseconds from post to completion seen, of the signalled operations.
    pub latency: Histogram<u32>,
    /// What of it came when.
    pub(crate) series: Series,
}

/// Batches that the measured time is cut into, at least; at most twice as many.
const BATCHES: u64 = 128;

impl ThreadResult {
    fn new(interval: Interval) -> ThreadResult {
        let latency = Histogram::new(3).expect("three digits are a valid constant");
        let length = (interval.end - interval.from).as_ps() / BATCHES;
        let series = Series::new(interval.from.as_ps(), length.max(1).ilog2());
        ThreadResult { completed: 0, received: 0, latency, series }
    }
}

/// One thread of a workload.
#[derive(Clone, Debug)]
pub struct Worker {
    /// What to do.
    pub workload: Arc<Resolved>,
    /// Its machine.
    pub machine: u32,
    /// Its number on that machine, from 0.
    pub thread: u32,
    /// Ports that every machine has; the thread uses the one of its number modulo these.
    pub ports: u32,
    /// The counters of its machine that all its threads share, for atomics.
    pub counters: Option<Mem>,
}

/// From when to when a thread measures.
#[derive(Clone, Copy)]
struct Interval {
    from: Time,
    end: Time,
}

impl Interval {
    fn of(w: &Resolved) -> Interval {
        let from = Time::START + w.warmup.span();
        Interval { from, end: from + w.duration.span() }
    }

    fn contains(self, time: Time) -> bool {
        self.from <= time && time < self.end
    }
}

/// `n % len`, without a division for the usual `n` below `2 * len`.
fn wrap(n: usize, len: usize) -> usize {
    if n < len {
        n
    } else if n - len < len {
        n - len
    } else {
        n % len
    }
}

/// The `wr_id` of a work request: which ring (or QP), and its place there.
fn wr_id(ring: usize, slot: usize) -> u64 {
    (ring as u64) << 32 | slot as u64
}

/// The inverse of [`wr_id`].
fn from_wr_id(wr_id: u64) -> (usize, usize) {
    ((wr_id >> 32) as usize, wr_id as u32 as usize)
}

fn check(wc: &Wc) -> Result<(), ProgramError> {
    if wc.status == WcStatus::Success { Ok(()) } else { Err(ProgramError::Completion(wc.status)) }
}

impl Program for Worker {
    type Output = Result<ThreadResult, ProgramError>;

    fn run<P: Provider>(self, provider: P) -> Self::Output {
        let w = &*self.workload;
        let interval = Interval::of(w);
        let mut result = ThreadResult::new(interval);
        let session = Session::open(&self, &provider)?;
        let recv_sges = session.recv_sges();
        let mut responder = match topology::responds(w, self.machine) && w.verb.consumes_recv() {
            true => Some(Responder::start(&session, &recv_sges)?),
            false => None,
        };
        let paths = session.connect()?;
        let send_sges = session.send_sges();
        let mut requester = topology::requests(w, self.machine)
            .then(|| Requester::new(&self, &provider, &session, &paths, &send_sges));
        if let Some(requester) = &mut requester {
            requester.delay();
        }
        while provider.now() < interval.end {
            let mut found = false;
            if let Some(responder) = &mut responder {
                found |= responder.pass(&provider, interval, &mut result)?;
            }
            if let Some(requester) = &mut requester {
                found |= requester.pass(interval, &mut result)?;
            }
            if !found {
                provider.pause(interval.end);
            }
        }
        Ok(result)
    }
}
