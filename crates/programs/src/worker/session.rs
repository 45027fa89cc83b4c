//! The verbs objects of a thread, and the exchange of addresses with its peers.

use super::result::ProgramError;
use super::tally::Tally;
use super::thread::Worker;
use doorbell_verbs::{
    AccessFlags, Ah, ConnectAttr, Context, Cq, DeviceAttr, Endpoint, GRH_BYTES, Mr, Mtu, Pd, Provider, Qp,
    QpCap, QpInitAttr, QpType, RemoteAddr, Sge, UdDest, VerbsError,
};
use doorbell_workload::topology::{self, Peer};
use doorbell_workload::{Addresses, Buffers, Operation, QueueLimits, Queues, Resolved};

/// Q_Key of every UD QP.
const QKEY: u32 = 0x1111_1111;

/// A thread's verbs objects.
pub(super) struct Session<'a, P: Provider> {
    worker: &'a Worker,
    provider: &'a P,
    attr: DeviceAttr,
    queues: Queues,
    port: u8,
    pd: Pd<P>,
    /// One CQ, or one for each QP.
    pub(super) send_cqs: Vec<Cq<P>>,
    pub(super) recv_cq: Cq<P>,
    pub(super) qps: Vec<Qp<P>>,
    /// Memory for received messages; `None` if no RECVs are posted.
    recv_mr: Option<Mr<P>>,
    /// Local memory of the operations that this thread posts.
    pub(super) send_mr: Option<Mr<P>>,
    /// Memory that peers may read and write.
    exposed: Option<Mr<P>>,
    /// Counters for the atomics of peers.
    counters: Option<Mr<P>>,
}

/// Limits of a NIC. A connection uses the lower limits of its two ends.
#[derive(Clone, Copy)]
struct Abilities {
    mtu: Mtu,
    /// Largest number of outstanding READs and atomics of a QP.
    rd_atomic: u8,
}

impl Abilities {
    /// The connection attributes that this NIC and the peer's NIC both support.
    fn together_with(self, peer: Abilities) -> ConnectAttr {
        ConnectAttr {
            mtu: Some(self.mtu.min(peer.mtu)),
            max_rd_atomic: self.rd_atomic.min(peer.rd_atomic),
            ..ConnectAttr::default()
        }
    }
}

/// The data about a QP that a thread publishes to its peers.
struct Introduction {
    endpoint: Endpoint,
    nic: Abilities,
}

impl Introduction {
    /// Encodes the introduction for [`Provider::publish`].
    fn to_bytes(&self) -> Vec<u8> {
        let mtu = self.nic.mtu.bytes().to_be_bytes();
        [self.endpoint.to_bytes().as_slice(), &[self.nic.rd_atomic], &mtu].concat()
    }

    /// The inverse of [`Introduction::to_bytes`].
    fn from_bytes(bytes: &[u8]) -> Result<Introduction, VerbsError> {
        let strange = || VerbsError::Invalid("a peer published invalid data about its QP".into());
        let (rest, mtu) = bytes.split_last_chunk().ok_or_else(strange)?;
        let (rd_atomic, endpoint) = rest.split_last().ok_or_else(strange)?;
        let mtu = Mtu::from_bytes(u32::from_be_bytes(*mtu)).ok_or_else(strange)?;
        let nic = Abilities { mtu, rd_atomic: *rd_atomic };
        Ok(Introduction { endpoint: Endpoint::from_bytes(endpoint)?, nic })
    }
}

/// Memory of a target: a region for WRITEs and READs, and a region for atomics.
#[derive(Clone, Copy, Default)]
pub(super) struct Remote {
    /// Region for WRITEs and READs, if the workload has any.
    pub(super) buffers: RemoteAddr,
    /// Counters for atomics, if the workload has any.
    pub(super) counters: RemoteAddr,
}

/// Destinations of a thread's operations.
pub(super) struct Paths<P: Provider> {
    /// Memory of each target, in the order of `topology::targets`.
    pub(super) remotes: Vec<Remote>,
    /// For UD: the destinations of each QP, in the order of `topology::targets`.
    pub(super) dests: Vec<Vec<UdDest>>,
    /// The address handles of `dests`, which must live as long as `dests`.
    _ahs: Vec<Ah<P>>,
}

