//! The process that whoever has started `doorbell run` sees: it stands for the program.
//!
//! It is stopped, continued and ends as the program is and does. Signals that are sent to it alone are for the program.
//! Those that are sent to its process group reach the program without it, which is in that group too; only a second
//! process of the group can tell both apart, by whether they reach it as well. That is the monitor, the parent of the
//! program. Both tell each other what they know by one signal with a value, which comes behind all others that are
//! waiting, as its number is the greatest.

use super::signals::{self, Came};
use libc::{c_int, pid_t};
use rustix::process::{WaitOptions, getpid};
use std::io;
use std::os::fd::RawFd;

/// What the two tell each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrontMessage {
    /// This signal has come to the process in front, with a value if it was queued with one.
    Came(c_int, Option<u32>),
    /// The program was stopped by this signal. The process in front is to be ready for it.
    Stopped(c_int),
    /// The process in front is ready to be stopped by this signal.
    Ready(c_int),
    /// This signal has come to the monitor, which asks for the so-manyth time whether it comes to the process in front:
    /// the kernel drops what waits for one there when it is continued or stopped.
    Asks(c_int, u32),
    /// The same back: what had come before the question has been told.
    Answers(c_int, u32),
}

impl FrontMessage {
    /// The signal that carries it.
    pub(super) fn signal() -> c_int {
        libc::SIGRTMAX()
    }

    /// Tells it to the other one.
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

    /// What the other one tells by a signal, if it is one of its.
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

/// What the monitor has to know of the process in front of it.
#[derive(Debug)]
pub(super) struct Front {
    pub(super) pid: pid_t,
    /// The signals that were blocked, and what a child's end did, which are the program's.
    pub(super) blocked: libc::sigset_t,
    pub(super) children: libc::sigaction,
}

/// Leaves this process to stand for the program; returns in another one, its monitor.
pub(super) fn put_before() -> io::Result<Front> {
    let blocked = signals::block(&signals::all());
    // Where they were ignored, nobody would learn how one has ended.
    let children = signals::set_action(libc::SIGCHLD, &signals::default_action());
    let pid = getpid().as_raw_pid();
    // SAFETY: this process has one thread, as the command has made none yet.
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

/// Stands for what the monitor watches, until that ends.
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
                // From now on it stops this process, which the monitor sees to.
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

/// Lets go of the files that are the program's: of pipes some wait for the end, and locks would stay. Those of `null`
/// become /dev/null, those of `kept` stay.
pub(super) fn release_files(null: &[RawFd], kept: &[RawFd]) {
    // By libc, as the numbers are nobody's: rustix replaces and closes what has an owner.
    // SAFETY: a string; numbers of files, which are either replaced or nobody's here.
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
