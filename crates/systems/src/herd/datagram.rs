//! The variant without connected QPs: requests by UD SEND.

use super::client::{Pending, Windows};
use super::replier::{Answer, Replier};
use super::{Config, Done, Handler, Message, Outcome, SEQUENCE_BITS, Status, from_imm, to_imm};
use crate::device::{self, Device, QKEY, check, find};
use crate::outbox::{self, Outbox};
use crate::recv_ring::{self, RecvRing};
use crate::{Interval, Measured, SystemError, work};
use doorbell_verbs::{
    AccessFlags, Ah, Cq, Endpoint, GRH_BYTES, Gid, Mr, Provider, Qp, SendFlags, SendOp, SendWr, Time, UdDest,
    Wc,
};
use std::collections::HashMap;

/// Most RECVs of a worker's QP; more requests than this under way at once may be lost.
const MOST_RECVS: u32 = 8192;

fn request_key(worker: u32, port: u8) -> String {
    format!("herd/datagram/{worker}/{port}")
}

/// A worker that takes requests from RECVs.
pub struct DatagramWorker<P: Provider> {
    device: Device<P>,
    config: Config,
    requests: Cq<P>,
    /// By port.
    inboxes: Vec<(Qp<P>, RecvRing<P>)>,
    replier: Replier<P>,
    /// Number of each client, by address and QP.
    clients: HashMap<(u16, Gid, u32), u32>,
    /// Last sequence number executed in each slot of each client's window.
    executed: Vec<Option<u32>>,
    wc: Vec<Wc>,
}

impl<P: Provider> DatagramWorker<P> {
    /// Worker `number`. Clients make themselves known by their first request, up to
    /// [`Config::clients`].
    pub fn start(cpu: &P, config: &Config, number: u32) -> Result<DatagramWorker<P>, SystemError> {
        config.check()?;
        let device = Device::open(cpu)?;
        let ports = u32::from(device.attr.ports);
        let wanted = config.clients.div_ceil(ports).saturating_mul(config.window) + recv_ring::BATCH;
        let depth = wanted.min(MOST_RECVS).min(device.attr.max_qp_wr);
        let requests = device.context.create_cq(depth * ports)?;
        let unused = device.context.create_cq(1)?;
        let mut inboxes = Vec::new();
        for port in 1..=device.attr.ports {
            let qp = device.ud(port, (&unused, &requests), 1, depth, 0)?;
            let mut ring = RecvRing::new(&device, depth, config.max_request)?;
            ring.post(&qp, true)?;
            cpu.publish(&request_key(number, port), &qp.endpoint(port)?.to_bytes());
            inboxes.push((qp, ring));
        }
        let slots = (config.clients * config.window) as usize;
        Ok(DatagramWorker {
            replier: Replier::new(&device, config, number)?,
            config: config.clone(),
            requests,
            inboxes,
            clients: HashMap::new(),
            executed: vec![None; slots],
            wc: vec![Wc::default(); config.gather as usize],
            device,
        })
    }

