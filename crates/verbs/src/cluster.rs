//! Programs and the machines that run them.

use crate::{Mem, PageSize, Provider, VerbsError};
use std::sync::{Arc, Mutex};
use thiserror::Error;

/// The program of one thread. It holds plain data and creates its verbs objects itself. It is generic over
/// the provider, so one source runs on every provider.
pub trait Program: Send + 'static {
    /// The result of the program.
    type Output: Send + 'static;

    /// Runs the program to its end.
    fn run<P: Provider>(self, provider: P) -> Self::Output;
}

/// Machines connected by a fabric. Threads can be started on them.
pub trait Cluster {
    /// Number of machines.
    fn machines(&self) -> u32;

    /// Allocates memory that several threads of a machine share; see [`crate::Cpu::alloc`]. If CPU sockets
    /// are modelled, the memory is at the first socket.
    fn alloc(&mut self, machine: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError>;

    /// Allocates shared memory at the CPU socket of `core`; see [`crate::Cpu::alloc_near`].
    fn alloc_near(&mut self, machine: u32, core: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError>;

    /// Adds a thread to `core` of `machine`. The thread starts with [`Cluster::run`].
    fn spawn<T: Program>(&mut self, machine: u32, core: u32, program: T) -> Task<T::Output>;

    /// Before the run, calls `fill` with the bytes of `mem` on a machine. This takes no virtual time. Returns
    /// `None` if the machine is another process, which then calls `preset` itself, or if the set-up of the
    /// cluster was stopped, so that it cannot run.
    ///
    /// # Panics
    /// If the memory does not belong to the machine.
    fn preset<R>(&mut self, machine: u32, mem: Mem, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R>;

    /// Returns a function that tells whether the run should stop. Long preparations before the run call it.
    fn stopped(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        || false
    }

    /// Whether the threads of a machine run in this process.
    fn is_here(&self, _machine: u32) -> bool {
        true
    }

    /// Whether time is virtual: one clock for all threads, which start simultaneously.
    fn is_virtual(&self) -> bool {
        false
    }

    /// In virtual time, the caches hold at most `bytes` bytes of the allocation of `mem`: the last fetched
    /// ones. Call this for an allocation that is larger than the caches, or that stands for a larger one.
    /// Real hardware ignores the call.
    ///
    /// # Panics
    /// If the machine or the memory does not exist.
    fn limit_cached(&mut self, _machine: u32, _mem: Mem, _bytes: u64) {}

    /// Runs all threads added since the last run to their end. Values published in an earlier run are gone.
    /// When a thread panics, the others end at their next `pause` or `lookup`.
    fn run(&mut self) -> Result<(), RunError>;
}

/// Why a run did not reach its end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// Every thread waits, and nothing in flight could wake one.
    #[error("deadlock: {0}")]
    Deadlock(String),
    /// A thread panicked.
    #[error("{thread} panicked: {message}")]
    Panicked {
        /// The thread.
        thread: String,
        /// The panic message.
        message: String,
    },
    /// The set-up is invalid: for example, a core does not exist or already has a thread.
    #[error("{0}")]
    Setup(String),
    /// The run was stopped from outside.
    #[error("interrupted")]
    Interrupted,
}

/// The future result of a started thread.
pub struct Task<T>(Arc<Mutex<Option<T>>>);

impl<T> Task<T> {
    /// For clusters: a task and the slot for its result.
    pub fn new() -> (Task<T>, TaskSlot<T>) {
        let slot = Arc::new(Mutex::new(None));
        (Task(slot.clone()), TaskSlot(slot))
    }

    /// Returns the thread's result once, after the run. `None` if the thread did not finish.
    pub fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).take()
    }
}

/// The slot in which a cluster stores a thread's result.
pub struct TaskSlot<T>(Arc<Mutex<Option<T>>>);

impl<T> TaskSlot<T> {
    /// Stores the result.
    pub fn put(self, value: T) {
        *self.0.lock().unwrap_or_else(|e| e.into_inner()) = Some(value);
    }
}
