//! A worker thread of a server.

use super::replier::{Answer, Replier};
use super::{Config, Handler, Message, Trailer, reach};
use crate::device::{self, Device, find};
use crate::{Interval, Measured, SystemError, work};
use doorbell_verbs::{AccessFlags, ConnectAttr, Mem, Mr, Provider, Qp, QpCap, QpInitAttr, QpType};

/// A request that was found.
struct Found {
    answer: Answer,
    trailer: Trailer,
}

/// A worker: looks for requests in its part of the region, has them executed, replies.
pub(super) struct Worker<P: Provider> {
    device: Device<P>,
    config: Config,
    /// Its part of the region.
    part: Mem,
    /// Sequence number that the next request of each client will have.
    expected: Vec<u32>,
    /// The client whose turn it is to be looked at.
    next: u32,
    replier: Replier<P>,
    found: Vec<Found>,
    /// What the word of repetitions was when last looked at.
    bell: u64,
    /// The first worker has the connections.
    _connections: Option<Connections<P>>,
}

/// The server's ends of its clients' UC QPs, and the registered region.
struct Connections<P: Provider> {
    _qps: Vec<Qp<P>>,
    _region: Mr<P>,
}

impl<P: Provider> Worker<P> {
    /// Worker `number` of those that share `region`, which has [`Config::region_bytes`]. Worker 0
    /// connects the clients. Returns once the clients are known.
    pub(super) fn start(
        cpu: &P,
        config: &Config,
        number: u32,
        region: Mem,
    ) -> Result<Worker<P>, SystemError> {
        config.check()?;
        let device = Device::open(cpu)?;
        let connections = if number == 0 { Some(connect(&device, config, region)?) } else { None };
        let mut replier = Replier::new(&device, config, number)?;
        for client in 0..config.clients {
            let remote = find(cpu, &format!("herd/ud/{client}"))?;
            replier.add_client(&device, device.port(client), &remote)?;
        }
        let part = region.slice(u64::from(number) * config.part(), config.part());
        device::warm(cpu, part);
        cpu.publish(&format!("herd/ready/{number}"), &[]);
        Ok(Worker {
            part,
            config: config.clone(),
            expected: vec![1; config.clients as usize],
            next: 0,
            replier,
            found: Vec::new(),
            bell: 0,
            device,
            _connections: connections,
        })
    }

    /// Looks at the next slot of each client until enough have a request.
    fn gather(&mut self) {
        let cpu = &self.device.cpu;
        self.found.clear();
        let mut looked = 0;
        while looked < self.config.clients && self.found.len() < self.config.gather as usize {
            let client = self.next;
            self.next = (client + 1) % self.config.clients;
            looked += 1;
            let sequence = self.expected[client as usize];
            let end = self.config.slot_offset(client, sequence) + self.config.slot();
            let trailer = Trailer::from_word(cpu.load_u64(self.part, end - 8));
            if trailer.sequence == sequence {
                self.expected[client as usize] = sequence.wrapping_add(1);
                self.found.push(Found { answer: Answer { client, sequence }, trailer });
            }
        }
        cpu.work(work::SCAN * u64::from(looked));
    }

    fn request<M: Message>(&self, found: &Found) -> Option<M> {
        let length = found.trailer.length;
        if u32::from(length) > self.config.max_request {
            return None;
        }
        let mut bytes = vec![0; usize::from(length)];
        if length > 0 {
            let Answer { client, sequence } = found.answer;
            let end = self.config.slot_offset(client, sequence) + self.config.slot();
            self.device.cpu.read(self.part, end - reach(length.into()), &mut bytes);
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

    /// A client has repeated requests: repeats the replies of those that were executed.
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
            let end = self.config.slot_offset(client, slot) + self.config.slot();
            let trailer = Trailer::from_word(self.device.cpu.load_u64(self.part, end - 8));
            let answer = Answer { client, sequence: trailer.sequence };
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

/// Connects every client.
fn connect<P: Provider>(
    device: &Device<P>,
    config: &Config,
    region: Mem,
) -> Result<Connections<P>, SystemError> {
    let cpu = &device.cpu;
    if region.len() < config.region_bytes() {
        return SystemError::config(format!(
            "the region has {} bytes, not {}",
            region.len(),
            config.region_bytes()
        ));
    }
    let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_WRITE;
    let mr = device.register(region, access)?;
    cpu.publish("herd/region", &mr.remote(0).to_bytes());
    let cq = device.context.create_cq(1)?;
    let cap = QpCap { max_send_wr: 1, max_recv_wr: 1, ..QpCap::default() };
    let mut qps = Vec::new();
    for client in 0..config.clients {
        let qp = device.pd.create_qp(&cq, &cq, None, &QpInitAttr::new(QpType::Uc, cap))?;
        cpu.publish(&format!("herd/uc-server/{client}"), &qp.endpoint(device.port(client))?.to_bytes());
        qps.push(qp);
    }
    let attr = ConnectAttr { access: AccessFlags::REMOTE_WRITE, ..ConnectAttr::default() };
    for (client, qp) in (0..).zip(&qps) {
        let remote = find(cpu, &format!("herd/uc-client/{client}"))?;
        qp.connect(device.port(client), &remote, &attr)?;
    }
    Ok(Connections { _qps: qps, _region: mr })
}
