//! A limit is an upper bound: what the simulator finds exceeds none, over random small workloads.
//!
//! The seed is printed. `DOORBELL_SEED` takes it again, `DOORBELL_CASES` says how many workloads; thousands
//! are for a release build.

use doorbell_lab::{
    Addresses, Control, MachineGroup, Outcome, Pattern, Pieces, Profiles, Resolved, Verb, Window, Workload,
};
use doorbell_nic::Profile;
use doorbell_verbs::{QpType, Span};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::time::{SystemTime, UNIX_EPOCH};

/// Workloads of a usual run.
const CASES: u64 = 2500;

/// Runs at most to find a simpler workload with the same flaw.
const SIMPLER: u32 = 300;

/// A bound may be exceeded by so much: times are rounded to picoseconds and femtoseconds per byte.
const ROUNDING: f64 = 1.01;

/// Operations that a workload is measured for at most, if its least bound is right.
const OPERATIONS: f64 = 20_000.0;

/// RECVs that responders post with one doorbell.
const RECV_BATCH: u64 = 16;

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is {value}, not a number")))
}

/// The built-in profiles, and relatives of them that cut messages smaller and have few of everything.
fn profiles() -> Vec<Profile> {
    let mut all: Vec<Profile> = Profile::names().map(|name| Profile::named(name).unwrap()).collect();
    let mut few = Profile::named("cib").unwrap();
    few.device.link.mtu = 512;
    (few.device.tx.units, few.device.rx.units) = (3, 2);
    (few.device.atomics.slots, few.device.atomics.slot_low_bit) = (8, 6);
    few.device.nic.max_rd_atomic = 2;
    few.device.pcie.max_outstanding_reads = 8;
    let mut slow = Profile::named("cx3").unwrap();
    slow.device.link.mtu = 1024;
    slow.device.link.port_bytes_per_s /= 10;
    slow.device.pcie.lanes = 1;
    slow.device.pcie_speed.mmio /= 8;
    slow.device.pcie_speed.completion /= 8;
    slow.device.pcie_speed.device_to_host /= 8;
    all.extend([few, slow]);
    all
}

fn offered() -> impl Strategy<Value = (Verb, QpType)> {
    prop::sample::select(vec![
        (Verb::Send, QpType::Rc),
        (Verb::Send, QpType::Uc),
        (Verb::Send, QpType::Ud),
        (Verb::Send, QpType::Ud),
        (Verb::Write, QpType::Rc),
        (Verb::Write, QpType::Uc),
        (Verb::Write, QpType::Uc),
        (Verb::Read, QpType::Rc),
        (Verb::Read, QpType::Rc),
        (Verb::FetchAdd, QpType::Rc),
        (Verb::CompareSwap, QpType::Rc),
    ])
}

fn sizes() -> impl Strategy<Value = u32> {
    prop_oneof![5 => 0u32..65, 4 => 65u32..300, 2 => 300u32..5000, 1 => 5000u32..30_000]
}

/// Groups of machines, each of a profile by its place in [`profiles`].
type Groups = Vec<(usize, u32)>;

/// Like machines, or two or three groups of them.
fn groups() -> impl Strategy<Value = Groups> {
    let like = (0usize..7, 2u32..7).prop_map(|group| vec![group]);
    let unlike = prop::collection::vec((0usize..7, 1u32..4), 2..4);
    prop_oneof![3 => like, 2 => unlike]
}

