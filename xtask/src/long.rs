//! Checks that take too long for every change: run once per issue.

use crate::asan;
use crate::command::Task;
use crate::soak::{self, Apps, Soft};
use crate::test::{CheckStep, run_steps};
use std::process::ExitCode;

/// Minutes of the software NIC's soak, and kills of each role of the applications: `cargo xtask soak` does more.
const SOFT_MINUTES: &str = "20";
const KILLS: &str = "50";

fn soft() -> Task<()> {
    soak::run_soft(&Soft { minutes: SOFT_MINUTES.to_owned(), ..Soft::default() })
}

fn apps() -> Task<()> {
    soak::run_apps(&Apps { kills: KILLS.to_owned(), ..Apps::default() })
}

const STEPS: [CheckStep<'static>; 5] = [
    ("AddressSanitizer", &asan::run_all),
    ("random programs", &|| soak::run_parts(Some("sim"))),
    ("random options", &|| soak::run_parts(Some("options"))),
    ("processes on the software NIC", &soft),
    ("applications that are killed", &apps),
];

/// Runs all steps.
pub(crate) fn run_all() -> ExitCode {
    run_steps(&STEPS)
}
