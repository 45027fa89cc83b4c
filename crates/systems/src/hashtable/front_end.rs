//! A front-end: its operations in flight, and the writes that it holds back.

use super::cache::HeldWrites;
use super::cold::{ColdGet, ColdPut};
use super::config::Hashtable;
use super::hot::{HotGet, Publication, Publish, Stray};
use super::io::Io;
use super::locks::BlockLocks;
use super::moves::Move;
use super::neighbours::Neighbours;
use super::request::OpSlot;
use super::table::Hot;
use super::terms::Terms;
use super::turn::{OpStep, OpTurn};
use crate::proxy::channel::LATE;
use crate::spinlock::Leased;
use crate::{Interval, SystemError, work};
use doorbell_verbs::{Provider, Time};

/// Largest number of operations that begin in a pass. After a pass, the front-end polls for completions.
const PASS: u32 = 16;

/// An operation on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableOp {
    /// Reads the key.
    Get(u64),
    /// Writes a value to the key. The value has as many bytes as all values of the table.
    Put(u64, Vec<u8>),
    /// Makes the key hot: the key moves to its entry of a block, and the key that was in this entry becomes
    /// cold. In a table without blocks nothing moves.
    Move(u64),
}

impl TableOp {
    fn key(&self) -> u64 {
        match self {
            TableOp::Get(key) | TableOp::Put(key, _) | TableOp::Move(key) => *key,
        }
    }
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableOutcome<'a> {
    /// The value that was read.
    Read(&'a [u8]),
    /// The value is written.
    Wrote,
    /// The key is in its block.
    Moved,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug)]
pub struct Done<'a> {
    /// The key of the operation.
    pub key: u64,
    /// The result of the operation.
    pub outcome: TableOutcome<'a>,
    /// The version that was read or written; `None` for a move, and for a value that is not published.
    pub version: Option<u64>,
    /// For a hot write, how often this front-end has written the key's entry, including this write.
    pub count: u64,
    /// When the operation began.
    pub began: Time,
    /// When the operation ended.
    pub ended: Time,
    /// How often a part of the operation was repeated.
    pub again: u64,
}

/// A publication of a block.
#[derive(Clone, Copy, Debug)]
pub struct Published<'a> {
    /// For each published entry: its key, its version, and how often this front-end had written the entry.
    pub entries: &'a [(u64, u64, u64)],
    /// The number of writes that were published.
    pub writes: u32,
    /// When the first of these writes was made.
    pub since: Time,
    /// When the publication began.
    pub began: Time,
    /// When the publication ended.
    pub ended: Time,
    /// How many attempts to acquire the lock failed, and how often another front-end took the lock over.
    pub again: u64,
}

/// The source of a front-end's operations, and the receiver of their results.
pub trait Work {
    /// The next operation, if one is to begin. Operations on one key end in the order in which they begin.
    fn next(&mut self, now: Time) -> Option<TableOp>;

    /// Whether no operation will ever begin again.
    fn is_over(&self) -> bool;

