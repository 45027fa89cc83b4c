//! HERD's RPCs: replies match requests, and each request is executed once.

use crate::check::{Check, Trouble};
use crate::faults::Faults;
use crate::stage::{self, place, text};
use doorbell_systems::Record;
use doorbell_systems::herd::{
    Config, Done, Handler, HerdClient, Message, Replies, Requests, RpcOutcome, Worker, ways,
};
use doorbell_systems::{Interval, Measured, SystemError};
use doorbell_verbs::{Cluster, Cpu, Mem, Program, Provider, Span, Time};
use std::collections::HashMap;

/// Clients that send requests of many lengths and check the replies.
#[derive(Clone, Copy, Debug)]
pub struct HerdCase {
    /// How requests and replies travel.
    pub by: (Requests, Replies),
    /// Number of clients.
    pub clients: u32,
    /// Threads of the server.
    pub workers: u32,
    /// Requests that a client has outstanding; a power of two.
    pub outstanding: u32,
    /// Requests that a worker takes in a pass.
    pub gather: u32,
    /// Whether the replies of a pass share one doorbell.
    pub doorbell: bool,
    /// Number of QPs that replies use in turn.
    pub queues: u32,
    /// Requests that each client sends.
    pub requests: u32,
    /// Time after which a client repeats a request.
    pub retry: Option<Span>,
    /// The injected faults.
    pub faults: Faults,
}

/// The longest text. It fits into no NIC's WQE.
const LONGEST: u32 = 700;
/// Bytes of a message before its text.
const BEFORE_TEXT: usize = 12;

/// A request or a reply. A reply says how often its request was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Echo {
    client: u32,
    number: u32,
    executed: u32,
    text: Vec<u8>,
}

impl Message for Echo {
    fn encode(&self, into: &mut Vec<u8>) {
        for word in [self.client, self.number, self.executed] {
            into.extend_from_slice(&word.to_le_bytes());
        }
        into.extend_from_slice(&self.text);
    }

    fn decode(bytes: &[u8]) -> Option<Echo> {
        let (words, text) = bytes.split_at_checked(BEFORE_TEXT)?;
        let [client, number, executed] = words.as_chunks().0 else { return None };
        let [client, number, executed] = [client, number, executed].map(|word| u32::from_le_bytes(*word));
        Some(Echo { client, number, executed, text: text.to_vec() })
    }
}

/// A request. Its text differs from the text of any other request.
fn request(client: u32, number: u32) -> Echo {
    let salt = client.wrapping_mul(0x9e37_79b9) ^ number.wrapping_mul(0x85eb_ca6b);
    let length = salt % (LONGEST + 1);
    let text = (0..length).map(|at| (salt.rotate_left(at % 32) ^ at) as u8).collect();
    Echo { client, number, executed: 0, text }
}

fn reply_to(request: &Echo, executed: u32) -> Echo {
    Echo { executed, text: request.text.iter().map(|byte| !byte).collect(), ..request.clone() }
}

/// Executes requests, and counts how often it executes each one.
#[derive(Default)]
struct Echoer(HashMap<(u32, u32), u32>);

impl Handler for Echoer {
    type Request = Echo;
    type Reply = Echo;

    fn handle<C: Cpu>(&mut self, _: &C, requests: &[Echo], replies: &mut Vec<Echo>) {
        for request in requests {
            let executed = self.0.entry((request.client, request.number)).or_default();
            *executed += 1;
            replies.push(reply_to(request, *executed));
        }
    }
}

struct HerdServer {
    config: Config,
    number: u32,
    region: Mem,
    interval: Interval,
}

impl Program for HerdServer {
    type Output = Result<(), SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let (mut echoer, mut measured) = (Echoer::default(), Measured::default());
        let mut worker = Worker::start(&p, &self.config, self.number, self.region)?;
        while !self.interval.is_over(&p) {
            if !worker.pass(&mut echoer, &self.interval, &mut measured)? {
                p.pause(self.interval.look());
            }
        }
        Ok(())
    }
}

/// The counts of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answered {
    /// Replies that matched.
    pub replies: u64,
    /// Requests that were sent again.
    pub again: u64,
}

impl Record for Answered {
    fn to_words(&self) -> Vec<u64> {
        vec![self.replies, self.again]
    }

    fn from_words(words: &[u64]) -> Option<Answered> {
        let &[replies, again] = words else { return None };
        Some(Answered { replies, again })
    }
}

/// A client that checks its replies.
struct HerdAsker {
    case: HerdCase,
    config: Config,
    number: u32,
    end: Time,
}

impl HerdAsker {
    /// Checks a reply.
    fn check(&self, done: &Done<Echo>) -> Result<(), SystemError> {
        let number = done.tag as u32;
        let expected = reply_to(&request(self.number, number), 1);
        match &done.outcome {
            RpcOutcome::Reply(reply) if *reply == expected => Ok(()),
            RpcOutcome::Reply(Echo { client, number: of, executed, text }) => {
                Err(SystemError::Protocol(format!(
                    "request {number} of {} bytes: the reply is to request {of} of client {client}, executed \
                     {executed} times, with {} bytes",
                    expected.text.len(),
                    text.len()
                )))
            }
            RpcOutcome::Malformed => {
                Err(SystemError::Protocol(format!("the server refused request {number} as malformed")))
            }
        }
    }
}

