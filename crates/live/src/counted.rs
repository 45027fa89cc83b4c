//! A cluster that counts the last-level cache accesses of each of its threads.

use doorbell_native::{CacheCounters, CacheCounts, NativeCluster, NativeDevice, NoCounters};
use doorbell_verbs::{Cluster, Mem, PageSize, Program, Provider, RunError, Task, VerbsError};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// A thread's machine and its counts.
type Counts = (u32, Result<CacheCounts, NoCounters>);

/// Threads of this process that use one device and count their cache accesses.
pub(super) struct Counted {
    threads: NativeCluster,
    spawned: u32,
    counts: Arc<Mutex<Vec<Counts>>>,
}

/// The threads of a live run, as the JSON result shows them.
#[derive(Serialize, JsonSchema)]
pub struct Threads {
    /// Number of threads.
    pub threads: u32,
    /// Accesses to the last-level cache, from the start to the end of each thread.
    pub llc: Option<Llc>,
    /// Why the cache accesses are unknown.
    pub no_llc: Option<String>,
}

/// Cache accesses per side; machine 0 is the server.
#[derive(Serialize, JsonSchema)]
pub struct Llc {
    /// Accesses by threads of the server.
    pub server: LlcUse,
    /// Accesses by threads of all clients.
    pub clients: LlcUse,
    /// Whether the counts include kernel work on behalf of the threads.
    pub with_kernel: bool,
}

/// Accesses to the last-level cache.
#[derive(Clone, Copy, Default, Serialize, JsonSchema)]
pub struct LlcUse {
    /// Number of lines requested.
    pub references: u64,
    /// Number of requested lines that were not in the cache.
    pub misses: u64,
}

/// A program, wrapped to count its cache accesses.
struct Counting<T> {
    program: T,
    machine: u32,
    counts: Arc<Mutex<Vec<Counts>>>,
}

impl<T: Program> Program for Counting<T> {
    type Output = T::Output;

    fn run<P: Provider>(self, p: P) -> T::Output {
        let counters = CacheCounters::start();
        let output = self.program.run(p);
        let counts = (self.machine, counters.and_then(CacheCounters::stop));
        self.counts.lock().unwrap_or_else(PoisonError::into_inner).push(counts);
        output
    }
}

impl Counted {
    /// Creates `machines` machines on `device`. A run ends early once `interrupt` is set.
    pub(super) fn new(device: &NativeDevice, machines: u32, interrupt: &Arc<AtomicBool>) -> Counted {
        let threads = NativeCluster::new(device, machines).interrupted_by(interrupt.clone());
        Counted { threads, spawned: 0, counts: Arc::default() }
    }

    /// Returns the threads and their cache accesses, after a run.
    pub(super) fn threads(&self) -> Threads {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (llc, no_llc) = match sums(&counts) {
            Ok(llc) => (Some(llc), None),
            Err(none) => (None, Some(none.to_string())),
        };
        Threads { threads: self.spawned, llc, no_llc }
    }
}

/// Sums the counts of all threads. Fails if a thread has no counts.
fn sums(counts: &[Counts]) -> Result<Llc, NoCounters> {
    let (mut server, mut clients, mut with_kernel) = (LlcUse::default(), LlcUse::default(), true);
    for (machine, counts) in counts {
        let counts = counts.as_ref().map_err(NoCounters::clone)?;
        let sum = if *machine == 0 { &mut server } else { &mut clients };
        sum.references += counts.references;
        sum.misses += counts.misses;
        with_kernel &= counts.with_kernel;
    }
    Ok(Llc { server, clients, with_kernel })
}

impl Cluster for Counted {
    fn machines(&self) -> u32 {
        self.threads.machines()
    }

    fn alloc(&mut self, machine: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        self.threads.alloc(machine, len, page)
    }

    fn alloc_near(&mut self, machine: u32, core: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        self.threads.alloc_near(machine, core, len, page)
    }

    fn spawn<T: Program>(&mut self, machine: u32, core: u32, program: T) -> Task<T::Output> {
        self.spawned += 1;
        self.threads.spawn(machine, core, Counting { program, machine, counts: self.counts.clone() })
    }

    fn preset<R>(&mut self, machine: u32, mem: Mem, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        self.threads.preset(machine, mem, fill)
    }

    fn run(&mut self) -> Result<(), RunError> {
        self.threads.run()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_counted_is_summed_by_machine_or_not_told() {
        let of = |machine, references, with_kernel| {
            (machine, Ok(CacheCounts { references, misses: references / 2, with_kernel }))
        };
        let all = sums(&[of(0, 10, true), of(1, 4, true), of(2, 6, true)]).unwrap();
        assert_eq!((all.server.references, all.server.misses, all.with_kernel), (10, 5, true));
        assert_eq!((all.clients.references, all.clients.misses), (10, 5));
        assert!(!sums(&[of(0, 10, true), of(1, 4, false)]).unwrap().with_kernel);
    }
}
