//! Signals that interrupt the command.

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

/// The signals that interrupt: SIGTERM from kill(1) and service managers, and SIGINT from Ctrl-C. SIGHUP
/// keeps its disposition, because nohup(1) makes the command ignore it.
const INTERRUPTS: [i32; 2] = [SIGTERM, SIGINT];

/// A second signal this soon after the first one only repeats it, because timeout(1) sends SIGTERM to the
/// command and to its process group.
const TOGETHER: Duration = Duration::from_secs(1);
/// So many signals end the command at once, however soon they follow each other. After so many signals that
/// end the command at once, the command exits without its last output.
const IMPATIENT: usize = 3;

/// The signal that interrupted the command.
static CAME: LazyLock<Arc<AtomicUsize>> = LazyLock::new(|| Arc::new(AtomicUsize::new(SIGINT as usize)));

/// The state of interrupts.
#[derive(Clone, Default)]
pub(crate) struct Interrupt {
    /// Set by the first signal. Work then ends with the results so far.
    pub(crate) flag: Arc<AtomicBool>,
    /// Set by a signal that ends the command at once.
    forced: Arc<AtomicBool>,
    /// Whether [`Interrupt::is_forced`] is polled. If not, such a signal exits.
    polled: Arc<AtomicBool>,
}

/// While this value lives, its owner polls [`Interrupt::is_forced`].
pub(crate) struct Polls<'a>(&'a Interrupt);

impl Drop for Polls<'_> {
    fn drop(&mut self) {
        self.0.polled.store(false, Ordering::SeqCst);
    }
}

impl Interrupt {
    /// Watches for signals.
    ///
    /// # Errors
    /// If the operating system refuses the handlers.
    pub(crate) fn watch() -> io::Result<Interrupt> {
        let interrupt = Interrupt::default();
        let mut signals = Signals::new(INTERRUPTS)?;
        for signal in INTERRUPTS {
            // The signal's number is stored before the flag is set, so that code that sees the flag can read
            // the number.
            flag::register_usize(signal, CAME.clone(), signal as usize)?;
            flag::register(signal, interrupt.flag.clone())?;
        }
        let Interrupt { flag, forced, polled } = interrupt.clone();
        thread::spawn(move || {
            let (mut first, mut number, mut forcing) = (None, 0, 0);
            for signal in signals.forever() {
                // A signal may have come before the flags were registered.
                CAME.store(signal as usize, Ordering::SeqCst);
                flag.store(true, Ordering::SeqCst);
                number += 1;
                let since = first.get_or_insert_with(Instant::now).elapsed();
                if !is_forced(number, since) {
                    continue;
                }
                forcing += 1;
                if forcing >= IMPATIENT || !polled.load(Ordering::SeqCst) {
                    std::process::exit(interrupted().into());
                }
                forced.store(true, Ordering::SeqCst);
            }
        });
        Ok(interrupt)
    }

    /// Makes a signal that ends the command at once set [`Interrupt::is_forced`], which the caller must poll
    /// until it drops the returned value. Otherwise such a signal exits.
    pub(crate) fn polls(&self) -> Polls<'_> {
        self.polled.store(true, Ordering::SeqCst);
        Polls(self)
    }

    /// Whether the command must exit at once.
    pub(crate) fn is_forced(&self) -> bool {
        self.forced.load(Ordering::SeqCst)
    }
}

/// Whether the signal with this number, from 1, ends the command at once. `since` is the time since the first
/// signal.
fn is_forced(number: usize, since: Duration) -> bool {
    number >= IMPATIENT || (number > 1 && since >= TOGETHER)
}

/// The exit code after a signal is this number plus the signal's number, as in shells.
const EXIT_OF_SIGNAL: i32 = 128;

/// Exit code after an interrupt by a signal.
pub(crate) fn interrupted() -> u8 {
    EXIT_OF_SIGNAL as u8 + CAME.load(Ordering::SeqCst) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_that_come_together_count_as_one() {
        let soon = Duration::from_millis(3);
        assert!(!is_forced(1, Duration::ZERO) && !is_forced(2, soon));
        assert!(is_forced(2, TOGETHER) && is_forced(3, soon));
    }
}