    /// Receives the result of an operation that has ended.
    fn done(&mut self, done: Done<'_>);

    /// Receives the result of a publication.
    fn published(&mut self, published: Published<'_>);
}

/// An operation in flight.
#[derive(Debug)]
enum OpTask {
    Put(ColdPut),
    Get(ColdGet),
    Hot(HotGet),
    Move(Move),
    /// A move of the key into its block, for a write of this value.
    MoveToWrite(Move, Vec<u8>),
    /// A write of this value that waits for room in the cache.
    Hold(Hot, Vec<u8>),
}

impl OpTask {
    /// How often the operation, or a part of it, was repeated.
    fn again(&self) -> u64 {
        match self {
            OpTask::Put(put) => put.again,
            OpTask::Get(get) => get.again,
            OpTask::Hot(get) => get.again,
            OpTask::Move(moves) | OpTask::MoveToWrite(moves, _) => moves.again(),
            OpTask::Hold(..) => 0,
        }
    }

    /// Goes on after the posted list has completed.
    ///
    /// # Panics
    /// If the operation has posted nothing.
    fn completed<P: Provider>(&mut self, turn: &mut OpTurn<'_, P>) -> Result<OpStep, SystemError> {
        match self {
            OpTask::Put(put) => put.completed(turn),
            OpTask::Get(get) => get.completed(turn),
            OpTask::Hot(get) => get.completed(turn),
            OpTask::Move(moves) | OpTask::MoveToWrite(moves, _) => moves.completed(turn),
            OpTask::Hold(hot, _) => panic!(
                "a list completed for a value of {hot:?}, but the value waits for room and has posted none"
            ),
        }
    }

    /// Goes on after a wait.
    ///
    /// # Panics
    /// If the operation does not wait.
    fn resume<P: Provider>(&mut self, turn: &OpTurn<'_, P>) -> Result<OpStep, SystemError> {
        match self {
            OpTask::Put(put) => put.resume(turn),
            OpTask::Move(moves) | OpTask::MoveToWrite(moves, _) => moves.resume(turn),
            OpTask::Hold(..) => Ok(OpStep::Ended(0)),
            OpTask::Get(_) | OpTask::Hot(_) => panic!("a read was resumed, but reads never wait: {self:?}"),
        }
    }

    /// The operation that continues at the key's other location, record or block, because the key was not
    /// found at the first one.
    ///
    /// # Panics
    /// If this operation never ends elsewhere.
    fn elsewhere<P: Provider>(self, turn: &OpTurn<'_, P>, key: u64) -> Result<OpTask, SystemError> {
        let Some(hot) = turn.table().entry_of(key) else {
            let why = format!("key {key} has left its record, but the table has no blocks");
            return Err(SystemError::Protocol(why));
        };
        Ok(match self {
            OpTask::Put(put) => OpTask::MoveToWrite(Move::begin(turn, (key, hot), true)?, put.into_value()),
            OpTask::MoveToWrite(_, value) => OpTask::Put(ColdPut::begin(turn, key, value)?),
            OpTask::Get(_) => OpTask::Hot(HotGet::begin(turn, (key, hot))?),
            OpTask::Hot(_) => OpTask::Get(ColdGet::begin(turn, key, true)?),
            OpTask::Move(_) | OpTask::Hold(..) => {
                panic!("key {key} has moved, but {self:?} has no other place for it")
            }
        })
    }
}

/// Values that a publication could not put into its block, because their keys had left the block. They go to
/// records.
#[derive(Debug)]
struct Strays {
    block: u32,
    /// When the first of the published writes was made.
    since: Time,
    /// The value that is being written: its key, the key's entry, and how often the front-end had written
    /// this entry.
    key: u64,
    hot: Hot,
    count: u64,
    /// The remaining values. The last element is written next.
    left: Vec<Stray>,
}

/// A task in flight.
#[derive(Debug)]
enum Task {
    /// An operation on this key.
    Op(u64, OpTask),
    Publish(Publish),
    /// The write of a stray value to its record.
    Stray(Strays, OpTask),
}

impl Task {
    /// How often the task, or a part of it, was repeated.
    fn again(&self) -> u64 {
        match self {
            Task::Op(_, task) | Task::Stray(_, task) => task.again(),
            Task::Publish(publish) => publish.again(),
        }
    }
}

/// A task in flight, with its times.
#[derive(Debug)]
struct RunningTask {
    task: Task,
    /// Repetitions before the current task began.
    again: u64,
    began: Time,
    /// When the task continues without a completion.
    wait: Option<Time>,
}

impl RunningTask {
    fn new(task: Task, began: Time) -> RunningTask {
        RunningTask { task, again: 0, began, wait: None }
    }

    /// Whether the task is an operation on this key.
    fn is_of(&self, of: u64) -> bool {
        matches!(self.task, Task::Op(key, _) if key == of)
    }
}

/// A front-end of the table.
pub struct FrontEnd<P: Provider> {
    io: Io<P>,
    terms: Terms,
    locks: BlockLocks,
    cache: HeldWrites<P>,
    /// Operations on keys, then publications; the index is the [`OpSlot`].
    running: Vec<Option<RunningTask>>,
    /// The slots whose lists have completed.
    completed: Vec<OpSlot>,
    operations: usize,
    /// The next operation, if it could not begin. It waits for another operation on its key, for a
    /// publication, or for room.
    next: Option<TableOp>,
}

impl<P: Provider> FrontEnd<P> {
    /// Opens front-end `number` of a table that [`super::put_up`] has set up, with the memory that it shares
    /// with other front-ends. Returns when the front-end is connected.
    ///
    /// # Errors
    /// If a verb fails.
    pub fn open(
        cpu: &P,
        config: &Hashtable,
        number: u32,
        neighbours: Neighbours,
    ) -> Result<FrontEnd<P>, SystemError> {
        let io = Io::open(cpu, config, number, neighbours)?;
        let leased = Leased::fenced(io.table.locks(), config.table_lease.span(), config.drift.span());
        let locks = BlockLocks::new(leased, number + 1, io.table.blocks);
        Ok(FrontEnd {
            cache: HeldWrites::new(&io.device, &io.table)?,
            io,
            terms: Terms::of(config),
            locks,
            running: (0..config.operations()).map(|_| None).collect(),
            completed: Vec::new(),
            operations: config.clients.outstanding as usize,
            next: None,
        })
    }

    /// Executes the operations of `work` until the interval ends, or until all operations have ended and all
    /// hot writes are published. Call [`FrontEnd::serve`] afterwards.
    ///
    /// # Errors
    /// If a verb fails, or an entry that must be whole is not.
    pub fn run(&mut self, work: &mut impl Work, interval: &Interval) -> Result<(), SystemError> {
        let ended = self.work(work, interval);
        self.io.leave(&ended);
        ended
    }

    /// Serves as proxy until all front-ends of its machine have done their work, or until long after the
    /// interval.
    ///
    /// # Errors
    /// If a verb fails.
    pub fn serve(&mut self, interval: &Interval) -> Result<(), SystemError> {
        let until = interval.end() + LATE;
        while !self.io.all_are_done() && self.io.cpu.now() < until {
            self.completed.clear();
            if !(self.io.completed(&mut self.completed)? | self.io.serve()?) {
                self.io.cpu.pause(until);
            }
        }
        Ok(())
    }

    fn work(&mut self, work: &mut impl Work, interval: &Interval) -> Result<(), SystemError> {
        while self.io.cpu.now() < interval.end() {
            let mut busy = self.complete(work)? | self.io.serve()?;
            busy |= self.resume(work)?;
            busy |= self.begin(work)?;
            let mut due = self.cache.look(&self.terms);
            if work.is_over() && self.is_idle() {
                if !self.cache.publish_all() {
                    return Ok(());
                }
                due = Time::NEVER;
            }
            busy |= self.publish()?;
            if !busy {
                let waits = self.running.iter().flatten().filter_map(|running| running.wait);
                let until = waits.fold(due.min(interval.look()), Time::min);
                self.io.cpu.pause(until);
            }
        }
        Ok(())
    }

    /// Whether no operation is in flight; publications may be.
    fn is_idle(&self) -> bool {
        self.next.is_none() && self.running[..self.operations].iter().all(Option::is_none)
    }

    /// Begins operations. Returns whether any began.
    fn begin(&mut self, work: &mut impl Work) -> Result<bool, SystemError> {
        let mut any = false;
        for _ in 0..PASS {
            let now = self.io.cpu.now();
            let op = match self.next.take() {
                Some(op) => op,
                None => {
                    let Some(op) = work.next(now) else { break };
                    self.io.cpu.work(work::INDEX);
                    op
                }
            };
            self.next = self.begin_one(work, op, now)?;
            if self.next.is_some() {
                break;
            }
            any = true;
        }
        Ok(any)
    }

    /// Begins an operation, and may end it at once. Hands the operation back if it has to wait.
    fn begin_one(
        &mut self,
        work: &mut impl Work,
        op: TableOp,
        began: Time,
    ) -> Result<Option<TableOp>, SystemError> {
        let key = op.key();
        let operations = &self.running[..self.operations];
        if operations.iter().flatten().any(|running| running.is_of(key)) {
            return Ok(Some(op));
        }
        let hot = self.io.table.entry_of(key);
        if let Some(hot) = hot {
            let done = match &op {
                TableOp::Get(_) => self.cache.read(hot, key).map(|value| (Some(value), 0)),
                TableOp::Put(_, value) if self.cache.takes(hot, key) => {
                    let Some(count) = self.cache.write(hot, key, value, &self.terms) else {
                        return Ok(Some(op));
                    };
                    Some((None, count))
                }
                TableOp::Put(..) | TableOp::Move(_) => None,
            };
            if let Some((read, count)) = done {
                let outcome = read.as_deref().map_or(TableOutcome::Wrote, TableOutcome::Read);
                let ended = self.io.cpu.now();
                work.done(Done { key, outcome, version: None, count, began, ended, again: 0 });
                return Ok(None);
            }
        }
        let free = operations.iter().position(Option::is_none);
        let Some(free) = free else { return Ok(Some(op)) };
        let is_hot = hot.is_some_and(|hot| self.cache.takes(hot, key));
        let turn = self.turn(OpSlot(free as u32));
        let task = match (hot, op) {
            (Some(hot), TableOp::Move(_)) => OpTask::Move(Move::begin(&turn, (key, hot), false)?),
            (None, TableOp::Move(_)) => {
                let (ended, outcome) = (turn.now(), TableOutcome::Moved);
                work.done(Done { key, outcome, version: None, count: 0, began, ended, again: 0 });
                return Ok(None);
            }
            (Some(hot), TableOp::Get(_)) if is_hot => OpTask::Hot(HotGet::begin(&turn, (key, hot))?),
            (_, TableOp::Get(_)) => OpTask::Get(ColdGet::begin(&turn, key, false)?),
            (_, TableOp::Put(_, value)) => OpTask::Put(ColdPut::begin(&turn, key, value)?),
        };
        self.running[free] = Some(RunningTask::new(Task::Op(key, task), began));
        Ok(None)
    }

    /// The turn of the task in a slot.
    fn turn(&mut self, slot: OpSlot) -> OpTurn<'_, P> {
        let FrontEnd { io, terms, locks, cache, .. } = self;
        OpTurn { io, terms, locks, cache, slot }
    }

    /// Begins publications of due blocks. Returns whether any began.
    fn publish(&mut self) -> Result<bool, SystemError> {
        let mut any = false;
        for _ in 0..self.cache.due() {
            let free = self.running[self.operations..].iter().position(Option::is_none);
            let Some(free) = free else { break };
            let Some(block) = self.cache.next_due() else { break };
            if !self.locks.may_ask(block) {
                self.cache.is_due_later(block);
                continue;
            }
            let free = self.operations + free;
            let began = self.io.cpu.now();
            let publish = Publish::begin(&mut self.turn(OpSlot(free as u32)), block)?;
            self.running[free] = Some(RunningTask::new(Task::Publish(publish), began));
            any = true;
        }
        Ok(any)
    }

    /// Continues all tasks whose list has completed. Returns whether any list had completed.
    ///
    /// # Panics
    /// If a list completes and its task is not in flight.
    fn complete(&mut self, work: &mut impl Work) -> Result<bool, SystemError> {
        self.completed.clear();
        let any = self.io.completed(&mut self.completed)?;
        for nth in 0..self.completed.len() {
            let slot = self.completed[nth];
            let Some(mut running) = self.running[slot.0 as usize].take() else {
                panic!("a list of {slot:?} completed, but the slot has no operation in flight")
            };
            let turn = &mut self.turn(slot);
            let step = match &mut running.task {
                Task::Op(_, task) | Task::Stray(_, task) => task.completed(turn)?,
                Task::Publish(publish) => publish.completed(turn)?,
            };
            self.running[slot.0 as usize] = self.step(work, running, slot, step)?;
        }
        Ok(any)
    }

    /// Continues all tasks whose wait is over. Returns whether there were any.
    fn resume(&mut self, work: &mut impl Work) -> Result<bool, SystemError> {
        let mut any = false;
        for at in 0..self.running.len() {
            let now = self.io.cpu.now();
            let is_over = |running: &RunningTask| running.wait.is_some_and(|until| now >= until);
            let Some(mut running) = self.running[at].take_if(|running| is_over(running)) else { continue };
            (running.wait, any) = (None, true);
            let slot = OpSlot(at as u32);
            let turn = &self.turn(slot);
            let step = match &mut running.task {
                Task::Op(_, task) | Task::Stray(_, task) => task.resume(turn)?,
                Task::Publish(publish) => publish.resume(turn)?,
            };
            self.running[at] = self.step(work, running, slot, step)?;
        }
        Ok(any)
    }

    /// Handles the result of a step of a task. Returns the task that then occupies the slot; `None` if the
    /// slot is free.
    fn step(
        &mut self,
        work: &mut impl Work,
        mut running: RunningTask,
        slot: OpSlot,
        step: OpStep,
    ) -> Result<Option<RunningTask>, SystemError> {
        match step {
            OpStep::Posted => Ok(Some(running)),
            OpStep::Wait(until) => Ok(Some(RunningTask { wait: Some(until), ..running })),
            OpStep::Ended(version) => self.ended(work, running, slot, version),
            OpStep::Elsewhere => {
                running.again += running.task.again() + 1;
                let turn = &self.turn(slot);
                running.task = match running.task {
                    Task::Op(key, task) => Task::Op(key, task.elsewhere(turn, key)?),
                    Task::Stray(strays, task) => {
                        let key = strays.key;
                        Task::Stray(strays, task.elsewhere(turn, key)?)
                    }
                    Task::Publish(publish) => panic!("a block has no other place: {publish:?}"),
                };
                Ok(Some(running))
            }
        }
    }

    /// Reports a task that has ended, and begins the task that follows it.
    fn ended(
        &mut self,
        work: &mut impl Work,
        running: RunningTask,
        slot: OpSlot,
        version: u64,
    ) -> Result<Option<RunningTask>, SystemError> {
        let again = running.again + running.task.again();
        let RunningTask { task, began, .. } = running;
        match task {
            Task::Op(key, task) => Ok(self.op_ended(work, (key, task), version, (began, again))),
            Task::Publish(publish) => {
                let (block, publication) = publish.into_publication();
                self.published(work, (block, publication), slot, (began, again))
            }
            Task::Stray(strays, task) => {
                let version = matches!(task, OpTask::Put(_)).then_some(version);
                self.stray_ended(work, strays, slot, version, (began, again))
            }
        }
    }

    /// Reports an operation that has ended, unless its value still waits for room in the cache.
    fn op_ended(
        &mut self,
        work: &mut impl Work,
        (key, task): (u64, OpTask),
        version: u64,
        (began, again): (Time, u64),
    ) -> Option<RunningTask> {
        let (ended, bytes) = (self.io.cpu.now(), self.io.table.value);
        let done = |outcome| Done { key, outcome, version: Some(version), count: 0, began, ended, again };
        let (hot, value) = match task {
            OpTask::Put(_) => {
                work.done(done(TableOutcome::Wrote));
                return None;
            }
            OpTask::Get(get) => {
                work.done(done(TableOutcome::Read(get.value(bytes))));
                return None;
            }
            OpTask::Hot(get) => {
                work.done(done(TableOutcome::Read(get.value(bytes))));
                return None;
            }
            OpTask::Move(_) => {
                work.done(Done { version: None, ..done(TableOutcome::Moved) });
                return None;
            }
            OpTask::MoveToWrite(moves, value) => (moves.hot(), value),
            OpTask::Hold(hot, value) => (hot, value),
        };
        let Some(count) = self.cache.write(hot, key, &value, &self.terms) else {
            let wait = Some(ended + self.terms.waits.turns(1));
            return Some(RunningTask { task: Task::Op(key, OpTask::Hold(hot, value)), again, began, wait });
        };
        work.done(Done { version: None, count, ..done(TableOutcome::Wrote) });
        None
    }

    /// Reports a publication. Then begins to write the stray values, whose keys had left the block, to their
    /// records.
    fn published(
        &mut self,
        work: &mut impl Work,
        (block, publication): (u32, Publication),
        slot: OpSlot,
        (began, again): (Time, u64),
    ) -> Result<Option<RunningTask>, SystemError> {
        let Publication { taken, entries, there, strays } = publication;
        let (writes, since, ended) = (taken.writes, taken.since, self.io.cpu.now());
        work.published(Published { entries: &entries, writes, since, began, ended, again });
        self.cache.are_there(block, there);
        self.next_stray((block, since), strays, slot, began)
    }

    /// Writes the next stray value. If none is left, the publication has ended.
    fn next_stray(
        &mut self,
        (block, since): (u32, Time),
        mut left: Vec<Stray>,
        slot: OpSlot,
        began: Time,
    ) -> Result<Option<RunningTask>, SystemError> {
        let Some(Stray { key, hot, value, count }) = left.pop() else {
            self.cache.published(block, &self.terms);
            return Ok(None);
        };
        let task = OpTask::Put(ColdPut::begin(&self.turn(slot), key, value)?);
        let strays = Strays { block, since, key, hot, count, left };
        Ok(Some(RunningTask::new(Task::Stray(strays, task), began)))
    }

    /// Reports a stray value that was written to its record with this version. If `version` is `None`, the
    /// key is in its block again, and the value will be published there.
    fn stray_ended(
        &mut self,
        work: &mut impl Work,
        strays: Strays,
        slot: OpSlot,
        version: Option<u64>,
        (began, again): (Time, u64),
    ) -> Result<Option<RunningTask>, SystemError> {
        let Strays { block, since, key, hot, count, left } = strays;
        match version {
            Some(version) => {
                let (entries, ended) = ([(key, version, count)], self.io.cpu.now());
                work.published(Published { entries: &entries, writes: 0, since, began, ended, again });
                self.cache.are_there(block, 1 << hot.entry);
            }
            None => self.cache.put_one_back(hot, since),
        }
        self.next_stray((block, since), left, slot, began)
    }
}
