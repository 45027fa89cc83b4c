//! The line of a client: the QPs and the verb that carry its requests.

use super::config::Config;
use super::connections;
use super::images::Images;
use super::immediates::{OperationKeys, TOLD_APART, to_request_imm};
use super::slots::Trailer;
use super::verbs::Requests;
use super::windows::Pending;
use crate::SystemError;
use crate::device::{self, Device, QKEY, find};
use crate::outbox::{self, Outbox};
use doorbell_verbs::{
    Ah, Cq, Provider, Qp, QpCap, QpInitAttr, QpType, RemoteAddr, SendFlags, SendOp, SendWr, Sge, UdDest,
};

/// The key that a worker publishes when it knows its clients and accepts requests.
pub(super) fn ready_key(worker: u32) -> String {
    format!("herd/ready/{worker}")
}

/// The key of the region's address, as registered by a worker.
pub(super) fn region_key(worker: u32) -> String {
    format!("herd/region/{worker}")
}

/// The key of the UD QP to which requests to a worker go.
pub(super) fn request_key(worker: u32, port: u8) -> String {
    format!("herd/datagram/{worker}/{port}")
}

/// The verb of requests, and their destinations.
enum RequestWay<P: Provider> {
    Write {
        /// The address of the region, for each connection.
        regions: Vec<RemoteAddr>,
        /// How often this client asked for a repetition.
        bells: u32,
    },
    Send,
    Datagrams {
        workers: Vec<UdDest>,
        _ahs: Vec<Ah<P>>,
    },
}

/// The QPs that carry a client's requests: one for all workers, or one for each worker.
pub(super) struct RequestLine<P: Provider> {
    cpu: P,
    config: Config,
    number: u32,
    outboxes: Vec<Outbox<P>>,
    way: RequestWay<P>,
    inline: u32,
}

