//! An executor of a shuffle or a join that is killed takes the job with it: all others end with an error, and none has a round or a join that is wrong.

use super::LOOKS;
use crate::check::{Check, Scale};
use crate::faults::Faults;
use crate::join;
use crate::kill::{DEAD, Kill, Way};
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

/// RC tries eight times, 67 ms each.
pub const RETRIES: Span = Span::from_ms(600);

/// What executors do.
#[derive(Clone, Copy, Debug)]
pub enum Job {
    /// They shuffle.
    Shuffle(shuffle::Case),
    /// They join.
    Join(join::Case),
}

impl Job {
    /// A shuffle without end by an executor of each machine.
    pub fn shuffle(scale: &Scale) -> shuffle::Case {
        let mut job = shuffle::small(EXECUTORS, scale);
        job.seats = APART;
        (job.rounds, job.entries) = (u64::MAX, 60);
        job
    }

    /// Joins without end.
    pub fn join(scale: &Scale) -> join::Case {
        let mut job = join::small(EXECUTORS, scale);
        job.seats = APART;
        (job.joins, job.tuples) = (u64::MAX, (60, 60));
        job
    }

    /// Seed of what is drawn.
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

/// Each alone on a machine.
const APART: Seats = Seats { per_machine: 1, sockets: 1, cores_per_socket: 8 };

/// An executor that is killed while all do something without end.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// What they do.
    pub job: Job,
    /// Who is killed.
    pub victim: u32,
    /// Before one of so many steps of its.
    pub steps: u64,
    /// How.
    pub way: Way,
}

/// How a job ended whose executor was killed.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    /// When the executor was gone, and when the last of the others ended, in nanoseconds of the clock of each.
    pub gone: u64,
    /// The same of the last of the others.
    pub last: u64,
}

impl Case {
    /// Runs it. Returns when what ended; nothing where machine 0 is in another process.
    ///
    /// # Errors
    /// If one has a round that is not whole, or ends without an error.
    pub fn run<C: Cluster>(&self, cluster: &mut C, patience: Span) -> Result<Option<Ended>, String> {
        let kill = Some(Kill { clients: (self.victim, 1), steps: (0, self.steps), way: self.way });
        let faults = Faults { kill, seed: self.job.seed(), ..Faults::default() };
        let mut stage = stage::stage::<C, Had>(cluster, faults, patience)?;
        self.job.put_up(&mut stage)?;
        stage.add_client(LOOKS, Looker { machine: APART.place(self.victim).0 });
        let Some(ended) = stage.run().map_err(text)? else { return Ok(None) };
        let Some((gone, others)) = ended.clients.split_last() else { return Ok(None) };
        match others.iter().all(|had| had.gave_up) {
            true => {
                let last = others.iter().map(|had| had.ended).max().unwrap_or(0);
                Ok(Some(Ended { gone: gone.ended, last }))
            }
            false => Err(format!("executor {} was killed, but others had {others:?}", self.victim)),
        }
    }
}

/// Ends when the executor is gone.
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

fn check<C: Cluster>(
    name: &'static str,
    (victim, steps): (u32, u64),
    job: impl Fn(&Scale) -> Job + 'static,
) -> Check<C> {
    let run = move |cluster: &mut C, scale: &Scale| {
        Case { job: job(scale), victim, steps, way: Way::Process }.run(cluster, scale.patience).map(drop)
    };
    Check::new(format!("systems/kills/{name}"), run).of_processes(MACHINES, MACHINES)
}

/// That of a shuffle.
fn shuffled<C: Cluster>(
    name: &'static str,
    (victim, steps, seed): (u32, u64, u64),
    change: impl Fn(&mut shuffle::Case) + 'static,
) -> Check<C> {
    check(name, (victim, steps), move |scale| {
        let mut job = shuffle::Case { seed, ..Job::shuffle(scale) };
        change(&mut job);
        Job::Shuffle(job)
    })
}

/// Its checks: each role is killed.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let apart = |job: &mut shuffle::Case| (job.plan.senders, job.plan.receivers) = (2, 2);
    vec![
        shuffled("shuffle", (1, 400, 1), |_| ()),
        shuffled("shuffle_first", (0, 400, 2), |_| ()),
        shuffled("shuffle_sender", (1, 200, 3), apart),
        shuffled("shuffle_receiver", (3, 40, 4), apart),
        shuffled("shuffle_pulled", (2, 400, 5), |job| job.plan.transfer = Transfer::Pull),
        check("join", (1, 400), |scale| Job::Join(Job::join(scale))),
    ]
}
