//! The file of `--csv`, to which points are written as they come.

use super::csv;
use crate::exit::{self, Exit};
use crate::trace;
use doorbell_lab::sweep::{Axis, Point};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

/// A file that gets a line for each point. Pipes get each line once, because the file stays open.
pub(super) struct Values<'a> {
    path: &'a Path,
    over: Vec<Axis>,
    state: Mutex<CsvFile>,
}

struct CsvFile {
    file: File,
    /// Whether the header is written.
    has_header: bool,
    has_failed: bool,
}

impl<'a> Values<'a> {
    /// Opens the file of a sweep over these options. It keeps its contents until the first point.
    ///
    /// # Errors
    /// If the file cannot be written, or the results are printed to it.
    pub(super) fn open(path: &'a Path, over: Vec<Axis>) -> Result<Values<'a>, Exit> {
        let opened = File::options().create(true).append(true).open(path);
        let file = opened.map_err(|error| super::cannot_write(path, &error))?;
        trace::check_unused(path, &file, &[])?;
        let state = CsvFile { file, has_header: false, has_failed: false };
        Ok(Values { path, over, state: Mutex::new(state) })
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
        if let Err(error) = state.write(&csv::lines(&self.over, !state.has_header, point)) {
            state.has_failed = true;
            if let Some(message) = super::cannot_write(self.path, &error).message {
                exit::say(&format!("doorbell: {}", exit::on_one_line(&exit::shortened(&message))));
            }
        }
    }
}

impl CsvFile {
    fn write(&mut self, lines: &str) -> io::Result<()> {
        // Pipes and devices cannot be truncated.
        if !self.has_header && self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.has_header = true;
        self.file.write_all(lines.as_bytes())
    }
}