/// Groups of machines, and a workload, which they may refuse.
fn workloads() -> impl Strategy<Value = (Groups, Workload)> {
    let patterns = Pattern::ALL.map(|(_, pattern)| pattern).to_vec();
    let threads = prop_oneof![1 => Just(1u32), 1 => 2u32..5];
    let qps = prop_oneof![1 => Just(1u32), 1 => 2u32..9];
    let who = (prop::sample::select(patterns), threads, qps);
    let depth = (
        (prop_oneof![1 => 1u32..8, 2 => 8u32..80], any::<bool>()),
        prop_oneof![1 => Just(1u32), 1 => 1u32..24],
        prop_oneof![1 => Just(1u32), 1 => 1u32..24],
        prop::bool::weighted(0.15),
    );
    let payload = (sizes(), any::<bool>(), prop::bool::weighted(0.2), any::<bool>());
    let counters =
        (prop_oneof![Just(1u32), 2u32..64, Just(4096)], prop::sample::select(vec![8u32, 24, 64, 4096]));
    let rest = (prop::sample::select(vec![0u64, 0, 10, 50]), any::<u64>(), memory());
    (groups(), offered(), who, depth, payload, counters, rest).prop_map(
        |(groups, (verb, transport), who, depth, payload, counters, (warmup, seed, memory))| {
            let (pattern, threads, qps) = who;
            let ((window, per_qp), batch, signal_every, drain) = depth;
            let (size, inline, header_only, inline_recv) = payload;
            let drain = drain && pattern != Pattern::AllToAll;
            let (batch, signal_every) = if drain { (1, 1) } else { (batch.min(window), signal_every) };
            let per_qp = per_qp && !drain;
            // As long as the signals need, or else refused.
            let sharing = if per_qp { 1 } else { qps.max(2 * u32::from(pattern == Pattern::AllToAll)) };
            let window = window.max(sharing * (signal_every - 1) + batch);
            let atomic = matches!(verb, Verb::FetchAdd | Verb::CompareSwap);
            let header_only = header_only && verb == Verb::Send;
            let size = if header_only { 0 } else { size };
            let carries = matches!(verb, Verb::Send | Verb::Write) && size > 0;
            let workload = Workload {
                verb: Some(verb),
                transport: Some(transport),
                size: (!atomic).then_some(if transport == QpType::Ud { size % 500 } else { size }),
                machine: Some(groups.iter().map(|(profile, count)| group(*profile, *count)).collect()),
                threads: Some(threads),
                qps: Some(qps.max(2 * u32::from(pattern == Pattern::AllToAll))),
                window: (!per_qp).then_some(window),
                window_per_qp: per_qp.then_some(window),
                batch: Some(batch),
                signal_every: Some(signal_every),
                inline: (carries && size < 100).then_some(inline),
                header_only: Some(header_only),
                inline_recv: Some(inline_recv && verb == Verb::Send && (1..=64).contains(&size)),
                drain: Some(drain),
                counters: atomic.then_some(counters.0),
                counter_stride: atomic.then_some(counters.1),
                pattern: Some(pattern),
                warmup: Some(doorbell_lab::Duration::new(Span::from_us(warmup))),
                seed: Some(seed),
                ..Workload::default()
            };
            (groups, memory.of(workload))
        },
    )
}

/// Where memory lies, and what else most workloads leave as it is usual.
#[derive(Clone, Debug)]
struct Memory {
    sges: Option<u32>,
    pieces: Option<Pieces>,
    offset: Option<u32>,
    random_offset: bool,
    regions: [Option<u64>; 2],
    addresses: Option<Addresses>,
    max_rd_atomic: Option<u32>,
    ports: Option<u32>,
}

/// Half of them as usual.
fn memory() -> impl Strategy<Value = Memory> {
    let region = || prop::option::weighted(0.3, 30_000u64..4_000_000);
    let pieces = prop::option::of(prop::sample::select(Pieces::ALL.map(|(_, pieces)| pieces).to_vec()));
    let addresses =
        prop::option::of(prop::sample::select(Addresses::ALL.map(|(_, addresses)| addresses).to_vec()));
    let lie = (prop::option::weighted(0.3, 1u32..9), pieces);
    let line = (prop::option::weighted(0.2, 0u32..64), prop::bool::weighted(0.2));
    let nic = (prop::option::weighted(0.3, 1u32..6), prop::option::weighted(0.2, 1u32..3));
    (lie, line, region(), region(), addresses, nic).prop_map(
        |((sges, pieces), (offset, random_offset), local, remote, addresses, (max_rd_atomic, ports))| {
            Memory {
                sges,
                pieces,
                offset,
                random_offset,
                regions: [local, remote],
                addresses,
                max_rd_atomic,
                ports,
            }
        },
    )
}

