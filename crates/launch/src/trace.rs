//! The file of a trace.

use crate::clock::monotonic_ns;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

/// Creates the file for a trace, and returns the value of [`TRACE`](crate::variables::TRACE).
pub(crate) fn begin(path: &Path, most: u64) -> io::Result<String> {
    File::create(path)?.write_all(b"[\n")?;
    Ok(format!("{}:{most}:{}", monotonic_ns(), std::path::absolute(path)?.display()))
}
