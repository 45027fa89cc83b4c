//! The replies of a worker. A slot keeps each reply, so that it can be repeated. The NIC SENDs or WRITEs the
//! reply from its slot, or a client READs it there.

use super::config::Config;
use super::connections;
use super::immediates::{OperationKeys, Status, to_imm};
use super::message::Message;
use super::outgoing::{Connected, Datagrams};
use super::slots::{Slots, Trailer};
use super::verbs::Replies;
use crate::checksum::{self, checksum};
use crate::device::{self, Device, find};
use crate::outbox::Outbox;
use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{
    AccessFlags, Endpoint, Mr, OperationKey, Provider, QpType, RemoteAddr, SendFlags, SendOp, SendWr, Sge,
};

/// A reply that is kept in a slot.
#[derive(Clone, Copy)]
struct Kept {
    sequence: u32,
    length: u16,
    status: Status,
    repetition: u16,
}

/// How replies leave.
enum ReplyWay<P: Provider> {
    Datagrams {
        datagrams: Datagrams<P>,
        /// Keeps the connections open for requests.
        _connections: Vec<Outbox<P>>,
    },
    Connected(Connected<P>),
    /// Clients READ the replies.
    Fetched {
        _connections: Vec<Outbox<P>>,
    },
}

/// Keeps and sends the replies of a worker: one reply for each slot of each client.
pub(super) struct Replier<P: Provider> {
    cpu: P,
    worker: u32,
    config: Config,
    slots: Slots,
    replies: Mr<P>,
    kept: Vec<Option<Kept>>,
    way: ReplyWay<P>,
    inline: u32,
    scratch: Vec<u8>,
}

/// A reply to send. Client and sequence number identify its slot.
#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub(super) client: u32,
    pub(super) sequence: u32,
    /// Whether this is a repetition of the reply.
    pub(super) again: bool,
    /// The key of the request's operation.
    pub(super) key: OperationKey,
}

/// The key of the address at which clients READ the replies of a worker.
pub(super) fn kept_key(worker: u32) -> String {
    format!("herd/kept/{worker}")
}

/// The key of the address to which replies to a client are WRITTEN.
pub(super) fn target_key(client: u32) -> String {
    format!("herd/target/{client}")
}

/// The key of the UD QP to which replies to a client are SENT.
pub(super) fn datagram_key(client: u32) -> String {
    format!("herd/ud/{client}")
}

impl<P: Provider> Replier<P> {
    /// The replies of worker `worker`. `connections` has one connection for each client, or none.
    pub(super) fn new(
        device: &Device<P>,
        config: &Config,
        worker: u32,
        connections: Vec<Outbox<P>>,
    ) -> Result<Replier<P>, SystemError> {
        let slots = config.reply_slots();
        let (way, inline) = match config.replies {
            Replies::SendUd => {
                let inline = device.inline(config.max_reply);
                let datagrams = Datagrams::new(device, config, inline)?;
                (ReplyWay::Datagrams { datagrams, _connections: connections }, inline)
            }
            Replies::ReadRc => (ReplyWay::Fetched { _connections: connections }, 0),
            _ => (ReplyWay::Connected(Connected::new(connections)), connections::inline(device, config)),
        };
        let access = AccessFlags::LOCAL_WRITE | AccessFlags::REMOTE_READ;
        let replies = device.registered(slots.bytes(config.clients), access)?;
        device::warm(&device.cpu, replies.mem());
        if let ReplyWay::Fetched { .. } = way {
            device.cpu.publish(&kept_key(worker), &replies.remote(0).to_bytes());
        }
        Ok(Replier {
            cpu: device.cpu.clone(),
            worker,
            config: config.clone(),
            slots,
            replies,
            kept: vec![None; config.clients as usize * config.window as usize],
            way,
            inline,
            scratch: Vec::new(),
        })
    }

    /// Looks up where each client receives its replies. All clients must be connected.
    pub(super) fn know_clients(&mut self, device: &Device<P>) -> Result<(), SystemError> {
        for client in 0..self.config.clients {
            match &mut self.way {
                ReplyWay::Datagrams { datagrams, .. } => {
                    let remote = find(&device.cpu, &datagram_key(client))?;
                    datagrams.add_client(device, device.port(client), &remote)?;
                }
                ReplyWay::Connected(connected) if self.config.replies.are_written() => {
                    let target = RemoteAddr::from_bytes(&device.cpu.lookup(&target_key(client)))?;
                    connected.add_target(target);
                }
                ReplyWay::Connected(_) | ReplyWay::Fetched { .. } => {}
            }
        }
        Ok(())
    }

    /// Adds a client whose first datagram came by local `port`. Returns the client's number, or `None` if
    /// there are too many clients.
    pub(super) fn meet(
        &mut self,
        device: &Device<P>,
        port: u8,
        remote: &Endpoint,
    ) -> Result<Option<u32>, SystemError> {
        let ReplyWay::Datagrams { datagrams, .. } = &mut self.way else { return Ok(None) };
        let client = datagrams.clients();
        if client == self.config.clients {
            return Ok(None);
        }
        datagrams.add_client(device, port, remote)?;
        Ok(Some(client))
    }

    /// The key of a request that carries `client` as the number of its client.
    pub(super) fn key(&self, client: u32, sequence: u32) -> OperationKey {
        OperationKeys::of_client(client).of(self.worker, sequence)
    }

