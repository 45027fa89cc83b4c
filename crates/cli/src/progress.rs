//! The progress bar on stderr, and the flag for interrupts.

use crate::exit::Exit;
use crate::signals;
use doorbell_lab::Watch;
use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Delay before the bar appears. Shorter work needs no bar.
const PATIENCE: Duration = Duration::from_secs(2);

/// Returns a flag that the first Ctrl-C or SIGTERM sets. A second signal ends the program at once.
pub(crate) fn interrupt() -> Result<Arc<AtomicBool>, Exit> {
    let interrupted = Arc::new(AtomicBool::new(false));
    signals::watch(&interrupted)
        .map_err(|e| Exit::failed(format!("cannot watch for Ctrl-C and SIGTERM: {e}")))?;
    Ok(interrupted)
}

/// A progress bar. It shows finished runs, planned runs and the estimated remaining time. It appears after
/// [`PATIENCE`], and only if stderr is a terminal.
pub(crate) struct Bar {
    bar: ProgressBar,
    /// Time of the last progress, in milliseconds since the start.
    last: Arc<AtomicU64>,
    /// The thread that shows the bar after [`PATIENCE`]. Dropping the channel's sender ends the thread if the
    /// work ends earlier.
    later: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Watch for Bar {
    fn planned(&self, runs: u64) {
        self.bar.inc_length(runs);
    }

    fn done(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.bar.inc(1);
        self.moved();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        if let Some((over, later)) = self.later.take() {
            drop(over);
            // The thread does nothing that panics, and a missing bar would do no harm.
            let _ = later.join();
        }
        self.bar.finish_and_clear();
    }
}

/// A bar without planned runs.
pub(crate) fn bar() -> Bar {
    Bar::new("{elapsed:>4} {wide_bar} {pos}/{len} {left} {msg}", 0)
}

/// Estimated remaining time, if each remaining run takes as long as a finished run did on average. `last` is
/// the time of the last progress, in milliseconds since the start.
fn left(state: &ProgressState, last: u64) -> Option<Duration> {
    let rest = state.len()?.checked_sub(state.pos()).filter(|rest| *rest > 0 && state.pos() > 0)?;
    let rest = Duration::from_millis((last as f64 / state.pos() as f64 * rest as f64) as u64);
    Some(rest.saturating_sub(state.elapsed().saturating_sub(Duration::from_millis(last))))
}

impl Bar {
    fn new(template: &str, length: u64) -> Bar {
        let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template(template).expect("the template is constant");
        let last: Arc<AtomicU64> = Arc::default();
        let of = last.clone();
        bar.set_style(style.with_key("left", move |state: &ProgressState, text: &mut dyn Write| {
            if let Some(left) = left(state, of.load(Ordering::Relaxed)) {
                // Writing to a string cannot fail.
                let _ = write!(text, "{} left", HumanDuration(left));
            }
        }));
        let (over, wait) = mpsc::channel();
        let shown = bar.clone();
        let later = thread::spawn(move || {
            if wait.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
                shown.set_draw_target(ProgressDrawTarget::stderr());
                shown.enable_steady_tick(Duration::from_millis(200));
            }
        });
        Bar { bar, last, later: Some((over, later)) }
    }

    fn moved(&self) {
        self.last.store(self.bar.elapsed().as_millis() as u64, Ordering::Relaxed);
    }
}
