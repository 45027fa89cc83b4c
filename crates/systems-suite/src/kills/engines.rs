//! Engines of a log that are killed at any point. Records that were acknowledged to them are in the log,
//! whole. Each of their other records is in the log whole, or its position is void. Engines that live go on,
//! and all their records are in the log.

use super::common::{CLIENTS, KILLED, LIVE, faults_in, is_killed, live, place, tell, told, wait_for_all};
use crate::check::Scale;
use crate::kill::{KillWay, KillWindow};
use crate::log::{self, Appending, CLOSES, Had};
use crate::stage;
use doorbell_systems::log::{Full, Reserve};
use doorbell_systems::vector_io::Strategy;
use doorbell_systems::{Interval, SystemError};
use doorbell_verbs::{Cluster, Program, Provider, Span};

/// Engines, some of which are killed. Engines that come later have their connections from the start.
#[derive(Clone, Copy, Debug)]
pub struct EngineKills {
    /// The engines' work. Its number of engines and its faults are ignored.
    pub log: log::LogCase,
    /// How engines are killed.
    pub way: KillWay,
}

impl EngineKills {
    /// Runs the case. Returns the records of all programs that lived, or nothing if machine 0 is in another
    /// process.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn run<C: Cluster>(&self, cluster: &mut C, patience: Span) -> Result<Vec<Had>, String> {
        let case = log::LogCase { engines: CLIENTS, ..self.log };
        let mut stage =
            stage::stage::<C, Had>(cluster, faults_in(KillWindow::Lists, self.way, case.seed), patience)?;
        for number in 0..CLIENTS {
            let interval = stage.client_interval();
            stage.add_client(place(number), DoomedEngine { case, number, interval });
        }
        let interval = stage.client_interval();
        stage.add_client(CLOSES, DoomedEngine { case, number: CLIENTS, interval });
        stage.add_client(TELLS, Tells);
        // Each reader runs beside an engine that lives.
        case.put_up(&mut stage, |number| (1 + number % LIVE, 1))?;
        let had = stage::run(stage)?;
        if !had.is_empty() {
            case.check(&had)?;
        }
        Ok(had)
    }
}

/// Place of the program that reports the progress of killed engines.
const TELLS: (u32, u32) = (0, 12);

struct DoomedEngine {
    case: log::LogCase,
    number: u32,
    interval: Interval,
}

impl Program for DoomedEngine {
    type Output = Result<Had, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let DoomedEngine { case, number, ref interval } = self;
        if number < CLIENTS {
            tell(&p, number, &[0, 0]);
        }
        let mut appending = Appending::open(&p, case, number, interval)?;
        if number == CLIENTS {
            wait_for_all(&p);
            return appending.close();
        }
        live(&p, number, case.appends, |appends| {
            let ended = appending.append(appends, |ended| {
                // After a refused record, all further records are refused.
                let mut acknowledged = ended.iter().filter_map(|ended| ended.position);
                tell(
                    &p,
                    number,
                    &[acknowledged.clone().count() as u64, acknowledged.next_back().unwrap_or(0)],
                );
            });
            appending.had(ended)
        })
    }
}

/// Reports in the end the progress of the killed engines.
struct Tells;

impl Program for Tells {
    type Output = Result<Had, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        wait_for_all(&p);
        let of = |engine: u32| {
            let words = told(&p, engine);
            (engine, words[0], words[1])
        };
        Ok(Had::Told((LIVE..LIVE + KILLED).filter(|engine| is_killed(*engine)).map(of).collect()))
    }
}

/// The engines of a seed, as processes.
pub(super) fn engines<C: Cluster>(cluster: &mut C, scale: &Scale, seed: u64) -> Result<(), String> {
    let reserve = if seed.is_multiple_of(2) { Reserve::Rpc } else { Reserve::FetchAdd };
    let log = log::LogCase { engines: CLIENTS, readers: 1, reserve, ..processes(scale, seed) };
    EngineKills { log, way: KillWay::Process }.run(cluster, scale.patience).map(drop)
}

/// A log of processes. The caller sets the numbers of engines and readers.
pub(super) fn processes(scale: &Scale, seed: u64) -> log::LogCase {
    log::LogCase {
        engines: 0,
        readers: 0,
        appends: scale.operations,
        records: 5,
        // Several packets, so that the death of the sender may cut a WRITE.
        record: 2048,
        slots: 256,
        outstanding: 3,
        strategy: Strategy::Sgl,
        reserve: Reserve::FetchAdd,
        full: Full::Wrap,
        // An engine that lives must not be fenced, even if it waits for a processor.
        patience: Span::from_ms(1_000),
        retry: None,
        inline: 64,
        faults: crate::Faults::default(),
        seed,
    }
}
