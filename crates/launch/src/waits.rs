//! The waits of a run's processes, which the library records on the launcher's board.
//!
//! A signal may kill a process before it can explain anything. So each process records its waits while it
//! waits, and the launcher prints the record when it sees the signal.

use crate::clock::monotonic_ns;
use crate::counts::board::{Board, BoardRecord, Listed};
use crate::process_start::ProcessStart;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::*, fence};
use std::time::Duration;

/// Maximum number of bytes of the explanations of a process.
const ROOM: usize = 4096;
/// The waits of a process are printed for this time after its last record. The process may have been killed
/// by the signal that the launcher sees, or may have become another program by execve(2). On a busy machine
/// the last record of a process that waits may be a few seconds old.
const JUST_NOW: Duration = Duration::from_secs(20);
/// The same time for a process that has called exit(3). A signal to the process group may have made it exit
/// before the launcher sees the signal.
const JUST_EXITED: Duration = Duration::from_secs(1);

/// The waits of a process. Only the process writes the record.
#[repr(C)]
#[derive(Debug)]
struct WaitRecord {
    before: AtomicU64,
    pid: AtomicU64,
    /// Start time of the process, in clock ticks since boot.
    start_time: AtomicU64,
    /// Not 0 once the process has called exit(3).
    exited: AtomicU64,
    /// Odd while the process changes the rest of the record.
    version: AtomicU64,
    /// Time of the last change, in nanoseconds of CLOCK_MONOTONIC.
    time: AtomicU64,
    /// Bytes of the text, which has one line for each wait.
    len: AtomicU64,
    text: [AtomicU8; ROOM],
}

// SAFETY: all fields are atomics.
unsafe impl BoardRecord for WaitRecord {}

impl Listed for WaitRecord {
    fn before(&self) -> &AtomicU64 {
        &self.before
    }
}

