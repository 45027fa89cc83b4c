//! The micro-benchmarks of ATC'16, section 5, which several tables and figures share.

use crate::experiment::Ctx;
use crate::experiment::briefly;
use doorbell_lab::NotYet;
use doorbell_lab::Outcome;
use doorbell_nic::Profile;
use doorbell_workload::{Pattern, Verb, Workload};
use std::sync::Arc;

/// Work requests per Doorbell where the paper says "batched" (5.2.1).
pub(super) const BATCH: u32 = 16;

/// Payload with which a UD SEND's WQE takes two lines, as in the paper.
pub(super) const UD_PAYLOAD: u32 = 60;

/// Number of machines in inbound tests. It is more than enough to keep one machine busy.
pub(super) const FEW: u32 = 4;

/// Clusters. The last one has the best NIC.
pub(super) const CLUSTERS: [&str; 3] = ["cx", "cx3", "cib"];

/// Microseconds of measurement for rates. Slower NICs are measured for longer, so that the operations of a
/// window have little weight.
fn brief(profile: &Profile) -> u64 {
    match profile.device.link.port_bytes_per_s * u64::from(profile.device.link.ports) {
        0..5_000_000_000 => 1200,
        5_000_000_000..10_000_000_000 => 600,
        _ => 300,
    }
}

/// Number of threads: one per core, but at most eight. Eight suffice for every rate here.
fn threads(profile: &Profile) -> u32 {
    profile.host.cores.min(8)
}

/// Whether payload is copied into WQEs: if it fits. `None` if the requests carry no payload.
fn inline(profile: &Profile, verb: Verb, size: u32) -> Option<bool> {
    (verb.carries_payload() && size > 0).then_some(size <= profile.device.nic.max_inline)
}

/// Alternative workloads of UD SENDs from one machine. The fastest counts. The paper states peak rates, but
/// not the number of QPs and work requests. Single SENDs come from all cores. Lists are posted on as many QPs
/// as there are sending units, or on one QP per thread if there are fewer units. Each QP has two or four
/// outstanding lists. With two, units may wait for lists. With four, the NIC may be unable to hold all WQEs.
pub(super) fn outbound_sends(profile: &Profile, batch: u32, size: u32) -> Vec<Workload> {
    let threads = if batch == 1 { profile.host.cores } else { threads(profile) };
    let with_window = |window| {
        let workload = Workload {
            verb: Some(Verb::Send),
            pattern: Some(Pattern::Outbound),
            batch: Some(batch),
            threads: Some(threads),
            qps: Some((profile.device.tx.units / threads).max(1)),
            window_per_qp: Some(window),
            size: Some(size),
            header_only: Some(size == 0),
            inline: inline(profile, Verb::Send, size),
            ..Workload::default()
        };
        briefly(brief(profile), workload)
    };
    let windows: &[u32] = if batch == 1 { &[2 * BATCH] } else { &[2 * BATCH, 4 * BATCH] };
    windows.iter().copied().map(with_window).collect()
}

/// The fastest of several alternative workloads on a cluster.
pub(super) fn fastest(
    ctx: &Ctx<'_>,
    cluster: &str,
    what: &str,
    ways: &[Workload],
) -> Result<(Workload, Arc<Outcome>), NotYet> {
    let outcomes = ctx.measure(cluster, what, ways)?;
    let best = ways.iter().zip(outcomes).max_by(|(_, a), (_, b)| a.mops.total_cmp(&b.mops));
    Ok(best.map(|(way, outcome)| (way.clone(), outcome)).expect("there is a way"))
}

/// UD SENDs to one machine that posts RECVs in batches of 16.
pub(super) fn inbound_send(profile: &Profile, size: u32, inline_recv: bool) -> Workload {
    let workload = Workload {
        verb: Some(Verb::Send),
        pattern: Some(Pattern::Inbound),
        machines: Some(FEW),
        threads: Some(threads(profile)),
        // Enough QPs to keep all receiving units busy.
        qps: Some(2),
        batch: Some(1),
        size: Some(size),
        header_only: Some(size == 0),
        inline: inline(profile, Verb::Send, size),
        inline_recv: Some(inline_recv),
        ..Workload::default()
    };
    briefly(brief(profile), workload)
}

/// READs (RC) or WRITEs (UC) of one machine's memory by several others.
pub(super) fn inbound(profile: &Profile, verb: Verb, size: u32) -> Workload {
    let workload = Workload {
        verb: Some(verb),
        pattern: Some(Pattern::Inbound),
        size: Some(size),
        machines: Some(FEW),
        threads: Some(threads(profile)),
        qps: Some(2),
        inline: inline(profile, verb, size),
        ..Workload::default()
    };
    briefly(brief(profile), workload)
}

/// Fetch-and-adds on random words among `counters` words that are `stride` bytes apart.
pub(crate) fn atomics(profile: &Profile, counters: u32, stride: u32) -> Workload {
    let workload = Workload {
        verb: Some(Verb::FetchAdd),
        counters: Some(counters),
        counter_stride: Some(stride),
        machines: Some(FEW),
        threads: Some(threads(profile)),
        qps: Some(2),
        ..Workload::default()
    };
    // Operations on few counters are slow, so a short run would count too few for a precise rate.
    briefly(if counters < 16 { 2000 } else { brief(profile) }, workload)
}

/// UD SENDs of 60 bytes from one core over `qps` QPs (Figure 11b).
pub(super) fn one_core_send(profile: &Profile, batch: u32, qps: u32) -> Workload {
    let workload = Workload {
        verb: Some(Verb::Send),
        pattern: Some(Pattern::Outbound),
        batch: Some(batch),
        threads: Some(1),
        qps: Some(qps),
        size: Some(UD_PAYLOAD),
        inline: inline(profile, Verb::Send, UD_PAYLOAD),
        ..Workload::default()
    };
    briefly(brief(profile), workload)
}
