//! Counts the posts and receives of a program by shape, while it runs, if statistics were requested.

use doorbell_launch::counts::board::Board;
use doorbell_launch::counts::process::{Process, ProcessCounts};
use doorbell_launch::counts::qp::{QpCounter, RecvCounter};
use doorbell_launch::stats::Stats;
use doorbell_launch::variables;
use doorbell_verbs::QpType;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering::*};

/// This process's record on the board, once something of the process is counted.
static CURRENT: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());

/// Whether anything is to be counted.
fn wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| std::env::var_os(variables::PROFILE).is_some_and(|name| !name.is_empty()))
}

/// The launcher's board. If there is none, or it no longer exists, a board of this process's own.
fn board() -> Option<&'static Board> {
    static BOARD: OnceLock<Option<&'static Board>> = OnceLock::new();
    *BOARD.get_or_init(|| {
        let launched = std::env::var(variables::COUNTS).ok().and_then(|address| Board::open(&address).ok());
        launched.or_else(|| Board::create().ok().map(|(_, board)| board))
    })
}

/// This process's record on the board, which the first call makes.
fn current() -> Option<&'static Process> {
    if !wanted() {
        return None;
    }
    let known = CURRENT.load(Acquire);
    if !known.is_null() {
        // SAFETY: set below from a leaked box.
        return Some(unsafe { &*known });
    }
    let made = Box::into_raw(Box::new(Process::new(board()?)?));
    match CURRENT.compare_exchange(std::ptr::null_mut(), made, AcqRel, Acquire) {
        // SAFETY: just leaked.
        Ok(_) => Some(unsafe { &*made }),
        // Another thread was faster. The record just made stays on the board, but without QPs it does not
        // count.
        // SAFETY: leaked by that thread.
        Err(other) => Some(unsafe { &*other }),
    }
}

/// The counters of a new QP's posts and receives; `None` if nothing is counted.
pub(crate) fn qp(num: u32, qp_type: QpType) -> Option<(QpCounter, RecvCounter)> {
    current()?.qp(num, qp_type)
}

/// Counts a call that posted `recvs` RECVs, of at most `sges` SGEs each, to an SRQ.
pub(crate) fn srq_posted(recvs: u32, sges: u32) {
    if recvs > 0
        && let Some(process) = current()
    {
        process.srq_posted(recvs, sges);
    }
}

/// Counts a message of `bytes` bytes that reached an XRC SRQ, because no QP of this process counts it.
pub(crate) fn srq_received(bytes: u32, is_write: bool) {
    if let Some(process) = current() {
        process.srq_received(bytes, is_write);
    }
}

/// Forgets the parent's record, because this process is a child of fork(2). If the child used the parent's
/// QPs, its posts would count as the parent's, because the QPs are the parent's.
fn forget() {
    CURRENT.store(std::ptr::null_mut(), Release);
}

/// The counts of this process, if it has any.
fn own() -> Option<ProcessCounts<'static>> {
    let known = CURRENT.load(Acquire);
    // SAFETY: set in `current` from a leaked box.
    (!known.is_null()).then(|| unsafe { &*known }.counts())
}

/// Arranges that the counts are reported when the process exits, and that a child of fork(2) starts without
/// any.
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

/// Reports the counts as the environment variables ask. The process is about to end.
extern "C" fn at_exit() {
    if let Some(counts) = own().filter(ProcessCounts::has_any)
        && let Some(stats) = Stats::of_environment()
    {
        stats.tell(&counts);
    }
}
