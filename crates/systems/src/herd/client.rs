//! A client thread.

use super::{Config, Message, Status, Trailer, from_imm, reach, to_imm};
use crate::SystemError;
use crate::device::{Device, check, find};
use crate::outbox::{self, Outbox};
use crate::recv_ring::{self, RecvRing};
use doorbell_verbs::{
    AccessFlags, ConnectAttr, Cq, Mr, Provider, Qp, QpCap, QpInitAttr, QpType, RemoteAddr, SendFlags, SendOp,
    SendWr, Time, Wc,
};

/// A request that has not ended.
#[derive(Clone, Copy)]
pub(super) struct Pending {
    pub(super) sequence: u32,
    pub(super) length: u16,
    pub(super) repetition: u16,
    pub(super) sent: Time,
    /// When it is sent again.
    pub(super) again: Time,
    pub(super) tag: u64,
}

/// A client's requests to one worker.
pub(super) struct Lane {
    next: u32,
    pub(super) slots: Vec<Option<Pending>>,
}

/// A client's windows, one for each worker.
pub(super) struct Windows {
    pub(super) lanes: Vec<Lane>,
    window: u32,
    outstanding: u32,
}

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

impl Windows {
    pub(super) fn new(config: &Config) -> Windows {
        let lane = || Lane { next: 1, slots: vec![None; config.window as usize] };
        Windows {
            lanes: (0..config.workers).map(|_| lane()).collect(),
            window: config.window,
            outstanding: 0,
        }
    }

    pub(super) fn outstanding(&self) -> u32 {
        self.outstanding
    }

    pub(super) fn has_room(&self, worker: u32) -> bool {
        let lane = &self.lanes[worker as usize];
        lane.slots[(lane.next % self.window) as usize].is_none()
    }

    /// The next request to a worker takes its slot.
    pub(super) fn take(&mut self, worker: u32, mut pending: Pending) -> Pending {
        let lane = &mut self.lanes[worker as usize];
        pending.sequence = lane.next;
        lane.slots[(lane.next % self.window) as usize] = Some(pending);
        lane.next = lane.next.wrapping_add(1);
        self.outstanding += 1;
        pending
    }

    /// The request that a reply is for, if it has not had one.
    pub(super) fn end(&mut self, imm: u32) -> Option<(Status, Pending)> {
        let (status, worker, _) = from_imm(imm);
        let status = status?;
        let slots = &mut self.lanes.get_mut(worker as usize)?.slots;
        // Sequence numbers are told by their low bits, which a window never repeats.
        let at = slots.iter().position(|p| p.is_some_and(|p| to_imm(status, worker, p.sequence) == imm))?;
        self.outstanding -= 1;
        slots[at].take().map(|p| (status, p))
    }

    /// When the next request is due to be sent again.
    pub(super) fn due(&self) -> Time {
        let all = self.lanes.iter().flat_map(|l| &l.slots).flatten();
        all.map(|p| p.again).min().unwrap_or(Time::NEVER)
    }
}

/// A client: WRITEs requests, RECVs replies.
pub struct Client<P: Provider> {
    device: Device<P>,
    config: Config,
    number: u32,
    uc: Outbox<P>,
    region: RemoteAddr,
    /// An image of each slot that it writes to, and one of the word of repetitions.
    images: Mr<P>,
    inline: u32,
    ud: Qp<P>,
    replies: Cq<P>,
    ring: RecvRing<P>,
    windows: Windows,
    wc: Vec<Wc>,
    scratch: Vec<u8>,
    /// Number of times it asked for a repetition.
    bells: u32,
}

