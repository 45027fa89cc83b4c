//! After Ctrl-C or SIGTERM, the command prints the results known so far, and its exit code tells the shell
//! which signal came.

use crate::ctrl_c::{handles, interrupted, signal, signalled};
use crate::fits;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

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

/// A sweep whose first point takes milliseconds, and whose last point takes hours.
const FIRST_IS_SHORT: &str =
    "sweep --verb read --machines 2 --threads 1 --warmup 10us --jobs 1 --over duration=20us,900s";

#[test]
fn rows_are_printed_as_they_come_and_survive_two_signals() {
    let csv = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("two-signals.csv");
    let mut command = doorbell(&format!("{FIRST_IS_SHORT} --csv {}", csv.display()));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("doorbell runs");
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut line = || lines.next().expect("there is another line").expect("it is text");
    assert!(line().contains("duration"), "the titles come first");
    assert!(line().contains("20us"), "the first row comes while the second point runs");
    let written = std::fs::read_to_string(&csv).expect("the row is in the file, too");
    assert!(written.lines().count() == 2 && written.contains("\n20us,"), "{written}");
    // As timeout(1) does, which signals the command and then its process group.
    signal(&child, "TERM");
    signal(&child, "TERM");
    let rest: Vec<String> = lines.map(|line| line.expect("it is text")).collect();
    let mut said = String::new();
    child.stderr.take().expect("it is piped").read_to_string(&mut said).expect("it is text");
    assert_eq!(child.wait().expect("it ends").code(), Some(143), "{rest:?} {said}");
    assert!(rest.iter().any(|line| line.contains("1 of 2 points are missing")), "{rest:?}");
    assert_eq!(std::fs::read_to_string(&csv).expect("the file is still there"), written);
}

#[test]
fn two_signals_leave_json() {
    let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("two-signals-cache");
    let compare = |other: &str| {
        let small = "--verb read --machines 2 --threads 1 --warmup 10us --jobs 1";
        let mut command = doorbell(&format!("compare duration=20us duration={other} {small} --json"));
        command.env("DOORBELL_CACHE_DIR", &cache);
        command
    };
    // The result of the first side is stored, so that it does not matter how early the signals come.
    assert!(compare("21us").output().expect("doorbell runs").status.success());
    let mut command = compare("900s");
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("doorbell runs");
    while !handles(&child) {
        std::thread::sleep(Duration::from_millis(5));
    }
    signal(&child, "TERM");
    signal(&child, "TERM");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    let compared: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert!(compared["sides"][0]["mops"].is_number() && compared["sides"][1]["mops"].is_null(), "{compared}");
}

#[test]
fn a_sweep_whose_rows_nobody_reads_ends() {
    let (reader, writer) = std::io::pipe().expect("there is a pipe");
    drop(reader);
    // The first row finds the pipe closed, so the second point, which takes hours, is not needed.
    let status = doorbell(FIRST_IS_SHORT).stdout(writer).status().expect("doorbell runs");
    assert_eq!(status.code(), Some(0));
}

/// Bytes in a pipe that nobody has read.
fn unread(pipe: &impl AsRawFd) -> i32 {
    let mut bytes = 0;
    // SAFETY: `bytes` outlives the call.
    let failed = unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &mut bytes) };
    assert_eq!(failed, 0);
    bytes
}

/// The reader of the output, such as a pager, reads nothing, so the last output is blocked.
#[test]
fn signals_end_a_command_whose_output_is_blocked() {
    let small = "--verb read --machines 2 --threads 1 --warmup 5us --duration 5us";
    let mut command = doorbell(&format!("sweep {small} --over window=1..32+1 --json"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("doorbell runs");
    let pipe = child.stdout.take().expect("it is piped");
    // SAFETY: the function takes only numbers.
    let size = unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
    assert!((1..20_000).contains(&size), "the JSON must not fit into the pipe of {size} B");
    while unread(&pipe) == 0 {
        assert!(child.try_wait().expect("it can be asked").is_none(), "it ended without output");
        std::thread::sleep(Duration::from_millis(5));
    }
    // Any of these signals ends the command, except the first one and those that come soon after it.
    let ended = (0..20).find_map(|_| {
        signal(&child, "TERM");
        std::thread::sleep(Duration::from_millis(600));
        child.try_wait().expect("it can be asked")
    });
    let _ = child.kill();
    assert_eq!(ended.and_then(|status| status.code()), Some(143));
    drop(pipe);
}

/// Runs a command that would take hours without `--max-wall`.
fn limited(line: &str) -> Output {
    let begin = Instant::now();
    let output = doorbell(line).output().expect("doorbell runs");
    // Far longer than the time of the commands, because the machine may be busy.
    assert!(begin.elapsed() < Duration::from_secs(60), "{line}: {output:?}");
    output
}

#[test]
fn the_whole_command_ends_in_time() {
    let small = "--verb read --machines 2 --threads 1 --warmup 10us";
    // Points and sides share the time, so each of them has a result.
    let swept = limited(&format!("{FIRST_IS_SHORT},901s --max-wall 5s --json"));
    assert_eq!(swept.status.code(), Some(0), "{swept:?}");
    let swept: Value = serde_json::from_slice(&swept.stdout).expect("it is JSON");
    let ends: Vec<&Value> =
        swept["points"].as_array().expect("points").iter().map(|point| &point["measured"]["ended"]).collect();
    assert_eq!(ends, ["duration", "max-wall", "max-wall"]);
    let line = format!("compare duration=900s duration=901s {small} --jobs 1 --max-wall 4s");
    let compared = limited(&line);
    let text = String::from_utf8_lossy(&compared.stdout).into_owned();
    assert_eq!(compared.status.code(), Some(0), "{compared:?}");
    assert_eq!(text.matches("the wall-clock time (--max-wall) is over").count(), 2, "{text}");
    // Without settled rates, nothing is known about their difference.
    assert!(text.contains("  not known  ") && !text.contains("differs"), "{text}");
    // A run leaves time for its reruns.
    let explained = limited(&format!("simulate {small} --duration 900s --explain --max-wall 5s --json"));
    assert_eq!(explained.status.code(), Some(0), "{explained:?}");
    let explained: Value = serde_json::from_slice(&explained.stdout).expect("it is JSON");
    assert_eq!(explained["measured"]["ended"], "max-wall");
    assert!(!explained["lift"].as_array().expect("gains").is_empty(), "{explained}");
    let reproduced = limited("reproduce conext13 --json --jobs 1 --max-wall 300ms");
    assert_eq!(reproduced.status.code(), Some(1), "{reproduced:?}");
    let said = String::from_utf8_lossy(&reproduced.stderr).into_owned();
    assert!(said.starts_with("doorbell: the wall-clock time was over (--max-wall 300ms): "), "{said}");
    let report: Value = serde_json::from_slice(&reproduced.stdout).expect("it is JSON");
    assert_eq!(report["interrupted"], true);
}

/// A store that takes longer to fill than [`the_set_up_is_watched`] allows.
const LARGE: &str = "simulate --system herd-kv --pairs 500000 --cores 14";

#[test]
fn the_set_up_is_watched() {
    let begin = Instant::now();
    let output = limited(&format!("{LARGE} --max-wall 5ms"));
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let wanted = "doorbell: the wall-clock time (--max-wall) was over before anything was measured";
    assert!(said.starts_with(wanted), "{said}");
    says_so(&interrupted(&mut doorbell(LARGE)));
    assert!(begin.elapsed() < Duration::from_secs(60));
}
