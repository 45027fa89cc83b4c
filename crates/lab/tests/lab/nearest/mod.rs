//! The bottleneck without reruns: it must be the bottleneck with reruns.

pub(crate) mod draw;
mod polling;

use crate::options::{draw::Draws, number};
use doorbell_lab::{Asked, Control, Given, Outcome, Run, SimulateError, percent};
use doorbell_nic::Profile;
use draw::{DrawScale, DrawnKind, KINDS};
use std::process::Command;

/// Drawn workloads in `cargo test`.
const FEW: u64 = 8;

/// In `cargo test`, fewer answers than this would be right for one commit in 200 if 90% are right. In
/// `cargo xtask long`, 90% must be.
const LEAST_OF_FEW: u64 = 5;

/// The explanation of a run makes about so many reruns.
const RERUNS: u64 = 27;

/// Simulator events of a second of processor time, in a release build.
const EVENTS_PER_SECOND: u64 = 8_000_000;

/// Seconds of processor time that the reruns of a draw may take. A draw that takes more is drawn again.
const MOST_SECONDS: u64 = 20;
const MOST_SECONDS_OF_FEW: u64 = 2;

/// So many draws have all profiles, kinds, patterns and arrivals.
const COVERING: u64 = 60;

/// A case gets another verb or system after so many draws that were refused or would take too long.
const PATIENCE: usize = 10;

pub(crate) const SMALL: DrawScale =
    DrawScale { machines: 4, threads: 2, clients: 8, operations: 1e4, system_us: 400, precision: 3 };
pub(crate) const LARGE: DrawScale =
    DrawScale { machines: 40, threads: 8, clients: 64, operations: 3e4, system_us: 2000, precision: 2 };

/// The run of a file; `None` if it is refused.
pub(crate) fn run(toml: &str) -> Option<Run> {
    let given = Given::from_toml("w.toml", toml, &doorbell_lab::fields()).ok()?;
    Run::asked(Asked::of(&given).ok()?).ok()
}

/// The first digits of the commit's hash, as a number. `DOORBELL_SEED` replaces them. 0 if there is no
/// repository.
pub(crate) fn seed() -> u64 {
    let hash = || {
        let git =
            Command::new("git").args(["rev-parse", "HEAD"]).current_dir(env!("CARGO_MANIFEST_DIR")).output();
        let text = String::from_utf8(git.ok()?.stdout).ok()?;
        u64::from_str_radix(text.get(..16)?, 16).ok()
    };
    number("DOORBELL_SEED").or_else(hash).unwrap_or(0)
}

/// The bottlenecks of a drawn run, without and with reruns.
struct Compared {
    toml: String,
    plain: Outcome,
    explained: Outcome,
}

impl Compared {
    /// Whether both answers are equal. An answer that reruns may refute counts as wrong.
    fn agrees(&self) -> bool {
        self.plain.bottleneck.class == self.explained.bottleneck.class && !self.is_open()
    }

    /// Whether reruns may refute the answer without reruns. A run that is not settled is no reason, because
    /// its reruns have its measured time.
    fn is_open(&self) -> bool {
        may_be_refuted(&self.plain)
    }

    fn told(&self) -> String {
        let lifts = self.explained.lift.iter().filter(|lift| lift.change().is_noticeable());
        let lifts: Vec<String> =
            lifts.take(4).map(|lift| format!("{} {}", lift.more(), percent(lift.gain))).collect();
        format!(
            "{} {}: {}\n    without reruns {}: {}\n    with reruns {}: {}\n    {}",
            if self.agrees() { "agrees" } else { "DIFFERS" },
            self.toml.trim().replace('\n', "; "),
            self.plain.mops,
            self.plain.bottleneck.in_table(),
            self.plain.bottleneck.text,
            self.explained.bottleneck.class_name(),
            self.explained.bottleneck.text,
            lifts.join(", "),
        )
    }
}

/// Whether the bottleneck has the note that reruns may refute it.
fn may_be_refuted(plain: &Outcome) -> bool {
    plain.bottleneck.text.contains("(not confirmed by reruns)")
}

/// The drawn runs that were compared, and numbers of the draws that were not.
#[derive(Default)]
struct AllCompared {
    all: Vec<Compared>,
    /// Draws that were refused, because options do not go together or the profile lacks a transport.
    refused: u64,
    /// Draws whose simulation ends without a result, such as a system with atomics over iWARP.
    failed: u64,
    /// Draws that were drawn again because their reruns take too long.
    again: u64,
}

