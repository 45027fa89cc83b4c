//! What a process posted, as a workload that `doorbell simulate` takes.

use super::posting::Posting;
use crate::counts::qp::{QpCounts, Shape};
use doorbell_nic::Profile;
use doorbell_schema::Duration;
use doorbell_verbs::{Opcode, QpType, Span};
use doorbell_workload::{Pattern, Verb, Workload};
use std::collections::BTreeMap;

/// Virtual time that is measured at least.
const MEASURED_US: u64 = 1000;
/// Messages that the measured time has room for at least.
const MEASURED_MESSAGES: u64 = 32;

/// What the work requests of a workload have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    verb: Verb,
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

/// The workload that is most like what was posted: the most frequent kind of work request (of
/// several, the one with the least payload), posted as those of its kind were on average; and how
/// many they were. `None` where nothing was posted. `name` is what the profile was asked for as.
pub(super) fn most_like(
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
    Some((like(name, profile, &kind, &posted, posting), posted.work_requests))
}

fn like(name: &str, profile: &Profile, kind: &Kind, posted: &Posted, posting: &Posting) -> Workload {
    let most = profile.nic.max_qp_wr.clamp(1, 1024);
    let batch = ((posted.work_requests as f64 / posted.doorbells).round() as u32).clamp(1, most);
    let signal_every = (posted.work_requests / posted.signaled.max(1)).clamp(1, u64::from(most)) as u32;
    // A completion that covers several work requests covers those of one QP.
    let per_qp = signal_every > 1;
    let depth = if per_qp { posting.of_qp } else { posting.of_thread };
    let least = if per_qp { 2 * signal_every + batch } else { batch };
    let window = depth.max(least).min(profile.nic.max_qp_wr.max(least));
    let message_ns = u64::from(kind.size) * 1_000_000_000 / profile.link.port_bytes_per_s.max(1);
    let messages = MEASURED_MESSAGES.max(2 * u64::from(window));
    let duration = MEASURED_US.max(message_ns * messages / 1000);
    Workload {
        profile: Some(name.to_owned()),
        verb: Some(kind.verb),
        transport: Some(kind.transport),
        size: Some(kind.size),
        machines: Some(posting.machines),
        threads: Some(posting.threads.min(profile.host.cores)),
        qps: Some(posting.qps),
        window: (!per_qp).then_some(window),
        window_per_qp: per_qp.then_some(window),
        batch: Some(batch),
        signal_every: Some(signal_every),
        inline: Some(kind.inline),
        header_only: Some(kind.header_only),
        pattern: Some(Pattern::Outbound),
        warmup: Some(Duration::new(Span::from_us(duration / 5))),
        duration: Some(Duration::new(Span::from_us(duration))),
        ..Workload::default()
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

/// The verb of a workload that an opcode is of.
fn verb(opcode: Opcode) -> Verb {
    match opcode {
        Opcode::Send | Opcode::SendWithImm => Verb::Send,
        Opcode::Write | Opcode::WriteWithImm => Verb::Write,
        Opcode::Read => Verb::Read,
        Opcode::FetchAdd => Verb::FetchAdd,
        Opcode::CompareSwap => Verb::CompareSwap,
    }
}
