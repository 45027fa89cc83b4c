//! Readers of other machines that are killed at any point. All records of the engines are in the log, because
//! nobody waits for such a reader. All records that the reader read are in the log too.

use super::common::{
    KILLED, LIVE, begun_key, done_key, faults_in, lookup_death, place, say_done, tell, told, until_killed,
};
use super::engines::processes;
use crate::check::Scale;
use crate::kill::{KillWay, KillWindow};
use crate::log::{self, Appending, CLOSES, Had, LOOKS_AGAIN};
use crate::stage;
use doorbell_systems::device::Device;
use doorbell_systems::log::{Layout, LogReader, SERVICE};
use doorbell_systems::{Interval, SystemError};
use doorbell_verbs::{Cluster, Program, Provider, Span};

/// Machines of a check: the log machine, one for each engine, one for each reader.
pub const MACHINES: u32 = 1 + LIVE + KILLED;

/// Place of the program that reports the progress of killed readers.
const TELLS: (u32, u32) = (0, 12);

/// Engines that live, and readers that are killed.
#[derive(Clone, Copy, Debug)]
pub struct ReaderKills {
    /// The engines' work. Its numbers of engines and readers and its faults are ignored.
    pub log: log::LogCase,
    /// How readers are killed.
    pub way: KillWay,
}

impl ReaderKills {
    /// Runs the case.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn run<C: Cluster>(&self, cluster: &mut C, patience: Span) -> Result<(), String> {
        let case = log::LogCase { engines: LIVE, readers: KILLED, ..self.log };
        let faults = faults_in(KillWindow::Records, self.way, case.seed);
        let mut stage = stage::stage::<C, Had>(cluster, faults, patience)?;
        for number in 0..LIVE {
            let interval = stage.client_interval();
            stage.add_client(place(number), ReadEngine { case, number, interval });
        }
        for number in LIVE..LIVE + KILLED {
            stage.add_client(place(number), Victim { layout: case.layout(), number });
        }
        let interval = stage.client_interval();
        stage.add_client(CLOSES, ReadEngine { case, number: LIVE, interval });
        case.put_up_machine(&mut stage)?;
        stage.add_client(TELLS, Tells);
        let had = stage::run(stage)?;
        if had.is_empty() { Ok(()) } else { case.check(&had) }
    }
}

/// The readers of a seed, as processes.
pub(super) fn readers<C: Cluster>(cluster: &mut C, scale: &Scale, seed: u64) -> Result<(), String> {
    ReaderKills { log: processes(scale, seed), way: KillWay::Process }.run(cluster, scale.patience)
}

/// An engine that begins when all readers exist. One more, behind the others, appends the last record when
/// the readers are dead.
struct ReadEngine {
    case: log::LogCase,
    number: u32,
    interval: Interval,
}

impl Program for ReadEngine {
    type Output = Result<Had, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let ReadEngine { case, number, ref interval } = self;
        let mut appending = Appending::open(&p, case, number, interval)?;
        let readers = LIVE..LIVE + KILLED;
        if number == LIVE {
            (0..LIVE).for_each(|engine| drop(p.lookup(&done_key(engine))));
            readers.for_each(|reader| lookup_death(&p, reader));
            return appending.close();
        }
        readers.for_each(|reader| drop(p.lookup(&begun_key(reader))));
        let ended = appending.append(case.appends, |_| ());
        say_done(&p, number);
        appending.had(ended)
    }
}

/// A reader that is killed. It reports position and name of the last record that it has read.
struct Victim {
    layout: Layout,
    number: u32,
}

impl Program for Victim {
    type Output = Result<Had, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        until_killed(self.read(&p))
    }
}

impl Victim {
    fn read<P: Provider>(&self, p: &P) -> Result<(), SystemError> {
        let device = Device::open(p)?;
        let end = self.layout.engines + self.number - LIVE;
        let mut reader = LogReader::there(&device, self.layout, (end, SERVICE))?;
        tell(p, self.number, &[]);
        p.publish(&begun_key(self.number), &[]);
        loop {
            let before = reader.next();
            let read = reader.read()?;
            for record in &read {
                tell(p, self.number, &[record.position, log::name_of(record)?]);
            }
            if reader.next() == before {
                let until = p.now() + LOOKS_AGAIN;
                while p.now() < until {
                    p.pause(until);
                }
            }
        }
    }
}

/// Reports in the end the progress of the killed readers, as one reader that has missed all other records.
struct Tells;

impl Program for Tells {
    type Output = Result<Had, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let readers = LIVE..LIVE + KILLED;
        readers.clone().for_each(|reader| lookup_death(&p, reader));
        let records = readers.filter_map(|reader| match told(&p, reader)[..] {
            [position, word] => Some((position, word)),
            _ => None,
        });
        Ok(Had::Reader { voids: 0, missed: 1, next: 0, records: records.collect() })
    }
}