    /// One pass of the poll loop; whether there was anything to do. Where there was not, `pause`.
    pub fn pass<H: Handler>(
        &mut self,
        handler: &mut H,
        interval: Interval,
        measured: &mut Measured,
    ) -> Result<bool, SystemError> {
        let found = self.requests.poll(&mut self.wc)?.len();
        if found == 0 {
            return Ok(false);
        }
        self.device.cpu.work(work::REQUEST * found as u64);
        let (mut requests, mut fresh, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for i in 0..found {
            let wc = self.wc[i];
            check(&wc)?;
            let Some(inbox) = self.inboxes.iter().position(|(qp, _)| qp.qp_num() == wc.qp_num) else {
                continue;
            };
            if let Some(answer) = self.answer(&wc, inbox)? {
                if self.is_new(answer) {
                    let request = self.request(&wc, inbox);
                    fresh.push((answer, request.is_some()));
                    requests.extend(request);
                }
                answers.push(answer);
            }
            self.inboxes[inbox].1.give(wc.wr_id);
        }
        for (qp, ring) in &mut self.inboxes {
            ring.post(qp, false)?;
        }
        let mut replies = Vec::with_capacity(requests.len());
        if !requests.is_empty() {
            handler.handle(&self.device.cpu, &requests, &mut replies);
        }
        assert_eq!(replies.len(), requests.len(), "a handler replies to each request");
        let mut replies = replies.iter();
        for (answer, good) in fresh {
            self.replier.keep(answer, 0, if good { replies.next() } else { None });
        }
        self.replier.send(&answers, interval, measured)?;
        Ok(true)
    }

    /// Who asks, and by which slot of its window; none where there are too many clients.
    fn answer(&mut self, wc: &Wc, inbox: usize) -> Result<Option<Answer>, SystemError> {
        let Some(imm) = wc.imm else { return Ok(None) };
        let (mem, header) = self.inboxes[inbox].1.header(wc.wr_id);
        let (lid, gid) = device::sender(&self.device.cpu, wc, mem, header);
        let key = (lid, gid, wc.src_qp);
        let client = match self.clients.get(&key) {
            Some(client) => *client,
            None if self.replier.clients() == self.config.clients => return Ok(None),
            None => {
                let client = self.replier.clients();
                let remote = Endpoint { lid, gid, qpn: wc.src_qp };
                self.replier.add_client(&self.device, inbox as u8 + 1, &remote)?;
                self.clients.insert(key, client);
                client
            }
        };
        Ok(Some(Answer { client, sequence: from_imm(imm).2 }))
    }

    /// Whether a request was not executed yet; then it counts as executed.
    fn is_new(&mut self, answer: Answer) -> bool {
        let slot = &mut self.executed
            [(answer.client * self.config.window + answer.sequence % self.config.window) as usize];
        let ahead = |last: u32| answer.sequence.wrapping_sub(last) % (1 << SEQUENCE_BITS);
        let new = slot.is_none_or(|last| (1..1 << (SEQUENCE_BITS - 1)).contains(&ahead(last)));
        if new {
            *slot = Some(answer.sequence);
        }
        new
    }

    fn request<M: Message>(&self, wc: &Wc, inbox: usize) -> Option<M> {
        let mut bytes = vec![0; wc.byte_len.saturating_sub(GRH_BYTES) as usize];
        if !bytes.is_empty() {
            let (mem, offset) = self.inboxes[inbox].1.payload(wc.wr_id);
            self.device.cpu.read(mem, offset, &mut bytes);
        }
        M::decode(&bytes)
    }
}

/// A client that SENDs its requests.
pub struct DatagramClient<P: Provider> {
    device: Device<P>,
    config: Config,
    outbox: Outbox<P>,
    replies: Cq<P>,
    ring: RecvRing<P>,
    workers: Vec<UdDest>,
    _ahs: Vec<Ah<P>>,
    /// An image of each request.
    images: Mr<P>,
    inline: u32,
    windows: Windows,
    wc: Vec<Wc>,
    scratch: Vec<u8>,
}

impl<P: Provider> DatagramClient<P> {
    /// Client `number`; returns once every worker is known. It may have `outstanding` requests under
    /// way over all workers.
    pub fn start(
        cpu: &P,
        config: &Config,
        number: u32,
        outstanding: u32,
    ) -> Result<DatagramClient<P>, SystemError> {
        config.check()?;
        let device = Device::open(cpu)?;
        let port = device.port(number);
        let recvs = outstanding + 2 * recv_ring::BATCH;
        let inline = device.inline(config.max_request);
        let (sent, replies) = (device.context.create_cq(outbox::cqe(1))?, device.context.create_cq(recvs)?);
        let qp = device.ud(port, (&sent, &replies), outbox::depth(1), recvs, inline)?;
        let mut ring = RecvRing::new(&device, recvs, config.max_reply)?;
        ring.post(&qp, true)?;
        let (mut workers, mut ahs) = (Vec::new(), Vec::new());
        for worker in 0..config.workers {
            let remote = find(cpu, &request_key(worker, port))?;
            let ah = Ah::to_endpoint(&device.pd, port, &remote)?;
            workers.push(ah.dest(remote.qpn, QKEY));
            ahs.push(ah);
        }
        let slots = u64::from(config.workers) * u64::from(config.window);
        let images = device.registered(slots * image(config), AccessFlags::LOCAL_WRITE)?;
        Ok(DatagramClient {
            windows: Windows::new(config),
            config: config.clone(),
            outbox: Outbox::new(qp, sent, 1),
            replies,
            ring,
            workers,
            _ahs: ahs,
            images,
            inline,
            wc: vec![Wc::default(); 16],
            scratch: Vec::new(),
            device,
        })
    }