impl Program for HerdAsker {
    type Output = Result<Answered, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut caller = HerdClient::start(&p, &self.config, self.number, self.case.outstanding)?;
        let (mut done, mut sent) = (Vec::new(), 0);
        let mut answered = Answered { replies: 0, again: 0 };
        while answered.replies < self.case.requests.into() {
            let mut busy = false;
            let mut worker = sent % self.config.workers;
            while sent < self.case.requests
                && caller.outstanding() < self.case.outstanding
                && caller.has_room(worker)
            {
                caller.send(worker, &request(self.number, sent), sent.into())?;
                sent += 1;
                worker = sent % self.config.workers;
                busy = true;
            }
            busy |= caller.poll(&mut done)?;
            for d in done.drain(..) {
                self.check(&d)?;
                answered.replies += 1;
            }
            let again = caller.repeat()?;
            answered.again += again;
            if !busy && again == 0 {
                if p.now() >= self.end {
                    let text = format!("only {} of {} replies arrived", answered.replies, self.case.requests);
                    return Err(SystemError::Timeout(text));
                }
                p.pause(self.end.min(caller.due()));
            }
        }
        Ok(answered)
    }
}

impl HerdCase {
    /// Runs the case and checks the replies. Returns each client's counts, or nothing if machine 0 is in
    /// another process.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn run<C: Cluster>(&self, cluster: &mut C, patience: Span) -> Result<Vec<Answered>, String> {
        let machines = cluster.machines();
        let mut stage = stage::stage(cluster, self.faults, patience)?;
        let config = Config {
            requests: self.by.0,
            replies: self.by.1,
            workers: self.workers,
            clients: self.clients,
            window: self.outstanding,
            max_request: LONGEST + BEFORE_TEXT as u32,
            max_reply: LONGEST + BEFORE_TEXT as u32,
            gather: self.gather,
            doorbell: self.doorbell,
            queues: self.queues,
            retry: self.retry,
        };
        let region = stage.alloc(config.region_bytes()).map_err(text)?;
        let interval = stage.server_interval();
        for number in 0..self.workers {
            let config = config.clone();
            stage.add_server(HerdServer { config, number, region, interval: interval.clone() });
        }
        let end = stage.client_interval().end();
        for number in 0..self.clients {
            stage.add_client(
                place(machines, number),
                HerdAsker { case: *self, config: config.clone(), number, end },
            );
        }
        stage::run(stage)
    }
}

/// A case for the fixed list of checks.
struct HerdShape {
    by: (Requests, Replies),
    batched: bool,
    queues: u32,
    trouble: Trouble,
}

impl HerdShape {
    const fn new(by: (Requests, Replies), queues: u32) -> HerdShape {
        HerdShape { by, batched: false, queues, trouble: Trouble::None }
    }

    const fn batched(self) -> HerdShape {
        HerdShape { batched: true, ..self }
    }

    const fn under(self, trouble: Trouble) -> HerdShape {
        HerdShape { trouble, ..self }
    }

    fn check<C: Cluster>(self, name: &str) -> Check<C> {
        Check::new(name, move |cluster, scale| {
            let case = HerdCase {
                by: self.by,
                clients: scale.clients,
                workers: 2,
                outstanding: 8,
                gather: if self.batched { 16 } else { 1 },
                doorbell: self.batched,
                queues: self.queues,
                requests: scale.requests / self.trouble.part(),
                retry: self.trouble.retry(scale),
                faults: self.trouble.faults(scale),
            };
            case.run(cluster, scale.patience).map(drop)
        })
    }
}

/// HERD's two ways to carry requests and replies.
const WRITES: (Requests, Replies) = (Requests::WriteUc, Replies::SendUd);
const SENDS: (Requests, Replies) = (Requests::SendUd, Replies::SendUd);

/// The checks of HERD's RPCs, and of these RPCs by other verbs.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let writes = |queues| HerdShape::new(WRITES, queues);
    let sends = |queues| HerdShape::new(SENDS, queues);
    let over = |requests, replies| HerdShape::new((requests, replies), 1).batched();
    let mut all = vec![
        writes(1).check("systems/rpc/baseline"),
        writes(1).batched().check("systems/rpc/batching"),
        writes(3).check("systems/rpc/multi_queue"),
        writes(3).batched().check("systems/rpc/batching_multi_queue"),
        writes(2).batched().under(Trouble::Loss).check("systems/rpc/lost_messages"),
        writes(2).batched().under(Trouble::Hesitation).check("systems/rpc/requests_that_are_being_written"),
        writes(2).batched().under(Trouble::Late).check("systems/rpc/repeated_without_need"),
        sends(1).check("systems/datagram_rpc/baseline"),
        sends(3).batched().check("systems/datagram_rpc/batching_multi_queue"),
        sends(2).batched().under(Trouble::Loss).check("systems/datagram_rpc/lost_messages"),
        over(Requests::SendUc, Replies::SendUc)
            .under(Trouble::Loss)
            .check("systems/uc_send_rpc/lost_messages"),
        over(Requests::WriteUc, Replies::WriteUc)
            .under(Trouble::Loss)
            .check("systems/uc_write_rpc/lost_messages"),
        over(Requests::WriteUc, Replies::WriteUc)
            .under(Trouble::Late)
            .check("systems/uc_write_rpc/repeated_without_need"),
        over(Requests::WriteUc, Replies::WriteUc)
            .under(Trouble::Hesitation)
            .check("systems/uc_write_rpc/replies_that_are_being_written"),
        over(Requests::WriteRc, Replies::ReadRc)
            .under(Trouble::Hesitation)
            .check("systems/read_rpc/replies_that_are_being_stored"),
    ];
    let others = ways().filter(|way| ![WRITES, SENDS].contains(way));
    all.extend(others.map(|(requests, replies)| {
        over(requests, replies).check(&format!("systems/rpc/{}_{}", requests.name(), replies.name()))
    }));
    all
}
