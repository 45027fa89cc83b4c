//! Messages of the library and the launcher on standard error.

use crate::variables;
use rustix::io::{Errno, write};
use std::fmt::Display;
use std::io::stderr;
use std::sync::OnceLock;

/// Prints a line by one write, so that lines of other threads and processes do not split it.
pub fn say(line: impl Display) {
    let line = format!("doorbell: {line}\n");
    let mut rest = line.as_bytes();
    while !rest.is_empty() {
        // A signal handler may interrupt this function and exit, and an exit handler then calls this function
        // again. So the lock of `std::io::stderr` must not be held here. Only its descriptor is used.
        match write(stderr(), rest) {
            Ok(written) => rest = &rest[written..],
            Err(Errno::INTR) => {}
            // There is no other place to report a failure.
            Err(_) => return,
        }
    }
}

/// break
pub fn broken(name: &str) -> bool {
    std::env::var_os("DOORBELL_BREAK").is_some_and(|value| value == name)
}

/// Whether the user has disabled the explanations of errors (`DOORBELL_QUIET=1`).
pub fn is_quiet() -> bool {
    static QUIET: OnceLock<bool> = OnceLock::new();
    *QUIET.get_or_init(|| std::env::var_os(variables::QUIET).is_some_and(|value| value == "1"))
}
