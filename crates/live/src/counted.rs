//! A cluster whose threads count what they ask of the last-level cache.

use doorbell_native::{CacheCounters, CacheCounts, NativeCluster, NativeDevice, NoCounters};
use doorbell_verbs::{Cluster, Mem, PageSize, Program, Provider, RunError, Task, VerbsError};
use schemars::JsonSchema;
use serde::Serialize;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};

/// What one thread counted, and of which machine it is.
type Counts = (u32, Result<CacheCounts, NoCounters>);

/// Threads of this process, on one device.
pub(super) struct Counted {
    threads: NativeCluster,
    spawned: u32,
    counts: Arc<Mutex<Vec<Counts>>>,
}

/// The threads of a run, in the form of their JSON.
#[derive(Serialize, JsonSchema)]
pub struct Threads {
    /// How many there were.
    pub threads: u32,
    /// What they asked of the last-level cache from their beginning to their end.
    pub llc: Option<Llc>,
    /// Why that is not known.
    pub no_llc: Option<String>,
}

/// By machines: 0 is the server.
#[derive(Serialize, JsonSchema)]
pub struct Llc {
    /// What threads of the server asked.
    pub server: LlcUse,
    /// What threads of all clients asked.
    pub clients: LlcUse,
    /// Whether what the kernel did for the threads is in it.
    pub with_kernel: bool,
}

/// Requests to the last-level cache.
#[derive(Clone, Copy, Default, Serialize, JsonSchema)]
pub struct LlcUse {
    /// How often they asked for a line.
    pub references: u64,
    /// How often the cache did not have it.
    pub misses: u64,
}

/// A program that counts.
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
    /// `machines` machines on `device`, whose run ends early once `interrupt` is set.
    pub(super) fn new(device: &NativeDevice, machines: u32, interrupt: &Arc<AtomicBool>) -> Counted {
        let threads = NativeCluster::new(device, machines).interrupted_by(interrupt.clone());
        Counted { threads, spawned: 0, counts: Arc::default() }
    }

    /// What its threads were, after a run.
    pub(super) fn threads(&self) -> Threads {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let (llc, no_llc) = match sums(&counts) {
            Ok(llc) => (Some(llc), None),
            Err(none) => (None, Some(none.to_string())),
        };
        Threads { threads: self.spawned, llc, no_llc }
    }
}

/// What all threads counted; nothing where one could not.
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
