//! Machines as groups of OS threads.

use crate::device::NativeDevice;
use crate::exchange::{Exchange, Stopped};
use crate::memory::Memory;
use crate::provider::NativeProvider;
use doorbell_verbs::{Cluster, Mem, PageSize, Program, RunError, Task, VerbsError};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// What the threads of a cluster share.
pub(crate) struct Shared {
    pub(crate) device: NativeDevice,
    pub(crate) memory: Arc<Memory>,
    pub(crate) exchange: Exchange,
    pub(crate) start: Instant,
}

type Body = Box<dyn FnOnce(NativeProvider) + Send>;

struct Spawned {
    machine: u32,
    core: u32,
    body: Body,
}

impl Spawned {
    fn name(&self) -> String {
        format!("machine {} core {}", self.machine, self.core)
    }
}

/// Machines that are groups of this process's threads, all on one device. A thread's clock starts
/// with its cluster.
pub struct NativeCluster {
    shared: Arc<Shared>,
    machines: u32,
    spawned: Vec<Spawned>,
}

impl NativeCluster {
    /// `machines` machines on `device`.
    pub fn new(device: &NativeDevice, machines: u32) -> NativeCluster {
        let shared = Shared {
            device: device.clone(),
            memory: Arc::default(),
            exchange: Exchange::default(),
            start: Instant::now(),
        };
        NativeCluster { shared: Arc::new(shared), machines, spawned: Vec::new() }
    }

    /// Every thread has a machine and a core of its own.
    fn check(&self, threads: &[Spawned]) -> Result<(), RunError> {
        for (index, thread) in threads.iter().enumerate() {
            let name = thread.name();
            if thread.machine >= self.machines {
                let machines = self.machines;
                return Err(RunError::Setup(format!("{name}: the cluster has {machines} machines, from 0")));
            }
            if threads[..index].iter().any(|t| (t.machine, t.core) == (thread.machine, thread.core)) {
                return Err(RunError::Setup(format!("{name} already has a thread")));
            }
        }
        Ok(())
    }
}

impl Cluster for NativeCluster {
    fn machines(&self) -> u32 {
        self.machines
    }

    fn alloc(&mut self, machine: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        if machine >= self.machines {
            let machines = self.machines;
            return Err(VerbsError::Invalid(format!("no machine {machine}: there are {machines}, from 0")));
        }
        self.shared.memory.alloc(machine, len, page)
    }

    fn spawn<T: Program>(&mut self, machine: u32, core: u32, program: T) -> Task<T::Output> {
        let (task, slot) = Task::new();
        let body: Body = Box::new(move |provider| slot.put(program.run(provider)));
        self.spawned.push(Spawned { machine, core, body });
        task
    }

    /// Runs all threads to their end, with nothing published at first. When one panics, the others
    /// unwind at their next `pause` or `lookup`.
    fn run(&mut self) -> Result<(), RunError> {
        let threads = std::mem::take(&mut self.spawned);
        self.check(&threads)?;
        self.shared.exchange.begin(threads.len());
        let cpus = processors(threads.len());
        let started: Vec<_> = threads
            .into_iter()
            .enumerate()
            .map(|(i, t)| start(t, &self.shared, cpus.get(i).copied()))
            .collect();
        // All are joined before the first failure is returned.
        let ended: Vec<_> = started.into_iter().map(|thread| thread.and_then(join)).collect();
        if let Some(who) = self.shared.exchange.deadlock() {
            return Err(RunError::Deadlock(who));
        }
        ended.into_iter().collect()
    }
}

/// A processor for each of `threads` threads, or none at all where there are too few.
fn processors(threads: usize) -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else { return Vec::new() };
    let cpus: Vec<_> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).take(threads).collect();
    if cpus.len() == threads { cpus } else { Vec::new() }
}

/// Keeps the calling thread on `cpu`: a hint, as nothing depends on it.
fn pin(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    let _ = sched_setaffinity(None, &set);
}

/// A started thread's name, and how it ends.
type Started = (String, JoinHandle<Result<(), Box<dyn Any + Send>>>);

fn start(thread: Spawned, shared: &Arc<Shared>, cpu: Option<usize>) -> Result<Started, RunError> {
    let (name, machine, body) = (thread.name(), thread.machine, thread.body);
    let (of_thread, named) = (shared.clone(), name.clone());
    let main = move || {
        if let Some(cpu) = cpu {
            pin(cpu);
        }
        let provider = NativeProvider::new(of_thread.clone(), machine, named);
        let outcome = catch_unwind(AssertUnwindSafe(|| body(provider)));
        if outcome.is_err() {
            of_thread.exchange.stop();
        }
        of_thread.exchange.end();
        outcome
    };
    match thread::Builder::new().name(name.clone()).spawn(main) {
        Ok(handle) => Ok((name, handle)),
        Err(cause) => {
            shared.exchange.stop();
            shared.exchange.end();
            Err(RunError::Setup(format!("{name} cannot be started: {cause}")))
        }
    }
}

/// Waits for a thread's end. One that was stopped on account of another has not failed.
fn join((thread, handle): Started) -> Result<(), RunError> {
    // The body's panics are caught inside: both levels say the same.
    match handle.join().unwrap_or_else(Err) {
        Err(payload) if !payload.is::<Stopped>() => {
            Err(RunError::Panicked { thread, message: message(payload.as_ref()) })
        }
        _ => Ok(()),
    }
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".into())
}
