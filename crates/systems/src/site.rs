//! Deployment of a system: machines of a cluster, threads on them, and the results of the threads.
//!
//! Machine 0 is the server. A deployment runs in virtual time, with machines as threads of one process. It
//! also runs with one process per machine. Then each process makes all calls of the deployment, and threads
//! share only the data that they publish.

use crate::record::{self, Record};
use crate::{Interval, Measured, SystemError};
use doorbell_verbs::{Cluster, Mem, PageSize, Program, Provider, RunError, Span, Task, Time, VerbsError};
use std::marker::PhantomData;
use thiserror::Error;

fn result_key(client: u32) -> String {
    format!("site/result/{client}")
}

fn served_key(thread: u32) -> String {
    format!("site/served/{thread}")
}

/// Wrappers around the programs of a deployment. Tests use them to inject faults.
pub trait Dress: Clone + Send + 'static {
    /// Wraps thread `thread` of the server.
    fn server<T: Program>(self, thread: u32, program: T) -> impl Program<Output = T::Output>;

    /// Wraps the client with this number.
    fn client<T: Program>(self, number: u32, program: T) -> impl Program<Output = T::Output>;

    /// Whether this client hands back a result. A client that a test kills early does not, and the site does
    /// not wait for it.
    fn hands_back(&self, _number: u32) -> bool {
        true
    }
}

/// Leaves programs unwrapped.
#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Dress for Plain {
    fn server<T: Program>(self, _: u32, program: T) -> impl Program<Output = T::Output> {
        program
    }

    fn client<T: Program>(self, _: u32, program: T) -> impl Program<Output = T::Output> {
        program
    }
}

/// When threads begin, measure and end.
#[derive(Clone, Debug)]
pub enum Course {
    /// At fixed times. All threads must share a clock.
    Fixed(Interval),
    /// Clients begin when all are ready, and measure for `span` after `warmup`. Servers end when all clients
    /// have ended.
    Together {
        /// Time from a client's beginning to the start of its measurement.
        warmup: Span,
        /// Length of the measurement.
        span: Span,
    },
    /// Clients begin at once and end when their work is done. They give up after this time. Servers end when
    /// all clients have ended.
    Patience(Span),
}

/// The key that is published when all clients have a result.
const OVER: &str = "site/over";

/// When a server's thread ends, if the thread takes no part in operations.
#[derive(Clone, Debug)]
pub enum Until {
    /// At the end of this interval. For machine 0, or if all ends are fixed.
    Over(Interval),
    /// When all clients have ended. For other machines.
    Told,
}

impl Until {
    /// Waits until the thread has to end.
    pub fn wait<P: Provider>(&self, p: &P) {
        match self {
            Until::Over(interval) => {
                while !interval.is_over(p) {
                    p.pause(interval.look());
                }
            }
            Until::Told => drop(p.lookup(OVER)),
        }
    }
}

/// Why a deployment has no result.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SiteError {
    /// Memory could not be allocated.
    #[error("{0}")]
    Memory(#[from] VerbsError),
    /// The run did not reach its end.
    #[error("{0}")]
    Run(#[from] RunError),
    /// A thread gave up.
    #[error("thread {thread} of machine {machine}: {cause}")]
    Thread {
        /// The thread's machine.
        machine: u32,
        /// The thread's core on that machine.
        thread: u32,
        /// The error with which the thread gave up.
        cause: SystemError,
    },
    /// A thread did not end in time.
    #[error("thread {thread} of machine {machine} did not end in time")]
    Unfinished {
        /// The thread's machine.
        machine: u32,
        /// The thread's core on that machine.
        thread: u32,
    },
    /// A thread published why it gave up.
    #[error("{0}")]
    Said(String),
}

/// Results of the threads of a deployment.
#[derive(Clone, Debug)]
pub struct SiteEnded<R> {
    /// Measurements of the server's threads, added up.
    pub server: Measured,
    /// Results of all clients that hand back a result.
    pub clients: Vec<R>,
}

/// A thread's machine, its core there, and the task that will have its result.
type Started<T> = (u32, u32, Task<Result<T, SystemError>>);

/// A deployment that is being set up.
pub struct Site<'c, C: Cluster, R, D = Plain> {
    cluster: &'c mut C,
    dress: D,
    course: Course,
    /// A word that ends the servers; `None` if all ends are fixed.
    stop: Option<Mem>,
    /// Server threads of a [`Course::Fixed`].
    servers: Vec<Started<Measured>>,
    clients: Vec<Started<R>>,
    /// Number of server threads, in this process or others.
    server_threads: u32,
    /// Numbers of the server threads whose measurements are awaited.
    awaited_servers: Vec<u32>,
    /// The first core of the server after the cores of all its threads.
    free_core: u32,
    /// Number of clients, in this process or others.
    client_count: u32,
    /// Numbers of the clients that hand back a result.
    awaited: Vec<u32>,
}

