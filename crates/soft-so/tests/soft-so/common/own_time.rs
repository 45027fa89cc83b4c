//! The time of a thread without its waits for a processor. On a busy machine every thread waits. A test that
//! limits a duration does not count these waits.

use std::time::{Duration, Instant};

/// A wait without progress hangs if it takes this long. On an idle machine it ends within a second.
pub(crate) const HANGS: Duration = Duration::from_secs(60);

/// Measures one thread from `start` on.
pub(crate) struct OwnTime {
    begin: Instant,
    waited: Duration,
}

impl OwnTime {
    pub(crate) fn start() -> OwnTime {
        OwnTime { waited: waited(), begin: Instant::now() }
    }

    /// The time since `start` in which this thread ran, slept, or was blocked.
    pub(crate) fn elapsed(&self) -> Duration {
        let elapsed = self.begin.elapsed();
        elapsed.saturating_sub(waited() - self.waited)
    }

    /// Whether a wait of this thread hangs that began with `start`.
    pub(crate) fn is_hang(&self) -> bool {
        self.begin.elapsed() > HANGS && self.elapsed() > HANGS
    }
}

/// The time for which this thread has been ready but not running: the second number of `schedstat`, in
/// nanoseconds. Zero if the kernel does not report it.
fn waited() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = stat.split(' ').nth(1).and_then(|nanoseconds| nanoseconds.parse().ok());
    Duration::from_nanos(waited.unwrap_or(0))
}
