//! Counts accesses to the last-level cache, if the machine has such counters and allows programs to read
//! them.

use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter, Group};
use std::io;
use thiserror::Error;

/// The reason why nothing is counted. A run continues without counts.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cache counters: {0}")]
pub struct NoCounters(String);

/// A thread's requests to the last-level cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheCounts {
    /// PERF_COUNT_HW_CACHE_REFERENCES of perf_event_open(2). On Intel processors, these are requests that
    /// reached the last-level cache. On other processors, the kernel chooses the event.
    pub references: u64,
    /// PERF_COUNT_HW_CACHE_MISSES: requests that missed in the last-level cache.
    pub misses: u64,
    /// Whether the counts include the kernel's work for the thread. The machine's settings may allow programs
    /// to count only their own work.
    pub with_kernel: bool,
}

/// Counters of the calling thread.
pub struct CacheCounters {
    group: Group,
    references: Counter,
    misses: Counter,
    with_kernel: bool,
}

impl CacheCounters {
    /// Starts counting.
    ///
    /// # Errors
    /// One line, if the machine has no such counters or does not allow programs to read them.
    pub fn start() -> Result<CacheCounters, NoCounters> {
        CacheCounters::of([Hardware::CACHE_REFERENCES, Hardware::CACHE_MISSES])
    }

    /// Starts counters of two events. They include the kernel's part unless the machine's settings forbid
    /// that.
    fn of<E: Event + Clone>(events: [E; 2]) -> Result<CacheCounters, NoCounters> {
        match CacheCounters::with(&events, true) {
            Err(error) if is_forbidden(&error) => CacheCounters::with(&events, false),
            outcome => outcome,
        }
        .map_err(|error| NoCounters(reason(&error)))
    }

    fn with<E: Event + Clone>(events: &[E; 2], with_kernel: bool) -> io::Result<CacheCounters> {
        let mut group = Group::new()?;
        let [references, misses] = events.clone().map(|event| {
            let mut builder = Builder::new(event);
            builder.exclude_kernel(!with_kernel);
            group.add(&builder)
        });
        let (references, misses) = (references?, misses?);
        group.enable()?;
        Ok(CacheCounters { group, references, misses, with_kernel })
    }

    /// Counts since [`CacheCounters::start`].
    ///
    /// # Errors
    /// If other programs used the processor's counters part of the time.
    pub fn stop(mut self) -> Result<CacheCounts, NoCounters> {
        let counted = self.group.disable().and_then(|()| self.group.read());
        let counted = counted.map_err(|error| NoCounters(reason(&error)))?;
        if counted.time_running() < counted.time_enabled() {
            let why =
                "other programs used the processor's counters part of the time (the NMI watchdog uses one)";
            return Err(NoCounters(why.into()));
        }
        Ok(CacheCounts {
            references: counted[&self.references],
            misses: counted[&self.misses],
            with_kernel: self.with_kernel,
        })
    }
}

fn is_forbidden(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

/// Describes the cause of an error of perf_event_open(2).
fn reason(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::EINVAL) => {
            "this machine has none (most virtual machines have none)".into()
        }
        Some(libc::ENOSYS) => "this kernel has none".into(),
        _ if is_forbidden(error) => {
            let setting = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
            let setting = setting.trim();
            format!(
                "this machine's settings forbid them (perf_event_paranoid is {setting}, but must be at most \
                 2)"
            )
        }
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use perf_event::events::Software;

    /// Touches this many pages for the first time.
    fn touch(pages: usize) {
        let mut memory = vec![0_u8; pages * 4096];
        memory.iter_mut().step_by(4096).for_each(|byte| *byte = std::hint::black_box(1));
        std::hint::black_box(memory);
    }

    /// Page faults while `run` runs, or `None` if they cannot be counted. Every kernel can count them, so
    /// this test also works on machines without cache counters.
    fn page_faults(run: impl FnOnce()) -> Option<u64> {
        match CacheCounters::of([Software::PAGE_FAULTS, Software::PAGE_FAULTS_MAJ]) {
            Ok(counters) => {
                run();
                Some(counters.stop().expect("nobody else wants them").references)
            }
            Err(none) => {
                eprintln!("skipped: {none}");
                None
            }
        }
    }

    /// Number of pages: more memory than an allocator keeps for reuse, with many faults even if pages are
    /// huge.
    const PAGES: usize = 40_000;

    #[test]
    fn what_is_counted_is_of_this_thread_since_the_start() {
        touch(PAGES);
        let others =
            || std::thread::scope(|scope| scope.spawn(|| touch(PAGES)).join()).expect("it does not panic");
        let (Some(of_others), Some(own)) = (page_faults(others), page_faults(|| touch(PAGES))) else {
            return;
        };
        assert!(2 * of_others < own, "{of_others} while another thread touched what {own} were for here");
    }

    #[test]
    fn without_counters_it_says_so_in_one_line() {
        let ended = CacheCounters::start().and_then(|counters| {
            touch(1000);
            counters.stop()
        });
        match ended {
            Ok(counts) => assert!(counts.references > 0, "{counts:?}"),
            Err(none) => assert!(none.to_string().lines().count() == 1, "{none}"),
        }
    }

    #[test]
    fn a_refusal_tells_its_cause() {
        let of = |errno| reason(&io::Error::from_raw_os_error(errno));
        assert!(of(libc::ENOENT).contains("has none"));
        assert!(of(libc::EACCES).contains("perf_event_paranoid is "));
        assert!(of(libc::EPERM).contains("perf_event_paranoid is "));
        assert_eq!(of(libc::EMFILE), io::Error::from_raw_os_error(libc::EMFILE).to_string());
    }
}
