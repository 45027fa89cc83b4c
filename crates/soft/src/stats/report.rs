//! What was counted, in words and numbers.

use super::count::{QpCounts, Shape};
use doorbell_nic::accounting::{self, Transactions};
use doorbell_nic::limits::{self, Limit, Mix, Pattern};
use doorbell_nic::{Method, PostShape, Profile, RecvShape};
use doorbell_verbs::{Opcode, QpType};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::fmt;

/// What depends on the time that this device takes, and would be otherwise on the NIC.
const TIMING: &str = "outstanding_mean, outstanding_max and the workload's window and batch follow from when this \
                      device completes work requests, as far as the program posts when it sees completions; all \
                      other numbers are of what the program asked for";
/// What is not counted here.
const NOT_COUNTED: &str = "what one-sided verbs of peers cost this machine is not in its pcie, as only they count them; \
                           RECVs posted to an SRQ are not counted";

/// The statistics of a process.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    schema: u32,
    pid: u32,
    program: String,
    profile: String,
    notes: [&'static str; 2],
    total: Counts,
    qps: Vec<QpReport>,
    /// Every analytic bound of the workload, the least first.
    limits: Vec<Limit>,
    /// For `doorbell simulate`.
    workload: Workload,
}

#[derive(Clone, Debug, Serialize)]
struct QpReport {
    qp_num: u32,
    transport: QpType,
    #[serde(flatten)]
    counts: Counts,
}

/// Counts of a QP or of all.
#[derive(Clone, Debug, Default, Serialize)]
struct Counts {
    verbs: BTreeMap<String, u64>,
    work_requests: u64,
    payload_bytes: u64,
    /// Work requests by payload: up to 0, 1, 2, 4, 8 ... bytes.
    sizes: BTreeMap<u32, u64>,
    doorbells: u64,
    /// Doorbells by WQEs.
    wqes_per_doorbell: BTreeMap<u32, u64>,
    inlined: u64,
    signaled: u64,
    sges: u64,
    outstanding_mean: f64,
    outstanding_max: u64,
    recvs: u64,
    recv_doorbells: u64,
    messages_received: u64,
    pcie: Transactions,
    #[serde(skip)]
    outstanding_sum: u64,
}

/// The keys that `doorbell simulate` knows.
#[derive(Clone, Debug, Serialize)]
struct Workload {
    profile: String,
    verb: &'static str,
    transport: QpType,
    size: u32,
    machines: u32,
    threads: u32,
    qps: u32,
    window: u32,
    batch: u32,
    signal_every: u32,
    inline: bool,
    pattern: &'static str,
}

impl Report {
    /// The report of a process whose QPs have these counts. `name` is what the profile was asked
    /// for as.
    pub(crate) fn new(name: &str, profile: &Profile, all: &[QpCounts]) -> Report {
        let settled: Vec<QpCounts> = all
            .iter()
            .cloned()
            .map(|mut qp| {
                qp.settle();
                qp
            })
            .collect();
        let qps: Vec<QpReport> = settled
            .iter()
            .map(|qp| QpReport { qp_num: qp.qp_num, transport: qp.qp_type, counts: Counts::of(profile, qp) })
            .collect();
        let total = Counts::sum(qps.iter().map(|qp| &qp.counts));
        let workload = Workload::of(name, profile, &settled, &total);
        let program = std::env::current_exe().map(|p| p.display().to_string()).unwrap_or_default();
        Report {
            schema: 1,
            pid: std::process::id(),
            program,
            profile: profile.name.clone(),
            notes: [TIMING, NOT_COUNTED],
            total,
            qps,
            limits: limits::limits(profile, &workload.mix()),
            workload,
        }
    }
}

/// The least power of two that is not less; 0 for 0.
fn bucket(bytes: u32) -> u32 {
    bytes.checked_next_power_of_two().filter(|_| bytes > 0).unwrap_or(if bytes == 0 { 0 } else { 1 << 31 })
}

/// Name of a verb as verbs.h's, without prefix.
fn name(opcode: Opcode) -> &'static str {
    match opcode {
        Opcode::Send => "SEND",
        Opcode::SendWithImm => "SEND_WITH_IMM",
        Opcode::Write => "RDMA_WRITE",
        Opcode::WriteWithImm => "RDMA_WRITE_WITH_IMM",
        Opcode::Read => "RDMA_READ",
        Opcode::CompareSwap => "ATOMIC_CMP_AND_SWP",
        Opcode::FetchAdd => "ATOMIC_FETCH_AND_ADD",
    }
}

