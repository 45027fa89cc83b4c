//! The waits of a run's processes, which the library records on the launcher's board.
//!
//! A signal may kill a process before it can explain anything. So each process records its waits while it
//! waits, and the launcher prints the record when it sees the signal.

use crate::counts::board::{Board, BoardRecord, Listed};
use crate::process_start::ProcessStart;
use crate::say::say;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::*, fence};
use std::time::Duration;

/// Most bytes of the explanations of a process.
const ROOM: usize = 4096;
/// If a process has exited, its waits are printed for this time. The signal that the launcher sees may have
/// killed the process, and on a busy machine its last record may be old.
const JUST_NOW: Duration = Duration::from_secs(60);

/// The waits of a process. Only the process writes the record.
#[repr(C)]
#[derive(Debug)]
struct WaitRecord {
    before: AtomicU64,
    pid: AtomicU64,
    /// Start time of the process, in clock ticks since boot.
    start_time: AtomicU64,
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
        let (at, record) = board.make::<WaitRecord>()?;
        let own = ProcessStart::of(std::process::id()).ok()??;
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
        record.time.store(now(), Relaxed);
        record.len.store(text.len() as u64, Relaxed);
        record.text.iter().zip(text.bytes()).for_each(|(to, from)| to.store(from, Relaxed));
        // Release: a reader that sees this version sees all stores before it.
        record.version.store(version.wrapping_add(2), Release);
    }
}

impl WaitRecord {
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

    /// Whether the process still runs, or was killed just now.
    fn is_of_now(&self, time: u64) -> bool {
        let (pid, start_time) = (self.pid.load(Relaxed) as u32, self.start_time.load(Relaxed));
        let is_alive = ProcessStart { pid, start_time }.is_alive().unwrap_or(true);
        is_alive || Duration::from_nanos(now().saturating_sub(time)) < JUST_NOW
    }
}

/// Prints why the processes on a board wait. Returns whether any process waits.
pub(crate) fn say_all(board: &Board) -> bool {
    let mut is_any = false;
    for record in board.listed::<WaitRecord>(board.waits()) {
        let Some((_, text)) = record.read().filter(|(time, _)| record.is_of_now(*time)) else { continue };
        for line in text.lines() {
            say(line);
            is_any = true;
        }
    }
    is_any
}

/// Nanoseconds of CLOCK_MONOTONIC, which all processes share.
fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
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
        assert!(say_all(board));
        own.set(&[]);
        assert_eq!(waits(board), [""]);
        assert!(!say_all(board));
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
    fn a_process_that_exited_long_ago_waits_for_nothing() {
        let (_, board) = Board::create().expect("a board");
        let own = OwnWaits::new(board).expect("there is room");
        own.set(&["line".into()]);
        let record = *own.0.lock().expect("nobody panics");
        record.start_time.store(1, Relaxed);
        assert!(say_all(board), "it was killed just now");
        record.time.store(1, Relaxed);
        assert!(!say_all(board));
    }
}
