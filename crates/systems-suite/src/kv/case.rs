//! Cases: clients that do all kinds of operations on few keys of a store.

use super::history::{KvEvent, unexplained};
use crate::check::{Check, Trouble};
use crate::faults::Faults;
use crate::stage::{self, Stage, place};
use doorbell_systems::{Record, SystemError};
use doorbell_verbs::{Cluster, Program, Provider, Span, Time};

/// A store, as cases set it up.
pub trait CaseStore: Copy + std::fmt::Debug + Send + 'static {
    /// The number of each key's first value. `None` if keys have no value at first.
    const FIRST: Option<u64>;
    /// Whether the store has neither INSERT nor UPDATE nor DELETE.
    const ONLY_PUT_AND_GET: bool;
    /// Two lengths of the values that clients write, in bytes.
    const LENGTHS: [usize; 2];

    /// Adds the server's threads.
    ///
    /// # Errors
    /// If there is no more memory.
    fn serve<C: Cluster>(case: &KvCase<Self>, stage: &mut Stage<'_, C, History>) -> Result<(), String>;

    /// A client, which gives up at `end`.
    fn client(
        case: KvCase<Self>,
        number: u32,
        end: Time,
    ) -> impl Program<Output = Result<History, SystemError>>;
}

/// Clients that do all kinds of operations on few keys.
#[derive(Clone, Copy, Debug)]
pub struct KvCase<S> {
    /// The store.
    pub store: S,
    /// Number of clients.
    pub clients: u32,
    /// Threads of the server.
    pub workers: u32,
    /// Operations that a client has outstanding; a power of two.
    pub outstanding: u32,
    /// Requests that a worker takes in a pass.
    pub gather: u32,
    /// Whether the replies of a pass share one doorbell.
    pub doorbell: bool,
    /// Whether a worker prefetches over a pass.
    pub prefetch: bool,
    /// Operations of each client.
    pub operations: u64,
    /// Time after which a client repeats a request.
    pub retry: Option<Span>,
    /// The injected faults.
    pub faults: Faults,
    /// Seed of the random operations.
    pub seed: u64,
}

/// The operations of a client with their outcomes, and counts.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub(crate) events: Vec<KvEvent>,
    /// READs that were torn or stale, and locks that other clients held.
    pub again: u64,
    /// Requests that were sent again.
    pub repeated: u64,
    /// GETs whose reply was that the client's version is current.
    pub unchanged: u64,
}

impl Record for History {
    fn to_words(&self) -> Vec<u64> {
        let counts = [self.again, self.repeated, self.unchanged];
        counts.into_iter().chain(self.events.iter().flat_map(|event| event.to_words())).collect()
    }

    fn from_words(words: &[u64]) -> Option<History> {
        let (&[again, repeated, unchanged], rest) = words.split_first_chunk()?;
        let (events, []) = rest.as_chunks() else { return None };
        let events = events.iter().map(KvEvent::from_words).collect::<Option<_>>()?;
        Some(History { events, again, repeated, unchanged })
    }
}

/// Pauses until `due`, or gives up with an error if `end` has passed.
pub(crate) fn wait<P: Provider>(p: &P, end: Time, due: Time, ended: u64) -> Result<(), SystemError> {
    if p.now() >= end {
        return Err(SystemError::Timeout(format!("only {ended} operations ended in time")));
    }
    p.pause(end.min(due));
    Ok(())
}

impl<S: CaseStore> KvCase<S> {
    /// A case of one client that does nothing by itself, without faults.
    pub(crate) fn idle(store: S, workers: u32) -> KvCase<S> {
        KvCase {
            store,
            clients: 1,
            workers,
            outstanding: 1,
            gather: 4,
            doorbell: true,
            prefetch: true,
            operations: 0,
            retry: None,
            faults: Faults::default(),
            seed: 0,
        }
    }

    /// Runs the case, and searches an order that explains the clients' observations. Returns the clients'
    /// histories, or nothing if machine 0 is in another process.
    ///
    /// # Errors
    /// A description of the failure.
    pub fn run<C: Cluster>(&self, cluster: &mut C, patience: Span) -> Result<Vec<History>, String> {
        let machines = cluster.machines();
        let mut stage = stage::stage(cluster, self.faults, patience)?;
        S::serve(self, &mut stage)?;
        let end = stage.client_interval().end();
        for number in 0..self.clients {
            stage.add_client(place(machines, number), S::client(*self, number, end));
        }
        let histories: Vec<History> = stage::run(stage)?;
        let events: Vec<KvEvent> = histories.iter().flat_map(|h| h.events.clone()).collect();
        match unexplained(&events, |_| S::FIRST) {
            None => Ok(histories),
            Some(events) => {
                let lines: Vec<String> = events.iter().map(|event| format!("\n  {event}")).collect();
                Err(format!("no order explains these operations:{}", lines.concat()))
            }
        }
    }
}

/// A case for the fixed list of checks.
pub(crate) struct KvShape<S> {
    store: S,
    outstanding: u32,
    batched: bool,
    trouble: Trouble,
}

impl<S: CaseStore> KvShape<S> {
    pub(crate) fn new(store: S, outstanding: u32) -> KvShape<S> {
        KvShape { store, outstanding, batched: false, trouble: Trouble::None }
    }

    pub(crate) fn batched(self) -> KvShape<S> {
        KvShape { batched: true, ..self }
    }

    pub(crate) fn under(self, trouble: Trouble) -> KvShape<S> {
        KvShape { trouble, ..self }
    }

    pub(crate) fn check<C: Cluster>(self, name: &str) -> Check<C> {
        Check::new(name, move |cluster, scale| {
            let case = KvCase {
                store: self.store,
                clients: scale.clients,
                workers: 2,
                outstanding: self.outstanding,
                gather: if self.batched { 8 } else { 1 },
                doorbell: self.batched,
                prefetch: self.batched,
                operations: scale.operations / u64::from(self.trouble.part()),
                retry: self.trouble.retry(scale),
                faults: self.trouble.faults(scale),
                seed: 1,
            };
            case.run(cluster, scale.patience).map(drop)
        })
    }
}
