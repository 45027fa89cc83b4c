//! Everything that must hold before a change is merged.

use crate::command::{self, Problem, failed, run};
use crate::{packages, root, rxe, wheels};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// How a step ended.
enum Ended {
    Passed,
    Failed(String),
    Skipped(String),
}

fn ended(result: Result<(), Problem>) -> Ended {
    match result {
        Ok(()) => Ended::Passed,
        Err(Problem::Failed(why)) => Ended::Failed(why),
        Err(Problem::Unavailable(why)) => Ended::Skipped(why),
    }
}

fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = command::cargo();
    cargo.args(arguments).current_dir(root());
    cargo
}

/// A cargo step; one whose cargo command is not installed is unavailable.
fn step(arguments: &[&str]) -> Result<(), Problem> {
    let name = arguments[0];
    let known = cargo(&[name, "--help"]).output().is_ok_and(|output| output.status.success());
    if !known {
        return Err(Problem::Unavailable(format!("cargo {name} is not installed")));
    }
    run(cargo(arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

/// `cargo run`, as the README has it, knows which program is meant. It has other features of dependencies than the
/// tests, so that most is built anew: soon, as the program does no more than say its version.
fn the_command() -> Result<(), Problem> {
    run(cargo(&["run", "--quiet", "--", "--version"]).env("CARGO_PROFILE_DEV_OPT_LEVEL", "0"))
}

/// All tests. Where the packages of real programs are there, none of these may be skipped.
fn tests() -> Result<(), Problem> {
    let mut tests = cargo(&["test", "--quiet", "--workspace", "--no-fail-fast"]);
    if packages::has_tested_programs() {
        tests.env("DOORBELL_PROGRAMS", "installed");
    }
    run(&mut tests)
}

fn soft_roce() -> Result<(), Problem> {
    match rxe::run(&[])? {
        0 => Ok(()),
        code => Err(failed("the program in the emulated machine", format!("exit code {code}"))),
    }
}

/// A step's name and what it does.
type Step = (&'static str, fn() -> Result<(), Problem>);

const STEPS: [Step; 8] = [
    ("formatting", || step(&["fmt", "--all", "--check"])),
    ("lints", || step(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"])),
    ("documentation", || step(&["doc", "--quiet", "--workspace", "--no-deps"])),
    ("programs for the tests", packages::ensure_tested_programs),
    ("wheels for the tests", wheels::ensure),
    ("tests", tests),
    ("the command", the_command),
    ("Soft-RoCE", soft_roce),
];

/// Runs all steps, whatever becomes of the earlier ones, and says how each ended.
pub(crate) fn run_all() -> ExitCode {
    let mut summary = Vec::new();
    for (name, step) in STEPS {
        println!("== {name}");
        let begin = Instant::now();
        summary.push((name, ended(step()), begin.elapsed().as_secs()));
    }
    println!("== summary");
    for (name, ended, seconds) in &summary {
        let took = format!("{}:{:02}", seconds / 60, seconds % 60);
        match ended {
            Ended::Passed => println!("passed   {name} ({took})"),
            Ended::Failed(why) => println!("FAILED   {name} ({took}): {why}"),
            Ended::Skipped(why) => println!("skipped  {name}: {why}"),
        }
    }
    let failed = summary.iter().any(|(_, ended, _)| matches!(ended, Ended::Failed(_)));
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
