//! Paths of whole operations. A work request is an operation of its own, or threads mark the steps of an
//! operation of several messages. The marks name the work requests that carry the operation, so its path
//! consists of their messages' paths and of the threads' time between them.

use super::operations::{EndedOperation, OperationEnd, TracedOperation};
use super::way::{KeptPath, OperationPath, OperationStage, Wait};
use crate::core::index::{CoreId, MachineId};
use crate::core::ps::Ps;
use doorbell_verbs::{OperationKey, OperationStep};
use std::collections::{HashMap, VecDeque};

/// The operations whose paths a trace keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathsOf {
    /// Signaled work requests.
    WorkRequests,
    /// Operations whose steps threads [mark](doorbell_verbs::Cpu::mark).
    MarkedOperations,
}

/// A step of a marked operation, on a machine at a time.
struct MarkedStep {
    machine: MachineId,
    at: Ps,
    kind: MarkedKind,
}

enum MarkedKind {
    /// A thread posts the traced work request of this number.
    Posts(u64),
    /// A thread has found the message of the last work request.
    Finds,
    /// A thread has polled the CQE of the last work request.
    Completes,
}

/// A marked operation.
struct MarkedOperation {
    machine: MachineId,
    begin: Ps,
    steps: Vec<MarkedStep>,
}

/// The paths of a work request of a marked operation.
#[derive(Default)]
struct Leg {
    name: String,
    /// The path until the message was in the receiver's memory.
    landed: Option<OperationPath>,
    /// The path until the CQE was polled.
    completed: Option<OperationPath>,
}

/// Keeps paths of operations.
pub(super) struct Follower {
    of: Option<PathsOf>,
    /// Number of marked operations to follow.
    asked: u64,
    begun: u64,
    live: HashMap<OperationKey, MarkedOperation>,
    /// For each core, the operations of the work requests that it posts next.
    posts: HashMap<(MachineId, CoreId), VecDeque<OperationKey>>,
    /// Work requests of live operations, by their numbers in the trace.
    legs: HashMap<u64, Leg>,
    /// Marked operations that have ended since the last event: when their latency began, and when they ended.
    over: Vec<(MarkedOperation, Ps, Ps)>,
    kept: Vec<KeptPath>,
    /// Marked operations that have ended, but whose path is not known.
    unknown: u64,
}

impl Follower {
    pub(super) fn new(of: Option<PathsOf>, asked: u64) -> Follower {
        Follower {
            of,
            asked,
            begun: 0,
            live: HashMap::new(),
            posts: HashMap::new(),
            legs: HashMap::new(),
            over: Vec::new(),
            kept: Vec::new(),
            unknown: 0,
        }
    }

    /// Whether threads mark the operations.
    pub(super) fn follows(&self) -> bool {
        self.of == Some(PathsOf::MarkedOperations)
    }

    /// Whether all operations that were requested have ended.
    pub(super) fn is_done(&self) -> bool {
        !self.follows() || self.begun >= self.asked && self.live.is_empty() && self.over.is_empty()
    }

    /// Whether a marked operation is followed.
    pub(super) fn has(&self, key: OperationKey) -> bool {
        self.live.contains_key(&key)
    }

    /// Records a marked step.
    pub(super) fn marked(
        &mut self,
        core: (MachineId, CoreId),
        at: Ps,
        key: OperationKey,
        step: OperationStep,
    ) {
        if !self.follows() {
            return;
        }
        let machine = core.0;
        match step {
            OperationStep::Begins if self.begun < self.asked => {
                self.begun += 1;
                let operation = MarkedOperation { machine, begin: at, steps: Vec::new() };
                if let Some(given_up) = self.live.insert(key, operation) {
                    self.unknown += 1;
                    self.forget(&given_up);
                }
            }
            OperationStep::Begins => {}
            OperationStep::Posts => self.posts.entry(core).or_default().push_back(key),
            OperationStep::Finds => self.step(key, MarkedStep { machine, at, kind: MarkedKind::Finds }),
            OperationStep::Completes => {
                self.step(key, MarkedStep { machine, at, kind: MarkedKind::Completes });
            }
            OperationStep::Ends { since } => {
                let ended = self.live.remove(&key);
                self.over.extend(ended.map(|operation| (operation, since.into(), at)));
            }
        }
    }

