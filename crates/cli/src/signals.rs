//! Signals that interrupt the command.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

/// The signals that interrupt: SIGTERM from kill(1) and service managers, and SIGINT from Ctrl-C. SIGHUP
/// keeps its disposition, because nohup(1) makes the command ignore it.
const INTERRUPTS: [i32; 2] = [SIGTERM, SIGINT];

/// The signal that interrupted the command.
static CAME: LazyLock<Arc<AtomicUsize>> = LazyLock::new(|| Arc::new(AtomicUsize::new(SIGINT as usize)));

/// Sets a flag at the first Ctrl-C or SIGTERM. A second signal ends the program at once.
pub(crate) fn watch(interrupted: &Arc<AtomicBool>) -> io::Result<()> {
    INTERRUPTS.into_iter().try_for_each(|signal| watch_one(signal, interrupted))
}

/// Registers the actions for a signal. The signal's number is stored before the flag is set, so that code
/// that sees the flag can read the number.
fn watch_one(signal: i32, interrupted: &Arc<AtomicBool>) -> io::Result<()> {
    flag::register_conditional_shutdown(signal, EXIT_OF_SIGNAL + signal, interrupted.clone())?;
    flag::register_usize(signal, CAME.clone(), signal as usize)?;
    flag::register(signal, interrupted.clone()).map(|_| ())
}

/// The exit code after a signal is this number plus the signal's number, as in shells.
const EXIT_OF_SIGNAL: i32 = 128;

/// Exit code after an interrupt by a signal.
pub(crate) fn interrupted() -> u8 {
    EXIT_OF_SIGNAL as u8 + CAME.load(Ordering::SeqCst) as u8
}
