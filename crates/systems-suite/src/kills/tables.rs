//! Front-ends of a hashtable that are killed. They lose the modifications that they had not published, and
//! nothing else. Locks and numbers that they hold do not hold up others for ever. Back-ends that are killed:
//! their front-ends end with an error.

use super::common::{
    CLIENTS, Dies, HearsOfDeath, LOOKS, begun_key, end_without_machine, faults_in, in_time, live, tell, told,
    wait_for_all,
};
use crate::check::Scale;
use crate::faults::Faults;
use crate::hashtable::{History, Missing, Script, check, small};
use crate::kill::{Kill, KillWay, KillWindow};
use crate::stage::{self, text};
use doorbell_schema::{Duration, Share};
use doorbell_systems::hashtable::{
    Done, FrontEnd, Hashtable, Neighbours, Published, TableOp, TableOutcome, Work, put_up,
};
use doorbell_systems::proxy::Path;
use doorbell_systems::site::{Course, Site};
use doorbell_systems::{Interval, SystemError};
use doorbell_verbs::{Cluster, Program, Provider, Span, Time};

/// Front-ends, some of which are killed, and one that reads all keys in the end.
#[derive(Clone, Debug)]
pub struct TableKills {
    /// The table. Its clients are as in [`super`]: each is alone on a machine, and one more checks the
    /// result.
    pub config: Hashtable,
    /// Operations of each front-end that lives.
    pub operations: u64,
    /// How front-ends are killed.
    pub way: KillWay,
    /// Seed of the random draws.
    pub seed: u64,
}

/// A table for such a case. `hot` percent of the keys are hot.
pub fn table(hot: u32, (lease, drift): (Span, Span), seed: u64) -> Hashtable {
    let mut config = small(CLIENTS);
    config.clients.clients_per_machine = 1;
    (config.hot, config.timing.seed) = (Share::of_percent(hot), seed);
    (config.table_lease, config.drift) = (Duration::new(lease), Duration::new(drift));
    config
}

impl TableKills {
    /// Runs the case.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn run<C: Cluster>(&self, cluster: &mut C, patience: Span) -> Result<(), String> {
        let mut stage =
            stage::stage::<C, History>(cluster, faults_in(KillWindow::Lists, self.way, self.seed), patience)?;
        put_up(&mut stage, &self.config).map_err(text)?;
        for number in 0..=CLIENTS {
            let at = if number == CLIENTS { LOOKS } else { self.config.place(number) };
            let interval = stage.client_interval();
            stage.add_client(at, DoomedFrontEnd { case: self.clone(), number, interval });
        }
        let histories = stage::run(stage)?;
        if histories.is_empty() {
            return Ok(());
        }
        check(&histories, Missing::OfTheKilled, self.config.pairs.pairs).map(drop)
    }
}

struct DoomedFrontEnd {
    case: TableKills,
    number: u32,
    interval: Interval,
}

impl Program for DoomedFrontEnd {
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

impl DoomedFrontEnd {
    fn work<P: Provider>(&self, p: &P, script: Script) -> Result<History, SystemError> {
        let kept = vec![0; self.case.config.pairs.pairs as usize];
        tell(p, self.number, &kept);
        let mut telling = Telling { p, number: self.number, script, kept };
        let mut front_end = FrontEnd::open(p, &self.case.config, self.number, Neighbours::default())?;
        front_end.run(&mut telling, &self.interval)?;
        telling.script.end()
    }

    /// Checks that each version that a front-end reported as kept is there, or a newer one.
    fn look<P: Provider>(&self, p: &P) -> Result<History, SystemError> {
        wait_for_all(p);
        let history = self.work(p, Script::look(&self.case.config))?;
        for client in 0..CLIENTS {
            for (key, kept) in (0..).zip(told(p, client)) {
                let found = history.version(key).unwrap_or(0);
                if found < kept {
                    let why = format!(
                        "version {kept} of key {key} by client {client} is lost: the table has version \
                         {found}"
                    );
                    return Err(SystemError::Protocol(why));
                }
            }
        }
        Ok(history)
    }
}

/// A front-end that reports for each key the newest version that must be kept, even if the front-end dies.
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
    fn next(&mut self, now: Time) -> Option<TableOp> {
        self.script.next(now)
    }

    fn is_over(&self) -> bool {
        self.script.is_over()
    }

    fn done(&mut self, done: Done<'_>) {
        if let (TableOutcome::Wrote, Some(version)) = (done.outcome, done.version) {
            self.keep(done.key, version);
        }
        self.script.done(done);
    }

    fn published(&mut self, published: Published<'_>) {
        published.entries.iter().for_each(|&(key, version, _)| self.keep(key, version));
        self.script.published(published);
    }
}

