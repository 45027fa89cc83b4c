//! A log is one order of whole records, and has all acknowledged records, whichever program stops, is late or
//! is refused.
//!
//! Engines append records that name their append. Readers read until they find the last record. One more
//! engine appends it when all others have ended.

use crate::check::{Check, Scale, Trouble};
use crate::deployed;
use crate::faults::Faults;
use crate::stage::{self, Stage, place, text};
use doorbell_systems::device::Device;
use doorbell_systems::log::{
    AppendOutcome, Appender, Full, Layout, Log, LogMachine, LogMemory, LogReader, Reserve, Reserver, SERVICE,
    Terms, Warden,
};
use doorbell_systems::random::Random;
use doorbell_systems::vector_io::{Strategy, VectorPiece};
use doorbell_systems::{Interval, Record, SystemError};
use doorbell_verbs::{AccessFlags, Cluster, Mr, PageSize, Program, Provider, Span, Time};
use std::collections::{BTreeMap, HashMap};

/// Places of the log machine's reader, and of the engine that appends the last record. No thread of the
/// server uses these cores.
pub(crate) const READS: (u32, u32) = (0, 10);
pub(crate) const CLOSES: (u32, u32) = (0, 11);

/// Engines that append, and readers.
#[derive(Clone, Copy, Debug)]
pub struct LogCase {
    /// Number of engines.
    pub engines: u32,
    /// Number of readers on other machines.
    pub readers: u32,
    /// Appends of each engine.
    pub appends: u64,
    /// Largest number of records of an append.
    pub records: u32,
    /// Bytes of a record.
    pub record: u32,
    /// Records that the log holds.
    pub slots: u64,
    /// Appends that an engine has outstanding.
    pub outstanding: u32,
    /// How records leave their memory.
    pub strategy: Strategy,
    /// How positions are reserved.
    pub reserve: Reserve,
    /// How an append ends if the log is full.
    pub full: Full,
    /// How long the warden waits for a hole.
    pub patience: Span,
    /// Time after which engines repeat requests for positions, if they send any.
    pub retry: Option<Span>,
    /// Bytes up to which a WRITE is inline.
    pub inline: u32,
    /// The injected faults.
    pub faults: Faults,
    /// Seed of the random draws.
    pub seed: u64,
}

/// Time after which a reader of another machine looks again if it has found nothing.
pub(crate) const LOOKS_AGAIN: Span = Span::from_us(20);

/// The number of the last record's append.
const LAST: u64 = (1 << 32) - 1;

/// The name of a record, as a word. An error if the record is torn, or was never written.
pub(crate) fn name_of(record: &doorbell_systems::log::Record) -> Result<u64, SystemError> {
    match Name::read(&record.bytes).filter(|name| name.engine == record.engine) {
        Some(name) => Ok(name.word()),
        None => {
            let doorbell_systems::log::Record { position, engine, bytes } = record;
            let why = format!(
                "the record at position {position} is torn or was never written: engine {engine} marked \
                 {bytes:x?}"
            );
            Err(SystemError::Protocol(why))
        }
    }
}

/// A record's name: its engine, its append, and its index in the append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Name {
    engine: u32,
    append: u64,
    index: u32,
}

impl Name {
    fn word(self) -> u64 {
        u64::from(self.engine) << 48 | self.append << 16 | u64::from(self.index)
    }

    fn of(word: u64) -> Name {
        Name { engine: (word >> 48) as u32, append: word >> 16 & LAST, index: word as u32 & 0xffff }
    }

    /// The bytes of the record: its name, and bytes that follow from the name.
    fn bytes(self, len: u32) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        Random::new(self.word(), 1).fill(&mut bytes);
        bytes[..8].copy_from_slice(&self.word().to_le_bytes());
        bytes
    }

    /// The name of a record that is whole.
    fn read(bytes: &[u8]) -> Option<Name> {
        let name = Name::of(u64::from_le_bytes(*bytes.first_chunk()?));
        (name.bytes(bytes.len() as u32) == bytes).then_some(name)
    }
}

/// An append that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedAppend {
    /// The append's first position. `None` if it was refused.
    pub position: Option<u64>,
    /// When the append began, in nanoseconds.
    pub began: u64,
    /// When the append ended, in nanoseconds.
    pub ended: u64,
}

