//! Checks for artefacts of the simulator: no small step of an option changes the rate out of proportion.
//!
//! The tests walk along QPs, window, threads and size on each profile of ATC'16. From one value of the option
//! to the next, the rate must not fall by more than a quarter. It must not exceed the growth of the option by
//! more than a quarter. Changes that layout explains (`layout.rs`) are allowed. Some walks are fixed, at
//! points of earlier flaws. Other walks are drawn. The test prints its seed, and `DOORBELL_SEED` repeats a
//! seed. `DOORBELL_CASES` is the number of drawn steps. `DOORBELL_SHOW=1` prints every curve.

mod layout;

use doorbell_lab::{Control, Duration, Profiles, Resolved, Run, Workload};
use doorbell_nic::Profile;
use doorbell_verbs::Span;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

const PROFILES: [&str; 3] = ["cx", "cx3", "cib"];

/// Number of drawn steps.
const CASES: u64 = 24;

/// Largest factor between neighbouring values. The neighbour of a small number is the next number, and falls
/// between such numbers are not judged.
const NEAR: f64 = 1.1;

/// A step must leave at least this share of the rate.
const LEFT: f64 = 0.75;

/// Largest growth of the rate, relative to the growth of the option.
const GAIN: f64 = 1.25;

/// Microseconds of warm-up, in addition to the time to read all contexts once, and of measurement. Runs with
/// few operations, and runs that check a suspicious step, take longer by the other two factors.
const WARMUP: f64 = 20.0;
const DURATION: f64 = 20.0;
const LONGER: f64 = 6.0;
const LONGEST: f64 = 200.0;

/// A run with fewer operations than this has few operations.
const FEW: u64 = 200;

/// A workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WalkPoint {
    profile: &'static str,
    verb: &'static str,
    transport: &'static str,
    pattern: &'static str,
    machines: u32,
    threads: u32,
    qps: u32,
    window: u32,
    size: u32,
    /// 0 for the usual value. Completions then come in lumps whose size grows with the window.
    signal_every: u32,
}

/// An option that a walk changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Axis {
    Threads,
    Qps,
    Window,
    Size,
}

impl WalkPoint {
    fn at(mut self, axis: Axis, value: u32) -> WalkPoint {
        *match axis {
            Axis::Threads => &mut self.threads,
            Axis::Qps => &mut self.qps,
            Axis::Window => &mut self.window,
            Axis::Size => &mut self.size,
        } = value;
        self
    }

    fn value(&self, axis: Axis) -> u32 {
        match axis {
            Axis::Threads => self.threads,
            Axis::Qps => self.qps,
            Axis::Window => self.window,
            Axis::Size => self.size,
        }
    }

    fn options(&self) -> Vec<(&'static str, String)> {
        let WalkPoint {
            profile,
            verb,
            transport,
            pattern,
            machines,
            threads,
            qps,
            window,
            size,
            signal_every,
        } = *self;
        let mut options = vec![
            ("profile", profile.to_owned()),
            ("verb", verb.to_owned()),
            ("transport", transport.to_owned()),
            ("pattern", pattern.to_owned()),
            ("machines", machines.to_string()),
            ("threads", threads.to_string()),
            ("qps", qps.to_string()),
            ("window", window.to_string()),
            ("size", size.to_string()),
        ];
        options.extend((signal_every > 0).then(|| ("signal_every", signal_every.to_string())));
        options
    }

    /// Resolves the point; `None` if it is not a valid workload.
    fn resolved(&self) -> Option<(Profiles, Resolved)> {
        let line = |(key, value): (&str, String)| match value.parse::<u32>() {
            Ok(number) => format!("{key} = {number}\n"),
            Err(_) => format!("{key} = \"{value}\"\n"),
        };
        let options: String = self.options().into_iter().map(line).collect();
        let workload = Workload::from_toml("point", &options).unwrap_or_else(|e| panic!("{self}: {e}"));
        let profiles = workload.load_profiles().unwrap();
        let resolved = workload.resolve(&profiles).ok()?;
        Some((profiles, resolved))
    }

    /// Measures the rate for `times` the usual duration, or longer if few operations complete.
    fn rate(&self, times: f64) -> Option<f64> {
        let (profiles, mut workload) = self.resolved()?;
        let contexts =
            f64::from(layout::contexts(&workload)) * layout::context_read_ns(profiles.first()) / 1e3;
        let us = |us: f64| Some(Duration::new(Span::from_ns((us * 1e3) as u64)));
        (workload.warmup, workload.duration) = (us(WARMUP * times + 2.0 * contexts), us(DURATION * times));
        let outcome =
            doorbell_lab::simulate(&Run::verbs(profiles.clone(), workload.clone()), &Control::quiet());
        let outcome = outcome.unwrap_or_else(|e| panic!("{self}: {e}"));
        // All outstanding operations may complete at once, so a longer run needs more operations.
        let at_once = u64::from(self.window * self.threads * self.machines);
        let enough = if times < LONGER { FEW } else { FEW + 4 * at_once };
        if outcome.verbs().completed < enough && times < LONGEST {
            self.rate(LONGER * times)
        } else {
            Some(outcome.mops)
        }
    }
}