/// Makes a message inline if it has at most `most` bytes.
fn inlined(wr: SendWr<'_>, length: u32, most: u32) -> SendWr<'_> {
    if length > 0 && length <= most { wr.flags(SendFlags::INLINE) } else { wr }
}

impl<P: Provider> RequestLine<P> {
    /// A line that SENDs by the UD QP `qp`. The SENDs complete in `sent`. Returns once the addresses of all
    /// workers are known.
    pub(super) fn by_datagrams(
        device: &Device<P>,
        config: &Config,
        number: u32,
        qp: Qp<P>,
        sent: Cq<P>,
    ) -> Result<RequestLine<P>, SystemError> {
        let port = device.port(number);
        let (mut workers, mut ahs) = (Vec::new(), Vec::new());
        for worker in 0..config.workers {
            let remote = find(&device.cpu, &request_key(worker, port))?;
            let ah = Ah::to_endpoint(&device.pd, port, &remote)?;
            workers.push(ah.dest(remote.qpn, QKEY));
            ahs.push(ah);
        }
        Ok(RequestLine {
            cpu: device.cpu.clone(),
            config: config.clone(),
            number,
            outboxes: vec![Outbox::new(qp, sent, 1)],
            way: RequestWay::Datagrams { workers, _ahs: ahs },
            inline: device.inline(config.max_request),
        })
    }

    /// A line that consists of connections. Replies that are SENT complete in the CQ `replies`, and each
    /// connection has room for `recvs` RECVs. Returns once the QPs are connected. Workers may not be ready
    /// yet.
    pub(super) fn by_connections(
        device: &Device<P>,
        config: &Config,
        number: u32,
        (replies, recvs): (Option<&Cq<P>>, u32),
    ) -> Result<RequestLine<P>, SystemError> {
        let (cpu, transport) = (&device.cpu, config.requests.transport());
        let inline = match config.requests.are_sent() {
            true => device.inline(config.max_request),
            false => device.inline(config.request_slots().stride() as u32),
        };
        let batch = batch(config);
        let mut outboxes = Vec::new();
        for worker in 0..config.connections() {
            // If an RC connection fails, each work request completes, not only the signalled ones.
            let rc = transport == QpType::Rc;
            let cqe = if rc { outbox::depth(batch) } else { outbox::cqe(batch) };
            let sent = device.context.create_cq(cqe)?;
            let cap = QpCap {
                max_send_wr: outbox::depth(batch),
                max_recv_wr: recvs,
                max_inline_data: inline,
                ..QpCap::default()
            };
            let attr = QpInitAttr::new(transport, cap);
            let qp = device.pd.create_qp(&sent, replies.unwrap_or(&sent), None, &attr)?;
            device::connect_qp(device, &qp, number, &connections::service(worker))?;
            outboxes.push(Outbox::new(qp, sent, batch));
        }
        let way = match config.requests.are_sent() {
            true => RequestWay::Send,
            false => {
                let region = |worker| Ok(RemoteAddr::from_bytes(&cpu.lookup(&region_key(worker)))?);
                let regions = (0..config.connections()).map(region);
                RequestWay::Write { regions: regions.collect::<Result<_, SystemError>>()?, bells: 0 }
            }
        };
        Ok(RequestLine { cpu: cpu.clone(), config: config.clone(), number, outboxes, way, inline })
    }

    /// Waits until every worker knows its clients and accepts requests. If requests are datagrams, workers
    /// need not know clients beforehand, so there is no wait.
    pub(super) fn wait_for_workers(&self) {
        if self.config.requests != Requests::SendUd {
            (0..self.config.workers).for_each(|worker| drop(self.cpu.lookup(&ready_key(worker))));
        }
    }

    /// The QPs, in the order of workers.
    pub(super) fn qps(&self) -> impl Iterator<Item = Qp<P>> {
        self.outboxes.iter().map(|outbox| outbox.qp.clone())
    }

    /// Index of the QP that leads to a worker.
    fn connection(&self, worker: u32) -> usize {
        if self.outboxes.len() == 1 { 0 } else { worker as usize }
    }

    /// The outbox of the QP that leads to a worker.
    pub(super) fn outbox(&mut self, worker: u32) -> &mut Outbox<P> {
        let connection = self.connection(worker);
        &mut self.outboxes[connection]
    }

    /// The keys of the client's operations.
    pub(super) fn keys(&self) -> OperationKeys {
        OperationKeys::of_client(match self.config.requests {
            // The server knows only the bits that a datagram carries.
            Requests::SendUd => self.number % TOLD_APART,
            _ => self.number,
        })
    }

    /// Posts a request from its image.
    pub(super) fn post(&mut self, images: &Images<P>, worker: u32, p: Pending) -> Result<(), SystemError> {
        match &self.way {
            RequestWay::Write { .. } => self.write(images, worker, p),
            RequestWay::Send => self.send(images, worker, p, None),
            RequestWay::Datagrams { workers, .. } => {
                let to = workers[worker as usize];
                self.send(images, worker, p, Some(to))
            }
        }
    }

    /// WRITEs a request to its slot.
    fn write(&mut self, images: &Images<P>, worker: u32, p: Pending) -> Result<(), SystemError> {
        let trailer = Trailer { sequence: p.sequence, length: p.length, repetition: p.repetition };
        let slots = images.slots();
        self.cpu.store_u64(images.mem(), slots.trailer(worker, p.sequence), trailer.to_word());
        let length = p.length.into();
        let to = slots.text(self.number, p.sequence, length);
        let sge = [images.sge(slots.text(worker, p.sequence, length), slots.reach(length) as u32)];
        let key = self.keys().of(worker, p.sequence);
        let wr = SendWr { wr_id: key.0, ..self.write_request(worker, to, &sge) };
        self.outbox(worker).post(&mut [wr])
    }

    /// A WRITE into a worker's part of the region.
    fn write_request<'a>(&self, worker: u32, to: u64, sge: &'a [Sge; 1]) -> SendWr<'a> {
        let RequestWay::Write { regions, .. } = &self.way else {
            panic!("only requests by WRITE have regions")
        };
        let remote = regions[self.connection(worker)].at(u64::from(worker) * self.config.part() + to);
        inlined(SendWr::new(0, SendOp::Write(remote), sge), sge[0].length, self.inline)
    }

    /// SENDs a request. If this is a repetition, the reply to the first SEND may come meanwhile, and the next
    /// request may overwrite the image. This does no harm, because the server does not read a request that it
    /// has executed.
    fn send(
        &mut self,
        images: &Images<P>,
        worker: u32,
        p: Pending,
        to: Option<UdDest>,
    ) -> Result<(), SystemError> {
        let length = u32::from(p.length);
        let sge = [images.sge(images.slots().text(worker, p.sequence, length), length)];
        let op = SendOp::SendWithImm(to_request_imm(self.number, p.sequence));
        let sg_list = if length == 0 { &sge[..0] } else { &sge };
        let key = self.keys().of(worker, p.sequence);
        let wr = inlined(SendWr::new(key.0, op, sg_list), length, self.inline);
        self.outbox(worker).post(&mut [SendWr { dest: to, ..wr }])
    }

    /// Must be called after requests to a worker were posted again. Tells a worker that polls slots to
    /// examine this client's slots again. Returns when the repeated WRITEs have left. Otherwise the reply to
    /// a first WRITE could free its slot, and the repeated WRITE would carry the slot's next request. A
    /// worker that receives SENDs needs no notice.
    pub(super) fn repeated(&mut self, images: &Images<P>, worker: u32) -> Result<(), SystemError> {
        let RequestWay::Write { bells, .. } = &mut self.way else { return Ok(()) };
        *bells = bells.wrapping_add(1);
        let word = u64::from(*bells) << 32 | u64::from(self.number);
        self.cpu.store_u64(images.mem(), images.word(), word);
        let sge = [images.sge(images.word(), 8)];
        let wr = self.write_request(worker, self.config.bell_offset(), &sge);
        self.outbox(worker).post_and_wait(&mut [wr])
    }
}

/// The `batch` of a connection's outbox: its room for work requests beyond the signalled ones. Over RC
/// everything fits that may be outstanding, so the client never waits for a server that has left.
fn batch(config: &Config) -> u32 {
    match config.requests.transport() {
        // Each request may have a READ, too.
        QpType::Rc => 2 * config.window,
        QpType::Uc | QpType::Ud => 1,
    }
}