    fn slot(&self, answer: Answer) -> usize {
        self.slots.index(answer.client, answer.sequence)
    }

    /// Keeps the reply to a request. `reply` is `None` if the request was malformed.
    pub(super) fn keep<R: Message>(&mut self, answer: Answer, repetition: u16, reply: Option<&R>) {
        self.scratch.clear();
        if let Some(reply) = reply {
            reply.encode(&mut self.scratch);
        }
        assert!(self.scratch.len() <= self.config.max_reply as usize, "a reply is longer than `max_reply`");
        let status = if reply.is_some() { Status::Ok } else { Status::Malformed };
        let length = self.scratch.len() as u16;
        let slot = self.slot(answer);
        self.kept[slot] = Some(Kept { sequence: answer.sequence, length, status, repetition });
        self.store(answer, Trailer { sequence: answer.sequence, length, repetition: status as u16 });
    }

    /// Stores the encoded reply in its slot. The trailer, which marks the reply as whole, is stored last.
    fn store(&mut self, answer: Answer, trailer: Trailer) {
        let Answer { client, sequence, .. } = answer;
        let mem = self.replies.mem();
        if !self.scratch.is_empty() {
            let at = self.slots.text(client, sequence, self.scratch.len() as u32);
            self.cpu.write(mem, at, &self.scratch);
        }
        let at = self.slots.trailer(client, sequence);
        match self.config.replies {
            Replies::SendUd | Replies::SendUc | Replies::SendRc => return,
            Replies::WriteUc | Replies::WriteRc => {}
            Replies::ReadRc => {
                self.scratch.extend(trailer.to_word().to_le_bytes());
                self.cpu.work(checksum::work(self.scratch.len() as u64));
                self.cpu.store_u64(mem, at - 8, checksum(&self.scratch));
            }
        }
        self.cpu.store_u64(mem, at, trailer.to_word());
    }

    /// Whether the reply to this request is kept and was not yet sent for this repetition of the request. If
    /// so, it counts as sent from now on.
    pub(super) fn repeats(&mut self, answer: Answer, repetition: u16) -> bool {
        let slot = self.slot(answer);
        match &mut self.kept[slot] {
            Some(kept) if kept.sequence == answer.sequence && kept.repetition != repetition => {
                kept.repetition = repetition;
                true
            }
            _ => false,
        }
    }

    /// The bytes of a reply's slot that are sent.
    fn sge(&self, answer: Answer) -> Sge {
        let Answer { client, sequence, .. } = answer;
        let length = self.kept[self.slot(answer)].map_or(0, |k| k.length.into());
        self.replies.sge(self.slots.text(client, sequence, length), self.slots.reach(length) as u32)
    }

    /// The verb that sends a reply. `length` bytes of its slot are sent.
    fn op(&self, answer: Answer, length: u32) -> SendOp {
        let Answer { client, sequence, .. } = answer;
        if let ReplyWay::Connected(connected) = &self.way
            && let Some(target) = connected.target(client)
        {
            let at = self.slots.end(self.worker, sequence) - u64::from(length);
            return SendOp::Write(target.at(at));
        }
        let status = self.kept[self.slot(answer)].map_or(Status::Malformed, |k| k.status);
        SendOp::SendWithImm(to_imm(status, self.worker, sequence))
    }

    /// Sends kept replies by one QP of each port, or by the connection of each client. RC repeats no reply:
    /// the first one is in flight, or its client has left. A reply that is no longer kept is not repeated
    /// either: it has arrived, because its client has used the slot again.
    pub(super) fn send(
        &mut self,
        answers: &[Answer],
        interval: &Interval,
        measured: &mut Measured,
    ) -> Result<(), SystemError> {
        let reliable = self.config.replies.transport() == QpType::Rc;
        let keeps =
            |answer: &Answer| self.kept[self.slot(*answer)].is_some_and(|k| k.sequence == answer.sequence);
        let goes = |answer: &Answer| !answer.again || !reliable && keeps(answer);
        let answers: Vec<Answer> = answers.iter().copied().filter(goes).collect();
        let sges: Vec<Sge> = answers.iter().map(|&a| self.sge(a)).collect();
        let replies = answers.iter().zip(&sges).map(|(&answer, sge)| {
            let sg_list = if sge.length == 0 { &[] } else { std::slice::from_ref(sge) };
            let inline = sge.length > 0 && sge.length <= self.inline;
            let flags = if inline { SendFlags::INLINE } else { SendFlags::empty() };
            (answer.client, SendWr::new(answer.key.0, self.op(answer, sge.length), sg_list).flags(flags))
        });
        let replies: Vec<(u32, SendWr<'_>)> = replies.collect();
        let again = answers.iter().any(|answer| answer.again);
        let most = if self.config.doorbell { self.config.gather as usize } else { 1 };
        let posted = &mut |replies| measured.post(interval, self.cpu.now(), replies as u64);
        match &mut self.way {
            ReplyWay::Datagrams { datagrams, .. } => datagrams.post(replies, most, posted),
            ReplyWay::Connected(connected) => connected.post(replies, most, again, posted),
            ReplyWay::Fetched { .. } => Ok(()),
        }
    }
}
