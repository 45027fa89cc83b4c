//! RPCs execute a request once, with all verbs for requests, and with any loss.

#![allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]

use crate::common::{alloc, cluster, interval, results, spawn};
use doorbell_sim::SimCluster;
use doorbell_systems::herd::{
    Config, Handler, HerdClient, Message, Replies, Requests, RpcOutcome, Worker, ways,
};
use doorbell_systems::{Interval, Measured, SystemError};
use doorbell_systems_suite::{Layer, Layered};
use doorbell_verbs::{
    Cluster, Cpu, CqHandle, Mem, PostError, Program, Provider, QpHandle, QpType, SendWr, Span, Task, Time,
    UdDest, VerbsError, Wc, WcOpcode,
};
use proptest::prelude::*;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A name, and bytes that the name determines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Job {
    name: u32,
    padding: u16,
}

/// The bytes after a job's name.
fn padding(job: Job) -> impl Iterator<Item = u8> {
    (0..job.padding).map(move |i| job.name.wrapping_mul(31).wrapping_add(i.into()) as u8)
}

impl Message for Job {
    fn encode(&self, into: &mut Vec<u8>) {
        into.extend(self.name.to_le_bytes());
        into.extend(padding(*self));
    }

    fn decode(bytes: &[u8]) -> Option<Job> {
        let (name, rest) = bytes.split_first_chunk()?;
        let job = Job { name: u32::from_le_bytes(*name), padding: rest.len() as u16 };
        padding(job).eq(rest.iter().copied()).then_some(job)
    }
}

const LONGEST: u16 = 400;

/// Bytes that are not a job.
struct Junk(u16);

impl Message for Junk {
    fn encode(&self, into: &mut Vec<u8>) {
        into.resize(self.0.into(), 7);
    }

    fn decode(_: &[u8]) -> Option<Junk> {
        None
    }
}

/// Returns each job as its reply, and records its name.
#[derive(Default)]
struct Log(Vec<u32>);

impl Handler for Log {
    type Request = Job;
    type Reply = Job;

    fn handle<C: Cpu>(&mut self, _: &C, requests: &[Job], replies: &mut Vec<Job>) {
        self.0.extend(requests.iter().map(|job| job.name));
        replies.extend(requests);
    }
}

/// Executes jobs. Its result is the names of the executed jobs.
struct Server {
    config: Config,
    number: u32,
    region: Mem,
    interval: Interval,
}

impl Program for Server {
    type Output = Result<Vec<u32>, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut log = Log::default();
        let mut worker = Worker::start(&p, &self.config, self.number, self.region)?;
        while p.now() < self.interval.end() {
            if !worker.pass(&mut log, &self.interval, &mut Measured::default())? {
                p.pause(self.interval.end());
            }
        }
        Ok(log.0)
    }
}

/// Sends `jobs` jobs to the workers in turn. Its result is the names of the completed jobs.
struct Sender {
    config: Config,
    number: u32,
    jobs: u32,
    outstanding: u32,
    until: Time,
}

impl Sender {
    fn job(&self, n: u32) -> Job {
        Job { name: self.number << 16 | n, padding: (n.wrapping_mul(37) % u32::from(LONGEST - 4)) as u16 }
    }
}

impl Program for Sender {
    type Output = Result<Vec<u32>, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut client = HerdClient::start(&p, &self.config, self.number, self.outstanding)?;
        let (mut sent, mut ended, mut done) = (0, Vec::new(), Vec::new());
        while ended.len() < self.jobs as usize && p.now() < self.until {
            let mut busy = false;
            while sent < self.jobs && client.outstanding() < self.outstanding {
                let worker = sent % self.config.workers;
                if !client.has_room(worker) {
                    break;
                }
                client.send(worker, &self.job(sent), sent.into())?;
                sent += 1;
                busy = true;
            }
            busy |= client.poll(&mut done)?;
            for d in done.drain(..) {
                assert_eq!(
                    d.outcome,
                    RpcOutcome::Reply(self.job(d.tag as u32)),
                    "the reply of another request"
                );
                ended.push(self.job(d.tag as u32).name);
            }
            busy |= client.repeat()? > 0;
            if !busy {
                p.pause(self.until.min(client.due()));
            }
        }
        Ok(ended)
    }
}

/// A task of a server's thread.
type Executed = Task<Result<Vec<u32>, SystemError>>;

