//! A client that acquires and releases locks until its interval ends.

use super::backoff::{Backoff, Waits};
use super::lock::{Design, Lock};
use crate::measure::How;
use crate::random::Random;
use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{Program, Provider, Span};

/// A client's work with locks.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Number of locks. Each operation acquires a random one.
    pub locks: u32,
    /// Time for which the client computes while it holds a lock.
    pub hold: Span,
    /// Bytes of data that a lock guards, a multiple of 8. The holder reads the data, and writes it with each
    /// word incremented.
    pub data: u32,
    /// Waits after failed attempts.
    pub waits: Waits,
    /// Number of sections after which the client ends; 0 for no limit.
    pub limit: u64,
    /// Seed of the draws of all clients.
    pub seed: u64,
}

/// Clients begin at random times within this span. Threads that begin at one moment and do equal work would
/// stay in step.
const APART: Span = Span::from_us(10);

/// In place of a count: the words of the data were not equal.
const HALF_WRITTEN: u64 = u64::MAX;

/// Results of a client.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// The client's measurements.
    pub measured: Measured,
    /// Number of all sections that the client completed, measured or not.
    pub sections: u64,
    /// Number of all failed attempts, measured or not, including those of a section that never completed.
    pub failed: u64,
    /// For each lock, the last count that the client wrote; empty if locks guard no data.
    pub counts: Vec<u64>,
}

impl From<Held> for Measured {
    fn from(held: Held) -> Measured {
        held.measured
    }
}

/// A client.
#[derive(Clone, Debug)]
pub struct SpinlockClient<D> {
    /// The design of the locks.
    pub design: D,
    /// Number of this client.
    pub number: u32,
    /// The work that the client repeats.
    pub section: Section,
    /// When it measures, and when it ends at the latest.
    pub interval: Interval,
}

impl<D: Design> Program for SpinlockClient<D> {
    type Output = Result<Held, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let SpinlockClient { design, number, section, interval } = self;
        let lock = design.open(&p, number)?;
        let mut random = Random::new(section.seed, number.into());
        let interval = interval.begin(&p);
        p.compute(Span::from_ps(random.below(APART.as_ps())));
        let counted = if section.data > 0 { section.locks } else { 0 };
        let held = Held { counts: vec![0; counted as usize], ..Held::default() };
        let data = vec![0; section.data as usize];
        let mut holder = Holder { p, lock, section, random, interval, held, data };
        while !holder.is_done() {
            holder.operation()?;
        }
        Ok(holder.held)
    }
}

/// The state of a client.
struct Holder<P: Provider, L> {
    p: P,
    lock: L,
    section: Section,
    random: Random,
    interval: Interval,
    held: Held,
    data: Vec<u8>,
}

impl<P: Provider, L: Lock> Holder<P, L> {
    fn is_over(&self) -> bool {
        self.p.now() >= self.interval.end()
    }

    fn is_done(&self) -> bool {
        let Section { limit, .. } = self.section;
        limit > 0 && self.held.sections == limit || self.is_over()
    }

    /// Acquires a lock and releases it, unless the interval ends first.
    fn operation(&mut self) -> Result<(), SystemError> {
        let lock = self.random.below(self.section.locks.into()) as u32;
        let began = self.p.now();
        let mut backoff = Backoff::new(self.section.waits);
        let mut again = 0;
        while !self.once(lock)? {
            self.held.failed += 1;
            if self.is_over() {
                return Ok(());
            }
            again += 1;
            backoff.wait(&self.p, &mut self.random, &self.interval);
        }
        self.held.sections += 1;
        let how = How { again, ..How::default() };
        self.held.measured.operation(&self.interval, began, self.p.now(), how);
        Ok(())
    }

    /// Tries once to acquire a lock, and then works and releases it. Returns whether all this succeeded.
    fn once(&mut self, lock: u32) -> Result<bool, SystemError> {
        if !self.lock.attempt(lock, &self.interval)? {
            return Ok(false);
        }
        let Some(count) = self.read(lock)? else { return Ok(false) };
        if self.section.hold > Span::ZERO {
            self.p.compute(self.section.hold);
        }
        if !self.lock.release(lock, &self.data, &self.interval)? {
            return Ok(false);
        }
        // The data may look half written only to a client that has lost the lock.
        if count == HALF_WRITTEN {
            return Err(SystemError::Protocol(format!("the data of lock {lock} was half written")));
        }
        if let Some(last) = self.held.counts.get_mut(lock as usize) {
            *last = count;
        }
        Ok(true)
    }

    /// Reads and increments a lock's data. Returns the new count; `None` if the interval ended.
    fn read(&mut self, lock: u32) -> Result<Option<u64>, SystemError> {
        if self.data.is_empty() {
            return Ok(Some(0));
        }
        if !self.lock.read(lock, &mut self.data, &self.interval)? {
            return Ok(None);
        }
        let words = self.data.as_chunks_mut::<8>().0;
        let alike = words.iter().all(|word| *word == words[0]);
        let count = u64::from_le_bytes(words[0]).wrapping_add(1);
        words.fill(count.to_le_bytes());
        Ok(Some(if alike { count } else { HALF_WRITTEN }))
    }
}