    /// Whether the window of `worker` has room for a request.
    ///
    /// # Panics
    /// If there is no such worker, as all of this.
    pub fn has_room(&self, worker: u32) -> bool {
        self.windows.has_room(worker)
    }

    /// Requests that have not ended.
    pub fn outstanding(&self) -> u32 {
        self.windows.outstanding()
    }

    /// Sends a request; `tag` comes back when it has ended.
    ///
    /// # Errors
    /// If there is no room for it, it is too long, or a verb fails.
    pub fn send<M: Message>(&mut self, worker: u32, request: &M, tag: u64) -> Result<(), SystemError> {
        self.scratch.clear();
        request.encode(&mut self.scratch);
        let length = self.scratch.len();
        if length as u32 > self.config.max_request {
            let most = self.config.max_request;
            return SystemError::config(format!("a request has up to {most} bytes, not {length}"));
        }
        if !self.has_room(worker) {
            return SystemError::config(format!("the window of worker {worker} is full"));
        }
        let sent = self.device.cpu.now();
        let again = self.config.retry.map_or(Time::NEVER, |after| sent + after);
        let new = Pending { sequence: 0, length: length as u16, repetition: 0, sent, again, tag };
        let pending = self.windows.take(worker, new);
        if length > 0 {
            self.device.cpu.write(self.images.mem(), self.image(worker, pending.sequence), &self.scratch);
        }
        self.post(worker, pending)
    }

    fn image(&self, worker: u32, sequence: u32) -> u64 {
        let slot =
            u64::from(worker) * u64::from(self.config.window) + u64::from(sequence % self.config.window);
        slot * image(&self.config)
    }

    fn post(&mut self, worker: u32, p: Pending) -> Result<(), SystemError> {
        let sge = [self.images.sge(self.image(worker, p.sequence), p.length.into())];
        let op = SendOp::SendWithImm(to_imm(Status::Ok, worker, p.sequence));
        let mut wr =
            SendWr::new(0, op, if p.length == 0 { &[] } else { &sge }).to(self.workers[worker as usize]);
        if p.length > 0 && u32::from(p.length) <= self.inline {
            wr = wr.flags(SendFlags::INLINE);
        }
        self.outbox.post(&mut [wr])
    }

    /// When to call [`DatagramClient::repeat`] at the latest; a deadline for `pause`.
    pub fn due(&self) -> Time {
        if self.config.retry.is_none() { Time::NEVER } else { self.windows.due() }
    }

    /// Sends again what is due; returns how many requests.
    pub fn repeat(&mut self) -> Result<u64, SystemError> {
        let now = self.device.cpu.now();
        let Some(after) = self.config.retry.filter(|_| self.due() <= now) else { return Ok(0) };
        let mut due = Vec::new();
        for (worker, lane) in (0..).zip(&mut self.windows.lanes) {
            for p in lane.slots.iter_mut().flatten().filter(|p| p.again <= now) {
                p.again = now + after;
                due.push((worker, *p));
            }
        }
        for &(worker, p) in &due {
            self.post(worker, p)?;
        }
        Ok(due.len() as u64)
    }

    /// Takes replies; returns whether any came.
    ///
    /// # Errors
    /// If a completion is an error, or a reply is not decodable.
    pub fn poll<R: Message>(&mut self, done: &mut Vec<Done<R>>) -> Result<bool, SystemError> {
        let found = self.replies.poll(&mut self.wc)?.len();
        for i in 0..found {
            let wc = self.wc[i];
            check(&wc)?;
            if let Some((status, p)) = wc.imm.and_then(|imm| self.windows.end(imm)) {
                let outcome = match status {
                    Status::Malformed => Outcome::Malformed,
                    Status::Ok => {
                        Outcome::Reply(self.ring.message(&self.device.cpu, &wc, &mut self.scratch)?)
                    }
                };
                done.push(Done { tag: p.tag, sent: p.sent, outcome });
            }
            self.ring.give(wc.wr_id);
        }
        if found > 0 {
            self.ring.post(&self.outbox.qp, false)?;
        }
        Ok(found > 0)
    }
}

/// Bytes from one request's image to the next.
fn image(config: &Config) -> u64 {
    u64::from(config.max_request).next_multiple_of(64).max(64)
}
