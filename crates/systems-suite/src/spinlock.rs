//! One client at a time holds a lock. Clients read the guarded data, add one and write it, and no count is
//! lost.

use crate::check::{Check, Scale, Trouble};
use crate::deployed;
use crate::faults::Faults;
use crate::stage::{self, Stage, place, text};
use doorbell_systems::spinlock::{
    Design, Held, Layout, Leased, Local, LocalSpinlock, Lock, Release, Remote, RemoteSpinlock, Rpc,
    RpcSpinlock, Section, SpinlockClient, Waits,
};
use doorbell_systems::{Interval, Record, SystemError};
use doorbell_verbs::{Cluster, Program, Provider, Span};

/// The kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// A lock of the threads of one machine.
    Local(Release),
    /// A lock in the server's memory.
    Remote(Release),
    /// A lock in the server's memory, with a lease.
    Leased {
        /// Duration of the lease.
        lease: Span,
        /// Time after the lease's end at which the lock may be taken over.
        drift: Span,
        /// Whether the guarded data is fenced.
        fencing: bool,
    },
    /// A lock that threads of the server keep.
    Rpc {
        /// Number of these threads. Each has locks of its own.
        cores: u32,
    },
}

/// Clients that count under locks.
#[derive(Clone, Copy, Debug)]
pub struct SpinlockCase {
    /// The kind of the locks.
    pub kind: LockKind,
    /// Number of clients, without the one that dies.
    pub clients: u32,
    /// Number of locks.
    pub locks: u32,
    /// Bytes that each lock guards.
    pub data: u32,
    /// Sections of each client.
    pub sections: u64,
    /// Time that a client computes in each section.
    pub hold: Span,
    /// How a client waits after a failed attempt.
    pub waits: Waits,
    /// Whether one more client acquires the first lock and ends with it.
    pub dies: bool,
    /// The injected faults.
    pub faults: Faults,
    /// Seed of the clients' draws.
    pub seed: u64,
}

/// The result of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Attempts that failed.
    pub again: u64,
    /// Number of sections.
    pub sections: u64,
    /// The highest count of each lock.
    pub counts: Vec<u64>,
}

impl Record for Counted {
    fn to_words(&self) -> Vec<u64> {
        [self.again, self.sections].into_iter().chain(self.counts.iter().copied()).collect()
    }

    fn from_words(words: &[u64]) -> Option<Counted> {
        let (&[again, sections], counts) = words.split_first_chunk()?;
        Some(Counted { again, sections, counts: counts.to_vec() })
    }
}

/// A client that counts until it has all its sections, or time is over.
struct Counting<D> {
    client: SpinlockClient<D>,
}

impl<D: Design> Program for Counting<D> {
    type Output = Result<Counted, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let Held { failed, sections, counts, .. } = self.client.run(p)?;
        Ok(Counted { again: failed, sections, counts })
    }
}

/// A client that acquires the first lock and ends with it.
struct Dying<D> {
    design: D,
    number: u32,
    locks: u32,
    interval: Interval,
}

impl<D: Design> Program for Dying<D> {
    type Output = Result<Counted, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        let mut lock = self.design.open(&p, self.number)?;
        let interval = self.interval.begin(&p);
        while !lock.attempt(0, &interval)? {
            if p.now() >= interval.end() {
                return Err(SystemError::Timeout("the client never acquired the lock".into()));
            }
            p.pause(p.now());
        }
        Ok(Counted { again: 0, sections: 0, counts: vec![0; self.locks as usize] })
    }
}

impl SpinlockCase {
    /// The number of clients that the lock knows.
    fn all(&self) -> u32 {
        self.clients + u32::from(self.dies)
    }

