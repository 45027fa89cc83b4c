//! The data that a lock guards is whole, and each section counts once, whichever client is killed at
//! whichever point. A lock without a lease stays taken.

use super::common::{
    AT_FIRST, CLIENTS, LIVE, LOOKS, MACHINES, faults, live, lookup_death, place, tell, told, until_killed,
    wait_for_all,
};
use crate::check::{Check, Scale};
use crate::faults::Faults;
use crate::kill::{Kill, KillWay};
use crate::stage::{self, Stage, text};
use doorbell_systems::random::Random;
use doorbell_systems::spinlock::{Design, Layout, Leased, Lock, Release, Remote};
use doorbell_systems::{Interval, SystemError};
use doorbell_verbs::{Cluster, Program, Provider, Span};

/// The number of the only lock.
const LOCK: u32 = 0;

/// Clients that count by a lock with a lease. Some of them are killed.
#[derive(Clone, Copy, Debug)]
pub struct LockKills {
    /// Duration of the lease.
    pub lease: Span,
    /// Time after the lease's end at which the lock may be taken over.
    pub drift: Span,
    /// Whether the guarded data is fenced.
    pub fencing: bool,
    /// Bytes of the guarded data.
    pub data: u32,
    /// Sections of each client that lives.
    pub sections: u64,
    /// Time that a client computes in each section.
    pub hold: Span,
    /// How clients are killed.
    pub way: KillWay,
    /// Seed of the random draws.
    pub seed: u64,
}

impl LockKills {
    /// Runs the case. Returns how often each client that lives lost the lock before it released it, or
    /// nothing if machine 0 is in another process.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn run<C: Cluster>(&self, cluster: &mut C, patience: Span) -> Result<Vec<u64>, String> {
        let mut stage = stage::stage::<C, u64>(cluster, faults(self.way, self.seed), patience)?;
        let terms = (self.lease, self.drift, self.fencing);
        let design = Leased::put_up(&mut stage, CLIENTS + 1, (1, self.data), terms).map_err(text)?;
        for number in 0..=CLIENTS {
            let (design, interval) = (design, stage.client_interval());
            let at = if number == CLIENTS { LOOKS } else { place(number) };
            stage.add_client(at, Counter { design, number, case: *self, interval });
        }
        let mut lost = stage::run(stage)?;
        lost.pop();
        Ok(lost)
    }
}

struct Counter {
    design: Leased,
    number: u32,
    case: LockKills,
    interval: Interval,
}

impl Program for Counter {
    type Output = Result<u64, SystemError>;

    /// Returns how often the client lost the lock.
    fn run<P: Provider>(self, p: P) -> Self::Output {
        if self.number == CLIENTS {
            return self.look(&p);
        }
        live(&p, self.number, self.case.sections, |sections| self.count(&p, sections))
    }
}

impl Counter {
    fn count<P: Provider>(&self, p: &P, sections: u64) -> Result<u64, SystemError> {
        tell(p, self.number, &[0, 0]);
        let mut counting = Counting::begin(self, p)?;
        for section in 1..=sections {
            counting.section(|| tell(p, self.number, &[section, section - 1]))?;
            tell(p, self.number, &[section, section]);
        }
        Ok(counting.lost)
    }

    /// The last client has a section of its own. It checks that all other sections are counted. A killed
    /// client may have counted one section more than it reported.
    fn look<P: Provider>(&self, p: &P) -> Result<u64, SystemError> {
        wait_for_all(p);
        let mut counting = Counting::begin(self, p)?;
        let count = counting.section(|| ())? - 1;
        let told: Vec<Vec<u64>> = (0..CLIENTS).map(|client| told(p, client)).collect();
        let sum = |at: usize| told.iter().map(|told| told[at]).sum::<u64>();
        let (begun, ended) = (sum(0), sum(1));
        if (ended..=begun).contains(&count) {
            return Ok(counting.lost);
        }
        let why = format!("{begun} sections began and {ended} ended, but the count is {count}");
        Err(SystemError::Protocol(why))
    }
}

/// A client while it counts.
struct Counting<'a, P: Provider, L> {
    p: &'a P,
    lock: L,
    case: LockKills,
    interval: Interval,
    random: Random,
    data: Vec<u8>,
    lost: u64,
}

impl<'a, P: Provider> Counting<'a, P, <Leased as Design>::Lock<P>> {
    fn begin(counter: &Counter, p: &'a P) -> Result<Self, SystemError> {
        let Counter { design, number, case, .. } = counter;
        let lock = design.open(p, *number)?;
        let interval = counter.interval.begin(p);
        let random = Random::new(case.seed, u64::from(*number) << 1 | 1);
        Ok(Counting { p, lock, case: *case, interval, random, data: vec![0; case.data as usize], lost: 0 })
    }
}

