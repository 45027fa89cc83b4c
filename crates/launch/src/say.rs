//! Messages of the library and the launcher on standard error.

use std::fmt::Display;
use std::io::Write;

/// Prints a line by one write, so that lines of other threads and processes do not split it.
pub fn say(line: impl Display) {
    let line = format!("doorbell: {line}\n");
    // There is no other place to report a failure.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
