//! Front-ends of a hashtable that are killed: what they had not published is lost, and nothing else; locks and numbers that they had hold nobody up for ever. And
//! back-ends that are killed: who asks them ends with an error.

use super::{AT_FIRST, CLIENTS, LOOKS, MACHINES, faults, live, tell, told, wait_for_all};
use crate::check::{Check, Scale};
use crate::faults::Faults;
use crate::hashtable::{History, Missing, Script, check, small};
use crate::kill::{Kill, Way};
use crate::stage::{self, text};
use doorbell_schema::{Duration, Share};
use doorbell_systems::hashtable::{Done, FrontEnd, Hashtable, Op, Published, Work, put_up};
use doorbell_systems::{Interval, SystemError};
use doorbell_verbs::{Cluster, PageSize, Program, Provider, Span, Time};

/// Front-ends some of which are killed, and one that reads all keys in the end.
#[derive(Clone, Debug)]
pub struct Case {
    /// The table; its clients are those of [`super`], one on each machine, and who looks.
    pub config: Hashtable,
    /// Operations of each front-end that lives.
    pub operations: u64,
    /// How front-ends are killed.
    pub way: Way,
    /// Seed of what is drawn.
    pub seed: u64,
}

/// A table for such a case, of which so many percent of the keys are hot.
pub fn table(hot: u32, (lease, drift): (Span, Span), seed: u64) -> Hashtable {
    let mut config = small(CLIENTS);
    config.clients.clients_per_machine = 1;
    (config.hot, config.timing.seed) = (Share::of_percent(hot), seed);
    (config.table_lease, config.drift) = (Duration::new(lease), Duration::new(drift));
    config
}

impl Case {
    /// Runs it.
    ///
    /// # Errors
    /// What is wrong.
    pub fn run<C: Cluster>(&self, cluster: &mut C, patience: Span) -> Result<(), String> {
        let mut stage = stage::stage::<C, History>(cluster, faults(self.way, self.seed), patience)?;
        put_up(&mut stage, &self.config).map_err(text)?;
        for number in 0..=CLIENTS {
            let at = if number == CLIENTS { LOOKS } else { self.config.place(number) };
            let interval = stage.client_interval();
            stage.add_client(at, Client { case: self.clone(), number, interval });
        }
        let histories = stage::run(stage)?;
        if histories.is_empty() {
            return Ok(());
        }
        check(&histories, Missing::OfTheKilled, self.config.pairs.pairs).map(drop)
    }
}

/// A front-end.
struct Client {
    case: Case,
    number: u32,
    interval: Interval,
}

impl Program for Client {
    type Output = Result<History, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        if self.number == CLIENTS {
            return self.look(&p);
        }
        live(&p, self.number, self.case.operations, |operations| {
            let script = Script::new(&self.case.config, self.number, operations);
            self.work(&p, script)
        })
    }
}

impl Client {
    fn work<P: Provider>(&self, p: &P, script: Script) -> Result<History, SystemError> {
        let kept = vec![0; self.case.config.pairs.pairs as usize];
        tell(p, self.number, &kept);
        let mut telling = Telling { p, number: self.number, script, kept };
        let mut front_end = FrontEnd::open(p, &self.case.config, self.number)?;
        front_end.run(&mut telling, &self.interval)?;
        telling.script.end()
    }

    /// What a front-end told was kept is there, or something newer.
    fn look<P: Provider>(&self, p: &P) -> Result<History, SystemError> {
        wait_for_all(p);
        let history = self.work(p, Script::look(&self.case.config))?;
        for client in 0..CLIENTS {
            for (key, kept) in (0..).zip(told(p, client)) {
                let found = history.version(key).unwrap_or(0);
                if found < kept {
                    let why = format!(
                        "version {kept} of key {key}, which client {client} wrote, is lost: {found} is there"
                    );
                    return Err(SystemError::Protocol(why));
                }
            }
        }
        Ok(history)
    }
}

