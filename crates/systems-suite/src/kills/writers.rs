//! A killed writer loses the modifications that it held back and had not posted. Nothing else is lost:
//! neither completed modifications nor bytes of other writers.

use super::common::{AT_FIRST, CLIENTS, LOOKS, MACHINES, faults, live, place, tell, told, wait_for_all};
use crate::check::{Check, Scale};
use crate::consolidate::{self, INLINE, STRIPE};
use crate::faults::Faults;
use crate::kill::KillWay;
use crate::stage::{self, text};
use doorbell_systems::consolidate::{Consolidator, Holding, Rules, SERVICE};
use doorbell_systems::device::Device;
use doorbell_systems::random::Random;
use doorbell_systems::{Measured, SystemError, memory_server};
use doorbell_verbs::{Cluster, Mem, Program, Provider, Span, Time};
use std::iter;

/// Writers with blocks of their own, or with bytes of their own in common blocks. Some writers are killed.
#[derive(Clone, Copy, Debug)]
pub struct WriterKills {
    /// Bytes of a block.
    pub block: u32,
    /// Blocks of a region.
    pub blocks: u32,
    /// Modifications after which a block is posted. Otherwise only a flush posts it.
    pub theta: u32,
    /// Whether other writers write the blocks.
    pub holding: Holding,
    /// Largest number of bytes of a write.
    pub longest: u64,
    /// Writes of each writer that lives.
    pub writes: u64,
    /// A writer flushes and fences after this many writes.
    pub flushes: u64,
    /// How writers are killed.
    pub way: KillWay,
    /// Seed of the random draws.
    pub seed: u64,
}

impl WriterKills {
    /// Runs the case.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn run<C: Cluster>(&self, cluster: &mut C, patience: Span) -> Result<(), String> {
        let mut stage = stage::stage::<C, Measured>(cluster, faults(self.way, self.seed), patience)?;
        let all = self.all();
        let memory = stage.alloc(all.memory()).map_err(text)?;
        consolidate::put_up(&mut stage, memory, CLIENTS);
        for number in 0..CLIENTS {
            stage.add_client(place(number), Writer { case: *self, number });
        }
        stage.add_client(LOOKS, Looker { case: *self, memory });
        stage::run(stage).map(drop)
    }

    /// The case without kills, which says where the bytes of each writer are.
    fn all(&self) -> consolidate::ConsolidateCase {
        let rules = Rules {
            block: self.block,
            theta: self.theta,
            timeout: Time::NEVER - Time::START,
            holding: self.holding,
            held: self.blocks,
            outstanding: 4,
            marked: Vec::new(),
        };
        consolidate::ConsolidateCase {
            clients: CLIENTS,
            steps: self.writes,
            blocks: self.blocks.into(),
            longest: self.longest,
            rules,
            late: None,
            seed: self.seed,
            faults: Faults::default(),
        }
    }

    /// The writes of a writer, without end: offset and bytes.
    fn history(&self, number: u32) -> impl Iterator<Item = (u64, Vec<u8>)> + use<> {
        let (all, mut random) = (self.all(), Random::new(self.seed, u64::from(number) << 1 | 1));
        iter::repeat_with(move || {
            let (at, len) = all.range(number, &mut random);
            let mut bytes = vec![0; len as usize];
            random.fill(&mut bytes);
            (at, bytes)
        })
    }

    /// The blocks that a write modifies.
    fn modified(&self, at: u64, bytes: &[u8]) -> impl Iterator<Item = usize> + use<> {
        let block = u64::from(self.block);
        (at / block..=(at + bytes.len() as u64 - 1) / block).map(|block| block as usize)
    }

    /// Offset at which a writer's region begins.
    fn begins(&self, all: &consolidate::ConsolidateCase, number: u32) -> u64 {
        if all.shared() { 0 } else { all.region() * u64::from(number) }
    }

    /// Whether a byte of a writer's region belongs to the writer.
    fn owns(&self, all: &consolidate::ConsolidateCase, number: u32, at: u64) -> bool {
        !all.shared() || at / STRIPE % u64::from(CLIENTS) == u64::from(number)
    }
}

/// A writer's progress: counts of modifications of each of its blocks.
#[derive(Clone, Default)]
struct Progress {
    /// Modifications that the writer has made, or is about to make.
    made: Vec<u64>,
    /// Modifications that have been posted, or are about to be.
    posted: Vec<u64>,
    /// Modifications that have completed.
    completed: Vec<u64>,
}

