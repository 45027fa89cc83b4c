//! What layout derives: by how much a step may change the rate because a WQE takes a line more, a message a packet more, a
//! DMA a TLP more, because payload goes inline no longer, or a QP has as many READs under way as it can; and what is left
//! where more QP contexts are in use than a NIC has room for.

use doorbell_lab::{Operation, Pattern, Profiles, Resolved, Window, limits};
use doorbell_nic::cost::Costs;
use doorbell_nic::{PostShape, Profile, RecvShape, Resource, accounting};
use doorbell_verbs::QpType;
use doorbell_workload::topology;
use std::collections::BTreeMap;

/// What an operation is made of, in whole numbers: all but its bytes.
#[derive(Debug, PartialEq, Eq)]
struct Layout {
    inline: bool,
    wqe_lines: u32,
    packets: usize,
    answers: usize,
    /// Of requester and responder: DMA reads, DMA writes, TLPs towards the NIC and towards the host.
    pcie: [[u64; 4]; 2],
    /// A QP has as many READs and atomics under way as it can.
    is_full: bool,
}

impl Layout {
    fn of(profile: &Profile, w: &Resolved) -> Layout {
        let operation = w.operations()[0];
        let Operation { opcode, size, inline, sges, .. } = operation;
        let message = profile.message(opcode, w.transport, size);
        let method = profile.device.generation.posting().method(w.batch);
        let post =
            PostShape { opcode, qp_type: w.transport, payload: size, sges, inline, signaled: true, method };
        let recv = RecvShape { inline: w.inline_recv };
        let ends = [
            accounting::requester(profile, &post),
            accounting::responder(profile, opcode, w.transport, size, recv),
        ];
        Layout {
            inline,
            wqe_lines: post.wqe_lines(profile.device.generation),
            packets: message.requests().count(),
            answers: message.answers().count(),
            pcie: ends.map(|t| [t.dma_reads, t.dma_writes, t.host_to_device_tlps, t.device_to_host_tlps]),
            is_full: opcode.returns_data() && of_a_qp(w) >= profile.device.nic.max_rd_atomic,
        }
    }
}

/// Operations that a QP has outstanding, where the thread's QPs have as many each.
fn of_a_qp(w: &Resolved) -> u32 {
    match w.window() {
        Window::PerQp(window) => window,
        Window::PerThread(window) => window.div_ceil(w.qps),
    }
}

/// The least bound by each resource.
fn bounds(profiles: &Profiles, w: &Resolved) -> BTreeMap<Resource, f64> {
    let mut least = BTreeMap::new();
    for limit in limits(profiles, w) {
        // The least come first.
        least.entry(limit.resource).or_insert(limit.mops);
    }
    least
}

/// By which factors at least and at most the rate may change from one workload to the next by what layout derives: those by
/// which the bounds of resources do, where the layouts differ, and 1 where they do not.
pub(crate) fn derives(profiles: &Profiles, from: &Resolved, to: &Resolved) -> (f64, f64) {
    let profile = profiles.first();
    if Layout::of(profile, from) == Layout::of(profile, to) {
        return (1.0, 1.0);
    }
    let before = bounds(profiles, from);
    let ratios = bounds(profiles, to).into_iter().filter_map(|(r, mops)| Some(mops / before.get(&r)?));
    ratios.fold((1.0, 1.0), |(least, most), ratio| (least.min(ratio), most.max(ratio)))
}

/// QP contexts that the busiest machine uses.
pub(crate) fn contexts(w: &Resolved) -> u32 {
    let connected = w.transport != QpType::Ud;
    let flows = if connected && w.pattern == Pattern::Inbound { w.machines - 1 } else { 1 };
    let of = |machine| topology::usable(w, machine, 0).len() as u32;
    flows * w.threads * (0..w.machines).map(of).max().unwrap()
}

/// Nanoseconds that a context read takes a NIC, of those that it can have at a time.
pub(crate) fn context_read_ns(profile: &Profile) -> f64 {
    let at_a_time = profile.device.caches.context_reads.min(profile.device.tx.units);
    Costs::new(profile).send.context_stall as f64 / 1e3 / f64::from(at_a_time)
}

/// The share of look-ups that miss, of as many users as `used` that take turns with `entries`, of which one is drawn that
/// makes room: of the `used` x `share` that came since, none took the place of one that is found.
fn missing(used: f64, entries: f64) -> f64 {
    if used <= entries {
        return 0.0;
    }
    (0..200).fold(1.0, |share: f64, _| 1.0 - (-used / entries * share).exp())
}

/// Reads of contexts for an operation, of as many QPs as `used` that take turns with `entries`. What waits at a QP for its
/// context needs it read once; where it is there, nothing waits.
fn reads(used: f64, entries: f64, waiting: u32) -> f64 {
    let missing = missing(used, entries);
    missing / (missing * f64::from(waiting) + 1.0 - missing)
}

/// Microseconds that the reads of missing contexts take for an operation of all machines, of which QPs take turns.
fn reads_us(profile: &Profile, w: &Resolved) -> f64 {
    let entries = profile.device.caches.requester_entries.min(profile.device.caches.responder_entries);
    let operation = w.operations()[0];
    let packets = profile.message(operation.opcode, w.transport, operation.size).requests().count() as f64;
    // All to all a machine posts as many as it is posted.
    let share = if w.pattern == Pattern::AllToAll { 2.0 / f64::from(w.machines) } else { 1.0 };
    // Of a window of one more than a thread has QPs two operations wait at a QP that sends, of one of as many no more than
    // one. A machine that only answers has messages of all QPs in the order in which they came.
    let waiting = if w.pattern == Pattern::Outbound { of_a_qp(w) } else { 1 };
    share * packets * reads(contexts(w).into(), entries.into(), waiting) * context_read_ns(profile) / 1e3
}

/// What is left of a rate where more contexts are missing: units stand still for as long as these are read. A NIC that reads
/// one at a time has little left soon after the last that fits; what is refused is to have still less.
pub(crate) fn left_by_contexts(profile: &Profile, from: &Resolved, to: &Resolved, mops: f64) -> f64 {
    let more = (reads_us(profile, to) - reads_us(profile, from)).max(0.0);
    1.0 / (1.0 / mops + more)
}
