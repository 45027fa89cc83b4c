//! A line that is printed if a signal ends the process before the line is printed or given up. Programs that
//! do not check a result often end by SIGSEGV, and programs that assert a result end by SIGABRT.

use libc::c_int;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering::*};

/// The signals. Their handler is only set while a line waits, and only if the program has no handler.
const SIGNALS: [c_int; 4] = [libc::SIGSEGV, libc::SIGABRT, libc::SIGINT, libc::SIGTERM];

/// The line; null if none waits. The thread that takes the pointer out of it owns the line.
static LINE: AtomicPtr<String> = AtomicPtr::new(null_mut());
/// The process that has set the line. A child of fork(2) does not print it.
static PID: AtomicI32 = AtomicI32::new(0);

/// Sets the line. The caller ensures that no other thread sets or clears it now.
pub(super) fn set(line: &str) {
    // Relaxed: `put` publishes the number together with the line.
    PID.store(std::process::id().cast_signed(), Relaxed);
    put(Box::into_raw(Box::new(format!("doorbell: {line}\n"))));
    for signal in SIGNALS {
        replace(signal, libc::SIG_DFL, on_signal as *const () as usize);
    }
}

/// Gives up the line.
pub(super) fn clear() {
    put(null_mut());
    for signal in SIGNALS {
        replace(signal, on_signal as *const () as usize, libc::SIG_DFL);
    }
}

fn put(line: *mut String) {
    // AcqRel: the handler in another thread reads the line that this thread has written.
    let before = LINE.swap(line, AcqRel);
    if !before.is_null() {
        // SAFETY: `set` made the pointer, and this thread has taken it.
        drop(unsafe { Box::from_raw(before) });
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

/// Prints the line, and ends the process by the signal. Calls only functions that are safe in handlers.
extern "C" fn on_signal(signal: c_int) {
    // AcqRel, as in `put`.
    let line = LINE.swap(null_mut(), AcqRel);
    // SAFETY: the handler has taken the line. It never frees it, because free(3) is not safe in handlers.
    unsafe {
        if let Some(line) = line.as_ref()
            && libc::getpid() == PID.load(Relaxed)
        {
            libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
        }
        // The signal is blocked until this function returns, and then ends the process.
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}
