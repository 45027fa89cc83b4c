//! A front-end: operations under way, and what it holds back.

use super::cache::Cache;
use super::cold::{self, Step};
use super::config::Hashtable;
use super::hot::{self, Stray};
use super::io::{Io, Slot};
use super::lock::Locks;
use super::moves::Move;
use super::neighbours::Neighbours;
use crate::proxy::channel::LATE;
use crate::spinlock::{Leased, Waits};
use crate::{Interval, SystemError, work};
use doorbell_verbs::{Provider, Span, Time};

/// Operations that begin in a pass at most: it looks for completions between.
const PASS: u32 = 16;

/// An operation on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads it.
    Get(u64),
    /// Writes a value of as many bytes as the table's have.
    Put(u64, Vec<u8>),
    /// Makes it hot: it goes to its block, and the key that is in its place there becomes cold. In a table without blocks nothing moves.
    Move(u64),
}

impl Op {
    fn key(&self) -> u64 {
        match self {
            Op::Get(key) | Op::Put(key, _) | Op::Move(key) => *key,
        }
    }
}

/// What came of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// This was read.
    Read(&'a [u8]),
    /// The value is written.
    Wrote,
    /// The key is in its block.
    Moved,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug)]
pub struct Done<'a> {
    /// Its key.
    pub key: u64,
    /// What came of it.
    pub outcome: Outcome<'a>,
    /// The version that it read or wrote; none of what is not published.
    pub version: Option<u64>,
    /// Of a hot write, how often this front-end has written the key's place in its block with it.
    pub count: u64,
    /// When it began.
    pub began: Time,
    /// When it ended.
    pub ended: Time,
    /// How often a part of it was done again.
    pub again: u64,
}

/// What was published of a block.
#[derive(Clone, Copy, Debug)]
pub struct Published<'a> {
    /// Of each entry its key, the version, and how often this front-end had written its place.
    pub entries: &'a [(u64, u64, u64)],
    /// Writes that it brought.
    pub writes: u32,
    /// When the first of these ended.
    pub since: Time,
    /// When the publication began.
    pub began: Time,
    /// When it had ended.
    pub ended: Time,
    /// Attempts at the lock that failed, and publications that another's overtook.
    pub again: u64,
}

/// What a front-end has to do.
pub trait Work {
    /// The next operation, if one is to begin. Operations on one key end in the order in which they begin.
    fn next(&mut self, now: Time) -> Option<Op>;

    /// Whether none will ever begin again.
    fn is_over(&self) -> bool;

    /// An operation has ended.
    fn done(&mut self, done: Done<'_>);

    /// Writes were published.
    fn published(&mut self, published: Published<'_>);
}

/// What front-ends go by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) theta: u32,
    pub(super) time_out: Span,
    pub(super) lease: Span,
    pub(super) drift: Span,
    pub(super) guard: bool,
    pub(super) waits: Waits,
}

/// What is under way.
#[derive(Debug)]
enum Task {
    Put(cold::Put),
    Get(cold::Get),
    Hot(hot::Get),
    Publish(hot::Publish),
    /// A move, with a value that is written in the block then.
    Move(Move, Option<Vec<u8>>),
    /// A value that is written in the block as soon as there is room.
    Hold(Vec<u8>),
}

impl Task {
    /// How often it or a part of it was done again.
    fn again(&self) -> u64 {
        match self {
            Task::Put(put) => put.again,
            Task::Get(get) => get.again,
            Task::Hot(get) => get.again,
            Task::Publish(publish) => publish.again(),
            Task::Move(moves, _) => moves.again(),
            Task::Hold(_) => 0,
        }
    }
}

/// What goes to records after a block was published, as its keys were not there any more: the last one is on its way.
#[derive(Debug)]
struct Strays {
    block: u32,
    /// When the first of what was published then was written.
    since: Time,
    left: Vec<Stray>,
}

/// Something under way.
#[derive(Debug)]
struct Running {
    /// Its key, but of a publication.
    key: Option<u64>,
    task: Task,
    /// Of a publication that is over.
    strays: Option<Strays>,
    /// How often something was done again before what is under way now.
    again: u64,
    began: Time,
    /// When it goes on by itself.
    wait: Option<Time>,
}

impl Running {
    fn new(key: Option<u64>, task: Task, began: Time) -> Running {
        Running { key, task, strays: None, again: 0, began, wait: None }
    }
}

/// A front-end.
pub struct FrontEnd<P: Provider> {
    io: Io<P>,
    terms: Terms,
    locks: Locks,
    cache: Cache<P>,
    /// Operations on keys, then publications.
    running: Vec<Option<Running>>,
    /// Those of which something has completed.
    completed: Vec<Slot>,
    operations: usize,
    /// An operation that waits for another of its key, for a publication, or for room: it has not begun.
    next: Option<Op>,
}

impl<P: Provider> FrontEnd<P> {
    /// Front-end `number` of a table that [`super::put_up`] puts up, with what it shares with others; returns when it is connected.
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
        let locks = Locks::new(leased, number + 1, io.table.blocks);
        Ok(FrontEnd {
            cache: Cache::new(&io.device, &io.table)?,
            io,
            terms: Terms {
                theta: config.theta,
                time_out: config.time_out.span(),
                lease: config.table_lease.span(),
                drift: config.drift.span(),
                guard: config.guard,
                waits: config.waits(),
            },
            locks,
            running: (0..config.operations()).map(|_| None).collect(),
            completed: Vec::new(),
            operations: config.clients.outstanding as usize,
            next: None,
        })
    }

