//! The front process: the process that the caller of `doorbell run` sees. It stands for the program.
//!
//! The front process is stopped, continued and ended like the program. A signal sent to the front process
//! alone is meant for the program. A signal sent to its process group reaches the program directly, because
//! the program is in this group. Only a second process of the group can distinguish the two cases: a signal
//! to the group reaches this process too. This second process is the monitor, the parent of the program. The
//! front process and the monitor exchange messages by one signal with a value. The signal has the greatest
//! number, so the kernel delivers it after all other pending signals.

use super::signals::{self, Came};
use libc::{c_int, pid_t};
use rustix::process::{WaitOptions, getpid};
use std::io;
use std::os::fd::RawFd;

/// A message from the front process to the monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MonitorMessage {
    /// The front process has received this signal, with a value if it was queued with one.
    Came(c_int, Option<u32>),
    /// The front process is ready to be stopped by this signal.
    Ready(c_int),
    /// The answer to the nth question about this signal. The front process has reported all such signals that
    /// it received before the question.
    Answers(c_int, u32),
}

/// A message from the monitor to the front process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrontMessage {
    /// The program was stopped by this signal. The front process must prepare to be stopped by it.
    Stopped(c_int),
    /// The monitor has received this signal, and asks for the nth time whether the front process receives it
    /// too. The front process may have lost the signal: the kernel discards pending stop signals when a
    /// process is continued, and a pending SIGCONT when a process is stopped.
    Asks(c_int, u32),
}

/// The signal that carries messages.
pub(super) fn message_signal() -> c_int {
    libc::SIGRTMAX()
}

/// The value of a signal that carries a message: the kind of the message, and its signal and value. The kinds
/// of both directions are different.
fn value_of(kind: u64, signal: c_int, value: u32) -> u64 {
    u64::from(value) << 32 | (signal as u64) << 8 | kind
}

/// The inverse of [`value_of`].
fn parts_of(told: u64) -> (u64, c_int, u32) {
    (told & 0xff, (told >> 8) as c_int & 0xff, (told >> 32) as u32)
}

/// The value of a signal that carries a message. `None` if the signal is no message of process `from`.
fn told(came: &Came, from: pid_t) -> Option<u64> {
    came.value.filter(|_| came.signal == message_signal() && came.from == from)
}

impl MonitorMessage {
    /// Sends the message to the monitor.
    fn tell(self, monitor: pid_t) {
        signals::send_value(monitor, message_signal(), self.to_value());
    }

    /// The message in a signal. `None` if the signal is no message of process `front`.
    pub(super) fn of(came: &Came, front: pid_t) -> Option<MonitorMessage> {
        MonitorMessage::from_value(told(came, front)?)
    }

    fn to_value(self) -> u64 {
        match self {
            MonitorMessage::Came(signal, None) => value_of(0, signal, 0),
            MonitorMessage::Came(signal, Some(value)) => value_of(1, signal, value),
            MonitorMessage::Ready(signal) => value_of(3, signal, 0),
            MonitorMessage::Answers(signal, time) => value_of(5, signal, time),
        }
    }

    fn from_value(told: u64) -> Option<MonitorMessage> {
        Some(match parts_of(told) {
            (0, signal, _) => MonitorMessage::Came(signal, None),
            (1, signal, value) => MonitorMessage::Came(signal, Some(value)),
            (3, signal, _) => MonitorMessage::Ready(signal),
            (5, signal, time) => MonitorMessage::Answers(signal, time),
            _ => return None,
        })
    }
}

impl FrontMessage {
    /// Sends the message to the front process.
    pub(super) fn tell(self, front: pid_t) {
        signals::send_value(front, message_signal(), self.to_value());
    }

    /// The message in a signal. `None` if the signal is no message of process `monitor`.
    fn of(came: &Came, monitor: pid_t) -> Option<FrontMessage> {
        FrontMessage::from_value(told(came, monitor)?)
    }

    fn to_value(self) -> u64 {
        match self {
            FrontMessage::Stopped(signal) => value_of(2, signal, 0),
            FrontMessage::Asks(signal, time) => value_of(4, signal, time),
        }
    }