impl Memory {
    /// A workload with as much of this as it can have.
    fn of(self, w: Workload) -> Workload {
        let verb = w.verb.unwrap();
        let atomic = matches!(verb, Verb::FetchAdd | Verb::CompareSwap);
        let payload = !atomic && w.size != Some(0);
        let sges = self.sges.map(|sges| sges.min(w.size.unwrap_or(8))).filter(|_| payload);
        let local = self.regions[0].filter(|_| atomic || payload);
        let remote = self.regions[1].filter(|_| payload && verb != Verb::Send);
        let of_memory = local.is_some() || sges.is_some_and(|sges| sges > 1);
        let lines = payload && w.inline_recv != Some(true);
        Workload {
            inline: w.inline.filter(|_| !of_memory),
            sges,
            pieces: self.pieces.filter(|_| sges.is_some_and(|sges| sges > 1)),
            offset: self.offset.filter(|_| lines && !self.random_offset),
            random_offset: lines.then_some(self.random_offset),
            local_region: local,
            remote_region: remote,
            addresses: self.addresses.filter(|_| local.is_some() || remote.is_some()),
            max_rd_atomic: self.max_rd_atomic.filter(|_| atomic || verb == Verb::Read),
            ports: self.ports.map(|ports| ports.min(w.threads.unwrap())),
            ..w
        }
    }
}

/// The profiles are given beside it, some of which have no name.
fn group(profile: usize, count: u32) -> MachineGroup {
    MachineGroup { profile: profile.to_string(), count, host: None, set: None }
}

/// Machines that post, and that are posted to.
fn ends(w: &Resolved) -> (u64, u64) {
    let others = u64::from(w.machines - 1);
    match w.pattern {
        Pattern::Outbound => (1, others),
        Pattern::Inbound => (others, 1),
        Pattern::AllToAll => (others + 1, others + 1),
    }
}

/// RECVs that wait on a QP.
fn recv_depth(w: &Resolved, profiles: &Profiles) -> u64 {
    let window = 2 * u64::from(w.window().operations());
    let others = u64::from(w.machines - 1);
    let senders = if w.pattern == Pattern::Outbound { 1 } else { others };
    let wanted = match w.transport {
        QpType::Ud => (window * senders).clamp(256, 1024),
        QpType::Rc | QpType::Uc => window + RECV_BATCH,
    };
    wanted.next_multiple_of(RECV_BATCH).min(most(profiles, |profile| profile.nic.max_qp_wr.into()))
}

/// What the profile says that says most.
fn most(profiles: &Profiles, of: impl Fn(&Profile) -> u64) -> u64 {
    profiles.all().map(of).max().unwrap()
}

/// Operations of which a part is paid for in the measured time and another is not.
struct UnderWay {
    /// Posted by all threads together and not yet seen completed.
    outstanding: u64,
    /// SENDs: on QPs that messages come to, received and not yet polled.
    received: u64,
    /// SENDs: polled, and their RECVs not yet posted anew.
    taken: u64,
    /// On UC and UD: complete at the requester, and not yet taken up by a receiving unit. Ports send only
    /// what the receive buffer of their peer has room for.
    in_ports: u64,
    /// Answered or counted, while a receiving unit still issues their DMAs, or a lock is still held.
    in_units: u64,
    /// WRITEs: acknowledged or dropped from sight, while their DMA writes wait for the PCIe link. A NIC has
    /// room for as many bytes as a port takes in.
    unwritten: u64,
    /// Where machines differ, one bounds all by its share of the operations, which it has but for a round of
    /// batches, and what is under way at it counts for as many at the others: QPs share them up to 1 to 2.
    shares: u64,
}

