//! Checks that take too long to run for every change. They run once per issue.

use crate::command::{Task, run};
use crate::soak::{self, Apps, Soft};
use crate::test::{self, CheckStep, cargo, run_steps};
use crate::{asan, first_run};
use std::process::ExitCode;

/// Minutes of the software NIC's soak, and kills of each role of the applications. `cargo xtask soak` has
/// higher defaults.
const SOFT_MINUTES: &str = "20";
const KILLS: &str = "50";

fn soft() -> Task<()> {
    soak::run_soft(&Soft { minutes: SOFT_MINUTES.to_owned(), ..Soft::default() })
}

fn apps() -> Task<()> {
    soak::run_apps(&Apps { kills: KILLS.to_owned(), ..Apps::default() })
}

/// Runs the commands on pages that are too slow for `cargo xtask test`.
fn long_pages() -> Task<()> {
    let mut tests = cargo(&["test", "--quiet", "--package", "doorbell-cli", "--test", "cli"]);
    run(tests.args(["--", "pages::pages_show"]).env("DOORBELL_LONG_PAGES", "1"))
}

/// Compares the statistics of drawn programs with their options, for more programs than `cargo xtask test`.
fn drawn_programs() -> Task<()> {
    let mut tests = cargo(&["test", "--quiet", "--package", "doorbell-soft-so", "--test", "soft-so"]);
    run(tests.args(["--", "drawn::"]).env("DOORBELL_DRAWN_LINES", "30"))
}

/// Computes the intervals of percentiles of queues with known percentiles, for more queues than `cargo xtask
/// test`.
fn percentiles() -> Task<()> {
    let mut tests = cargo(&["test", "--quiet", "--release", "--package", "doorbell-programs", "--lib"]);
    run(tests.args(["--", "intervals_hold_the_true_percentile"]).env("DOORBELL_QUANTILE_SEEDS", "400"))
}

/// Checks the forecasts of the time left more strictly than `cargo xtask test`. Needs an idle machine.
fn forecasts() -> Task<()> {
    let mut tests = cargo(&["test", "--quiet", "--package", "doorbell-lab", "--test", "forecast"]);
    run(tests.args(["--", "--nocapture"]).env("DOORBELL_FORECASTS", "1"))
}

const STEPS: [CheckStep<'static>; 12] = [
    ("the first command on a fresh clone", &first_run::check),
    ("instructions per verb, release beside dist", &test::compare_profiles),
    ("long commands on pages", &long_pages),
    ("statistics of drawn programs", &drawn_programs),
    ("intervals of percentiles", &percentiles),
    ("forecasts of the time left", &forecasts),
    ("AddressSanitizer", &asan::run_all),
    ("random programs", &|| soak::run_parts(Some("sim"))),
    ("random options", &|| soak::run_parts(Some("options"))),
    ("bottlenecks without and with reruns", &|| soak::run_parts(Some("bottlenecks"))),
    ("processes on the software NIC", &soft),
    ("applications that are killed", &apps),
];

pub(crate) fn run_all() -> ExitCode {
    run_steps(&STEPS)
}