impl<P: Provider> Client<P> {
    /// Client `number`; returns once every worker is ready. It may have `outstanding` requests under
    /// way over all workers.
    pub fn start(cpu: &P, config: &Config, number: u32, outstanding: u32) -> Result<Client<P>, SystemError> {
        config.check()?;
        if number >= config.clients || outstanding == 0 {
            return SystemError::config(format!(
                "client {number} of {} with {outstanding} requests outstanding cannot be",
                config.clients
            ));
        }
        let device = Device::open(cpu)?;
        let port = device.port(number);
        let recvs = outstanding + 2 * recv_ring::BATCH;
        let (send_cq, replies) =
            (device.context.create_cq(outbox::cqe(1))?, device.context.create_cq(recvs)?);
        let ud = device.ud(port, (&send_cq, &replies), 1, recvs, 0)?;
        let mut ring = RecvRing::new(&device, recvs, config.max_reply)?;
        // Before anybody knows this QP: a datagram without RECV is lost.
        ring.post(&ud, true)?;
        let inline = device.inline(config.slot() as u32);
        let cap = QpCap {
            max_send_wr: outbox::depth(1),
            max_recv_wr: 1,
            max_inline_data: inline,
            ..QpCap::default()
        };
        let uc = device.pd.create_qp(&send_cq, &send_cq, None, &QpInitAttr::new(QpType::Uc, cap))?;
        cpu.publish(&format!("herd/ud/{number}"), &ud.endpoint(port)?.to_bytes());
        cpu.publish(&format!("herd/uc-client/{number}"), &uc.endpoint(port)?.to_bytes());
        let remote = find(cpu, &format!("herd/uc-server/{number}"))?;
        uc.connect(port, &remote, &ConnectAttr::default())?;
        let region = RemoteAddr::from_bytes(&cpu.lookup("herd/region"))?;
        let slots = u64::from(config.workers) * u64::from(config.window);
        let images = device.registered(slots * config.slot() + 8, AccessFlags::LOCAL_WRITE)?;
        for worker in 0..config.workers {
            cpu.lookup(&format!("herd/ready/{worker}"));
        }
        Ok(Client {
            windows: Windows::new(config),
            config: config.clone(),
            number,
            uc: Outbox::new(uc, send_cq, 1),
            region,
            images,
            inline,
            ud,
            replies,
            ring,
            wc: vec![Wc::default(); 16],
            scratch: Vec::new(),
            bells: 0,
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
        if self.scratch.len() as u32 > self.config.max_request {
            return SystemError::config(format!(
                "a request has up to {} bytes, not {}",
                self.config.max_request,
                self.scratch.len()
            ));
        }
        if !self.has_room(worker) {
            return SystemError::config(format!("the window of worker {worker} is full"));
        }
        let sent = self.device.cpu.now();
        let again = self.config.retry.map_or(Time::NEVER, |after| sent + after);
        let length = self.scratch.len() as u16;
        let pending =
            self.windows.take(worker, Pending { sequence: 0, length, repetition: 0, sent, again, tag });
        if length > 0 {
            let at = self.image(worker, pending.sequence) + self.config.slot() - reach(length.into());
            self.device.cpu.write(self.images.mem(), at, &self.scratch);
        }
        self.write(worker, pending)
    }

    /// Offset of the image of a slot.
    fn image(&self, worker: u32, sequence: u32) -> u64 {
        let slot =
            u64::from(worker) * u64::from(self.config.window) + u64::from(sequence % self.config.window);
        slot * self.config.slot()
    }

    /// WRITEs a request from its image to its slot.
    fn write(&mut self, worker: u32, p: Pending) -> Result<(), SystemError> {
        let end = self.image(worker, p.sequence) + self.config.slot();
        let trailer = Trailer { sequence: p.sequence, length: p.length, repetition: p.repetition };
        self.device.cpu.store_u64(self.images.mem(), end - 8, trailer.to_word());
        let len = reach(p.length.into());
        let slot = self.config.slot_offset(self.number, p.sequence) + self.config.slot() - len;
        self.post(end - len, len as u32, u64::from(worker) * self.config.part() + slot)
    }

    fn post(&mut self, from: u64, len: u32, to: u64) -> Result<(), SystemError> {
        let sge = [self.images.sge(from, len)];
        let mut wr = SendWr::new(0, SendOp::Write(self.region.at(to)), &sge);
        if len <= self.inline {
            wr = wr.flags(SendFlags::INLINE);
        }
        self.uc.post(&mut [wr])
    }

    /// When to call [`Client::repeat`] at the latest; a deadline for `pause`.
    pub fn due(&self) -> Time {
        if self.config.retry.is_none() { Time::NEVER } else { self.windows.due() }
    }

    /// Sends again what is due; returns how many requests.
    pub fn repeat(&mut self) -> Result<u64, SystemError> {
        let now = self.device.cpu.now();
        let Some(after) = self.config.retry.filter(|_| self.due() <= now) else { return Ok(0) };
        let mut repeated = 0;
        for worker in 0..self.config.workers {
            let mut due = Vec::new();
            for p in self.windows.lanes[worker as usize].slots.iter_mut().flatten() {
                if p.again <= now {
                    p.repetition = p.repetition.wrapping_add(1);
                    p.again = now + after;
                    due.push(*p);
                }
            }
            for p in &due {
                self.write(worker, *p)?;
            }
            if !due.is_empty() {
                self.ring_bell(worker)?;
            }
            repeated += due.len() as u64;
        }
        Ok(repeated)
    }

    /// Tells a worker that it has to look at this client's slots again.
    fn ring_bell(&mut self, worker: u32) -> Result<(), SystemError> {
        self.bells = self.bells.wrapping_add(1);
        let at = self.images.mem().len() - 8;
        let word = u64::from(self.bells) << 32 | u64::from(self.number);
        self.device.cpu.store_u64(self.images.mem(), at, word);
        self.post(at, 8, u64::from(worker) * self.config.part() + self.config.bell_offset())
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
            self.ring.post(&self.ud, false)?;
        }
        Ok(found > 0)
    }
}
