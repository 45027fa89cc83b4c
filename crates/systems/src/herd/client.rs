//! A client thread.

use super::datagram::Sends;
use super::windows::{Pending, Windows};
use super::writes::Writes;
use super::{Config, Message, Requests, Status, reach};
use crate::SystemError;
use crate::device::{Device, check};
use crate::recv_ring::{self, RecvRing};
use doorbell_verbs::{AccessFlags, Cq, Mem, Mr, Provider, Qp, SendFlags, SendWr, Sge, Time, Wc};

/// A request that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done<R> {
    /// As it was given to `send`.
    pub tag: u64,
    /// When it was first sent.
    pub sent: Time,
    /// Its reply, or that there is none.
    pub outcome: Outcome<R>,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<R> {
    /// It was executed.
    Reply(R),
    /// The server did not understand it, and did nothing.
    Malformed,
}

/// Where a client keeps the requests that are under way: an image of each slot of its windows, and at
/// the end of all a word.
pub(super) struct Images<P: Provider> {
    mr: Mr<P>,
    window: u32,
    slot: u64,
}

impl<P: Provider> Images<P> {
    fn new(device: &Device<P>, config: &Config) -> Result<Images<P>, SystemError> {
        let slots = u64::from(config.workers) * u64::from(config.window);
        let mr = device.registered(slots * config.slot() + 8, AccessFlags::LOCAL_WRITE)?;
        Ok(Images { mr, window: config.window, slot: config.slot() })
    }

    pub(super) fn mem(&self) -> Mem {
        self.mr.mem()
    }

    pub(super) fn sge(&self, from: u64, length: u32) -> Sge {
        self.mr.sge(from, length)
    }

    /// Offset of the end of the slot of a request, whose bytes are [`reach`] before it.
    pub(super) fn end(&self, worker: u32, sequence: u32) -> u64 {
        let slot = u64::from(worker) * u64::from(self.window) + u64::from(sequence % self.window);
        (slot + 1) * self.slot
    }

    /// Offset of the word behind all slots.
    pub(super) fn word(&self) -> u64 {
        self.mr.mem().len() - 8
    }
}

/// How requests go out.
enum Line<P: Provider> {
    Writes(Writes<P>),
    Sends(Sends<P>),
}

impl<P: Provider> Line<P> {
    /// The QP to which replies come.
    fn replies(&self) -> &Qp<P> {
        match self {
            Line::Writes(writes) => writes.replies(),
            Line::Sends(sends) => sends.replies(),
        }
    }

    fn post(&mut self, images: &Images<P>, worker: u32, p: Pending) -> Result<(), SystemError> {
        match self {
            Line::Writes(writes) => writes.post(images, worker, p),
            Line::Sends(sends) => sends.post(images, worker, p),
        }
    }

    /// Requests of a worker have been posted again.
    fn repeated(&mut self, images: &Images<P>, worker: u32) -> Result<(), SystemError> {
        match self {
            Line::Writes(writes) => writes.ring_bell(images, worker),
            // A message tells by itself that it has come.
            Line::Sends(_) => Ok(()),
        }
    }
}

/// Has what is no longer than `most` copied into its WQE.
pub(super) fn inlined(wr: SendWr<'_>, length: u32, most: u32) -> SendWr<'_> {
    if length > 0 && length <= most { wr.flags(SendFlags::INLINE) } else { wr }
}

/// A client: WRITEs or SENDs requests, RECVs replies.
pub struct Client<P: Provider> {
    device: Device<P>,
    config: Config,
    line: Line<P>,
    images: Images<P>,
    replies: Cq<P>,
    ring: RecvRing<P>,
    windows: Windows,
    wc: Vec<Wc>,
    scratch: Vec<u8>,
}

impl<P: Provider> Client<P> {
    /// Client `number`; returns once every worker is ready. It may have `outstanding` requests under
    /// way over all workers.
    ///
    /// # Errors
    /// If a parameter is out of its range, or a verb fails.
    pub fn start(cpu: &P, config: &Config, number: u32, outstanding: u32) -> Result<Client<P>, SystemError> {
        config.check()?;
        if number >= config.clients || outstanding == 0 {
            return SystemError::config(format!(
                "client {number} of {} with {outstanding} requests outstanding cannot be",
                config.clients
            ));
        }
        let device = Device::open(cpu)?;
        let recvs = outstanding + 2 * recv_ring::BATCH;
        let replies = device.context.create_cq(recvs)?;
        let mut ring = RecvRing::new(&device, recvs, config.max_reply)?;
        let line = match config.requests {
            Requests::Write => Line::Writes(Writes::open(&device, config, number, &replies, &mut ring)?),
            Requests::Send => Line::Sends(Sends::open(&device, config, number, &replies, &mut ring)?),
        };
        Ok(Client {
            line,
            images: Images::new(&device, config)?,
            replies,
            ring,
            windows: Windows::new(config),
            config: config.clone(),
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
        let (length, most) = (self.scratch.len(), self.config.max_request);
        if length > most as usize {
            return SystemError::config(format!("a request has up to {most} bytes, not {length}"));
        }
        if !self.has_room(worker) {
            return SystemError::config(format!("the window of worker {worker} is full"));
        }
        let pending = self.windows.take(worker, length as u16, tag, self.device.cpu.now());
        if length > 0 {
            let at = self.images.end(worker, pending.sequence) - reach(length as u64);
            self.device.cpu.write(self.images.mem(), at, &self.scratch);
        }
        self.line.post(&self.images, worker, pending)
    }

    /// When to call [`Client::repeat`] at the latest; a deadline for `pause`.
    pub fn due(&self) -> Time {
        self.windows.due()
    }

    /// Sends again what is due; returns how many requests.
    ///
    /// # Errors
    /// If a verb fails.
    pub fn repeat(&mut self) -> Result<u64, SystemError> {
        let due = self.windows.repeat(self.device.cpu.now());
        for of_worker in due.chunk_by(|a, b| a.0 == b.0) {
            for &(worker, p) in of_worker {
                self.line.post(&self.images, worker, p)?;
            }
            self.line.repeated(&self.images, of_worker[0].0)?;
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
            self.ring.post(self.line.replies(), false)?;
        }
        Ok(found > 0)
    }
}
