//! Upper bounds of the rate, set by the resources of a group of machines.

use super::groups::RoleGroup;
use super::mix::{Mix, NS_PER_US, gcd};
use super::operation_end::OperationEnd;
use super::terms::{Limit, Terms};
use crate::accounting::{self, ATOMIC_WORD_BYTES, Method};
use crate::cost::{self, Costs, MessagePacket, MessageShape, ReceiveWork};
use crate::{Atomics, Device, Digits, PostShape, Profile, Resource, counted, wqe};
use doorbell_verbs::Opcode;

/// The bounds that a group of machines sets.
pub(super) struct Bounds<'a> {
    /// Profile and costs of the machines.
    pub(super) own: &'a OperationEnd<'a>,
    /// Profile and costs of their peers.
    pub(super) peer: &'a OperationEnd<'a>,
    pub(super) mix: &'a Mix,
    pub(super) group: &'a RoleGroup,
    /// Usable ports of each machine.
    pub(super) ports: u32,
    /// Whether the responder may drop messages because no RECV is posted. If so, resources that a dropped
    /// message does not use are left out.
    pub(super) may_drop: bool,
}

/// A function that computes one of the bounds.
pub(super) type BoundKind = fn(&Bounds<'_>) -> Limit;

/// All kinds of bounds, with both directions of the link.
pub(super) const KINDS: [BoundKind; 9] = [
    |bounds| bounds.to_nic(),
    |bounds| bounds.to_host(),
    |bounds| bounds.sending(),
    |bounds| bounds.pipeline(),
    |bounds| bounds.receiving(),
    |bounds| bounds.link_out_of(),
    |bounds| bounds.link_into(),
    |bounds| bounds.cpu(),
    |bounds| bounds.locks(),
];

/// The capacities of one machine in a microsecond, regardless of the users, in the order of [`KINDS`].
///
/// A capacity is `None` for cores, because classes of threads do not share them, and for locks, because their
/// capacity depends on the locks in use.
pub(super) fn capacities(profile: &Profile, ports: u32) -> [Option<f64>; KINDS.len()] {
    let time = |servers: u32| Some(f64::from(servers) * NS_PER_US);
    let ports = f64::from(ports.min(profile.device.link.ports));
    let link = Some(ports * profile.device.link.port_bytes_per_s as f64 / 1e6);
    let Device { tx, rx, .. } = &profile.device;
    [time(1), time(1), time(tx.units), time(1), time(rx.units), link, link, None, None]
}

/// Index of the cores in [`KINDS`].
pub(super) const CORES: usize = 7;

impl<'a> Bounds<'a> {
    fn profile(&self) -> &'a Profile {
        self.own.profile
    }

    fn costs(&self) -> &'a Costs {
        &self.own.costs
    }

    fn shape(&self) -> PostShape {
        self.mix.post(self.profile(), false)
    }

    fn message(&self) -> MessageShape {
        self.mix.message(self.profile(), self.peer.profile)
    }

    /// All bounds, always in the same order. The link has one bound.
    pub(super) fn all(&self) -> Vec<Limit> {
        vec![
            self.to_nic(),
            self.to_host(),
            self.sending(),
            self.pipeline(),
            self.receiving(),
            self.link(),
            self.cpu(),
            self.locks(),
        ]
    }

    /// The amounts that an operation uses at a group that posts, responds, or does both.
    fn terms(&self, at_requester: impl Fn(&mut Terms), at_responder: impl Fn(&mut Terms)) -> Terms {
        self.always(at_requester, |terms| {
            if !self.may_drop {
                at_responder(terms);
            }
        })
    }

    /// The amounts that every message uses, even if it is dropped.
    fn always(&self, at_requester: impl Fn(&mut Terms), at_responder: impl Fn(&mut Terms)) -> Terms {
        let mut terms = Terms::default();
        if self.group.posts {
            at_requester(&mut terms);
        }
        if self.group.responds {
            at_responder(&mut terms);
        }
        terms
    }

    /// Bytes of each part of the payload at the requester. Each part is a DMA.
    fn parts(&self) -> impl Iterator<Item = u64> {
        cost::parts(self.shape().buffers(), self.message().mtu).map(u64::from)
    }

    /// Bytes of a WQE in a read of WQEs.
    fn wqe_slot(&self) -> u64 {
        u64::from(wqe::pad(self.shape().wqe_bytes(self.costs().generation)))
    }

    /// Whether a DMA that reads these WQEs may also read WQEs of other lengths. Then the length of these WQEs
    /// alone does not determine the TLPs.
    fn reads_others(&self) -> bool {
        self.mix.mixed_lists && self.mix.batch > 1
    }

    /// Completions of the reads of WQEs.
    fn wqe_completions(&self, terms: &mut Terms) {
        let (pcie, what) = (&self.costs().pcie, "read completions with WQEs");
        let mut reads = self.wqe_reads().map(|bytes| pcie.completions(bytes));
        match self.reads_others() {
            true if reads.next().is_some() => terms.once(what, pcie.least_completions(self.wqe_slot())),
            true => {}
            false => terms.times(what, reads, self.mix.batch),
        }
    }

    /// Requests that read WQEs.
    fn wqe_requests(&self, terms: &mut Terms) {
        let (pcie, alone) = (&self.costs().pcie, !self.reads_others());
        let requests = self.wqe_reads().map(|bytes| pcie.read_requests(if alone { bytes } else { 1 }));
        terms.times("read requests for WQEs", requests, self.mix.batch);
    }

    /// Bytes of each DMA that reads the WQEs of a post.
    fn wqe_reads(&self) -> impl Iterator<Item = u64> {
        let slot = self.wqe_slot();
        let wqes = match self.shape().method {
            Method::WqeByMmio => None,
            Method::Doorbell { batch } => {
                Some(accounting::doorbell_fetches(&self.profile().device.nic, batch))
            }
        };
        wqes.into_iter().flatten().map(move |wqes| u64::from(wqes) * slot)
    }

    /// Bytes of each DMA that reads the RECVs of a post.
    fn recv_reads(&self) -> impl Iterator<Item = u64> {
        let slot = u64::from(self.costs().generation.wqe().recv_bytes(1));
        let recvs = if self.mix.opcode.consumes_recv() { self.mix.recv_batch } else { 0 };
        accounting::recv_fetches(&self.profile().device.nic, recvs).map(move |recvs| u64::from(recvs) * slot)
    }

    /// Calls that post RECVs per operation.
    fn recv_posts(&self) -> f64 {
        if self.mix.opcode.consumes_recv() { 1.0 / f64::from(self.mix.recv_batch) } else { 0.0 }
    }

    /// Bytes of each DMA read at the responder.
    fn data_reads(&self) -> impl Iterator<Item = u64> {
        let word = self.mix.opcode.is_atomic().then_some(u64::from(ATOMIC_WORD_BYTES));
        let data = self.message().answers().map(|piece| u64::from(piece.packet.payload));
        data.filter(|bytes| *bytes > 0).chain(word)
    }

    /// The work that the packets of a message cause at the receiving NIC.
    fn work(&self) -> impl Iterator<Item = ReceiveWork> {
        let (nic, recv) = (&self.profile().device.nic, self.mix.recv());
        self.message().requests().map(move |MessagePacket { packet, .. }| ReceiveWork::of(&packet, nic, recv))
    }

    /// The bound of the direction towards the NIC, which MMIO writes and read completions share. It names the
    /// one of these two that takes more time.
    fn to_nic(&self) -> Limit {
        let (mut terms, completions) = (self.mmio(), self.completions());
        let machines = self.group.machines as f64;
        let (by_mmio, by_dma) = (terms.sum() / machines, completions.sum() / machines);
        let resource = if by_mmio > by_dma { Resource::MmioBandwidth } else { Resource::DmaBandwidth };
        terms.extend(completions);
        let text = format!(
            "PCIe towards the NIC of {}: {} ns of MMIO and {} ns of read completions per operation",
            self.group.who,
            Digits(by_mmio, 3),
            Digits(by_dma, 3)
        );
        Limit::new(resource, machines * NS_PER_US, terms, text)
    }

    /// Time of MMIO writes.
    fn mmio(&self) -> Terms {
        let pcie = &self.costs().pcie;
        self.terms(
            |terms| match self.shape().method {
                Method::WqeByMmio => {
                    let lines = self.shape().wqe_lines(self.costs().generation);
                    terms.time("lines of WQEs written by MMIO", lines.into(), pcie.mmio_line);
                }
                Method::Doorbell { batch } => {
                    terms.time("Doorbells", 1.0 / f64::from(batch), pcie.doorbell);
                }
            },
            |terms| terms.time("Doorbells for RECVs", self.recv_posts(), pcie.doorbell),
        )
    }

    /// Time of read completions.
    fn completions(&self) -> Terms {
        let pcie = &self.costs().pcie;
        self.terms(
            |terms| {
                self.wqe_completions(terms);
                if self.shape().payload_read() > 0 {
                    let payload = self.parts().map(|bytes| pcie.completions(bytes));
                    terms.times("read completions with payload", payload, 1);
                }
            },
            |terms| {
                let recvs = self.recv_reads().map(|bytes| pcie.completions(bytes));
                terms.times("read completions with RECVs", recvs, self.mix.recv_batch);
                let data = self.data_reads().map(|bytes| pcie.completions(bytes));
                terms.times("read completions with data", data, 1);
            },
        )
    }

    /// DMA writes and read requests.
    fn to_host(&self) -> Limit {
        let terms = self.terms(|terms| self.to_requester(terms), |terms| self.to_responder(terms));
        let machines = self.group.machines as f64;
        let text = format!(
            "PCIe towards the host of {}: {} ns of DMA writes and read requests per operation",
            self.group.who,
            Digits(terms.sum() / machines, 3)
        );
        Limit::new(Resource::DmaWriteBandwidth, machines * NS_PER_US, terms, text)
    }

    /// Time of the DMA write of a CQE.
    fn cqe(&self) -> u64 {
        self.costs().pcie.write(self.costs().cqe.into())
    }

    fn to_requester(&self, terms: &mut Terms) {
        let pcie = &self.costs().pcie;
        self.wqe_requests(terms);
        if self.shape().payload_read() > 0 {
            let payload = self.parts().map(|bytes| pcie.read_requests(bytes));
            terms.times("read requests for payload", payload, 1);
        }
        if self.mix.opcode.returns_data() {
            let data = self.parts().map(|bytes| pcie.write(bytes));
            terms.times("writes of returned data", data, 1);
        }
        terms.time("CQEs of work requests", self.mix.signalled(), self.cqe());
    }

    fn to_responder(&self, terms: &mut Terms) {
        let pcie = &self.costs().pcie;
        let recvs = self.recv_reads().map(|bytes| pcie.read_requests(bytes));
        terms.times("read requests for RECVs", recvs, self.mix.recv_batch);
        let data = self.data_reads().map(|bytes| pcie.read_requests(bytes));
        terms.times("read requests for data", data, 1);
        let placed = self.work().filter(|work| work.place > 0);
        terms.times("writes of payload", placed.map(|work| pcie.write(work.place.into())), 1);
        // A compare-and-swap that fails writes nothing.
        if self.mix.opcode == Opcode::FetchAdd {
            terms.once("writes of words", pcie.write(ATOMIC_WORD_BYTES.into()));
        }
        let recvs = self.work().filter(|work| work.recv_cqe).count();
        terms.time("CQEs of RECVs", recvs as f64, self.cqe());
    }

    fn sending(&self) -> Limit {
        let (costs, shape, message) = (self.costs(), self.shape(), self.message());
        let terms = self.terms(
            |terms| {
                let first = costs.send_first(&shape, &message);
                terms.once("first request packets", first);
                let further = costs.send_requests(&shape, &message) - first;
                terms.once("further request packets", further);
            },
            |terms| {
                let answers = self.message().answers().map(|piece| costs.send.answer(&piece.packet));
                terms.times("response packets", answers, 1);
            },
        );
        let busy = self.group.senders.busy(self.group.machines, self.profile().device.tx.units);
        units(Resource::TxUnits, self.group, busy, "sending", terms)
    }

    /// The pipeline of the sending units. Only requests pass it.
    fn pipeline(&self) -> Limit {
        let each = self.costs().send.pipeline;
        let packets = self.message().requests().count();
        let terms =
            self.terms(|terms| terms.time("beginnings of request packets", packets as f64, each), |_| {});
        let text = format!(
            "the pipeline of the sending units of {}, {} ns per operation",
            self.group.who,
            Digits(terms.sum() / self.group.machines as f64, 2)
        );
        Limit::new(Resource::TxPipeline, self.group.machines as f64 * NS_PER_US, terms, text)
    }

    /// A flow has one unit at a time, and the unit that became idle last takes the next flow. So at most as
    /// many units work as there are flows.
    fn receiving(&self) -> Limit {
        let mut terms = self.always(
            |terms| {
                let answers = self.message().answers().map(|piece| self.costs().receive.look(&piece.packet));
                terms.times("inspection of response packets", answers, 1);
            },
            |terms| {
                let requests =
                    self.message().requests().map(|piece| self.costs().receive.look(&piece.packet));
                terms.times("inspection of request packets", requests, 1);
            },
        );
        terms.extend(self.issued());
        let busy = self.group.flows.busy(self.group.machines, self.profile().device.rx.units);
        units(Resource::RxUnits, self.group, busy, "receiving", terms)
    }

    /// The DMAs that receiving units issue.
    fn issued(&self) -> Terms {
        let receive = &self.costs().receive;
        self.terms(
            |terms| {
                if self.mix.opcode.returns_data() {
                    terms.time(
                        "issued writes of returned data",
                        self.parts().count() as f64,
                        receive.dma_write,
                    );
                }
                if self.message().answers().next().is_some() {
                    terms.time("CQEs of work requests", self.mix.signalled(), receive.requester_cqe);
                }
            },
            |terms| {
                let writes: u32 = self.work().map(|work| work.writes()).sum();
                terms.time("issued DMA writes", writes.into(), receive.dma_write);
                let inline = self.work().filter(|work| work.inline).count();
                terms.time("payload put into CQEs", inline as f64, receive.inline);
                let reads = self.message().answers().filter(|answer| answer.packet.payload > 0).count();
                terms.time("issued reads of data", reads as f64, receive.dma_read);
            },
        )
    }

    /// The bound of the direction that an operation uses more.
    fn link(&self) -> Limit {
        let (out, into) = (self.out(), self.back());
        if out.sum() >= into.sum() { self.link_of("outbound", out) } else { self.link_of("inbound", into) }
    }

    fn link_out_of(&self) -> Limit {
        self.link_of("outbound", self.out())
    }

    fn link_into(&self) -> Limit {
        self.link_of("inbound", self.back())
    }

    /// Bytes that leave by the ports.
    fn out(&self) -> Terms {
        self.always(|terms| self.requests_of(self.own, terms), |terms| self.answers_of(self.own, terms))
    }

    /// Bytes that arrive by the ports.
    fn back(&self) -> Terms {
        self.always(|terms| self.answers_of(self.peer, terms), |terms| self.requests_of(self.peer, terms))
    }

    fn link_of(&self, way: &str, terms: Terms) -> Limit {
        let (ports, machines) = (self.ports.min(self.mix.threads), self.group.machines as f64);
        let text = format!(
            "{way} through {} of {}, {} bytes per operation",
            counted(ports.into(), "port"),
            self.group.who,
            Digits(terms.sum() / machines, 1)
        );
        let capacity = f64::from(ports) * machines * self.profile().device.link.port_bytes_per_s as f64 / 1e6;
        Limit::new(Resource::LinkBandwidth, capacity, terms, text)
    }

    /// Packets have the headers of their sender's generation.
    fn requests_of(&self, sender: &OperationEnd<'_>, terms: &mut Terms) {
        let cost::OnLink { packets, bytes } = sender.costs.on_link(self.message().requests());
        terms.bytes("request packets", packets, bytes);
    }

    fn answers_of(&self, sender: &OperationEnd<'_>, terms: &mut Terms) {
        let cost::OnLink { packets, bytes } = sender.costs.on_link(self.message().answers());
        terms.bytes("response packets", packets, bytes);
    }

    fn cpu(&self) -> Limit {
        let terms = self.terms(|terms| self.cpu_of_posts(terms), |terms| self.cpu_of_recvs(terms));
        let RoleGroup { who, threads, machines, .. } = self.group;
        let (threads, machines) = (*threads, *machines);
        let ns = terms.sum() / machines as f64;
        let text = format!(
            "{} of {who}, {} ns per operation",
            counted(self.mix.threads.into(), "thread"),
            Digits(ns, 1)
        );
        Limit::new(Resource::Cpu, threads as f64 * NS_PER_US, terms, text)
    }

    fn cpu_of_posts(&self, terms: &mut Terms) {
        let core = &self.costs().cpu;
        let (lines, batch) = (self.shape().wqe_lines(self.costs().generation), f64::from(self.mix.batch));
        terms.once("the program itself", core.program);
        terms.time("calls that post", 1.0 / batch, core.post_call);
        terms.once("WQEs built", core.build(self.shape().inlined()) + core.send_line * u64::from(lines));
        match self.shape().method {
            Method::WqeByMmio => terms.time("lines of WQEs written by MMIO", lines.into(), core.mmio_line),
            Method::Doorbell { .. } => terms.time("Doorbells", 1.0 / batch, core.doorbell),
        }
        terms.time("completions of work requests", self.mix.signalled(), core.take(1));
    }

    fn cpu_of_recvs(&self, terms: &mut Terms) {
        if !self.mix.opcode.consumes_recv() {
            return;
        }
        let (core, posts) = (&self.costs().cpu, self.recv_posts());
        terms.time("calls that post RECVs", posts, core.post_call);
        terms.once("RECVs built", core.recv_wqe);
        terms.time("Doorbells for RECVs", posts, core.doorbell);
        terms.once("completions of RECVs", core.take(1));
        if self.work().any(|work| work.inline) {
            terms.once("payload moved out of CQEs", core.take_inline(self.mix.payload));
        }
    }

    fn locks(&self) -> Limit {
        let Mix { opcode, counters, counter_stride, .. } = *self.mix;
        let terms = self.terms(
            |_| {},
            |terms| {
                if opcode.is_atomic() {
                    terms.once("reads of the word under the lock", self.costs().pcie.read_latency);
                    terms.once("remaining time under the lock", self.costs().lock_hold);
                }
            },
        );
        let locks = locks_in_use(&self.profile().device.atomics, counters, counter_stride);
        // More locks help only if words share them. If there is only one lock, ATC'16 names the operation
        // under the lock as the limit (5.4).
        let shared = locks > 1 && locks < counters;
        let resource = if shared { Resource::AtomicLocks } else { Resource::PcieLatency };
        let RoleGroup { who, machines, .. } = self.group;
        let text = format!(
            "{} of {who} in use, each held {} ns per atomic",
            counted(locks, "lock"),
            Digits(terms.sum(), 0)
        );
        Limit::new(resource, (locks * *machines) as f64 * NS_PER_US, terms, text)
    }
}

