//! Programs, and the machines they run on.

use crate::{Mem, PageSize, Provider, VerbsError};
use std::sync::{Arc, Mutex};
use thiserror::Error;

/// What one thread does. It holds plain data and makes its verbs objects itself; being generic
/// over the provider, one source runs on every one.
pub trait Program: Send + 'static {
    /// What it hands back.
    type Output: Send + 'static;

    /// Runs to its end.
    fn run<P: Provider>(self, provider: P) -> Self::Output;
}

/// Machines joined by a fabric, on which threads can be started.
pub trait Cluster {
    /// Number of machines.
    fn machines(&self) -> u32;

    /// Allocates memory for several threads of a machine to share; see [`crate::Cpu::alloc`]. Where sockets are told
    /// apart, it is at the first.
    fn alloc(&mut self, machine: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError>;

    /// The same at the socket of a core; see [`crate::Cpu::alloc_near`].
    fn alloc_near(&mut self, machine: u32, core: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError>;

    /// Adds a thread to `core` of `machine`; it starts with [`Cluster::run`].
    fn spawn<T: Program>(&mut self, machine: u32, core: u32, program: T) -> Task<T::Output>;

    /// Lets `fill` write memory of a machine before the run, in no time. `None` where the machine is another
    /// process, which does the same.
    ///
    /// # Panics
    /// If the memory is none of the machine's.
    fn preset<R>(&mut self, machine: u32, mem: Mem, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R>;

    /// Tells whether somebody wants the run to stop: for what takes long before it.
    fn stopped(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        || false
    }

    /// Whether the threads of a machine run in this process.
    fn is_here(&self, _machine: u32) -> bool {
        true
    }

    /// Whether time is virtual: one clock for all threads, which begin at the same moment.
    fn is_virtual(&self) -> bool {
        false
    }

    /// Where time is virtual: lets caches hold only the last `bytes` that were fetched of the allocation of
    /// `mem`: memory that is larger than they are, or stands for such memory. Real caches hold what they hold.
    ///
    /// # Panics
    /// If there is no such machine, or it has no such memory.
    fn limit_cached(&mut self, _machine: u32, _mem: Mem, _bytes: u64) {}

    /// Runs all threads added since the last run to their end; what was published in an earlier
    /// run is gone. When a thread panics, the others end at their next `pause` or `lookup`.
    fn run(&mut self) -> Result<(), RunError>;
}

/// Why a run did not reach its end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RunError {
    /// Every thread waits and nothing is under way that could wake one.
    #[error("deadlock: {0}")]
    Deadlock(String),
    /// A thread panicked.
    #[error("{thread} panicked: {message}")]
    Panicked {
        /// Which thread.
        thread: String,
        /// With what.
        message: String,
    },
    /// A core that does not exist or already has a thread, or another bad set-up.
    #[error("{0}")]
    Setup(String),
    /// The run was stopped from outside.
    #[error("interrupted")]
    Interrupted,
}

/// What a started thread will hand back.
pub struct Task<T>(Arc<Mutex<Option<T>>>);

impl<T> Task<T> {
    /// For clusters: a task and the slot its result goes to.
    pub fn new() -> (Task<T>, TaskSlot<T>) {
        let slot = Arc::new(Mutex::new(None));
        (Task(slot.clone()), TaskSlot(slot))
    }

    /// The thread's result, once, after the run; `None` where it did not come to its end.
    pub fn take(&self) -> Option<T> {
        self.0.lock().unwrap_or_else(|e| e.into_inner()).take()
    }
}

/// Where a cluster puts a thread's result.
pub struct TaskSlot<T>(Arc<Mutex<Option<T>>>);

impl<T> TaskSlot<T> {
    /// Puts the result.
    pub fn put(self, value: T) {
        *self.0.lock().unwrap_or_else(|e| e.into_inner()) = Some(value);
    }
}