    fn from_value(told: u64) -> Option<FrontMessage> {
        Some(match parts_of(told) {
            (2, signal, _) => FrontMessage::Stopped(signal),
            (4, signal, time) => FrontMessage::Asks(signal, time),
            _ => return None,
        })
    }
}

/// The state of the front process that the monitor needs.
#[derive(Debug)]
pub(super) struct Front {
    pub(super) pid: pid_t,
    /// The blocked signals and the action of SIGCHLD from before the launch. The program gets both.
    pub(super) blocked: libc::sigset_t,
    pub(super) children: libc::sigaction,
}

/// Makes this process the front process. Returns a value only in a child process, the monitor.
pub(super) fn put_before() -> io::Result<Front> {
    let blocked = signals::block(&signals::all());
    // If SIGCHLD were ignored, the exit status of a child would be lost.
    let children = signals::set_action(libc::SIGCHLD, &signals::default_action());
    let pid = getpid().as_raw_pid();
    // This calls libc, because rustix has no stable fork(2).
    // SAFETY: this process has one thread, because the command has started none yet.
    match unsafe { libc::fork() } {
        0 => Ok(Front { pid, blocked, children }),
        monitor if monitor > 0 => stand_for(monitor),
        _ => {
            let error = io::Error::last_os_error();
            signals::set_action(libc::SIGCHLD, &children);
            signals::block(&blocked);
            Err(error)
        }
    }
}

/// Stands for the program until the monitor exits, and then ends with the monitor's status.
fn stand_for(monitor: pid_t) -> ! {
    release_files(&[0, 1, 2], &[]);
    let mut awaited = signals::all();
    loop {
        let came = signals::next(&awaited);
        if let Some(ended) = signals::wait(monitor, WaitOptions::empty()) {
            signals::end_as(ended);
        }
        match FrontMessage::of(&came, monitor) {
            Some(FrontMessage::Stopped(signal)) => {
                // From now on, the signal stops this process. The monitor sends it again.
                awaited = signals::without(signals::all(), signal);
                signals::block(&awaited);
                MonitorMessage::Ready(signal).tell(monitor);
            }
            Some(FrontMessage::Asks(signal, time)) => MonitorMessage::Answers(signal, time).tell(monitor),
            None if came.signal == libc::SIGCHLD => {}
            None => {
                if came.signal == libc::SIGCONT {
                    awaited = signals::all();
                    signals::block(&awaited);
                }
                if came.from != monitor {
                    MonitorMessage::Came(came.signal, came.value.map(|value| value as u32)).tell(monitor);
                }
            }
        }
    }
}

/// Releases files that belong to the program. If this process kept them, a reader of a pipe would never see
/// its end, and locks would stay held. Descriptors in `null` become /dev/null, descriptors up to 2 and in
/// `kept` stay, and all other descriptors are closed.
pub(super) fn release_files(null: &[RawFd], kept: &[RawFd]) {
    // By libc, because these descriptors have no owner, and rustix only replaces and closes owned files.
    // SAFETY: the path is a C string. Each descriptor is either replaced or has no owner in this process.
    unsafe {
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
        for fd in null {
            libc::dup2(nothing, *fd);
        }
        for fd in open_files().into_iter().filter(|fd| *fd > 2 && !kept.contains(fd)) {
            libc::close(fd);
        }
    }
}

fn open_files() -> Vec<RawFd> {
    let entries = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_survives_its_value_in_its_own_direction() {
        let to_monitor = [
            MonitorMessage::Came(libc::SIGINT, None),
            MonitorMessage::Came(64, Some(u32::MAX)),
            MonitorMessage::Ready(libc::SIGTSTP),
            MonitorMessage::Answers(libc::SIGCONT, 1 << 31),
        ];
        for message in to_monitor {
            assert_eq!(MonitorMessage::from_value(message.to_value()), Some(message));
            assert_eq!(FrontMessage::from_value(message.to_value()), None);
        }
        for message in [FrontMessage::Stopped(libc::SIGTSTP), FrontMessage::Asks(64, u32::MAX)] {
            assert_eq!(FrontMessage::from_value(message.to_value()), Some(message));
            assert_eq!(MonitorMessage::from_value(message.to_value()), None);
        }
        assert_eq!(MonitorMessage::from_value(6), None);
    }
}
