//! Signals taken one by one instead of by handlers, for processes that do nothing else.
//!
//! By libc, as rustix has neither sets of signals, nor waits for one of a set, nor sends one with a value.

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

/// A signal that has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    pub(super) signal: c_int,
    /// The process that sent it, of those that processes send.
    pub(super) from: pid_t,
    /// The value that came with it, where it was sent by sigqueue(3).
    pub(super) value: Option<u64>,
}

/// All signals that can be blocked.
pub(super) fn all() -> sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: fills the set, which is then one.
    unsafe {
        libc::sigfillset(set.as_mut_ptr());
        set.assume_init()
    }
}

/// All signals but those that this process was told to ignore, as by nohup(1), or by a shell's script of what it starts in the
/// background (SIGINT, SIGQUIT): its children ignore them too, and nobody wants them to end anything. Children that end are
/// heard of in any case, and SIGPIPE is ignored by all programs of Rust.
pub(super) fn heeded() -> sigset_t {
    let is_ignored = |signal: &c_int| action(*signal).sa_sigaction == libc::SIG_IGN;
    let of_others = |signal: &c_int| !matches!(*signal, libc::SIGCHLD | libc::SIGPIPE);
    (1..=libc::SIGRTMAX()).filter(of_others).filter(is_ignored).fold(all(), without)
}

/// A set without one signal.
pub(super) fn without(mut set: sigset_t, signal: c_int) -> sigset_t {
    // SAFETY: our own set; of a number that is no signal it changes nothing.
    unsafe { libc::sigdelset(&mut set, signal) };
    set
}

/// Blocks these signals and no others; returns which were.
pub(super) fn block(set: &sigset_t) -> sigset_t {
    let mut before = MaybeUninit::uninit();
    // SAFETY: sets of ours; fails only for an operation that there is not.
    unsafe {
        libc::sigprocmask(libc::SIG_SETMASK, set, before.as_mut_ptr());
        before.assume_init()
    }
}

/// The next of these signals, which are blocked.
pub(super) fn next(set: &sigset_t) -> Came {
    loop {
        if let Some(came) = next_within(set, None) {
            return came;
        }
    }
}

/// The same, unless none comes within this time.
pub(super) fn next_within(set: &sigset_t, time: Option<Duration>) -> Option<Came> {
    let mut info = MaybeUninit::<libc::siginfo_t>::uninit();
    let time = time.map(|time| libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos().into(),
    });
    let time = time.as_ref().map_or(std::ptr::null(), |time| time);
    // SAFETY: a set, room for what is told, and a time that lives or none.
    if unsafe { libc::sigtimedwait(set, info.as_mut_ptr(), time) } <= 0 {
        return None;
    }
    // SAFETY: filled, as there was a signal; both fields are integers of any value.
    let (info, from, value) = unsafe {
        let info = info.assume_init();
        (info, info.si_pid(), info.si_value().sival_ptr as u64)
    };
    Some(Came { signal: info.si_signo, from, value: (info.si_code == libc::SI_QUEUE).then_some(value) })
}

/// Has a child of this process find signals as they were for it, and be killed with this process.
pub(super) fn for_child(command: &mut Command, blocked: sigset_t, children: libc::sigaction) {
    let own = getpid();
    let become_program = move || {
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        let parent = getppid();
        set_action(libc::SIGCHLD, &children);
        block(&blocked);
        if parent == Some(own) { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ESRCH)) }
    };
    // SAFETY: it calls the system and nothing else.
    unsafe { command.pre_exec(become_program) };
}

/// Sends a signal. The process may be gone.
pub(super) fn send(to: pid_t, signal: c_int) {
    // SAFETY: takes numbers.
    unsafe { libc::kill(to, signal) };
}

/// Sends a signal with a value. The process may be gone.
pub(super) fn send_value(to: pid_t, signal: c_int, value: u64) {
    // SAFETY: takes numbers; nobody takes the value for a pointer.
    unsafe { libc::sigqueue(to, signal, libc::sigval { sival_ptr: value as *mut _ }) };
}

/// How a signal is handled.
pub(super) fn set_action(signal: c_int, action: &libc::sigaction) -> libc::sigaction {
    let mut before = MaybeUninit::zeroed();
    // SAFETY: an action without code of its own, and room for the one before; zeros are one too.
    unsafe {
        libc::sigaction(signal, action, before.as_mut_ptr());
        before.assume_init()
    }
}

/// How a signal is handled now.
fn action(signal: c_int) -> libc::sigaction {
    let mut action = MaybeUninit::zeroed();
    // SAFETY: room for an action; zeros are one too.
    unsafe {
        libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr());
        action.assume_init()
    }
}

/// What the system does where nobody has said anything.
pub(super) fn default_action() -> libc::sigaction {
    // SAFETY: zeros are SIG_DFL with no flags.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// What has become of a child: `None` where that is nothing new.
pub(super) fn wait(child: pid_t, options: WaitOptions) -> Option<ExitStatus> {
    let (_, status) = waitpid(Pid::from_raw(child), WaitOptions::NOHANG | options).ok()??;
    Some(ExitStatus::from_raw(status.as_raw()))
}

/// Ends this process as another one has ended.
pub(super) fn end_as(ended: ExitStatus) -> ! {
    if let Some(signal) = ended.signal() {
        // The program's core is enough, another of this process would take its place.
        let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
        set_action(signal, &default_action());
        send(getpid().as_raw_pid(), signal);
        block(&without(all(), signal));
    }
    // Where a signal has not ended it, as shells put it.
    std::process::exit(ended.code().unwrap_or_else(|| 128 + ended.signal().unwrap_or(0)))
}
