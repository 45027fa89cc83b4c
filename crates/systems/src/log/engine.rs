//! An engine that commits transactions until its interval ends.

use super::appender::{AppendOutcome, Appender, Terms};
use super::config::Log;
use super::layout::SERVICE;
use super::reserver::Reserver;
use crate::device::{self, Device};
use crate::measure::How;
use crate::random::Random;
use crate::vector_io::VectorPiece;
use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{AccessFlags, Cpu, Mr, Program, Provider, Span, Time};
use std::collections::VecDeque;

/// Longest time for which an append waits for room in a full log.
const PATIENCE: Span = Span::from_ms(1_000);

/// The program of a client: an engine that appends the records of its transactions.
#[derive(Clone, Debug)]
pub struct LogEngine {
    /// Number of this client.
    pub number: u32,
    /// The parameters of the log and of the client.
    pub log: Log,
    /// The interval in which the client measures, and the time at which it ends at the latest.
    pub interval: Interval,
}

impl LogEngine {
    fn terms(&self) -> Terms {
        let Log { log_full: full, records, ref clients, inline_bytes, .. } = self.log;
        Terms {
            layout: self.log.layout(),
            full,
            strategy: self.log.gathers(self.number),
            copies_near: self.log.copies_core(self.number),
            most: records,
            outstanding: clients.outstanding,
            inline: inline_bytes,
            patience: PATIENCE,
        }
    }

    /// Explains the error of a lost connection, because the warden destroys the connection of a slow engine.
    fn explained(&self, error: SystemError) -> SystemError {
        let SystemError::Completion(status) = error else { return error };
        let patience = self.log.hole_patience;
        SystemError::Config(format!(
            "an engine lost its connection to the log ({status:?}): it did not write its reserved positions \
             within {patience} (hole_patience), or the log machine is gone"
        ))
    }
}

/// A data table. Each append in flight has its own part of the table, because the records of an append must
/// not change before the append has ended.
struct EngineTable<P: Provider> {
    rows: Mr<P>,
    apart: u64,
    /// Number of rows in a part.
    part: u64,
    parts: u64,
    record: u32,
    random: Random,
    committed: u64,
}

impl<P: Provider> EngineTable<P> {
    fn new(device: &Device<P>, engine: &LogEngine) -> Result<EngineTable<P>, SystemError> {
        let Log { table, record, ref clients, ref timing, .. } = engine.log;
        // Each row begins a cache line of its own, because rows are updated at random.
        let apart = u64::from(record).next_multiple_of(64);
        let near = engine.log.table_core(engine.number);
        let rows = device.registered_near(near, apart * u64::from(table), AccessFlags::LOCAL_WRITE)?;
        device::warm(&device.cpu, rows.mem());
        let parts = u64::from(clients.outstanding);
        let random = Random::new(timing.seed, engine.number.into());
        Ok(EngineTable { rows, apart, part: u64::from(table) / parts, parts, record, random, committed: 0 })
    }

    /// Commits a transaction that changes `records` rows. Puts the changed rows, which are to be appended,
    /// into `into`.
    fn commit<C: Cpu>(&mut self, cpu: &C, records: u32, into: &mut Vec<VectorPiece>) {
        let part = self.committed % self.parts * self.part;
        self.committed += 1;
        into.clear();
        for _ in 0..records {
            let row = (part + self.random.below(self.part)) * self.apart;
            cpu.store_u64(self.rows.mem(), row, self.committed);
            into.push(VectorPiece::of(&self.rows, row, self.record));
        }
    }
}

impl Program for LogEngine {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let device = Device::open(&p)?;
        let mut table = EngineTable::new(&device, &self)?;
        let terms = self.terms();
        let reserver = Reserver::open(&p, (self.log.reserve, None), &terms.layout, self.number)?;
        let mut appender = Appender::open(&device, (self.number, SERVICE), terms, reserver)?;
        let Log { records, .. } = self.log;
        let mut changed = Vec::with_capacity(records as usize);
        let mut begun = VecDeque::new();
        let mut measured = Measured::default();
        let interval = self.interval.begin(&p);
        while p.now() < interval.end() {
            let mut idle = true;
            while appender.has_room() {
                begun.push_back(p.now());
                table.commit(&p, records, &mut changed);
                appender.append(&changed).map_err(|error| self.explained(error))?;
                idle = false;
            }
            let polled = appender.poll().map_err(|error| self.explained(error))?;
            idle &= polled.idle;
            for outcome in polled.ended {
                if *outcome == AppendOutcome::Refused {
                    let slots = self.log.log_slots;
                    let why = format!(
                        "the log is full: it holds {slots} records (log_slots), and log_full is refuse"
                    );
                    return Err(SystemError::Config(why));
                }
                let (began, now) = (begun.pop_front().unwrap_or(Time::START), p.now());
                (0..records).for_each(|_| measured.operation(&interval, began, now, How::default()));
            }
            if idle {
                p.pause(interval.look().min(appender.due()));
            }
        }
        Ok(measured)
    }
}
