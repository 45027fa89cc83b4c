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

/// A message between the front process and the monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrontMessage {
    /// The front process has received this signal, with a value if it was queued with one.
    Came(c_int, Option<u32>),
    /// The program was stopped by this signal. The front process must prepare to be stopped by it.
    Stopped(c_int),
    /// The front process is ready to be stopped by this signal.
    Ready(c_int),
    /// The monitor has received this signal, and asks for the nth time whether the front process receives it
    /// too. The front process may have lost the signal: the kernel discards pending stop signals when a
    /// process is continued, and a pending SIGCONT when a process is stopped.
    Asks(c_int, u32),
    /// The answer to the nth question about this signal. The front process has reported all such signals that
    /// it received before the question.
    Answers(c_int, u32),
}

impl FrontMessage {
    /// The signal that carries messages.
    pub(super) fn signal() -> c_int {
        libc::SIGRTMAX()
    }

    /// Sends the message to the other process.
    pub(super) fn tell(self, to: pid_t) {
        let (kind, signal, value) = match self {
            FrontMessage::Came(signal, None) => (0, signal, 0),
            FrontMessage::Came(signal, Some(value)) => (1, signal, value),
            FrontMessage::Stopped(signal) => (2, signal, 0),
            FrontMessage::Ready(signal) => (3, signal, 0),
            FrontMessage::Asks(signal, time) => (4, signal, time),
            FrontMessage::Answers(signal, time) => (5, signal, time),
        };
        signals::send_value(to, FrontMessage::signal(), u64::from(value) << 32 | (signal as u64) << 8 | kind);
    }

    /// The message in a signal. `None` if the signal is no message of process `from`.
    pub(super) fn of(came: &Came, from: pid_t) -> Option<FrontMessage> {
        let told = came.value.filter(|_| came.signal == FrontMessage::signal() && came.from == from)?;
        let (signal, value) = ((told >> 8) as c_int & 0xff, (told >> 32) as u32);
        Some(match told & 0xff {
            0 => FrontMessage::Came(signal, None),
            1 => FrontMessage::Came(signal, Some(value)),
            2 => FrontMessage::Stopped(signal),
            3 => FrontMessage::Ready(signal),
            4 => FrontMessage::Asks(signal, value),
            _ => FrontMessage::Answers(signal, value),
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
                FrontMessage::Ready(signal).tell(monitor);
            }
            Some(FrontMessage::Asks(signal, time)) => FrontMessage::Answers(signal, time).tell(monitor),
            Some(_) => {}
            None if came.signal == libc::SIGCHLD => {}
            None => {
                if came.signal == libc::SIGCONT {
                    awaited = signals::all();
                    signals::block(&awaited);
                }
                if came.from != monitor {
                    FrontMessage::Came(came.signal, came.value.map(|value| value as u32)).tell(monitor);
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