impl UnderWay {
    fn of(w: &Resolved, profiles: &Profiles) -> UnderWay {
        let (posters, responders) = ends(w);
        let threads = u64::from(w.threads);
        let windows = match w.window() {
            Window::PerThread(_) => threads,
            Window::PerQp(_) => threads * u64::from(w.qps),
        };
        let qps = match w.transport {
            QpType::Ud => responders * threads * u64::from(w.qps),
            QpType::Rc | QpType::Uc => posters * threads * u64::from(w.qps),
        };
        let sends = u64::from(w.verb == Verb::Send);
        let bytes =
            profiles.all().map(|p| p.request_on_link(w.opcode(), w.transport, w.size).bytes).min().unwrap();
        let receive_buffer = most(profiles, |p| p.link.receive_buffer.into());
        let unreliable = u64::from(w.transport != QpType::Rc);
        UnderWay {
            outstanding: posters * windows * u64::from(w.window().operations()),
            received: sends * qps * recv_depth(w, profiles),
            taken: sends * qps * (RECV_BATCH - 1),
            in_ports: unreliable
                * most(profiles, |p| p.link.ports.into())
                * responders
                * (receive_buffer / bytes + 1),
            in_units: responders * most(profiles, |p| (p.rx.units + p.atomics.slots.min(64)).into()),
            unwritten: u64::from(w.verb == Verb::Write && w.size > 0)
                * responders
                * (receive_buffer / u64::from(w.size.max(1)) + 1),
            shares: match profiles.are_alike() {
                true => 0,
                false => 2 * posters * threads * u64::from(w.batch * w.machines),
            },
        }
    }

    /// What can be under way when measuring begins: nothing at the start of the run.
    fn at_begin(&self, w: &Resolved) -> u64 {
        match w.warmup.map(|warmup| warmup.span()) {
            Some(Span::ZERO) => 0,
            _ => self.outstanding + self.received,
        }
    }

    /// What can be counted when measuring ends and not all paid for. A SEND counts once received, when
    /// its requester may not have seen it completed.
    fn at_end(&self, w: &Resolved) -> u64 {
        let sent = if w.verb == Verb::Send { self.outstanding } else { 0 };
        sent + self.taken + self.in_ports + self.in_units + self.unwritten
    }

    fn all(&self, w: &Resolved) -> f64 {
        if self.shares == 0 {
            return (self.at_begin(w) + self.at_end(w)) as f64;
        }
        // Also where nothing is under way at the start: by the end what is posted to the machine that bounds all
        // may wait there, and as much that was posted to the others be done.
        let at_begin = (2 * self.at_begin(w)).max(self.outstanding);
        (at_begin + 2 * self.at_end(w) + self.shares) as f64
    }
}

/// By how much `operations` may exceed a bound by chance: all to all, it is posted to who is drawn, and
/// where machines differ, a bound is one for equal shares. Five standard deviations of a machine's share.
fn chance(w: &Resolved, profiles: &Profiles, operations: f64) -> f64 {
    let drawn = w.pattern == Pattern::AllToAll && !profiles.are_alike();
    let at_a_time = if w.transport == QpType::Ud { 1 } else { w.batch };
    // A share is that of one QP, or destination, at least.
    let of = w.machines.max(w.qps);
    if drawn { 5.0 * (operations * f64::from(at_a_time * of)).sqrt() } else { 0.0 }
}

fn simulated(profiles: &Profiles, w: &Resolved) -> Outcome {
    let control = Control::quiet();
    doorbell_lab::simulate(profiles, w, &control).unwrap_or_else(|e| panic!("{e}"))
}

