//! Waits for signals one by one, without handlers, in processes that do nothing else.
//!
//! This module uses libc, because rustix has no signal sets, cannot wait for signals, and cannot send a
//! signal with a value.

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
    /// PID of the sender, for signals that a process has sent.
    pub(super) from: pid_t,
    /// The value of the signal, if it was sent by sigqueue(3).
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

/// All signals except the signals that this process has ignored since its start. For example, nohup(1)
/// ignores SIGHUP, and a shell script ignores SIGINT and SIGQUIT in a background command. Children ignore
/// these signals too, so they must not end a run. SIGCHLD and SIGPIPE are always included, although the
/// runtime of Rust ignores SIGPIPE.
pub(super) fn heeded() -> sigset_t {
    let is_ignored = |signal: &c_int| action(*signal).sa_sigaction == libc::SIG_IGN;
    let of_others = |signal: &c_int| !matches!(*signal, libc::SIGCHLD | libc::SIGPIPE);
    (1..=libc::SIGRTMAX()).filter(of_others).filter(is_ignored).fold(all(), without)
}

/// A set without one signal.
pub(super) fn without(mut set: sigset_t, signal: c_int) -> sigset_t {
    // SAFETY: the set is this function's own. A number that is no signal changes nothing.
    unsafe { libc::sigdelset(&mut set, signal) };
    set
}

/// Whether a set has a signal.
pub(super) fn has(set: &sigset_t, signal: c_int) -> bool {
    // SAFETY: the call only reads the set.
    unsafe { libc::sigismember(set, signal) == 1 }
}

/// Replaces the set of blocked signals, and returns the previous set.
pub(super) fn block(set: &sigset_t) -> sigset_t {
    let mut before = MaybeUninit::uninit();
    // SAFETY: the sets are this function's. The call fails only for an unknown operation.
    unsafe {
        libc::sigprocmask(libc::SIG_SETMASK, set, before.as_mut_ptr());
        before.assume_init()
    }
}

/// Waits for the next signal of a set. Its signals must be blocked.
pub(super) fn next(set: &sigset_t) -> Came {
    loop {
        if let Some(came) = next_within(set, None) {
            return came;
        }
    }
}

/// Waits for the next signal of a set, for at most `time`. The signals of the set must be blocked. `None` if
/// no signal arrives, or another one interrupts the call.
pub(super) fn next_within(set: &sigset_t, time: Option<Duration>) -> Option<Came> {
    let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
    let time = time.map(|time| libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos().into(),
    });
    let time = time.as_ref().map_or(std::ptr::null(), |time| time);
    // SAFETY: the set and the room for the result are valid. `time` is valid or null.
    if unsafe { libc::sigtimedwait(set, info.as_mut_ptr(), time) } <= 0 {
        return None;
    }
    // SAFETY: the call has filled `info`, because there was a signal. Both fields are integers, for which any
    // value is valid.
    let (info, from, value) = unsafe {
        let info = info.assume_init();
        (info, info.si_pid(), info.si_value().sival_ptr as u64)
    };
    Some(Came { signal: info.si_signo, from, value: (info.si_code == libc::SI_QUEUE).then_some(value) })
}

/// Makes the child restore the blocked signals and the action of SIGCHLD before it becomes its program. The
/// kernel kills the child when this process dies.
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

/// Sends a signal. The process need not exist any more.
pub(super) fn send(to: pid_t, signal: c_int) {
    // This calls libc, because rustix does not send real-time signals.
    // SAFETY: the call takes numbers.
    unsafe { libc::kill(to, signal) };
}

/// Sends a signal with a value. The process need not exist any more.
pub(super) fn send_value(to: pid_t, signal: c_int, value: u64) {
    // SAFETY: the call takes numbers. No receiver uses the value as a pointer.
    unsafe { libc::sigqueue(to, signal, libc::sigval { sival_ptr: value as *mut _ }) };
}

/// Sets the action of a signal, and returns the previous action.
pub(super) fn set_action(signal: c_int, action: &libc::sigaction) -> libc::sigaction {
    let mut before = MaybeUninit::zeroed();
    // SAFETY: the action calls no function of this program. There is room for the previous action, and zeros
    // are a valid action.
    unsafe {
        libc::sigaction(signal, action, before.as_mut_ptr());
        before.assume_init()
    }
}

/// The current action of a signal.
fn action(signal: c_int) -> libc::sigaction {
    let mut action = MaybeUninit::zeroed();
    // SAFETY: there is room for the action, and zeros are a valid action.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    }
}

/// The default action.
pub(super) fn default_action() -> libc::sigaction {
    // SAFETY: zeros are a valid action: SIG_DFL without flags.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// The new status of a child. `None` if the status has not changed.
pub(super) fn wait(child: pid_t, options: WaitOptions) -> Option<ExitStatus> {
    let (_, status) = waitpid(Pid::from_raw(child), WaitOptions::NOHANG | options).ok()??;
    Some(ExitStatus::from_raw(status.as_raw()))
}

/// Ends this process with the status of another process: its exit code or its signal.
pub(super) fn end_as(ended: ExitStatus) -> ! {
    if let Some(signal) = ended.signal() {
        // A core dump of this process would replace the program's.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        set_action(signal, &default_action());
        send(getpid().as_raw_pid(), signal);
        block(&without(all(), signal));
    }
    // If a signal has not ended this process, exit with the code that shells use.
    std::process::exit(ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or(0)))
}