/// The result of a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Had {
    /// An engine: its appends in order, and whether it ended with an error of its NIC.
    Engine {
        /// Number of the engine.
        number: u32,
        /// The engine's appends that ended, in order.
        appends: Vec<EndedAppend>,
        /// Whether a work request failed.
        failed: bool,
    },
    /// A reader: positions and names of all records, in the order of reading.
    Reader {
        /// Positions that were void.
        voids: u64,
        /// Positions that were overwritten before they were read.
        missed: u64,
        /// The position behind the last one.
        next: u64,
        /// Positions, and names as words.
        records: Vec<(u64, u64)>,
    },
    /// Progress of killed engines: for each its number, how many of its appends were acknowledged, and the
    /// position of the last of these.
    Told(Vec<(u32, u64, u64)>),
}

const NONE: u64 = u64::MAX;

impl Record for Had {
    fn to_words(&self) -> Vec<u64> {
        match self {
            Had::Engine { number, appends, failed } => {
                let each = appends.iter().flat_map(|e| [e.position.unwrap_or(NONE), e.began, e.ended]);
                [0, (*number).into(), (*failed).into()].into_iter().chain(each).collect()
            }
            Had::Reader { voids, missed, next, records } => {
                let each = records.iter().flat_map(|(position, name)| [*position, *name]);
                [1, *voids, *missed, *next].into_iter().chain(each).collect()
            }
            Had::Told(told) => {
                let each = told.iter().flat_map(|(engine, count, last)| [(*engine).into(), *count, *last]);
                std::iter::once(2).chain(each).collect()
            }
        }
    }

    fn from_words(words: &[u64]) -> Option<Had> {
        match words {
            [0, number, failed, rest @ ..] => {
                let ended = |&[position, began, ended]: &[u64; 3]| EndedAppend {
                    position: Some(position).filter(|at| *at != NONE),
                    began,
                    ended,
                };
                let appends = rest.as_chunks().0.iter().map(ended).collect();
                Some(Had::Engine { number: *number as u32, appends, failed: *failed == 1 })
            }
            [1, voids, missed, next, rest @ ..] => {
                let records = rest.as_chunks().0.iter().map(|&[position, name]| (position, name)).collect();
                Some(Had::Reader { voids: *voids, missed: *missed, next: *next, records })
            }
            [2, rest @ ..] => {
                let told = |&[engine, count, last]: &[u64; 3]| (engine as u32, count, last);
                Some(Had::Told(rest.as_chunks().0.iter().map(told).collect()))
            }
            _ => None,
        }
    }
}

impl LogCase {
    /// The layout for all engines. The engine that closes the log is the last one.
    pub(crate) fn layout(&self) -> Layout {
        Layout { engines: self.engines + 1, slots: self.slots, record: self.record }
    }

    fn terms(&self, interval: &Interval) -> Terms {
        Terms {
            layout: self.layout(),
            full: self.full,
            strategy: self.strategy,
            copies_near: 0,
            most: self.records,
            outstanding: self.outstanding,
            inline: self.inline,
            patience: interval.end().since(interval.from()),
        }
    }

    fn machine(&self) -> LogMachine {
        LogMachine {
            full: self.full,
            reserve: self.reserve,
            readers: self.readers,
            has_reader: true,
            patience: self.patience,
            retry: self.retry,
        }
    }

    /// Sets up the log machine and its reader.
    pub(crate) fn put_up_machine<C: Cluster>(
        &self,
        stage: &mut Stage<'_, C, Had>,
    ) -> Result<LogMemory, String> {
        let memory = self.machine().put_up(stage, self.layout()).map_err(text)?;
        let interval = stage.client_interval();
        stage.add_client(READS, Reads { case: *self, from: From::Here(memory), interval });
        Ok(memory)
    }

    /// Sets up the log machine, its reader, and readers on other machines at the places `at`.
    pub(crate) fn put_up<C: Cluster>(
        &self,
        stage: &mut Stage<'_, C, Had>,
        at: impl Fn(u32) -> (u32, u32),
    ) -> Result<LogMemory, String> {
        let memory = self.put_up_machine(stage)?;
        for number in 0..self.readers {
            let interval = stage.client_interval();
            stage.add_client(at(number), Reads { case: *self, from: From::There(number), interval });
        }
        Ok(memory)
    }

