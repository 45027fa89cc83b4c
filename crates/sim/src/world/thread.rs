//! Threads in virtual time, and the skipping of empty passes.
//!
//! A *pass* is what a thread does between two `pause`s. If two passes in a row are equal and have no effect,
//! further passes repeat them until something that they read changes. So the thread sleeps until that moment,
//! and then resumes in the middle of the pass that it would be in. Its reads before that moment return the
//! recorded values. Its later reads are executed.
//!
//! A repeated pass is remembered. If the thread's steps after its last effect match the remembered pass, the
//! thread sleeps after one pass instead of two. A pass that read nothing is not remembered, because a single
//! pause after an effect is no loop yet.

use crate::core::index::{CoreId, CqId, DeviceId, MachineId, ThreadId};
use crate::core::ps::Ps;
use crate::core::queue::EventKey;
use crate::host::MemPlace;

/// One step of a pass that has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassLook {
    /// Loaded a word of up to 8 bytes.
    Load { place: MemPlace, value: u64 },
    /// Loaded bytes, which are recorded in the pass's `bytes`.
    Read { place: MemPlace, len: u32 },
    /// Polled an empty CQ.
    Poll { device: DeviceId, cq: CqId },
    /// Worked.
    Work,
}

/// A step and the time it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PassStep {
    pub(crate) look: PassLook,
    pub(crate) cost: Ps,
}

/// Limits of a pass that can be skipped: most steps, and most bytes that it has read.
const MAX_STEPS: usize = 4096;
const MAX_BYTES: usize = 16384;

/// The steps of a thread since its last pause or effect.
#[derive(Default)]
pub(crate) struct Pass {
    steps: Vec<PassStep>,
    bytes: Vec<u8>,
    /// Whether the pass began with an effect, not with a pause.
    tail: bool,
    /// Whether the pass was too long to record.
    too_long: bool,
    started: Ps,
}

impl Pass {
    fn clear(&mut self, started: Ps) {
        self.steps.clear();
        self.bytes.clear();
        self.tail = false;
        self.too_long = false;
        self.started = started;
    }

    fn same_as(&self, other: &Pass) -> bool {
        !self.too_long && !other.too_long && self.steps == other.steps && self.read_the_same(other)
    }

    /// Compares the bytes read, unless there are none. An empty vector has no valid address. Comparing no
    /// bytes there with a masked load, as the library may, costs a processor hundreds of cycles.
    fn read_the_same(&self, other: &Pass) -> bool {
        self.bytes.len() == other.bytes.len() && (self.bytes.is_empty() || self.bytes == other.bytes)
    }

    /// Whether the pass read memory or polled a CQ. All loops that only wait for a time are alike, so such a
    /// pass does not show which loop a thread is in.
    fn looks(&self) -> bool {
        self.steps.iter().any(|step| step.look != PassLook::Work)
    }

    fn copy_from(&mut self, other: &Pass) {
        self.steps.clone_from(&other.steps);
        self.bytes.clone_from(&other.bytes);
    }
}

/// The reason why a thread waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Waits for its turn.
    Turn,
    /// Sleeps in its passes until something that the passes read changes, or until a deadline.
    Pause {
        /// When the next pass would have begun.
        since: Ps,
        /// Length of a pass.
        pass: Ps,
        /// When the pause ends at the latest; [`Ps::NEVER`] if there is no deadline.
        deadline: Ps,
        /// Whether the wake-up is already scheduled.
        waking: bool,
    },
    /// Waits for a key of the out-of-band exchange.
    Key(String),
    /// Spins until it has a lock of the driver.
    Lock,
    /// Sleeps in the kernel for a socket.
    Socket {
        /// When the sleep began.
        since: Ps,
        /// When the sleep ends at the latest; [`Ps::NEVER`] if there is no deadline.
        deadline: Ps,
        /// Time in the metering window for which interrupts occupied the core during the sleep.
        interrupted: Ps,
    },
    /// The thread has ended.
    Ended,
}

/// A thread. A core has at most one.
pub(crate) struct Thread {
    pub(crate) machine: MachineId,
    pub(crate) core: CoreId,
    pub(crate) clock: Ps,
    pub(crate) waiting: Waiting,
    /// Time of the next turn; [`Ps::NEVER`] for none.
    pub(crate) turn_at: Ps,
    /// Time of the earliest turn queued for a deadline; [`Ps::NEVER`] for none. It may be stale, because
    /// threads mostly pause with the same deadline again and again.
    pub(crate) deadline_at: Ps,
    pass: Pass,
    last: Pass,
    /// The last pass that was found to repeat.
    steady: Pass,
    /// Number of steps of the current pass that were answered from the last pass.
    replay: Option<usize>,
    /// Key before which the answers from the last pass hold.
    replay_until: EventKey,
    /// Time that interrupts have taken of the core since the change that woke the thread in a pass.
    owed: Ps,
    /// Time in the metering window spent on passes that found nothing.
    pub(crate) idle: Ps,
    /// Time in the metering window spent waiting for a write-combining buffer.
    pub(crate) stalled: Ps,
    /// Address in the thread's stack at which the thread stopped last, for [`crate::core::fetch`].
    pub(crate) stopped_at: usize,
}

impl Thread {
    pub(crate) fn new(machine: MachineId, core: CoreId, clock: Ps) -> Thread {
        Thread {
            machine,
            core,
            clock,
            waiting: Waiting::Turn,
            turn_at: Ps::NEVER,
            deadline_at: Ps::NEVER,
            pass: Pass::default(),
            last: Pass::default(),
            steady: Pass::default(),
            replay: None,
            replay_until: EventKey::NEVER,
            owed: Ps::ZERO,
            idle: Ps::ZERO,
            stalled: Ps::ZERO,
            stopped_at: 0,
        }
    }

