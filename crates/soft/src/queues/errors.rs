//! Reports on standard error why a QP is in error, one line for each life of a QP. A life begins when the QP
//! is created or reset. A NIC prints no such report.

use crate::engine::request::Request;
use crate::fabric::process::Process;
use crate::memory::cause::{Blame, Cause, Check};
use crate::memory::records::CauseRecord;
use crate::memory::windows::WindowError;
use doorbell_abi::{CEnum, status_name};
use doorbell_launch::say::{is_quiet, say};
use doorbell_verbs::{QpState, QpType, WcStatus};
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*};

/// Lines of one kind, of which a process prints only the first ones.
pub(super) struct FewLines {
    /// Number of lines until now. Relaxed: the count orders nothing. Each line only needs a number of its
    /// own.
    said: AtomicU32,
    /// The line that follows the last one.
    rest: &'static str,
}

/// The number of lines of a kind that a process prints.
const MOST: u32 = 20;

impl FewLines {
    pub(super) const fn new(rest: &'static str) -> FewLines {
        FewLines { said: AtomicU32::new(0), rest }
    }

    /// Prints a line, unless the process has printed [`MOST`] lines of this kind already.
    pub(super) fn say(&self, line: &str) {
        match self.said.fetch_add(1, Relaxed) {
            0..MOST => say(line),
            MOST => say(self.rest),
            _ => {}
        }
    }
}

/// Prints a line about a QP in error.
fn say_line(line: &str) {
    static LINES: FewLines = FewLines::new("further QPs in error are not explained");
    LINES.say(line);
}

/// Whether a QP's error was already reported in this life of the QP. A flag that orders nothing: the swap
/// only selects the thread that reports.
#[derive(Debug, Default)]
pub(crate) struct Said(AtomicBool);

impl Said {
    /// Marks the QP's error as reported. Returns `true` if this error is the first of the QP's life and the
    /// user has not disabled reports (`DOORBELL_QUIET=1`).
    pub(crate) fn is_first(&self) -> bool {
        !self.0.load(Relaxed) && !self.0.swap(true, Relaxed) && !is_quiet()
    }

    /// Suppresses reports for the rest of this life, because the program itself moves the QP to Err.
    pub(crate) fn set(&self) {
        self.0.store(true, Relaxed);
    }

    /// Allows another report, because a reset begins another life of the QP.
    pub(crate) fn forget(&self) {
        self.0.store(false, Relaxed);
    }
}

/// A failed send work request.
pub(crate) struct FailedSend<'a> {
    pub(crate) num: u32,
    pub(crate) qp_type: QpType,
    pub(crate) request: &'a Request<'a>,
    /// First PSN that the QP sends (`sq_psn`).
    pub(crate) sq_psn: u32,
    pub(crate) status: WcStatus,
    /// The responder's QP number, and its process's PID if known. The PID is 0 if it is not valid in this PID
    /// namespace.
    pub(crate) dest_qpn: u32,
    pub(crate) pid: Option<u32>,
    /// Text that says how long the requester waited for an answer; empty if the QP has no time-out.
    pub(crate) patience: String,
    pub(crate) cause: Cause,
}

impl FailedSend<'_> {
    /// Prints the report about the failed send work request.
    pub(crate) fn say(&self) {
        let FailedSend { num, qp_type, request, status, .. } = self;
        let Request { wr_id, op, len, number, .. } = request;
        let mut line = format!(
            "QP {num:#x} ({qp_type}) is in error: its work request {number} ({}, wr_id {wr_id:#x}, {len} bytes",
            op.name()
        );
        // `write!` to a `String` never fails, so its results are ignored.
        if let Some(at) = op.remote() {
            let _ = write!(line, " at {:#x} with rkey {:#x}", at.addr, at.rkey);
        }
        if *qp_type != QpType::Ud {
            let _ = write!(line, "; sq_psn {:#x}", self.sq_psn);
        }
        let _ = write!(line, ") failed with {}. {}: {}", status_name(*status), self.who(), self.cause);
        say_line(&line);
    }

    /// Names the QP that refused the request or did not answer. Returns "Local cause" if the requester itself
    /// failed.
    fn who(&self) -> String {
        let peer = format!("QP {:#x}{}", self.dest_qpn, of_process(self.pid.unwrap_or(0)));
        match self.status {
            _ if matches!(self.cause.check, Check::Killed | Check::NoInitiator) => "Local cause".into(),
            WcStatus::LocProtErr | WcStatus::LocQpOpErr => "Local cause".into(),
            WcStatus::RetryExcErr => format!("{peer} did not answer{}", self.patience),
            _ => format!("{peer} refused it"),
        }
    }
}