    /// Runs the case and checks the results of all threads. Returns these results, or nothing if machine 0 is
    /// in another process.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn run<C: Cluster>(&self, cluster: &mut C, patience: Span) -> Result<Vec<Had>, String> {
        let mut stage = stage::stage::<C, Had>(cluster, self.faults, patience)?;
        let machines = stage.cluster().machines();
        // Faults go by the numbers of clients, so engines come first.
        for number in 0..self.engines {
            let interval = stage.client_interval();
            stage.add_client(place(machines, number), Appends { case: *self, number, interval });
        }
        let interval = stage.client_interval();
        stage.add_client(CLOSES, Appends { case: *self, number: self.engines, interval });
        self.put_up(&mut stage, |number| place(machines, self.engines + number))?;
        let had = stage::run(stage)?;
        if !had.is_empty() {
            self.check(&had)?;
        }
        Ok(had)
    }

    /// Engines append until the log machine is gone, which ends after `lives`. Returns for each engine
    /// whether its NIC gave up, and how long after that the engine ended. For clusters in virtual time.
    ///
    /// # Errors
    /// If a run does not end, or a thread ended otherwise.
    pub fn without_log_machine<C: Cluster>(
        &self,
        cluster: &mut C,
        lives: Span,
    ) -> Result<Vec<(bool, Span)>, String> {
        let layout = self.layout();
        let log = cluster.alloc(0, layout.bytes(), PageSize::Huge).map_err(text)?;
        let LogCase { full, patience, .. } = *self;
        let interval = Interval::new(Time::START, lives);
        let warden =
            Warden { service: SERVICE, layout, full, log, readers: 0, read: None, patience, interval };
        cluster.spawn(0, 0, warden);
        let machines = cluster.machines();
        let forever = Interval::new(Time::START, Time::NEVER - Time::START);
        let engines: Vec<_> = (0..=self.engines)
            .map(|number| {
                let (machine, core) = place(machines, number);
                // The last engine exists only to be waited for.
                let appends = if number == self.engines { 0 } else { self.appends };
                cluster.spawn(
                    machine,
                    core,
                    Orphan { case: LogCase { appends, ..*self }, number, interval: forever.clone() },
                )
            })
            .collect();
        cluster.run().map_err(text)?;
        let had = engines
            .iter()
            .take(self.engines as usize)
            .map(|task| task.take().unwrap_or(Err("no end".into())));
        let had = had.collect::<Result<Vec<_>, _>>()?;
        Ok(had.into_iter().map(|(failed, at)| (failed, at.since(Time::START + lives))).collect())
    }

    /// Checks the results of all threads against the log's guarantee.
    ///
    /// # Errors
    /// A description of the failure.
    pub(crate) fn check(&self, had: &[Had]) -> Result<(), String> {
        let readers = had.iter().filter_map(|had| match had {
            Had::Reader { voids, missed, next, records } => Some((*voids, *missed, *next, records)),
            _ => None,
        });
        let readers: Vec<_> = readers.collect();
        let Some(&(voids, missed, next, records)) = readers.first() else {
            return Err("no reader returned records".into());
        };
        let log: BTreeMap<u64, Name> = records.iter().map(|(at, name)| (*at, Name::of(*name))).collect();
        if missed > 0 || log.len() as u64 + voids != next {
            return Err(format!(
                "{} records and {voids} voids do not fill {next} positions ({missed} missed)",
                log.len()
            ));
        }
        self.once_each(&log)?;
        for (_, missed, _, records) in &readers[1..] {
            same(&log, *missed, records)?;
        }
        let mut all = Vec::new();
        for one in had {
            match one {
                Had::Engine { number, appends, failed } => {
                    self.engine(&log, *number, (appends, *failed))?;
                    all.extend(appends.iter().filter_map(|e| e.position.map(|at| (at, e.began, e.ended))));
                }
                Had::Told(told) => told.iter().try_for_each(|told| self.told(&log, *told))?,
                Had::Reader { .. } => {}
            }
        }
        in_order(all)
    }

    /// Checks that no record is in the log twice.
    fn once_each(&self, log: &BTreeMap<u64, Name>) -> Result<(), String> {
        let mut seen = HashMap::new();
        for (at, name) in log {
            if let Some(before) = seen.insert(*name, *at) {
                return Err(format!("{name:?} is at position {before} and again at {at}"));
            }
        }
        Ok(())
    }

    /// Checks that the records of an append are at these positions.
    fn whole(
        &self,
        log: &BTreeMap<u64, Name>,
        (engine, append): (u32, u64),
        position: u64,
    ) -> Result<(), String> {
        for index in 0..self.records_of(append) {
            let at = position + u64::from(index);
            let (expected, found) = (Name { engine, append, index }, log.get(&at));
            if found != Some(&expected) {
                return Err(format!(
                    "an acknowledged append has {found:?} at position {at}, not {expected:?}"
                ));
            }
        }
        Ok(())
    }

    fn records_of(&self, append: u64) -> u32 {
        if append == LAST { 1 } else { 1 + (append % u64::from(self.records)) as u32 }
    }

    /// Checks an engine that lived. Acknowledged appends are there, in order, and refused ones are not. There
    /// are no more appends, unless the engine ended early.
    fn engine(
        &self,
        log: &BTreeMap<u64, Name>,
        number: u32,
        (appends, failed): (&[EndedAppend], bool),
    ) -> Result<(), String> {
        let closes = number == self.engines;
        let mut last = None;
        for (n, ended) in (0..).zip(appends) {
            let append = if closes { LAST } else { n };
            match ended.position {
                Some(position) => {
                    self.whole(log, (number, append), position)?;
                    if last.is_some_and(|last| last >= position) {
                        return Err(format!(
                            "append {append} of engine {number} is not behind its previous append"
                        ));
                    }
                    last = Some(position);
                }
                None => {
                    if let Some((at, _)) =
                        log.iter().find(|(_, name)| (name.engine, name.append) == (number, append))
                    {
                        return Err(format!(
                            "append {append} of engine {number} was refused, but is at position {at}"
                        ));
                    }
                }
            }
        }
        let ended = appends.len() as u64;
        let more =
            log.values().find(|name| name.engine == number && name.append != LAST && name.append >= ended);
        match more.filter(|_| !failed) {
            Some(name) => Err(format!("the log has {name:?}, but its engine ended only {ended} appends")),
            None if !failed && !closes && ended != self.appends => {
                Err(format!("engine {number} ended {ended} appends, not {}", self.appends))
            }
            None => Ok(()),
        }
    }

    /// Checks a killed engine: its acknowledged appends are there, the last one at `last`.
    fn told(&self, log: &BTreeMap<u64, Name>, (engine, count, last): (u32, u64, u64)) -> Result<(), String> {
        for append in 0..count {
            let first = Name { engine, append, index: 0 };
            let Some((at, _)) = log.iter().find(|(_, name)| **name == first) else {
                return Err(format!(
                    "append {append} of killed engine {engine} was acknowledged, but is not in the log"
                ));
            };
            self.whole(log, (engine, append), *at)?;
            if append + 1 == count && *at != last {
                return Err(format!(
                    "append {append} of killed engine {engine} is at position {at}, not {last}"
                ));
            }
        }
        Ok(())
    }
}

