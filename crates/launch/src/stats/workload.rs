//! The posts of a process as a workload for `doorbell simulate`.

use super::posting::Posting;
use crate::counts::qp::{PostedShape, QpCounts};
use doorbell_nic::Profile;
use doorbell_nic::limits::gcd;
use doorbell_verbs::{Opcode, QpType};
use doorbell_workload::{Item, Mix, Pattern, Verb, Workload};
use std::collections::{BTreeMap, BTreeSet};

/// The most items of a mix.
const MOST_ITEMS: usize = 64;

/// A kind of work requests: verb and payload size in bytes. An item of a mix has no other properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PostedKind {
    verb: Verb,
    size: u32,
}

/// Counts of a kind of work requests.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Posted {
    work_requests: u64,
    signaled: u64,
    inlined: u64,
    /// Doorbells. Each work request of a list of n counts as 1/n doorbells.
    doorbells: f64,
    /// SENDs that carry only an immediate.
    header_only: u64,
    /// Work requests whose payload is in memory, and their SGEs.
    in_memory: u64,
    sges: u64,
}

impl Posted {
    pub(super) fn work_requests(&self) -> u64 {
        self.work_requests
    }

    fn add(&mut self, other: &Posted) {
        self.work_requests += other.work_requests;
        self.signaled += other.signaled;
        self.inlined += other.inlined;
        self.doorbells += other.doorbells;
        self.header_only += other.header_only;
        self.in_memory += other.in_memory;
        self.sges += other.sges;
    }

    fn all<'a>(some: impl Iterator<Item = &'a Posted>) -> Posted {
        some.fold(Posted::default(), |mut all, one| {
            all.add(one);
            all
        })
    }
}

/// The posts over one transport, by kind.
pub(super) type Kinds = BTreeMap<PostedKind, Posted>;

/// The number of work requests that a QP posted.
pub(super) fn posted_of(qp: &QpCounts) -> u64 {
    qp.sends().values().sum()
}

/// The posts of some QPs of one transport, by kind.
pub(super) fn kinds_of<'q>(qps: impl IntoIterator<Item = &'q QpCounts>) -> Kinds {
    let mut kinds = Kinds::new();
    for qp in qps {
        for ((shape, list), n) in qp.sends() {
            kinds.entry(PostedKind::of(&shape)).or_default().add(&Posted {
                work_requests: n,
                signaled: if shape.signaled { n } else { 0 },
                inlined: if shape.inline { n } else { 0 },
                doorbells: n as f64 / f64::from(list.max(1)),
                in_memory: if shape.is_in_memory() { n } else { 0 },
                sges: if shape.is_in_memory() { n * u64::from(shape.sges) } else { 0 },
                header_only: if shape.opcode == Opcode::SendWithImm && shape.payload == 0 { n } else { 0 },
            });
        }
    }
    kinds
}

/// Describes the posts over the busiest transport by a workload. Also returns the number of these posts. The
/// workload has one kind of work requests or a mix. Its `batch` is an average. `None` if nothing was posted.
/// `name` is the profile's name or file as the user gave it.
pub(super) fn as_posted(name: &str, profile: &Profile, all: &[QpCounts]) -> Option<(Workload, u64)> {
    let over = |transport: QpType| -> Vec<QpCounts> {
        all.iter().filter(|qp| qp.qp_type == transport).cloned().collect()
    };
    let posted = |qps: &Vec<QpCounts>| qps.iter().map(posted_of).sum::<u64>();
    let transports: BTreeSet<QpType> = all.iter().map(|qp| qp.qp_type).collect();
    let qps = transports.into_iter().map(over).max_by_key(posted)?;
    let n = posted(&qps);
    (n > 0).then(|| (workload(name, profile, &[&qps], &Posting::of(&qps)), n))
}

/// The usual distance from one signalled work request of a QP to the next. This is the distance of most work
/// requests, or the mean distance if no distance is that frequent.
fn signal_distance<'q>(qps: impl Iterator<Item = &'q QpCounts>, all: &Posted) -> u64 {
    // The work requests that each distance covers.
    let mut distances = BTreeMap::from([(1, all.signaled)]);
    for (distance, times) in qps.flat_map(|qp| &qp.signal_gaps) {
        *distances.entry(*distance).or_default() += distance * times;
        // The program may still be counting, so the numbers need not fit together.
        distances.entry(1).and_modify(|singles| *singles = singles.saturating_sub(*times));
    }
    let usual = distances.into_iter().find(|(_, covered)| 2 * covered >= all.work_requests);
    usual.map_or(all.work_requests / all.signaled.max(1), |(distance, _)| distance)
}

