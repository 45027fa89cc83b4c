//! How a check is set up: a server's threads on machine 0, clients on the others, and a collector.
//!
//! Threads share nothing but what they publish, so that each machine may be a process of its own.

use crate::faults::{Faults, Faulty};
use crate::layer::Layered;
use doorbell_systems::{Interval, SystemError};
use doorbell_verbs::{Cluster, Mem, PageSize, Program, Provider, Span, Task, Time};

/// The core of machine 0 that the collector has.
const COLLECTOR: u32 = 255;
/// What the collector publishes when the memory that servers share is prepared.
const PREPARED: &str = "suite/prepared";

fn result_key(client: u32) -> String {
    format!("suite/result/{client}")
}

/// What a client hands back, as words that can be published.
pub(crate) trait Record: Send + Sized + 'static {
    fn to_words(&self) -> Vec<u64>;
    fn from_words(words: &[u64]) -> Option<Self>;
}

impl Record for u64 {
    fn to_words(&self) -> Vec<u64> {
        vec![*self]
    }

    fn from_words(words: &[u64]) -> Option<u64> {
        let &[word] = words else { return None };
        Some(word)
    }
}

fn to_bytes<R: Record>(result: Result<R, SystemError>) -> Vec<u8> {
    match result {
        Ok(record) => {
            let words = record.to_words();
            std::iter::once(1).chain(words.iter().flat_map(|word| word.to_le_bytes())).collect()
        }
        Err(error) => std::iter::once(0).chain(error.to_string().into_bytes()).collect(),
    }
}

fn from_bytes<R: Record>(bytes: &[u8]) -> Result<R, String> {
    match bytes.split_first() {
        Some((1, rest)) => {
            let words: Vec<u64> = rest.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
            R::from_words(&words).ok_or_else(|| "what it handed back is not of its kind".into())
        }
        Some((_, text)) => Err(String::from_utf8_lossy(text).into_owned()),
        None => Err("it handed back nothing".into()),
    }
}

/// A server's thread: once everything is prepared, and with faults.
struct Server<T> {
    program: T,
    faults: Faults,
    thread: u32,
}

impl<T, R> Program for Server<T>
where
    T: Program<Output = Result<R, SystemError>>,
    R: Send + 'static,
{
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        p.lookup(PREPARED);
        let ended = self.program.run(Layered::new(p, Faulty::server(self.faults, self.thread)));
        // Clients would wait in vain; a panic ends them, too.
        ended.unwrap_or_else(|error| panic!("the server: {error}"));
    }
}

/// A client, whose result is published.
struct Client<T> {
    program: T,
    faults: Faults,
    number: u32,
}

impl<T, R> Program for Client<T>
where
    T: Program<Output = Result<R, SystemError>>,
    R: Record,
{
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let ended = self.program.run(Layered::new(p.clone(), Faulty::client(self.faults, self.number)));
        p.publish(&result_key(self.number), &to_bytes(ended));
    }
}

/// Prepares memory, waits for the clients' results, and stops the server.
struct Collector {
    prepare: Option<(Mem, u64)>,
    clients: u32,
    stop: Mem,
}

impl Program for Collector {
    type Output = Vec<Vec<u8>>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        if let Some((mem, value)) = self.prepare {
            p.store_u64(mem, 0, value);
        }
        p.publish(PREPARED, &[]);
        let results = (0..self.clients).map(|client| p.lookup(&result_key(client))).collect();
        p.store_u64(self.stop, 0, 1);
        results
    }
}

/// A check being set up.
pub(crate) struct Stage<'c, C: Cluster> {
    cluster: &'c mut C,
    faults: Faults,
    patience: Span,
    stop: Mem,
    prepare: Option<(Mem, u64)>,
    servers: u32,
    clients: u32,
}

impl<'c, C: Cluster> Stage<'c, C> {
    /// Threads give up after `patience`.
    pub(crate) fn new(cluster: &'c mut C, faults: Faults, patience: Span) -> Result<Stage<'c, C>, String> {
        let stop = cluster.alloc(0, 64, PageSize::Small).map_err(|error| error.to_string())?;
        Ok(Stage { cluster, faults, patience, stop, prepare: None, servers: 0, clients: 0 })
    }

    /// Memory of the server.
    pub(crate) fn alloc(&mut self, len: u64) -> Result<Mem, String> {
        self.cluster.alloc(0, len, PageSize::Huge).map_err(|error| error.to_string())
    }

    /// A counter of the server that begins with `first`.
    pub(crate) fn counter(&mut self, first: u64) -> Result<Mem, String> {
        let counter = self.alloc(64)?;
        self.prepare = Some((counter, first));
        Ok(counter)
    }

    /// When servers end: once all clients have.
    pub(crate) fn server_interval(&self) -> Interval {
        self.client_interval().until(self.stop)
    }

    pub(crate) fn client_interval(&self) -> Interval {
        Interval::new(Time::START, self.patience)
    }

    /// The next thread of the server.
    pub(crate) fn serve<T, R>(&mut self, program: T)
    where
        T: Program<Output = Result<R, SystemError>>,
        R: Send + 'static,
    {
        let server = Server { program, faults: self.faults, thread: self.servers };
        self.cluster.spawn(0, self.servers, server);
        self.servers += 1;
    }

    /// The next client.
    pub(crate) fn ask<T, R>(&mut self, program: T)
    where
        T: Program<Output = Result<R, SystemError>>,
        R: Record,
    {
        let number = self.clients;
        let others = self.cluster.machines() - 1;
        let client = Client { program, faults: self.faults, number };
        self.cluster.spawn(1 + number % others, number / others, client);
        self.clients += 1;
    }

    /// Runs everything; returns the clients' results, or nothing where machine 0 is another process.
    pub(crate) fn run<R: Record>(self) -> Result<Vec<R>, String> {
        let collector = Collector { prepare: self.prepare, clients: self.clients, stop: self.stop };
        let task: Task<Vec<Vec<u8>>> = self.cluster.spawn(0, COLLECTOR, collector);
        self.cluster.run().map_err(|error| error.to_string())?;
        let results = task.take().unwrap_or_default();
        let result = |(number, bytes): (usize, &Vec<u8>)| {
            from_bytes(bytes).map_err(|error| format!("client {number}: {error}"))
        };
        results.iter().enumerate().map(result).collect()
    }
}