/// Checks that another reader found these records too.
fn same(log: &BTreeMap<u64, Name>, missed: u64, records: &[(u64, u64)]) -> Result<(), String> {
    if let Some((at, name)) = records.iter().find(|(at, name)| log.get(at) != Some(&Name::of(*name))) {
        return Err(format!(
            "one reader found {:?} at position {at}, another reader {:?}",
            Name::of(*name),
            log.get(at)
        ));
    }
    if missed == 0 && records.len() != log.len() {
        return Err(format!("one reader found {} records, another reader {}", records.len(), log.len()));
    }
    Ok(())
}

/// Checks that an append which began after another had ended is behind it.
fn in_order(mut all: Vec<(u64, u64, u64)>) -> Result<(), String> {
    all.sort_unstable();
    let mut earliest = u64::MAX;
    for (position, began, ended) in all.into_iter().rev() {
        if earliest < began {
            return Err(format!(
                "the append at position {position} began after the end of an append with a later position"
            ));
        }
        earliest = earliest.min(ended);
    }
    Ok(())
}

/// An engine. The one behind all others appends the last record.
struct Appends {
    case: LogCase,
    number: u32,
    interval: Interval,
}

fn done_key(engine: u32) -> String {
    format!("log/done/{engine}")
}

impl Program for Appends {
    type Output = Result<Had, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let Appends { case, number, ref interval } = self;
        let mut appending = Appending::open(&p, case, number, interval)?;
        if number == case.engines {
            (0..case.engines).for_each(|engine| drop(p.lookup(&done_key(engine))));
            let had = appending.close();
            return had;
        }
        let ended = appending.append(case.appends, |_| ());
        p.publish(&done_key(number), &[]);
        appending.had(ended)
    }
}

