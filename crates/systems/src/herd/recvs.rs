//! A worker that takes requests from RECVs.

use super::config::Config;
use super::immediates::{SEQUENCE_BITS, from_request_imm};
use super::inboxes::Inboxes;
use super::message::{Handler, Message};
use super::replier::{Answer, Replier};
use super::{connections, line};
use crate::device::{self, Device};
use crate::recv_ring::{self, RecvRing};
use crate::{Interval, Measured, SystemError, work};
use doorbell_verbs::{Endpoint, Gid, Provider, QpType, Wc};
use std::collections::HashMap;

/// Most RECVs of a worker's QP; more requests than this under way at once may be lost.
const MOST_RECVS: u32 = 8192;

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

/// Who sends.
enum Senders {
    /// The number of each client.
    Datagrams(HashMap<Sender, u32>),
    /// Each inbox is a client's.
    Connected,
}

/// Who sends datagrams. A QP number alone does not say it: that of a client which is gone may come to another, whose
/// first requests would then be taken for ones that were answered long ago.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Sender {
    lid: u16,
    gid: Gid,
    qpn: u32,
    /// The low bits of its own number.
    client: u32,
}

/// A worker that takes requests from RECVs.
pub(super) struct RecvWorker<P: Provider> {
    device: Device<P>,
    /// By port, or by client.
    inboxes: Inboxes<P>,
    replier: Replier<P>,
    senders: Senders,
    executed: Executed,
    wc: Vec<Wc>,
}

impl<P: Provider> RecvWorker<P> {
    /// See [`super::Worker::start`]. Clients of datagrams make themselves known by their first request, up to
    /// [`Config::clients`].
    pub(super) fn start(cpu: &P, config: &Config, number: u32) -> Result<RecvWorker<P>, SystemError> {
        config.check()?;
        let device = Device::open(cpu)?;
        let (inboxes, replier, senders) = match config.requests.transport() {
            QpType::Ud => open(&device, config, number)?,
            transport => connect(&device, config, number, transport)?,
        };
        Ok(RecvWorker {
            inboxes,
            replier,
            senders,
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
        let found = self.inboxes.poll(&mut self.wc)?;
        if found.is_empty() {
            return Ok(false);
        }
        self.device.cpu.work(work::REQUEST * found.len() as u64);
        let (mut requests, mut fresh, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for (inbox, wc) in found {
            if let Some(mut answer) = self.answer(&wc, inbox)? {
                answer.again = !self.executed.is_new(answer);
                if !answer.again {
                    let request = self.request(&wc, inbox);
                    fresh.push((answer, request.is_some()));
                    requests.extend(request);
                }
                answers.push(answer);
            }
            self.inboxes.give(inbox, wc.wr_id);
        }
        self.inboxes.post()?;
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
        let (client, sequence) = from_request_imm(imm);
        let client = match &mut self.senders {
            Senders::Connected => Some(inbox as u32),
            Senders::Datagrams(clients) => {
                let (mem, header) = self.inboxes.ring(inbox).header(wc.wr_id);
                let (lid, gid) = device::sender(&self.device.cpu, wc, mem, header);
                let key = Sender { lid, gid, qpn: wc.src_qp, client };
                match clients.get(&key) {
                    Some(client) => Some(*client),
                    None => {
                        let remote = Endpoint { lid, gid, qpn: wc.src_qp };
                        let client = self.replier.meet(&self.device, inbox as u8 + 1, &remote)?;
                        clients.extend(client.map(|client| (key, client)));
                        client
                    }
                }
            }
        };
        Ok(client.map(|client| Answer { client, sequence, again: false }))
    }

    fn request<M: Message>(&self, wc: &Wc, inbox: usize) -> Option<M> {
        let mut bytes = Vec::new();
        self.inboxes.ring(inbox).read(&self.device.cpu, wc, &mut bytes);
        M::decode(&bytes)
    }
}

/// What a worker opens for requests, in the order of its fields.
type Opened<P> = (Inboxes<P>, Replier<P>, Senders);

/// A UD QP for each port.
fn open<P: Provider>(device: &Device<P>, config: &Config, number: u32) -> Result<Opened<P>, SystemError> {
    let ports = u32::from(device.attr.ports);
    let wanted = config.clients.div_ceil(ports).saturating_mul(config.window) + recv_ring::BATCH;
    let depth = wanted.min(MOST_RECVS).min(device.attr.max_qp_wr);
    let mut inboxes = Inboxes::new(device.context.create_cq(depth * ports)?);
    let unused = device.context.create_cq(1)?;
    for port in 1..=device.attr.ports {
        let qp = device.ud(port, (&unused, inboxes.cq()), 1, depth, 0)?;
        inboxes.add(qp.clone(), RecvRing::new(device, depth, config.max_request)?)?;
        device.cpu.publish(&line::request_key(number, port), &qp.endpoint(port)?.to_bytes());
    }
    let replier = Replier::new(device, config, number, Vec::new())?;
    Ok((inboxes, replier, Senders::Datagrams(HashMap::new())))
}

/// A connection for each client.
fn connect<P: Provider>(
    device: &Device<P>,
    config: &Config,
    number: u32,
    transport: QpType,
) -> Result<Opened<P>, SystemError> {
    let depth = config.window + recv_ring::BATCH;
    let mut inboxes = Inboxes::new(device.context.create_cq(depth.saturating_mul(config.clients))?);
    let outboxes = connections::connect(device, config, number, Some((inboxes.cq(), depth)))?;
    for outbox in &outboxes {
        let ring = RecvRing::over(transport, device, depth, config.max_request)?;
        inboxes.add(outbox.qp.clone(), ring)?;
    }
    let mut replier = Replier::new(device, config, number, outboxes)?;
    replier.know_clients(device)?;
    // Before this no client sends.
    device.cpu.publish(&line::ready_key(number), &[]);
    Ok((inboxes, replier, Senders::Connected))
}

#[cfg(test)]
mod tests {
    use super::super::config::tests::config;
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
                prop_assert_eq!(executed.is_new(Answer { client: 3, sequence: of(n), again: false }), new);
                prop_assert_eq!(executed.last.iter().flatten().count(), 1, "no other slot is touched");
            }
        }
    }
}