#[derive(Clone, Copy, Debug)]
struct Case {
    by: (Requests, Replies),
    profile: &'static str,
    clients: u32,
    workers: u32,
    outstanding: u32,
    gather: u32,
    doorbell: bool,
    queues: u32,
    loss: u32,
    retry: bool,
    seed: u64,
}

const JOBS: u32 = 50;

/// The verbs of HERD.
const WRITES: (Requests, Replies) = (Requests::WriteUc, Replies::SendUd);
const DATAGRAMS: (Requests, Replies) = (Requests::SendUd, Replies::SendUd);

fn cases() -> impl Strategy<Value = Case> {
    let unreliable = ways().filter(|(requests, replies)| {
        [requests.transport(), replies.transport()].iter().all(|transport| *transport != QpType::Rc)
    });
    let by = prop_oneof![
        3 => Just(DATAGRAMS),
        1 => Just(WRITES),
        2 => prop::sample::select(unreliable.collect::<Vec<_>>()),
    ];
    let shape = (1..7u32, 1..4u32, 0..5u32, 1..20u32, any::<bool>(), 1..4u32);
    let loss = prop_oneof![Just(0), Just(20_000u32), Just(300_000u32)];
    let profile = prop_oneof![Just("cx"), Just("cx3"), Just("cib")];
    (by, shape, loss, profile, any::<u64>()).prop_map(|(by, s, loss, profile, seed)| Case {
        by,
        profile,
        clients: s.0,
        workers: s.1,
        outstanding: 1 << s.2,
        gather: s.3,
        doorbell: s.4,
        queues: if by.1 == Replies::SendUd { s.5 } else { 1 },
        loss,
        retry: true,
        seed,
    })
}

impl Case {
    fn config(&self) -> Config {
        Config {
            requests: self.by.0,
            replies: self.by.1,
            workers: self.workers,
            clients: self.clients,
            window: self.outstanding,
            max_request: LONGEST.into(),
            max_reply: LONGEST.into(),
            gather: self.gather,
            doorbell: self.doorbell,
            queues: self.queues,
            // Shorter than a round trip with a full queue, so some requests are sent twice without need.
            retry: self.retry.then_some(Span::from_us(10)),
        }
    }

    fn cluster(&self) -> (SimCluster, Vec<Executed>) {
        let mut cluster = cluster(self.profile, 4, |c| {
            c.seed = self.seed;
            c.layers.loss_ppm = self.loss;
        });
        let config = self.config();
        let region = alloc(&mut cluster, 0, config.region_bytes());
        let server = |number| Server { config: config.clone(), number, region, interval: interval() };
        let servers = (0..self.workers).map(|number| cluster.spawn(0, number, server(number)));
        let servers = servers.collect();
        (cluster, servers)
    }

    /// Names of the executed jobs, and names of the completed jobs.
    fn run(&self) -> (Vec<u32>, Vec<u32>) {
        let (mut cluster, servers) = self.cluster();
        let senders = spawn(&mut cluster, self.clients, |number| Sender {
            config: self.config(),
            number,
            jobs: JOBS,
            outstanding: self.outstanding,
            until: interval().end(),
        });
        cluster.run().expect("the run ends");
        (results(servers).concat(), results(senders).concat())
    }
}

fn once(names: &[u32]) -> bool {
    names.iter().collect::<BTreeSet<_>>().len() == names.len()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn with_retry_each_request_is_executed_once_and_ends(case in cases()) {
        let (mut executed, mut ended) = case.run();
        executed.sort_unstable();
        ended.sort_unstable();
        prop_assert!(once(&executed), "executed twice");
        prop_assert_eq!(executed.len() as u32, case.clients * JOBS);
        prop_assert_eq!(executed, ended);
    }

    #[test]
    fn without_retry_none_is_executed_twice(case in cases()) {
        let (executed, ended) = Case { retry: false, ..case }.run();
        prop_assert!(once(&executed) && once(&ended));
        let executed: BTreeSet<u32> = executed.into_iter().collect();
        prop_assert!(ended.iter().all(|name| executed.contains(name)));
        prop_assert!(case.loss > 0 || ended.len() as u32 == case.clients * JOBS);
    }
}

fn case() -> Case {
    Case {
        by: DATAGRAMS,
        profile: "cib",
        clients: 4,
        workers: 2,
        outstanding: 4,
        gather: 8,
        doorbell: true,
        queues: 2,
        loss: 0,
        retry: true,
        seed: 3,
    }
}

