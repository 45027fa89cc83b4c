//! Signals that interrupt.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

/// Ctrl-C, and what kill(1) and service managers send. SIGHUP is left as it is: nohup(1) has it ignored.
const INTERRUPTS: [i32; 2] = [SIGTERM, SIGINT];

/// The signal that interrupted.
static CAME: LazyLock<Arc<AtomicUsize>> = LazyLock::new(|| Arc::new(AtomicUsize::new(SIGINT as usize)));

/// Sets a flag at the first Ctrl-C or SIGTERM; the second ends the program at once.
pub(crate) fn watch(interrupted: &Arc<AtomicBool>) -> io::Result<()> {
    INTERRUPTS.into_iter().try_for_each(|signal| watch_one(signal, interrupted))
}

/// What is done at a signal, in this order: who sees the flag asks which signal it was.
fn watch_one(signal: i32, interrupted: &Arc<AtomicBool>) -> io::Result<()> {
    flag::register_conditional_shutdown(signal, EXIT_OF_SIGNAL + signal, interrupted.clone())?;
    flag::register_usize(signal, CAME.clone(), signal as usize)?;
    flag::register(signal, interrupted.clone()).map(|_| ())
}

/// Exit codes of what a signal has ended are this and its number, as shells have it.
const EXIT_OF_SIGNAL: i32 = 128;

/// The exit code of this program where a signal interrupted it.
pub(crate) fn interrupted() -> u8 {
    EXIT_OF_SIGNAL as u8 + CAME.load(Ordering::SeqCst) as u8
}