    fn step(&mut self, key: OperationKey, step: MarkedStep) {
        if let Some(operation) = self.live.get_mut(&key) {
            operation.steps.push(step);
        }
    }

    /// Takes the keys of the work requests that a core is posting.
    pub(super) fn posts(&mut self, core: (MachineId, CoreId)) -> VecDeque<OperationKey> {
        self.posts.get_mut(&core).map(std::mem::take).unwrap_or_default()
    }

    /// Records a work request of a marked operation. The call that posts it began at `at`.
    pub(super) fn posted(&mut self, key: OperationKey, posted: &TracedOperation, at: Ps) {
        let kind = MarkedKind::Posts(posted.number);
        self.step(key, MarkedStep { machine: posted.machine, at, kind });
        self.legs.insert(posted.number, Leg { name: posted.name.clone(), ..Leg::default() });
    }

    /// Records that the message of a work request is in the receiver's memory. Of a message of several
    /// packets, the last call counts.
    pub(super) fn landed(&mut self, number: u64, path: OperationPath) {
        if let Some(leg) = self.legs.get_mut(&number) {
            leg.landed = Some(path);
        }
    }

    /// Records the end of a work request.
    pub(super) fn ended(&mut self, EndedOperation { operation, end, .. }: &EndedOperation) {
        match self.of {
            Some(PathsOf::WorkRequests) if *end == OperationEnd::Completed => {
                self.kept.extend(operation.way.kept(operation.name.clone(), operation.machine));
            }
            Some(PathsOf::MarkedOperations) if *end == OperationEnd::Completed => {
                if let Some(leg) = self.legs.get_mut(&operation.number) {
                    leg.completed = Some(operation.way.clone());
                }
            }
            _ => {}
        }
    }

    /// Joins the paths of marked operations that have ended. Must be called after the effects of the last
    /// event were recorded.
    pub(super) fn join(&mut self) {
        for (operation, since, end) in std::mem::take(&mut self.over) {
            match self.joined(&operation, since, end) {
                Some(path) => self.kept.push(path),
                None => self.unknown += 1,
            }
            self.forget(&operation);
        }
    }

    /// The path of an operation. `None` if a message was posted again before it was found, or a message that
    /// was found is not known.
    fn joined(&self, operation: &MarkedOperation, since: Ps, end: Ps) -> Option<KeptPath> {
        let MarkedOperation { machine, begin, steps } = operation;
        let mut path = OperationPath::new(since, *machine);
        path.on(OperationStage::Wait(Wait::Turn), *begin);
        let mut names: Vec<&str> = Vec::new();
        let mut last: Option<(&Leg, Ps)> = None;
        for MarkedStep { machine, at, kind } in steps {
            path.on_machine(*machine);
            match kind {
                MarkedKind::Posts(number) => {
                    if last.is_some_and(|(_, posted)| posted != *at) {
                        return None;
                    }
                    let leg = self.legs.get(number)?;
                    path.on(OperationStage::Program, *at);
                    names.push(&leg.name);
                    last = Some((leg, *at));
                }
                MarkedKind::Finds => {
                    path.append(Wait::Cpu, last.take()?.0.landed.as_ref()?);
                    path.on_machine(*machine).on(OperationStage::Wait(Wait::Thread), *at);
                }
                MarkedKind::Completes => {
                    path.append(Wait::Cpu, last.take()?.0.completed.as_ref()?);
                    path.on_machine(*machine).on(OperationStage::Program, *at);
                }
            }
            if path.at > *at {
                return None;
            }
        }
        path.on_machine(*machine).on(OperationStage::Program, end);
        let is_whole = last.is_none() && path.at == end;
        is_whole.then(|| path.kept(names.join(", "), *machine)).flatten()
    }

    /// Removes the work requests of an operation.
    fn forget(&mut self, operation: &MarkedOperation) {
        for step in &operation.steps {
            if let MarkedKind::Posts(number) = step.kind {
                self.legs.remove(&number);
            }
        }
    }

    /// The kept paths, and the number of operations without a path. `unfinished` is the number of work
    /// requests that did not end.
    pub(super) fn close(self, unfinished: u64) -> (Vec<KeptPath>, u64) {
        let without_path = match self.of {
            None => 0,
            Some(PathsOf::WorkRequests) => unfinished,
            Some(PathsOf::MarkedOperations) => self.unknown + self.live.len() as u64,
        };
        (self.kept, without_path)
    }
}
