//! Counts the posts and receives of a program while it runs, if statistics were requested.

use doorbell_launch::counts::board::Board;
use doorbell_launch::counts::process::{Process, ProcessCounts};
use doorbell_launch::counts::qp::{QpCounter, RecvCounter};
use doorbell_launch::stats::Stats;
use doorbell_launch::variables;
use doorbell_verbs::QpType;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering::*};

/// This process's record on the board; null until the process first counts something. Release publishes the
/// record to the threads that load the pointer by Acquire. The child of a fork(2) sets null while it has
/// only one thread, so that store needs no ordering. The Acquire of a change from null has no use.
static CURRENT: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());

/// Whether statistics were requested for this process.
fn wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| std::env::var_os(variables::PROFILE).is_some_and(|name| !name.is_empty()))
}

/// The launcher's board, or a board of this process's own if the launcher's board cannot be opened.
fn board() -> Option<&'static Board> {
    static BOARD: OnceLock<Option<&'static Board>> = OnceLock::new();
    *BOARD.get_or_init(|| {
        let launched = std::env::var(variables::COUNTS).ok().and_then(|address| Board::open(&address).ok());
        launched.or_else(|| Board::create().ok().map(|(_, board)| board))
    })
}

/// This process's record on the board, which the first call creates. `None` if nothing is counted.
fn current() -> Option<&'static Process> {
    if !wanted() {
        return None;
    }
    let known = CURRENT.load(Acquire);
    if !known.is_null() {
        // SAFETY: the pointer was set below from a leaked box.
        return Some(unsafe { &*known });
    }
    let made = Box::into_raw(Box::new(Process::new(board()?)?));
    match CURRENT.compare_exchange(std::ptr::null_mut(), made, AcqRel, Acquire) {
        // SAFETY: just leaked.
        Ok(_) => Some(unsafe { &*made }),
        // Another thread was faster. This thread's record stays on the board, but a record without QPs is not
        // counted.
        // SAFETY: leaked by that thread.
        Err(other) => Some(unsafe { &*other }),
    }
}

/// Counters for the posts and receives of a new QP; `None` if nothing is counted. `send_cq` is the index of
/// the CQ of its sends.
pub(crate) fn qp(num: u32, qp_type: QpType, send_cq: u32) -> Option<(QpCounter, RecvCounter)> {
    current()?.qp(num, qp_type, send_cq)
}

/// Counts a call that posted `recvs` RECVs to an SRQ, each with at most `sges` SGEs.
pub(crate) fn srq_posted(recvs: u32, sges: u32) {
    if recvs > 0
        && let Some(process) = current()
    {
        process.srq_posted(recvs, sges);
    }
}

/// Counts a message of `bytes` bytes that reached an XRC SRQ. No QP of this process counts the message.
pub(crate) fn srq_received(bytes: u32, is_write: bool) {
    if let Some(process) = current() {
        process.srq_received(bytes, is_write);
    }
}

/// Forgets the parent's record in the child of a fork(2). If the child uses the parent's QPs, its posts are
/// counted as posts of the parent, which owns the QPs.
fn forget() {
    CURRENT.store(std::ptr::null_mut(), Release);
}

/// The counts of this process; `None` if nothing was counted.
fn own() -> Option<ProcessCounts<'static>> {
    let known = CURRENT.load(Acquire);
    // SAFETY: set in `current` from a leaked box.
    (!known.is_null()).then(|| unsafe { &*known }.counts())
}

/// Arranges that the counts are reported when the process exits, and that a child of fork(2) starts without
/// counts.
pub(crate) fn tell_at_exit() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        // SAFETY: functions of this library, which is never unloaded.
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
            libc::atexit(at_exit);
        }
    });
}

extern "C" fn in_child() {
    forget();
}

/// Reports the counts at exit, in the form that the environment variables request.
extern "C" fn at_exit() {
    if let Some(counts) = own().filter(ProcessCounts::has_any)
        && let Some(stats) = Stats::of_environment()
    {
        stats.tell(&counts);
    }
}
