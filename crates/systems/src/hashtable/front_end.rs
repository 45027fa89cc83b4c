//! A front-end: operations under way, and what it holds back.

use super::cache::Cache;
use super::cold::{self, Step};
use super::config::Hashtable;
use super::hot;
use super::io::{Io, Slot};
use super::lock::Locks;
use super::table::Place;
use crate::device::check;
use crate::spinlock::word::Word;
use crate::spinlock::{Leased, Waits};
use crate::{Interval, SystemError, work};
use doorbell_verbs::{Provider, Span, Time, Wc};

/// Operations that begin in a pass at most: it looks for completions between.
const PASS: u32 = 16;

/// An operation on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads it.
    Get(u64),
    /// Writes a value of as many bytes as the table's have.
    Put(u64, Vec<u8>),
}

impl Op {
    fn key(&self) -> u64 {
        match self {
            Op::Get(key) | Op::Put(key, _) => *key,
        }
    }
}

/// How an operation ended.
#[derive(Clone, Copy, Debug)]
pub struct Done<'a> {
    /// Its key.
    pub key: u64,
    /// The value that it read, if it is a read.
    pub read: Option<&'a [u8]>,
    /// The version that it read or wrote; none of what is not published.
    pub version: Option<u64>,
    /// Of a hot write, how often this front-end has written the key with it.
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
    /// Of each entry its key, the version, and how often this front-end had written it.
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
}

/// Something under way.
#[derive(Debug)]
struct Running {
    /// Its key, but of a publication.
    key: Option<u64>,
    task: Task,
    began: Time,
    /// When it goes on by itself.
    wait: Option<Time>,
}

/// A front-end.
pub struct FrontEnd<P: Provider> {
    io: Io<P>,
    terms: Terms,
    locks: Locks,
    cache: Cache<P>,
    /// Operations on keys, then publications.
    running: Vec<Option<Running>>,
    operations: usize,
    /// An operation that waits for another of its key, for a publication, or for room; since when.
    next: Option<(Op, Time)>,
}

