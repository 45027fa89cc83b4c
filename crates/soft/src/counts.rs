//! What a program posts and receives, counted by shape while it runs, where somebody wants to know.

use doorbell_launch::counts::board::Board;
use doorbell_launch::counts::process::{Process, ProcessCounts};
use doorbell_launch::counts::qp::{QpCounter, RecvCounter};
use doorbell_launch::stats::Stats;
use doorbell_launch::variables;
use doorbell_verbs::QpType;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering::*};

/// This process on the board, once something of it is counted.
static CURRENT: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());

/// Whether anything is to be counted.
fn wanted() -> bool {
    static WANTED: OnceLock<bool> = OnceLock::new();
    *WANTED.get_or_init(|| std::env::var_os(variables::PROFILE).is_some_and(|name| !name.is_empty()))
}

/// The board of who launched this program; one of its own where there is none, or not any more.
fn board() -> Option<&'static Board> {
    static BOARD: OnceLock<Option<&'static Board>> = OnceLock::new();
    *BOARD.get_or_init(|| {
        let launched = std::env::var(variables::COUNTS).ok().and_then(|address| Board::open(&address).ok());
        launched.or_else(|| Board::create().ok().map(|(_, board)| board))
    })
}

/// This process on the board.
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
        // Another thread was faster; a process without QPs on the board is none.
        // SAFETY: leaked by that thread.
        Err(other) => Some(unsafe { &*other }),
    }
}

/// Who counts what a new QP posts, and what it receives, if that is counted.
pub(crate) fn qp(num: u32, qp_type: QpType) -> Option<(QpCounter, RecvCounter)> {
    current()?.qp(num, qp_type)
}

/// A call has posted so many RECVs to an SRQ, of at most so many SGEs.
pub(crate) fn srq_posted(recvs: u32, sges: u32) {
    if recvs > 0
        && let Some(process) = current()
    {
        process.srq_posted(recvs, sges);
    }
}

/// A message of so many bytes has come to an SRQ of XRC, for which no QP of this process counts it.
pub(crate) fn srq_received(bytes: u32, is_write: bool) {
    if let Some(process) = current() {
        process.srq_received(bytes, is_write);
    }
}

/// Leaves what a parent has counted to the parent: this process is a child of fork(2). What it should do with the
/// parent's QPs would count as the parent's, whose QPs they are.
fn forget() {
    CURRENT.store(std::ptr::null_mut(), Release);
}

/// What this process has counted.
fn own() -> Option<ProcessCounts<'static>> {
    let known = CURRENT.load(Acquire);
    // SAFETY: set in `current` from a leaked box.
    (!known.is_null()).then(|| unsafe { &*known }.counts())
}

/// Has what is counted told when the process ends, and left to the parent where it forks.
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

/// Tells what was counted, as the environment asks; the process ends.
extern "C" fn at_exit() {
    if let Some(counts) = own().filter(ProcessCounts::has_any)
        && let Some(stats) = Stats::of_environment()
    {
        stats.tell(&counts);
    }
}
