//! Measures a thread's time without its waits for a processor. On a busy machine every thread waits, so a
//! test that limits a duration must not count these waits.

use std::time::{Duration, Instant};

/// A wait without progress counts as a hang after this time. On an idle machine each wait takes less than a
/// second. On a busy machine, Linux 6.18 was seen to starve its RCU thread for a minute, until the kernel's
/// stall detector ran. Meanwhile system calls such as execve(2) and membarrier(2) waited.
pub(crate) const HANGS: Duration = Duration::from_secs(150);

/// A measurement of the thread that called `start`.
pub(crate) struct OwnTime {
    begin: Instant,
    waited: Duration,
}

impl OwnTime {
    pub(crate) fn start() -> OwnTime {
        OwnTime { waited: waited(), begin: Instant::now() }
    }

    /// The time since `start` for which this thread ran, slept or was blocked.
    pub(crate) fn elapsed(&self) -> Duration {
        let elapsed = self.begin.elapsed();
        elapsed.saturating_sub(waited() - self.waited)
    }

    /// Whether a wait of this thread that began at `start` counts as a hang.
    pub(crate) fn is_hang(&self) -> bool {
        self.begin.elapsed() > HANGS && self.elapsed() > HANGS
    }
}

/// The time for which this thread was ready but not running: the second number of `schedstat`, which is in
/// nanoseconds. The time is zero if the kernel does not report it.
fn waited() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let waited = stat.split(' ').nth(1).and_then(|nanoseconds| nanoseconds.parse().ok());
    Duration::from_nanos(waited.unwrap_or(0))
}