impl<P: Provider> FrontEnd<P> {
    /// Front-end `number` of a table that [`super::put_up`] puts up; returns when it is connected.
    ///
    /// # Errors
    /// If a verb fails.
    pub fn open(cpu: &P, config: &Hashtable, number: u32) -> Result<FrontEnd<P>, SystemError> {
        let operations = config.clients.outstanding;
        let io = Io::open(cpu, config, number, 2 * operations)?;
        let leased = Leased::fenced(io.table.locks(), config.table_lease.span(), config.drift.span());
        let known = vec![Word::default(); io.table.blocks as usize];
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
            locks: Locks { leased, holder: number + 1, known },
            running: (0..2 * operations).map(|_| None).collect(),
            operations: operations as usize,
            next: None,
        })
    }

    /// Does work until the interval ends, or all has ended that there is, and all hot writes are published.
    ///
    /// # Errors
    /// If a verb fails, or an entry that must be whole is not.
    pub fn run(&mut self, work: &mut impl Work, interval: &Interval) -> Result<(), SystemError> {
        while self.io.cpu.now() < interval.end() {
            let mut busy = self.complete(work)?;
            busy |= self.resume()?;
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
            if self.next.is_none() {
                let Some(op) = work.next(now) else { break };
                self.io.cpu.work(work::INDEX);
                self.next = Some((op, now));
            }
            let Some((op, began)) = self.next.take() else { break };
            if let Some(op) = self.begin_one(work, op, began)? {
                self.next = Some((op, began));
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
        let place = self.io.table.place(key);
        if let Place::Hot(hot) = place {
            let done = match &op {
                Op::Put(_, value) => self.cache.write(hot, value, &self.terms).map(|count| (None, count)),
                Op::Get(_) => self.cache.read(hot).map(|value| (Some(value), 0)),
            };
            if let Some((read, count)) = done {
                let (read, ended) = (read.as_deref(), self.io.cpu.now());
                work.done(Done { key, read, version: None, count, began, ended, again: 0 });
                return Ok(None);
            }
        }
        let free = operations.iter().position(Option::is_none);
        let Some(free) = free else { return Ok(Some(op)) };
        let slot = Slot(free as u32);
        let task = match (place, op) {
            (Place::Hot(_), op @ Op::Put(..)) => return Ok(Some(op)),
            (Place::Hot(hot), Op::Get(_)) => Task::Hot(hot::Get::begin(&self.io, slot, &self.locks, hot)?),
            (Place::Cold(record), Op::Get(_)) => Task::Get(cold::Get::begin(&self.io, slot, key, record)?),
            (Place::Cold(record), Op::Put(_, value)) => {
                Task::Put(cold::Put::begin(&self.io, slot, (key, record, value))?)
            }
        };
        self.running[free] = Some(Running { key: Some(key), task, began, wait: None });
        Ok(None)
    }

    /// Begins publications of blocks that are due; whether any.
    fn publish(&mut self) -> Result<bool, SystemError> {
        let mut any = false;
        while self.cache.has_due() {
            let free = self.running[self.operations..].iter().position(Option::is_none);
            let Some(free) = free else { break };
            let Some(block) = self.cache.next_due() else { break };
            let free = self.operations + free;
            let began = self.io.cpu.now();
            let publish = hot::Publish::begin(&self.io, Slot(free as u32), &self.locks, &self.terms, block)?;
            self.running[free] = Some(Running { key: None, task: Task::Publish(publish), began, wait: None });
            any = true;
        }
        Ok(any)
    }

    /// Goes on with what has completed; whether anything had.
    fn complete(&mut self, work: &mut impl Work) -> Result<bool, SystemError> {
        let mut wc = [Wc::default(); 16];
        let found = self.io.cq.poll(&mut wc)?.len();
        for wc in &wc[..found] {
            check(wc)?;
            let at = wc.wr_id as usize;
            let Some(mut running) = self.running.get_mut(at).and_then(Option::take) else { continue };
            let step = self.completed(&mut running.task, Slot(at as u32))?;
            match step {
                Step::Ended(version) => self.ended(work, running, version),
                Step::Posted => self.running[at] = Some(running),
                Step::Wait(until) => {
                    running.wait = Some(until);
                    self.running[at] = Some(running);
                }
            }
        }
        Ok(found > 0)
    }

    fn completed(&mut self, task: &mut Task, slot: Slot) -> Result<Step, SystemError> {
        let FrontEnd { io, terms, locks, cache, .. } = self;
        match task {
            Task::Put(put) => put.completed(io, slot, terms),
            Task::Get(get) => get.completed(io, slot),
            Task::Hot(get) => get.completed(io, slot, locks),
            Task::Publish(publish) => publish.completed(io, slot, locks, cache),
        }
    }

    /// Goes on with what has waited long enough; whether anything has.
    fn resume(&mut self) -> Result<bool, SystemError> {
        let FrontEnd { io, running, locks, .. } = self;
        let mut any = false;
        for (at, running) in (0..).zip(running).filter_map(|(at, r)| r.as_mut().map(|r| (at, r))) {
            if running.wait.is_none_or(|until| io.cpu.now() < until) {
                continue;
            }
            (running.wait, any) = (None, true);
            match &mut running.task {
                Task::Put(put) => put.resume(io, Slot(at))?,
                Task::Publish(publish) => publish.resume(io, Slot(at), locks)?,
                Task::Get(_) | Task::Hot(_) => Step::Posted,
            };
        }
        Ok(any)
    }

    /// Tells of what has ended.
    fn ended(&mut self, work: &mut impl Work, running: Running, version: u64) {
        let (began, ended, bytes) = (running.began, self.io.cpu.now(), self.io.table.value);
        let version = Some(version);
        let done = |key, read, again| Done { key, read, version, count: 0, began, ended, again };
        match (&running.task, running.key) {
            (Task::Put(put), Some(key)) => work.done(done(key, None, put.again)),
            (Task::Get(get), Some(key)) => work.done(done(key, Some(get.value(bytes)), get.again)),
            (Task::Hot(get), Some(key)) => work.done(done(key, Some(get.value(bytes)), get.again)),
            (Task::Publish(publish), _) => {
                let Some(publication) = publish.publication() else { return };
                let key = |hot| self.io.table.key(hot);
                let entries = publication.entries.iter();
                let entries: Vec<_> =
                    entries.map(|&(hot, version, count)| (key(hot), version, count)).collect();
                let hot::Publication { taken, .. } = publication;
                let (writes, since, again) = (taken.writes, taken.since, publish.again());
                work.published(Published { entries: &entries, writes, since, began, ended, again });
                self.cache.published(publish.block(), &self.terms);
            }
            _ => {}
        }
    }
}