/// A front-end that says of each key the newest version that is to be kept, whatever becomes of it.
struct Telling<'a, P> {
    p: &'a P,
    number: u32,
    script: Script,
    kept: Vec<u64>,
}

impl<P: Provider> Telling<'_, P> {
    fn keep(&mut self, key: u64, version: u64) {
        self.kept[key as usize] = version;
        tell(self.p, self.number, &self.kept);
    }
}

impl<P: Provider> Work for Telling<'_, P> {
    fn next(&mut self, now: Time) -> Option<Op> {
        self.script.next(now)
    }

    fn is_over(&self) -> bool {
        self.script.is_over()
    }

    fn done(&mut self, done: Done<'_>) {
        if let (None, Some(version)) = (done.read, done.version) {
            self.keep(done.key, version);
        }
        self.script.done(done);
    }

    fn published(&mut self, published: Published<'_>) {
        published.entries.iter().for_each(|&(key, version, _)| self.keep(key, version));
        self.script.published(published);
    }
}

/// Machines of the check of back-ends: two of these, and two front-ends.
const BACK_ENDS: u32 = 2;
const FRONT_ENDS: u32 = 2;

/// The front-ends' errors come by then: retries of RC, and what a process needs to be killed.
const SAID: Span = Span::from_ms(20_000);

/// One of two back-ends is killed.
fn back_end<C: Cluster>(cluster: &mut C, scale: &Scale, seed: u64) -> Result<(), String> {
    let kill = Some(Kill { clients: (FRONT_ENDS, 1), steps: (0, 200), way: Way::Process });
    let mut stage =
        stage::stage::<C, u64>(cluster, Faults { kill, seed, ..Faults::default() }, scale.patience)?;
    let mut config = table(50, (scale.retry, scale.retry), seed);
    (config.back_ends, config.clients.clients) = (BACK_ENDS, FRONT_ENDS);
    put_up(&mut stage, &config).map_err(text)?;
    for number in 0..FRONT_ENDS {
        let interval = stage.client_interval();
        stage.add_client(config.place(number), Asks { config: config.clone(), number, interval });
    }
    stage.add_client((BACK_ENDS - 1, 9), Dies);
    stage::run(stage).map(drop)
}

/// A front-end that goes on until somebody is gone.
struct Asks {
    config: Hashtable,
    number: u32,
    interval: Interval,
}

impl Program for Asks {
    type Output = Result<u64, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut front_end = FrontEnd::open(&p, &self.config, self.number)?;
        let mut script = Script::new(&self.config, self.number, u64::MAX);
        let began = p.now();
        match front_end.run(&mut script, &self.interval) {
            Err(SystemError::Completion(_)) if p.now() - began < SAID => Ok(0),
            ended => Err(SystemError::Protocol(format!(
                "a back-end was killed, and a front-end ended by {ended:?}"
            ))),
        }
    }
}

/// A thread of the machine that is killed.
struct Dies;

impl Program for Dies {
    type Output = Result<u64, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let memory = p.alloc(64, PageSize::Small)?;
        loop {
            p.store_u64(memory, 0, 0);
            let until = p.now() + Span::from_us(100);
            while p.now() < until {
                p.pause(until);
            }
        }
    }
}

/// Its checks.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let mut all = Vec::new();
    for (hot, seed) in [(0, 1), (100, 2), (50, 3), (50, 4), (50, 5)] {
        let run = move |cluster: &mut C, scale: &Scale| {
            let case = Case {
                config: table(hot, (scale.retry, scale.retry * 2), seed),
                operations: scale.operations,
                way: Way::Process,
                seed,
            };
            case.run(cluster, scale.patience)
        };
        let check = Check::new(format!("systems/kills/hashtable_{seed}"), run);
        all.push(check.of_processes(MACHINES, AT_FIRST));
    }
    let run = |cluster: &mut C, scale: &Scale| back_end(cluster, scale, 1);
    let machines = BACK_ENDS + FRONT_ENDS;
    all.push(Check::new("systems/kills/hashtable_back_end", run).of_processes(machines, machines));
    all
}
