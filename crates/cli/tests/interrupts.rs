//! Ctrl-C: what is known is printed, and the shell is told.

mod ctrl_c;
mod fits;

use ctrl_c::interrupted;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn doorbell(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
    command.env("DOORBELL_CACHE_DIR", "/dev/null/none").args(line.split_whitespace());
    command
}

/// That it has said so in one line at most, apart from what a trace says of itself.
fn says_so(output: &Output) {
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("doorbell: interrupted"), "{output:?}");
}

#[test]
fn a_simulation_ends() {
    let trace = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("interrupted.pftrace");
    for line in [
        "simulate --verb read --duration 900s",
        "simulate --verb read --duration 900s --json",
        "simulate --verb read --duration 900s --explain --json",
        "simulate --system herd-kv --duration 900s",
    ] {
        says_so(&interrupted(&mut doorbell(line)));
    }
    let line = format!("simulate --verb read --duration 900s --trace-from 899s --trace {}", trace.display());
    says_so(&interrupted(&mut doorbell(&line)));
}

#[test]
fn reproduce_reports_what_had_come_to_its_end() {
    let output = interrupted(&mut doorbell("reproduce conext13 --json --jobs 1"));
    says_so(&output);
    let report: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    fits::only("reproduce", &report);
}
