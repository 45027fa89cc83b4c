//! The file of `--csv`, to which points are written as they come.

use super::csv;
use super::layout::SweepLayout;
use crate::exit::{self, Exit};
use crate::output::Output;
use doorbell_lab::sweep::Point;
use std::io::{self, Write as _};
use std::sync::{Mutex, MutexGuard};

/// A file that gets a line for each point. Pipes get each line once, because the file stays open.
pub(super) struct Values {
    layout: SweepLayout,
    state: Mutex<CsvFile>,
}

struct CsvFile {
    file: Output,
    /// Whether the header is written.
    has_header: bool,
    has_failed: bool,
}

impl Values {
    /// The values of a sweep with these columns. The file keeps its contents until the first point.
    pub(super) fn new(file: Output, layout: SweepLayout) -> Values {
        let state = CsvFile { file, has_header: false, has_failed: false };
        Values { layout, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, CsvFile> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Writes a point. The first failure is printed at once, because the sweep may take hours. Later points
    /// are then left out.
    pub(super) fn put(&self, point: &Point) {
        self.write(&mut self.lock(), Some(point));
    }

    /// Ends the file. A file without points has the header.
    ///
    /// # Errors
    /// If the file lacks a point. The message is already printed.
    pub(super) fn finish(&self) -> Result<(), Exit> {
        let mut state = self.lock();
        if !state.has_header {
            self.write(&mut state, None);
        }
        if state.has_failed { Err(Exit { code: 2, message: None }) } else { Ok(()) }
    }

    fn write(&self, state: &mut CsvFile, point: Option<&Point>) {
        if state.has_failed {
            return;
        }
        if let Err(error) = state.write(&csv::lines(&self.layout, !state.has_header, point)) {
            state.has_failed = true;
            exit::say_message(&format!("cannot write {}: {error}", state.file.path().display()));
        }
    }
}

impl CsvFile {
    fn write(&mut self, lines: &str) -> io::Result<()> {
        self.has_header = true;
        self.file.write_all(lines.as_bytes())
    }
}