impl Counts {
    fn of(profile: &Profile, qp: &QpCounts) -> Counts {
        let mut counts = Counts {
            wqes_per_doorbell: qp.doorbells.clone(),
            doorbells: qp.doorbells.values().sum(),
            outstanding_max: qp.outstanding_max,
            outstanding_sum: qp.outstanding_sum,
            ..Counts::default()
        };
        for (&(shape, list), &n) in &qp.sends {
            counts.add(&shape, n);
            counts.pcie += accounting::execute(profile, &post(qp.qp_type, &shape, list)).times(n);
        }
        for ((shape, list), n) in transferred(qp) {
            // A list of several shapes costs each its share of what a list of it alone would cost.
            let lists = n.div_ceil(u64::from(list.max(1)));
            counts.pcie += accounting::transfer(profile, &post(qp.qp_type, &shape, list)).times(lists);
        }
        for (&(recvs, sges), &n) in &qp.recvs.posts {
            counts.recvs += u64::from(recvs) * n;
            counts.recv_doorbells += n;
            counts.pcie += accounting::post_recv(profile, recvs, sges).times(n);
        }
        for (&(payload, write), &n) in &qp.recvs.messages {
            let opcode = if write { Opcode::WriteWithImm } else { Opcode::Send };
            let recv = RecvShape { inline: false };
            counts.messages_received += n;
            counts.pcie += accounting::responder(profile, opcode, qp.qp_type, payload, recv).times(n);
        }
        counts.mean();
        counts
    }

    fn add(&mut self, shape: &Shape, n: u64) {
        *self.verbs.entry(name(shape.opcode).to_owned()).or_default() += n;
        *self.sizes.entry(bucket(shape.payload)).or_default() += n;
        self.work_requests += n;
        self.payload_bytes += u64::from(shape.payload) * n;
        self.inlined += if shape.inline { n } else { 0 };
        self.signaled += if shape.signaled { n } else { 0 };
        self.sges += u64::from(shape.sges) * n;
    }

    fn mean(&mut self) {
        self.outstanding_mean = self.outstanding_sum as f64 / self.work_requests.max(1) as f64;
    }

    fn sum<'a>(all: impl Iterator<Item = &'a Counts>) -> Counts {
        let mut sum = Counts::default();
        for one in all {
            for (verb, n) in &one.verbs {
                *sum.verbs.entry(verb.clone()).or_default() += n;
            }
            for (size, n) in &one.sizes {
                *sum.sizes.entry(*size).or_default() += n;
            }
            for (wqes, n) in &one.wqes_per_doorbell {
                *sum.wqes_per_doorbell.entry(*wqes).or_default() += n;
            }
            sum.work_requests += one.work_requests;
            sum.payload_bytes += one.payload_bytes;
            sum.doorbells += one.doorbells;
            sum.inlined += one.inlined;
            sum.signaled += one.signaled;
            sum.sges += one.sges;
            sum.outstanding_sum += one.outstanding_sum;
            sum.outstanding_max = sum.outstanding_max.max(one.outstanding_max);
            sum.recvs += one.recvs;
            sum.recv_doorbells += one.recv_doorbells;
            sum.messages_received += one.messages_received;
            sum.pcie += one.pcie;
        }
        sum.mean();
        sum
    }
}

/// Work requests by shape and length of their list, as far as their way to the NIC depends on it:
/// whether they ask for a completion does not matter.
fn transferred(qp: &QpCounts) -> HashMap<(Shape, u32), u64> {
    let mut all = HashMap::new();
    for (&(shape, list), &n) in &qp.sends {
        *all.entry((Shape { signaled: false, ..shape }, list)).or_default() += n;
    }
    all
}

/// A list of like work requests.
fn post(qp_type: QpType, shape: &Shape, list: u32) -> PostShape {
    PostShape {
        opcode: shape.opcode,
        qp_type,
        payload: shape.payload,
        sges: shape.sges.max(u32::from(shape.payload > 0)),
        inline: shape.inline,
        signaled: shape.signaled,
        method: Method::of_list(list),
    }
}