/// The bound that units set if at most `busy` of them work at a time, on all machines of a group together.
fn units(resource: Resource, group: &RoleGroup, busy: u64, kind: &str, terms: Terms) -> Limit {
    let machines = group.machines as f64;
    let (each, ns) = (busy as f64 / machines, terms.sum() / machines);
    let kind = format!("{kind} unit");
    let each = match each.fract() == 0.0 {
        true => counted(each as u64, &kind),
        false => format!("{} {kind}s", Digits(each, 2)),
    };
    let text = format!("{each} of {} kept busy by its QPs, {} ns per operation", group.who, Digits(ns, 1));
    Limit::new(resource, busy as f64 * NS_PER_US, terms, text)
}

/// The most locks that words `stride` bytes apart use.
fn locks_in_use(atomics: &Atomics, counters: u64, stride: u64) -> u64 {
    let slots = u64::from(atomics.slots);
    let per_lock = 1u64 << atomics.slot_low_bit;
    let reached = if stride <= per_lock {
        // Successive words use the same lock or the next lock.
        (counters - 1).saturating_mul(stride) / per_lock + 1
    } else if stride.is_multiple_of(per_lock) {
        // Successive words skip locks, and return to the first lock after some rounds.
        counters.min(slots / gcd(stride / per_lock, slots))
    } else {
        counters
    };
    reached.min(slots)
}
