//! What an actor sees that should not be: calls that take long, and whatever else it finds wrong.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// From here on it is asked how much of a call was waiting for a processor.
const SLOW: Duration = Duration::from_millis(20);
/// So many things found wrong are told.
const MOST: usize = 8;

pub(super) struct Watch {
    /// This thread's schedstat (proc(5)), of which the second number counts nanoseconds of waiting for a processor.
    schedule: Option<File>,
    waited: Duration,
    pub(super) longest: Duration,
    pub(super) longest_call: &'static str,
    pub(super) wrong: Vec<String>,
}

impl Watch {
    pub(super) fn new() -> Watch {
        let schedule = File::open("/proc/thread-self/schedstat").ok();
        let none = Duration::ZERO;
        Watch { schedule, waited: none, longest: none, longest_call: "none", wrong: Vec::new() }
    }

    /// How long this thread has waited for a processor.
    fn waited(&self) -> Duration {
        let mut bytes = [0; 64];
        let read = self.schedule.as_ref().and_then(|file| file.read_at(&mut bytes, 0).ok()).unwrap_or(0);
        let text = String::from_utf8_lossy(&bytes[..read]);
        let nanoseconds = text.split_whitespace().nth(1).and_then(|number| number.parse().ok());
        Duration::from_nanos(nanoseconds.unwrap_or(0))
    }

    /// A pass begins: what is waited for from here on is known to be of its calls, at most.
    pub(super) fn begin_pass(&mut self) {
        self.waited = self.waited();
    }

    /// A call of the program's.
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