/// Merges kinds until a mix can hold them. For this, it rounds sizes up to powers of 2, then of 4, then of
/// 16, and so on.
pub(super) fn few(mut kinds: Kinds) -> Kinds {
    let mut bits = 1;
    while kinds.len() > MOST_ITEMS {
        let mut joined = Kinds::new();
        for (PostedKind { verb, size }, posted) in &kinds {
            joined.entry(PostedKind { verb: *verb, size: up(*size, bits) }).or_default().add(posted);
        }
        kinds = joined;
        bits *= 2;
    }
    kinds
}

/// The least power of 2^`bits` that is not less than `size`, but at most 2^31. 0 for 0.
fn up(size: u32, bits: u32) -> u32 {
    if size == 0 {
        return 0;
    }
    let exponent =
        size.checked_next_power_of_two().unwrap_or(1 << 31).trailing_zeros().next_multiple_of(bits);
    1u32.checked_shl(exponent).unwrap_or(1 << 31)
}

/// The workload of the QPs of some processes, which have one transport. `posting` describes how they post.
pub(super) fn workload(name: &str, profile: &Profile, all: &[&[QpCounts]], posting: &Posting) -> Workload {
    let qps = || all.iter().copied().flatten();
    let kinds = &few(kinds_of(qps()));
    let all = Posted::all(kinds.values());
    let most = profile.device.nic.max_qp_wr.clamp(1, 1024);
    let batch = ((all.work_requests as f64 / all.doorbells).round() as u32).clamp(1, most);
    let signal_every = signal_distance(qps(), &all).clamp(1, u64::from(most)) as u32;
    // A completion covers only requests of its own QP. So with unsignalled requests, the window is per QP.
    // With several QPs, too, because the depth was counted for each QP.
    let per_qp = signal_every > 1 || posting.qps > 1;
    let depth = if per_qp { posting.of_qp } else { posting.of_thread };
    // Before the completion of a signalled request, as many others may be outstanding.
    let least = signal_every - 1 + batch;
    let window = depth.max(least).min(profile.device.nic.max_qp_wr.max(least));
    let transport = qps().next().map(|qp| qp.qp_type);
    // A datagram has one packet of any length.
    let shorter_mtu = posting.shorter_mtu(profile).filter(|_| transport != Some(QpType::Ud));
    let number = |bytes: u32| bytes.to_string().parse().expect("it is a number");
    let sends = || kinds.iter().filter(|(kind, _)| kind.verb == Verb::Send);
    let header_only =
        all.header_only > 0 && sends().all(|(_, posted)| posted.header_only == posted.work_requests);
    let of_one = Workload {
        profile: Some(name.to_owned()),
        set: shorter_mtu.map(|bytes| BTreeMap::from([("link.mtu_bytes".to_owned(), number(bytes))])),
        transport,
        machines: Some(posting.machines),
        threads: Some(posting.threads.min(profile.host.cores)),
        qps: Some(posting.qps),
        window: (!per_qp).then_some(window),
        window_per_qp: per_qp.then_some(window),
        max_rd_atomic: posting
            .rd_atomic
            .filter(|_| kinds.keys().any(PostedKind::returns_data))
            .map(|most| most.clamp(1, profile.device.nic.max_rd_atomic)),
        cq_per_qp: (posting.has_own_cqs && posting.qps > 1).then_some(true),
        sges: gathered(profile, kinds, &all),
        batch: Some(batch),
        signal_every: Some(signal_every),
        inline: Some(all.inlined > 0),
        header_only: Some(header_only),
        pattern: Some(Pattern::Outbound),
        ..Workload::default()
    };
    let longest_inline = kinds.iter().filter(|(_, posted)| 2 * posted.inlined > posted.work_requests);
    let longest_inline =
        longest_inline.map(|(kind, _)| kind.size).max().unwrap_or(0).min(profile.device.nic.max_inline);
    match kinds.iter().next() {
        Some((kind, _)) if kinds.len() == 1 => Workload {
            verb: Some(kind.verb),
            size: Some(kind.size),
            inline: Some(longest_inline > 0 && longest_inline == kind.size),
            ..of_one
        },
        _ => Workload {
            mix: Some(mix(kinds)),
            inline: Some(longest_inline > 0),
            inline_up_to: (longest_inline > 0).then_some(longest_inline),
            ..of_one
        },
    }
}