/// The point as a command line.
impl fmt::Display for WalkPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "doorbell simulate")?;
        self.options().iter().try_for_each(|(key, value)| write!(f, " --{} {value}", key.replace('_', "-")))
    }
}

/// Describes the flaw of a step from one value to the next, if the step has one. `rates` are the rates before
/// and after.
fn flaw(at: WalkPoint, axis: Axis, (from, to): (u32, u32), rates: (f64, f64)) -> Option<String> {
    let [one, other] = [from, to].map(|value| at.at(axis, value));
    let (profiles, before) = one.resolved()?;
    let (_, after) = other.resolved()?;
    let (least, most) = layout::derives(&profiles, &before, &after);
    let left = least * layout::left_by_contexts(profiles.first(), &before, &after, rates.0);
    let grows = f64::from(to) / f64::from(from);
    let falls = grows <= NEAR && rates.1 < LEFT * left;
    let leaps = rates.1 > GAIN * grows * most * rates.0;
    (falls || leaps).then(|| {
        let (was, is) = rates;
        format!(
            "{axis:?} {from} to {to}: {was:.3} to {is:.3} Mops, where layout leaves {left:.3} and gives {most:.2} times as much\n  {one}\n  {other}"
        )
    })
}

/// Walks along these values and returns the flaws of steps between near values.
fn walk(at: WalkPoint, axis: Axis, values: &[u32]) -> Vec<String> {
    let rates: Vec<(u32, f64)> =
        values.iter().filter_map(|&value| Some((value, at.at(axis, value).rate(1.0)?))).collect();
    if std::env::var_os("DOORBELL_SHOW").is_some() {
        println!("{axis:?} {at}\n  {rates:.2?}");
    }
    let step = |pair: &[(u32, f64)]| {
        let [(from, before), (to, after)] = *pair else { unreachable!("windows of two") };
        let flawed = to <= next(from) && flaw(at, axis, (from, to), (before, after)).is_some();
        // Repeats a flawed step with longer runs: in a short run, a flaw may be chance, or threads with many
        // QPs may not have begun.
        let [before, after] = [from, to].map(|value| flawed.then(|| at.at(axis, value).rate(LONGEST))?);
        flaw(at, axis, (from, to), (before?, after?))
    };
    rates.windows(2).filter_map(step).collect()
}

/// The next larger near value.
fn next(value: u32) -> u32 {
    ((f64::from(value) * NEAR) as u32).max(value + 1)
}

/// Values from `from` to `to`, each near the previous one.
fn near(from: u32, to: u32) -> Vec<u32> {
    std::iter::successors(Some(from), |&value| Some(next(value))).take_while(|&value| value <= to).collect()
}

fn profile(name: &str) -> Profile {
    Profile::named(name).unwrap()
}

const PATTERNS: [&str; 3] = ["inbound", "outbound", "all-to-all"];

/// READ, WRITE and SEND, with their transports.
const VERBS: [(&str, &str); 3] = [("read", "rc"), ("write", "rc"), ("send", "ud")];

fn point(
    profile: &'static str,
    (verb, transport): (&'static str, &'static str),
    pattern: &'static str,
) -> WalkPoint {
    let threads = self::profile(profile).host.cores;
    WalkPoint {
        profile,
        verb,
        transport,
        pattern,
        machines: 3,
        threads,
        qps: 2,
        window: 16,
        size: 32,
        signal_every: 0,
    }
}

/// Each profile, verb and pattern.
fn all() -> impl Iterator<Item = WalkPoint> {
    let of = |(profile, verb)| PATTERNS.map(|pattern| point(profile, verb, pattern));
    PROFILES.into_iter().flat_map(|profile| VERBS.map(|verb| (profile, verb))).flat_map(of)
}

/// Each profile, verb and pattern, except all-to-all, which takes longest.
fn one_way() -> impl Iterator<Item = WalkPoint> {
    all().filter(|at| at.pattern != "all-to-all")
}

fn none(flaws: impl Iterator<Item = String>) {
    let flaws: Vec<String> = flaws.collect();
    assert!(flaws.is_empty(), "{} steps are out of proportion:\n{}", flaws.len(), flaws.join("\n"));
}