    /// Does work until the interval ends, or all has ended that there is, and all hot writes are published. What comes then is [`FrontEnd::serve`].
    ///
    /// # Errors
    /// If a verb fails, or an entry that must be whole is not.
    pub fn run(&mut self, work: &mut impl Work, interval: &Interval) -> Result<(), SystemError> {
        let ended = self.work(work, interval);
        self.io.leave(&ended);
        ended
    }

    /// Goes on for those whose proxy it is, until all front-ends of its machine have done their work, or long after the interval.
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

    /// Whether no operation is under way; publications may be.
    fn is_idle(&self) -> bool {
        self.next.is_none() && self.running[..self.operations].iter().all(Option::is_none)
    }

    /// Begins operations; whether any.
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

    /// Begins an operation, and may end it; hands it back where it has to wait.
    fn begin_one(&mut self, work: &mut impl Work, op: Op, began: Time) -> Result<Option<Op>, SystemError> {
        let key = op.key();
        let operations = &self.running[..self.operations];
        if operations.iter().flatten().any(|running| running.key == Some(key)) {
            return Ok(Some(op));
        }
        let hot = self.io.table.entry_of(key);
        if let Some(hot) = hot {
            let done = match &op {
                Op::Get(_) => self.cache.read(hot, key).map(|value| (Some(value), 0)),
                Op::Put(_, value) if self.cache.takes(hot, key) => {
                    let Some(count) = self.cache.write(hot, key, value, &self.terms) else {
                        return Ok(Some(op));
                    };
                    Some((None, count))
                }
                Op::Put(..) | Op::Move(_) => None,
            };
            if let Some((read, count)) = done {
                let outcome = read.as_deref().map_or(Outcome::Wrote, Outcome::Read);
                let ended = self.io.cpu.now();
                work.done(Done { key, outcome, version: None, count, began, ended, again: 0 });
                return Ok(None);
            }
        }
        let free = operations.iter().position(Option::is_none);
        let Some(free) = free else { return Ok(Some(op)) };
        let (io, slot) = (&self.io, Slot(free as u32));
        let task = match (hot, op) {
            (Some(hot), Op::Move(_)) => {
                Task::Move(Move::begin(io, slot, &self.locks, &self.terms, (key, hot), false)?, None)
            }
            (None, Op::Move(_)) => {
                let ended = self.io.cpu.now();
                let outcome = Outcome::Moved;
                work.done(Done { key, outcome, version: None, count: 0, began, ended, again: 0 });
                return Ok(None);
            }
            (Some(hot), Op::Get(_)) if self.cache.takes(hot, key) => {
                Task::Hot(hot::Get::begin(io, slot, &self.locks, (key, hot))?)
            }
            (_, Op::Get(_)) => Task::Get(cold::Get::begin(io, slot, key, false)?),
            (_, Op::Put(_, value)) => Task::Put(cold::Put::begin(io, slot, key, value)?),
        };
        self.running[free] = Some(Running::new(Some(key), task, began));
        Ok(None)
    }

