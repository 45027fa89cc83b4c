//! Changes of the rate that the layout of operations explains. A step of an option may add a line to a WQE, a
//! packet to a message or a TLP to a DMA. Payload may no longer fit inline, or a QP may reach its limit of
//! outstanding READs. Also computes the rate that remains if more QP contexts are in use than a NIC holds.

use doorbell_lab::{Operation, Pattern, Profiles, Resolved, Window, limits};
use doorbell_nic::cost::Costs;
use doorbell_nic::{PostShape, Profile, RecvShape, Resource, accounting};
use doorbell_verbs::QpType;
use doorbell_workload::topology;
use std::collections::BTreeMap;

/// The layout of an operation as counts of lines, packets and transactions, without bytes.
#[derive(Debug, PartialEq, Eq)]
struct Layout {
    inline: bool,
    wqe_lines: u32,
    packets: usize,
    answers: usize,
    /// For requester and responder: DMA reads, DMA writes, TLPs towards the NIC, TLPs towards the host.
    pcie: [[u64; 4]; 2],
    /// Whether a QP reaches its limit of outstanding READs and atomics.
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

/// Outstanding operations of a QP, if all QPs of the thread have equally many.
fn of_a_qp(w: &Resolved) -> u32 {
    match w.window() {
        Window::PerQp(window) => window,
        Window::PerThread(window) => window.div_ceil(w.qps),
    }
}

/// The lowest bound of each resource.
fn bounds(profiles: &Profiles, w: &Resolved) -> BTreeMap<Resource, f64> {
    let mut least = BTreeMap::new();
    for limit in limits(profiles, w) {
        // The lowest bounds come first.
        least.entry(limit.resource).or_insert(limit.mops);
    }
    least
}

/// Smallest and largest factor by which layout may change the rate between two workloads. Both are 1 if the
/// layouts are equal. Otherwise they are the changes of resource bounds.
pub(crate) fn derives(profiles: &Profiles, from: &Resolved, to: &Resolved) -> (f64, f64) {
    let profile = profiles.first();
    if Layout::of(profile, from) == Layout::of(profile, to) {
        return (1.0, 1.0);
    }
    let before = bounds(profiles, from);
    let ratios = bounds(profiles, to).into_iter().filter_map(|(r, mops)| Some(mops / before.get(&r)?));
    ratios.fold((1.0, 1.0), |(least, most), ratio| (least.min(ratio), most.max(ratio)))
}

/// Number of QP contexts that the busiest machine uses.
pub(crate) fn contexts(w: &Resolved) -> u32 {
    let connected = w.transport != QpType::Ud;
    let flows = if connected && w.pattern == Pattern::Inbound { w.machines - 1 } else { 1 };
    let of = |machine| topology::usable(w, machine, 0).len() as u32;
    flows * w.threads * (0..w.machines).map(of).max().unwrap()
}

/// Nanoseconds per context read of a NIC. Concurrent reads divide the time of one read.
pub(crate) fn context_read_ns(profile: &Profile) -> f64 {
    let at_a_time = profile.device.caches.context_reads.min(profile.device.tx.units);
    Costs::new(profile).send.context_stall as f64 / 1e3 / f64::from(at_a_time)
}

/// Share of lookups that miss, if `used` QPs are used in turn, and a cache of `entries` entries evicts at
/// random. A lookup hits if none of the `used` x `share` insertions since the last use has evicted its entry.
fn missing(used: f64, entries: f64) -> f64 {
    if used <= entries {
        return 0.0;
    }
    (0..200).fold(1.0, |share: f64, _| 1.0 - (-used / entries * share).exp())
}

/// Context reads per operation, if `used` QPs are used in turn with a cache of `entries` entries. One read of
/// a context serves all `waiting` operations that wait at its QP. If the context is cached, no operation
/// waits.
fn reads(used: f64, entries: f64, waiting: u32) -> f64 {
    let missing = missing(used, entries);
    missing / (missing * f64::from(waiting) + 1.0 - missing)
}

/// Microseconds of context reads per operation of all machines, if QPs are used in turn.
fn reads_us(profile: &Profile, w: &Resolved) -> f64 {
    let entries = profile.device.caches.requester_entries.min(profile.device.caches.responder_entries);
    let operation = w.operations()[0];
    let packets = profile.message(operation.opcode, w.transport, operation.size).requests().count() as f64;
    // With all-to-all, a machine posts as many operations as are posted to it.
    let share = if w.pattern == Pattern::AllToAll { 2.0 / f64::from(w.machines) } else { 1.0 };
    // If the window of a thread equals its number of QPs, at most one operation waits at a sending QP. If it
    // is larger by one, two operations may wait. A responder gets messages of all QPs in the order of
    // arrival, so only one waits at a QP.
    let waiting = if w.pattern == Pattern::Outbound { of_a_qp(w) } else { 1 };
    share * packets * reads(contexts(w).into(), entries.into(), waiting) * context_read_ns(profile) / 1e3
}

/// The rate that remains if more lookups of contexts miss, because units stand still while contexts are read.
/// On a NIC that reads contexts one by one, little remains beyond the capacity of its cache. Only a lower
/// rate is a flaw.
pub(crate) fn left_by_contexts(profile: &Profile, from: &Resolved, to: &Resolved, mops: f64) -> f64 {
    let more = (reads_us(profile, to) - reads_us(profile, from)).max(0.0);
    1.0 / (1.0 / mops + more)
}
