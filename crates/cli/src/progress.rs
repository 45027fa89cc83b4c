//! Progress on stderr, and what interrupts.

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

/// What takes less is over before anybody asks how long it takes.
const PATIENCE: Duration = Duration::from_secs(2);

/// A flag that the first Ctrl-C or SIGTERM sets; the second ends the program at once.
pub(crate) fn interrupt() -> Result<Arc<AtomicBool>, Exit> {
    let interrupted = Arc::new(AtomicBool::new(false));
    signals::watch(&interrupted)
        .map_err(|e| Exit::failed(format!("cannot watch for Ctrl-C and SIGTERM: {e}")))?;
    Ok(interrupted)
}

/// Shows how much is done of what is planned, and how long the rest may take; nothing for the first two
/// seconds, nor where stderr is no terminal.
pub(crate) struct Bar {
    bar: ProgressBar,
    /// When it moved last, in milliseconds.
    last: Arc<AtomicU64>,
    /// Shows it after a while, unless it is over before.
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
            // It does nothing that panics, and if it did nobody would miss a bar.
            let _ = later.join();
        }
        self.bar.finish_and_clear();
    }
}

/// A bar of runs, without any yet.
pub(crate) fn bar() -> Bar {
    Bar::new("{elapsed:>4} {wide_bar} {pos}/{len} {left} {msg}", 0)
}

/// How long the rest may take, if each part of it takes what those took that are done; `last` is when the last of
/// them was, in milliseconds.
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
                // A text can be written to.
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
