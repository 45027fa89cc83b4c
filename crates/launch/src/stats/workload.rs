//! The posts of a process as a workload for `doorbell simulate`.

use super::posting::Posting;
use crate::counts::qp::{PostedShape, QpCounts};
use doorbell_nic::limits::gcd;
use doorbell_nic::{Profile, counted};
use doorbell_verbs::{Opcode, QpType};
use doorbell_workload::{Item, Mix, Pattern, Profiles, Verb, Window, Workload};
use std::collections::{BTreeMap, BTreeSet};

/// The most items of a mix.
const MOST_ITEMS: usize = 64;

/// The parameter of a profile that a shorter `path_mtu` replaces.
pub(super) const MTU: &str = "link.mtu_bytes";

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
    /// The fewest and the most SGEs of a work request whose payload is in memory.
    sges: Option<(u32, u32)>,
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
        let both = self.sges.into_iter().chain(other.sges);
        self.sges = both.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
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
                sges: shape.is_in_memory().then_some((shape.sges, shape.sges)),
                header_only: if shape.opcode == Opcode::SendWithImm && shape.payload == 0 { n } else { 0 },
            });
        }
    }
    kinds
}

/// Describes the posts over the busiest transport by a workload. Also returns the number of these posts. The
/// workload has one kind of work requests or a mix. Its `batch` is an average. `None` if nothing was posted,
/// or if no workload describes the posts. `name` is the profile's name or file as the user gave it.
/// `left_out` gets the parts that the workload leaves out, or the reason why there is none.
pub(super) fn as_posted(
    name: &str,
    profile: &Profile,
    all: &[QpCounts],
    left_out: &mut Vec<String>,
) -> Option<(Workload, u64)> {
    let mut transports: BTreeMap<QpType, Vec<QpCounts>> = BTreeMap::new();
    for qp in all.iter().filter(|qp| posted_of(qp) > 0) {
        transports.entry(qp.qp_type).or_default().push(qp.clone());
    }
    let posted = |qps: &Vec<QpCounts>| qps.iter().map(posted_of).sum::<u64>();
    let transport = transports.iter().max_by_key(|(_, qps)| posted(qps)).map(|(transport, _)| *transport)?;
    let qps = transports.remove(&transport)?;
    for (other, qps) in &transports {
        let n = counted(posted(qps), "work request");
        left_out.push(format!("{n} over {other}: the process posted more over {transport}"));
    }
    let posting = Posting::of(&qps);
    let made = match check_threads(profile, posting.threads) {
        Ok(()) => {
            let workload = workload(name, profile, &[&qps], &posting, left_out);
            check(profile, &workload).map(|()| workload)
        }
        Err(why) => Err(why),
    };
    match made {
        Ok(workload) => Some((workload, posted(&qps))),
        Err(why) => {
            *left_out = vec![format!("everything: {why}")];
            None
        }
    }
}

/// # Errors
/// A sentence if a machine has too few cores for these threads.
pub(super) fn check_threads(profile: &Profile, threads: u32) -> Result<(), String> {
    let cores = profile.host.cores;
    match threads <= cores {
        true => Ok(()),
        false => Err(format!(
            "{} post, but a machine of {} has {cores} cores",
            counted(threads.into(), "thread"),
            profile.name
        )),
    }
}