/// A request is too long to be inline, and is WRITTEN twice. It ends and makes room for a longer request
/// before the second WRITE has left.
#[test]
fn a_second_write_does_not_carry_the_next_request() {
    for seed in 0..40 {
        let case = Case {
            by: WRITES,
            profile: "cx",
            clients: 3,
            workers: 1,
            outstanding: 2,
            gather: 1,
            loss: 300_000,
            seed,
            ..case()
        };
        let (executed, ended) = case.run();
        assert!(once(&executed) && ended.len() as u32 == 3 * JOBS, "seed {seed}");
    }
}

/// The properties above say little if nothing is ever lost.
#[test]
fn without_retry_a_lost_message_is_a_request_that_never_ends() {
    let (executed, ended) = Case { loss: 300_000, retry: false, ..case() }.run();
    assert!(ended.len() < executed.len() && executed.len() < (4 * JOBS) as usize, "{}", executed.len());
}

/// A server accepts only the configured number of clients: the first ones that ask.
#[test]
fn other_clients_are_not_answered() {
    let case = Case { clients: 2, ..case() };
    let (mut cluster, servers) = case.cluster();
    let config = Config { clients: 3, retry: None, ..case.config() };
    let senders = spawn(&mut cluster, 3, |number| Sender {
        config: config.clone(),
        number,
        jobs: JOBS,
        outstanding: 4,
        until: interval().end(),
    });
    cluster.run().expect("the run ends");
    let ended: Vec<usize> = results(senders).iter().map(Vec::len).collect();
    assert_eq!(ended.iter().filter(|n| **n == JOBS as usize).count(), 2, "{ended:?}");
    assert_eq!(results(servers).concat().len(), ended.iter().sum::<usize>(), "{ended:?}");
}

/// Number of requests of the client that sends malformed requests.
const WINDOW: u32 = 32;

/// Sends malformed requests, and jobs.
struct Misuse {
    config: Config,
}

impl Program for Misuse {
    type Output = Result<Vec<RpcOutcome<Job>>, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut client = HerdClient::start(&p, &self.config, 0, WINDOW)?;
        let most = self.config.max_request as u16;
        assert!(client.send(0, &Junk(most + 1), 0).is_err(), "longer than a request may be");
        let mut done = Vec::new();
        // Malformed requests and jobs alternate, so that a worker finds both in a pass.
        for tag in (0..WINDOW.into()).step_by(2) {
            client.send(0, &Junk([0, 3, most][tag as usize % 3]), tag)?;
            client.send(0, &Job { name: 9, padding: most - 4 }, tag + 1)?;
        }
        while client.outstanding() > 0 {
            if !client.poll(&mut done)? {
                p.pause(Time::NEVER);
            }
        }
        done.sort_by_key(|d| d.tag);
        let outcomes = done.into_iter().map(|d| d.outcome).collect();
        for name in 0..WINDOW {
            client.send(0, &Job { name, padding: 0 }, 0)?;
        }
        assert!(client.send(0, &Job { name: 3, padding: 0 }, 0).is_err(), "the window is full");
        Ok(outcomes)
    }
}

#[test]
fn what_is_out_of_range_is_refused() {
    for by in ways() {
        let case = Case { by, queues: 1, clients: 1, outstanding: WINDOW, workers: 1, ..case() };
        let (mut cluster, _servers) = case.cluster();
        let task = cluster.spawn(1, 0, Misuse { config: case.config() });
        cluster.run().expect("the run ends");
        let outcomes = results(vec![task]).remove(0);
        let job = || RpcOutcome::Reply(Job { name: 9, padding: LONGEST - 4 });
        assert_eq!(outcomes.len() as u32, WINDOW);
        assert!(outcomes.chunks(2).all(|two| *two == [RpcOutcome::Malformed, job()]), "{by:?} {outcomes:?}");
    }
}

/// A message longer than the server's RECVs is dropped, and does the server no harm.
#[test]
fn longer_messages_than_the_server_takes_are_dropped() {
    let case = Case { clients: 2, ..case() };
    let (mut cluster, servers) = case.cluster();
    let config = Config { max_request: 2000, retry: None, ..case.config() };
    let long = cluster.spawn(1, 0, TooLong { config: config.clone(), until: interval().end() });
    let sender = Sender { config, number: 1, jobs: JOBS, outstanding: 4, until: interval().end() };
    let sender = cluster.spawn(2, 0, sender);
    cluster.run().expect("the run ends");
    assert_eq!(results(vec![long]), [0]);
    assert_eq!(results(vec![sender])[0].len(), JOBS as usize);
    assert_eq!(results(servers).concat().len(), JOBS as usize);
}