    /// Begins publications of blocks that are due; whether any.
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
            let publish =
                hot::Publish::begin(&self.io, Slot(free as u32), &mut self.locks, &self.terms, block)?;
            let task = Task::Publish(publish);
            self.running[free] = Some(Running::new(None, task, began));
            any = true;
        }
        Ok(any)
    }

    /// Goes on with what has completed; whether anything had.
    fn complete(&mut self, work: &mut impl Work) -> Result<bool, SystemError> {
        self.completed.clear();
        let any = self.io.completed(&mut self.completed)?;
        for nth in 0..self.completed.len() {
            let slot = self.completed[nth];
            let at = slot.0 as usize;
            let Some(mut running) = self.running.get_mut(at).and_then(Option::take) else { continue };
            let step = self.goes_on(&mut running.task, slot)?;
            self.running[at] = self.step(work, running, slot, step)?;
        }
        Ok(any)
    }

    fn goes_on(&mut self, task: &mut Task, slot: Slot) -> Result<Step, SystemError> {
        let FrontEnd { io, terms, locks, cache, .. } = self;
        match task {
            Task::Put(put) => put.completed(io, slot, terms),
            Task::Get(get) => get.completed(io, slot),
            Task::Hot(get) => get.completed(io, slot, locks, cache),
            Task::Publish(publish) => publish.completed(io, slot, locks, cache),
            Task::Move(moves, _) => moves.completed(io, slot, terms, locks, cache),
            Task::Hold(_) => Ok(Step::Posted),
        }
    }

    /// Goes on with what has waited long enough; whether anything has.
    fn resume(&mut self, work: &mut impl Work) -> Result<bool, SystemError> {
        let mut any = false;
        for at in 0..self.running.len() {
            let now = self.io.cpu.now();
            let is_over = |running: &Running| running.wait.is_some_and(|until| now >= until);
            let Some(mut running) = self.running[at].take_if(|running| is_over(running)) else { continue };
            (running.wait, any) = (None, true);
            let (io, slot, locks) = (&self.io, Slot(at as u32), &self.locks);
            let step = match &mut running.task {
                Task::Put(put) => put.resume(io, slot)?,
                Task::Publish(publish) => publish.resume(io, slot, locks)?,
                Task::Move(moves, _) => moves.resume(io, slot, locks)?,
                Task::Hold(_) => Step::Ended(0),
                Task::Get(_) | Task::Hot(_) => Step::Posted,
            };
            self.running[at] = self.step(work, running, slot, step)?;
        }
        Ok(any)
    }

    /// What there is to do after a step; nothing where all has ended.
    fn step(
        &mut self,
        work: &mut impl Work,
        mut running: Running,
        slot: Slot,
        step: Step,
    ) -> Result<Option<Running>, SystemError> {
        match step {
            Step::Posted => Ok(Some(running)),
            Step::Wait(until) => Ok(Some(Running { wait: Some(until), ..running })),
            Step::Ended(version) => self.ended(work, running, slot, version),
            Step::Elsewhere => {
                running.again += running.task.again() + 1;
                running.task = self.elsewhere(running.task, running.key, slot)?;
                Ok(Some(running))
            }
        }
    }

    /// A key is not where it was taken to be: goes on where else it may be.
    fn elsewhere(&mut self, task: Task, key: Option<u64>, slot: Slot) -> Result<Task, SystemError> {
        let (io, locks) = (&self.io, &self.locks);
        let Some((key, hot)) = key.and_then(|key| Some((key, io.table.entry_of(key)?))) else {
            let why = format!("key {key:?} has left its record, but there are no blocks");
            return Err(SystemError::Protocol(why));
        };
        Ok(match task {
            Task::Put(put) => {
                let moves = Move::begin(io, slot, locks, &self.terms, (key, hot), true)?;
                Task::Move(moves, Some(put.into_value()))
            }
            Task::Move(_, Some(value)) => Task::Put(cold::Put::begin(io, slot, key, value)?),
            Task::Get(_) => Task::Hot(hot::Get::begin(io, slot, locks, (key, hot))?),
            Task::Hot(_) => Task::Get(cold::Get::begin(io, slot, key, true)?),
            task => task,
        })
    }

    /// Tells of what has ended, and goes on with what follows it.
    fn ended(
        &mut self,
        work: &mut impl Work,
        mut running: Running,
        slot: Slot,
        version: u64,
    ) -> Result<Option<Running>, SystemError> {
        running.again += running.task.again();
        let Running { began, again, .. } = running;
        if running.strays.is_some() {
            let version = matches!(running.task, Task::Put(_)).then_some(version);
            return self.stray_ended(work, running, slot, version);
        }
        let task = match running.task {
            Task::Publish(publish) => return self.published(work, publish, slot, (began, again)),
            task => task,
        };
        let Some(key) = running.key else { return Ok(None) };
        let (ended, bytes) = (self.io.cpu.now(), self.io.table.value);
        let done = |outcome| Done { key, outcome, version: Some(version), count: 0, began, ended, again };
        match task {
            Task::Put(_) => work.done(done(Outcome::Wrote)),
            Task::Get(get) => work.done(done(Outcome::Read(get.value(bytes)))),
            Task::Hot(get) => work.done(done(Outcome::Read(get.value(bytes)))),
            Task::Move(_, None) => work.done(Done { version: None, ..done(Outcome::Moved) }),
            Task::Move(_, Some(value)) | Task::Hold(value) => {
                let Some(hot) = self.io.table.entry_of(key) else { return Ok(None) };
                let Some(count) = self.cache.write(hot, key, &value, &self.terms) else {
                    let wait = Some(ended + self.terms.waits.turns(1));
                    return Ok(Some(Running { task: Task::Hold(value), wait, ..running }));
                };
                work.done(Done { version: None, count, ..done(Outcome::Wrote) });
            }
            Task::Publish(_) => {}
        }
        Ok(None)
    }

    /// A block is published; what was not in it any more goes to records.
    fn published(
        &mut self,
        work: &mut impl Work,
        publish: hot::Publish,
        slot: Slot,
        (began, again): (Time, u64),
    ) -> Result<Option<Running>, SystemError> {
        let block = publish.block();
        let Some(publication) = publish.into_publication() else { return Ok(None) };
        let hot::Publication { taken, entries, there, strays } = publication;
        let (writes, since, ended) = (taken.writes, taken.since, self.io.cpu.now());
        work.published(Published { entries: &entries, writes, since, began, ended, again });
        self.cache.are_there(block, there);
        self.next_stray(Strays { block, since, left: strays }, slot, began)
    }

    /// Writes the next one; where none is left, the block is done.
    fn next_stray(
        &mut self,
        mut strays: Strays,
        slot: Slot,
        began: Time,
    ) -> Result<Option<Running>, SystemError> {
        let Some(Stray { key, value, .. }) = strays.left.last_mut() else {
            self.cache.published(strays.block, &self.terms);
            return Ok(None);
        };
        let (key, value) = (*key, std::mem::take(value));
        let task = Task::Put(cold::Put::begin(&self.io, slot, key, value)?);
        Ok(Some(Running { strays: Some(strays), ..Running::new(Some(key), task, began) }))
    }

    /// One is written with this version; or is in its block again, and will be published there.
    fn stray_ended(
        &mut self,
        work: &mut impl Work,
        running: Running,
        slot: Slot,
        version: Option<u64>,
    ) -> Result<Option<Running>, SystemError> {
        let Running { strays: Some(mut strays), began, again, .. } = running else { return Ok(None) };
        if let Some(Stray { key, hot, count, .. }) = strays.left.pop() {
            match version {
                Some(version) => {
                    let (entries, ended) = ([(key, version, count)], self.io.cpu.now());
                    let since = strays.since;
                    work.published(Published { entries: &entries, writes: 0, since, began, ended, again });
                    self.cache.are_there(strays.block, 1 << hot.entry);
                }
                None => self.cache.put_one_back(hot, strays.since),
            }
        }
        self.next_stray(strays, slot, began)
    }
}
