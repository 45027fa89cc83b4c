//! The micro-benchmarks of ATC'16, section 5, that several tables and figures share.

use super::runs::briefly;
use crate::workload::{Pattern, Verb, Workload};
use doorbell_nic::Profile;

/// Work requests per Doorbell where the paper says "batched" (5.2.1).
pub(super) const BATCH: u32 = 16;

/// A payload with which a UD SEND's WQE takes two lines, as the paper's do.
pub(super) const UD_PAYLOAD: u32 = 60;

/// Machines of inbound tests: more than enough to keep one of them busy.
pub(super) const FEW: u32 = 4;

/// Clusters, best NIC last.
pub(super) const CLUSTERS: [&str; 3] = ["cx", "cx3", "cib"];

/// Microseconds measured where a rate is all that counts.
pub(super) const BRIEF: u64 = 300;

/// As many threads as the host has cores, up to eight: enough for every rate here.
fn threads(profile: &Profile) -> u32 {
    profile.host.cores.min(8)
}

/// UD SENDs from one machine: as many QPs as keep all sending units busy, two batches on each.
pub(super) fn outbound_send(profile: &Profile, batch: u32, size: u32) -> Workload {
    let workload = Workload {
        verb: Some(Verb::Send),
        pattern: Some(Pattern::Outbound),
        batch: Some(batch),
        threads: Some(threads(profile)),
        qps: Some(2),
        window: Some(2 * BATCH),
        size: Some(size),
        header_only: Some(size == 0),
        ..Workload::default()
    };
    briefly(BRIEF, workload)
}

/// UD SENDs to one machine that posts RECVs in batches of 16.
pub(super) fn inbound_send(size: u32, inline_recv: bool) -> Workload {
    let workload = Workload {
        verb: Some(Verb::Send),
        pattern: Some(Pattern::Inbound),
        machines: Some(FEW),
        batch: Some(1),
        size: Some(size),
        header_only: Some(size == 0),
        inline_recv: Some(inline_recv),
        ..Workload::default()
    };
    briefly(BRIEF, workload)
}

/// READs (RC) or WRITEs (UC) of one machine's memory by several others.
pub(super) fn inbound(verb: Verb, size: u32) -> Workload {
    let workload = Workload {
        verb: Some(verb),
        pattern: Some(Pattern::Inbound),
        size: Some(size),
        machines: Some(FEW),
        ..Workload::default()
    };
    briefly(BRIEF, workload)
}

/// Fetch-and-adds on random ones of `counters` words `stride` bytes apart.
pub(super) fn atomics(counters: u32, stride: u32) -> Workload {
    let workload = Workload {
        verb: Some(Verb::FetchAdd),
        counters: Some(counters),
        counter_stride: Some(stride),
        machines: Some(FEW),
        ..Workload::default()
    };
    // Few counters are slow: a count of few operations would be coarse.
    briefly(if counters < 16 { 2000 } else { BRIEF }, workload)
}

/// UD SENDs of 60 bytes from one core over `qps` QPs (Figure 11b).
pub(super) fn one_core_send(batch: u32, qps: u32) -> Workload {
    let workload = Workload {
        verb: Some(Verb::Send),
        pattern: Some(Pattern::Outbound),
        batch: Some(batch),
        threads: Some(1),
        qps: Some(qps),
        size: Some(UD_PAYLOAD),
        ..Workload::default()
    };
    briefly(BRIEF, workload)
}
