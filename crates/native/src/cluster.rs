//! A cluster whose machines are groups of OS threads.

use crate::device::NativeDevice;
use crate::memory::View;
use crate::provider::NativeProvider;
use crate::shared::Shared;
use crate::threads::{self, Thread};
use doorbell_verbs::{Cluster, Mem, PageSize, Program, RunError, Task, VerbsError};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

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

    /// The thread to run. A provider cannot move between threads, so the thread itself creates its provider.
    fn on(self, shared: &Arc<Shared>) -> Thread {
        let (name, shared) = (self.name(), shared.clone());
        let of_provider = name.clone();
        let body = move || (self.body)(NativeProvider::new(shared, self.machine, of_provider));
        Thread { name, body: Box::new(body) }
    }
}

/// A cluster whose machines are groups of threads of this process. All machines use one device. The clock of
/// all threads starts when the cluster is created.
pub struct NativeCluster {
    shared: Arc<Shared>,
    machines: u32,
    spawned: Vec<Spawned>,
}

impl NativeCluster {
    /// A cluster of `machines` machines on `device`.
    pub fn new(device: &NativeDevice, machines: u32) -> NativeCluster {
        let shared = Shared {
            device: device.clone(),
            memory: Arc::default(),
            exchange: Arc::default(),
            start: Instant::now(),
        };
        NativeCluster { shared: Arc::new(shared), machines, spawned: Vec::new() }
    }

    /// Makes runs end with [`RunError::Interrupted`] once `flag` is set. A thread unwinds at its next
    /// `pause`, `compute` or blocking socket call. Then threads that wait in `lookup` unwind, too.
    pub fn interrupted_by(self, flag: Arc<AtomicBool>) -> NativeCluster {
        self.shared.exchange.interrupted_by(flag);
        self
    }

    /// Checks that every thread has an existing machine, and a core that no other thread has.
    fn check(&self, threads: &[Spawned]) -> Result<(), RunError> {
        for (index, thread) in threads.iter().enumerate() {
            let name = thread.name();
            if thread.machine >= self.machines {
                let machines = self.machines;
                return Err(RunError::Setup(format!(
                    "{name}: the cluster has {machines} machines, numbered from 0"
                )));
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
            return Err(VerbsError::Invalid(format!(
                "no machine {machine}: the cluster has {machines} machines, numbered from 0"
            )));
        }
        self.shared.memory.alloc(machine, len, page)
    }

    /// The kernel places memory on the NUMA node of the core that first touches it, so `core` is ignored.
    fn alloc_near(&mut self, machine: u32, _: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        self.alloc(machine, len, page)
    }

    fn spawn<T: Program>(&mut self, machine: u32, core: u32, program: T) -> Task<T::Output> {
        let (task, slot) = Task::new();
        let body: Body = Box::new(move |provider| slot.put(program.run(provider)));
        self.spawned.push(Spawned { machine, core, body });
        task
    }

    fn preset<R>(&mut self, machine: u32, mem: Mem, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        let first = View::new(self.shared.memory.clone(), machine).pointer(mem, 0, mem.len());
        // SAFETY: `pointer` checked the range, and it is mapped as long as this cluster. Nothing else
        // accesses it. Threads, and the memory regions through which devices access memory, live only within
        // `run`. Both `run` and this method borrow the cluster exclusively.
        let bytes = unsafe { std::slice::from_raw_parts_mut(first, mem.len() as usize) };
        Some(fill(bytes))
    }

    /// Runs all threads until they end. At the start, no value is published. If a thread panics, each other
    /// thread unwinds at its next `pause`, `compute`, blocking socket call, or `lookup` that has to wait.
    fn run(&mut self) -> Result<(), RunError> {
        let spawned = std::mem::take(&mut self.spawned);
        self.check(&spawned)?;
        let threads = spawned.into_iter().map(|thread| thread.on(&self.shared)).collect();
        threads::run(&self.shared.exchange, threads)
    }
}