/// The record of this process's waits.
#[derive(Debug)]
pub struct OwnWaits(Mutex<&'static WaitRecord>);

impl OwnWaits {
    /// Adds a record of this process to a board. `None` if the board has no room, or /proc does not show the
    /// process.
    pub fn new(board: &'static Board) -> Option<OwnWaits> {
        let own = ProcessStart::of(std::process::id()).ok()??;
        // Before execve(2), this process was another program, which waits for nothing any more.
        let records = board.listed::<WaitRecord>(board.waits()).into_iter();
        records.filter(|old| old.process() == own).for_each(|old| old.time.store(0, Relaxed));
        let (at, record) = board.make::<WaitRecord>()?;
        record.pid.store(own.pid.into(), Relaxed);
        record.start_time.store(own.start_time, Relaxed);
        board.list(board.waits(), at, record);
        Some(OwnWaits(Mutex::new(record)))
    }

    /// Records the process's waits, and the time.
    pub fn set(&self, lines: &[String]) {
        let record = *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut text = String::new();
        for line in lines.iter().take_while(|line| line.len() < ROOM) {
            if text.len() + line.len() < ROOM {
                text.push_str(line);
                text.push('\n');
            }
        }
        let version = record.version.load(Relaxed);
        record.version.store(version.wrapping_add(1), Relaxed);
        // Release: a reader that sees a later store of this function also sees the odd version.
        fence(Release);
        record.time.store(monotonic_ns(), Relaxed);
        record.len.store(text.len() as u64, Relaxed);
        record.text.iter().zip(text.bytes()).for_each(|(to, from)| to.store(from, Relaxed));
        // Release: a reader that sees this version sees all stores before it.
        record.version.store(version.wrapping_add(2), Release);
    }

    /// Records that this process has called exit(3).
    pub fn end(&self) {
        let record = *self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // Relaxed: the words order nothing.
        record.time.store(monotonic_ns(), Relaxed);
        record.exited.store(1, Relaxed);
    }
}

impl WaitRecord {
    /// The process that the record belongs to.
    fn process(&self) -> ProcessStart {
        // The fields were stored before the record was listed.
        ProcessStart { pid: self.pid.load(Relaxed) as u32, start_time: self.start_time.load(Relaxed) }
    }

    /// Time of the last change, and the text. `None` if the process changes the record all the time.
    fn read(&self) -> Option<(u64, String)> {
        for _ in 0..1000 {
            // Acquire: the other fields are read after the version.
            let version = self.version.load(Acquire);
            let (time, len) = (self.time.load(Relaxed), self.len.load(Relaxed));
            let bytes = self.text.iter().take(len as usize).map(|byte| byte.load(Relaxed)).collect();
            // Acquire: the version is read again after the other fields.
            fence(Acquire);
            if version.is_multiple_of(2) && self.version.load(Relaxed) == version {
                return Some((time, String::from_utf8(bytes).unwrap_or_default()));
            }
            std::thread::yield_now();
        }
        None
    }

    /// Whether the record of this time is so new that the process still waits, or did so until just now.
    fn is_of_now(&self, time: u64) -> bool {
        let has_exited = self.exited.load(Relaxed) != 0;
        let limit = if has_exited { JUST_EXITED } else { JUST_NOW };
        Duration::from_nanos(monotonic_ns().saturating_sub(time)) < limit
    }
}

/// Why the processes on a board wait, one line for each wait.
pub(crate) fn lines(board: &Board) -> Vec<String> {
    let records = board.listed::<WaitRecord>(board.waits()).into_iter();
    let texts = records.filter_map(|record| record.read().filter(|(time, _)| record.is_of_now(*time)));
    texts.flat_map(|(_, text)| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(board: &Board) -> Vec<String> {
        let records = board.listed::<WaitRecord>(board.waits());
        records.into_iter().filter_map(|record| record.read()).map(|(_, text)| text).collect()
    }

    #[test]
    fn lines_are_read_as_they_were_recorded() {
        let (_, board) = Board::create().expect("a board");
        let own = OwnWaits::new(board).expect("there is room");
        assert_eq!(waits(board), [""]);
        own.set(&["one".into(), "other".into()]);
        assert_eq!(waits(board), ["one\nother\n"]);
        assert_eq!(lines(board), ["one", "other"]);
        own.set(&[]);
        assert_eq!(waits(board), [""]);
        assert!(lines(board).is_empty());
        // Lines that have no room are left out.
        own.set(&["x".repeat(ROOM - 1), "y".into()]);
        assert_eq!(waits(board), ["x".repeat(ROOM - 1) + "\n"]);
    }

    #[test]
    fn a_record_of_any_bytes_is_read() {
        let (_, board) = Board::create().expect("a board");
        let own = OwnWaits::new(board).expect("there is room");
        own.set(&["line".into()]);
        let record = *own.0.lock().expect("nobody panics");
        record.len.store(u64::MAX, Relaxed);
        record.text[0].store(0xff, Relaxed);
        assert_eq!(waits(board), [""]);
        record.version.store(1, Relaxed);
        assert!(waits(board).is_empty());
    }

    #[test]
    fn a_process_that_exited_or_records_nothing_more_waits_for_nothing() {
        let (_, board) = Board::create().expect("a board");
        let own = OwnWaits::new(board).expect("there is room");
        own.set(&["line".into()]);
        let record = *own.0.lock().expect("nobody panics");
        let ago = |time: Duration| {
            record.time.store(monotonic_ns().saturating_sub(time.as_nanos() as u64), Relaxed)
        };
        ago(JUST_NOW);
        assert!(lines(board).is_empty(), "it is another program by now, or was killed long ago");
        ago(2 * JUST_EXITED);
        assert_eq!(lines(board), ["line"], "it still waits, or was killed just now");
        own.end();
        assert_eq!(lines(board), ["line"], "it exited just now");
        ago(JUST_EXITED);
        assert!(lines(board).is_empty(), "it exited before");
    }

    #[test]
    fn a_program_after_another_by_execve_has_its_own_waits_only() {
        let (_, board) = Board::create().expect("a board");
        let before = OwnWaits::new(board).expect("there is room");
        before.set(&["before".into()]);
        let own = OwnWaits::new(board).expect("there is room");
        own.set(&["now".into()]);
        assert_eq!(lines(board), ["now"]);
    }
}
