//! A file that is written while the simulation runs.

use std::io::{self, BufWriter, Write};

/// Bytes of the write buffer.
const BUFFER: usize = 1 << 16;

/// A file that keeps its first error and ignores everything after it. A full disk does not end a simulation.
pub(super) struct TraceFile {
    out: BufWriter<Box<dyn Write + Send>>,
    so_far: io::Result<()>,
}

impl TraceFile {
    pub(super) fn new(out: Box<dyn Write + Send>) -> TraceFile {
        TraceFile { out: BufWriter::with_capacity(BUFFER, out), so_far: Ok(()) }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) {
        if self.so_far.is_ok() {
            self.so_far = self.out.write_all(bytes);
        }
    }

    /// Writes the rest. Returns the first error, if any.
    pub(super) fn close(mut self) -> io::Result<()> {
        self.so_far?;
        self.out.flush()
    }
}
