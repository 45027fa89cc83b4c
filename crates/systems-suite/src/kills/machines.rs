//! A log machine that is killed. Each engine, and each reader of another machine, ends with an error within
//! the time that the log's page states.

use super::common::{Dies, HearsOfDeath, LOOKS, begun_key, end_without_machine, in_time};
use super::engines::processes;
use crate::check::Scale;
use crate::faults::Faults;
use crate::kill::{Kill, KillWay};
use crate::log::{self, Appending, LOOKS_AGAIN};
use crate::stage::{self, text};
use doorbell_systems::device::Device;
use doorbell_systems::log::{Layout, LogReader, SERVICE, Warden};
use doorbell_systems::{Interval, SystemError};
use doorbell_verbs::{Cluster, PageSize, Program, Provider, Time};

/// The machine that is killed. The reader is on machine 0, and the engines are on the machines behind this
/// one.
const MACHINE: u32 = 1;
const ENGINES: u32 = 2;

/// Machines of the check.
pub const MACHINES: u32 = MACHINE + 1 + ENGINES;

/// Place of the reader. No other thread of its machine uses this core.
const READS: (u32, u32) = (0, 10);

/// Clients of the log machine: engines, then a reader.
const CLIENTS: u32 = ENGINES + 1;

/// Kills the log machine while engines append and a reader reads.
pub(super) fn log_machine<C: Cluster>(cluster: &mut C, scale: &Scale, seed: u64) -> Result<(), String> {
    let kill = Some(Kill::new((CLIENTS, 1), (0, 200), KillWay::Process));
    let faults = Faults { kill, seed, ..Faults::default() };
    let mut stage = stage::stage::<C, u64>(cluster, faults, scale.patience)?;
    // No engine is fenced. No program closes the log: an engine has the number of the one that would.
    let case = log::LogCase { engines: ENGINES - 1, patience: scale.patience, ..processes(scale, seed) };
    let layout = case.layout();
    let log = stage.cluster().alloc(MACHINE, layout.bytes(), PageSize::Huge).map_err(text)?;
    let interval = Interval::new(Time::START, scale.patience);
    let (full, patience) = (case.full, case.patience);
    let warden = Warden { service: SERVICE, layout, full, log, readers: 1, read: None, patience, interval };
    stage.add_server_at((MACHINE, 0), warden);
    for number in 0..ENGINES {
        let interval = stage.client_interval();
        stage.add_client((MACHINE + 1 + number, 0), EngineOfDoomed { case, number, interval });
    }
    let interval = stage.client_interval();
    stage.add_client(READS, ReadsOfDoomed { layout, interval });
    stage.add_client((MACHINE, 9), Dies(CLIENTS));
    stage.add_client(LOOKS, HearsOfDeath(MACHINE));
    in_time(&stage::run(stage)?, scale)
}

/// An engine that appends without an end.
struct EngineOfDoomed {
    case: log::LogCase,
    number: u32,
    interval: Interval,
}

impl Program for EngineOfDoomed {
    type Output = Result<u64, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut appending = Appending::open(&p, self.case, self.number, &self.interval)?;
        p.publish(&begun_key(self.number), &[]);
        let ended = appending.append(u64::MAX, |_| ());
        end_without_machine(&p, self.number, ended, appending.under_way())
    }
}

/// A reader that reads without an end.
struct ReadsOfDoomed {
    layout: Layout,
    interval: Interval,
}

impl Program for ReadsOfDoomed {
    type Output = Result<u64, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let device = Device::open(&p)?;
        let mut reader = LogReader::there(&device, self.layout, (self.layout.engines, SERVICE))?;
        p.publish(&begun_key(ENGINES), &[]);
        let ended = self.read(&p, &mut reader);
        end_without_machine(&p, ENGINES, ended, None)
    }
}

impl ReadsOfDoomed {
    fn read<P: Provider>(&self, p: &P, reader: &mut LogReader<P>) -> Result<(), SystemError> {
        while p.now() < self.interval.end() {
            let before = reader.next();
            for record in &reader.read()? {
                log::name_of(record)?;
            }
            if reader.next() == before {
                let until = p.now() + LOOKS_AGAIN;
                while p.now() < until {
                    p.pause(until);
                }
            }
        }
        Err(SystemError::Timeout("the log machine was not killed in time".into()))
    }
}