impl<'c, C: Cluster, R: Record> Site<'c, C, R> {
    /// A site without threads.
    ///
    /// # Errors
    /// If machine 0 has no memory.
    pub fn new(cluster: &'c mut C, course: Course) -> Result<Site<'c, C, R>, SiteError> {
        Site::dressed(cluster, course, Plain)
    }
}

impl<'c, C: Cluster, R: Record, D: Dress> Site<'c, C, R, D> {
    /// A site that wraps each program by `dress`.
    ///
    /// # Errors
    /// As [`Site::new`].
    pub fn dressed(cluster: &'c mut C, course: Course, dress: D) -> Result<Site<'c, C, R, D>, SiteError> {
        let stop = match course {
            Course::Fixed(_) => None,
            Course::Together { .. } | Course::Patience(_) => Some(cluster.alloc(0, 64, PageSize::Small)?),
        };
        let (servers, clients, awaited, awaited_servers) = Default::default();
        Ok(Site {
            cluster,
            dress,
            course,
            stop,
            servers,
            clients,
            server_threads: 0,
            awaited_servers,
            free_core: 0,
            client_count: 0,
            awaited,
        })
    }

    /// The cluster on which the site is deployed.
    pub fn cluster(&mut self) -> &mut C {
        self.cluster
    }

    /// Allocates memory of the server, in huge pages.
    ///
    /// # Errors
    /// If the server has no more memory.
    pub fn alloc(&mut self, len: u64) -> Result<Mem, SiteError> {
        Ok(self.cluster.alloc(0, len, PageSize::Huge)?)
    }

    /// Allocates memory of a machine, in huge pages, at the socket of one of its cores.
    ///
    /// # Errors
    /// If the machine has no more memory.
    pub fn alloc_near(&mut self, (machine, core): (u32, u32), len: u64) -> Result<Mem, SiteError> {
        Ok(self.cluster.alloc_near(machine, core, len, PageSize::Huge)?)
    }

    /// Allocates a counter in the server's memory. Its first value is `first`.
    ///
    /// # Errors
    /// If the server has no more memory.
    pub fn counter(&mut self, first: u64) -> Result<Mem, SiteError> {
        let counter = self.alloc(64)?;
        self.cluster.preset(0, counter, |bytes| bytes[..8].copy_from_slice(&first.to_le_bytes()));
        Ok(counter)
    }

    /// When servers measure and end.
    pub fn server_interval(&self) -> Interval {
        match (&self.course, self.stop) {
            (Course::Fixed(interval), _) => interval.clone(),
            (Course::Patience(span), Some(stop)) => Interval::new(Time::START, *span).until(stop),
            (_, Some(stop)) => Interval::endless().until(stop),
            (_, None) => Interval::endless(),
        }
    }

    /// When a server's thread on `machine` ends, if the thread takes no part in operations.
    pub fn until(&self, machine: u32) -> Until {
        match &self.course {
            Course::Together { .. } | Course::Patience(_) if machine > 0 => Until::Told,
            _ => Until::Over(self.server_interval()),
        }
    }

    /// When the next client measures and ends.
    pub fn client_interval(&self) -> Interval {
        match &self.course {
            Course::Fixed(interval) => interval.clone(),
            Course::Together { warmup, span } => {
                Interval::after(Time::START, *warmup, *span).once_all_are_ready(self.client_count)
            }
            Course::Patience(span) => Interval::new(Time::START, *span),
        }
    }

    /// Adds the next thread of the server. Thread n runs on core n.
    pub fn add_server<T, S>(&mut self, program: T)
    where
        T: Program<Output = Result<S, SystemError>>,
        S: Into<Measured> + Send + 'static,
    {
        self.add_server_on(self.server_threads, program);
    }

    /// Adds the next thread of the server on this core. No other thread of the server may run there.
    pub fn add_server_on<T, S>(&mut self, core: u32, program: T)
    where
        T: Program<Output = Result<S, SystemError>>,
        S: Into<Measured> + Send + 'static,
    {
        self.add_server_at((0, core), program);
    }

    /// Adds the next thread of the server on a machine and core. Threads on machines other than 0 end by
    /// [`Site::until`]. Unless all ends are fixed, they hand back no result, because the site must not wait
    /// for a thread that was killed.
    pub fn add_server_at<T, S>(&mut self, (machine, core): (u32, u32), program: T)
    where
        T: Program<Output = Result<S, SystemError>>,
        S: Into<Measured> + Send + 'static,
    {
        let thread = self.server_threads;
        self.server_threads += 1;
        if machine == 0 {
            self.free_core = self.free_core.max(core + 1);
            self.awaited_servers.push(thread);
        }
        let program = self.dress.clone().server(thread, program);
        match self.course {
            Course::Fixed(_) => {
                let task = self.cluster.spawn(machine, core, As(program, PhantomData));
                self.servers.push((machine, core, task));
            }
            Course::Together { .. } | Course::Patience(_) => {
                self.cluster.spawn(machine, core, SiteServer { program, thread });
            }
        }
    }

    /// Adds the next client, on this machine and core.
    pub fn add_client<T, S>(&mut self, (machine, core): (u32, u32), program: T)
    where
        T: Program<Output = Result<S, SystemError>>,
        S: Into<R> + Send + 'static,
    {
        let number = self.client_count;
        self.client_count += 1;
        let hands_back = self.dress.hands_back(number);
        let program = As(self.dress.clone().client(number, program), PhantomData);
        if !hands_back {
            self.cluster.spawn(machine, core, program);
            return;
        }
        self.awaited.push(number);
        match self.course {
            Course::Fixed(_) => {
                let task = self.cluster.spawn(machine, core, program);
                self.clients.push((machine, core, task));
            }
            Course::Together { .. } | Course::Patience(_) => {
                self.cluster.spawn(machine, core, SiteClient { program, number });
            }
        }
    }

    /// Runs all threads. Returns `None` if machine 0 is another process: that process has the results.
    ///
    /// # Errors
    /// If the run does not reach its end, or a thread gives up.
    pub fn run(self) -> Result<Option<SiteEnded<R>>, SiteError> {
        let Site { cluster, stop, servers, clients, awaited_servers, free_core, course, awaited, .. } = self;
        let Some(stop) = stop else {
            match cluster.run() {
                // The cause is the thread that gave up, not the threads that wait for it.
                Err(RunError::Deadlock(who)) => {
                    let of_servers = servers.iter().find_map(gave_up);
                    let gave_up = of_servers.or_else(|| clients.iter().find_map(gave_up));
                    return Err(gave_up.unwrap_or(RunError::Deadlock(who).into()));
                }
                ended => ended?,
            }
            let mut all = Measured::default();
            for server in &servers {
                all.add(&take(server)?);
            }
            let clients = clients.iter().map(take).collect::<Result<_, _>>()?;
            return Ok(Some(SiteEnded { server: all, clients }));
        };
        let together = matches!(course, Course::Together { .. });
        let collector =
            Collector { servers: awaited_servers.clone(), clients: awaited.clone(), stop, together };
        // The collector runs on the first free core, because hosts whose caches have sizes allow few core
        // numbers: they have a bit for each core.
        let task = cluster.spawn(0, free_core, collector);
        cluster.run()?;
        let Some((served, results)) = task.take() else { return Ok(None) };
        let mut all = Measured::default();
        for (thread, bytes) in awaited_servers.iter().zip(&served) {
            all.add(&said(bytes, || format!("thread {thread} of the server"))?);
        }
        let clients = awaited.iter().zip(&results);
        let clients = clients.map(|(n, bytes)| said(bytes, || format!("client {n}")));
        Ok(Some(SiteEnded { server: all, clients: clients.collect::<Result<_, _>>()? }))
    }
}

fn take<T>((machine, thread, task): &Started<T>) -> Result<T, SiteError> {
    let (machine, thread) = (*machine, *thread);
    match task.take() {
        Some(Ok(result)) => Ok(result),
        Some(Err(cause)) => Err(SiteError::Thread { machine, thread, cause }),
        None => Err(SiteError::Unfinished { machine, thread }),
    }
}

fn gave_up<T>(started: &Started<T>) -> Option<SiteError> {
    take(started).err().filter(|error| matches!(error, SiteError::Thread { .. }))
}

fn said<R: Record>(bytes: &[u8], who: impl Fn() -> String) -> Result<R, SiteError> {
    record::from_bytes(bytes).map_err(|error| SiteError::Said(format!("{}: {error}", who())))
}

/// A program whose result is converted to another type.
struct As<T, S>(T, PhantomData<fn() -> S>);

impl<T, O, S> Program for As<T, S>
where
    T: Program<Output = Result<O, SystemError>>,
    O: Into<S>,
    S: Send + 'static,
{
    type Output = Result<S, SystemError>;

    fn run<P: Provider>(self, p: P) -> Self::Output {
        self.0.run(p).map(Into::into)
    }
}

/// A server's thread that publishes its result.
struct SiteServer<T> {
    program: T,
    thread: u32,
}

impl<T, S> Program for SiteServer<T>
where
    T: Program<Output = Result<S, SystemError>>,
    S: Into<Measured>,
{
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        // Without its server, clients would wait for ever. The panic ends them, too.
        let ended = self
            .program
            .run(p.clone())
            .unwrap_or_else(|error| panic!("a thread of the server failed: {error}"));
        p.publish(&served_key(self.thread), &record::to_bytes::<Measured>(Ok(ended.into())));
    }
}

/// A client that publishes its result.
struct SiteClient<T> {
    program: T,
    number: u32,
}

impl<T, R> Program for SiteClient<T>
where
    T: Program<Output = Result<R, SystemError>>,
    R: Record,
{
    type Output = ();

    fn run<P: Provider>(self, p: P) {
        let ended = self.program.run(p.clone());
        // A client that gives up early must not keep other clients from beginning.
        Interval::say_ready(&p, self.number);
        p.publish(&result_key(self.number), &record::to_bytes(ended));
        // The provider destroys the QPs when the thread ends. A responder can complete the last RECV before
        // it acknowledges the message. A QP destroyed in between acknowledges nothing, and the server's SEND
        // fails.
        drop(p.lookup(OVER));
    }
}

/// Lets clients begin, waits for their results, stops the server, and waits for its threads' results.
struct Collector {
    servers: Vec<u32>,
    clients: Vec<u32>,
    stop: Mem,
    together: bool,
}

impl Program for Collector {
    type Output = (Vec<Vec<u8>>, Vec<Vec<u8>>);

    fn run<P: Provider>(self, p: P) -> Self::Output {
        if self.together {
            Interval::let_all_begin(&p, &self.clients);
        }
        let results = self.clients.iter().map(|client| p.lookup(&result_key(*client))).collect();
        p.store_u64(self.stop, 0, 1);
        p.publish(OVER, &[]);
        let served = self.servers.iter().map(|thread| p.lookup(&served_key(*thread))).collect();
        (served, results)
    }
}
