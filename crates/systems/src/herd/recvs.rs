//! A worker that receives requests by RECVs.

use super::config::Config;
use super::immediates::{SEQUENCE_BITS, from_request_imm};
use super::inboxes::Inboxes;
use super::message::{Handler, Message};
use super::replier::{Answer, Replier};
use super::{connections, line};
use crate::device::{self, Device};
use crate::recv_ring::{self, RecvRing};
use crate::{Interval, Measured, SystemError, work};
use doorbell_verbs::{Endpoint, Gid, OperationStep, Provider, QpType, Wc};
use std::collections::HashMap;

/// Largest number of RECVs of a worker's QP. Requests may be lost if more requests are in flight.
const MOST_RECVS: u32 = 8192;

/// The last sequence number that was executed in each slot of each client's window.
struct Executed {
    window: u32,
    last: Vec<Option<u32>>,
}

impl Executed {
    fn new(config: &Config) -> Executed {
        Executed { window: config.window, last: vec![None; (config.clients * config.window) as usize] }
    }

    /// Whether a request has not been executed yet. Such a request counts as executed from now on. A request
    /// that is older than the last request of its slot has been executed, because a client reuses a slot only
    /// when the slot's request has ended.
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

/// How a worker identifies the sender of a message.
enum Senders {
    /// By address and client number. The map has the number that the server gave to each client.
    Datagrams(HashMap<Sender, u32>),
    /// By inbox: each inbox belongs to one client.
    Connected,
}

/// The identity of a sender of datagrams. A QP number does not suffice: another client may get the QP number
/// of a client that has exited. The worker would then mistake the other client's first requests for old
/// requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Sender {
    lid: u16,
    gid: Gid,
    qpn: u32,
    /// The low bits of the number by which the client calls itself.
    client: u32,
}

/// A worker that receives requests by RECVs.
pub(super) struct RecvWorker<P: Provider> {
    device: Device<P>,
    /// The inboxes, by port or by client.
    inboxes: Inboxes<P>,
    replier: Replier<P>,
    senders: Senders,
    executed: Executed,
    wc: Vec<Wc>,
}

impl<P: Provider> RecvWorker<P> {
    /// See [`super::Worker::start`]. The worker learns of a client that uses datagrams by the client's first
    /// request. It accepts [`Config::clients`] clients.
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
        let found = self.inboxes.poll_present(&mut self.wc)?;
        if found.is_empty() {
            return Ok(false);
        }
        self.device.cpu.work(work::REQUEST * found.len() as u64);
        let (mut requests, mut fresh, mut answers) = (Vec::new(), Vec::new(), Vec::new());
        for (inbox, wc) in found {
            if let Some(mut answer) = self.answer(&wc, inbox)? {
                answer.again = !self.executed.is_new(answer);
                if !answer.again {
                    self.device.cpu.mark(answer.key, OperationStep::Finds);
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

    /// The client and the sequence number of a request. `None` if there are too many clients, or the request
    /// has no immediate.
    fn answer(&mut self, wc: &Wc, inbox: usize) -> Result<Option<Answer>, SystemError> {
        let Some(imm) = wc.imm else { return Ok(None) };
        let (named, sequence) = from_request_imm(imm);
        let (named, client) = match &mut self.senders {
            Senders::Connected => (inbox as u32, Some(inbox as u32)),
            Senders::Datagrams(clients) => {
                let (mem, header) = self.inboxes.ring(inbox).header(wc.wr_id);
                let (lid, gid) = device::sender(&self.device.cpu, wc, mem, header);
                let key = Sender { lid, gid, qpn: wc.src_qp, client: named };
                let client = match clients.get(&key) {
                    Some(client) => Some(*client),
                    None => {
                        let remote = Endpoint { lid, gid, qpn: wc.src_qp };
                        let client = self.replier.meet(&self.device, inbox as u8 + 1, &remote)?;
                        clients.extend(client.map(|client| (key, client)));
                        client
                    }
                };
                (named, client)
            }
        };
        let key = self.replier.key(named, sequence);
        Ok(client.map(|client| Answer { client, sequence, again: false, key }))
    }

    fn request<M: Message>(&self, wc: &Wc, inbox: usize) -> Option<M> {
        let mut bytes = Vec::new();
        self.inboxes.ring(inbox).read(&self.device.cpu, wc, &mut bytes);
        M::decode(&bytes)
    }
}

/// The parts of a worker that receives requests by RECVs, in the order of its fields.
type Opened<P> = (Inboxes<P>, Replier<P>, Senders);

/// Opens a UD QP for each port.
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

/// Opens a connection for each client.
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
    // No client sends before this.
    device.cpu.publish(&line::ready_key(number), &[]);
    Ok((inboxes, replier, Senders::Connected))
}

#[cfg(test)]
mod tests {
    use super::super::config::tests::config;
    use super::*;
    use doorbell_verbs::OperationKey;
    use proptest::prelude::*;

    proptest! {
        /// Requests of one slot. Each request may come several times, even long after later requests.
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
                let answer = Answer { client: 3, sequence: of(n), again: false, key: OperationKey(1) };
                prop_assert_eq!(executed.is_new(answer), new);
                prop_assert_eq!(executed.last.iter().flatten().count(), 1, "no other slot is touched");
            }
        }
    }
}
