//! Revocation of access to memory of this process. A call of the program that revokes access waits for the
//! copies that may still use the revoked rights.
//!
//! The wait for a copy
//! - begins when the rights are revoked, if the copy record shows that the copy runs;
//! - ends when the copy's bytes are moved, or when the process of the copy has exited;
//! - takes at most 10 s. It takes at most 50 ms after this process has found the process of the copy stopped,
//!   because that process may stay stopped forever.
//!
//! After this time, the call gives the copy up. Nothing can keep the process of the copy from continuing the
//! copy later.

use super::process::Process;
use crate::memory::copies::{RunningCopy, running};
use crate::memory::regions::Revoked;
use crate::point::{Point, reach};
use crate::sync::lock;
use crate::sync::platform::global_fence;
use doorbell_launch::process_start::{other_thread, thread_state};
use doorbell_launch::say::say;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

/// How long a process must be seen stopped before its copy is given up. Debuggers stop processes for a
/// moment.
const STOPPED: Duration = Duration::from_millis(50);
/// Time after which any copy is given up. A thread with a processor of its own copies the largest message in
/// one second.
const GIVE_UP: Duration = Duration::from_secs(10);
/// Time between checks of the processes that copy.
const LOOK: Duration = Duration::from_millis(1);
/// Number of checks of the copy records before the thread yields its processor.
const SPINS: u32 = 200;
/// Sleep between checks after the first [`LOOK`].
const PAUSE: Duration = Duration::from_micros(100);

/// A copy that a revoking call waits for.
#[derive(Clone, Copy, Debug)]
struct AwaitedCopy {
    copy: RunningCopy,
    /// Since when the process of the copy has been stopped at each check; `None` if it was not stopped at the
    /// last check.
    stopped: Option<Instant>,
}

impl Process {
    /// Waits for the copies that may still use the revoked rights. `call` names the program's call in
    /// messages.
    pub(crate) fn settle(&self, _: Revoked, call: &str) {
        self.wait_for_copies(call);
    }

    /// Waits until all copies that began before this call have ended. Gives up a copy after 10 s, or once its
    /// process has been stopped for 50 ms. Reports each copy that it gives up on standard error. `call` names
    /// the program's call in this message.
    pub(crate) fn wait_for_copies(&self, call: &str) {
        reach(Point::Revoked);
        // The caller has changed the rights. After the fence, each copy that does not see this change appears
        // in its copy record as running.
        global_fence();
        reach(Point::Fenced);
        let running = running(self.segment);
        if !running.is_empty() && !doorbell_launch::say::broken("n-revoke") {
            self.wait_for(&running, call);
        }
        reach(Point::CopiesEnded);
    }

    #[cold]
    fn wait_for(&self, running: &[RunningCopy], call: &str) {
        // Copies that an earlier call gave up are not waited for again.
        let given_up = lock(&self.given_up).clone();
        let awaited = running.iter().filter(|copy| given_up.get(&copy.index) != Some(&copy.steps));
        let mut awaited: Vec<AwaitedCopy> =
            awaited.map(|copy| AwaitedCopy { copy: *copy, stopped: None }).collect();
        let begin = Instant::now();
        let (mut spins, mut looked) = (0, begin);
        loop {
            let all = awaited.len();
            awaited.retain(|awaited| awaited.copy.runs(self.segment));
            if doorbell_launch::say::broken("n-revoke-one") && awaited.len() < all { return; }
            if awaited.is_empty() {
                return;
            }
            if spins < SPINS {
                spins += 1;
                std::hint::spin_loop();
                continue;
            }
            reach(Point::CopyAwaited);
            let now = Instant::now();
            if now - looked >= LOOK {
                looked = now;
                awaited.retain_mut(|awaited| !self.is_over(awaited, begin, now, call));
            }
            // Most copies end soon. A longer copy may need this thread's processor.
            if now - begin < LOOK { std::thread::yield_now() } else { std::thread::sleep(PAUSE) }
        }
    }

    /// Whether the wait for a copy is over, although the copy has not ended. This is so if the copy's process
    /// has exited, or if the copy must be given up.
    fn is_over(&self, awaited: &mut AwaitedCopy, begin: Instant, now: Instant, call: &str) -> bool {
        let AwaitedCopy { copy, stopped } = awaited;
        let Some(record) = self.segment.copy(copy.index) else { return true };
        // Relaxed: the count of this copy was loaded by Acquire, so its holder is visible. A later holder has
        // changed the count, which the next check finds.
        let Some(who) = record.holder.load(Relaxed).checked_sub(1) else { return true };
        if self.is_gone(who) {
            record.free(who + 1);
            return true;
        }
        *stopped = self.is_stopped(who).then(|| stopped.unwrap_or(now));
        let is_stopped = stopped.is_some_and(|since| now - since >= STOPPED);
        if !is_stopped && now - begin < GIVE_UP {
            return false;
        }
        lock(&self.given_up).insert(copy.index, copy.steps);
        let state = if is_stopped { "is stopped" } else { "has not gone on for 10 s" };
        say(format_args!(
            "{call} does not wait for {}, which {state} in the middle of a copy: when it goes on, it may \
             still write to memory of this process, or read it",
            self.describe(who)
        ));
        true
    }

    /// Names the process with this claimer number.
    fn describe(&self, who: u32) -> String {
        match self.pid_of(who) {
            Some(pid) if pid == std::process::id() => "a thread of this process".to_owned(),
            Some(pid) => format!("process {pid}"),
            None => "a process of another PID namespace".to_owned(),
        }
    }

    /// Whether the process with this claimer number is stopped, by a signal or by a debugger. `false` if that
    /// cannot be found out.
    fn is_stopped(&self, who: u32) -> bool {
        let thread = self.pid_of(who).map(|pid| other_thread(pid).unwrap_or(pid));
        matches!(thread.and_then(thread_state), Some('T' | 't'))
    }
}
