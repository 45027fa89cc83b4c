//! An executor that joins.

use super::config::Join;
use super::map::{Joined, Map};
use super::tuples::{Partition, Tuple};
use crate::measure::Phase;
use crate::shuffle::{Executor, Plan, TakenEntries, receiver};
use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{AccessFlags, Mem, Mr, Program, Provider};
use std::ops::Range;

/// The name under which the executors publish their connections.
pub(super) const SERVICE: &str = "join";

/// The memory of an executor.
#[derive(Clone, Copy, Debug)]
pub struct Memories {
    /// The executor's part of both relations, the inner one first.
    pub relations: Mem,
    /// The first chunk of each partition. Further chunks are allocated when it is full.
    pub partitions: [Mem; 2],
    /// The first memory of the map, zeroed, and the number of tuples that it has room for (see
    /// [`Map::bytes`]).
    pub map: (Mem, u64),
}

/// An executor that joins relations together with all other executors of its job.
pub struct Joining<P: Provider> {
    cpu: P,
    executor: Executor<P>,
    alone: bool,
    relations: Mr<P>,
    /// Bytes of a tuple.
    size: u64,
    partitions: [Partition; 2],
    map: Map,
    measured: Measured,
}

/// An executor's tuples of both relations, by their numbers in its memory.
#[derive(Clone, Debug)]
pub(super) struct Relations {
    pub(super) inner: Range<u64>,
    pub(super) outer: Range<u64>,
}

impl<P: Provider> Joining<P> {
    /// An executor with its memory. In `plan`, all executors are both senders and receivers.
    ///
    /// # Errors
    /// If the device has no more regions.
    pub fn new(
        cpu: &P,
        executor: Executor<P>,
        plan: &Plan,
        memories: &Memories,
    ) -> Result<Joining<P>, SystemError> {
        let relations = executor.device().register(memories.relations, AccessFlags::LOCAL_WRITE)?;
        let size = u64::from(plan.entry);
        Ok(Joining {
            cpu: cpu.clone(),
            executor,
            alone: plan.executors == 1,
            relations,
            size,
            partitions: memories.partitions.map(|memory| Partition::new(memory, size)),
            map: Map::new(memories.map.0, memories.map.1),
            measured: Measured::default(),
        })
    }

    /// Whether executor 0 has announced the end of all joins.
    ///
    /// # Errors
    /// If the executor gives up.
    pub fn is_over(&mut self) -> Result<bool, SystemError> {
        let (cpu, partitions) = (&self.cpu, &mut self.partitions);
        self.executor.is_over(|taken| append(cpu, partitions, taken))
    }

    /// Joins this executor's inner and outer tuples with the tuples of all executors. The ranges are numbers
    /// of tuples in the executor's memory. Returns this executor's part of the result. Executor 0 calls
    /// `ends` to learn whether this join is the last.
    ///
    /// # Errors
    /// If the executor gives up; see [`Executor::round`].
    pub fn join(
        &mut self,
        (inner, outer): (Range<u64>, Range<u64>),
        receivers: u32,
        ends: impl FnOnce() -> bool,
        interval: &Interval,
    ) -> Result<Joined, SystemError> {
        let began = self.cpu.now();
        let own = Relations { inner, outer };
        if !self.alone {
            self.round(own.inner.clone(), receivers, ends)?;
            self.round(own.outer.clone(), receivers, || false)?;
        }
        let partitioned = self.cpu.now();
        self.measured.spent(interval, Phase::Partition, began, partitioned);
        let built = self.build(&own)?;
        let now = self.cpu.now();
        self.measured.spent(interval, Phase::Build, partitioned, now);
        let (joined, probed) = self.probe(&own)?;
        let ended = self.cpu.now();
        self.measured.spent(interval, Phase::Probe, now, ended);
        self.measured.moved(interval, began, ended, built + probed);
        self.measured.took(interval, began, ended);
        self.partitions.iter_mut().for_each(Partition::clear);
        Ok(joined)
    }

    fn round(
        &mut self,
        tuples: Range<u64>,
        receivers: u32,
        ends: impl FnOnce() -> bool,
    ) -> Result<(), SystemError> {
        let (cpu, partitions) = (&self.cpu, &mut self.partitions);
        let sink = |taken| append(cpu, partitions, taken);
        self.executor.round(&self.relations, tuples, |key| receiver(key, receivers), ends, sink)
    }

    /// The memory and offset of each tuple of a relation that this executor inserts into its map, or probes
    /// with.
    fn places(&self, relation: usize, own: &Range<u64>) -> Box<dyn Iterator<Item = (Mem, u64)>> {
        let (mem, size) = (self.relations.mem(), self.size);
        match self.alone {
            true => Box::new(own.clone().map(move |n| (mem, n * size))),
            false => Box::new(self.partitions[relation].places()),
        }
    }

    fn build(&mut self, own: &Relations) -> Result<u64, SystemError> {
        let tuples = if self.alone { own.inner.end - own.inner.start } else { self.partitions[0].len() };
        self.map.begin(&self.cpu, tuples)?;
        for (mem, offset) in self.places(0, &own.inner) {
            self.map.insert(&self.cpu, Tuple::at(&self.cpu, mem, offset))?;
        }
        Ok(tuples)
    }

    fn probe(&mut self, own: &Relations) -> Result<(Joined, u64), SystemError> {
        let (mut joined, mut tuples) = (Joined::default(), 0);
        for (mem, offset) in self.places(1, &own.outer) {
            self.map.probe(&self.cpu, Tuple::at(&self.cpu, mem, offset), &mut joined)?;
            tuples += 1;
        }
        Ok((joined, tuples))
    }

    /// Ends the executor, and returns its measurements.
    pub fn leave(self) -> Measured {
        self.executor.leave();
        self.measured
    }
}

/// Appends received entries to the partition of their relation. Inner tuples come in even rounds.
fn append<P: Provider>(
    cpu: &P,
    partitions: &mut [Partition; 2],
    taken: TakenEntries,
) -> Result<(), SystemError> {
    partitions[(taken.round % 2) as usize].append(cpu, (taken.mem, taken.offset), taken.entries)
}

/// An executor that joins the two relations again and again.
#[derive(Clone, Debug)]
pub(super) struct JoinClient {
    pub(super) number: u32,
    pub(super) join: Join,
    pub(super) plan: Plan,
    pub(super) inboxes: Vec<Mem>,
    pub(super) memories: Memories,
    pub(super) interval: Interval,
}

impl Program for JoinClient {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let JoinClient { number, join, plan, inboxes, memories, interval } = self;
        let executor = Executor::open(&p, &plan, &join.seats(), number, &inboxes, SERVICE)?;
        let mut joining = Joining::new(&p, executor, &plan, &memories)?;
        let interval = interval.begin(&p);
        let part = join.part(number);
        let own = part.end - part.start;
        let mut last = None;
        while p.now() < interval.end() || plan.executors > 1 {
            if joining.is_over()? {
                break;
            }
            let ends = || number == 0 && p.now() >= interval.end();
            let joined = joining.join((0..own, own..2 * own), plan.receivers, ends, &interval)?;
            // All joins have equal relations, so they must have equal results.
            if let Some(before) = last.replace(joined)
                && before != joined
            {
                return Err(SystemError::Protocol(format!(
                    "a join gave {joined:?}, but the join before gave {before:?}"
                )));
            }
        }
        Ok(joining.leave())
    }
}
