//! Threads in virtual time, and the skipping of empty passes.
//!
//! Between two `pause`s a thread makes a pass. Where two passes in a row did exactly the same and
//! had no effect, a third would too, until something they looked at changes. So the thread sleeps
//! until then and goes on in the pass that was under way at that moment: what it looks at before
//! that moment gives the recorded answers, what it looks at after it is looked at anew.
//!
//! A pass that was found to repeat so is remembered. When the steps after a thread's last effect
//! are those of the remembered pass, the thread is back in its loop and need not show it twice. A
//! pass that looked at nothing is not remembered: after an effect, no more than a pause is no loop yet.

use crate::core::index::{CoreId, CqId, DeviceId, MachineId, ThreadId};
use crate::core::ps::Ps;
use crate::core::queue::EventKey;
use crate::host::MemPlace;

/// One step of a pass that has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassLook {
    /// Loaded a word of up to 8 bytes.
    Load { place: MemPlace, value: u64 },
    /// Loaded bytes; what they were is in the pass's `bytes`.
    Read { place: MemPlace, len: u32 },
    /// Polled an empty CQ.
    Poll { device: DeviceId, cq: CqId },
    /// Worked.
    Work,
}

/// A step and what it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PassStep {
    pub(crate) look: PassLook,
    pub(crate) cost: Ps,
}

/// More steps than a pass may have to be skipped, and more bytes than it may have read.
const MAX_STEPS: usize = 4096;
const MAX_BYTES: usize = 16384;

/// What a thread did since its last pause or effect.
#[derive(Default)]
pub(crate) struct Pass {
    steps: Vec<PassStep>,
    bytes: Vec<u8>,
    /// It began with an effect, not with a pause.
    tail: bool,
    /// It was too long to record.
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

    /// Where neither has read bytes, none are compared: a vector without room has no address, and comparing
    /// no bytes there takes a processor hundreds of cycles where the library does that by a masked load.
    fn read_the_same(&self, other: &Pass) -> bool {
        self.bytes.len() == other.bytes.len() && (self.bytes.is_empty() || self.bytes == other.bytes)
    }

    /// Whether it looked at something. All loops that only wait for a time are alike: such a pass does not say which one a thread is in.
    fn looks(&self) -> bool {
        self.steps.iter().any(|step| step.look != PassLook::Work)
    }

    fn copy_from(&mut self, other: &Pass) {
        self.steps.clone_from(&other.steps);
        self.bytes.clone_from(&other.bytes);
    }
}

/// What a thread waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// For its turn.
    Turn,
    /// For something that its passes look at, or its deadline.
    Pause {
        /// When the pass began that would have been the next.
        since: Ps,
        /// Length of a pass.
        pass: Ps,
        /// When it ends at the latest; [`Ps::NEVER`] for never.
        deadline: Ps,
        /// Whether its wake-up is already on the way.
        waking: bool,
    },
    /// For a key of the out-of-band exchange.
    Key(String),
    /// Asleep in the kernel, for a socket.
    Socket {
        /// Since when.
        since: Ps,
        /// Until when at the latest; [`Ps::NEVER`] for ever.
        deadline: Ps,
        /// Time in the metering window that interrupts have had of its core meanwhile.
        interrupted: Ps,
    },
    /// It came to its end.
    Ended,
}

/// A thread: one per core at most.
pub(crate) struct Thread {
    pub(crate) machine: MachineId,
    pub(crate) core: CoreId,
    pub(crate) clock: Ps,
    pub(crate) waiting: Waiting,
    /// When its turn comes; [`Ps::NEVER`] for none.
    pub(crate) turn_at: Ps,
    /// When the earliest turn comes that was queued for a deadline; [`Ps::NEVER`] for none. It may be
    /// stale: threads mostly pause with the same deadline again and again.
    pub(crate) deadline_at: Ps,
    pass: Pass,
    last: Pass,
    /// The last pass that was found to repeat.
    steady: Pass,
    /// Number of steps of the current pass that have the answers of the last one.
    replay: Option<usize>,
    /// Up to where (exclusive) those answers hold.
    replay_until: EventKey,
    /// What interrupts have taken of its core since it was woken in a pass, from the moment on at which it was.
    owed: Ps,
    /// Time in the metering window spent on passes that found nothing.
    pub(crate) idle: Ps,
    /// Address in its stack at which it stopped last, for [`crate::core::fetch`].
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
            stopped_at: 0,
        }
    }

    /// Who it is, for messages.
    pub(crate) fn name(&self) -> String {
        format!("the thread on core {} of machine {}", self.core.0, self.machine.0)
    }

    /// Notes a step without effect, at its end.
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

    /// Notes bytes that a `PassLook::Read` gave.
    pub(crate) fn note_bytes(&mut self, bytes: &[u8]) {
        if self.pass.bytes.len() + bytes.len() <= MAX_BYTES {
            self.pass.bytes.extend_from_slice(bytes);
        } else {
            self.pass.too_long = true;
        }
    }

    /// Notes an effect: what comes after it may be a pass.
    pub(crate) fn effect(&mut self) {
        self.end_replay();
        self.pass.clear(self.clock);
        self.pass.tail = true;
    }

    /// An interrupt takes `span` of its core from now on, of which its clock is not before.
    pub(crate) fn put_off(&mut self, span: Ps) {
        self.clock += span;
        // What a pass takes by itself is still what it took.
        self.pass.started += span;
    }

    /// The same where it sleeps in its passes and is woken for it, or was: what is left of the pass that is under
    /// way comes after it.
    pub(crate) fn put_off_in_pass(&mut self, span: Ps) {
        self.owed += span;
    }

    /// From now on it looks at things anew.
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

    /// The recorded answer to the next step, if it is the same step and lies before the moment at
    /// which the thread was woken. Advances the clock by its cost.
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

    /// The recorded bytes of a replayed `PassLook::Read` that is the last noted step.
    pub(crate) fn replayed_bytes(&mut self, len: usize) -> &[u8] {
        let from = self.pass.bytes.len();
        let (last, pass) = (&self.last.bytes, &mut self.pass.bytes);
        pass.extend_from_slice(&last[from..from + len]);
        &self.pass.bytes[from..]
    }

    /// Ends a pass; true where it is known to repeat.
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

    /// When the pass that was just ended began.
    pub(crate) fn last_pass_started(&self) -> Ps {
        self.last.started
    }

    /// The steps of the pass that was just ended.
    pub(crate) fn last_steps(&self) -> &[PassStep] {
        &self.last.steps
    }

    /// Puts the thread, which sleeps in passes, into the pass that is under way at `at.time`, or to
    /// its end if nothing is looked at in the rest of it. Returns the time of its turn; none where
    /// it does not sleep so or was already put there.
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

    /// When the last step of the pass that was just ended that looked at something began, counted
    /// from the pass's start.
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
