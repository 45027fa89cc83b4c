//! `doorbell live` on the software NIC.

use crate::common::{doorbell, library, text};
use crate::{ctrl_c, fits};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

fn live(arguments: &[&str]) -> std::process::Output {
    doorbell().arg("live").arg("--lib").arg(library()).args(arguments).output().expect("doorbell runs")
}

/// One client.
const SMALL: [&str; 7] =
    ["--system", "rpc-sequencer", "--clients=1", "--cores=1", "--outstanding=1", "--warmup", "1ms"];

/// The duration of a measurement that takes `idle` milliseconds on an idle machine. On a busy machine, it
/// grows with the time that a thread waits for its turns at a processor.
fn duration(idle: u128) -> String {
    let begin = Instant::now();
    (0..TURNS).for_each(|_| std::thread::yield_now());
    format!("--duration={}ms", idle + 10 * begin.elapsed().as_millis())
}

/// Turns that [`duration`] measures.
const TURNS: u32 = 50;

#[test]
fn a_system_runs_on_this_machine() {
    let output = live(&[&SMALL[..], &[&duration(100), "--json"]].concat());
    assert!(output.status.success(), "{}", text(&output));
    let live: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    fits::only("live", &live);
    assert_eq!(live["device"]["name"], "doorbell0");
    let runs = live["runs"].as_array().expect("there are runs");
    let [run] = &runs[..] else { panic!("a system of one stack runs once: {live}") };
    assert!(run["done"].as_u64().is_some_and(|done| done > 0), "{run}");
    // If few operations completed, percentiles are unknown.
    let at = ["min", "p50", "p99", "p999"].map(|key| run["latency_ns"][key].as_u64());
    let known: Vec<u64> = at.into_iter().flatten().collect();
    assert!(known.is_sorted() && at[0] > Some(0), "{run}");
    // The output has either the counts, or the reason why there are no counts.
    assert_ne!(run["llc"].is_null(), run["no_llc"].is_null(), "{run}");
    // No value comes from a profile.
    assert!(run["workload"]["profile"].is_null() && run["workload"]["system"] == "rpc-sequencer", "{run}");
}

/// Runs every registered system that has the option `stack`.
#[test]
fn a_system_of_several_stacks_runs_over_each() {
    for system in doorbell_lab::systems_with("stack") {
        let output = live(&["--system", system, "--warmup", "1ms", &duration(100), "--json"]);
        assert!(output.status.success(), "{system}: {}", text(&output));
        let live: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let runs = live["runs"].as_array().expect("there are runs");
        let stacks: Vec<&Value> = runs.iter().map(|run| &run["workload"]["stack"]).collect();
        assert_eq!(stacks, ["rdma", "tcp"], "{system}");
        fits::only("live", &live);
        assert!(runs.iter().all(|run| run["done"].as_u64() > Some(0)), "{system}: {live}");
    }
}

#[test]
fn the_report_says_where_it_was_measured() {
    let output = live(&[&SMALL[..], &[&duration(100)]].concat());
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    for part in ["latency, p99.9", "Measured on this machine, not simulated: ", "device doorbell0 of "] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn an_interrupted_run_is_not_waited_for() {
    let mut command = doorbell();
    command.arg("live").arg("--lib").arg(library()).args(SMALL).arg("--duration=900s");
    let output = ctrl_c::interrupted(&mut command);
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    let message = "doorbell: interrupted: no run finished, so there is no result\n";
    assert_eq!(text(&output), message);
}

#[test]
fn a_run_without_an_operation_has_a_code_of_its_own() {
    let output = live(&[
        "--system",
        "join",
        "--clients",
        "1",
        "--tuples",
        "1000000",
        "--warmup",
        "1ms",
        "--duration",
        "1ms",
    ]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
    assert!(text(&output).contains("no operation completed in the measured time"), "{}", text(&output));
}

#[test]
fn what_cannot_be_is_one_sentence() {
    for (arguments, part) in [
        (&[][..], "name a system with --system"),
        (&["--system", "herd-kv", "--device", "9"], "no RDMA device with index 9"),
        (&["--system", "drtm-kv", "--cores", "2"], "cores (--cores) does not apply to drtm-kv"),
        (&["--system", "herd-kv", "--clients", "0"], "clients"),
        (&["--system", "shuffle", "--bytes", "240G"], "the run may take 240."),
        (&["--system", "herd-kv", "--verb", "read"], "--verb"),
        (&["--system", "herd-kv", "--until", "p99"], "leave until out"),
        (&["--system", "herd-kv", "--precision", "1%"], "leave precision out"),
        (&["--system", "herd-kv", "--max-time", "1s"], "leave max_time out"),
        (&["--system", "herd-kv", "/nonexistent/w.toml"], "/nonexistent/w.toml"),
    ] {
        let output = live(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output));
        assert!(text(&output).contains(part), "{arguments:?}: {}", text(&output));
    }
    let output = doorbell().args(["live", "--system", "herd-kv", "--lib", "/nonexistent/x.so"]).output();
    let output = output.expect("doorbell runs");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(text(&output).lines().count(), 1, "{}", text(&output));
}

/// On any machine, an operation takes at least as long as the server's computation. In the second case, the
/// server computes 1000 instructions for each of 65536 bytes, and no machine executes more than 20
/// instructions per nanosecond.
#[test]
fn what_a_server_computes_is_computed() {
    for (options, least) in
        [("--compute=20ms", 20_000_000.0), ("--size=65536 --step=1 --instructions=1000", 3e6)]
    {
        let duration = duration(500);
        let mut arguments = vec!["--system", "touch", "--stack=rdma", "--warmup=1ms", &duration, "--json"];
        arguments.extend(options.split(' '));
        let output = live(&arguments);
        assert!(output.status.success(), "{}", text(&output));
        let live: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
        let mean = live["runs"][0]["latency_ns"]["mean"].as_f64();
        assert!(mean.is_some_and(|mean| mean >= least), "{options}: {live}");
    }
}

/// Interrupts the command when it has a socket of TCP, because its run over TCP has then begun. The handler
/// of signals has sockets of another kind.
#[test]
fn an_interrupted_run_keeps_what_is_finished() {
    let mut command = doorbell();
    command.args(["live", "--system", "touch", "--warmup", "1ms", "--duration", "1s", "--json"]);
    command.arg("--lib").arg(library()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("doorbell runs");
    let process = PathBuf::from(format!("/proc/{}", child.id()));
    let inodes_of_tcp = || -> Vec<String> {
        let text = std::fs::read_to_string(process.join("net/tcp")).expect("it runs");
        let inode = |line: &str| line.split_whitespace().nth(9).map(str::to_owned);
        text.lines().skip(1).filter_map(inode).collect()
    };
    let has_tcp = || {
        let tcp = inodes_of_tcp();
        let files = std::fs::read_dir(process.join("fd")).expect("it runs");
        let mut links = files.filter_map(|file| file.ok()?.path().read_link().ok());
        links.any(|link| tcp.iter().any(|inode| link.to_string_lossy() == format!("socket:[{inode}]")))
    };
    while !has_tcp() {
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output));
    let live: Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let runs = live["runs"].as_array().expect("there are runs");
    let [run] = &runs[..] else { panic!("one had come to its end: {live}") };
    assert_eq!(run["workload"]["stack"], "rdma");
}