struct TooLong {
    config: Config,
    until: Time,
}

impl Program for TooLong {
    type Output = Result<usize, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut client = HerdClient::start(&p, &self.config, 0, 1)?;
        client.send(0, &Junk(1500), 0)?;
        let mut done = Vec::new();
        while p.now() < self.until {
            client.poll::<Job>(&mut done)?;
            p.pause(self.until);
        }
        Ok(done.len())
    }
}

/// A server's view of a NIC that reuses a QP number as soon as it is free. Clients of a machine that run one
/// after another all appear with the first client's number. Replies to this number go to the last client.
#[derive(Clone, Default)]
struct OneNumber(Rc<Cell<Option<Numbers>>>);

/// The number that the server sees, and the client's real number.
#[derive(Clone, Copy)]
struct Numbers {
    seen: u32,
    real: u32,
}

impl Layer for OneNumber {
    fn poll_cq<P: Provider>(&self, below: &P, cq: CqHandle, wc: &mut [Wc]) -> Result<usize, VerbsError> {
        let found = below.poll_cq(cq, wc)?;
        for wc in wc[..found].iter_mut().filter(|wc| wc.opcode == WcOpcode::Recv) {
            let seen = self.0.get().map_or(wc.src_qp, |numbers| numbers.seen);
            self.0.set(Some(Numbers { seen, real: wc.src_qp }));
            wc.src_qp = seen;
        }
        Ok(found)
    }

    fn post_send<P: Provider>(&self, below: &P, qp: QpHandle, list: &[SendWr<'_>]) -> Result<(), PostError> {
        let real = |to: UdDest| UdDest { qpn: self.0.get().map_or(to.qpn, |numbers| numbers.real), ..to };
        let list: Vec<SendWr<'_>> = list.iter().map(|wr| SendWr { dest: wr.dest.map(real), ..*wr }).collect();
        below.post_send(qp, &list)
    }
}

/// A server that sees one number for all clients.
struct SeesOneNumber(Server);

impl Program for SeesOneNumber {
    type Output = Result<Vec<u32>, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        self.0.run(Layered::new(p, OneNumber::default()))
    }
}

/// Begins when the previous sender has ended.
struct InTurn(Sender);

impl Program for InTurn {
    type Output = Result<Vec<u32>, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let number = self.0.number;
        if let Some(before) = number.checked_sub(1) {
            p.lookup(&format!("over/{before}"));
        }
        let ended = self.0.run(p.clone())?;
        p.publish(&format!("over/{number}"), &[]);
        Ok(ended)
    }
}

/// A client gets the QP number of a client that has exited. Its requests have the sequence numbers of
/// requests that were answered before. Each request is executed, and gets its own answer.
#[test]
fn who_gets_the_qp_number_of_another_is_not_taken_for_it() {
    for (outstanding, loss, seed) in [(1, 0, 1), (4, 0, 2), (16, 0, 3), (1, 20_000, 4), (4, 20_000, 5)] {
        const CLIENTS: u32 = 3;
        let case = Case { clients: CLIENTS, workers: 1, outstanding, loss, seed, ..case() };
        let config = case.config();
        let mut cluster = cluster(case.profile, 2, |c| (c.seed, c.layers.loss_ppm) = (seed, loss));
        let region = alloc(&mut cluster, 0, config.region_bytes());
        let server = Server { config: config.clone(), number: 0, region, interval: interval() };
        let server = cluster.spawn(0, 0, SeesOneNumber(server));
        let until = interval().end();
        let senders = (0..CLIENTS).map(|number| {
            let sender = Sender { config: config.clone(), number, jobs: JOBS, outstanding, until };
            cluster.spawn(1, number, InTurn(sender))
        });
        let senders = senders.collect();
        cluster.run().expect("the run ends");
        let (mut executed, ended) = (results(vec![server]).concat(), results(senders).concat());
        executed.sort_unstable();
        assert_eq!(ended.len() as u32, CLIENTS * JOBS, "{outstanding} outstanding, {loss} lost");
        assert!(once(&executed) && executed.len() == ended.len(), "{outstanding} outstanding, {loss} lost");
    }
}
