//! Engines of a log that are killed at any point: what was acknowledged to them is in the log, whole; of the rest each record is there whole, or its position is void; and
//! those that live go on, and have all of theirs.

use super::common::{CLIENTS, KILLED, LIVE, faults_in, is_killed, live, place, tell, told, wait_for_all};
use crate::check::Scale;
use crate::kill::{KillWay, KillWindow};
use crate::log::{self, Appending, CLOSES, Had};
use crate::stage;
use doorbell_systems::log::{Full, Reserve};
use doorbell_systems::vector_io::Strategy;
use doorbell_systems::{Interval, SystemError};
use doorbell_verbs::{Cluster, Program, Provider, Span};

/// Engines, some of which are killed; those that come later have their connections from the start.
#[derive(Clone, Copy, Debug)]
pub struct EngineKills {
    /// What they do; how many there are, and what goes wrong, is said here.
    pub log: log::LogCase,
    /// How engines are killed.
    pub way: KillWay,
}

impl EngineKills {
    /// Runs it. Returns what all had that lived; nothing where machine 0 is in another process.
    ///
    /// # Errors
    /// What is wrong.
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
        // Beside an engine that lives.
        case.put_up(&mut stage, |number| (1 + number % LIVE, 1))?;
        let had = stage::run(stage)?;
        if !had.is_empty() {
            case.check(&had)?;
        }
        Ok(had)
    }
}

/// Where who has heard what killed engines told runs.
const TELLS: (u32, u32) = (0, 12);

/// An engine.
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
                // After one that is refused, all are.
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

/// Says at the end what killed engines lived to tell.
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

/// Engines of a seed, as processes.
pub(super) fn engines<C: Cluster>(cluster: &mut C, scale: &Scale, seed: u64) -> Result<(), String> {
    let reserve = if seed.is_multiple_of(2) { Reserve::Rpc } else { Reserve::FetchAdd };
    let log = log::LogCase { engines: CLIENTS, readers: 1, reserve, ..processes(scale, seed) };
    EngineKills { log, way: KillWay::Process }.run(cluster, scale.patience).map(drop)
}

/// A log of processes; who is there is said elsewhere.
pub(super) fn processes(scale: &Scale, seed: u64) -> log::LogCase {
    log::LogCase {
        engines: 0,
        readers: 0,
        appends: scale.operations,
        records: 5,
        // Several packets: the death of who sends a WRITE may cut it.
        record: 2048,
        slots: 256,
        outstanding: 3,
        strategy: Strategy::Sgl,
        reserve: Reserve::FetchAdd,
        full: Full::Wrap,
        // Who lives is not to be fenced, also where it waits for a processor.
        patience: Span::from_ms(1_000),
        retry: None,
        inline: 64,
        faults: crate::Faults::default(),
        seed,
    }
}