/// A failed work request for a memory window.
pub(crate) struct FailedWindow {
    pub(crate) num: u32,
    pub(crate) qp_type: QpType,
    /// The work request's number in its QP, from 1.
    pub(crate) number: u64,
    pub(crate) name: &'static str,
    pub(crate) wr_id: u64,
    pub(crate) status: WcStatus,
    pub(crate) why: WindowError,
}

impl FailedWindow {
    /// Prints the report about the failed work request.
    pub(crate) fn say(&self) {
        let FailedWindow { num, qp_type, number, name, wr_id, status, why } = self;
        say_line(&format!(
            "QP {num:#x} ({qp_type}) is in error: its work request {number} ({name}, wr_id {wr_id:#x}) \
             failed with {}. Local cause: {why}",
            status_name(*status)
        ));
    }
}

/// A send work request whose completion is lost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LostWr {
    /// The work request's number in its QP, from 1.
    pub(crate) number: u64,
    pub(crate) name: &'static str,
    pub(crate) wr_id: u64,
}

impl LostWr {
    pub(crate) fn of(request: &Request<'_>) -> LostWr {
        LostWr { number: request.number, name: request.op.name(), wr_id: request.wr_id }
    }
}

/// A QP whose CQ has lost the completion of a send work request.
pub(crate) struct LostCompletion {
    pub(crate) num: u32,
    pub(crate) qp_type: QpType,
    /// Maximum number of completions in the CQ.
    pub(crate) cqe: u32,
    pub(crate) lost: LostWr,
}

impl LostCompletion {
    /// Prints the report about the lost completion.
    pub(crate) fn say(&self) {
        let LostCompletion { num, qp_type, cqe, lost: LostWr { number, name, wr_id } } = self;
        say_line(&format!(
            "QP {num:#x} ({qp_type}) is in error: the CQ of its send work requests was full with {cqe} \
             completions, so the completion of work request {number} ({name}, wr_id {wr_id:#x}) is lost"
        ));
    }
}

/// Text that names a QP's process after the QP number; empty for PID 0.
pub(super) fn of_process(pid: u32) -> String {
    if pid == 0 { String::new() } else { format!(" of process {pid}") }
}

/// Reports why a QP of this process is in Err if a peer's request caused the error and the cause was
/// recorded.
pub(crate) fn say_of_responder(process: &Process, num: u32, said: &Said) {
    let index = process.segment.index_of(num);
    let (Some(qp), Some(record)) = (process.segment.qp(index), process.segment.cause(index)) else { return };
    if qp.shown().state() != QpState::Err.to_c() {
        return;
    }
    if let Some(blame) = record.read()
        && said.is_first()
    {
        let qp_type = QpType::from_c(qp.qp_type.load(Relaxed)).unwrap_or(QpType::Rc);
        say_line(&line_of_responder(num, qp_type, &blame));
    }
}

fn line_of_responder(num: u32, qp_type: QpType, blame: &Blame) -> String {
    let Blame { from, pid, claimer: _, opcode, number, cause } = blame;
    let (opcode, process) = (opcode.name(), of_process(*pid));
    let mut line = format!(
        "QP {num:#x} ({qp_type}) is in error because of work request {number} ({opcode}) of QP \
         {from:#x}{process}"
    );
    if cause.key != 0 || cause.addr != 0 {
        let _ = write!(line, " for {} bytes at {:#x} with key {:#x}", cause.len, cause.addr, cause.key);
    }
    let _ = write!(line, ": {cause}");
    line
}

/// Reads from the responder's `record` why it refused work request `number` of QP `from`, a QP of this
/// process. `None` if the record describes another request.
pub(crate) fn left_by(record: &CauseRecord, process: &Process, from: u32, number: u64) -> Option<Cause> {
    let blame = record.read()?;
    (blame.from == from && blame.number == number && blame.claimer == process.claimer).then_some(blame.cause)
}