impl Progress {
    fn new(blocks: u32) -> Progress {
        let none = vec![0; blocks as usize];
        Progress { made: none.clone(), posted: none.clone(), completed: none }
    }

    fn tell<P: Provider>(&self, p: &P, number: u32) {
        tell(p, number, &[&self.posted[..], &self.completed].concat());
    }
}

struct Writer {
    case: WriterKills,
    number: u32,
}

impl Program for Writer {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let Writer { case, number } = self;
        live(&p, number, case.writes, |writes| self.write(&p, writes)).map(|()| Measured::default())
    }
}

impl Writer {
    fn write<P: Provider>(&self, p: &P, writes: u64) -> Result<(), SystemError> {
        let Writer { case, number } = *self;
        let all = case.all();
        let device = Device::open(p)?;
        let memory = memory_server::find(p, SERVICE)?.at(case.begins(&all, number));
        let mut progress = Progress::new(case.blocks);
        progress.tell(p, number);
        let region = (memory, all.region());
        let mut consolidator =
            Consolidator::connect(&device, (number, SERVICE), region, all.rules.clone(), INLINE)?;
        for (n, (at, bytes)) in (1..=writes).zip(case.history(number)) {
            for block in case.modified(at, &bytes) {
                progress.made[block] += 1;
                if progress.made[block] - progress.posted[block] == u64::from(case.theta) {
                    progress.posted[block] = progress.made[block];
                }
            }
            progress.tell(p, number);
            consolidator.write(at, &bytes)?;
            if n % case.flushes == 0 || n == writes {
                progress.posted.clone_from(&progress.made);
                progress.tell(p, number);
                consolidator.flush()?;
                consolidator.fence()?;
                progress.completed.clone_from(&progress.made);
                progress.tell(p, number);
            }
        }
        Ok(())
    }
}

/// Checks all bytes in the end.
struct Looker {
    case: WriterKills,
    memory: Mem,
}

impl Program for Looker {
    type Output = Result<Measured, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        wait_for_all(&p);
        let all = self.case.all();
        let mut found = vec![0; all.memory() as usize];
        p.read(self.memory, 0, &mut found);
        for number in 0..CLIENTS {
            let begins = self.case.begins(&all, number) as usize;
            let region = &found[begins..begins + all.region() as usize];
            self.compare(number, region, &told(&p, number))?;
        }
        Ok(Measured::default())
    }
}

impl Looker {
    /// Each byte of a writer must be as the block's completed modifications left it, or as a posted one left
    /// it.
    fn compare(&self, number: u32, found: &[u8], told: &[u64]) -> Result<(), SystemError> {
        let (all, may) = (self.case.all(), self.may_be(number, told));
        for (at, (found, may)) in (0..).zip(found.iter().zip(may)) {
            if self.case.owns(&all, number, at) && !may.contains(found) {
                let why = format!("byte {at} of writer {number} is {found}, not one of {may:?}");
                return Err(SystemError::Protocol(why));
            }
        }
        Ok(())
    }

    /// The values that each byte of a writer's region may have.
    fn may_be(&self, number: u32, told: &[u64]) -> Vec<Vec<u8>> {
        let (posted, completed) = told.split_at(told.len() / 2);
        let mut may = vec![vec![0]; self.case.all().region() as usize];
        let mut made = vec![0; posted.len()];
        let block_of = |at: u64| (at / u64::from(self.case.block)) as usize;
        for (at, bytes) in self.case.history(number) {
            if (0..made.len()).all(|block| made[block] >= posted[block]) {
                break;
            }
            self.case.modified(at, &bytes).for_each(|block| made[block] += 1);
            for (at, byte) in (at..).zip(bytes) {
                let (block, may) = (block_of(at), &mut may[at as usize]);
                if made[block] <= completed[block] {
                    may.clear();
                }
                if made[block] <= posted[block] {
                    may.push(byte);
                }
            }
        }
        may
    }
}

/// The checks of killed writers.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let case = |holding, seed, scale: &Scale| WriterKills {
        block: 256,
        blocks: 6,
        theta: 4,
        holding,
        longest: 300,
        writes: scale.operations,
        flushes: 20,
        way: KillWay::Process,
        seed,
    };
    let mut all = Vec::new();
    for holding in [Holding::Exclusive, Holding::Shared] {
        for seed in 1..=2 {
            let run = move |c: &mut C, scale: &Scale| case(holding, seed, scale).run(c, scale.patience);
            let check = Check::new(format!("systems/kills/consolidate_{}_{seed}", holding.name()), run);
            all.push(check.of_processes(MACHINES, AT_FIRST));
        }
    }
    all
}
