//! Spec-S0: speculation with header-only SENDs (ATC'16, 4.2.1).
//!
//! A request is a header-only SEND. Its immediate is the client's guess of the number's upper half. If the
//! guess is right, the reply is a header-only SEND with the lower half in its immediate. Otherwise the reply
//! is a regular SEND of the whole number, and the client takes its next guess from this number. A guess is
//! wrong at most once in 2^32 numbers for each client.
//!
//! # Guarantees
//! Messages do not identify their request. A client with one outstanding request draws in order: its number
//! is larger than all numbers drawn before it asked. With several outstanding requests, a reply counts for
//! the oldest request, so its number may have been drawn before that request was sent. A client that waits
//! too long ([`Config::retry`]) asks again on a new QP. Late replies go to the old QP. Numbers of lost
//! replies are skipped. No number is given twice.

use super::guess::Guess;
use crate::device::{self, Device, QKEY, check, find};
use crate::drawing::{Drawer, Drawing, Drawn};
use crate::outbox::{self, Outbox};
use crate::recv_ring::{self, RecvRing};
use crate::{Interval, Measured, SystemError, work};
use doorbell_verbs::{
    Ah, Cq, Endpoint, Gid, Mem, PageSize, Program, Provider, Qp, SendFlags, SendOp, SendWr, Sge, Span, Time,
    UdDest, Wc,
};
use std::collections::{HashMap, VecDeque};

/// Bytes of a number in a regular reply.
const NUMBER: u32 = 8;

/// Parameters that a server and its clients share.
#[derive(Clone, Debug)]
pub struct Config {
    /// Worker threads of the server. Worker w uses port w modulo the number of ports.
    pub workers: u32,
    /// Number of clients. Client c asks worker c modulo the number of workers.
    pub clients: u32,
    /// Maximum number of a client's outstanding requests.
    pub outstanding: u32,
    /// Largest number of requests that a worker takes in a pass, 1 to 1024.
    pub gather: u32,
    /// Post the replies of a pass with one doorbell. Otherwise each reply has its own doorbell.
    pub doorbell: bool,
    /// UD QPs that a worker's passes use in turn, at least 1.
    pub queues: u32,
    /// Time after which a client asks again; `None` for never.
    pub retry: Option<Span>,
}

impl Config {
    fn check(&self) -> Result<(), SystemError> {
        let positive = [self.workers, self.clients, self.outstanding, self.queues, self.gather];
        if positive.contains(&0) || self.gather > 1024 {
            return SystemError::config(format!(
                "workers, clients, outstanding, queues and gather must be at least 1, and gather at most \
                 1024, not {self:?}"
            ));
        }
        Ok(())
    }

    /// Number of RECVs that a worker keeps posted, at most `most`: one for each request that its clients can
    /// have outstanding, one for each repetition, and some for batches.
    fn recvs(&self, most: u32) -> u32 {
        let requests = self.clients.div_ceil(self.workers).saturating_mul(self.outstanding);
        (requests.saturating_mul(2) + self.gather + recv_ring::BATCH).min(most)
    }
}

fn key(worker: u32) -> String {
    format!("spec/{worker}")
}

/// A worker thread of the server.
#[derive(Clone, Debug)]
pub struct SpecServer {
    /// Configuration that servers and clients share.
    pub config: Config,
    /// Number of this worker.
    pub number: u32,
    /// The 8-byte counter that all workers share. Its value is the next number.
    pub counter: Mem,
    /// When it measures, and when it ends.
    pub interval: Interval,
}

struct Worker<'a, P: Provider> {
    server: &'a SpecServer,
    device: Device<P>,
    port: u8,
    requests: Cq<P>,
    /// The QP that receives requests.
    inbox: Qp<P>,
    ring: RecvRing<P>,
    outboxes: Vec<Outbox<P>>,
    queue: usize,
    ahs: HashMap<(u16, Gid), Ah<P>>,
    /// Memory for the numbers of regular replies. Their payload is inline, so the memory needs no
    /// registration.
    numbers: Mem,
    wc: Vec<Wc>,
}

