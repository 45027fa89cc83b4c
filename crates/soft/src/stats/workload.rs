//! What a process posted, as a workload that `doorbell simulate` takes.

use super::count::{QpCounts, Shape};
use super::report::Posting;
use doorbell_nic::Profile;
use doorbell_verbs::{Opcode, QpType};
use serde::Serialize;
use std::collections::BTreeMap;

/// Virtual time that is measured at least.
const MEASURED_US: u64 = 1000;
/// Messages that the measured time has room for at least.
const MEASURED_MESSAGES: u64 = 32;

/// The keys that `doorbell simulate` knows.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Workload {
    pub(super) profile: String,
    pub(super) verb: &'static str,
    pub(super) transport: QpType,
    pub(super) size: u32,
    machines: u32,
    pub(super) threads: u32,
    pub(super) qps: u32,
    pub(super) window: u32,
    pub(super) batch: u32,
    pub(super) signal_every: u32,
    pub(super) inline: bool,
    header_only: bool,
    pattern: &'static str,
    warmup: String,
    duration: String,
}

/// What the work requests of a workload have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    verb: &'static str,
    transport: QpType,
    size: u32,
    inline: bool,
    header_only: bool,
}

/// How often a kind was posted.
#[derive(Clone, Copy, Debug, Default)]
struct Posted {
    work_requests: u64,
    signaled: u64,
    /// Sum over the lists of their share in this kind.
    doorbells: f64,
}

impl Workload {
    /// The workload that is most like what was posted: the most frequent kind of work request (of
    /// several, the one with the least payload), posted as those of its kind were on average; and how
    /// many they were. `None` where nothing was posted. `name` is what the profile was asked for as.
    pub(super) fn of(
        name: &str,
        profile: &Profile,
        all: &[QpCounts],
        posting: &Posting,
    ) -> Option<(Workload, u64)> {
        let mut kinds: BTreeMap<Kind, Posted> = BTreeMap::new();
        for qp in all {
            for ((shape, list), n) in qp.sends() {
                let posted = kinds.entry(Kind::of(profile, qp.qp_type, &shape)).or_default();
                posted.work_requests += n;
                posted.signaled += if shape.signaled { n } else { 0 };
                posted.doorbells += n as f64 / f64::from(list.max(1));
            }
        }
        let (kind, posted) = kinds
            .into_iter()
            .max_by_key(|(kind, posted)| (posted.work_requests, std::cmp::Reverse(kind.size)))?;
        Some((Workload::like(name, profile, &kind, &posted, posting), posted.work_requests))
    }

    fn like(name: &str, profile: &Profile, kind: &Kind, posted: &Posted, posting: &Posting) -> Workload {
        let most = profile.nic.max_qp_wr.clamp(1, 1024);
        let batch = ((posted.work_requests as f64 / posted.doorbells).round() as u32).clamp(1, most);
        let signal_every = (posted.work_requests / posted.signaled.max(1)).clamp(1, u64::from(most)) as u32;
        // As `doorbell simulate` has it: of a QP where not each is signalled.
        let depth = if signal_every > 1 { posting.of_qp } else { posting.of_thread };
        let least = if signal_every > 1 { 2 * signal_every + batch } else { batch };
        let window = depth.max(least).min(profile.nic.max_qp_wr.max(least));
        let message_ns = u64::from(kind.size) * 1_000_000_000 / profile.link.port_bytes_per_s.max(1);
        let messages = MEASURED_MESSAGES.max(2 * u64::from(window));
        let duration = MEASURED_US.max(message_ns * messages / 1000);
        Workload {
            profile: name.to_owned(),
            verb: kind.verb,
            transport: kind.transport,
            size: kind.size,
            machines: posting.machines,
            threads: posting.threads.min(profile.host.cores),
            qps: posting.qps,
            window,
            batch,
            signal_every,
            inline: kind.inline,
            header_only: kind.header_only,
            pattern: "outbound",
            warmup: format!("{}us", duration / 5),
            duration: format!("{duration}us"),
        }
    }
}

impl Kind {
    fn of(profile: &Profile, qp_type: QpType, shape: &Shape) -> Kind {
        let size = shape.payload;
        let carries_payload = !shape.opcode.returns_data() && size > 0;
        Kind {
            verb: verb(shape.opcode),
            transport: qp_type,
            size,
            inline: shape.inline && carries_payload && size <= profile.nic.max_inline,
            header_only: shape.opcode == Opcode::SendWithImm && size == 0,
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
