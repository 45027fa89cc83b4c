//! Identifies processes by PID and start time, because the kernel reuses PIDs.
//!
//! The kernel reports a start time in the time namespace of the process that asks (time_namespaces(7)). A
//! start time here is in the initial time namespace, so that all processes see equal numbers.

use std::io;
use std::path::Path;

/// A process. Its start time distinguishes it from other processes with an equal PID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStart {
    /// The PID; 0 for none.
    pub pid: u32,
    /// Start time of the process, in clock ticks since boot.
    pub start_time: u64,
}

/// Nanoseconds of a clock tick: the kernel reports times to programs in hundredths of a second.
const TICK: u64 = 10_000_000;

impl ProcessStart {
    /// The process with this PID, if it is alive.
    ///
    /// # Errors
    /// If its state cannot be determined.
    pub fn of(pid: u32) -> io::Result<Option<ProcessStart>> {
        Ok(start_time(pid)?.map(|start_time| ProcessStart { pid, start_time }))
    }

    /// Whether the process with this PID and this start time is alive.
    ///
    /// # Errors
    /// If its state cannot be determined. An error does not mean that the process is dead.
    pub fn is_alive(&self) -> io::Result<bool> {
        // The kernel rounds a time after it has added the namespace's offset, which need not be a number of
        // ticks. No PID is reused so soon that the tick beside is another process's.
        let is_it = |start_time: u64| start_time.abs_diff(self.start_time) <= 1;
        Ok(self.pid != 0 && start_time(self.pid)?.is_some_and(is_it))
    }
}

/// The start time of a process. `None` if the process does not exist, or is a zombie (proc(5)).
fn start_time(pid: u32) -> io::Result<Option<u64>> {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => Ok(start_time_in(&stat).map(|shown| without_offset(shown, own_offset()))),
        // It exited before the file was opened, or before it was read.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn start_time_in(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

/// A start time in the initial time namespace. `shown` has the offset of another one. A process that started
/// before the zero of that namespace has a start time that wrapped around.
fn without_offset(shown: u64, offset: i64) -> u64 {
    shown.wrapping_mul(TICK).wrapping_sub(offset as u64) / TICK
}

/// Nanoseconds by which this process's time namespace is ahead of the initial one; 0 on a kernel without time
/// namespaces.
///
/// The file describes the namespace of this process's children. Another namespace than its own is in that
/// place only between unshare(2) and execve(2). This process's own is then assumed to be the initial one.
fn own_offset() -> i64 {
    let offsets = std::fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
    let namespace = |name: &str| std::fs::read_link(Path::new("/proc/self/ns").join(name)).ok();
    match offset_in(&offsets) {
        Some(offset) if offset != 0 && namespace("time") == namespace("time_for_children") => offset,
        _ => 0,
    }
}

/// The offset of the clock that includes suspended time, from the lines of `timens_offsets`.
fn offset_in(offsets: &str) -> Option<i64> {
    let mut fields = offsets.lines().find_map(|line| line.strip_prefix("boottime"))?.split_ascii_whitespace();
    let (seconds, nanoseconds): (i64, i64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_time_is_the_same_in_all_time_namespaces() {
        let offsets = "monotonic           7         0\nboottime       -86400 500000000\n";
        let offset = offset_in(offsets).expect("it is there");
        assert_eq!(offset, -86_399_500_000_000);
        // The kernel adds the offset, and rounds down.
        let shown = |nanoseconds: u64, offset: i64| nanoseconds.wrapping_add_signed(offset) / TICK;
        for started in [1_000, 100_000].map(|seconds| seconds * 1_000_000_000) {
            assert!(without_offset(shown(started, offset), offset).abs_diff(shown(started, 0)) <= 1);
        }
        let started = 100_000 * 1_000_000_000;
        for nanoseconds in [0, 1, TICK / 2, TICK - 1] {
            for odd in [1, 3_333_333, TICK as i64 - 1] {
                let found = without_offset(shown(started + nanoseconds, odd), odd);
                assert!(found.abs_diff(shown(started + nanoseconds, 0)) <= 1, "{nanoseconds} {odd}");
            }
        }
        assert_eq!(offset_in(""), None);
        assert_eq!(offset_in("boottime 1"), None);
    }

    #[test]
    fn only_the_same_process_is_alive() {
        let own = ProcessStart::of(std::process::id()).expect("it can be read").expect("this process runs");
        let is_alive = |process: ProcessStart| process.is_alive().expect("it can be read");
        assert!(is_alive(own));
        assert!(!is_alive(ProcessStart { start_time: own.start_time + 2, ..own }));
        assert!(!is_alive(ProcessStart { pid: 0, ..own }));
    }
}
