//! An actor's findings: calls that take long, and anything else that should not be.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// For longer calls the time spent waiting for a processor is subtracted.
const SLOW: Duration = Duration::from_millis(20);
/// Passes after which the threads are listed again.
const LIST_EVERY: u32 = 32;
/// The most findings that are reported.
const MOST: usize = 8;

pub(super) struct Watch {
    /// The schedstat (proc(5)) of each thread of this process. Its second number counts nanoseconds of
    /// waiting for a processor. The device's own thread is one of them: if it has a lock and no processor, a
    /// call that needs the lock waits too.
    schedules: Vec<File>,
    passes: u32,
    waited: Duration,
    pub(super) longest: Duration,
    pub(super) longest_call: &'static str,
    pub(super) wrong: Vec<String>,
}

impl Watch {
    pub(super) fn new() -> Watch {
        let none = Duration::ZERO;
        Watch {
            schedules: Vec::new(),
            passes: 0,
            waited: none,
            longest: none,
            longest_call: "none",
            wrong: Vec::new(),
        }
    }

    /// How long the threads of this process have waited for a processor.
    fn waited(&self) -> Duration {
        self.schedules.iter().map(waited).sum()
    }

    /// Begins a pass. Any waiting from here on is attributed to the pass's calls.
    pub(super) fn begin_pass(&mut self) {
        if self.passes.is_multiple_of(LIST_EVERY) {
            self.schedules = schedules();
        }
        self.passes = self.passes.wrapping_add(1);
        self.waited = self.waited();
    }

    /// Measures a call of the program.
    pub(super) fn timed<T>(&mut self, call: &'static str, f: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let result = f();
        let mut took = begin.elapsed();
        if took > SLOW {
            took = took.saturating_sub(self.waited().saturating_sub(self.waited));
        }
        if took > self.longest {
            (self.longest, self.longest_call) = (took, call);
        }
        result
    }

    pub(super) fn say(&mut self, what: String) {
        if self.wrong.len() < MOST {
            self.wrong.push(what);
        }
    }
}

/// The schedstat of each thread.
fn schedules() -> Vec<File> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.filter_map(|thread| File::open(thread.path().join("schedstat")).ok()).collect()
}

fn waited(schedule: &File) -> Duration {
    number(schedule, 1)
}

/// A number of a schedstat: the time for which the thread ran, or waited for a processor.
fn number(schedule: &File, index: usize) -> Duration {
    let mut bytes = [0; 64];
    let read = schedule.read_at(&mut bytes, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..read]);
    let nanoseconds = text.split_whitespace().nth(index).and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// How long a call waited for something other than a processor. The time in which it ran does not count,
/// because AddressSanitizer and a busy machine lengthen it.
pub(super) fn blocked<T>(call: impl FnOnce() -> T) -> (T, Duration) {
    let excused = || {
        let own = File::open("/proc/thread-self/schedstat").map_or(Duration::ZERO, |own| number(&own, 0));
        own + schedules().iter().map(waited).sum()
    };
    let (begin, before) = (Instant::now(), excused());
    let result = call();
    (result, begin.elapsed().saturating_sub(excused().saturating_sub(before)))
}
