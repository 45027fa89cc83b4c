//! Messages of the library and the launcher on standard error.

use crate::variables;
use std::fmt::Display;
use std::io::{Error, ErrorKind};
use std::sync::OnceLock;

/// Prints a line by one write, so that lines of other threads and processes do not split it.
pub fn say(line: impl Display) {
    let line = format!("doorbell: {line}\n");
    let mut rest = line.as_bytes();
    while !rest.is_empty() {
        // A signal handler may interrupt this function and exit, and an exit handler then calls this function
        // again. So the lock of `std::io::stderr` must not be held here.
        // SAFETY: the bytes belong to this function.
        let written = unsafe { libc::write(libc::STDERR_FILENO, rest.as_ptr().cast(), rest.len()) };
        match usize::try_from(written) {
            Ok(written) => rest = &rest[written..],
            Err(_) if Error::last_os_error().kind() == ErrorKind::Interrupted => {}
            // There is no other place to report a failure.
            Err(_) => return,
        }
    }
}

/// Whether the user has disabled the explanations of errors (`DOORBELL_QUIET=1`).
pub fn is_quiet() -> bool {
    static QUIET: OnceLock<bool> = OnceLock::new();
    *QUIET.get_or_init(|| std::env::var_os(variables::QUIET).is_some_and(|value| value == "1"))
}