/// An engine that loses its log machine.
struct Orphan {
    case: LogCase,
    number: u32,
    interval: Interval,
}

impl Program for Orphan {
    type Output = Result<(bool, Time), String>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut appending = Appending::open(&p, self.case, self.number, &self.interval).map_err(text)?;
        let ended = appending.append(self.case.appends, |_| ());
        match appending.had(ended).map_err(text)? {
            Had::Engine { failed, .. } => Ok((failed, p.now())),
            had => Err(format!("an engine returned {had:?}")),
        }
    }
}

/// An engine at work.
pub(crate) struct Appending<'a, P: Provider> {
    p: &'a P,
    case: LogCase,
    number: u32,
    interval: Interval,
    appender: Appender<P>,
    table: Mr<P>,
    /// When each append began.
    begun: Vec<u64>,
    appends: Vec<EndedAppend>,
}

impl<'a, P: Provider> Appending<'a, P> {
    pub(crate) fn open(
        p: &'a P,
        case: LogCase,
        number: u32,
        interval: &Interval,
    ) -> Result<Self, SystemError> {
        let device = Device::open(p)?;
        let terms = case.terms(interval);
        let reserver = Reserver::open(p, (case.reserve, case.retry), &terms.layout, number)?;
        let appender = Appender::open(&device, (number, SERVICE), terms, reserver)?;
        let rows = u64::from(case.outstanding) * u64::from(case.records) * u64::from(case.record);
        let table = device.register(p.alloc(rows, PageSize::Huge)?, AccessFlags::LOCAL_WRITE)?;
        let interval = interval.clone();
        Ok(Appending { p, case, number, interval, appender, table, begun: Vec::new(), appends: Vec::new() })
    }

    /// Appends until `appends` have ended. Calls `tells` after each append that has ended.
    pub(crate) fn append(&mut self, appends: u64, tells: impl Fn(&[EndedAppend])) -> Result<(), SystemError> {
        while (self.appends.len() as u64) < appends {
            let mut idle = true;
            while (self.begun.len() as u64) < appends && self.appender.has_room() {
                let pieces = self.rows(self.begun.len() as u64);
                self.begun.push(self.now());
                self.appender.append(&pieces)?;
                idle = false;
            }
            let polled = self.appender.poll()?;
            idle &= polled.idle;
            let ended: Vec<AppendOutcome> = polled.ended.to_vec();
            for outcome in ended {
                let position = match outcome {
                    AppendOutcome::At(position) => Some(position),
                    AppendOutcome::Refused => None,
                };
                let began = self.begun[self.appends.len()];
                self.appends.push(EndedAppend { position, began, ended: self.now() });
                tells(&self.appends);
            }
            if self.p.now() >= self.interval.end() {
                return Err(SystemError::Timeout("appends did not end in time".into()));
            }
            if idle {
                self.p.pause(self.interval.look().min(self.appender.due()));
            }
        }
        self.appender.rest()
    }

    /// When the oldest outstanding append began, in nanoseconds.
    pub(crate) fn under_way(&self) -> Option<u64> {
        self.begun.get(self.appends.len()).copied()
    }

    /// Appends the last record.
    pub(crate) fn close(&mut self) -> Result<Had, SystemError> {
        let record = Name { engine: self.number, append: LAST, index: 0 }.bytes(self.case.record);
        self.p.write(self.table.mem(), 0, &record);
        let began = self.now();
        self.appender.append(&[VectorPiece::of(&self.table, 0, self.case.record)])?;
        loop {
            let polled = self.appender.poll()?;
            if let Some(outcome) = polled.ended.first() {
                let position = if let AppendOutcome::At(position) = outcome { Some(*position) } else { None };
                self.appends.push(EndedAppend { position, began, ended: self.now() });
                return self.had(Ok(()));
            }
            if polled.idle {
                self.p.pause(self.interval.look().min(self.appender.due()));
            }
        }
    }

