//! After Ctrl-C or SIGTERM, the command prints the results known so far, and its exit code tells the shell
//! which signal came.

use crate::ctrl_c::{interrupted, signalled};
use crate::fits;
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Output};

fn doorbell(line: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doorbell"));
    command.env("DOORBELL_CACHE_DIR", "/dev/null/none").args(line.split_whitespace());
    command
}

/// Checks that the command reports the interrupt in its last line on stderr.
fn says_so(output: &Output) {
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().last().unwrap_or_default();
    assert!(last.starts_with("doorbell: interrupted"), "{output:?}");
}

#[test]
fn a_simulation_ends() {
    let trace = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("interrupted-simulation.pftrace");
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
    assert_eq!(report["interrupted"], true);
    let missing = report["missing"].as_array().expect("what did not come to its end");
    let claims: usize = missing.iter().map(|one| one["claims"].as_array().expect("claims").len()).sum();
    let (found, not_checked) = (report["claims"].as_array(), report["not_checked"].as_array());
    let whole = doorbell_reproduce::claims::all().iter().filter(|claim| claim.paper == "conext13").count();
    let known = found.expect("claims").len() + not_checked.expect("claims").len();
    assert!(missing.iter().all(|one| one["experiment"].as_str().unwrap().starts_with("conext13/")));
    assert!(claims + known >= whole && claims > 0, "{claims} missing, {known} known, {whole} in all");
    let text = interrupted(&mut doorbell("reproduce conext13/fig1 --jobs 1"));
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("Interrupted: no result for ") && text.contains("conext13/fig1"), "{text}");
}

#[test]
fn a_sweep_says_what_is_missing() {
    let line = "sweep --verb read --machines 3 --threads 2 --warmup 10us --jobs 1 --over duration=900s,901s";
    let output = interrupted(&mut doorbell(&format!("{line} --json")));
    says_so(&output);
    let sweep: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let points = sweep["points"].as_array().expect("points").len();
    let missing = sweep["missing"].as_array().map_or(0, Vec::len);
    assert_eq!(points + missing, 2, "{sweep}");
    assert_eq!(sweep["missing"][missing - 1]["at"]["duration"], "901s");
    let text = interrupted(&mut doorbell(line));
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains(" of 2 points are missing: ") && text.contains("duration=901s. If"), "{text}");
}

#[test]
fn sigterm_is_an_interruption_of_its_own_code() {
    let output = signalled(&mut doorbell("reproduce conext13 --json --jobs 1"), "TERM");
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(report["interrupted"], true);
}

#[test]
fn sighup_is_left_to_who_started_it() {
    use std::os::unix::process::ExitStatusExt;
    // The test runner may ignore SIGHUP. Its children would then ignore SIGHUP, too.
    let mut command = Command::new("env");
    let doorbell = doorbell("simulate --verb read --duration 900s");
    command.arg("--default-signal=HUP").arg(doorbell.get_program()).args(doorbell.get_args());
    let output = signalled(&mut command, "HUP");
    assert_eq!(output.status.signal(), Some(libc::SIGHUP), "{output:?}");
}
