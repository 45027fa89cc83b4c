//! Signals taken one by one instead of by handlers, for processes that do nothing else.
//!
//! By libc: rustix has no signal sets, cannot wait for a signal of a set, and cannot send a signal with a
//! value.

use libc::{c_int, pid_t, sigset_t};
use rustix::process::{
    DumpableBehavior, Pid, Signal, WaitOptions, getpid, getppid, set_dumpable_behavior,
    set_parent_process_death_signal, waitpid,
};
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// A signal that has arrived.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    pub(super) signal: c_int,
    /// The sender, for signals that a process has sent.
    pub(super) from: pid_t,
    /// The value that came with the signal, if it was sent by sigqueue(3).
    pub(super) value: Option<u64>,
}

/// All signals that can be blocked.
pub(super) fn all() -> sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the call fills the set, which is initialised then.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        set.assume_init()
    }
}

/// All signals except those that this process was started to ignore. nohup(1) does so, or a shell script for
/// a background command (SIGINT, SIGQUIT). Children inherit this, so such a signal is not meant to end
/// anything. SIGCHLD is heeded in any case. So is SIGPIPE, because every Rust program ignores it.
pub(super) fn heeded() -> sigset_t {
    let is_ignored = |signal: &c_int| action(*signal).sa_sigaction == libc::SIG_IGN;
    let of_others = |signal: &c_int| !matches!(*signal, libc::SIGCHLD | libc::SIGPIPE);
    (1..=libc::SIGRTMAX()).filter(of_others).filter(is_ignored).fold(all(), without)
}

/// A set without one signal.
pub(super) fn without(mut set: sigset_t, signal: c_int) -> sigset_t {
    // SAFETY: a set of this function. A number that is no signal changes nothing.
    unsafe { libc::sigdelset(&mut set, signal) };
    set
}

/// Sets the blocked signals to this set, and returns the set that was blocked before.
pub(super) fn block(set: &sigset_t) -> sigset_t {
    let mut before = MaybeUninit::uninit();
    // SAFETY: the sets are this function's. The call fails only for an unknown operation.
    unsafe {
        libc::sigprocmask(libc::SIG_SETMASK, set, before.as_mut_ptr());
        before.assume_init()
    }
}

/// Waits for the next of these signals, which are blocked.
pub(super) fn next(set: &sigset_t) -> Came {
    loop {
        if let Some(came) = next_within(set, None) {
            return came;
        }
    }
}

/// Waits for the next of these signals, which are blocked; `None` if none arrives within this time.
pub(super) fn next_within(set: &sigset_t, time: Option<Duration>) -> Option<Came> {
    let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
    let time = time.map(|time| libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos().into(),
    });
    let time = time.as_ref().map_or(std::ptr::null(), |time| time);
    // SAFETY: a set, room for the result, and a time that lives or a null pointer.
    if unsafe { libc::sigtimedwait(set, info.as_mut_ptr(), time) } <= 0 {
        return None;
    }
    // SAFETY: the call has filled it, because there was a signal. Both fields are integers of any value.
    let (info, from, value) = unsafe {
        let info = info.assume_init();
        (info, info.si_pid(), info.si_value().sival_ptr as u64)
    };
    Some(Came { signal: info.si_signo, from, value: (info.si_code == libc::SI_QUEUE).then_some(value) })
}

/// Restores the signal state in a child before it becomes its program, and kills the child if this process
/// dies.
pub(super) fn for_child(command: &mut Command, blocked: sigset_t, children: libc::sigaction) {
    let own = getpid();
    let become_program = move || {
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        let parent = getppid();
        set_action(libc::SIGCHLD, &children);
        block(&blocked);
        if parent == Some(own) { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    };
    // SAFETY: the closure only makes system calls.
    unsafe { command.pre_exec(become_program) };
}

/// Sends a signal. The process may be gone.
pub(super) fn send(to: pid_t, signal: c_int) {
    // SAFETY: the call takes numbers.
    unsafe { libc::kill(to, signal) };
}

/// Sends a signal with a value. The process may be gone.
pub(super) fn send_value(to: pid_t, signal: c_int, value: u64) {
    // SAFETY: the call takes numbers. No receiver uses the value as a pointer.
    unsafe { libc::sigqueue(to, signal, libc::sigval { sival_ptr: value as *mut _ }) };
}

/// Sets the action of a signal, and returns the action before.
pub(super) fn set_action(signal: c_int, action: &libc::sigaction) -> libc::sigaction {
    let mut before = MaybeUninit::zeroed();
    // SAFETY: an action without code of its own, and room for the action before. Zeros are a valid action
    // too.
    unsafe {
        libc::sigaction(signal, action, before.as_mut_ptr());
        before.assume_init()
    }
}

/// The current action of a signal.
fn action(signal: c_int) -> libc::sigaction {
    let mut action = MaybeUninit::zeroed();
    // SAFETY: room for an action. Zeros are a valid action too.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    }
}

/// The default action.
pub(super) fn default_action() -> libc::sigaction {
    // SAFETY: zeros are SIG_DFL with no flags.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// The new status of a child; `None` if it is unchanged.
pub(super) fn wait(child: pid_t, options: WaitOptions) -> Option<ExitStatus> {
    let (_, status) = waitpid(Pid::from_raw(child), WaitOptions::NOHANG | options).ok()??;
    Some(ExitStatus::from_raw(status.as_raw()))
}

/// Ends this process with the status of another one.
pub(super) fn end_as(ended: ExitStatus) -> ! {
    if let Some(signal) = ended.signal() {
        // The program's core dump is enough. One of this process would replace it.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        set_action(signal, &default_action());
        send(getpid().as_raw_pid(), signal);
        block(&without(all(), signal));
    }
    // If the signal has not ended this process, exits with the code that shells use.
    std::process::exit(ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or(0)))
}
