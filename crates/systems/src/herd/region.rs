//! A worker that polls its part of the request region, into which clients WRITE requests.

use super::config::Config;
use super::message::{Handler, Message};
use super::replier::{Answer, Replier};
use super::slots::{Slots, Trailer};
use super::{connections, line};
use crate::device::{self, Device};
use crate::outbox::Outbox;
use crate::{Interval, Measured, SystemError, work};
use doorbell_verbs::{AccessFlags, Mem, Mr, OperationStep, Provider};

/// A request that the worker found in the region.
struct FoundRequest {
    answer: Answer,
    trailer: Trailer,
}

/// A worker that polls its part of the region, has the requests executed, and replies.
pub(super) struct RegionWorker<P: Provider> {
    device: Device<P>,
    config: Config,
    slots: Slots,
    /// The worker's part of the region.
    part: Mem,
    /// Sequence number of the next request of each client.
    expected: Vec<u32>,
    /// The client whose slot is polled next.
    next: u32,
    replier: Replier<P>,
    found: Vec<FoundRequest>,
    /// The last known value of the bell, the word by which clients report repetitions.
    bell: u64,
    /// The registered region; `None` for a worker without connections, because clients WRITE by connections.
    _region: Option<Mr<P>>,
}

impl<P: Provider> RegionWorker<P> {
    /// See [`super::Worker::start`]. If a client has one connection for all workers, worker 0 has the
    /// server's end.
    pub(super) fn start(
        cpu: &P,
        config: &Config,
        number: u32,
        region: Mem,
    ) -> Result<RegionWorker<P>, SystemError> {
        config.check()?;
        let device = Device::open(cpu)?;
        let (mut mr, mut connections) = (None, Vec::new());
        if number < config.connections() {
            let (registered, connected) = connect(&device, config, number, region)?;
            (mr, connections) = (Some(registered), connected);
        }
        let mut replier = Replier::new(&device, config, number, connections)?;
        replier.know_clients(&device)?;
        let part = region.slice(u64::from(number) * config.part(), config.part());
        device::warm(cpu, part);
        cpu.publish(&line::ready_key(number), &[]);
        Ok(RegionWorker {
            part,
            slots: config.request_slots(),
            config: config.clone(),
            expected: vec![1; config.clients as usize],
            next: 0,
            replier,
            found: Vec::new(),
            bell: 0,
            device,
            _region: mr,
        })
    }

    /// Polls the next slot of each client once, until it has found [`Config::gather`] requests.
    fn gather(&mut self) {
        let cpu = &self.device.cpu;
        self.found.clear();
        let mut looked = 0;
        while looked < self.config.clients && self.found.len() < self.config.gather as usize {
            let client = self.next;
            self.next = (client + 1) % self.config.clients;
            looked += 1;
            let sequence = self.expected[client as usize];
            let trailer = self.slots.trailer(client, sequence);
            let trailer = Trailer::from_word(cpu.load_u64(self.part, trailer));
            if trailer.sequence == sequence {
                self.expected[client as usize] = sequence.wrapping_add(1);
                let key = self.replier.key(client, sequence);
                cpu.mark(key, OperationStep::Finds);
                let answer = Answer { client, sequence, again: false, key };
                self.found.push(FoundRequest { answer, trailer });
            }
        }
        cpu.work(work::SCAN * u64::from(looked));
    }

    fn request<M: Message>(&self, found: &FoundRequest) -> Option<M> {
        let length = found.trailer.length;
        if u32::from(length) > self.config.max_request {
            return None;
        }
        let mut bytes = vec![0; usize::from(length)];
        if length > 0 {
            let Answer { client, sequence, .. } = found.answer;
            let at = self.slots.text(client, sequence, length.into());
            self.device.cpu.read(self.part, at, &mut bytes);
        }
        M::decode(&bytes)
    }

    /// See [`super::Worker::pass`].
    pub(super) fn pass<H: Handler>(
        &mut self,
        handler: &mut H,
        interval: &Interval,
        measured: &mut Measured,
    ) -> Result<bool, SystemError> {
        let bell = self.device.cpu.load_u64(self.part, self.config.bell_offset());
        self.gather();
        if bell != self.bell {
            self.bell = bell;
            self.repeat(bell as u32, interval, measured)?;
        } else if self.found.is_empty() {
            return Ok(false);
        }
        let found = std::mem::take(&mut self.found);
        self.device.cpu.work(work::REQUEST * found.len() as u64);
        let mut requests = Vec::with_capacity(found.len());
        let good: Vec<bool> =
            found.iter().map(|f| self.request(f).map(|r| requests.push(r)).is_some()).collect();
        let mut replies = Vec::with_capacity(requests.len());
        if !requests.is_empty() {
            handler.handle(&self.device.cpu, &requests, &mut replies);
        }
        assert_eq!(replies.len(), requests.len(), "a handler replies to each request");
        let mut replies = replies.iter();
        for (found, good) in found.iter().zip(good) {
            let reply = if good { replies.next() } else { None };
            self.replier.keep(found.answer, found.trailer.repetition, reply);
        }
        let answers: Vec<Answer> = found.iter().map(|f| f.answer).collect();
        self.replier.send(&answers, interval, measured)?;
        self.found = found;
        Ok(true)
    }

    /// Repeats the replies of a client's executed requests, because the client has repeated requests.
    fn repeat(
        &mut self,
        client: u32,
        interval: &Interval,
        measured: &mut Measured,
    ) -> Result<(), SystemError> {
        if client >= self.config.clients {
            return Ok(());
        }
        let mut answers = Vec::new();
        for slot in 0..self.config.window {
            let trailer = self.slots.trailer(client, slot);
            let trailer = Trailer::from_word(self.device.cpu.load_u64(self.part, trailer));
            let key = self.replier.key(client, trailer.sequence);
            let answer = Answer { client, sequence: trailer.sequence, again: true, key };
            if trailer.sequence % self.config.window == slot
                && self.replier.repeats(answer, trailer.repetition)
            {
                answers.push(answer);
            }
        }
        for part in answers.chunks(self.config.gather as usize) {
            self.replier.send(part, interval, measured)?;
        }
        Ok(())
    }
}

/// Registers the region for all clients, and connects with them.
fn connect<P: Provider>(
    device: &Device<P>,
    config: &Config,
    number: u32,
    region: Mem,
) -> Result<(Mr<P>, Vec<Outbox<P>>), SystemError> {
    if region.len() < config.region_bytes() {
        return SystemError::config(format!(
            "the region has {} bytes, but needs {}",
            region.len(),
            config.region_bytes()
        ));
    }
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
    let mr = device.register(region, access)?;
    device.cpu.publish(&line::region_key(number), &mr.remote(0).to_bytes());
    Ok((mr, connections::connect(device, config, number, None)?))
}
