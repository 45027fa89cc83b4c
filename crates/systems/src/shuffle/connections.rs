//! QPs from each sender to each receiver on another machine. Both ends post to a QP: the sender posts entries
//! and told words, and the receiver posts credit words and READs of entries.

use super::layout::Plan;
use crate::SystemError;
use crate::config::Seats;
use crate::device::{self, Device};
use crate::outbox::{self, Outbox};
use crate::vector_io::{Strategy, Writer};
use doorbell_verbs::{
    AccessFlags, Cq, Mem, Mr, Provider, Qp, QpCap, QpInitAttr, QpType, RemoteAddr, SendFlags, SendOp, SendWr,
};

/// Bytes of a credit word, which is inline.
const CREDIT: u32 = 8;

/// A connection to another executor. `W` is the type that posts to another machine.
pub(super) enum InboxWay<W> {
    /// The executor is on this machine, and has this inbox.
    Here(Mem),
    /// The executor is on another machine, and has its inbox at this address.
    There(W, RemoteAddr),
}

/// An executor's device, memory and connections.
pub(super) struct Connections<P: Provider> {
    pub(super) device: Device<P>,
    /// The executor's own inbox.
    pub(super) inbox: Mr<P>,
    /// A line for the results of atomics, and for words to post.
    pub(super) scratch: Mr<P>,
    /// Connections to all receivers, if the executor sends.
    pub(super) to: Vec<InboxWay<Writer<P>>>,
    /// Connections to all senders, if the executor receives.
    pub(super) from: Vec<InboxWay<Outbox<P>>>,
}

/// An executor that is to be connected.
#[derive(Clone, Copy)]
pub(super) struct Connecting<'a> {
    pub(super) plan: &'a Plan,
    pub(super) seats: &'a Seats,
    pub(super) number: u32,
    /// Inboxes of all executors. Inboxes of other machines are not used.
    pub(super) inboxes: &'a [Mem],
    /// Prefix of the keys that are published.
    pub(super) service: &'a str,
}

/// An end of a QP: the sender's or the receiver's.
#[derive(Clone, Copy)]
enum QpEnd {
    Sender,
    Receiver,
}

/// A QP that is not connected yet, its CQ, this executor's end, and the other executor.
struct Half<P: Provider> {
    qp: Qp<P>,
    cq: Cq<P>,
    end: QpEnd,
    other: u32,
}