fn ud(w: &Resolved) -> bool {
    w.transport == QpType::Ud
}

/// Largest number of buffers with precomputed SGEs. With more buffers, SGEs are computed for each operation.
const KEPT: u64 = 1 << 16;

/// Whether SGEs are computed for each operation, because there are too many buffers, or operations start at
/// any byte.
pub(super) fn makes_sges(w: &Resolved) -> bool {
    let any_byte = w.local_region.is_some() && w.addresses() == Addresses::AnyByte;
    any_byte || Buffers::local(w).count > KEPT
}

fn recv_length(w: &Resolved) -> u32 {
    w.longest_send() + if ud(w) { GRH_BYTES } else { 0 }
}

/// Sizes in bytes of the allocations of a thread of `machine`.
pub fn buffers(w: &Resolved, machine: u32, queues: &Queues) -> impl Iterator<Item = u64> {
    let own = if topology::requests(w, machine) { Buffers::local(w).bytes() } else { 0 };
    let exposed = if topology::responds(w, machine) { Buffers::remote(w).bytes() } else { 0 };
    let recvs = match queues.recv_depth {
        0 => 0,
        depth => u64::from(queues.qps) * Buffers::received(w, depth).bytes(),
    };
    [own, exposed, recvs].into_iter()
}

/// Name of the memory that peers read and write.
const BUFFERS: &str = "buffers";
/// Name of the counters for the atomics of peers.
const COUNTERS: &str = "counters";

/// Key under which a thread publishes its QP `k`.
fn qp_key(machine: u32, thread: u32, k: u32) -> String {
    format!("qp {machine}.{thread}.{k}")
}

fn memory_key(what: &str, machine: u32, thread: u32) -> String {
    format!("{what} {machine}.{thread}")
}

fn ready_key(machine: u32, thread: u32) -> String {
    format!("ready {machine}.{thread}")
}

