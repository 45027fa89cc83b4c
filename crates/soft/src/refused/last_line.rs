//! A line that is printed if a signal ends the process before the line is printed or given up. Programs that
//! do not check a result often end by SIGSEGV, and programs that assert a result end by SIGABRT.

use libc::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering::*};

/// The signals. Their handler is only set while a line waits, and only if the program has no handler.
const SIGNALS: [c_int; 9] = [
    libc::SIGSEGV,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
];

/// A line that waits.
pub(super) struct LastLine {
    text: String,
    /// Whether the line is still right. Only calls functions that are safe in signal handlers.
    is_right: Box<dyn Fn() -> bool + Send + Sync>,
}

impl LastLine {
    pub(super) fn new(line: &str, is_right: impl Fn() -> bool + Send + Sync + 'static) -> LastLine {
        LastLine { text: format!("doorbell: {line}\n"), is_right: Box::new(is_right) }
    }
}

/// The line; null if none waits. The thread that takes the pointer out of it owns the line.
static LINE: AtomicPtr<LastLine> = AtomicPtr::new(null_mut());
/// The process that has set the line. A child of fork(2) does not print it.
static PID: AtomicI32 = AtomicI32::new(0);

/// Sets the line, or gives up the last one. The caller ensures that no other thread sets a line now.
pub(super) fn set(line: Option<LastLine>) {
    if doorbell_launch::say::broken("r-signal") { return; }
    let on_signal = on_signal as *const () as usize;
    // Relaxed: the swap below publishes the number together with the line.
    PID.store(std::process::id().cast_signed(), Relaxed);
    let new = line.map_or(null_mut(), |line| Box::into_raw(Box::new(line)));
    // AcqRel: the handler in another thread reads the line that this thread has written.
    let before = LINE.swap(new, AcqRel);
    if !before.is_null() {
        // SAFETY: an earlier call made the pointer, and this thread has taken it.
        drop(unsafe { Box::from_raw(before) });
    }
    match (before.is_null(), new.is_null()) {
        (true, false) => SIGNALS.iter().for_each(|signal| replace(*signal, libc::SIG_DFL, on_signal)),
        (false, true) => SIGNALS.iter().for_each(|signal| replace(*signal, on_signal, libc::SIG_DFL)),
        _ => {}
    }
}

/// Replaces the handler of a signal if it is `from`.
fn replace(signal: c_int, from: usize, to: usize) {
    // SAFETY: the structs belong to this function. Any bytes are valid in them. The handler is a function of
    // this library, which is never unloaded.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(signal, std::ptr::null(), &mut action) != 0 || action.sa_sigaction != from {
            return;
        }
        let mut new: libc::sigaction = std::mem::zeroed();
        new.sa_sigaction = to;
        libc::sigaction(signal, &new, null_mut());
    }
}

/// Prints the line, and ends the process by the signal. Calls only functions that are safe in handlers. These
/// are libc's, because signal-safety(7) speaks of them alone.
extern "C" fn on_signal(signal: c_int) {
    // AcqRel, as in `set`.
    let line = LINE.swap(null_mut(), AcqRel);
    // SAFETY: the handler has taken the line. It never frees it, because free(3) is not safe in handlers.
    unsafe {
        if let Some(line) = line.as_ref()
            && libc::getpid() == PID.load(Relaxed)
            && (line.is_right)()
        {
            libc::write(libc::STDERR_FILENO, line.text.as_ptr().cast(), line.text.len());
        }
        // The signal is blocked until this function returns, and then ends the process.
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}
