//! The checks that must pass before a change is merged.

mod failures;
mod instructions;
mod processor;
mod quick;
mod reach;
mod steps;
mod summary;

pub(crate) use instructions::{compare_profiles, print as print_instructions};
pub(crate) use processor::time_of_all;
pub(crate) use quick::run_quick;
pub(crate) use steps::cargo;
pub(crate) use summary::{CheckStep, Meter, run_steps};

use crate::command::{Task, failed, run};
use crate::{book, packages, prose, rxe, wheels};
use std::process::{ExitCode, Stdio};

/// Checks that `cargo run --release`, as in the README, selects the right program and builds it.
fn the_command() -> Task<()> {
    run(&mut cargo(&["run", "--quiet", "--release", "--", "--version"]))
}

/// Runs all tests, and repeats the messages of failed tests. If the packages of real programs are installed,
/// their tests must not be skipped.
fn tests() -> Task<()> {
    let mut tests = cargo(&["test", "--quiet", "--workspace", "--no-fail-fast"]);
    if packages::has_tested_programs() {
        tests.env("DOORBELL_PROGRAMS", "installed");
    }
    let begin = |why| failed("cargo test", why);
    let mut child = tests.stdout(Stdio::piped()).spawn().map_err(begin)?;
    let output = child.stdout.take().expect("standard output is a pipe");
    let output = failures::copy(output, std::io::stdout()).map_err(begin)?;
    let status = child.wait().map_err(begin)?;
    let messages = failures::of_output(&String::from_utf8_lossy(&output));
    if status.success() { Ok(()) } else { Err(failed("cargo test", format!("{status}{messages}"))) }
}

fn soft_roce() -> Task<()> {
    match rxe::run(&[])? {
        0 => Ok(()),
        code => Err(failed("the program in the emulated machine", format!("exit code {code}"))),
    }
}

const STEPS: [CheckStep<'static>; 11] = [
    ("formatting", &steps::formatting),
    ("lints", &steps::lints),
    ("documentation", &steps::documentation),
    ("prose", &prose::check),
    ("programs for the tests", &packages::ensure_tested_programs),
    ("wheels for the tests", &wheels::ensure),
    ("book", &book::build),
    ("tests", &tests),
    ("the first command", &the_command),
    ("instructions per verb", &instructions::check),
    ("Soft-RoCE", &soft_roce),
];

pub(crate) fn run_all() -> ExitCode {
    run_steps(&STEPS)
}
