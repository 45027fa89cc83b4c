//! The workload as programs: one poll loop per thread, written on verbs alone.

mod pacing;
mod requester;
mod responder;
mod ring;
mod session;
mod tally;

use doorbell_systems::Measurement;
use doorbell_verbs::{Mem, PostError, Program, Provider, Span, Time, VerbsError, Wc, WcStatus};
use doorbell_workload::Resolved;
use doorbell_workload::topology;
pub(crate) use pacing::Due;
use requester::Requester;
use responder::Responder;
use session::Session;
pub(crate) use session::buffers;
use std::sync::Arc;
pub(crate) use tally::OfKind;
pub use tally::Tally;
use thiserror::Error;

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

/// What a thread measured from the end of the warm-up to the end of the run, beside what all saw together.
#[derive(Clone, Debug, Default)]
pub struct ThreadResult {
    /// Operations that this thread posted and saw completed, SENDs excepted.
    pub completed: u64,
    /// Messages it received.
    pub received: u64,
    /// What became of all that it posted.
    pub accounts: Accounts,
}

/// What became of the operations that a thread posted, and of the messages that came to it: whole run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accounts {
    /// Operations that it posted.
    pub posted: u64,
    /// Their payload in bytes.
    pub posted_bytes: u64,
    /// The payload in bytes of those that completed.
    pub completed_bytes: u64,
    /// Those that completed, as their own or a later completion said.
    pub completed: u64,
    /// Those of which nothing is known at the end.
    pub outstanding: u64,
    /// Messages that it received.
    pub received: u64,
    /// How long signalled operations were under way within the measured time, all together, in picoseconds.
    pub under_way: u128,
}

/// One thread of a workload.
#[derive(Clone, Debug)]
pub struct Worker {
    /// What to do: what its class does.
    pub workload: Arc<Resolved>,
    /// From when to when is measured, and what all threads see.
    pub measurement: Measurement,
    /// Its machine.
    pub machine: u32,
    /// Its number on that machine, from 0.
    pub thread: u32,
    /// Its number among those of its class on that machine, from 0.
    pub number: u32,
    /// Threads of that machine.
    pub threads: u32,
    /// The NIC that it uses.
    pub device: u32,
    /// A core at whose socket its memory is, where that is not its own.
    pub memory_near: Option<u32>,
    /// What it does for each operation beside its verbs, in virtual time.
    pub own_work: Span,
    /// Ports that every machine has and uses; the thread uses the one of its number modulo these.
    pub ports: u32,
    /// The counters of its machine that all its threads share, for atomics.
    pub counters: Option<Mem>,
    /// What all threads know of each kind of operations.
    pub tally: Tally,
}

impl Worker {
    /// A number of its own among all threads that post.
    fn place(&self) -> u64 {
        let before = (0..self.machine).filter(|machine| topology::requests(&self.workload, *machine)).count();
        before as u64 * u64::from(self.threads) + u64::from(self.thread)
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
        let measurement = &self.measurement;
        let mut result = ThreadResult::default();
        let session = Session::open(&self, &provider)?;
        let recv_sges = session.recv_sges();
        let mut responder = match topology::responds(w, self.machine) && w.consumes_recvs() {
            true => Some(Responder::start(&session, &recv_sges)?),
            false => None,
        };
        let paths = session.connect()?;
        let send_sges = session.send_sges();
        let mut requester = topology::requests(w, self.machine)
            .then(|| Requester::new(&self, &provider, &session, &paths, &send_sges));
        if let Some(requester) = &mut requester {
            requester.begin();
        }
        while provider.now() < measurement.end() {
            let mut found = false;
            if let Some(responder) = &mut responder {
                found |= responder.pass(&provider, measurement, &mut result)?;
            }
            if let Some(requester) = &mut requester {
                found |= requester.pass(measurement, &mut result)?;
            }
            if !found {
                let wakes = requester.as_ref().map_or(Time::NEVER, Requester::wakes);
                provider.pause(measurement.look().min(wakes));
            }
        }
        if let Some(requester) = &requester {
            requester.account(measurement, &mut result.accounts);
        }
        Ok(result)
    }
}