    /// The thread's name in messages.
    pub(crate) fn name(&self) -> String {
        format!("the thread on core {} of machine {}", self.core.0, self.machine.0)
    }

    /// Records a step without effect, at the step's end.
    pub(crate) fn note(&mut self, look: PassLook, cost: Ps) {
        let pass = &mut self.pass;
        if pass.steps.is_empty() {
            pass.started = self.clock - cost;
        }
        if pass.steps.len() < MAX_STEPS {
            pass.steps.push(PassStep { look, cost });
        } else {
            pass.too_long = true;
        }
    }

    /// Records the bytes that a `PassLook::Read` returned.
    pub(crate) fn note_bytes(&mut self, bytes: &[u8]) {
        if self.pass.bytes.len() + bytes.len() <= MAX_BYTES {
            self.pass.bytes.extend_from_slice(bytes);
        } else {
            self.pass.too_long = true;
        }
    }

    /// Records an effect. The steps after the effect may match a remembered pass.
    pub(crate) fn effect(&mut self) {
        self.end_replay();
        self.pass.clear(self.clock);
        self.pass.tail = true;
    }

    /// Delays the thread by `span`, which an interrupt takes of its core from now on. The thread's clock must
    /// not be before now.
    pub(crate) fn put_off(&mut self, span: Ps) {
        self.clock += span;
        // The pass's own steps take as long as before.
        self.pass.started += span;
    }

    /// Delays a thread that sleeps in its passes. The caller wakes the thread, unless it was woken before.
    /// The rest of the pass in progress comes after the interrupt.
    pub(crate) fn put_off_in_pass(&mut self, span: Ps) {
        self.owed += span;
    }

    /// Makes the thread execute its reads from now on, instead of replaying recorded ones.
    #[inline]
    fn end_replay(&mut self) {
        self.replay = None;
        if self.owed > Ps::ZERO {
            self.pay();
        }
    }

    #[cold]
    #[inline(never)]
    fn pay(&mut self) {
        let owed = std::mem::take(&mut self.owed);
        self.put_off(owed);
    }

    /// The recorded answer to the next step, if the recorded step matches and precedes the change that woke
    /// the thread. Advances the clock by the step's cost.
    pub(crate) fn replayed(
        &mut self,
        thread: ThreadId,
        same: impl Fn(&PassLook) -> bool,
    ) -> Option<PassLook> {
        let at = self.replay?;
        let step = self.last.steps.get(at).copied().filter(|s| same(&s.look));
        let step = step.filter(|_| EventKey::thread(self.clock, thread) < self.replay_until);
        let Some(step) = step else {
            self.end_replay();
            return None;
        };
        self.clock += step.cost;
        self.replay = Some(at + 1);
        self.note(step.look, step.cost);
        Some(step.look)
    }

    /// The recorded bytes of a replayed `PassLook::Read`, which is the last recorded step.
    pub(crate) fn replayed_bytes(&mut self, len: usize) -> &[u8] {
        let from = self.pass.bytes.len();
        let (last, pass) = (&self.last.bytes, &mut self.pass.bytes);
        pass.extend_from_slice(&last[from..from + len]);
        &self.pass.bytes[from..]
    }

    /// Ends a pass. Returns true if the pass is known to repeat.
    pub(crate) fn end_pass(&mut self) -> bool {
        self.end_replay();
        let twice = !self.pass.tail && !self.last.tail && self.pass.same_as(&self.last);
        let steady = twice || (!self.steady.steps.is_empty() && self.pass.same_as(&self.steady));
        if twice && self.pass.looks() {
            self.steady.copy_from(&self.pass);
        }
        std::mem::swap(&mut self.pass, &mut self.last);
        self.pass.clear(self.clock);
        steady
    }

    /// When the pass that just ended began.
    pub(crate) fn last_pass_started(&self) -> Ps {
        self.last.started
    }

    /// The steps of the pass that just ended.
    pub(crate) fn last_steps(&self) -> &[PassStep] {
        &self.last.steps
    }

    /// Resumes a thread that sleeps in its passes. It continues in the pass that is in progress at `at.time`.
    /// If the rest of that pass reads nothing, the thread continues at the end of the pass. Returns the time
    /// of its turn; `None` if the thread does not sleep in passes or was resumed before.
    pub(crate) fn resume_pass(&mut self, at: EventKey) -> Option<Ps> {
        let Waiting::Pause { since, pass, deadline, waking: waking @ false } = &mut self.waiting else {
            return None;
        };
        *waking = true;
        let whole = at.time.saturating_sub(*since) / *pass;
        self.clock = *since + *pass * whole;
        let end = self.clock + *pass;
        if at.time > self.clock && end <= *deadline && self.last_look() < at.time - self.clock {
            self.clock = end;
        }
        self.pass.clear(self.clock);
        self.replay = Some(0);
        self.replay_until = at;
        Some(self.clock.max(at.time))
    }

    /// Time from the start of the pass that just ended to the start of its last step that was not mere work.
    fn last_look(&self) -> Ps {
        let (mut begins, mut last) = (Ps::ZERO, Ps::ZERO);
        for step in &self.last.steps {
            if !matches!(step.look, PassLook::Work) {
                last = begins;
            }
            begins += step.cost;
        }
        last
    }
}