impl<'a, P: Provider> Session<'a, P> {
    /// Creates all objects that do not depend on peers. QPs are in Init, so that RECVs can be posted.
    pub(super) fn open(worker: &'a Worker, provider: &'a P) -> Result<Session<'a, P>, ProgramError> {
        let w = &*worker.workload;
        let context = Context::open(provider, worker.device)?;
        let attr = context.query_device()?;
        let port = 1 + (worker.thread % worker.ports.clamp(1, attr.ports.into())) as u8;
        let pd = context.alloc_pd()?;
        let limits = QueueLimits { max_qp_wr: attr.max_qp_wr, max_cqe: attr.max_cqe };
        let queues = Queues::of(w, worker.machine, worker.number, limits);
        let requests = topology::requests(w, worker.machine);
        // No check here: the device itself refuses a size beyond its limit.
        let entries = |wanted: u64| u32::try_from(wanted.max(1)).unwrap_or(u32::MAX);
        let send_cqs = (0..queues.send_cqs).map(|_| context.create_cq(entries(queues.send_cqe)));
        let send_cqs: Vec<Cq<P>> = send_cqs.collect::<Result<_, _>>()?;
        let recv_cq = context.create_cq(entries(queues.recv_cqe))?;
        let cap = QpCap {
            max_send_sge: w.sges(),
            max_send_wr: if requests { w.window().operations() } else { 1 },
            max_recv_wr: queues.recv_depth.max(1),
            max_inline_data: if requests { w.longest_inline() } else { 0 },
            ..QpCap::default()
        };
        let max_inl_recv = if w.inline_recv { w.longest_send() } else { 0 };
        let init = QpInitAttr { max_inl_recv, ..QpInitAttr::new(w.transport, cap) };
        let access = ConnectAttr::default().access;
        let mut qps = Vec::with_capacity(queues.qps as usize);
        for k in 0..queues.qps as usize {
            let qp = pd.create_qp(&send_cqs[k % send_cqs.len()], &recv_cq, None, &init)?;
            qp.init(port, if ud(w) { AccessFlags::empty() } else { access }, QKEY)?;
            qps.push(qp);
        }
        let mut session = Session {
            worker,
            provider,
            attr,
            queues,
            port,
            pd,
            send_cqs,
            recv_cq,
            qps,
            recv_mr: None,
            send_mr: None,
            exposed: None,
            counters: None,
        };
        session.register(requests)?;
        session.introduce()?;
        Ok(session)
    }

    fn w(&self) -> &'a Resolved {
        &self.worker.workload
    }

    /// Number of RECVs to keep posted on each QP.
    pub(super) fn recv_depth(&self) -> u32 {
        self.queues.recv_depth
    }

    /// Memory that peers may read and write: the machine's shared buffer, or memory of this thread.
    fn exposed(&self, access: AccessFlags) -> Result<Mr<P>, ProgramError> {
        let len = Buffers::remote(self.w()).bytes();
        match self.worker.shared {
            Some(mem) => Ok(self.pd.reg_mr(mem, access)?),
            None if self.w().in_device_memory() => {
                Ok(self.pd.reg_mr(self.pd.context().alloc_dm(len)?, access)?)
            }
            None => self.registered(len, access),
        }
    }

    fn registered(&self, len: u64, access: AccessFlags) -> Result<Mr<P>, ProgramError> {
        let page = self.w().page_size();
        let mem = match self.worker.memory_near {
            None => self.provider.alloc(len, page)?,
            Some(core) => self.provider.alloc_near(core, len, page)?,
        };
        Ok(self.pd.reg_mr(mem, access)?)
    }

    fn register(&mut self, requests: bool) -> Result<(), ProgramError> {
        let w = self.w();
        if requests {
            self.send_mr = Some(self.registered(Buffers::local(w).bytes(), AccessFlags::LOCAL_WRITE)?);
        }
        if self.queues.recv_depth > 0 {
            let len = Buffers::received(w, self.recv_depth()).bytes() * self.qps.len() as u64;
            self.recv_mr = Some(self.registered(len, AccessFlags::LOCAL_WRITE)?);
        }
        let access = AccessFlags::LOCAL_WRITE | ConnectAttr::default().access;
        if let Some(mem) = self.worker.counters {
            self.counters = Some(self.pd.reg_mr(mem, access)?);
        }
        if topology::responds(w, self.worker.machine) && w.reaches_buffers() {
            self.exposed = Some(self.exposed(access)?);
        }
        Ok(())
    }

    /// The SGEs of all RECVs. Element `k * depth + i` is the SGE of RECV number `i` of QP `k`.
    pub(super) fn recv_sges(&self) -> Vec<Sge> {
        let Some(mr) = &self.recv_mr else { return Vec::new() };
        let w = self.w();
        let (buffers, depth) = (Buffers::received(w, self.recv_depth()), u64::from(self.recv_depth()));
        let sge = |k: u64, i: u64| mr.sge(buffers.at(k * buffers.count + i % buffers.count), recv_length(w));
        (0..self.qps.len() as u64)
            .flat_map(|k| (0..depth).map(move |i| (k, i)))
            .map(|(k, i)| sge(k, i))
            .collect()
    }

    /// Counts and latencies per operation kind.
    pub(super) fn tally(&self) -> &'a Tally {
        &self.worker.tally
    }

    /// For each SEND kind: the length that its RECV's completion reports, and the kind.
    pub(super) fn lengths(&self) -> Vec<(u32, usize)> {
        let header = if ud(self.w()) { GRH_BYTES } else { 0 };
        let operations = self.w().operations().iter().enumerate();
        let sends = operations.filter(|(_, operation)| operation.verb.consumes_recv());
        sends.map(|(kind, operation)| (operation.size + header, kind)).collect()
    }

    /// For each operation kind, the SGEs of all local buffers; empty if SGEs are computed for each operation.
    pub(super) fn send_sges(&self) -> Vec<Vec<Sge>> {
        let Some(mr) = self.send_mr.as_ref().filter(|_| !makes_sges(self.w())) else { return Vec::new() };
        let (w, buffers) = (self.w(), Buffers::local(self.w()));
        let of_kind = |operation: &Operation| {
            let pieces = (0..buffers.count).flat_map(|number| buffers.pieces(w, *operation, number));
            pieces.map(|(at, length)| mr.sge(at, length)).collect()
        };
        w.operations().iter().map(of_kind).collect()
    }

    /// Publishes the addresses of the QPs and the memory.
    fn introduce(&self) -> Result<(), ProgramError> {
        let (machine, thread) = (self.worker.machine, self.worker.thread);
        let nic = self.abilities()?;
        for (k, qp) in self.qps.iter().enumerate() {
            let introduction = Introduction { endpoint: qp.endpoint(self.port)?, nic };
            self.provider.publish(&qp_key(machine, thread, k as u32), &introduction.to_bytes());
        }
        let shared = [(&self.exposed, BUFFERS), (&self.counters, COUNTERS)];
        for (mr, what) in shared.into_iter().filter_map(|(mr, what)| Some((mr.as_ref()?, what))) {
            self.provider.publish(&memory_key(what, machine, thread), &mr.remote(0).to_bytes());
        }
        Ok(())
    }

    /// The limits of this thread's NIC.
    fn abilities(&self) -> Result<Abilities, ProgramError> {
        let mtu = self.pd.context().query_port(self.port)?.active_mtu;
        let able = self.attr.max_qp_init_rd_atom.min(self.attr.max_qp_rd_atom);
        let rd_atomic =
            self.w().max_rd_atomic.map_or(able, |asked| able.min(asked.min(u8::MAX.into()) as u8));
        Ok(Abilities { mtu, rd_atomic })
    }

    fn find_qp(&self, peer: Peer) -> Result<Introduction, ProgramError> {
        let found = self.provider.lookup(&qp_key(peer.machine, self.worker.thread, peer.qp));
        Ok(Introduction::from_bytes(&found)?)
    }

    fn find_memory(&self, what: &str, machine: u32) -> Result<RemoteAddr, ProgramError> {
        let key = memory_key(what, machine, self.worker.thread);
        Ok(RemoteAddr::from_bytes(&self.provider.lookup(&key))?)
    }

    fn find_remote(&self, machine: u32) -> Result<Remote, ProgramError> {
        let mut remote = Remote::default();
        if self.w().reaches_buffers() {
            remote.buffers = self.find_memory(BUFFERS, machine)?;
        }
        if self.w().counters.is_some() {
            remote.counters = self.find_memory(COUNTERS, machine)?;
        }
        Ok(remote)
    }

    /// Connects the QPs. Returns once every target is connected, too.
    pub(super) fn connect(&self) -> Result<Paths<P>, ProgramError> {
        let (machine, thread) = (self.worker.machine, self.worker.thread);
        let own = self.abilities()?;
        for (k, qp) in self.qps.iter().enumerate() {
            if ud(self.w()) {
                qp.activate_from_init(0)?;
            } else {
                let peer = topology::peer(self.w(), machine, self.worker.number, k as u32);
                let remote = self.find_qp(peer)?;
                qp.connect_from_init(self.port, &remote.endpoint, &own.together_with(remote.nic))?;
            }
        }
        self.provider.publish(&ready_key(machine, thread), &[]);
        let targets = topology::targets(self.w(), machine);
        for &target in &targets {
            self.provider.lookup(&ready_key(target, thread));
        }
        self.paths(&targets)
    }

    fn paths(&self, targets: &[u32]) -> Result<Paths<P>, ProgramError> {
        let sending = if ud(self.w()) { self.qps.len() } else { 0 };
        let mut paths = Paths { remotes: Vec::new(), dests: vec![Vec::new(); sending], _ahs: Vec::new() };
        for &machine in targets {
            paths.remotes.push(self.find_remote(machine)?);
            if ud(self.w()) {
                let ah =
                    Ah::to_endpoint(&self.pd, self.port, &self.find_qp(Peer { machine, qp: 0 })?.endpoint)?;
                for (qp, dests) in (0..).zip(&mut paths.dests) {
                    dests.push(ah.dest(self.find_qp(Peer { machine, qp })?.endpoint.qpn, QKEY));
                }
                paths._ahs.push(ah);
            }
        }
        Ok(paths)
    }
}
