//! The counts as numbers, for the JSON and the summary.

use super::posting::{Posting, least, mtu_on, with_mtu};
use super::workload::as_posted;
use crate::counts::process::ProcessCounts;
use crate::counts::qp::{PostedShape, QpCounts, RecvCounts};
use doorbell_abi::opcode_name;
use doorbell_nic::accounting::{self, Transactions};
use doorbell_nic::limits::Limit;
use doorbell_nic::{DriverSettings, Method, PostShape, Profile, RecvShape};
use doorbell_verbs::{GRH_BYTES, Opcode, QpType};
use doorbell_workload::Workload;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// A note about the values that depend on this device's timing, and would differ on a NIC.
pub(super) const TIMING: &str = "outstanding_mean, outstanding_max, rnr_naks, rnr_wait_ns, timeouts, \
                                 retries, the limits of class latency, and the workload's window and batch \
                                 depend on the timing of this device if the program posts in response to \
                                 completions; all other numbers depend on the program alone";
/// A note about the cost of the peers' one-sided verbs, which this process does not count.
pub(super) const NOT_COUNTED: &str = "the statistics of the peers contain the cost of their one-sided verbs \
                                      on this machine, in responder_pcie, because only the peers count these \
                                      verbs";

/// The statistics of a process.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    schema: u32,
    pub(super) pid: u32,
    pub(super) program: String,
    arguments: Vec<String>,
    pub(super) profile: String,
    pub(super) role: Role,
    notes: [&'static str; 2],
    pub(super) total: Counts,
    pub(super) qps: Vec<QpReport>,
    /// The analytic bounds of all posted work requests, the least first.
    pub(super) limits: Vec<Limit>,
    /// A workload for `doorbell simulate`; `None` if nothing was posted, or if no workload describes the
    /// posts.
    pub(super) workload: Option<Workload>,
    /// The share of all work requests that the workload covers.
    pub(super) workload_share: f64,
    /// The parts of the posts that the workload leaves out, or the reason why there is none; a sentence each.
    pub(super) left_out: Vec<String>,
}

#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(super) struct QpReport {
    pub(super) qp_num: u32,
    #[schemars(with = "String")]
    pub(super) transport: QpType,
    #[serde(flatten)]
    pub(super) counts: Counts,
    /// The least analytic bound of this QP's posts, if it were alone.
    pub(super) limit: Option<Limit>,
}

/// The role of a process towards its peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Role {
    /// It posts, and receives no message.
    Requester,
    /// It posts nothing to send. Peers access its memory, or send to it.
    Responder,
    /// It posts, and receives messages.
    RequesterAndResponder,
}

impl Role {
    fn of(total: &Counts) -> Role {
        match (total.work_requests > 0, total.messages_received > 0) {
            (true, false) => Role::Requester,
            (true, true) => Role::RequesterAndResponder,
            (false, _) => Role::Responder,
        }
    }

    /// The role as text.
    pub(super) fn name(self) -> &'static str {
        match self {
            Role::Requester => "requester",
            Role::Responder => "responder",
            Role::RequesterAndResponder => "requester and responder",
        }
    }
}

/// Counts of one QP or of all.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub(super) struct Counts {
    pub(super) verbs: BTreeMap<&'static str, u64>,
    pub(super) work_requests: u64,
    pub(super) payload_bytes: u64,
    /// Work requests by payload: up to 0, 1, 2, 4, 8 ... bytes.
    pub(super) sizes: BTreeMap<u32, u64>,
    pub(super) doorbells: u64,
    /// Doorbells by number of WQEs.
    pub(super) wqes_per_doorbell: BTreeMap<u32, u64>,
    pub(super) inlined: u64,
    pub(super) signaled: u64,
    pub(super) sges: u64,
    /// Work requests by number of SGEs.
    pub(super) sges_per_work_request: BTreeMap<u32, u64>,
    pub(super) outstanding_mean: f64,
    pub(super) outstanding_max: u64,
    pub(super) recvs: u64,
    pub(super) recv_doorbells: u64,
    pub(super) messages_received: u64,
    /// Messages of UC and UD that completed with success although no receiver took them.
    pub(super) undelivered: u64,
    /// These messages by cause.
    pub(super) undelivered_by_cause: BTreeMap<&'static str, u64>,
    /// RNR NAKs to messages of RC: the responder had no RECV.
    pub(super) rnr_naks: u64,
    /// Nanoseconds for which these NAKs stopped QPs, by the responders' `min_rnr_timer`.
    pub(super) rnr_wait_ns: u64,
    /// Time-outs after which a message of RC had no answer.
    pub(super) timeouts: u64,
    /// Messages of RC that were sent again after such a time-out.
    pub(super) retries: u64,
    /// Bytes of `path_mtu`, the least of all QPs; absent for QPs that are not connected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) path_mtu: Option<u32>,
    /// READs and atomics that a QP may have outstanding, the least of all QPs that posted any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_rd_atomic: Option<u32>,
    /// `max_dest_rd_atomic` of the peers of these QPs, the least; absent if no peer was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) peer_max_dest_rd_atomic: Option<u32>,
    /// Datagrams to multicast groups, among the work requests. The process of each member counts what it
    /// received.
    pub(super) multicast: u64,
    /// PCIe transactions that this NIC would have needed.
    pub(super) pcie: Transactions,
    /// PCIe transactions that the NICs of the responders would have needed, without RECVs.
    pub(super) responder_pcie: Transactions,
    #[serde(skip)]
    outstanding_sum: u64,
}