impl Connecting<'_> {
    fn machine(&self, executor: u32) -> u32 {
        self.seats.place(executor).0
    }

    fn is_here(&self, other: u32) -> bool {
        self.machine(other) == self.machine(self.number)
    }

    /// The sender and the receiver of a QP to another executor.
    fn pair(&self, end: QpEnd, other: u32) -> (u32, u32) {
        match end {
            QpEnd::Sender => (self.number, other),
            QpEnd::Receiver => (other, self.number),
        }
    }

    fn key(&self, what: &str, (sender, receiver): (u32, u32), of: u32) -> String {
        format!("{}/{what}/{sender}/{receiver}/{of}", self.service)
    }

    fn memory_key(&self, executor: u32) -> String {
        format!("{}/inbox/{executor}", self.service)
    }

    /// Number of work requests of a post, and of SGEs of a work request.
    fn of_a_post<P: Provider>(&self, device: &Device<P>) -> (u32, u32) {
        let sges = self.plan.batch.min(device.attr.max_sge).max(1);
        match self.plan.strategy {
            Strategy::Sp => (1, 1),
            Strategy::Doorbell => (self.plan.batch, 1),
            Strategy::Sgl => (self.plan.batch.div_ceil(sges), sges),
        }
    }

    /// Length of the send queue to a receiver, in work requests.
    fn queue<P: Provider>(&self, device: &Device<P>) -> u32 {
        let of_a_post = self.of_a_post(device).0;
        of_a_post.saturating_mul(self.plan.outstanding).clamp(of_a_post, device.attr.max_qp_wr.max(1))
    }

    fn half<P: Provider>(&self, device: &Device<P>, end: QpEnd, other: u32) -> Result<Half<P>, SystemError> {
        let (sends, sges, cqe, inline) = match end {
            QpEnd::Sender => {
                (self.queue(device), self.of_a_post(device).1, self.plan.outstanding, self.plan.inline)
            }
            // Each READ is signalled.
            QpEnd::Receiver => (outbox::depth(1), 1, outbox::depth(1), CREDIT),
        };
        let cq = device.context.create_cq(cqe)?;
        let cap = QpCap {
            max_send_wr: sends,
            max_recv_wr: 1,
            max_send_sge: sges,
            max_inline_data: device.inline(inline),
            ..QpCap::default()
        };
        let qp = device.pd.create_qp(&cq, &cq, None, &QpInitAttr::new(QpType::Rc, cap))?;
        Ok(Half { qp, cq, end, other })
    }

    /// The port of both ends of a QP: the port of the receiver's socket.
    fn port<P: Provider>(&self, device: &Device<P>, pair: (u32, u32)) -> u8 {
        device.port_of_socket(self.seats.socket(pair.1))
    }

    /// Connects this executor with all its peers.
    pub(super) fn connect<P: Provider>(&self, cpu: &P) -> Result<Connections<P>, SystemError> {
        let Connecting { plan, number, inboxes, .. } = *self;
        let device = Device::at_socket(cpu, self.seats.socket(number))?;
        let access = AccessFlags::LOCAL_WRITE
            | AccessFlags::REMOTE_READ
            | AccessFlags::REMOTE_WRITE
            | AccessFlags::REMOTE_ATOMIC;
        let inbox = device.register(inboxes[number as usize], access)?;
        cpu.publish(&self.memory_key(number), &inbox.remote(0).to_bytes());
        let sends = plan.sending().contains(&number);
        let to = plan.receiving().filter(|_| sends).map(|other| (QpEnd::Sender, other));
        let from = plan.sending().filter(|_| plan.as_receiver(number).is_some());
        let all: Vec<(QpEnd, u32)> = to.chain(from.map(|other| (QpEnd::Receiver, other))).collect();
        let mut halves = Vec::new();
        for (end, other) in all.iter().copied().filter(|(_, other)| !self.is_here(*other)) {
            let half = self.half(&device, end, other)?;
            let pair = self.pair(end, other);
            let endpoint = half.qp.endpoint(self.port(&device, pair))?;
            cpu.publish(&self.key("end", pair, number), &endpoint.to_bytes());
            halves.push(half);
        }
        for half in &halves {
            let pair = self.pair(half.end, half.other);
            let remote = device::find(cpu, &self.key("end", pair, half.other))?;
            half.qp.connect(self.port(&device, pair), &remote, &device::connect_attr(&device))?;
            cpu.publish(&self.key("connected", pair, number), &[]);
        }
        for half in &halves {
            cpu.lookup(&self.key("connected", self.pair(half.end, half.other), half.other));
        }
        self.ways(device, inbox, &all, halves)
    }

    /// The connections to the executors `all`. `halves` has the QPs to those of them on other machines, in
    /// order.
    fn ways<P: Provider>(
        &self,
        device: Device<P>,
        inbox: Mr<P>,
        all: &[(QpEnd, u32)],
        halves: Vec<Half<P>>,
    ) -> Result<Connections<P>, SystemError> {
        let scratch = device.registered(64, AccessFlags::LOCAL_WRITE)?;
        let (queue, sges) = (self.queue(&device), self.of_a_post(&device).1);
        let inline = device.inline(self.plan.inline);
        let longest = u64::from(self.plan.batch) * u64::from(self.plan.entry);
        let (mut to, mut from) = (Vec::new(), Vec::new());
        let mut halves = halves.into_iter();
        for (end, other) in all {
            let there = if self.is_here(*other) { None } else { halves.next() };
            let Some(Half { qp, cq, .. }) = there else {
                let here = self.inboxes[*other as usize];
                match end {
                    QpEnd::Sender => to.push(InboxWay::Here(here)),
                    QpEnd::Receiver => from.push(InboxWay::Here(here)),
                }
                continue;
            };
            let remote = RemoteAddr::from_bytes(&device.cpu.lookup(&self.memory_key(*other)))?;
            match end {
                QpEnd::Sender => {
                    let limits = (queue, sges, inline);
                    let writer = Writer::new(&device, (qp, cq), limits, longest, self.plan.outstanding)?;
                    to.push(InboxWay::There(writer, remote));
                }
                QpEnd::Receiver => from.push(InboxWay::There(Outbox::new(qp, cq, 1), remote)),
            }
        }
        Ok(Connections { device, inbox, scratch, to, from })
    }
}

/// Offset of a word to post, in scratch memory. The result of an atomic is before it.
const WORD: u64 = 8;

impl<P: Provider> InboxWay<Outbox<P>> {
    /// Stores a word in the other executor's inbox, or WRITEs it from `scratch`. If `is_last` is set,
    /// [`InboxWay::settle`] can wait for this word.
    pub(super) fn store(
        &mut self,
        cpu: &P,
        (offset, word): (u64, u64),
        scratch: &Mr<P>,
        is_last: bool,
    ) -> Result<(), SystemError> {
        match self {
            InboxWay::Here(inbox) => cpu.store_u64(*inbox, offset, word),
            InboxWay::There(outbox, inbox) => {
                cpu.store_u64(scratch.mem(), WORD, word);
                let sge = [scratch.sge(WORD, 8)];
                let wr = SendWr::new(0, SendOp::Write(inbox.at(offset)), &sge).flags(SendFlags::INLINE);
                match is_last {
                    false => outbox.post(&mut [wr])?,
                    true => outbox.post_signalled(&mut [wr])?,
                }
            }
        }
        Ok(())
    }

    /// Waits until the last word has arrived, or its WRITE has failed because the executor has exited.
    pub(super) fn settle(&mut self) {
        if let InboxWay::There(outbox, _) = self {
            let _ = outbox.settle();
        }
    }
}
