//! How an engine reserves positions.

use super::config::Reserve;
use super::layout::{Layout, TAIL};
use crate::herd::{self, Config, Done, Handler, Replies, Requests, Worker};
use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{Cpu, Mem, Program, Provider, Span, Time};

/// Number of the only thread of the log machine that answers.
const WORKER: u32 = 0;

/// Largest number of requests that the thread takes in a pass. It posts their replies with one doorbell.
const GATHER: u32 = 32;

/// The RPCs by which positions are reserved (ATC'16, 4.2: a sequencer by UD SENDs, with batching).
pub(super) fn rpcs(engines: u32, retry: Option<Span>) -> Config {
    Config {
        requests: Requests::SendUd,
        replies: Replies::SendUd,
        workers: 1,
        clients: engines,
        window: 1,
        max_request: 8,
        max_reply: 8,
        gather: GATHER,
        doorbell: true,
        queues: 1,
        retry,
    }
}

/// Assigns positions: to each request as many as it asks for.
struct Positions {
    log: Mem,
}

impl Handler for Positions {
    type Request = u64;
    type Reply = u64;

    fn handle<C: Cpu>(&mut self, cpu: &C, requests: &[u64], replies: &mut Vec<u64>) {
        let all = requests.iter().fold(0, |all: u64, records| all.wrapping_add(*records));
        let mut position = cpu.fetch_add_u64(self.log, TAIL, all);
        for records in requests {
            replies.push(position);
            position = position.wrapping_add(*records);
        }
    }
}

/// The program of the log machine's thread that answers.
pub(super) struct Sequencer {
    pub(super) config: Config,
    pub(super) region: Mem,
    /// The log, whose tail the thread increases.
    pub(super) log: Mem,
    pub(super) interval: Interval,
}

impl Program for Sequencer {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut measured = Measured::default();
        let mut positions = Positions { log: self.log };
        let mut worker = Worker::start(&p, &self.config, WORKER, self.region)?;
        while !self.interval.is_over(&p) {
            if !worker.pass(&mut positions, &self.interval, &mut measured)? {
                p.pause(self.interval.look());
            }
        }
        Ok(measured)
    }
}

/// An engine's way to reserve positions.
pub enum Reserver<P: Provider> {
    /// Fetch-and-adds, by the QP that carries the records.
    FetchAdd,
    /// Questions to a thread of the log machine.
    Rpc(Box<PositionAsker<P>>),
}

impl<P: Provider> Reserver<P> {
    /// Makes the reserver of `engine`. Returns once the log machine is ready for the engine.
    ///
    /// # Errors
    /// If a verb fails.
    pub fn open(
        cpu: &P,
        (reserve, retry): (Reserve, Option<Span>),
        layout: &Layout,
        engine: u32,
    ) -> Result<Reserver<P>, SystemError> {
        match reserve {
            Reserve::FetchAdd => Ok(Reserver::FetchAdd),
            Reserve::Rpc => {
                let caller = herd::HerdClient::start(cpu, &rpcs(layout.engines, retry), engine, 1)?;
                Ok(Reserver::Rpc(Box::new(PositionAsker { caller, done: Vec::with_capacity(1) })))
            }
        }
    }
}

/// Asks the log machine's thread for positions, one question at a time.
pub struct PositionAsker<P: Provider> {
    caller: herd::HerdClient<P>,
    done: Vec<Done<u64>>,
}

impl<P: Provider> PositionAsker<P> {
    /// Asks for `records` positions, unless a question is outstanding.
    pub(super) fn ask(&mut self, records: u64) -> Result<(), SystemError> {
        if self.caller.outstanding() > 0 {
            return Ok(());
        }
        self.caller.send(WORKER, &records, 0)
    }

    /// The first position of the answer, if the answer has come.
    pub(super) fn answer(&mut self) -> Result<Option<u64>, SystemError> {
        self.caller.poll(&mut self.done)?;
        self.caller.repeat()?;
        match self.done.pop().map(|done| done.outcome) {
            Some(herd::RpcOutcome::Reply(position)) => Ok(Some(position)),
            Some(herd::RpcOutcome::Malformed) => {
                Err(SystemError::Protocol("the log machine did not understand the request".into()))
            }
            None => Ok(None),
        }
    }

    /// The time at which an unanswered question is asked again.
    pub(super) fn due(&self) -> Time {
        self.caller.due()
    }
}
