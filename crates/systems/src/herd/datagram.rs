//! The variant without connected QPs: requests by UD SEND.

use super::client::{Images, inlined};
use super::replier::{Answer, Replier};
use super::windows::Pending;
use super::{Config, Handler, Message, SEQUENCE_BITS, Status, from_imm, reach, to_imm};
use crate::device::{self, Device, QKEY, check, find};
use crate::outbox::{self, Outbox};
use crate::recv_ring::{self, RecvRing};
use crate::{Interval, Measured, SystemError, work};
use doorbell_verbs::{Ah, Cq, Endpoint, GRH_BYTES, Gid, Provider, Qp, SendOp, SendWr, UdDest, Wc};
use std::collections::HashMap;

/// Most RECVs of a worker's QP; more requests than this under way at once may be lost.
const MOST_RECVS: u32 = 8192;

fn request_key(worker: u32, port: u8) -> String {
    format!("herd/datagram/{worker}/{port}")
}

/// What was executed: the last sequence number of each slot of each client's window.
struct Executed {
    window: u32,
    last: Vec<Option<u32>>,
}

impl Executed {
    fn new(config: &Config) -> Executed {
        Executed { window: config.window, last: vec![None; (config.clients * config.window) as usize] }
    }

    /// Whether a request was not executed yet; then it counts as executed. One that is older than the
    /// last of its slot has been: a client uses a slot again when its request has ended.
    fn is_new(&mut self, answer: Answer) -> bool {
        let slot = &mut self.last[(answer.client * self.window + answer.sequence % self.window) as usize];
        let ahead = |last: u32| answer.sequence.wrapping_sub(last) % (1 << SEQUENCE_BITS);
        let new = slot.is_none_or(|last| (1..1 << (SEQUENCE_BITS - 1)).contains(&ahead(last)));
        if new {
            *slot = Some(answer.sequence);
        }
        new
    }
}

/// A worker that takes requests from RECVs.
pub(super) struct DatagramWorker<P: Provider> {
    device: Device<P>,
    config: Config,
    requests: Cq<P>,
    /// By port.
    inboxes: Vec<(Qp<P>, RecvRing<P>)>,
    replier: Replier<P>,
    /// Number of each client, by address and QP.
    clients: HashMap<(u16, Gid, u32), u32>,
    executed: Executed,
    wc: Vec<Wc>,
}

impl<P: Provider> DatagramWorker<P> {
    /// Worker `number`. Clients make themselves known by their first request, up to
    /// [`Config::clients`].
    pub(super) fn start(cpu: &P, config: &Config, number: u32) -> Result<DatagramWorker<P>, SystemError> {
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
        Ok(DatagramWorker {
            replier: Replier::new(&device, config, number)?,
            config: config.clone(),
            requests,
            inboxes,
            clients: HashMap::new(),
            executed: Executed::new(config),
            wc: vec![Wc::default(); config.gather as usize],
            device,
        })
    }

    /// See [`super::Worker::pass`].
    pub(super) fn pass<H: Handler>(
        &mut self,
        handler: &mut H,
        interval: &Interval,
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
                if self.executed.is_new(answer) {
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

    fn request<M: Message>(&self, wc: &Wc, inbox: usize) -> Option<M> {
        let mut bytes = vec![0; wc.byte_len.saturating_sub(GRH_BYTES) as usize];
        if !bytes.is_empty() {
            let (mem, offset) = self.inboxes[inbox].1.payload(wc.wr_id);
            self.device.cpu.read(mem, offset, &mut bytes);
        }
        M::decode(&bytes)
    }
}

/// A client's UD QP, by which requests go out and replies come.
pub(super) struct Sends<P: Provider> {
    outbox: Outbox<P>,
    workers: Vec<UdDest>,
    _ahs: Vec<Ah<P>>,
    inline: u32,
}

impl<P: Provider> Sends<P> {
    /// Returns once every worker is known.
    pub(super) fn open(
        device: &Device<P>,
        config: &Config,
        number: u32,
        replies: &Cq<P>,
        ring: &mut RecvRing<P>,
    ) -> Result<Sends<P>, SystemError> {
        let port = device.port(number);
        let inline = device.inline(config.max_request);
        let sent = device.context.create_cq(outbox::cqe(1))?;
        let qp = device.ud(port, (&sent, replies), outbox::depth(1), ring.depth(), inline)?;
        ring.post(&qp, true)?;
        let (mut workers, mut ahs) = (Vec::new(), Vec::new());
        for worker in 0..config.workers {
            let remote = find(&device.cpu, &request_key(worker, port))?;
            let ah = Ah::to_endpoint(&device.pd, port, &remote)?;
            workers.push(ah.dest(remote.qpn, QKEY));
            ahs.push(ah);
        }
        Ok(Sends { outbox: Outbox::new(qp, sent, 1), workers, _ahs: ahs, inline })
    }

    pub(super) fn replies(&self) -> &Qp<P> {
        &self.outbox.qp
    }

    /// SENDs a request from its image. What goes out a second time may be half of the next request, if
    /// the first time was enough; the server does not look into what it has executed.
    pub(super) fn post(&mut self, images: &Images<P>, worker: u32, p: Pending) -> Result<(), SystemError> {
        let length = u32::from(p.length);
        let sge = [images.sge(images.end(worker, p.sequence) - reach(p.length.into()), length)];
        let op = SendOp::SendWithImm(to_imm(Status::Ok, worker, p.sequence));
        let sg_list = if length == 0 { &sge[..0] } else { &sge };
        let wr = SendWr::new(0, op, sg_list).to(self.workers[worker as usize]);
        self.outbox.post(&mut [inlined(wr, length, self.inline)])
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::config;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Requests of one slot, each of which comes several times, also long after later ones.
        #[test]
        fn what_comes_again_is_not_new(
            order in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..200),
            first in 0..1u32 << SEQUENCE_BITS,
        ) {
            let config = config();
            let mut executed = Executed::new(&config);
            let of = |n: u32| first.wrapping_add(n * config.window) % (1 << SEQUENCE_BITS);
            let mut sent = 0;
            for (next, pick) in order {
                let (n, new) = if next || sent == 0 { (sent, true) } else { (pick.index(sent as usize) as u32, false) };
                sent += u32::from(new);
                prop_assert_eq!(executed.is_new(Answer { client: 3, sequence: of(n) }), new);
                prop_assert_eq!(executed.last.iter().flatten().count(), 1, "no other slot is touched");
            }
        }
    }
}
