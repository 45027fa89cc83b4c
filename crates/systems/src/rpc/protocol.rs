//! The programs of a server's thread and of a client.

use super::config::Times;
use super::sizes::Sizes;
use super::text::Text;
use crate::herd::{self, Config, Done, Handler, RpcOutcome, Worker};
use crate::measure::How;
use crate::pace::Pace;
use crate::random::Random;
use crate::{Interval, Measured, SystemError};
use doorbell_schema::Arrivals;
use doorbell_verbs::{Cpu, Mem, OperationStep, Program, Provider, Span, Time};

/// The first stream of draws for workers. Lower numbers are for clients.
const WORKERS: u64 = 1 << 32;

/// The work of a worker for each request.
#[derive(Clone, Debug)]
struct Work {
    handler: Span,
    times: Times,
    replies: Sizes,
    random: Random,
}

impl Handler for Work {
    type Request = Text;
    type Reply = Text;

    fn handle<C: Cpu>(&mut self, cpu: &C, requests: &[Text], replies: &mut Vec<Text>) {
        for request in requests {
            let span = match self.times {
                Times::Fixed => self.handler,
                Times::Exponential => self.random.exponential(self.handler),
            };
            compute(cpu, span);
            replies.push(request.reply(self.replies.draw(&mut self.random)));
        }
    }
}

/// Keeps the processor busy for `span`, in virtual time and in real time. `work` alone takes no real time.
fn compute<C: Cpu>(cpu: &C, span: Span) {
    if span > Span::ZERO {
        let until = cpu.now() + span;
        cpu.work(span);
        while cpu.now() < until {
            cpu.pause(until);
        }
    }
}

/// A worker thread of the server.
#[derive(Clone, Debug)]
pub struct RpcServer {
    /// Configuration that servers and clients share.
    pub config: Config,
    /// Number of this worker.
    pub number: u32,
    /// The request region, of [`Config::region_bytes`] bytes, which the workers share.
    pub region: Mem,
    /// Time for which the worker computes for each request.
    pub handler: Span,
    /// Distribution of the handler's time.
    pub times: Times,
    /// Bytes of replies, up to [`Config::max_reply`].
    pub replies: Sizes,
    /// Seed of the draws of all threads.
    pub seed: u64,
    /// When it measures, and when it ends.
    pub interval: Interval,
}

impl Program for RpcServer {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let RpcServer { handler, times, replies, .. } = self;
        let random = Random::new(self.seed, WORKERS + u64::from(self.number));
        let mut work = Work { handler, times, replies, random };
        let mut measured = Measured::default();
        let mut worker = Worker::start(&p, &self.config, self.number, self.region)?;
        while !self.interval.is_over(&p) {
            if !worker.pass(&mut work, &self.interval, &mut measured)? {
                p.pause(self.interval.look());
            }
        }
        Ok(measured)
    }
}

/// A client's requests, and when they are due.
#[derive(Clone, Debug)]
pub struct Load {
    /// When requests are due.
    pub arrivals: Arrivals,
    /// In an open loop, the mean span between two requests of a client.
    pub between: Span,
    /// In a closed loop, the span from the end of an operation or window to the next one.
    pub think: Span,
    /// In a closed loop, whether the next requests begin only when all outstanding requests have ended.
    pub windows: bool,
    /// Maximum number of outstanding requests.
    pub outstanding: u32,
    /// Bytes of requests, up to [`Config::max_request`].
    pub requests: Sizes,
    /// Number of requests after which the client ends; 0 for no limit.
    pub limit: u64,
    /// Seed of the draws of all threads.
    pub seed: u64,
}

impl Load {
    /// The pace of client `number` of `clients`. In an open loop with fixed spans, requests of the clients
    /// are due in turn.
    fn pace(&self, number: u32, clients: u32, now: Time) -> Pace {
        match self.arrivals {
            Arrivals::Closed => Pace::closed(self.outstanding, self.windows, self.think, now),
            open => {
                let random = Random::new(self.seed, u64::from(number) << 1 | 1);
                Pace::open(open, self.between, (number.into(), clients.into()), now, random)
            }
        }
    }
}

/// A client. Its requests go to the workers in turn. It skips a worker whose window has no room.
#[derive(Clone, Debug)]
pub struct RpcClient {
    /// Configuration that servers and clients share.
    pub config: Config,
    /// Number of this client.
    pub number: u32,
    /// The requests, and when they are due.
    pub load: Load,
    /// When it measures, and when it ends at the latest.
    pub interval: Interval,
}

