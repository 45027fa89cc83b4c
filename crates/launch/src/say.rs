//! Messages of the library and the launcher on standard error.

use crate::variables;
use std::fmt::Display;
use std::io::Write;
use std::sync::OnceLock;

/// Prints a line by one write, so that lines of other threads and processes do not split it.
pub fn say(line: impl Display) {
    let line = format!("doorbell: {line}\n");
    // There is no other place to report a failure.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// Whether the user has disabled the explanations of errors (`DOORBELL_QUIET=1`).
pub fn is_quiet() -> bool {
    static QUIET: OnceLock<bool> = OnceLock::new();
    *QUIET.get_or_init(|| std::env::var_os(variables::QUIET).is_some_and(|value| value == "1"))
}