#[test]
fn threads() {
    none(all().flat_map(|at| walk(at, Axis::Threads, &(1..=at.threads).collect::<Vec<_>>())));
}

#[test]
fn qps_of_a_thread() {
    none(all().flat_map(|at| walk(at, Axis::Qps, &near(1, 8))));
}

/// Walks from few QPs, whose contexts fit into the caches, to many QPs, whose contexts do not.
#[test]
fn qps_beyond_the_caches() {
    none(all().filter(|at| at.transport == "rc").flat_map(|at| {
        let at = WalkPoint { threads: 4, window: 64, signal_every: 1, ..at };
        let entries = profile(at.profile).device.caches.responder_entries;
        // With the pattern inbound, the two other machines together have 8 QPs for each QP of a thread.
        walk(at, Axis::Qps, &near(entries / 16, entries / 5))
    }));
}

/// Walks from fewer QPs per thread than the window to more, while not all contexts fit. With more QPs, two
/// operations no longer wait at one QP.
#[test]
fn qps_beyond_the_window() {
    let at =
        WalkPoint { machines: 4, size: 316, signal_every: 1, ..point("cx3", ("send", "ud"), "outbound") };
    none(walk(at, Axis::Qps, &[14, 15, 16, 17]).into_iter());
}

/// First one machine has one QP and the other has two. Then each machine has two.
#[test]
fn qps_of_two_machines() {
    let at = WalkPoint {
        machines: 2,
        threads: 1,
        window: 27,
        size: 1580,
        signal_every: 1,
        ..point("cx3", ("read", "rc"), "all-to-all")
    };
    none(walk(at, Axis::Qps, &near(2, 8)).into_iter());
}

/// READs with 60 to 420 QPs.
#[test]
fn qps_of_inbound_reads() {
    let at = WalkPoint { threads: 7, window: 64, ..point("cib", ("read", "rc"), "inbound") };
    none(walk(at, Axis::Qps, &near(4, 30)).into_iter());
}

/// Windows of all threads together around a NIC's capacity for WQEs, and for WQEs of READs: 128 on cx and
/// cx3, 256 on cib.
#[test]
fn windows() {
    none(one_way().flat_map(|at| {
        let values = [near(1, 8), near(14, 20), near(28, 36), near(115, 141), near(465, 512)].concat();
        walk(WalkPoint { machines: 2, signal_every: 1, ..at }, Axis::Window, &values)
    }));
}

/// Sizes around the limits of lines, TLPs, packets and inline payload.
#[test]
fn sizes() {
    none(one_way().flat_map(|at| {
        let profile = profile(at.profile);
        let ends = [64, 128, 256, 512, 1024, 2048, 4096, profile.device.nic.max_inline];
        let mut values: Vec<u32> = ends.iter().flat_map(|end| [end - 1, *end, end + 1]).collect();
        values.sort_unstable();
        values.dedup();
        walk(WalkPoint { machines: 2, ..at }, Axis::Size, &values)
    }));
}

/// Random draws of a case.
struct Draws(Xoshiro256PlusPlus);

impl Draws {
    /// A number from `least` to `most`, with a log-uniform distribution.
    fn among(&mut self, least: u32, most: u32) -> u32 {
        let share = (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let (low, high) = (f64::from(least).ln(), (f64::from(most) + 1.0).ln());
        ((low + (high - low) * share).exp() as u32).clamp(least, most)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[((u128::from(self.0.next_u64()) * all.len() as u128) >> 64) as usize]
    }

    fn point(&mut self) -> WalkPoint {
        let (profile, verb) = (self.one_of(&PROFILES), self.one_of(&VERBS));
        let at = point(profile, verb, self.one_of(&PATTERNS));
        WalkPoint {
            machines: self.among(2, 4),
            threads: self.among(1, self::profile(profile).host.cores),
            qps: self.among(1, 100),
            window: self.among(1, 512),
            size: self.among(1, 8192),
            signal_every: 1,
            ..at
        }
    }
}

fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    Some(value.parse().unwrap_or_else(|_| panic!("{name} is {value}, not a number")))
}

#[test]
fn steps_that_are_drawn() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = number("DOORBELL_SEED").unwrap_or(now);
    println!("DOORBELL_SEED={seed}");
    let case = |n: u64| {
        let mut draws = Draws(Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_add(n)));
        let (at, axis) = (draws.point(), draws.one_of(&[Axis::Threads, Axis::Qps, Axis::Window, Axis::Size]));
        let from = at.value(axis);
        walk(at, axis, &[from, next(from)])
    };
    none((0..number("DOORBELL_CASES").unwrap_or(CASES)).flat_map(case));
}