impl<P: Provider, L: Lock> Counting<'_, P, L> {
    /// Counts once, and calls `begins` before others may see the count. Returns the new count.
    fn section(&mut self, begins: impl Fn()) -> Result<u64, SystemError> {
        while self.p.now() < self.interval.end() {
            if !self.lock.attempt(LOCK, &self.interval)? {
                self.wait();
                continue;
            }
            if !self.lock.read(LOCK, &mut self.data, &self.interval)? {
                break;
            }
            let alike = self.add_one();
            self.p.compute(self.case.hold);
            begins();
            if self.lock.release(LOCK, &self.data, &self.interval)? {
                return alike;
            }
            self.lost += 1;
        }
        Err(SystemError::Timeout("a client had no section in time".into()))
    }

    /// Adds one to all words, which must be equal. A client that has lost the lock may have read anything,
    /// but a client that still holds it may not.
    fn add_one(&mut self) -> Result<u64, SystemError> {
        let words = self.data.as_chunks_mut::<8>().0;
        let alike = words.iter().all(|word| *word == words[0]);
        let count = u64::from_le_bytes(words[0]).wrapping_add(1);
        words.fill(count.to_le_bytes());
        if alike {
            Ok(count)
        } else {
            Err(SystemError::Protocol("the data of the lock is half written".into()))
        }
    }

    /// Waits for longer than a section mostly takes. Failed attempts must not be most of a client's steps
    /// before its death.
    fn wait(&mut self) {
        let until = self.p.now() + Span::from_ns(10_000 + self.random.below(60_000));
        while self.p.now() < until {
            self.p.pause(until);
        }
    }
}

/// A lock without a lease, whose holder is killed.
#[derive(Clone, Copy, Debug)]
pub struct TakenLock {
    /// How the lock is released.
    pub release: Release,
    /// How its holder is killed.
    pub way: KillWay,
    /// Seed of the random draws.
    pub seed: u64,
}

/// The holder's number, behind the clients that live.
const HOLDER: u32 = LIVE;

/// Attempts of each other client.
const ATTEMPTS: u32 = 100;

impl TakenLock {
    /// Runs the case.
    ///
    /// # Errors
    /// If another client ever has the lock.
    pub fn run<C: Cluster>(&self, cluster: &mut C, patience: Span) -> Result<(), String> {
        // The first step acquires the lock.
        let kill = Some(Kill::new((HOLDER, 1), (1, 20), self.way));
        let faults = Faults { kill, seed: self.seed, ..Faults::default() };
        let mut stage: Stage<'_, C, u64> = stage::stage(cluster, faults, patience)?;
        let layout = Layout { locks: 1, data: 128, slots: 1 };
        let design = Remote::put_up(&mut stage, HOLDER + 1, layout, self.release).map_err(text)?;
        for number in 0..=HOLDER {
            let interval = stage.client_interval();
            stage.add_client(place(number), Wants { design, number, interval });
        }
        stage::run(stage).map(drop)
    }
}

/// A client of a lock without a lease.
struct Wants {
    design: Remote,
    number: u32,
    interval: Interval,
}

impl Program for Wants {
    type Output = Result<u64, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut lock = self.design.open(&p, self.number)?;
        if self.number == HOLDER {
            until_killed(self.hold(&mut lock));
        }
        lookup_death(&p, HOLDER);
        for _ in 0..ATTEMPTS {
            if lock.attempt(LOCK, &self.interval)? {
                return Err(SystemError::Protocol(
                    "a client acquired a lock without a lease after its holder was killed".into(),
                ));
            }
        }
        Ok(0)
    }
}

impl Wants {
    /// Reads the guarded data until it is killed.
    fn hold(&self, lock: &mut impl Lock) -> Result<bool, SystemError> {
        let mut had = lock.attempt(LOCK, &self.interval)?;
        while had {
            had = lock.read(LOCK, &mut [0; 128], &self.interval)?;
        }
        Ok(had)
    }
}

/// Runs clients that count, with this seed.
fn counts<C: Cluster>(cluster: &mut C, scale: &Scale, seed: u64) -> Result<(), String> {
    let case = LockKills {
        lease: scale.retry,
        drift: Span::from_ps(scale.retry.as_ps() / 5),
        fencing: true,
        // Longer than a packet, so that the death of the sender may cut a WRITE.
        data: 1 << 14,
        sections: scale.operations,
        hold: Span::ZERO,
        way: KillWay::Process,
        seed,
    };
    case.run(cluster, scale.patience).map(drop)
}

/// The checks of killed clients of locks.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let mut all = Vec::new();
    for seed in 1..=3 {
        let run = move |cluster: &mut C, scale: &Scale| counts(cluster, scale, seed);
        let check = Check::new(format!("systems/kills/spinlock_leased_{seed}"), run);
        all.push(check.of_processes(MACHINES, AT_FIRST));
    }
    for release in [Release::Write, Release::Cas] {
        let taken = move |cluster: &mut C, scale: &Scale| {
            TakenLock { release, way: KillWay::Process, seed: 1 }.run(cluster, scale.patience)
        };
        let name = format!("systems/kills/spinlock_{}_stays_taken", release.name());
        all.push(Check::new(name, taken).of_processes(HOLDER + 2, HOLDER + 2));
    }
    all
}
