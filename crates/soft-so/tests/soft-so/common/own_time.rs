//! Time of a thread without what it waited for a processor. A machine that does other work makes every thread wait;
//! a test that says how long something may take is about the rest.

use std::time::{Duration, Instant};

/// Measures from when it is made, on one thread.
pub(crate) struct OwnTime {
    begin: Instant,
    waited: Duration,
}

impl OwnTime {
    /// Begins to measure.
    pub(crate) fn start() -> OwnTime {
        OwnTime { waited: waited(), begin: Instant::now() }
    }

    /// The time since then in which this thread ran, slept, or was blocked.
    pub(crate) fn elapsed(&self) -> Duration {
        let elapsed = self.begin.elapsed();
        elapsed.saturating_sub(waited() - self.waited)
    }
}

/// How long this thread has been ready to run and did not: the second number of `schedstat`, in nanoseconds. Nothing where the
/// kernel does not say it.
fn waited() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = stat.split(' ').nth(1).and_then(|nanoseconds| nanoseconds.parse().ok());
    Duration::from_nanos(waited.unwrap_or(0))
}
