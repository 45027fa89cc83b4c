//! How workers reply: UD SENDs, and replies kept for repetition.

use super::{Config, Message, Status, to_imm};
use crate::device::{self, Device, QKEY};
use crate::outbox::{self, Outbox};
use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{
    AccessFlags, Ah, AhAttr, Endpoint, LinkLayer, Mr, Provider, SendFlags, SendOp, SendWr, Sge, UdDest,
};

/// The reply in a slot.
#[derive(Clone, Copy)]
struct Kept {
    sequence: u32,
    length: u16,
    status: Status,
    repetition: u16,
}

/// A client as a worker knows it.
struct Destination {
    port: u8,
    dest: UdDest,
}

/// A worker's replies: one for each slot of each client, sent from where it stays.
pub(super) struct Replier<P: Provider> {
    cpu: P,
    worker: u32,
    config: Config,
    replies: Mr<P>,
    kept: Vec<Option<Kept>>,
    clients: Vec<Destination>,
    ahs: Vec<(AhAttr, Ah<P>)>,
    /// By port, and the queues of each.
    outboxes: Vec<Vec<Outbox<P>>>,
    queue: usize,
    inline: u32,
    scratch: Vec<u8>,
}

/// A reply to send, by the slot that keeps it.
#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub(super) client: u32,
    pub(super) sequence: u32,
}

impl<P: Provider> Replier<P> {
    pub(super) fn new(device: &Device<P>, config: &Config, worker: u32) -> Result<Replier<P>, SystemError> {
        let slots = u64::from(config.clients) * u64::from(config.window);
        let inline = device.inline(config.max_reply);
        let mut outboxes = Vec::new();
        for port in 1..=device.attr.ports {
            let mut queues = Vec::new();
            for _ in 0..config.queues {
                let cq = device.context.create_cq(outbox::cqe(config.gather))?;
                let qp = device.ud(port, (&cq, &cq), outbox::depth(config.gather), 1, inline)?;
                queues.push(Outbox::new(qp, cq, config.gather));
            }
            outboxes.push(queues);
        }
        let replies = device.registered(slots * stride(config), AccessFlags::LOCAL_WRITE)?;
        device::warm(&device.cpu, replies.mem());
        Ok(Replier {
            cpu: device.cpu.clone(),
            worker,
            config: config.clone(),
            replies,
            kept: vec![None; slots as usize],
            clients: Vec::new(),
            ahs: Vec::new(),
            outboxes,
            queue: 0,
            inline,
            scratch: Vec::new(),
        })
    }

    /// The next client: reached through local `port`.
    pub(super) fn add_client(
        &mut self,
        device: &Device<P>,
        port: u8,
        remote: &Endpoint,
    ) -> Result<(), SystemError> {
        let local = device.context.query_port(port)?;
        let attr = AhAttr {
            port_num: port,
            dlid: remote.lid,
            dgid: (local.link_layer == LinkLayer::Ethernet).then_some(remote.gid),
            sgid_index: local.gid_index,
        };
        // Clients on one port share an address handle.
        let ah = match self.ahs.iter().find(|(a, _)| *a == attr) {
            Some((_, ah)) => ah.clone(),
            None => {
                let ah = device.pd.create_ah(&attr)?;
                self.ahs.push((attr, ah.clone()));
                ah
            }
        };
        self.clients.push(Destination { port, dest: ah.dest(remote.qpn, QKEY) });
        Ok(())
    }

    /// Number of clients added.
    pub(super) fn clients(&self) -> u32 {
        self.clients.len() as u32
    }

    fn slot(&self, answer: Answer) -> usize {
        (answer.client * self.config.window + answer.sequence % self.config.window) as usize
    }

    /// Keeps the reply of a request; `None` for one that was malformed.
    pub(super) fn keep<R: Message>(&mut self, answer: Answer, repetition: u16, reply: Option<&R>) {
        let slot = self.slot(answer);
        self.scratch.clear();
        if let Some(reply) = reply {
            reply.encode(&mut self.scratch);
        }
        assert!(self.scratch.len() <= self.config.max_reply as usize, "a reply longer than `max_reply`");
        if !self.scratch.is_empty() {
            self.cpu.write(self.replies.mem(), slot as u64 * stride(&self.config), &self.scratch);
        }
        let status = if reply.is_some() { Status::Ok } else { Status::Malformed };
        let length = self.scratch.len() as u16;
        self.kept[slot] = Some(Kept { sequence: answer.sequence, length, status, repetition });
    }

    /// Whether the reply of this request is kept and was not sent for this repetition yet; then
    /// it counts as sent for it.
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

    fn sge(&self, answer: Answer) -> Sge {
        let slot = self.slot(answer);
        let length = self.kept[slot].map_or(0, |k| u32::from(k.length));
        self.replies.sge(slot as u64 * stride(&self.config), length)
    }

    /// Sends kept replies, through one QP of each port.
    pub(super) fn send(
        &mut self,
        answers: &[Answer],
        interval: &Interval,
        measured: &mut Measured,
    ) -> Result<(), SystemError> {
        let sges: Vec<Sge> = answers.iter().map(|&a| self.sge(a)).collect();
        let mut lists: Vec<Vec<SendWr<'_>>> = vec![Vec::new(); self.outboxes.len()];
        for (&answer, sge) in answers.iter().zip(&sges) {
            let to = &self.clients[answer.client as usize];
            let status = self.kept[self.slot(answer)].map_or(Status::Malformed, |k| k.status);
            let imm = to_imm(status, self.worker, answer.sequence);
            let sg_list = if sge.length == 0 { &[] } else { std::slice::from_ref(sge) };
            let mut wr = SendWr::new(0, SendOp::SendWithImm(imm), sg_list).to(to.dest);
            if sge.length > 0 && sge.length <= self.inline {
                wr = wr.flags(SendFlags::INLINE);
            }
            lists[usize::from(to.port - 1)].push(wr);
        }
        for (queues, list) in self.outboxes.iter_mut().zip(&mut lists) {
            let most = if self.config.doorbell { self.config.gather as usize } else { 1 };
            for part in list.chunks_mut(most) {
                queues[self.queue].post(part)?;
                measured.post(interval, self.cpu.now(), part.len() as u64);
            }
        }
        self.queue = (self.queue + 1) % self.config.queues as usize;
        Ok(())
    }
}

/// Bytes from one kept reply to the next.
fn stride(config: &Config) -> u64 {
    u64::from(config.max_reply).next_multiple_of(8).max(8)
}