impl AllCompared {
    /// Compares `cases` draws. Profiles, verbs and systems take turns, so that all of them occur.
    fn of(cases: u64, scale: DrawScale, most_seconds: u64) -> AllCompared {
        let (mut draws, mut found) = (Draws::new(seed()), AllCompared::default());
        let profiles: Vec<&str> = Profile::names().collect();
        let first = (seed() % 1000) as usize;
        for case in first..first + cases as usize {
            let profile = profiles[case % profiles.len()];
            let kinds = (0..).map(|attempt| KINDS[(case + attempt / PATIENCE) % KINDS.len()]);
            let mut attempts = kinds.take(KINDS.len() * PATIENCE);
            let both = attempts
                .find_map(|kind| found.compare(draw::drawn(&mut draws, scale, profile, kind), most_seconds));
            let both = both.unwrap_or_else(|| panic!("each draw for profile {profile} is refused"));
            println!("{}", both.told());
            found.all.push(both);
        }
        found
    }

    /// Compares the bottlenecks of a run; `None` if the run is refused or would take too long.
    fn compare(&mut self, toml: String, most_seconds: u64) -> Option<Compared> {
        let Some(run) = run(&toml) else {
            self.refused += 1;
            return None;
        };
        let plain = match doorbell_lab::simulate(&run, &Control::quiet()) {
            Ok(plain) => plain,
            Err(error @ SimulateError::Fault(_)) => panic!("{toml}: {error}"),
            Err(error) => {
                println!("fails {}: {error}", toml.trim().replace('\n', "; "));
                self.failed += 1;
                return None;
            }
        };
        if plain.events * RERUNS > most_seconds * EVENTS_PER_SECOND {
            self.again += 1;
            return None;
        }
        let explained = doorbell_lab::explain(&run, &Control::quiet()).expect("a run that ended ends again");
        Some(Compared { toml, plain, explained })
    }

    /// Checks that all profiles, kinds, patterns and arrivals occur.
    fn check_cover(&self) {
        let has = |lines: &str| {
            let in_file = |line: &str, toml: &str| toml.lines().any(|of| of == line);
            let in_one = |toml: &str| lines.lines().all(|line| in_file(line, toml));
            assert!(self.all.iter().any(|both| in_one(&both.toml)), "no draw has {lines}");
        };
        Profile::names().for_each(|profile| has(&format!("profile = \"{profile}\"")));
        KINDS.map(DrawnKind::lines).iter().for_each(|lines| has(lines));
        for pattern in ["outbound", "inbound", "all-to-all"] {
            has(&format!("pattern = \"{pattern}\""));
        }
        has("arrivals = \"poisson\"");
    }
}

/// The environment variable `DOORBELL_DRAWN` sets a larger number of larger draws.
#[test]
fn an_answer_without_reruns_is_that_of_reruns() {
    let many = number("DOORBELL_DRAWN");
    let found = match many {
        Some(cases) => AllCompared::of(cases, LARGE, MOST_SECONDS),
        None => AllCompared::of(FEW, SMALL, MOST_SECONDS_OF_FEW),
    };
    if many.is_some_and(|cases| cases >= COVERING) {
        found.check_cover();
    }
    let AllCompared { all, refused, failed, again } = found;
    let right = all.iter().filter(|both| both.agrees()).count() as u64;
    let open = all.iter().filter(|both| both.is_open()).count() as u64;
    let cases = all.len() as u64;
    println!(
        "DOORBELL_SEED={}: {right} of {cases} agree, {open} are not confirmed, {again} drawn again because \
         they take too long, {refused} refused, {failed} without a result",
        seed()
    );
    let least = many.map_or(LEAST_OF_FEW, |cases| (cases * 9).div_ceil(10));
    assert!(right >= least, "DOORBELL_SEED={}: only {right} of {cases} agree", seed());
    assert!(many.is_none() || open * 10 <= cases, "DOORBELL_SEED={}: {open} are not confirmed", seed());
}

/// The rate of READs falls with many QPs, because their contexts do not fit into the NIC's cache.
#[test]
fn misses_of_contexts_are_named_without_reruns() {
    let reads = "profile = \"cx3\"\nverb = \"read\"\nsize = 32\nmachines = 4\nthreads = 8\n\
         warmup = \"40us\"\nduration = \"100us\"\n";
    let at = |qps: u32| {
        let run = run(&format!("{reads}qps = {qps}")).expect("it is valid");
        doorbell_lab::simulate(&run, &Control::quiet()).expect("it ends")
    };
    let (few, many) = (at(1), at(16));
    assert!(many.mops < 0.7 * few.mops, "{} and {} Mops", few.mops, many.mops);
    assert_ne!(few.bottleneck.class_name(), "nic-qp-cache", "{:?}", few.bottleneck);
    assert_eq!(many.bottleneck.class_name(), "nic-qp-cache", "{:?}", many.bottleneck);
    assert!(!may_be_refuted(&many), "{:?}", many.bottleneck);
}
