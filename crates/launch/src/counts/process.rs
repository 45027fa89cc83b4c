//! The record of a process on a board.

use super::board::{Board, BoardRecord, Listed};
use super::qp::{QpCounter, QpCounts, QpRecord, RecvCounter, RecvCounts, RecvRecord};
use crate::process_start::ProcessStart;
use doorbell_verbs::QpType;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A process on a board. A process that becomes another program (execve(2)) has two records.
#[repr(C)]
#[derive(Debug)]
struct ProcessRecord {
    before: AtomicU64,
    pid: AtomicU64,
    /// When it started, in clock ticks since boot.
    start_time: AtomicU64,
    /// Not 0 once its statistics have been reported.
    told: AtomicU64,
    /// Offset of its command line, and its bytes: the program's file and the arguments, each ended by a zero.
    command: AtomicU64,
    command_bytes: AtomicU64,
    /// The list of its QPs.
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

/// This process as a counter.
#[derive(Debug)]
pub struct Process {
    board: &'static Board,
    record: &'static ProcessRecord,
    srq: Mutex<RecvCounter>,
}

impl Process {
    /// Puts this process on a board; `None` if there is no room.
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

    /// The counters of a new QP; `None` if there is no room.
    pub fn qp(&self, num: u32, qp_type: QpType) -> Option<(QpCounter, RecvCounter)> {
        QpCounter::new(self.board, &self.record.qps, num, qp_type)
    }

    /// The counter for SRQs, also after a thread has panicked while it counted.
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
    /// The processes on a board with anything to report, in the order in which they came there.
    pub(crate) fn on(board: &'b Board) -> impl Iterator<Item = ProcessCounts<'b>> {
        let records = board.listed::<ProcessRecord>(board.processes()).into_iter();
        records.map(move |record| ProcessCounts { board, record }).filter(ProcessCounts::has_any)
    }

    /// Whether it has made QPs or posted to SRQs. A process needs no QP of its own for SRQs of XRC.
    pub fn has_any(&self) -> bool {
        self.record.qps.load(Relaxed) != 0 || self.srq().posts().next().is_some()
    }

    /// Its PID.
    pub(crate) fn pid(&self) -> u32 {
        self.record.pid.load(Relaxed) as u32
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&self) -> bool {
        let process = ProcessStart { pid: self.pid(), start_time: self.record.start_time.load(Relaxed) };
        // If its state cannot be determined, it may still report.
        process.is_alive().unwrap_or(true)
    }

    /// Whether its statistics have been reported.
    pub(crate) fn is_told(&self) -> bool {
        self.record.told.load(Acquire) != 0
    }

    /// Marks its statistics as reported.
    pub(crate) fn set_told(&self) {
        self.record.told.store(1, Release);
    }

    /// Whether something was not counted for want of room, in this process or in another.
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

    /// Its QPs, in the order in which they were made.
    pub(crate) fn qps(&self) -> Vec<QpCounts> {
        let records = self.board.listed::<QpRecord>(&self.record.qps).into_iter();
        records.filter_map(|record| QpCounts::of(self.board, record)).collect()
    }

    /// The RECVs that it posted to SRQs, and the messages received by SRQs of XRC.
    pub(crate) fn srq(&self) -> RecvCounts {
        RecvCounts::of(self.board, &self.record.srq)
    }
}
