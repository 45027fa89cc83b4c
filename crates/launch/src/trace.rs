//! The file of a trace, and the clock of its events.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn now() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Creates the file for a trace, and returns the value of [`TRACE`](crate::variables::TRACE).
pub(crate) fn begin(path: &Path, most: u64) -> io::Result<String> {
    File::create(path)?.write_all(b"[\n")?;
    Ok(format!("{}:{most}:{}", now(), std::path::absolute(path)?.display()))
}
