//! Messages of the library on standard error.

use std::fmt::Display;
use std::io::Write;

/// Prints a line by one write, because other threads and processes write to standard error too.
pub fn say(line: impl Display) {
    let line = format!("doorbell: {line}\n");
    // A failure cannot be reported anywhere.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