    /// Runs the case, and compares counts with sections. Returns each client's result, or nothing if machine
    /// 0 is in another process.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn run<C: Cluster>(&self, cluster: &mut C, patience: Span) -> Result<Vec<Counted>, String> {
        let mut stage = stage::stage::<C, Counted>(cluster, self.faults, patience)?;
        let layout = Layout { locks: self.locks, data: self.data, slots: 1 };
        match self.kind {
            LockKind::Local(release) => {
                let design = Local::put_up(&mut stage, layout, release).map_err(text)?;
                self.add_clients(&mut stage, &design, |number| (1, number));
            }
            LockKind::Remote(release) => {
                let design = Remote::put_up(&mut stage, self.all(), layout, release).map_err(text)?;
                self.add_spread(&mut stage, &design);
            }
            LockKind::Leased { lease, drift, fencing } => {
                let (locks, terms) = ((self.locks, self.data), (lease, drift, fencing));
                let design = Leased::put_up(&mut stage, self.all(), locks, terms).map_err(text)?;
                self.add_spread(&mut stage, &design);
            }
            LockKind::Rpc { cores } => {
                let design = Rpc::put_up(&mut stage, self.all(), layout, cores).map_err(text)?;
                self.add_spread(&mut stage, &design);
            }
        }
        let counted = stage::run(stage)?;
        if !counted.is_empty() {
            self.check(&counted)?;
        }
        Ok(counted)
    }

    fn add_spread<C: Cluster>(&self, stage: &mut Stage<'_, C, Counted>, design: &impl Design) {
        let machines = stage.cluster().machines();
        self.add_clients(stage, design, |number| place(machines, number));
    }

    fn add_clients<C: Cluster>(
        &self,
        stage: &mut Stage<'_, C, Counted>,
        design: &impl Design,
        place: impl Fn(u32) -> (u32, u32),
    ) {
        let SpinlockCase { locks, hold, data, waits, seed, .. } = *self;
        let section = Section { locks, hold, data, waits, limit: self.sections, seed };
        for number in 0..self.clients {
            let (design, interval) = (design.clone(), stage.client_interval());
            stage.add_client(
                place(number),
                Counting { client: SpinlockClient { design, number, section, interval } },
            );
        }
        if self.dies {
            let (number, design, interval) = (self.clients, design.clone(), stage.client_interval());
            stage.add_client(place(number), Dying { design, number, locks, interval });
        }
    }

    fn check(&self, counted: &[Counted]) -> Result<(), String> {
        let sections: u64 = counted.iter().map(|client| client.sections).sum();
        let highest = |lock| counted.iter().map(|client| client.counts[lock]).max().unwrap_or(0);
        let counts: u64 = (0..self.locks as usize).map(highest).sum();
        if counts != sections {
            return Err(format!("{sections} sections were counted as {counts}"));
        }
        self.check_all_had_theirs(counted)
    }

    /// Checks that each client had all its sections. Clients are not served in turn. But clients end after
    /// their sections, so the last one has no competitor.
    fn check_all_had_theirs(&self, counted: &[Counted]) -> Result<(), String> {
        let clients = counted.iter().take(self.clients as usize);
        if clients.clone().all(|client| client.sections == self.sections) {
            return Ok(());
        }
        let each = clients.map(|client| format!("{} ({} attempts failed)", client.sections, client.again));
        let each = each.collect::<Vec<_>>().join(", ");
        Err(format!("clients ended {each} sections in time, but each should end {}", self.sections))
    }
}

/// A case for the fixed list of checks.
fn case(kind: LockKind, trouble: Trouble, scale: &Scale) -> SpinlockCase {
    // Without more sections, a machine's first threads would be done before the others have begun.
    let (sections, hold) = match kind {
        LockKind::Local(_) => (scale.draws, Span::from_us(2)),
        _ => (scale.operations, Span::ZERO),
    };
    SpinlockCase {
        kind,
        clients: scale.clients,
        locks: 1,
        data: 128,
        sections: sections / u64::from(trouble.part()),
        hold,
        waits: Waits { first: Span::from_us(1), most: scale.hesitation },
        dies: false,
        faults: trouble.faults(scale),
        seed: 1,
    }
}

fn check<C: Cluster>(
    name: &'static str,
    kind: impl Fn(&Scale) -> LockKind + 'static,
    change: impl Fn(&mut SpinlockCase) + 'static,
    trouble: Trouble,
) -> Check<C> {
    Check::new(format!("systems/spinlock/{name}"), move |cluster: &mut C, scale: &Scale| {
        let mut case = case(kind(scale), trouble, scale);
        change(&mut case);
        case.run(cluster, scale.patience).map(drop)
    })
}

/// A lease so long that a lock is seldom taken over, except from a client that stops or is dead.
fn leased(scale: &Scale) -> LockKind {
    LockKind::Leased { lease: scale.retry, drift: Span::from_ps(scale.retry.as_ps() / 5), fencing: true }
}

/// The checks of spinlocks.
pub fn checks<C: Cluster>() -> Vec<Check<C>> {
    let same = |_: &mut SpinlockCase| {};
    let local = |release| move |_: &Scale| LockKind::Local(release);
    // If a WRITE may be lost, a lock that is released by a WRITE may stay held.
    let remote = |release| {
        move |scale: &Scale| LockKind::Remote(if scale.writes_back { Release::Cas } else { release })
    };
    let rpc = |_: &Scale| LockKind::Rpc { cores: 1 };
    let shared_out = |_: &Scale| LockKind::Rpc { cores: 2 };
    let several = |case: &mut SpinlockCase| case.locks = 3;
    let at_once = |case: &mut SpinlockCase| case.waits.first = Span::ZERO;
    vec![
        check("local", local(Release::Write), same, Trouble::None),
        check("local_cas", local(Release::Cas), several, Trouble::None),
        check("local_stops", local(Release::Write), same, Trouble::Stops),
        check("remote", remote(Release::Write), same, Trouble::None),
        check("remote_at_once", remote(Release::Write), at_once, Trouble::None),
        check("remote_cas", remote(Release::Cas), several, Trouble::None),
        check("remote_writes_in_parts", remote(Release::Write), same, Trouble::Hesitation),
        check("remote_stops", remote(Release::Write), same, Trouble::Stops),
        check("rpc", rpc, same, Trouble::None),
        check("rpc_writes_in_parts", rpc, several, Trouble::Hesitation),
        check("rpc_stops", rpc, same, Trouble::Stops),
        check("rpc_of_two_threads", shared_out, several, Trouble::None),
        check("leased", leased, several, Trouble::None),
        check("leased_writes_in_parts", leased, same, Trouble::Hesitation),
        check("leased_stops", leased, same, Trouble::Stops),
        check("leased_holder_dies", leased, |case: &mut SpinlockCase| case.dies = true, Trouble::None),
        deployed::check::<LocalSpinlock, C>(),
        deployed::check::<RemoteSpinlock, C>(),
        deployed::check::<RpcSpinlock, C>(),
    ]
}