/// Checks that a workload can be simulated.
///
/// # Errors
/// A sentence with the reason.
pub(super) fn check(profile: &Profile, workload: &Workload) -> Result<(), String> {
    let resolved = workload.resolve(&Profiles::from(profile));
    resolved.map(drop).map_err(|error| format!("the workload would not be valid: {error}"))
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

/// The only value of all. `None` if there is none, or if the values differ. In the latter case, `left_out`
/// says what the workload has instead. `whose` has these values.
fn only(
    (name, whose): (&str, &str),
    values: &BTreeSet<u32>,
    instead: &str,
    left_out: &mut Vec<String>,
) -> Option<u32> {
    let (least, most) = (*values.first()?, *values.last()?);
    if least != most {
        left_out.push(format!("{name}: {whose} have different values, from {least} to {most}; {instead}"));
    }
    (least == most).then_some(least)
}

/// A value of the program, or the most that a workload may have. `left_out` says if they differ.
fn at_most(most: u32, (name, value): (&str, u64), left_out: &mut Vec<String>) -> u32 {
    let used = value.clamp(1, most.into());
    if used < value {
        left_out.push(format!("{name}: the program has {value}; the workload has {used}, its highest value"));
    }
    used as u32
}

/// The workload of the QPs of some processes, which have one transport. `posting` describes how they post.
/// `left_out` gets the parts that the workload leaves out.
pub(super) fn workload(
    name: &str,
    profile: &Profile,
    all: &[&[QpCounts]],
    posting: &Posting,
    left_out: &mut Vec<String>,
) -> Workload {
    let qps = || all.iter().copied().flatten();
    let kinds = &few(kinds_of(qps()));
    let all = Posted::all(kinds.values());
    let nic = &profile.device.nic;
    let most = nic.max_qp_wr.clamp(1, 1024);
    let batch = (all.work_requests as f64 / all.doorbells).round() as u64;
    let batch = at_most(most, ("batch", batch), left_out);
    let signal_every = at_most(most, ("signal_every", signal_distance(qps(), &all)), left_out);
    // A completion covers only requests of its own QP. So with unsignalled requests, the window is per QP.
    // With several QPs, too, because the depth was counted for each QP.
    let per_qp = signal_every > 1 || posting.qps > 1;
    let depth = if per_qp { Window::PerQp(posting.of_qp()) } else { Window::PerThread(posting.of_thread()) };
    let window = window(profile, depth, (signal_every, batch), left_out);
    if posting.all_qps != posting.equal_qps() {
        left_out.push(format!(
            "QPs: the threads post on {} in total; the workload has {}, equally many for each thread",
            posting.all_qps,
            posting.equal_qps()
        ));
    }
    let own_cqs = posting.has_own_cqs() && posting.qps > 1;
    if !posting.has_own_cqs() && posting.send_cqs != posting.posters * posting.threads {
        left_out.push(format!(
            "CQs: the sends of {} QPs have {}; the workload has one for each thread",
            posting.all_qps, posting.send_cqs
        ));
    }
    let mtu =
        only(("path_mtu", "the QPs"), &posting.mtus(profile), "the workload has the profile's MTU", left_out);
    let shorter_mtu = mtu.filter(|mtu| *mtu < profile.device.link.mtu);
    let rd_atomic = only(
        ("max_rd_atomic", "the QPs"),
        &posting.rd_atomic,
        "the workload has the highest value of the profile",
        left_out,
    );
    let number = |bytes: u32| bytes.to_string().parse().expect("it is a number");
    let sends = || kinds.iter().filter(|(kind, _)| kind.verb == Verb::Send);
    let header_only =
        all.header_only > 0 && sends().all(|(_, posted)| posted.header_only == posted.work_requests);
    let of_one = Workload {
        profile: Some(name.to_owned()),
        set: shorter_mtu.map(|bytes| BTreeMap::from([(MTU.to_owned(), number(bytes))])),
        transport: qps().next().map(|qp| qp.qp_type),
        machines: Some(posting.machines),
        threads: Some(posting.threads),
        qps: Some(posting.qps),
        window: (!per_qp).then_some(window),
        window_per_qp: per_qp.then_some(window),
        max_rd_atomic: rd_atomic
            .filter(|_| kinds.keys().any(PostedKind::returns_data))
            .map(|most| at_most(nic.max_rd_atomic, ("max_rd_atomic", most.into()), left_out)),
        cq_per_qp: own_cqs.then_some(true),
        sges: gathered(profile, kinds, &all, left_out),
        batch: Some(batch),
        signal_every: Some(signal_every),
        inline: Some(all.inlined > 0),
        header_only: Some(header_only),
        pattern: Some(Pattern::Outbound),
        ..Workload::default()
    };
    let longest_inline = kinds.iter().filter(|(_, posted)| 2 * posted.inlined > posted.work_requests);
    let longest_inline = longest_inline.map(|(kind, _)| kind.size).max().unwrap_or(0).min(nic.max_inline);
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

/// The window of a workload whose program waits at this mean depth. Averages of unlike lists need not fit
/// together, so the window may have to be larger than the depth.
fn window(
    profile: &Profile,
    depth: Window,
    (signal_every, batch): (u32, u32),
    left_out: &mut Vec<String>,
) -> u32 {
    let (waits_at, most) = (depth.operations(), profile.device.nic.max_qp_wr);
    // With a window of a thread, each request is signalled, so the number of its QPs does not matter.
    let least = depth.least(signal_every, batch, 1) as u32;
    let used = waits_at.max(least).min(most.max(least));
    if used != waits_at {
        let why = match used > waits_at {
            true => format!("which lists of {batch} with a signal every {signal_every} need on average"),
            false => format!("the most of a queue of {}", profile.name),
        };
        left_out.push(format!("window: the program waits at {waits_at}; the workload has {used}, {why}"));
    }
    used
}

/// The SGEs of each work request, if there are several, and a workload can express them.
fn gathered(profile: &Profile, kinds: &Kinds, all: &Posted, left_out: &mut Vec<String>) -> Option<u32> {
    let (fewest, sges) = all.sges.filter(|(_, most)| *most > 1)?;
    let payloads = kinds.keys().filter(|kind| !kind.verb.is_atomic()).map(|kind| kind.size);
    let shortest = payloads.filter(|size| *size > 0).min().unwrap_or(1);
    let why = if fewest != sges {
        format!("the work requests have from {fewest} to {sges}")
    } else if all.inlined > 0 {
        format!("some work requests have {sges}, others are inline")
    } else if sges > shortest.min(profile.device.nic.max_sge) {
        format!("the work requests have {sges}, which the NIC or the shortest payload does not allow")
    } else {
        return Some(sges);
    };
    left_out.push(format!("SGEs: {why}; the workload has one for each work request"));
    None
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
    use super::super::posts::{POSTS, QpPosts, counts_of};
    use super::*;

    fn kinds(all: &[(Verb, u32, u64)]) -> Kinds {
        let posted = |n| Posted { work_requests: n, doorbells: n as f64, signaled: n, ..Posted::default() };
        all.iter().map(|(verb, size, n)| (PostedKind { verb: *verb, size: *size }, posted(*n))).collect()
    }

    fn described(all: &[QpPosts]) -> (Option<Workload>, Vec<String>) {
        let (cib, mut left_out) = (Profile::named("cib").expect("it is built in"), Vec::new());
        let made = as_posted("cib", &cib, &counts_of(all), &mut left_out);
        (made.map(|(workload, _)| workload), left_out)
    }

    #[test]
    fn a_window_of_one_list_is_not_raised() {
        for (list, depth) in [(64, 64), (64, 128), (1, 16), (3, 6)] {
            let (made, left_out) = described(&[QpPosts { list, depth, ..POSTS }]);
            let made = made.unwrap_or_else(|| panic!("{left_out:?}"));
            assert_eq!((made.batch, made.signal_every), (Some(list), Some(list)));
            assert_eq!(made.window.or(made.window_per_qp), Some(depth), "{list}");
            assert_eq!(left_out, [""; 0]);
        }
    }

    #[test]
    fn a_raised_window_is_told() {
        let single = QpPosts { lists: 10, ..POSTS };
        let (made, left_out) =
            described(&[single, single, single, QpPosts { list: 4, depth: 4, lists: 100, ..POSTS }]);
        assert_eq!(made.expect("there is a workload").window_per_qp, Some(6));
        let told = "window: the program waits at 2; the workload has 6, which lists of 3 with a signal every \
                    4 need on average";
        assert_eq!(left_out, [told]);
    }

    #[test]
    fn all_threads_together_have_the_depth_of_the_program() {
        let all: Vec<QpPosts> = (0..9).map(|n| QpPosts { depth: 16, thread: n % 8, ..POSTS }).collect();
        let (made, left_out) = described(&all);
        let made = made.unwrap_or_else(|| panic!("{left_out:?}"));
        assert_eq!((made.threads, made.qps, made.window_per_qp), (Some(8), Some(2), Some(9)));
        let told = "QPs: the threads post on 9 in total; the workload has 16, equally many for each thread";
        assert_eq!(left_out, [told]);
    }

    #[test]
    fn too_many_threads_have_no_workload() {
        let all: Vec<QpPosts> = (0..15).map(|thread| QpPosts { thread, ..POSTS }).collect();
        let (made, left_out) = described(&all);
        let told = "everything: 15 threads post, but a machine of cib has 14 cores";
        assert_eq!((made.is_none(), &left_out[..]), (true, &[told.to_owned()][..]));
    }

    #[test]
    fn a_transport_that_is_less_busy_is_left_out() {
        let (made, left_out) =
            described(&[QpPosts { lists: 30, ..POSTS }, QpPosts { qp_type: QpType::Ud, ..POSTS }]);
        assert_eq!(made.and_then(|made| made.transport), Some(QpType::Rc));
        assert_eq!(left_out, ["20 work requests over UD: the process posted more over RC"]);
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
