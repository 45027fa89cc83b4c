//! The record of a process on a board.

use super::board::{Board, BoardRecord, Listed};
use super::qp::{QpCounter, QpCounts, QpRecord, RecvCounter, RecvCounts, RecvRecord};
use crate::process_start::ProcessStart;
use doorbell_verbs::QpType;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A process on a board. A process that becomes another program (execve(2)) has two records.
///
/// The fields up to `command_bytes`, except `told`, are stored before `Board::list` publishes the record. So
/// they are stored and loaded Relaxed. The bytes of the command line are, too.
#[repr(C)]
#[derive(Debug)]
struct ProcessRecord {
    before: AtomicU64,
    pid: AtomicU64,
    /// Start time of the process, in clock ticks since boot.
    start_time: AtomicU64,
    /// Not 0 once the process's statistics have been reported.
    told: AtomicU64,
    /// Offset and bytes of the command line: the program's file and the arguments, each with a zero byte at
    /// its end.
    command: AtomicU64,
    command_bytes: AtomicU64,
    /// The list of the process's QPs.
    qps: AtomicU64,
    /// RECVs posted to SRQs, and messages received by SRQs of XRC.
    srq: RecvRecord,
}

// SAFETY: all fields are atomics.
unsafe impl BoardRecord for ProcessRecord {}

impl Listed for ProcessRecord {
    fn before(&self) -> &AtomicU64 {
        &self.before
    }
}

/// The counters of this process.
#[derive(Debug)]
pub struct Process {
    board: &'static Board,
    record: &'static ProcessRecord,
    srq: Mutex<RecvCounter>,
}

impl Process {
    /// Adds this process to a board. `None` if the board has no room, or /proc does not show the process.
    pub fn new(board: &'static Board) -> Option<Process> {
        let (at, record) = board.make::<ProcessRecord>()?;
        let command = command_line();
        let (command_at, room) = board.alloc::<AtomicU8>(command.len())?;
        room.iter().zip(&command).for_each(|(to, from)| to.store(*from, Relaxed));
        let own = ProcessStart::of(std::process::id()).ok()??;
        record.pid.store(own.pid.into(), Relaxed);
        record.start_time.store(own.start_time, Relaxed);
        record.command.store(command_at, Relaxed);
        record.command_bytes.store(command.len() as u64, Relaxed);
        board.list(board.processes(), at, record);
        Some(Process { board, record, srq: Mutex::new(RecvCounter::new(board, &record.srq)) })
    }

    /// The counters of a new QP; `None` if there is no room. `send_cq` is the index of the CQ of its sends.
    pub fn qp(&self, num: u32, qp_type: QpType, send_cq: u32) -> Option<(QpCounter, RecvCounter)> {
        QpCounter::new(self.board, &self.record.qps, (num, qp_type), send_cq)
    }

    /// The counter for SRQs, even if a thread has panicked while it held the lock.
    fn srq(&self) -> MutexGuard<'_, RecvCounter> {
        self.srq.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a call that posted `recvs` RECVs, of at most `sges` SGEs each, to an SRQ.
    pub fn srq_posted(&self, recvs: u32, sges: u32) {
        self.srq().posted(recvs, sges);
    }

    /// Counts a message of `bytes` bytes that reached an SRQ of XRC.
    pub fn srq_received(&self, bytes: u32, is_write: bool) {
        self.srq().came(bytes, is_write);
    }

    /// The counts of this process so far.
    pub fn counts(&self) -> ProcessCounts<'static> {
        ProcessCounts { board: self.board, record: self.record }
    }
}

/// The program's file and its arguments.
fn command_line() -> Vec<u8> {
    let mut arguments = std::env::args_os();
    let called = arguments.next().unwrap_or_default();
    let program = std::env::current_exe().map_or(called, Into::into);
    let mut line = Vec::new();
    for part in std::iter::once(program).chain(arguments) {
        line.extend(part.into_vec());
        line.push(0);
    }
    line
}

/// The counts of a process, which can be read while it counts or later.
#[derive(Clone, Copy, Debug)]
pub struct ProcessCounts<'b> {
    board: &'b Board,
    record: &'b ProcessRecord,
}

impl<'b> ProcessCounts<'b> {
    /// The processes on a board that have something to report, in the order in which they were added.
    pub(crate) fn on(board: &'b Board) -> impl Iterator<Item = ProcessCounts<'b>> {
        let records = board.listed::<ProcessRecord>(board.processes()).into_iter();
        records.map(move |record| ProcessCounts { board, record }).filter(ProcessCounts::has_any)
    }

    /// Whether the process has made QPs or posted to SRQs. A process with an SRQ of XRC may have no QP.
    pub fn has_any(&self) -> bool {
        // Relaxed: only the presence of a QP matters here. `qps` loads the list by Acquire.
        self.record.qps.load(Relaxed) != 0 || self.srq().posts().next().is_some()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.record.pid.load(Relaxed) as u32
    }

    /// Whether the process still runs.
    pub(crate) fn is_alive(&self) -> bool {
        let process = ProcessStart { pid: self.pid(), start_time: self.record.start_time.load(Relaxed) };
        // A process in an unknown state may still report its own counts.
        process.is_alive().unwrap_or(true)
    }

    /// Whether the process's statistics have been reported.
    pub(crate) fn is_told(&self) -> bool {
        self.record.told.load(Acquire) != 0
    }

    /// Marks the process's statistics as reported.
    pub(crate) fn set_told(&self) {
        // Release, for the Acquire in `is_told`: a launcher that sees the mark sees the reported counts, too.
        self.record.told.store(1, Release);
    }

    /// Whether the board had no room for a count of any process.
    pub(crate) fn is_incomplete(&self) -> bool {
        self.board.is_full()
    }

    /// The program's file and its arguments.
    pub(crate) fn command(&self) -> Vec<String> {
        let (at, len) = (self.record.command.load(Relaxed), self.record.command_bytes.load(Relaxed));
        let bytes = self.board.slice::<AtomicU8>(at, len as usize).unwrap_or_default();
        let bytes: Vec<u8> = bytes.iter().map(|byte| byte.load(Relaxed)).collect();
        let parts = bytes.strip_suffix(&[0]).unwrap_or_default().split(|byte| *byte == 0);
        parts.map(|part| std::ffi::OsStr::from_bytes(part).to_string_lossy().into_owned()).collect()
    }

    /// The counts of the process's QPs, in the order of their creation.
    pub(crate) fn qps(&self) -> Vec<QpCounts> {
        let records = self.board.listed::<QpRecord>(&self.record.qps).into_iter();
        records.filter_map(|record| QpCounts::of(self.board, record)).collect()
    }

    /// The RECVs that the process posted to SRQs, and the messages that SRQs of XRC received.
    pub(crate) fn srq(&self) -> RecvCounts {
        RecvCounts::of(self.board, &self.record.srq)
    }
}
