//! Progress on stderr, and Ctrl-C.

use crate::exit::Exit;
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

/// Shows how many of `runs` are done; nothing where stderr is no terminal.
pub(crate) fn bar(runs: u64) -> ProgressBar {
    let bar = ProgressBar::new(runs);
    let style = ProgressStyle::with_template("{elapsed:>4} {wide_bar} {pos}/{len} {msg}");
    bar.set_style(style.expect("the template is constant"));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
