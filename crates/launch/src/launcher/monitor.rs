//! The parent of the program.

use super::front::{Front, FrontMessage, release_files};
use super::signals;
use libc::{c_int, pid_t};
use rustix::process::{Pid, WaitOptions, getpgrp, getppid, setpgid};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

/// What this process is called where others look for processes by their names: not as the one in front, so that a
/// signal for that one by its name does not look like one for their group.
const NAME: &std::ffi::CStr = c"run --stats";

/// The program, and the process that stands for it.
#[derive(Debug)]
pub(super) struct Monitor {
    front: pid_t,
    program: pid_t,
    /// The signals that have come to this process, by number.
    seen: [SignalCount; SIGNALS],
    /// The signal that has stopped the program.
    stopped: Option<c_int>,
}

/// A signal that has come to this process.
#[derive(Clone, Copy, Debug, Default)]
struct SignalCount {
    /// How often, as far as it has not come to the process in front as well.
    times: u32,
    /// How often that process was asked whether it has.
    asked: u32,
}

/// Numbers of signals, 0 included, which none has.
const SIGNALS: usize = 65;

impl Monitor {
    /// Starts the program. Of this process's files the program has what it should; this process keeps its standard
    /// error and `kept`.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) fn start(front: &Front, mut command: Command, kept: RawFd) -> io::Result<Monitor> {
        // The signal says that the process in front has died. By libc: rustix has names for other signals alone.
        // SAFETY: takes numbers.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, FrontMessage::signal(), 0, 0, 0) };
        let _ = rustix::thread::set_name(NAME);
        signals::for_child(&mut command, front.blocked, front.children);
        let program = command.spawn()?.id() as pid_t;
        release_files(&[0, 1], &[kept]);
        Ok(Monitor { front: front.pid, program, seen: [SignalCount::default(); SIGNALS], stopped: None })
    }

    /// Waits for the program's end.
    pub(super) fn watch(mut self) -> ExitStatus {
        let all = signals::all();
        loop {
            if Pid::as_raw(getppid()) != self.front {
                // Who has killed the process in front meant the program.
                signals::send(self.program, libc::SIGKILL);
            }
            let came = signals::next(&all);
            if let Some(ended) = self.look() {
                // Where it was stopped it has to go on, to end too.
                signals::send(self.front, libc::SIGCONT);
                return ended;
            }
            match FrontMessage::of(&came, self.front) {
                Some(message) => self.hear(message),
                None if came.signal == libc::SIGCHLD => {}
                None => self.see(came.signal),
            }
        }
    }

    /// Looks what has become of the program, and has the process in front stopped and continued like it; returns how it
    /// has ended.
    fn look(&mut self) -> Option<ExitStatus> {
        while let Some(status) = signals::wait(self.program, WaitOptions::UNTRACED | WaitOptions::CONTINUED) {
            if let Some(signal) = status.stopped_signal() {
                self.stopped = Some(signal);
                FrontMessage::Stopped(signal).tell(self.front);
            } else if status.continued() {
                self.stopped = None;
                signals::send(self.front, libc::SIGCONT);
            } else {
                return Some(status);
            }
        }
        None
    }

    /// A signal has come: it was for the process group, and comes to the one in front too, or it was for nobody.
    fn see(&mut self, signal: c_int) {
        let seen = &mut self.seen[signal as usize % SIGNALS];
        seen.times += 1;
        seen.asked = seen.asked.wrapping_add(1);
        // Changes nothing, but waits until who signals the group has signalled all of it.
        let _ = setpgid(None, Some(getpgrp()));
        FrontMessage::Asks(signal, seen.asked).tell(self.front);
    }

    fn hear(&mut self, message: FrontMessage) {
        match message {
            FrontMessage::Came(signal, value) => {
                let seen = &mut self.seen[signal as usize % SIGNALS];
                match value {
                    _ if seen.times > 0 => seen.times -= 1,
                    None => signals::send(self.program, signal),
                    Some(value) => signals::send_value(self.program, signal, value.into()),
                }
            }
            FrontMessage::Ready(signal) if self.stopped == Some(signal) => signals::send(self.front, signal),
            // It has been continued meanwhile.
            FrontMessage::Ready(_) => signals::send(self.front, libc::SIGCONT),
            FrontMessage::Answers(signal, time) => {
                let seen = &mut self.seen[signal as usize % SIGNALS];
                if seen.asked == time {
                    seen.times = 0;
                }
            }
            FrontMessage::Stopped(_) | FrontMessage::Asks(..) => {}
        }
    }
}
