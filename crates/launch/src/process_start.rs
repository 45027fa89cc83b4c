//! Identifies processes by PID and start time, because the kernel reuses PIDs.

use std::io;

/// A process. Its start time distinguishes it from other processes with an equal PID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStart {
    /// The PID; 0 for none.
    pub pid: u32,
    /// Start time of the process, in clock ticks since boot.
    pub start_time: u64,
}

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
        Ok(self.pid != 0 && start_time(self.pid)? == Some(self.start_time))
    }
}

/// The start time of a process. `None` if the process does not exist, or is a zombie (proc(5)).
fn start_time(pid: u32) -> io::Result<Option<u64>> {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        Ok(stat) => Ok(start_time_in(&stat)),
        // The process exited before the file was opened, or before it was read.
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
