//! Records an actor's findings: its longest call, and all wrong results.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// For calls that take longer than this, the time spent waiting for a processor is subtracted.
const SLOW: Duration = Duration::from_millis(20);
/// The number of passes after which the threads of the process are listed again.
const LIST_EVERY: u32 = 32;
/// The most findings that are reported.
const MOST: usize = 8;

pub(super) struct Watch {
    /// The schedstat file (proc(5)) of each thread of this process, including the device's thread. If that
    /// thread holds a lock and waits for a processor, a call that needs the lock waits too.
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

    /// The total time for which the threads of this process have waited for a processor.
    fn waited(&self) -> Duration {
        self.schedules.iter().map(waited).sum()
    }

    /// Begins a pass. Waits for a processor from here on are subtracted from the slow calls of the pass.
    pub(super) fn begin_pass(&mut self) {
        if self.passes.is_multiple_of(LIST_EVERY) {
            self.schedules = schedules();
        }
        self.passes = self.passes.wrapping_add(1);
        self.waited = self.waited();
    }

    /// Makes a call of the program, and measures it.
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

/// Opens the schedstat file of each thread of this process.
fn schedules() -> Vec<File> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    threads.filter_map(|thread| File::open(thread.path().join("schedstat")).ok()).collect()
}

fn waited(schedule: &File) -> Duration {
    number(schedule, 1)
}

/// A number of a schedstat file, in nanoseconds. The thread ran for number 0, and waited for a processor for
/// number 1.
fn number(schedule: &File, index: usize) -> Duration {
    let mut bytes = [0; 64];
    let read = schedule.read_at(&mut bytes, 0).unwrap_or(0);
    let text = String::from_utf8_lossy(&bytes[..read]);
    let nanoseconds = text.split_whitespace().nth(index).and_then(|number| number.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// Makes a call. Returns its result, and the time for which the call waited for something other than a
/// processor. The time for which the thread ran does not count, because AddressSanitizer lengthens it.
pub(super) fn blocked<T>(call: impl FnOnce() -> T) -> (T, Duration) {
    let excused = || {
        let own = File::open("/proc/thread-self/schedstat").map_or(Duration::ZERO, |own| number(&own, 0));
        own + schedules().iter().map(waited).sum()
    };
    let (begin, before) = (Instant::now(), excused());
    let result = call();
    (result, begin.elapsed().saturating_sub(excused().saturating_sub(before)))
}
