//! Output of an interrupted command.

use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// The bit of SIGINT in the signal masks of `/proc/PID/status`.
const SIGINT: u64 = 1 << 1;

/// Whether the process already has a handler for Ctrl-C.
pub(crate) fn handles(child: &Child) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & SIGINT != 0))
}

/// Interrupts the command once it handles Ctrl-C, and returns its output.
pub(crate) fn interrupted(command: &mut Command) -> Output {
    signalled(command, "INT")
}

/// Sends a signal to a process.
pub(crate) fn signal(child: &Child, signal: &str) {
    let killed = Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status();
    assert!(killed.expect("there is a kill").success());
}

/// Sends this signal to the command once it handles Ctrl-C, and returns its output.
pub(crate) fn signalled(command: &mut Command, name: &str) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("doorbell runs");
    while !handles(&child) {
        assert!(
            child.try_wait().expect("it can be asked").is_none(),
            "it ended before it could be interrupted"
        );
        sleep(Duration::from_millis(5));
    }
    signal(&child, name);
    child.wait_with_output().expect("it ends")
}
