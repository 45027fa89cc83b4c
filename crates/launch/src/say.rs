//! What the library says on standard error.

use std::fmt::Display;
use std::io::Write;

/// Says a line, in one piece: other threads and processes write there too.
pub fn say(line: impl Display) {
    let line = format!("doorbell: {line}\n");
    // There is nobody to tell where this fails.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
