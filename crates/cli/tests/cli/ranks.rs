//! `doorbell run -n`: several processes of one program as one run.

use crate::common::{doorbell, library, text};
use crate::fits;
use crate::launch::{Running, as_in_a_terminal, state, until};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Output, Stdio};

/// `doorbell run` of a shell script with these options.
fn run(options: &[&str], script: &str) -> Command {
    let mut command = as_in_a_terminal();
    command.arg("run").args(options).arg("--lib").arg(library()).args(["--", "sh", "-c", script]);
    command
}

fn output(options: &[&str], script: &str) -> Output {
    run(options, script).stdin(Stdio::null()).output().expect("doorbell runs")
}

/// The lines of a text, sorted.
fn sorted(text: &[u8]) -> Vec<String> {
    let mut lines: Vec<String> = String::from_utf8_lossy(text).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn each_rank_is_told_who_it_is_and_heard_by_line() {
    let script = "echo $DOORBELL_RANK of $DOORBELL_SIZE; echo error >&2; cat; printf 'no end'";
    let mut command = run(&["-n", "3", "--quiet"], script);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("doorbell runs");
    child.stdin.take().expect("it is piped").write_all(b"word\n").expect("it is read");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", text(&output));
    let expected = ["0: 0 of 3", "0: no end", "0: word", "1: 1 of 3", "1: no end", "2: 2 of 3", "2: no end"];
    assert_eq!(sorted(&output.stdout), expected);
    assert_eq!(sorted(&output.stderr), ["0: error", "1: error", "2: error"]);
}

#[test]
fn hosts_have_addresses_one_behind_the_other() {
    let shown = |options: &[&str]| sorted(&output(options, "echo $DOORBELL_IP").stdout);
    assert_eq!(shown(&["--ip", "10.0.0.254"]), ["10.0.0.254"]);
    let ranks = shown(&["-n", "3", "--ip", "10.0.0.254"]);
    assert_eq!(ranks, ["0: 10.0.0.254", "1: 10.0.0.255", "2: 10.0.1.0"]);
    assert_eq!(shown(&["-n", "2", "--ip", "fd00::f"]), ["0: fd00::f", "1: fd00::10"]);
    assert_eq!(shown(&["-n", "1"]), ["0: "]);
}

#[test]
fn numbers_and_addresses_that_cannot_be_are_refused_in_a_sentence() {
    for (options, expected) in [
        (&["-n", "0"][..], "`0` is not a whole number from 1 to 2048"),
        (&["-n", "-3"], "`-3` is not a whole number from 1 to 2048"),
        (&["-n", "1000000000"], "`1000000000` is not a whole number from 1 to 2048"),
        (&["-n", "two"], "`two` is not a whole number from 1 to 2048"),
        (&["--ip", "10.0.0.300"], "`10.0.0.300` is not an IP address, such as 10.0.0.1 or fd00::1"),
        (
            &["--ip", "::1"],
            "::1 cannot be the address of a host: wildcard, broadcast, multicast, loopback and link-local \
             addresses",
        ),
        (&["--ip", "0.0.0.0"], "0.0.0.0 cannot be the address of a host: wildcard"),
        (&["-n", "2", "--ip", "126.255.255.254"], ""),
        (
            &["-n", "9", "--ip", "223.255.255.250"],
            "the address of a later rank would be a multicast, broadcast or loopback address",
        ),
    ] {
        let output = output(options, "echo ran");
        let (all, is_right) = (text(&output), expected.is_empty());
        assert_eq!(output.status.code(), Some(if is_right { 0 } else { 2 }), "{options:?}: {all}");
        assert!(is_right || all.lines().count() == 1 && all.contains(expected), "{options:?}: {all}");
    }
}

#[test]
fn a_run_ends_as_the_first_rank_that_fails() {
    for (script, code, signal) in [
        ("true", Some(0), None),
        ("[ $DOORBELL_RANK != 2 ] || exit 7", Some(7), None),
        ("[ $DOORBELL_RANK != 1 ] || kill -SEGV $$", None, Some(libc::SIGSEGV)),
    ] {
        let output = output(&["-n", "3"], script);
        assert_eq!((output.status.code(), output.status.signal()), (code, signal), "{script}");
    }
    let missing =
        doorbell().args(["run", "-n", "2", "--lib"]).arg(library()).args(["--", "/no/program"]).output();
    let missing = missing.expect("doorbell runs");
    assert_eq!((missing.status.code(), text(&missing).lines().count()), (Some(127), 1), "{}", text(&missing));
}

#[test]
fn what_cannot_be_printed_is_no_success() {
    let full = std::fs::File::options().write(true).open("/dev/full").expect("it is there");
    let output =
        run(&["-n", "2"], "echo word").stdin(Stdio::null()).stdout(full).output().expect("doorbell runs");
    let lost =
        ["doorbell: cannot print the output of rank 0: ", "doorbell: cannot print the output of rank 1: "];
    let said = sorted(&output.stderr);
    assert!(lost.iter().all(|lost| said.iter().any(|line| line.starts_with(lost))), "{said:?}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn where_one_fails_the_others_are_told_and_then_killed() {
    let script = "case $DOORBELL_RANK in
        0) exit 9;;
        1) trap 'echo told; exit 0' TERM;;
        2) trap 'echo deaf' TERM;;
        esac
        while :; do sleep 0.05; done";
    let output = output(&["-n", "3"], script);
    assert_eq!(output.status.code(), Some(9), "{}", text(&output));
    assert_eq!(sorted(&output.stdout), ["1: told", "2: deaf"]);
    let said = String::from_utf8_lossy(&output.stderr);
    for line in [
        "doorbell: rank 0 exited with code 9; the other ranks get SIGTERM in 5 s\n",
        "doorbell: sending SIGTERM to the ranks that still run: 1, 2\n",
        "doorbell: killing the ranks that do not exit: 2\n",
    ] {
        assert!(said.contains(line), "{said}");
    }
}