/// The workload, measured for as long as many more operations take than can be under way.
fn measured(workload: &Workload, profiles: &Profiles) -> Option<Resolved> {
    let resolved = workload.resolve(profiles).ok()?;
    let mops = doorbell_lab::limits(profiles, &resolved)[0].mops;
    let operations = (20.0 * UnderWay::of(&resolved, profiles).all(&resolved)).clamp(500.0, OPERATIONS);
    let ns = (operations / mops * 1e3).clamp(5e3, 5e6) as u64;
    let duration = Some(doorbell_lab::Duration::new(Span::from_ns(ns)));
    Workload { duration, ..workload.clone() }.resolve(profiles).ok()
}

/// What is wrong with the bounds of a workload.
fn flaw(profiles: &Profiles, w: &Resolved) -> Option<String> {
    let limits = doorbell_lab::limits(profiles, w);
    let outcome = simulated(profiles, w);
    let us = outcome.measured.duration.span().as_secs_f64() * 1e6;
    let (done, under_way) = (outcome.completed as f64, UnderWay::of(w, profiles).all(w));
    let described = || {
        let names: Vec<&str> = profiles.all().map(|profile| profile.name.as_str()).collect();
        format!("{} on {names:?}", serde_json::to_string(w).unwrap())
    };
    let under_way = under_way + chance(w, profiles, done);
    for limit in &limits {
        let terms: f64 = limit.terms.iter().map(|term| term.amount()).sum();
        if (limit.capacity / terms / limit.mops - 1.0).abs() > 1e-9 {
            return Some(format!("{limit:?} is not the sum of its terms: {}", described()));
        }
        let most = limit.mops * us;
        if done > ROUNDING * most + under_way {
            return Some(format!(
                "{done:.0} operations in {us:.1} us, {under_way:.0} under way, are {:.3} times {}: {}: {}",
                done / most,
                limit.resource,
                limit.text,
                described(),
            ));
        }
    }
    let bound = doorbell_lab::least_latency(profiles, w).as_ps() as f64 / 1e3;
    // Measured in whole nanoseconds, of which three digits are kept.
    let least = outcome.latency_ns.min.map_or(f64::INFINITY, |min| (min as f64 + 1.0) * 1.001);
    (least < bound).then(|| format!("{least:.0} ns, at least {bound:.0}: {}", described()))
}

/// The flaw of a case, if it has one; `None` also for a workload that is refused, as some ask for more
/// threads than there are cores.
fn flaw_of((groups, workload): &(Groups, Workload), profiles: &[Profile]) -> Option<String> {
    let mut of = groups.iter().map(|(profile, _)| profiles[*profile].clone());
    let profiles = Profiles::of_groups(of.next()?, of.collect());
    flaw(&profiles, &measured(workload, &profiles)?)
}

/// The flaw of the simplest case that still has one.
fn simplest(mut case: impl ValueTree<Value = (Groups, Workload)>, profiles: &[Profile]) -> Option<String> {
    let mut found = None;
    for _ in 0..SIMPLER {
        let simpler = match flaw_of(&case.current(), profiles) {
            Some(flaw) => {
                found = Some(flaw);
                case.simplify()
            }
            None => case.complicate(),
        };
        if !simpler {
            break;
        }
    }
    found
}

#[test]
fn no_workload_exceeds_a_bound() {
    let cases = number("DOORBELL_CASES").unwrap_or(CASES);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = number("DOORBELL_SEED").unwrap_or(now);
    println!("DOORBELL_SEED={seed}");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let (profiles, strategy) = (profiles(), workloads());
    let mut flaws = Vec::new();
    for _ in 0..cases {
        let case = strategy.new_tree(&mut runner).unwrap();
        if let Some(flaw) = flaw_of(&case.current(), &profiles) {
            flaws.push(if flaws.is_empty() { simplest(case, &profiles).unwrap_or(flaw) } else { flaw });
        }
    }
    let (n, text) = (flaws.len(), flaws.join("\n"));
    assert!(flaws.is_empty(), "DOORBELL_SEED={seed}: {n} of {cases} workloads:\n{text}");
}
