//! A killed executor of a shuffle or a join ends the job. All other executors end with an error, and none has
//! a wrong round or join.

use super::common::{LOOKS, RETRIES, starved};
use crate::check::Scale;
use crate::faults::Faults;
use crate::join;
use crate::kill::{DEAD, Kill, KillWay, KillWindow};
use crate::shuffle::{self, Had};
use crate::stage::{self, Stage, text};
use doorbell_systems::SystemError;
use doorbell_systems::config::Seats;
use doorbell_systems::shuffle::Transfer;
use doorbell_verbs::{Cluster, Program, Provider, Span};

/// Executors, each alone on a machine.
const EXECUTORS: u32 = 4;

/// Machines of a check: the server's, and one for each executor.
pub const MACHINES: u32 = 1 + EXECUTORS;

/// The executors' job.
#[derive(Clone, Copy, Debug)]
pub enum Job {
    /// A shuffle.
    Shuffle(shuffle::ShuffleCase),
    /// A join.
    Join(join::JoinCase),
}

impl Job {
    /// A shuffle without end, with an executor on each machine.
    pub fn shuffle(scale: &Scale) -> shuffle::ShuffleCase {
        let mut job = shuffle::small(EXECUTORS, scale);
        job.seats = APART;
        (job.rounds, job.entries) = (u64::MAX, 60);
        job
    }

    /// Joins without end, with an executor on each machine.
    pub fn join(scale: &Scale) -> join::JoinCase {
        let mut job = join::small(EXECUTORS, scale);
        job.seats = APART;
        (job.joins, job.tuples) = (u64::MAX, (60, 60));
        job
    }

    /// Seed of the random draws.
    pub fn seed(&self) -> u64 {
        match self {
            Job::Shuffle(job) => job.seed,
            Job::Join(job) => job.seed,
        }
    }

    fn put_up<C: Cluster>(&self, stage: &mut Stage<'_, C, Had>) -> Result<(), String> {
        match self {
            Job::Shuffle(job) => job.put_up(stage, true),
            Job::Join(job) => job.put_up(stage, true),
        }
    }
}

/// Each executor is alone on a machine.
const APART: Seats = Seats { per_machine: 1, sockets: 1, cores_per_socket: 8 };

/// An executor that is killed during a job without end.
#[derive(Clone, Copy, Debug)]
pub struct ExecutorKills {
    /// The job.
    pub job: Job,
    /// Number of the executor that is killed.
    pub victim: u32,
    /// The executor is killed before one of its first `steps` steps.
    pub steps: u64,
    /// How the executor is killed.
    pub way: KillWay,
}

/// The end of a job after an executor was killed.
#[derive(Clone, Copy, Debug)]
pub struct EndedExecutor {
    /// When the executor was dead, in nanoseconds of machine 0's clock.
    pub gone: u64,
    /// When the first other executor ended.
    pub first: u64,
    /// When the last other executor ended.
    pub last: u64,
}

impl ExecutorKills {
    /// Runs the case. Returns when the job ended, or nothing if machine 0 is in another process.
    ///
    /// # Errors
    /// If an executor has an incomplete round, or ends without an error.
    pub fn run<C: Cluster>(&self, cluster: &mut C, patience: Span) -> Result<Option<EndedExecutor>, String> {
        let seed = self.job.seed();
        let kill = Kill::new((self.victim, 1), (0, self.steps), self.way).of(KillWindow::Entries, seed);
        let faults = Faults { kill: Some(kill), seed, ..Faults::default() };
        let mut stage = stage::stage::<C, Had>(cluster, faults, patience)?;
        self.job.put_up(&mut stage)?;
        stage.add_client(LOOKS, Looker { machine: APART.place(self.victim).0 });
        let Some(ended) = stage.run().map_err(text)? else { return Ok(None) };
        let Some((gone, others)) = ended.clients.split_last() else { return Ok(None) };
        match others.iter().all(|had| had.gave_up) {
            true => {
                let ends = || others.iter().map(|had| had.ended);
                let (first, last) = (ends().min().unwrap_or(0), ends().max().unwrap_or(0));
                Ok(Some(EndedExecutor { gone: gone.ended, first, last }))
            }
            false => Err(format!(
                "executor {} was killed, but the other executors returned {others:?}",
                self.victim
            )),
        }
    }
}

/// Ends when the executor is dead.
struct Looker {
    machine: u32,
}

impl Program for Looker {
    type Output = Result<Had, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        p.lookup(&format!("{DEAD}{}", self.machine));
        Ok(Had { ended: p.now().as_ns(), ..Had::default() })
    }
}

/// Kills an executor, and checks that the others end in time.
fn run<C: Cluster>(cluster: &mut C, scale: &Scale, case: ExecutorKills) -> Result<(), String> {
    let Some(EndedExecutor { gone, last, .. }) = case.run(cluster, scale.patience)? else { return Ok(()) };
    // They give up, their retries end, and they may wait for a processor.
    let most = starved(scale) * 2 + RETRIES * 2;
    match last.saturating_sub(gone) <= most.as_ns() {
        true => Ok(()),
        false => {
            Err(format!("an executor was gone at {gone} ns, but the other executors ended only at {last} ns"))
        }
    }
}

/// The shuffle of a seed, as processes. All executors send and receive; or some send and the others receive;
/// or executors fetch.
pub(super) fn shuffle<C: Cluster>(cluster: &mut C, scale: &Scale, seed: u64) -> Result<(), String> {
    let mut job = shuffle::ShuffleCase { seed, ..Job::shuffle(scale) };
    job.plan.give_up = starved(scale);
    let (victim, steps) = match seed % 5 {
        0 => (0, 400),
        1 => (1, 400),
        2 => (1, 200),
        3 => (3, 40),
        _ => (2, 400),
    };
    match seed % 5 {
        2 | 3 => (job.plan.senders, job.plan.receivers) = (2, 2),
        4 => job.plan.transfer = Transfer::Pull,
        _ => {}
    }
    run(cluster, scale, ExecutorKills { job: Job::Shuffle(job), victim, steps, way: KillWay::Process })
}

/// The joins of a seed, as processes.
pub(super) fn join<C: Cluster>(cluster: &mut C, scale: &Scale, seed: u64) -> Result<(), String> {
    let mut job = join::JoinCase { seed, ..Job::join(scale) };
    job.plan.give_up = starved(scale);
    let victim = seed as u32 % EXECUTORS;
    run(cluster, scale, ExecutorKills { job: Job::Join(job), victim, steps: 400, way: KillWay::Process })
}