impl Workload {
    /// The workload that is most like what was posted: the most frequent kind of work request,
    /// posted as all were on average.
    fn of(name: &str, profile: &Profile, all: &[QpCounts], total: &Counts) -> Workload {
        let mut kinds: BTreeMap<(&str, &str, u32, bool), (u64, QpType)> = BTreeMap::new();
        for qp in all {
            for (&(shape, _), &n) in &qp.sends {
                let transport = match qp.qp_type {
                    QpType::Rc => "rc",
                    QpType::Uc => "uc",
                    QpType::Ud => "ud",
                };
                let inline = shape.inline && shape.payload <= profile.nic.max_inline;
                let kind = (verb(shape.opcode), transport, shape.payload, inline);
                kinds.entry(kind).or_insert((0, qp.qp_type)).0 += n;
            }
        }
        let most = kinds.iter().max_by_key(|(_, (n, _))| *n);
        let (&(verb, _, size, inline), &(_, transport)) =
            most.unwrap_or((&("send", "rc", 0, false), &(0, QpType::Rc)));
        let posting: Vec<&QpCounts> = all.iter().filter(|qp| !qp.sends.is_empty()).collect();
        let distinct = |numbers: fn(&QpCounts) -> &Vec<u32>| {
            let mut all: Vec<u32> = posting.iter().flat_map(|qp| numbers(qp)).copied().collect();
            all.sort_unstable();
            all.dedup();
            all.len() as u32
        };
        let threads = distinct(|qp| &qp.threads).clamp(1, profile.host.cores);
        let batch = (total.work_requests / total.doorbells.max(1)).clamp(1, 1024) as u32;
        let signal_every = (total.work_requests / total.signaled.max(1)).clamp(1, 1024) as u32;
        let depth = (total.outstanding_mean.round() as u32).max(1);
        let least = if signal_every > 1 { 2 * signal_every + batch } else { batch };
        let limit = profile.nic.max_qp_wr.max(1);
        Workload {
            profile: name.to_owned(),
            verb,
            transport,
            size,
            machines: distinct(|qp| &qp.peers).clamp(1, 255) + 1,
            threads,
            qps: (posting.len() as u32).div_ceil(threads).max(1),
            window: depth.max(least).min(limit),
            batch,
            signal_every,
            inline,
            pattern: "outbound",
        }
    }

    fn mix(&self) -> Mix {
        let opcode = match self.verb {
            "write" => Opcode::Write,
            "read" => Opcode::Read,
            "fetch-add" => Opcode::FetchAdd,
            "compare-swap" => Opcode::CompareSwap,
            _ => Opcode::Send,
        };
        Mix {
            opcode,
            qp_type: self.transport,
            payload: self.size,
            inline: self.inline,
            batch: self.batch,
            signal_every: self.signal_every,
            window: self.window,
            pattern: Pattern::Outbound,
            machines: self.machines,
            threads: self.threads,
            qps: self.qps,
            counters: 1,
            inline_recv: false,
            recv_batch: self.batch,
        }
    }
}

/// Name of a verb as `doorbell simulate` has it.
fn verb(opcode: Opcode) -> &'static str {
    match opcode {
        Opcode::Send | Opcode::SendWithImm => "send",
        Opcode::Write | Opcode::WriteWithImm => "write",
        Opcode::Read => "read",
        Opcode::FetchAdd => "fetch-add",
        Opcode::CompareSwap => "compare-swap",
    }
}

fn percent(part: u64, of: u64) -> f64 {
    100.0 * part as f64 / of.max(1) as f64
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = &self.total;
        let each = |n: u64| n as f64 / t.work_requests.max(1) as f64;
        writeln!(f, "\ndoorbell: {} (process {}) on profile {}", self.program, self.pid, self.profile)?;
        let verbs: Vec<String> = t.verbs.iter().map(|(verb, n)| format!("{n} {verb}")).collect();
        writeln!(
            f,
            "  posted      {} on {} QPs, {} bytes",
            verbs.join(", "),
            self.qps.len(),
            t.payload_bytes
        )?;
        writeln!(
            f,
            "  doorbells   {}: {:.2} WQEs each; {:.0}% inlined, {:.0}% signalled, {:.2} SGEs a work request",
            t.doorbells,
            t.work_requests as f64 / t.doorbells.max(1) as f64,
            percent(t.inlined, t.work_requests),
            percent(t.signaled, t.work_requests),
            each(t.sges),
        )?;
        writeln!(f, "  outstanding {:.1} on average, {} at most", t.outstanding_mean, t.outstanding_max)?;
        writeln!(
            f,
            "  received    {} messages, {} RECVs in {} posts",
            t.messages_received, t.recvs, t.recv_doorbells
        )?;
        let p = &t.pcie;
        writeln!(
            f,
            "  PCIe        MMIO {} writes, {} bytes; DMA reads {}, {} bytes; DMA writes {}, {} bytes",
            p.mmio_writes, p.mmio_bytes, p.dma_reads, p.dma_read_bytes, p.dma_writes, p.dma_write_bytes,
        )?;
        if let Some(limit) = self.limits.first() {
            writeln!(f, "  limit       {:.1} Mops: {}", limit.mops, limit.text)?;
        }
        writeln!(f, "  note        {TIMING}\n              {NOT_COUNTED}")
    }
}
