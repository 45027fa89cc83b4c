//! Progress on stderr, and Ctrl-C.

use crate::exit::Exit;
use doorbell_lab::Watch;
use indicatif::{ProgressBar, ProgressStyle};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A flag that the first Ctrl-C sets; the second ends the program at once.
pub(crate) fn interrupt() -> Result<Arc<AtomicBool>, Exit> {
    let flag = Arc::new(AtomicBool::new(false));
    let set = flag.clone();
    let handler = move || {
        if set.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    ctrlc::set_handler(handler).map_err(|e| Exit::failed(format!("cannot watch for Ctrl-C: {e}")))?;
    Ok(flag)
}

/// Shows how many runs are done of those that are planned; nothing where stderr is no terminal.
pub(crate) struct Bar(ProgressBar);

impl Watch for Bar {
    fn planned(&self, runs: u64) {
        self.0.inc_length(runs);
    }

    fn done(&self, what: &str) {
        self.0.set_message(what.to_owned());
        self.0.inc(1);
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// A bar without runs.
pub(crate) fn bar() -> Bar {
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{elapsed:>4} {wide_bar} {pos}/{len} {msg}");
    bar.set_style(style.expect("the template is constant"));
    bar.enable_steady_tick(Duration::from_millis(200));
    Bar(bar)
}
