//! A process on a board.

use super::board::{Board, BoardRecord, Listed};
use super::qp::{QpCounter, QpCounts, QpRecord, RecvCounter, RecvCounts, RecvRecord};
use crate::process_start::ProcessStart;
use doorbell_verbs::QpType;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::*};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A process, as it lies on a board. Of one that becomes another program there are two.
#[repr(C)]
#[derive(Debug)]
struct ProcessRecord {
    before: AtomicU64,
    pid: AtomicU64,
    /// When it started, in clock ticks since boot.
    start_time: AtomicU64,
    /// Not 0 once its statistics have been told.
    told: AtomicU64,
    /// Where its command line is, and its bytes: the program's file and the arguments, each ended by a zero.
    command: AtomicU64,
    command_bytes: AtomicU64,
    /// The list of its QPs.
    qps: AtomicU64,
    /// What was posted to SRQs, and what has come to those of XRC.
    srq: RecvRecord,
}

// SAFETY: all are atomics.
unsafe impl BoardRecord for ProcessRecord {}

impl Listed for ProcessRecord {
    fn before(&self) -> &AtomicU64 {
        &self.before
    }
}

/// This process, which counts.
#[derive(Debug)]
pub struct Process {
    board: &'static Board,
    record: &'static ProcessRecord,
    srq: Mutex<RecvCounter>,
}

impl Process {
    /// Puts this process on a board; `None` where there is no room.
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

    /// The counters of a new QP; `None` where there is no room.
    pub fn qp(&self, num: u32, qp_type: QpType) -> Option<(QpCounter, RecvCounter)> {
        QpCounter::new(self.board, &self.record.qps, num, qp_type)
    }

    /// A thread that panicked while it counted left nothing half done that matters more than going on.
    fn srq(&self) -> MutexGuard<'_, RecvCounter> {
        self.srq.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call has posted so many RECVs to an SRQ, of at most so many SGEs.
    pub fn srq_posted(&self, recvs: u32, sges: u32) {
        self.srq().posted(recvs, sges);
    }

    /// A message of so many bytes has come to an SRQ of XRC.
    pub fn srq_received(&self, bytes: u32, is_write: bool) {
        self.srq().came(bytes, is_write);
    }

    /// What this process has counted.
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

/// What a process has counted, to be read while it counts or later.
#[derive(Clone, Copy, Debug)]
pub struct ProcessCounts<'b> {
    board: &'b Board,
    record: &'b ProcessRecord,
}

impl<'b> ProcessCounts<'b> {
    /// The processes on a board that have something to tell of, in the order in which they came there.
    pub(crate) fn on(board: &'b Board) -> impl Iterator<Item = ProcessCounts<'b>> {
        let records = board.listed::<ProcessRecord>(board.processes()).into_iter();
        records.map(move |record| ProcessCounts { board, record }).filter(ProcessCounts::has_any)
    }

    /// Whether it has made QPs, or posted to SRQs, for which those of XRC need none.
    pub fn has_any(&self) -> bool {
        self.record.qps.load(Relaxed) != 0 || self.srq().posts().next().is_some()
    }

    /// Its number.
    pub(crate) fn pid(&self) -> u32 {
        self.record.pid.load(Relaxed) as u32
    }

    /// Whether it still runs.
    pub(crate) fn is_alive(&self) -> bool {
        let process = ProcessStart { pid: self.pid(), start_time: self.record.start_time.load(Relaxed) };
        // Where that cannot be found out it may still tell.
        process.is_alive().unwrap_or(true)
    }

    /// Whether its statistics have been told.
    pub(crate) fn is_told(&self) -> bool {
        self.record.told.load(Acquire) != 0
    }

    /// Its statistics have been told.
    pub(crate) fn set_told(&self) {
        self.record.told.store(1, Release);
    }

    /// Whether something was not counted for want of room, be it of this process or of another.
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

    /// Its QPs in the order in which they were made.
    pub(crate) fn qps(&self) -> Vec<QpCounts> {
        let records = self.board.listed::<QpRecord>(&self.record.qps).into_iter();
        records.filter_map(|record| QpCounts::of(self.board, record)).collect()
    }

    /// What it has posted to SRQs, and what has come to those of XRC.
    pub(crate) fn srq(&self) -> RecvCounts {
        RecvCounts::of(self.board, &self.record.srq)
    }
}