impl<'a, P: Provider> Worker<'a, P> {
    fn start(server: &'a SpecServer, cpu: &P) -> Result<Worker<'a, P>, SystemError> {
        let config = &server.config;
        config.check()?;
        let device = Device::open(cpu)?;
        let port = device.port(server.number);
        let depth = config.recvs(device.attr.max_qp_wr);
        let requests = device.context.create_cq(depth)?;
        let inbox = device.ud(port, (&requests, &requests), 1, depth, 0)?;
        let mut ring = RecvRing::new(&device, depth, 0)?;
        ring.post(&inbox, true)?;
        cpu.publish(&key(server.number), &inbox.endpoint(port)?.to_bytes());
        let mut outboxes = Vec::new();
        for _ in 0..config.queues {
            let cq = device.context.create_cq(outbox::cqe(config.gather))?;
            let qp = device.ud(port, (&cq, &cq), outbox::depth(config.gather), 1, NUMBER)?;
            outboxes.push(Outbox::new(qp, cq, config.gather));
        }
        Ok(Worker {
            server,
            port,
            requests,
            inbox,
            ring,
            outboxes,
            queue: 0,
            ahs: HashMap::new(),
            numbers: cpu.alloc(u64::from(config.gather * NUMBER), PageSize::Small)?,
            wc: vec![Wc::default(); config.gather as usize],
            device,
        })
    }

    fn dest(&mut self, wc: &Wc) -> Result<UdDest, SystemError> {
        let (mem, header) = self.ring.header(wc.wr_id);
        let from = device::sender(&self.device.cpu, wc, mem, header);
        let ah = match self.ahs.get(&from) {
            Some(ah) => ah,
            None => {
                let remote = Endpoint { lid: from.0, gid: from.1, qpn: wc.src_qp };
                let ah = Ah::to_endpoint(&self.device.pd, self.port, &remote)?;
                self.ahs.entry(from).or_insert(ah)
            }
        };
        Ok(ah.dest(wc.src_qp, QKEY))
    }

    fn pass(&mut self, measured: &mut Measured) -> Result<bool, SystemError> {
        let n = self.requests.poll(&mut self.wc)?.len();
        if n == 0 {
            return Ok(false);
        }
        let first = self.device.cpu.fetch_add_u64(self.server.counter, 0, n as u64);
        self.device.cpu.work(work::REQUEST * n as u64);
        let mut dests = Vec::with_capacity(n);
        for i in 0..n {
            let wc = self.wc[i];
            check(&wc)?;
            dests.push(self.dest(&wc)?);
            self.ring.give(wc.wr_id);
        }
        self.ring.post(&self.inbox, true)?;
        self.reply(first, &dests, measured)?;
        Ok(true)
    }

    fn reply(&mut self, first: u64, dests: &[UdDest], measured: &mut Measured) -> Result<(), SystemError> {
        let sges: Vec<Sge> = (0..dests.len() as u64)
            .map(|i| Sge { addr: self.numbers.addr(i * u64::from(NUMBER)), length: NUMBER, lkey: 0 })
            .collect();
        let mut list = Vec::with_capacity(dests.len());
        for (i, (&dest, sge)) in dests.iter().zip(&sges).enumerate() {
            let number = first.wrapping_add(i as u64);
            list.push(if self.wc[i].imm == Some((number >> 32) as u32) {
                SendWr::new(0, SendOp::SendWithImm(number as u32), &[]).to(dest)
            } else {
                self.device.cpu.store_u64(self.numbers, i as u64 * u64::from(NUMBER), number);
                let wr = SendWr::new(0, SendOp::Send, std::slice::from_ref(sge)).to(dest);
                wr.flags(SendFlags::INLINE)
            });
        }
        let most = if self.server.config.doorbell { list.len() } else { 1 };
        for part in list.chunks_mut(most) {
            self.outboxes[self.queue].post(part)?;
            let now = self.device.cpu.now();
            measured.post(&self.server.interval, now, part.len() as u64);
        }
        self.queue = (self.queue + 1) % self.outboxes.len();
        Ok(())
    }
}

impl Program for SpecServer {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut measured = Measured::default();
        let mut worker = Worker::start(&self, &p)?;
        while !self.interval.is_over(&p) {
            if !worker.pass(&mut measured)? {
                p.pause(self.interval.look());
            }
        }
        Ok(measured)
    }
}

/// A client.
#[derive(Clone, Debug)]
pub struct SpecClient {
    /// Configuration that servers and clients share.
    pub config: Config,
    /// Number of this client.
    pub number: u32,
    /// The client's first guess of the upper half.
    pub guess: u32,
    /// How the client draws numbers. [`Config::outstanding`] replaces the field `outstanding`.
    pub drawing: Drawing,
    /// When it measures, and when it ends at the latest.
    pub interval: Interval,
}

/// A client's QP with its CQs and RECVs. The client makes a new line if it waits too long.
struct CounterLine<P: Provider> {
    outbox: Outbox<P>,
    replies: Cq<P>,
    ring: RecvRing<P>,
}

