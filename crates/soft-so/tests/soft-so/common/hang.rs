//! Detects programs that hang. The limit is in processor time, because a busy machine can delay a program for
//! any time.

use super::own_time::HANGS;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// The interval at which a guard checks its program.
pub(crate) const LOOK: Duration = Duration::from_secs(2);

/// The unit of times in proc_pid_stat(5).
const TICK: Duration = Duration::from_millis(10);

/// Guards a program and the processes that it started.
pub(crate) struct Guard {
    id: u32,
    /// Processor time at the last sign of progress.
    progress: Duration,
    /// Processor time at the last check, and the moment when it last changed.
    used: Duration,
    changed: Instant,
}

impl Guard {
    pub(crate) fn of(id: u32) -> Guard {
        Guard { id, progress: Duration::ZERO, used: Duration::ZERO, changed: Instant::now() }
    }

    /// Notes that the program has made progress.
    pub(crate) fn goes_on(&mut self) {
        let (used, now) = (processor_time(self.id), Instant::now());
        (self.progress, self.used, self.changed) = (used, used, now);
    }

    /// Whether the program hangs: without progress, its processes together used more than [`HANGS`] for each
    /// processor of the machine, or they used no processor time for longer than this.
    pub(crate) fn is_hang(&mut self) -> bool {
        self.hangs_with(processor_time(self.id), Instant::now())
    }

    fn hangs_with(&mut self, used: Duration, now: Instant) -> bool {
        if used != self.used {
            (self.used, self.changed) = (used, now);
        }
        let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        used.saturating_sub(self.progress) > HANGS * processors || now - self.changed > HANGS
    }
}

/// A process's parent, and the processor time of the process and of the children that it has waited for
/// (proc_pid_stat(5)).
struct Stat {
    parent: u32,
    used: Duration,
}

impl Stat {
    fn of(pid: u32) -> Option<Stat> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name before the state may contain spaces and parentheses. The state is field 3.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let number = |field: usize| fields.get(field - 3)?.parse::<u32>().ok();
        let used = [14, 15, 16, 17].into_iter().filter_map(number).sum::<u32>();
        Some(Stat { parent: number(4)?, used: TICK * used })
    }
}

/// The processor time of a process and all its descendants.
fn processor_time(id: u32) -> Duration {
    let entries = std::fs::read_dir("/proc").expect("it can be listed").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all: HashMap<u32, Stat> = pids.filter_map(|pid| Some((pid, Stat::of(pid)?))).collect();
    let is_below = |mut pid: u32| {
        while pid != id {
            match all.get(&pid) {
                Some(stat) => pid = stat.parent,
                None => return false,
            }
        }
        true
    };
    all.iter().filter(|(pid, _)| is_below(**pid)).map(|(_, stat)| stat.used).sum()
}

#[test]
fn a_program_hangs_that_computes_or_sleeps_for_too_long() {
    let (mut guard, begin) = (Guard::of(0), Instant::now());
    let seconds = Duration::from_secs;
    guard.changed = begin;
    assert!(!guard.hangs_with(seconds(0), begin + HANGS));
    assert!(guard.hangs_with(seconds(0), begin + HANGS + seconds(1)));
    // On a busy machine, the program gets little processor time over days. It does not hang.
    assert!(!guard.hangs_with(seconds(1), begin + 1000 * HANGS));
    assert!(!guard.hangs_with(seconds(2), begin + 2000 * HANGS));
    assert!(guard.hangs_with(2000 * HANGS, begin + 2001 * HANGS));
    guard.progress = 2000 * HANGS;
    assert!(!guard.hangs_with(2000 * HANGS, begin + 2001 * HANGS));
}

#[test]
fn processor_time_is_of_all_processes_below() {
    use std::os::unix::process::CommandExt;
    let mut shell = std::process::Command::new("sh");
    let script = "sh -c 'while :; do :; done' & wait";
    let mut child = shell.args(["-c", script]).process_group(0).spawn().expect("it starts");
    while processor_time(child.id()) < 5 * TICK {
        std::thread::sleep(TICK);
    }
    // SAFETY: the call takes only numbers. The group belongs to the child.
    unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
    child.wait().expect("it is a child");
}