    /// The engine's result. An error of its NIC is a result, too.
    pub(crate) fn had(&self, ended: Result<(), SystemError>) -> Result<Had, SystemError> {
        let failed = match ended {
            Ok(()) => false,
            Err(SystemError::Completion(_)) => true,
            Err(error) => return Err(error),
        };
        Ok(Had::Engine { number: self.number, appends: self.appends.clone(), failed })
    }

    fn now(&self) -> u64 {
        self.p.now().since(Time::START).as_ns()
    }

    /// Fills the rows of an append. No outstanding append uses them.
    fn rows(&self, append: u64) -> Vec<VectorPiece> {
        let LogCase { record, records, outstanding, .. } = self.case;
        let from = append % u64::from(outstanding) * u64::from(records);
        let row = |index: u32| {
            let at = (from + u64::from(index)) * u64::from(record);
            let name = Name { engine: self.number, append, index };
            self.p.write(self.table.mem(), at, &name.bytes(record));
            VectorPiece::of(&self.table, at, record)
        };
        (0..self.case.records_of(append)).map(row).collect()
    }
}

/// The memory that a reader reads.
enum From {
    Here(LogMemory),
    There(u32),
}

struct Reads {
    case: LogCase,
    from: From,
    interval: Interval,
}

impl Program for Reads {
    type Output = Result<Had, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let Reads { case, from, interval } = self;
        let layout = case.layout();
        let device = Device::open(&p)?;
        let mut reader = match &from {
            From::Here(memory) => LogReader::here(&p, layout, memory.log, memory.read),
            From::There(number) => LogReader::there(&device, layout, (layout.engines + *number, SERVICE))?,
        };
        let mut records = Vec::new();
        let mut over = false;
        let remote = matches!(from, From::There(_));
        while !over {
            let before = reader.next();
            let read = reader.read()?;
            for record in &read {
                let word = name_of(record)?;
                records.push((record.position, word));
                over |= Name::of(word).append == LAST;
            }
            over |= case.full == Full::Refuse && reader.next() >= layout.slots;
            if p.now() >= interval.end() {
                return Err(SystemError::Timeout(format!(
                    "a reader did not read the log beyond position {} in time",
                    reader.next()
                )));
            }
            // A pass over void positions is progress, too, and must not end with a pause.
            if reader.next() == before && !over {
                // Without a pause, a remote reader would READ all the time.
                let until = if remote { p.now() + LOOKS_AGAIN } else { interval.look() };
                p.pause(until);
                while remote && p.now() < until {
                    p.pause(until);
                }
            }
        }
        let (voids, missed, next) = (reader.voids(), reader.missed(), reader.next());
        Ok(Had::Reader { voids, missed, next, records })
    }
}

/// A case for the fixed list of checks.
fn case(trouble: Trouble, scale: &Scale) -> LogCase {
    LogCase {
        engines: scale.clients,
        readers: 1,
        appends: scale.operations / u64::from(trouble.part()),
        records: 5,
        record: 64,
        slots: 64,
        outstanding: 3,
        strategy: Strategy::Sgl,
        reserve: Reserve::FetchAdd,
        full: Full::Wrap,
        patience: scale.patience,
        retry: trouble.retry(scale),
        inline: 64,
        faults: trouble.faults(scale),
        seed: 1,
    }
}

fn check<C: Cluster>(
    name: &'static str,
    trouble: Trouble,
    change: impl Fn(&mut LogCase) + 'static,
) -> Check<C> {
    Check::new(format!("systems/log/{name}"), move |cluster: &mut C, scale: &Scale| {
        let mut case = case(trouble, scale);
        change(&mut case);
        case.run(cluster, scale.patience).map(drop)
    })
}

/// The checks of the log.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let same = |_: &mut LogCase| {};
    let refuses = |case: &mut LogCase| (case.full, case.slots) = (Full::Refuse, 100);
    let by_rpc = |case: &mut LogCase| case.reserve = Reserve::Rpc;
    vec![
        check("sgl", Trouble::None, same),
        check("sp", Trouble::None, |case| case.strategy = Strategy::Sp),
        check("doorbell", Trouble::None, |case| case.strategy = Strategy::Doorbell),
        check("writes_in_parts", Trouble::Hesitation, |case| case.strategy = Strategy::Sp),
        check("stops", Trouble::Stops, same),
        check("refuses", Trouble::None, refuses),
        check("rpc", Trouble::None, by_rpc),
        check("rpc_loss", Trouble::Loss, by_rpc),
        deployed::check::<Log, C>(),
    ]
}
