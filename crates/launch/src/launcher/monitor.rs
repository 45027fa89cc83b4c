//! The monitor: the parent of the program.

use super::explaining::Explainer;
use super::front::{Front, FrontMessage, MonitorMessage, message_signal, release_files};
use super::signals;
use libc::{c_int, pid_t};
use rustix::process::{Pid, WaitOptions, getpgid, getpgrp, getppid, setpgid};
use std::io;
use std::os::fd::RawFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};

/// The monitor's name, for tools that find processes by name. It does not contain the name of the front
/// process. Otherwise a tool that signals all processes of a name (pkill(1)) would reach both, as if it had
/// signalled their process group.
const NAME: &std::ffi::CStr = c"run-monitor";

/// The program, and the front process that stands for it.
#[derive(Debug)]
pub(super) struct Monitor {
    front: pid_t,
    program: pid_t,
    /// The signals that this process has received, by number.
    seen: [SignalCount; SIGNALS],
    /// The signal that has stopped the program.
    stopped: Option<c_int>,
}

/// Counts of a signal that this process has received.
#[derive(Clone, Copy, Debug, Default)]
struct SignalCount {
    /// How often the monitor has received the signal, without signals that the front process has received
    /// too.
    times: u32,
    /// How often the monitor has asked the front process about the signal.
    asked: u32,
}

/// One more than the highest signal number. No signal has the number 0.
const SIGNALS: usize = 65;

impl Monitor {
    /// Starts the program, which inherits this process's files. This process then keeps only its standard
    /// error and `kept`.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub(super) fn start(front: &Front, mut command: Command, kept: &[RawFd]) -> io::Result<Monitor> {
        // This signal tells the monitor that the front process has died. By libc, because rustix has no names
        // for real-time signals. SAFETY: the call takes numbers.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, message_signal(), 0, 0, 0) };
        let _ = rustix::thread::set_name(NAME);
        signals::for_child(&mut command, front.blocked, front.children);
        let program = command.spawn()?.id() as pid_t;
        release_files(&[0, 1], kept);
        Ok(Monitor { front: front.pid, program, seen: [SignalCount::default(); SIGNALS], stopped: None })
    }

    /// Waits until the program exits, and returns its status. Explains waits at a signal.
    pub(super) fn watch(mut self, explainer: &mut Explainer) -> ExitStatus {
        let all = signals::all();
        loop {
            if Pid::as_raw(getppid()) != self.front {
                // The front process was killed. The kill was meant for the program.
                signals::send(self.program, libc::SIGKILL);
            }
            let came = signals::next(&all);
            if let Some(ended) = self.look() {
                // A signal to the process group may have killed the program before it reached this process.
                explainer.hears(ended.signal().unwrap_or(came.signal));
                explainer.say();
                // The front process may be stopped, and must be continued before it can exit.
                signals::send(self.front, libc::SIGCONT);
                return ended;
            }
            match MonitorMessage::of(&came, self.front) {
                Some(message) => {
                    if let MonitorMessage::Came(signal, _) = message {
                        explainer.hears(signal);
                    }
                    self.hear(message);
                }
                None if came.signal == libc::SIGCHLD => {}
                None => {
                    explainer.hears(came.signal);
                    self.see(came.signal);
                }
            }
            explainer.say();
        }
    }

    /// Checks the state of the program, and stops or continues the front process likewise. Returns the
    /// program's status if the program has exited.
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

    /// Handles a signal to this process. A signal to the process group reaches the front process too, and a
    /// program of this group directly. A signal to this process alone is ignored. The front process's answers
    /// tell the two cases apart.
    fn see(&mut self, signal: c_int) {
        let seen = &mut self.seen[signal as usize % SIGNALS];
        seen.times += 1;
        seen.asked = seen.asked.wrapping_add(1);
        // This call changes nothing. But it returns only after a sender that is signalling the process group
        // has signalled all of its processes.
        let _ = setpgid(None, Some(getpgrp()));
        FrontMessage::Asks(signal, seen.asked).tell(self.front);
    }

    /// Whether the program is in this process's group. A program can leave the group, as timeout(1) and
    /// setsid(1) do.
    fn has_program_in_group(&self) -> bool {
        getpgid(Pid::from_raw(self.program)).is_ok_and(|group| group == getpgrp())
    }

    fn hear(&mut self, message: MonitorMessage) {
        match message {
            MonitorMessage::Came(signal, value) => {
                let seen = &mut self.seen[signal as usize % SIGNALS];
                let is_for_group = seen.times > 0;
                seen.times = seen.times.saturating_sub(1);
                match value {
                    _ if is_for_group && self.has_program_in_group() => {}
                    None => signals::send(self.program, signal),
                    Some(value) => signals::send_value(self.program, signal, value.into()),
                }
            }
            MonitorMessage::Ready(signal) if self.stopped == Some(signal) => {
                signals::send(self.front, signal)
            }
            // The program has been continued meanwhile.
            MonitorMessage::Ready(_) => signals::send(self.front, libc::SIGCONT),
            MonitorMessage::Answers(signal, time) => {
                let seen = &mut self.seen[signal as usize % SIGNALS];
                if seen.asked == time {
                    seen.times = 0;
                }
            }
        }
    }
}
