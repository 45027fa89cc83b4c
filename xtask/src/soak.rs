//! Random programs for as long as it takes: what `cargo test` does for some seconds.

use crate::command::{self, Task, failed, run};
use crate::root;
use std::process::Command;

/// What soaks: its name, and how it is run.
type Part = (&'static str, fn() -> Task<()>);

const PARTS: [Part; 2] = [("sim", sim), ("options", options)];

/// Cases of the simulator's part.
const SIM_CASES: u64 = 100_000;

/// Option sets of each profile.
const OPTION_CASES: u64 = 500;

/// Runs one part, or all.
pub(crate) fn run_parts(part: Option<&str>) -> Task<()> {
    let names = PARTS.map(|(name, _)| name).join(", ");
    if let Some(part) = part.filter(|&part| PARTS.iter().all(|&(name, _)| name != part)) {
        return Err(failed("soak", format!("there is no part {part}, only {names}")));
    }
    PARTS.iter().filter(|(name, _)| part.is_none_or(|part| part == *name)).try_for_each(|(_, run)| run())
}

/// Random programs on random clusters.
fn sim() -> Task<()> {
    let mut cargo = test("doorbell-sim", "soak");
    cargo.env("DOORBELL_SOAK_CASES", SIM_CASES.to_string()).env_remove("DOORBELL_SOAK_SEED");
    run(&mut cargo)
}

/// Random options of workloads and systems; a seed may be given by `DOORBELL_SEED`.
fn options() -> Task<()> {
    let mut cargo = test("doorbell-lab", "options");
    run(cargo.env("DOORBELL_CASES", OPTION_CASES.to_string()))
}

/// A test of a package. The profile is `release` with all checks and without what takes long to link.
fn test(package: &str, test: &str) -> Command {
    let mut cargo = command::cargo();
    cargo.args(["test", "--quiet", "--profile", "soak", "--package", package, "--test", test]);
    cargo.args(["--", "--nocapture"]).current_dir(root());
    cargo
}