impl Report {
    /// The report of a process's counts. `name` is the profile's name or file as the user gave it.
    pub(crate) fn new(name: &str, profile: &Profile, counts: &ProcessCounts<'_>) -> Report {
        let all = &counts.qps()[..];
        let qps: Vec<QpReport> = all.iter().map(|qp| QpReport::new(profile, qp)).collect();
        let mut total = Counts::default();
        for qp in &qps {
            total.add_all(&qp.counts);
        }
        total.add_posted_recvs(profile, &counts.srq());
        // These are messages to SRQs of XRC. No QP of this process counts them, because their QPs may belong
        // to other processes.
        total.add_messages(profile, QpType::Rc, &counts.srq());
        let posting = Posting::of(all);
        let mut left_out = Vec::new();
        let (workload, of_workload) = match as_posted(name, profile, all, &mut left_out) {
            Some((workload, n)) => (Some(workload), n),
            None => (None, 0),
        };
        let mut command = counts.command().into_iter();
        Report {
            schema: 2,
            pid: counts.pid(),
            program: command.next().unwrap_or_default(),
            arguments: command.collect(),
            profile: profile.name.clone(),
            role: Role::of(&total),
            notes: [TIMING, NOT_COUNTED],
            limits: posting.limits(profile, all),
            workload_share: of_workload as f64 / total.work_requests.max(1) as f64,
            total,
            qps,
            workload,
            left_out,
        }
    }
}

impl QpReport {
    fn new(profile: &Profile, qp: &QpCounts) -> QpReport {
        let alone = std::slice::from_ref(qp);
        QpReport {
            qp_num: qp.qp_num,
            transport: qp.qp_type,
            counts: Counts::of(profile, qp),
            limit: Posting::of(alone).limits(profile, alone).into_iter().next(),
        }
    }
}

/// The least power of two that is not less than `bytes`; 0 for 0.
fn bucket(bytes: u32) -> u32 {
    if bytes == 0 { 0 } else { bytes.checked_next_power_of_two().unwrap_or(1 << 31) }
}

impl Counts {
    fn of(profile: &Profile, qp: &QpCounts) -> Counts {
        let profile = &*with_mtu(profile, mtu_on(profile, qp.path_mtu));
        let lists = qp.doorbells();
        let mut counts = Counts {
            doorbells: lists.values().sum(),
            wqes_per_doorbell: lists,
            outstanding_max: qp.outstanding_max,
            outstanding_sum: qp.outstanding_sum,
            undelivered: qp.undelivered,
            undelivered_by_cause: qp.drops.clone(),
            rnr_naks: qp.rnr_naks,
            rnr_wait_ns: qp.rnr_wait_ns,
            timeouts: qp.timeouts,
            retries: qp.retries,
            path_mtu: qp.path_mtu,
            max_rd_atomic: qp.max_rd_atomic,
            peer_max_dest_rd_atomic: qp.peer_rd_atomic,
            multicast: qp.multicast,
            ..Counts::default()
        };
        for ((shape, list), n) in qp.sends() {
            counts.add(&shape, n);
            counts.pcie += accounting::execute(profile, &post(profile, qp.qp_type, &shape, list)).times(n);
            counts.responder_pcie += arrival(profile, qp.qp_type, shape.opcode, shape.payload).times(n);
        }
        for ((shape, list), n) in transferred(qp) {
            // Requests of one shape in mixed lists are charged as if they filled lists of this length alone.
            let lists = n.div_ceil(u64::from(list.max(1)));
            counts.pcie +=
                accounting::transfer(profile, &post(profile, qp.qp_type, &shape, list)).times(lists);
        }
        counts.add_posted_recvs(profile, &qp.recvs);
        counts.add_messages(profile, qp.qp_type, &qp.recvs);
        counts.mean();
        counts
    }

    fn add(&mut self, shape: &PostedShape, n: u64) {
        *self.verbs.entry(opcode_name(shape.opcode)).or_default() += n;
        *self.sizes.entry(bucket(shape.payload)).or_default() += n;
        *self.sges_per_work_request.entry(shape.sges).or_default() += n;
        self.work_requests += n;
        self.payload_bytes += u64::from(shape.payload) * n;
        self.inlined += if shape.inline { n } else { 0 };
        self.signaled += if shape.signaled { n } else { 0 };
        self.sges += u64::from(shape.sges) * n;
    }

    fn add_posted_recvs(&mut self, profile: &Profile, counts: &RecvCounts) {
        for (recvs, sges, n) in counts.posts() {
            self.recvs += u64::from(recvs) * n;
            self.recv_doorbells += n;
            self.pcie += accounting::post_recv(profile, recvs, sges).times(n);
        }
    }