struct Guesser<'a, P: Provider> {
    client: &'a SpecClient,
    device: Device<P>,
    port: u8,
    line: CounterLine<P>,
    server: UdDest,
    _ah: Ah<P>,
    guess: Guess,
    /// When each outstanding request began. A reply counts for the oldest one.
    began: VecDeque<Time>,
    due: Time,
    wc: Vec<Wc>,
}

impl<'a, P: Provider> Guesser<'a, P> {
    fn start(client: &'a SpecClient, cpu: &P) -> Result<Guesser<'a, P>, SystemError> {
        client.config.check()?;
        let device = Device::open(cpu)?;
        let worker = client.number % client.config.workers;
        let port = device.port(worker);
        let line = open_line(&device, port, client.config.outstanding)?;
        let remote = find(cpu, &key(worker))?;
        let ah = Ah::to_endpoint(&device.pd, port, &remote)?;
        Ok(Guesser {
            client,
            port,
            line,
            server: ah.dest(remote.qpn, QKEY),
            _ah: ah,
            guess: Guess::new(client.guess),
            began: VecDeque::new(),
            due: Time::NEVER,
            wc: vec![Wc::default(); recv_ring::BATCH as usize],
            device,
        })
    }

    /// Sends `n` requests with one doorbell.
    fn ask(&mut self, n: u32) -> Result<(), SystemError> {
        let wr = SendWr::new(0, SendOp::SendWithImm(self.guess.upper()), &[]).to(self.server);
        self.line.outbox.post(&mut vec![wr; n as usize])?;
        if let Some(after) = self.client.config.retry {
            self.due = self.device.cpu.now() + after;
        }
        Ok(())
    }

    fn send(&mut self, n: u32) -> Result<(), SystemError> {
        let now = self.device.cpu.now();
        self.began.extend((0..n).map(|_| now));
        self.ask(n)
    }

    fn poll(&mut self, drawer: &mut Drawer) -> Result<bool, SystemError> {
        let found = self.line.replies.poll(&mut self.wc)?.len();
        for i in 0..found {
            let wc = self.wc[i];
            check(&wc)?;
            let value = match wc.imm {
                Some(low) => self.guess.confirmed(low),
                None => {
                    let (mem, offset) = self.line.ring.payload(wc.wr_id);
                    let value = self.device.cpu.load_u64(mem, offset);
                    self.guess.corrected(value);
                    value
                }
            };
            self.line.ring.give(wc.wr_id);
            if let Some(began) = self.began.pop_front() {
                drawer.got(value, began, self.device.cpu.now(), wc.imm.is_some());
            }
        }
        if found > 0 {
            self.line.ring.post(&self.line.outbox.qp, false)?;
            if self.began.is_empty() {
                self.guess.alone();
            }
            self.due = match self.client.config.retry {
                Some(after) if !self.began.is_empty() => self.device.cpu.now() + after,
                _ => Time::NEVER,
            };
        }
        Ok(found > 0)
    }

    /// If a repetition is due, repeats all outstanding requests on a new QP. Returns their number.
    fn renew(&mut self) -> Result<u32, SystemError> {
        if self.device.cpu.now() < self.due {
            return Ok(0);
        }
        self.line = open_line(&self.device, self.port, self.client.config.outstanding)?;
        let n = self.began.len() as u32;
        self.ask(n)?;
        Ok(n)
    }
}

fn open_line<P: Provider>(
    device: &Device<P>,
    port: u8,
    outstanding: u32,
) -> Result<CounterLine<P>, SystemError> {
    let recvs = outstanding + 2 * recv_ring::BATCH;
    let sent = device.context.create_cq(outbox::cqe(outstanding))?;
    let replies = device.context.create_cq(recvs)?;
    let qp = device.ud(port, (&sent, &replies), outbox::depth(outstanding), recvs, 0)?;
    let mut ring = RecvRing::new(device, recvs, NUMBER)?;
    ring.post(&qp, true)?;
    Ok(CounterLine { outbox: Outbox::new(qp, sent, outstanding), replies, ring })
}

impl Program for SpecClient {
    type Output = Result<Drawn, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut guesser = Guesser::start(&self, &p)?;
        let drawing = Drawing { outstanding: self.config.outstanding, ..self.drawing };
        let interval = self.interval.begin(&p);
        let mut drawer = Drawer::new(drawing, &interval);
        while !drawer.is_done(p.now()) {
            let wanted = drawer.wanted();
            if wanted > 0 {
                guesser.send(wanted)?;
                drawer.sent(wanted);
            }
            let found = guesser.poll(&mut drawer)?;
            let again = guesser.renew()?;
            drawer.drawn.measured.again += u64::from(again);
            if wanted == 0 && !found && again == 0 {
                p.pause(interval.look().min(guesser.due));
            }
        }
        Ok(drawer.drawn)
    }
}
