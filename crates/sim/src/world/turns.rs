//! Turns of threads: when a thread runs, sleeps, and is woken.

use super::state::World;
use super::thread::{PassLook, Thread, Waiting};
use crate::core::index::{CoreId, MachineId, ThreadId};
use crate::core::ps::Ps;
use crate::host::CoreSet;

/// Maximum number of threads that the description of a deadlock names.
const MOST_NAMED: usize = 4;

impl World {
    /// Schedules the turn of a thread.
    pub(crate) fn schedule(&mut self, thread: ThreadId, time: Ps) {
        self.threads[thread].turn_at = time;
        self.env.queue.push_thread(time, thread);
    }

    /// Makes sure that a thread that pauses has a turn at its deadline.
    pub(crate) fn schedule_deadline(&mut self, thread: ThreadId, deadline: Ps) {
        let t = &mut self.threads[thread];
        if deadline < t.deadline_at {
            t.deadline_at = deadline;
            self.env.queue.push_thread(deadline, thread);
        }
    }

    /// Whether the thread waits for the turn that came. If so, the thread resumes.
    pub(crate) fn takes_turn(&mut self, thread: ThreadId) -> bool {
        let (cause, window) = (self.cause, self.env.window);
        let t = &mut self.threads[thread];
        if t.deadline_at == cause.time {
            t.deadline_at = Ps::NEVER;
        }
        if t.turn_at != cause.time {
            let deadline = match t.waiting {
                Waiting::Pause { deadline, waking: false, .. } | Waiting::Socket { deadline, .. } => deadline,
                _ => return false,
            };
            if deadline > cause.time {
                self.schedule_deadline(thread, deadline);
                return false;
            }
            if matches!(t.waiting, Waiting::Socket { .. }) {
                self.wake_sleeper(thread, cause.time);
                return false;
            }
            // Nothing else has ended the pause.
            t.resume_pass(cause);
        }
        t.turn_at = Ps::NEVER;
        if let Waiting::Pause { since, .. } = t.waiting {
            t.idle += window.overlap(since, t.clock);
        }
        t.waiting = Waiting::Turn;
        true
    }

    /// Wakes the threads whose lines were changed, or evicted from their caches, by other agents.
    #[inline]
    pub(crate) fn wake_others(&mut self, machine: MachineId) {
        if self.sized {
            self.wake_losers(machine);
        }
    }

    #[cold]
    fn wake_losers(&mut self, machine: MachineId) {
        let woken = self.hosts[machine].take_woken();
        self.wake(machine, woken);
    }

    /// Wakes the threads on `cores` of a machine that sleep in their passes.
    pub(crate) fn wake(&mut self, machine: MachineId, cores: CoreSet) {
        if cores.is_empty() {
            return;
        }
        for core in self.hosts[machine].cores_of(cores) {
            let Some(thread) = self.hosts[machine].cores[core].thread else { continue };
            let at = self.cause;
            if let Some(turn) = self.threads[thread].resume_pass(at) {
                self.schedule(thread, turn.max(self.env.now));
            }
        }
    }

    /// Takes `span` of a core from now on for an interrupt, and delays the thread that the core runs.
    pub(crate) fn interrupt(&mut self, machine: MachineId, core: CoreId, span: Ps) {
        let (now, cause, window) = (self.env.now, self.cause, self.env.window);
        let Some(thread) = self.hosts[machine].cores.get(core).and_then(|core| core.thread) else { return };
        let t = &mut self.threads[thread];
        match &mut t.waiting {
            Waiting::Turn => {
                t.put_off(span);
                match t.turn_at {
                    Ps::NEVER => self.interrupted = true, // It runs.
                    _ => {
                        let clock = t.clock;
                        self.schedule(thread, clock);
                    }
                }
            }
            Waiting::Pause { .. } => {
                t.put_off_in_pass(span);
                if let Some(turn) = t.resume_pass(cause) {
                    self.schedule(thread, turn.max(now));
                }
            }
            Waiting::Socket { interrupted, .. } => *interrupted += window.overlap(now, now + span),
            // The thread also takes the lock later if the interrupt delays it. This delay is left out.
            Waiting::Lock | Waiting::Key(_) | Waiting::Ended => {}
        }
    }

    /// Wakes a thread that sleeps for a socket. The wake-up begins at `at`.
    pub(crate) fn wake_sleeper(&mut self, thread: ThreadId, at: Ps) {
        let window = self.env.window;
        let t = &mut self.threads[thread];
        let Waiting::Socket { since, interrupted, .. } = t.waiting else { return };
        t.idle += window.overlap(since, at.max(since)).saturating_sub(interrupted);
        t.waiting = Waiting::Turn;
        let kernel =
            self.kernels[t.machine].as_ref().expect("a thread that sleeps for a socket has a kernel");
        t.clock = at.max(since) + Ps(kernel.costs.wake_up);
        let clock = t.clock;
        self.schedule(thread, clock);
    }

    /// Describes the waits of the first threads that have not ended. Used when no thread can run.
    pub(crate) fn describe_waiting(&self) -> String {
        self.describe(|_| true)
    }

    /// Describes the threads that wait for actions of other threads. Leaves out threads that wait for a time
    /// or compute.
    pub(crate) fn describe_waiting_for_others(&self) -> String {
        self.describe(|thread| match thread.waiting {
            Waiting::Key(_) | Waiting::Lock | Waiting::Socket { .. } => true,
            Waiting::Pause { .. } | Waiting::Turn => !looks(thread).is_empty(),
            Waiting::Ended => false,
        })
    }

    fn describe(&self, of: impl Fn(&Thread) -> bool) -> String {
        let left = || self.threads.iter().filter(|t| t.waiting != Waiting::Ended && of(t));
        let mut waits: Vec<String> = left().take(MOST_NAMED).map(waits_for).collect();
        let more = left().count() - waits.len();
        if more > 0 {
            waits.push(format!("and {more} more"));
        }
        waits.join("; ")
    }
}

fn waits_for(thread: &Thread) -> String {
    let who = thread.name();
    match &thread.waiting {
        Waiting::Key(key) => format!("{who} waits for the key {key:?}"),
        Waiting::Pause { .. } => format!("{who} waits for {}", looked_at(thread)),
        Waiting::Lock => format!("{who} waits for a lock of the driver"),
        Waiting::Socket { .. } => format!("{who} sleeps for a socket"),
        // A polling thread has turns in between.
        Waiting::Turn if !thread.last_steps().is_empty() => format!("{who} waits for {}", looked_at(thread)),
        Waiting::Turn => format!("{who} waits for its turn"),
        Waiting::Ended => format!("{who} has ended"),
    }
}

/// Describes the memory and CQs that a thread's passes read.
fn looked_at(thread: &Thread) -> String {
    let mut parts = looks(thread);
    let more = parts.len().saturating_sub(4);
    parts.truncate(4);
    let mut text = parts.join(" or ");
    if more > 0 {
        text.push_str(&format!(" or {more} more"));
    }
    if text.is_empty() { "nothing at all".into() } else { text }
}

/// Descriptions of each memory word or CQ that a thread's last pass read.
fn looks(thread: &Thread) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for step in thread.last_steps() {
        let part = match step.look {
            PassLook::Poll { cq, .. } => format!("a completion in CQ {}", cq.0),
            PassLook::Load { place, .. } | PassLook::Read { place, .. } => {
                format!("a change of byte {} of allocation {}", place.offset, place.allocation)
            }
            PassLook::Work => continue,
        };
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts
}
