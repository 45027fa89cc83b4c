//! Which process a number means: numbers are used again, with another start time.

use std::io;

/// A process, told from others that had or will have its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStart {
    /// The process's number; 0 for none.
    pub pid: u32,
    /// When it started, in clock ticks since boot.
    pub start_time: u64,
}

impl ProcessStart {
    /// The process that has this number, if it lives.
    ///
    /// # Errors
    /// If that cannot be found out.
    pub fn of(pid: u32) -> io::Result<Option<ProcessStart>> {
        Ok(start_time(pid)?.map(|start_time| ProcessStart { pid, start_time }))
    }

    /// Whether it is this very process that still runs.
    ///
    /// # Errors
    /// If that cannot be found out: it must not be taken for dead then.
    pub fn is_alive(&self) -> io::Result<bool> {
        Ok(self.pid != 0 && start_time(self.pid)? == Some(self.start_time))
    }
}

/// When a process started, unless it is gone or waits to be collected by its parent (proc(5)).
fn start_time(pid: u32) -> io::Result<Option<u64>> {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => Ok(start_time_in(&stat)),
        // It ended before the file was opened, or before it was read.
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
