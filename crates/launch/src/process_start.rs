//! Identifies processes by PID and start time, because the kernel reuses PIDs.
//!
//! The kernel reports a start time in the time namespace of the process that asks (time_namespaces(7)). A
//! start time here is in the initial time namespace, so that all processes see equal numbers.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::gettid;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

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

    /// Whether the process with this PID and this start time is alive. The call opens no file of a process
    /// that has exited.
    ///
    /// # Errors
    /// If its state cannot be determined. An error does not mean that the process is dead.
    pub fn is_alive(&self) -> io::Result<bool> {
        // The kernel rounds a time after it has added the namespace's offset, which need not be a number of
        // ticks. No PID is reused so soon that the tick beside is another process's.
        let is_it = |start_time: u64| start_time.abs_diff(self.start_time) <= 1;
        Ok(self.pid != 0 && !has_exited(self.pid) && start_time(self.pid)?.is_some_and(is_it))
    }
}

/// Whether the process with this PID has exited, by a pidfd and without /proc: the kernel removes an exited
/// process from /proc during the wait4(2) of the parent, and accesses to the process's files there prolong
/// this call. `false` if that cannot be found out.
fn has_exited(pid: u32) -> bool {
    /// Whether the kernel is older than Linux 5.3, valgrind(1) runs this process, or a seccomp(2) filter
    /// forbids the call. Relaxed: the flag orders nothing. An old value only leads to another call.
    static HAS_NO_PIDFDS: AtomicBool = AtomicBool::new(false);
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return false };
    if HAS_NO_PIDFDS.load(Relaxed) {
        return false;
    }
    match pidfd_open(pid, PidfdFlags::empty()) {
        // A pidfd is readable once all threads of the process have exited (pidfd_open(2)).
        Ok(process) => {
            let mut entry = [PollFd::new(&process, PollFlags::IN)];
            poll(&mut entry, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
        }
        Err(Errno::SRCH) => true,
        Err(error) => {
            // valgrind(1) prints a warning for each unknown call, and the kernel may log each forbidden one.
            HAS_NO_PIDFDS.fetch_or(matches!(error, Errno::NOSYS | Errno::PERM), Relaxed);
            false
        }
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

/// The start time in the text of a `stat` file. `None` if all threads of the process have ended.
fn start_time_in(stat: &str) -> Option<u64> {
    let mut fields = fields_of(stat)?;
    let has_ended = matches!(fields.next()?, "Z" | "X");
    // The main thread counts until the process is waited for, even if it has ended by pthread_exit(3).
    let threads: u32 = fields.nth(16)?.parse().ok()?;
    if has_ended && (threads <= 1 || crate::say::broken("n-threads")) {
        return None;
    }
    fields.nth(1)?.parse().ok()
}

/// The fields of a `stat` file from the state on (proc_pid_stat(5)). The state follows the name, which is in
/// parentheses and may contain any character.
fn fields_of(stat: &str) -> Option<impl Iterator<Item = &str>> {
    Some(stat.rsplit_once(')')?.1.split_ascii_whitespace())
}

/// The state of a thread, or of the main thread of a process, as a letter of proc_pid_stat(5): `T` is
/// stopped, `Z` is a zombie. `None` if the thread does not exist.
pub fn thread_state(thread: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    fields_of(&stat)?.next()?.chars().next()
}

/// A running thread of process `pid`, if the main thread has ended by pthread_exit(3) and the process lives.
///
/// The kernel has no memory and no files of a thread that has ended. The ID of the returned thread may take
/// the place of the PID in process_vm_writev(2) and in paths of /proc.
pub fn other_thread(pid: u32) -> Option<u32> {
    if crate::say::broken("n-thread") || has_exited(pid) || thread_state(pid) != Some('Z') {
        return None;
    }
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let mut ids = threads.filter_map(|thread| thread.file_name().to_str()?.parse().ok());
    ids.find(|thread| !matches!(thread_state(*thread), Some('Z' | 'X') | None))
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
    // Not /proc/self: the main thread may have ended, and then has no namespaces.
    let thread = gettid().as_raw_pid();
    let offsets = std::fs::read_to_string(format!("/proc/{thread}/timens_offsets")).unwrap_or_default();
    let namespace = |name: &str| std::fs::read_link(format!("/proc/{thread}/ns/{name}")).ok();
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
    use rustix::process::{WaitId, WaitIdOptions, waitid};

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
    fn a_pidfd_tells_which_process_has_exited() {
        assert!(!has_exited(std::process::id()));
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("cat is installed");
        let known = ProcessStart::of(child.id()).expect("it can be read").expect("it waits for input");
        assert!(!has_exited(child.id()) && known.is_alive().expect("it can be read"));
        drop(child.stdin.take());
        // The call leaves the child a zombie.
        let id = WaitId::Pid(Pid::from_child(&child));
        waitid(id, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).expect("a child");
        assert!(has_exited(child.id()) && !known.is_alive().expect("it can be read"));
        child.wait().expect("it ends");
        assert!(has_exited(child.id()) && !known.is_alive().expect("it can be read"));
        assert!(!has_exited(u32::MAX), "no PID");
    }

    #[test]
    fn a_process_lives_until_its_last_thread_has_ended() {
        let stat = |state: &str, threads: u32| {
            start_time_in(&format!("7 (a) b) {state} 1 2 3 0 -1 4 5 0 0 0 0 0 0 0 20 0 {threads} 0 4711 0"))
        };
        assert_eq!([stat("S", 1), stat("Z", 2)], [Some(4711); 2]);
        assert_eq!([stat("Z", 1), stat("X", 1)], [None; 2]);
        assert_eq!(other_thread(std::process::id()), None, "the main thread runs");
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