impl Program for RpcClient {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let caller = herd::HerdClient::start(&p, &self.config, self.number, self.load.outstanding)?;
        let interval = self.interval.begin(&p);
        let pace = self.load.pace(self.number, self.config.clients, p.now());
        let random = Random::new(self.load.seed, u64::from(self.number) << 1);
        let worker = self.number % self.config.workers;
        let asker = RpcAsker {
            client: &self,
            caller,
            interval,
            pace,
            random,
            worker,
            begun: 0,
            ended: 0,
            repeated: 0,
            counted: 0,
        };
        asker.ask(&p)
    }
}

/// An outstanding request.
#[derive(Clone, Debug)]
struct AskedRpc {
    since: Time,
    text: Text,
}

/// The state of a client.
struct RpcAsker<'a, P: Provider> {
    client: &'a RpcClient,
    caller: herd::HerdClient<P>,
    interval: Interval,
    pace: Pace,
    random: Random,
    /// The worker that gets the next request, if it has room.
    worker: u32,
    begun: u64,
    ended: u64,
    /// Number of requests that were sent again.
    repeated: u64,
    /// How many of these repetitions are in the measurements. Each is counted with the operation that ends
    /// next.
    counted: u64,
}

impl<P: Provider> RpcAsker<'_, P> {
    fn ask(mut self, p: &P) -> Result<Measured, SystemError> {
        let mut asked: Vec<Option<AskedRpc>> = vec![None; self.client.load.outstanding as usize];
        let (mut measured, mut done) = (Measured::default(), Vec::new());
        let limit = self.client.load.limit;
        while p.now() < self.interval.end() && (limit == 0 || self.ended < limit) {
            let mut busy = self.send(p, &mut asked)?;
            busy |= self.caller.poll(&mut done)?;
            for reply in done.drain(..) {
                let since = self.end(p.now(), &reply, &mut asked, &mut measured)?;
                p.mark(reply.key, OperationStep::Ends { since });
            }
            let repeated = self.caller.repeat()?;
            self.repeated += repeated;
            if !busy && repeated == 0 {
                p.pause(self.wakes());
            }
        }
        if self.ended < limit {
            return Err(SystemError::Timeout(format!(
                "only {} of {limit} requests were answered",
                self.ended
            )));
        }
        Ok(measured)
    }

    /// When the client has something to do even if no message arrives.
    fn wakes(&self) -> Time {
        let may_send = self.may_send() && self.free_worker().is_some();
        let next = if may_send { self.pace.next() } else { Time::NEVER };
        self.interval.look().min(self.caller.due()).min(next)
    }

    fn may_send(&self) -> bool {
        let load = &self.client.load;
        self.caller.outstanding() < load.outstanding && (load.limit == 0 || self.begun < load.limit)
    }

    /// The next worker with room.
    fn free_worker(&self) -> Option<u32> {
        let workers = self.client.config.workers;
        let mut turns = (0..workers).map(|turn| (self.worker + turn) % workers);
        turns.find(|worker| self.caller.has_room(*worker))
    }

    /// Sends due requests as far as workers have room. Returns whether it sent any.
    fn send(&mut self, p: &P, asked: &mut [Option<AskedRpc>]) -> Result<bool, SystemError> {
        let mut sent = false;
        while self.may_send() {
            let Some(worker) = self.free_worker() else { break };
            let Some(since) = self.pace.take(p.now()) else { break };
            let length = self.client.load.requests.draw(&mut self.random);
            let text = Text::request(self.client.number, self.begun, length);
            let free =
                asked.iter().position(Option::is_none).expect("fewer requests are outstanding than allowed");
            self.caller.send(worker, &text, free as u64)?;
            asked[free] = Some(AskedRpc { since, text });
            self.begun += 1;
            self.worker = (worker + 1) % self.client.config.workers;
            sent = true;
        }
        Ok(sent)
    }

    /// Checks the reply that ended a request, and counts the operation. Returns when the operation's latency
    /// began.
    fn end(
        &mut self,
        now: Time,
        done: &Done<Text>,
        asked: &mut [Option<AskedRpc>],
        measured: &mut Measured,
    ) -> Result<Time, SystemError> {
        let number = self.client.number;
        let Some(AskedRpc { since, text }) = asked[done.tag as usize].take() else {
            return Err(SystemError::Protocol(format!("a request of client {number} was answered twice")));
        };
        match &done.outcome {
            RpcOutcome::Reply(reply) if *reply == text.reply(reply.length()) => {}
            RpcOutcome::Reply(_) => {
                let why = format!("a request of client {number} got the reply to another request");
                return Err(SystemError::Protocol(why));
            }
            RpcOutcome::Malformed => {
                return Err(SystemError::Protocol("the server refused a request as malformed".into()));
            }
        }
        self.ended += 1;
        self.pace.ended(now, (self.begun - self.ended) as u32);
        let again = self.caller.early() + self.repeated - self.counted;
        self.counted += again;
        measured.operation(&self.interval, since, now, How { again, ..How::default() });
        Ok(since)
    }
}
