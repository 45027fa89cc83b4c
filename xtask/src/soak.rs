//! Runs random programs for a long time. `cargo test` runs them for a few seconds.

use crate::command::{self, Task, failed, run};
use crate::workspace::root;
use std::process::Command;

/// A part of the soak: its name, and the function that runs it.
type SoakPart = (&'static str, fn() -> Task<()>);

const PARTS: [SoakPart; 5] = [
    ("sim", sim),
    ("options", options),
    ("bottlenecks", bottlenecks),
    ("soft", || run_soft(&Soft::default())),
    ("apps", || run_apps(&Apps::default())),
];

/// Number of random programs of the simulator's part.
const SIM_CASES: u64 = 100_000;

/// Number of option sets of each profile.
const OPTION_CASES: u64 = 500;

/// Runs one part, or all parts.
pub(crate) fn run_parts(part: Option<&str>) -> Task<()> {
    let names = PARTS.map(|(name, _)| name).join(", ");
    if let Some(part) = part.filter(|&part| PARTS.iter().all(|&(name, _)| name != part)) {
        return Err(failed("soak", format!("there is no part {part}, only {names}")));
    }
    PARTS.iter().filter(|(name, _)| part.is_none_or(|part| part == *name)).try_for_each(|(_, run)| run())
}

/// Runs random programs on random simulated clusters.
fn sim() -> Task<()> {
    let mut cargo = tests("doorbell-sim", "sim", "soak::");
    cargo.env("DOORBELL_SOAK_CASES", SIM_CASES.to_string()).env_remove("DOORBELL_SOAK_SEED");
    run(&mut cargo)
}

/// Runs random options of workloads and systems. The environment variable `DOORBELL_SEED` may set the seed.
fn options() -> Task<()> {
    let mut cargo = tests("doorbell-lab", "lab", "options::");
    run(cargo.env("DOORBELL_CASES", OPTION_CASES.to_string()))
}

/// Number of drawn workloads whose bottlenecks are compared. A third as many compare the usual choice of
/// inline payload.
const DRAWN: u64 = 60;

/// Compares bottlenecks without reruns with bottlenecks with reruns, and rates with and without inline
/// payload, over drawn workloads. The environment variable `DOORBELL_SEED` may replace the commit's hash as
/// the seed.
fn bottlenecks() -> Task<()> {
    for part in ["nearest::", "inline::"] {
        run(tests("doorbell-lab", "lab", part).env("DOORBELL_DRAWN", DRAWN.to_string()))?;
    }
    Ok(())
}

/// Options of the software NIC's part.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Soft {
    pub(crate) minutes: String,
    pub(crate) seed: Option<String>,
    /// Prefix of the names of the cases to run. If absent, all cases run.
    pub(crate) case: Option<String>,
}

impl Default for Soft {
    fn default() -> Soft {
        Soft { minutes: "60".to_owned(), seed: None, case: None }
    }
}

impl Soft {
    /// Reads command line options; `None` if one is wrong.
    pub(crate) fn parse(options: &[&str]) -> Option<Soft> {
        let mut soft = Soft::default();
        for pair in options.chunks(2) {
            let [name, value] = *pair else { return None };
            match name {
                "--minutes" if value.parse::<f64>().is_ok_and(|n| n > 0.0 && n < 1e6) => {
                    soft.minutes = value.to_owned();
                }
                "--seed" if value.parse::<u64>().is_ok() => soft.seed = Some(value.to_owned()),
                "--case" => soft.case = Some(value.to_owned()),
                _ => return None,
            }
        }
        Some(soft)
    }
}

/// Stops, kills and starves processes on the software NIC in the middle of their work.
pub(crate) fn run_soft(soft: &Soft) -> Task<()> {
    let mut cargo = command::cargo();
    cargo.args(["test", "--quiet", "--profile", "soak", "--package", "doorbell-soft", "--lib", "--"]);
    cargo
        .args(["--exact", "tests::soak::who_is_caught_harms_nobody_else", "--nocapture"])
        .current_dir(root());
    cargo.env("DOORBELL_SOAK_MINUTES", &soft.minutes);
    let set = [("DOORBELL_SOAK_SEED", &soft.seed), ("DOORBELL_SOAK_CASE", &soft.case)];
    for (name, value) in set {
        match value {
            Some(value) => cargo.env(name, value),
            None => cargo.env_remove(name),
        };
    }
    run(&mut cargo)
}

/// Options of the applications' part.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Apps {
    pub(crate) kills: String,
    pub(crate) seed: String,
}

impl Default for Apps {
    fn default() -> Apps {
        Apps { kills: "200".to_owned(), seed: "1".to_owned() }
    }
}

impl Apps {
    /// Reads command line options; `None` if one is wrong.
    pub(crate) fn parse(options: &[&str]) -> Option<Apps> {
        let mut apps = Apps::default();
        for pair in options.chunks(2) {
            let [name, value] = *pair else { return None };
            match name {
                "--kills" if value.parse::<u32>().is_ok_and(|n| n > 0) => apps.kills = value.to_owned(),
                "--seed" if value.parse::<u64>().is_ok() => apps.seed = value.to_owned(),
                _ => return None,
            }
        }
        Some(apps)
    }
}

/// Kills processes of each role of the applications. Cargo's `test` profile is fast enough, because the
/// processes mostly wait for each other and for time-outs.
pub(crate) fn run_apps(apps: &Apps) -> Task<()> {
    let mut cargo = command::cargo();
    cargo.args(["test", "--quiet", "--package", "doorbell-soft-so", "--test", "soft-so", "--"]);
    cargo.args(["--exact", "systems::kills", "--nocapture"]).current_dir(root());
    run(cargo.env("DOORBELL_SOAK_KILLS", &apps.kills).env("DOORBELL_SOAK_SEED", &apps.seed))
}

/// Runs the tests of a module in a package's test program. The cargo profile `soak` is `release` with debug
/// assertions and overflow checks, and without LTO.
fn tests(package: &str, program: &str, module: &str) -> Command {
    let mut cargo = command::cargo();
    cargo.args(["test", "--quiet", "--profile", "soak", "--package", package, "--test", program]);
    cargo.args(["--", module, "--nocapture"]).current_dir(root());
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_soft_part_are_pairs() {
        let told =
            Soft::parse(&["--minutes", "1.5", "--seed", "7", "--case", "Poster"]).expect("it is understood");
        assert_eq!((told.minutes.as_str(), told.seed.as_deref()), ("1.5", Some("7")));
        assert_eq!(Soft::parse(&[]), Some(Soft::default()));
        for wrong in
            [&["--minutes"][..], &["--minutes", "0"], &["--minutes", "x"], &["--seed", "-1"], &["--x", "1"]]
        {
            assert_eq!(Soft::parse(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn options_of_the_applications_are_pairs() {
        let told = Apps::parse(&["--kills", "7", "--seed", "30"]).expect("it is understood");
        assert_eq!((told.kills.as_str(), told.seed.as_str()), ("7", "30"));
        assert_eq!(Apps::parse(&[]), Some(Apps::default()));
        for wrong in [&["--kills"][..], &["--kills", "0"], &["--seed", "x"], &["--minutes", "1"]] {
            assert_eq!(Apps::parse(wrong), None, "{wrong:?}");
        }
    }
}