#[test]
fn what_is_signalled_reaches_every_rank_once() {
    let script = "trap 'echo interrupted; exit 5' INT
        trap 'echo told' USR1
        sleep 1000 &
        echo ready $$
        while :; do wait; done";
    let mut running = Running::new(run(&["-n", "2"], script));
    let ranks = [(); 2].map(|()| running.line("ready "));
    running.signal(libc::SIGUSR1);
    (0..2).for_each(|_| drop(running.line("told")));
    running.signal(libc::SIGTSTP);
    assert_eq!(running.stopped(), Some(libc::SIGSTOP));
    until("the ranks stop", || ranks.iter().all(|pid| state(pid) == Some('T')));
    running.signal(libc::SIGCONT);
    until("the ranks go on", || ranks.iter().all(|pid| state(pid) != Some('T')));
    // A terminal or timeout(1) signals the whole group.
    running.signal_group(libc::SIGINT);
    (0..2).for_each(|_| drop(running.line("interrupted")));
    assert_eq!(running.end().code(), Some(5));
}

/// Background jobs of a shell script ignore SIGINT, and jobs of nohup(1) ignore SIGHUP. If the run is such a
/// job, it and its ranks must ignore these signals, too.
#[test]
fn what_was_ignored_when_the_run_began_ends_nobody() {
    let mut command = run(&["-n", "2"], "trap 'echo told' USR1; echo ready $$; while :; do sleep 0.05; done");
    let ignore = || {
        for signal in [libc::SIGINT, libc::SIGHUP] {
            // SAFETY: the function takes only numbers.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        Ok(())
    };
    // SAFETY: the closure only makes system calls.
    unsafe { command.pre_exec(ignore) };
    let mut running = Running::new(command);
    let ranks = [(); 2].map(|()| running.line("ready "));
    running.signal(libc::SIGINT);
    running.signal(libc::SIGHUP);
    // This is longer than a run waits for ranks that it told to end.
    std::thread::sleep(std::time::Duration::from_millis(5500));
    assert!(ranks.iter().all(|pid| state(pid).is_some_and(|state| state != 'Z')), "{ranks:?}");
    running.signal(libc::SIGUSR1);
    (0..2).for_each(|_| drop(running.line("told")));
    running.signal(libc::SIGTERM);
    assert_eq!(running.end().signal(), Some(libc::SIGTERM));
}

#[test]
fn nothing_is_left_behind() {
    // One process in the rank's group, and one in its own session.
    let script = "sleep 1000 & echo left $!; setsid sleep 1000 & echo left $!";
    let mut running = Running::new(run(&["-n", "2"], script));
    let left = [(); 4].map(|()| running.line("left "));
    assert!(running.end().success());
    assert!(left.iter().all(|pid| state(pid).is_none()), "{left:?}");
    // Killing the run kills its ranks.
    let mut running = Running::new(run(&["-n", "2"], "echo ready $$; exec sleep 1000"));
    let ranks = [(); 2].map(|()| running.line("ready "));
    running.signal(libc::SIGKILL);
    assert_eq!(running.end().signal(), Some(libc::SIGKILL));
    until("the ranks end", || ranks.iter().all(|pid| matches!(state(pid), None | Some('Z'))));
}

#[test]
fn statistics_are_of_all_together() {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|folder| folder.join("ib_write_bw").is_file()) {
        return eprintln!("skipped: ib_write_bw is not installed");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let port =
        TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a port").port();
    let program = format!("ib_write_bw -p {port} -s 64 -n 1600 --post_list 16");
    let script = format!(
        "[ $DOORBELL_RANK != 0 ] || exec {program}
        for i in $(seq 200); do {program} 127.0.0.1 && exit; sleep 0.05; done; exit 1"
    );
    let json = folder.path().join("stats.json");
    let fabric = format!("cli-{}-ranks", std::process::id());
    let path = json.to_str().expect("text");
    let output = output(&["-n", "2", "--fabric", &fabric, "--stats", "--stats-json", path], &script);
    assert!(output.status.success(), "{}", text(&output));
    let found: Vec<_> = folder.path().read_dir().expect("it can be listed").flatten().collect();
    assert_eq!(found.len(), 1, "{found:?}");
    let found = serde_json::from_str(&std::fs::read_to_string(&json).expect("it is there")).expect("JSON");
    fits::only("run-stats-all", &found);
    assert_eq!(found["processes"].as_array().map(Vec::len), Some(2), "{found}");
    let said = String::from_utf8_lossy(&output.stderr);
    let reports = said.lines().filter(|line| line.starts_with("doorbell: ")).count();
    assert_eq!(reports, 1, "{said}");
}