/// The SGEs of each work request, if there are several, and a workload can express them.
fn gathered(profile: &Profile, kinds: &Kinds, all: &Posted) -> Option<u32> {
    let sges = u32::try_from(all.sges.checked_div(all.in_memory)?).ok()?;
    let payloads = kinds.keys().filter(|kind| !kind.verb.is_atomic()).map(|kind| kind.size);
    let shortest = payloads.filter(|size| *size > 0).min().unwrap_or(1);
    let is_known = sges > 1 && u64::from(sges) * all.in_memory == all.sges && all.inlined == 0;
    (is_known && sges <= shortest.min(profile.device.nic.max_sge)).then_some(sges)
}

/// A mix with weights in proportion to the posts. Large counts are scaled down to 26 bits, and no weight is
/// 0.
fn mix(kinds: &Kinds) -> Mix {
    let most = kinds.values().map(|posted| posted.work_requests).max().unwrap_or(1);
    let shift = (u64::BITS - most.leading_zeros()).saturating_sub(u32::BITS - 6);
    let scaled = |posted: &Posted| (posted.work_requests >> shift).max(1);
    let common = kinds.values().map(scaled).fold(0, gcd);
    let item = |(kind, posted): (&PostedKind, &Posted)| Item {
        verb: kind.verb,
        size: Some(kind.size),
        weight: (scaled(posted) / common) as u32,
    };
    Mix::of(kinds.iter().map(item).collect())
}

impl PostedKind {
    fn of(shape: &PostedShape) -> PostedKind {
        PostedKind { verb: verb(shape.opcode), size: shape.payload }
    }

    fn returns_data(&self) -> bool {
        !self.verb.carries_payload()
    }

    /// The kind with its size rounded up to a power of two; a size of 0 stays 0.
    pub(super) fn rounded(self) -> PostedKind {
        PostedKind { size: up(self.size, 1), ..self }
    }
}

/// The workload verb for an opcode.
fn verb(opcode: Opcode) -> Verb {
    match opcode {
        Opcode::Send | Opcode::SendWithImm => Verb::Send,
        Opcode::Write | Opcode::WriteWithImm => Verb::Write,
        Opcode::Read => Verb::Read,
        Opcode::FetchAdd => Verb::FetchAdd,
        Opcode::CompareSwap => Verb::CompareSwap,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(all: &[(Verb, u32, u64)]) -> Kinds {
        let posted = |n| Posted { work_requests: n, doorbells: n as f64, signaled: n, ..Posted::default() };
        all.iter().map(|(verb, size, n)| (PostedKind { verb: *verb, size: *size }, posted(*n))).collect()
    }

    #[test]
    fn weights_are_as_small_as_they_can_be() {
        let of = |all: &[_]| mix(&kinds(all)).to_string();
        assert_eq!(of(&[(Verb::Read, 64, 950), (Verb::Write, 8, 50)]), "write/8:1,read/64:19");
        assert_eq!(of(&[(Verb::Read, 64, 1), (Verb::Write, 8, u64::MAX)]), "write/8:67108863,read/64:1");
    }

    #[test]
    fn a_mix_has_no_more_kinds_than_it_may() {
        for most in [64, 65, 1000, 100_000] {
            let all: Vec<_> = (0..most).map(|size| (Verb::Write, size, 1)).collect();
            let few = few(kinds(&all));
            assert!(few.len() <= MOST_ITEMS, "{most}: {}", few.len());
            assert_eq!(Posted::all(few.values()).work_requests, u64::from(most));
            assert!(few.keys().all(|kind| kind.size < 2 * most), "{most}");
        }
        assert_eq!([0, 1, 2, 3, 5, 1000].map(|size| up(size, 1)), [0, 1, 2, 4, 8, 1024]);
        assert_eq!([0, 1, 2, 3, 5, 1000].map(|size| up(size, 2)), [0, 1, 4, 4, 16, 1024]);
        assert_eq!(up(u32::MAX, 1), 1 << 31);
    }
}