    fn add_messages(&mut self, profile: &Profile, qp_type: QpType, counts: &RecvCounts) {
        for (bytes, write, n) in counts.messages() {
            let payload = if qp_type == QpType::Ud { bytes.saturating_sub(GRH_BYTES) } else { bytes };
            let opcode = if write { Opcode::WriteWithImm } else { Opcode::Send };
            self.messages_received += n;
            self.pcie += arrival(profile, qp_type, opcode, payload).times(n);
        }
    }

    fn mean(&mut self) {
        self.outstanding_mean = self.outstanding_sum as f64 / self.work_requests.max(1) as f64;
    }

    pub(super) fn add_all(&mut self, other: &Counts) {
        fn merge<K: Ord + Copy>(all: &mut BTreeMap<K, u64>, more: &BTreeMap<K, u64>) {
            for (key, n) in more {
                *all.entry(*key).or_default() += n;
            }
        }
        merge(&mut self.verbs, &other.verbs);
        merge(&mut self.sizes, &other.sizes);
        merge(&mut self.wqes_per_doorbell, &other.wqes_per_doorbell);
        merge(&mut self.sges_per_work_request, &other.sges_per_work_request);
        self.work_requests += other.work_requests;
        self.payload_bytes += other.payload_bytes;
        self.doorbells += other.doorbells;
        self.inlined += other.inlined;
        self.signaled += other.signaled;
        self.sges += other.sges;
        self.outstanding_sum += other.outstanding_sum;
        self.outstanding_max = self.outstanding_max.max(other.outstanding_max);
        self.recvs += other.recvs;
        self.recv_doorbells += other.recv_doorbells;
        self.messages_received += other.messages_received;
        self.undelivered += other.undelivered;
        merge(&mut self.undelivered_by_cause, &other.undelivered_by_cause);
        self.rnr_naks += other.rnr_naks;
        self.rnr_wait_ns += other.rnr_wait_ns;
        self.timeouts += other.timeouts;
        self.retries += other.retries;
        self.path_mtu = least(self.path_mtu, other.path_mtu);
        self.max_rd_atomic = least(self.max_rd_atomic, other.max_rd_atomic);
        self.peer_max_dest_rd_atomic = least(self.peer_max_dest_rd_atomic, other.peer_max_dest_rd_atomic);
        self.multicast += other.multicast;
        self.pcie += other.pcie;
        self.responder_pcie += other.responder_pcie;
        self.mean();
    }
}

/// PCIe transactions of a message at the responder.
fn arrival(profile: &Profile, qp_type: QpType, opcode: Opcode, payload: u32) -> Transactions {
    accounting::responder(profile, opcode, qp_type, payload, RecvShape { inline: false })
}

/// Work requests by shape and length of their list, for the cost of their transfer to the NIC. This cost does
/// not depend on `signaled`, so signalled and unsignalled requests count together.
fn transferred(qp: &QpCounts) -> BTreeMap<(PostedShape, u32), u64> {
    let mut all = BTreeMap::new();
    for ((shape, list), n) in qp.sends() {
        *all.entry((PostedShape { signaled: false, ..shape }, list)).or_default() += n;
    }
    all
}

/// The shape of a list of equal work requests.
fn post(profile: &Profile, qp_type: QpType, shape: &PostedShape, list: u32) -> PostShape {
    PostShape {
        opcode: shape.opcode,
        qp_type,
        payload: shape.payload,
        sges: shape.sges.max(u32::from(shape.payload > 0)),
        inline: shape.inline,
        signaled: shape.signaled,
        method: Method::WqeByMmio,
    }
    .announced(&profile.device.posting_rule(&DriverSettings::default()), list, true)
}

#[cfg(test)]
mod tests {
    use super::super::posts::{POSTS, QpPosts, counts_of};
    use super::*;

    #[test]
    fn each_qp_has_packets_of_its_own_mtu() {
        let cib = Profile::named("cib").expect("it is built in");
        let read = QpPosts { bytes: 4096, ..POSTS };
        let datagrams = QpPosts { qp_type: QpType::Ud, ..read };
        let all = counts_of(&[QpPosts { path_mtu: Some(256), ..read }, read, datagrams]);
        let [short, long, ud] = &all[..] else { panic!("{all:?}") };
        let of_reads = |mtu| arrival(&with_mtu(&cib, mtu), QpType::Rc, Opcode::Read, 4096).times(20);
        assert_eq!(Counts::of(&cib, short).responder_pcie, of_reads(256));
        assert_eq!(Counts::of(&cib, long).responder_pcie, of_reads(4096));
        assert_ne!(Counts::of(&cib, short).pcie, Counts::of(&cib, long).pcie);
        // A bound of several QPs holds for the longest packets.
        let limits = |qps: &[&QpCounts]| {
            let qps: Vec<QpCounts> = qps.iter().map(|qp| (*qp).clone()).collect();
            serde_json::to_value(Posting::of(&qps).limits(&cib, &qps)).expect("it is JSON")
        };
        assert_eq!(limits(&[short, ud]), limits(&[long, ud]));
        assert_ne!(limits(&[short]), limits(&[long]));
    }
}