/// The front-ends of a seed, as processes.
pub(super) fn front_ends<C: Cluster>(cluster: &mut C, scale: &Scale, seed: u64) -> Result<(), String> {
    let hot = [50, 0, 100, 50, 25][seed as usize % 5];
    let mut config = table(hot, (scale.retry, scale.retry * 2), seed);
    config.move_permille = if seed % 2 == 1 { 100 } else { 0 };
    TableKills { config, operations: scale.operations, way: KillWay::Process, seed }
        .run(cluster, scale.patience)
}

/// Back-ends, and front-ends on the machines behind them.
const BACK_ENDS: u32 = 2;
const FRONT_ENDS: u32 = 2;

/// Machines of the check of back-ends.
pub const MACHINES: u32 = BACK_ENDS + FRONT_ENDS;

/// Kills one of two back-ends.
pub(super) fn back_end<C: Cluster>(cluster: &mut C, scale: &Scale, seed: u64) -> Result<(), String> {
    let victim = BACK_ENDS - 1;
    let kill = Some(Kill::new((FRONT_ENDS, 1), (0, 200), KillWay::Process));
    let faults = Faults { kill, seed, ..Faults::default() };
    let mut stage = stage::stage::<C, u64>(cluster, faults, scale.patience)?;
    let mut config = table(50, (scale.retry, scale.retry), seed);
    (config.back_ends, config.clients.clients) = (BACK_ENDS, FRONT_ENDS);
    for (number, neighbours) in (0..).zip(put_up(&mut stage, &config).map_err(text)?) {
        let interval = stage.client_interval();
        stage.add_client(config.place(number), Asks { config: config.clone(), number, neighbours, interval });
    }
    stage.add_client((victim, 9), Dies(FRONT_ENDS));
    stage.add_client(LOOKS, HearsOfDeath(victim));
    in_time(&stage::run(stage)?, scale)
}

/// Front-ends go on until their back-ends end, after `lives`. If `by_proxy`, both front-ends are on one
/// machine, and each is the other's proxy. Returns how long after that each front-end ended with an error.
/// For clusters in virtual time.
///
/// # Errors
/// If a front-end ended otherwise.
pub fn without_back_ends<C: Cluster>(
    cluster: &mut C,
    (lives, by_proxy): (Span, bool),
    seed: u64,
) -> Result<Vec<Span>, String> {
    let mut config = table(50, (lives, lives), seed);
    (config.back_ends, config.clients.clients) = (BACK_ENDS, FRONT_ENDS);
    let course = Course::Fixed(Interval::new(Time::START, lives));
    if by_proxy {
        (config.path, config.clients.clients_per_machine) = (Path::Proxy, FRONT_ENDS);
        // The only outstanding operation may be with the proxy. Then no QP of the front-end itself reports
        // the end.
        config.clients.outstanding = 1;
    }
    let mut site = Site::<C, u64>::new(cluster, course).map_err(text)?;
    for (number, neighbours) in (0..).zip(put_up(&mut site, &config).map_err(text)?) {
        // Without an end, except that later times remain representable.
        let interval = Interval::new(Time::START, Span::from_ms(1_000_000));
        site.add_client(config.place(number), Asks { config: config.clone(), number, neighbours, interval });
    }
    let ended = site.run().map_err(text)?.map(|ended| ended.clients).unwrap_or_default();
    Ok(ended.into_iter().map(|ns| Span::from_ns(ns.saturating_sub(lives.as_ns()))).collect())
}

/// A front-end that goes on until a back-end is dead.
struct Asks {
    config: Hashtable,
    number: u32,
    neighbours: Neighbours,
    interval: Interval,
}

impl Program for Asks {
    type Output = Result<u64, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut front_end = FrontEnd::open(&p, &self.config, self.number, self.neighbours)?;
        let script = Script::new(&self.config, self.number, u64::MAX);
        let mut asking = Asking { script, under_way: Vec::new() };
        p.publish(&begun_key(self.number), &[]);
        let ended = front_end.run(&mut asking, &self.interval);
        let first = asking.under_way.iter().min().map(|began| began.as_ns());
        end_without_machine(&p, self.number, ended, first)
    }
}

/// A script that knows when each outstanding operation began.
struct Asking {
    script: Script,
    under_way: Vec<Time>,
}

impl Work for Asking {
    fn next(&mut self, now: Time) -> Option<TableOp> {
        let next = self.script.next(now);
        self.under_way.extend(next.as_ref().map(|_| now));
        next
    }

    fn is_over(&self) -> bool {
        self.script.is_over()
    }

    fn done(&mut self, done: Done<'_>) {
        if let Some(at) = self.under_way.iter().position(|began| *began == done.began) {
            self.under_way.swap_remove(at);
        }
        self.script.done(done);
    }

    fn published(&mut self, published: Published<'_>) {
        self.script.published(published);
    }
}
