//! Simulated machines and the threads on them.

use crate::SimConfig;
use crate::core::thread::{Thread, Waiting};
use crate::device::NONE;
use crate::host::memory::{MAX_CORES, Place};
use crate::metrics::{CacheUse, Metrics, PcieUse, ResourceUse};
use crate::provider::SimProvider;
use crate::world::{Machine, Next, World};
use corosensei::{Coroutine, CoroutineResult};
use doorbell_nic::{Profile, Resource};
use doorbell_verbs::{Cluster, Mem, PageSize, Program, RunError, Task, VerbsError};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::Ordering;

/// Turns of threads between two looks at the interrupt flag.
const TURNS_PER_CHECK: u32 = 4096;

/// Machines in virtual time.
pub struct SimCluster {
    world: Rc<RefCell<World>>,
    /// The stack of each thread that has not ended.
    coroutines: Vec<Option<Coroutine<(), (), ()>>>,
    config: SimConfig,
    setup_error: Option<String>,
}

impl SimCluster {
    /// `config.machines` machines of this profile.
    ///
    /// # Panics
    /// If there are none, or their ports are more than there are LIDs (48 K).
    pub fn new(profile: &Profile, config: SimConfig) -> SimCluster {
        let ports = u64::from(config.machines) * u64::from(profile.link.ports);
        assert!((1..0xc000).contains(&ports), "{} machines do not make a cluster", config.machines);
        let world = Rc::new(RefCell::new(World::new(profile, &config)));
        SimCluster { world, coroutines: Vec::new(), config, setup_error: None }
    }

    /// Lets caches hold only the last `bytes` that were fetched of the allocation of `mem`, which is
    /// one of `machine`: memory that is larger than they are, or stands for such memory. At first they
    /// hold lines that are spread evenly over it. All other memory stays cached from its first use on.
    ///
    /// # Panics
    /// If there is no such machine, or it has no such memory.
    pub fn limit_cached(&mut self, machine: u32, mem: Mem, bytes: u64) {
        self.world.borrow_mut().machines[machine as usize].memory.limit_cached(mem, bytes);
    }

    /// Lets `write` write the bytes of `mem` of `machine` before the run, in no time.
    ///
    /// # Panics
    /// If there is no such machine, or it has no such memory.
    pub fn preset<R>(&mut self, machine: u32, mem: Mem, write: impl FnOnce(&mut [u8]) -> R) -> R {
        let mut world = self.world.borrow_mut();
        let memory = &mut world.machines[machine as usize].memory;
        let place = Place { allocation: mem.allocation(), offset: mem.start() };
        write(memory.bytes_mut(place, mem.len()))
    }

    /// What the run showed.
    pub fn metrics(&self) -> Metrics {
        let w = self.world.borrow();
        let mut metrics = Metrics {
            window_ps: w.window.len(),
            dropped: w.dropped,
            lost: w.loss.lost,
            verbs: w.verbs,
            events: w.events,
            event_hash: w.event_hash,
            ..Metrics::default()
        };
        for (number, machine) in w.machines.iter().enumerate() {
            add_machine(&mut metrics, &w, number as u32, machine);
        }
        metrics
    }

    /// Lets a thread go on; an error where it panicked.
    fn resume(&mut self, thread: u32) -> Result<(), RunError> {
        let Some(coroutine) = &mut self.coroutines[thread as usize] else { return Ok(()) };
        let resumed = catch_unwind(AssertUnwindSafe(|| coroutine.resume(())));
        if matches!(resumed, Ok(CoroutineResult::Yield(()))) {
            return Ok(());
        }
        self.coroutines[thread as usize] = None;
        match resumed {
            Ok(_) => {
                let mut w = self.world.borrow_mut();
                let t = &mut w.threads[thread as usize];
                t.waiting = Waiting::Ended;
                let (machine, core) = (t.machine as usize, t.core as usize);
                w.machines[machine].on_core[core] = NONE;
                Ok(())
            }
            Err(panic) => {
                let w = self.world.borrow();
                let t = &w.threads[thread as usize];
                let message = panic
                    .downcast_ref::<&str>()
                    .map(|s| (*s).to_owned())
                    .or_else(|| panic.downcast_ref::<String>().cloned())
                    .unwrap_or_else(|| "no message".into());
                let thread = format!("the thread on core {} of machine {}", t.core, t.machine);
                Err(RunError::Panicked { thread, message })
            }
        }
    }

    fn run_threads(&mut self) -> Result<(), RunError> {
        let mut turns = 0;
        let mut running = self.coroutines.iter().flatten().count();
        while running > 0 {
            let next = self.world.borrow_mut().run_to_thread();
            match next {
                Next::End => return Ok(()),
                Next::Nothing => {
                    return Err(RunError::Deadlock(self.world.borrow().describe_waiting()));
                }
                Next::Thread(thread) => {
                    if self.world.borrow_mut().takes_turn(thread) {
                        self.resume(thread)?;
                        running -= usize::from(self.coroutines[thread as usize].is_none());
                    }
                }
            }
            turns += 1;
            if turns == TURNS_PER_CHECK {
                turns = 0;
                if self.config.interrupt.as_ref().is_some_and(|i| i.load(Ordering::Relaxed)) {
                    return Err(RunError::Interrupted);
                }
            }
        }
        Ok(())
    }
}

impl Cluster for SimCluster {
    fn machines(&self) -> u32 {
        self.config.machines
    }

    fn alloc(&mut self, machine: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        let mut w = self.world.borrow_mut();
        match w.machines.get_mut(machine as usize) {
            Some(m) => m.memory.alloc(len, page),
            None => Err(VerbsError::Invalid(format!("there is no machine {machine}"))),
        }
    }

    fn spawn<T: Program>(&mut self, machine: u32, core: u32, program: T) -> Task<T::Output> {
        let (task, slot) = Task::new();
        let world = self.world.clone();
        let mut w = self.world.borrow_mut();
        let number = w.threads.len() as u32;
        let Some(m) = w.machines.get_mut(machine as usize) else {
            self.setup_error = Some(format!("there is no machine {machine}"));
            return task;
        };
        if core >= MAX_CORES {
            self.setup_error =
                Some(format!("a simulated machine has cores 0 to {}, not {core}", MAX_CORES - 1));
            return task;
        }
        if m.on_core.len() <= core as usize {
            m.on_core.resize(core as usize + 1, NONE);
        }
        if m.on_core[core as usize] != NONE {
            self.setup_error = Some(format!("core {core} of machine {machine} already has a thread"));
            return task;
        }
        m.on_core[core as usize] = number;
        let now = w.now;
        w.threads.push(Thread::new(machine, core, now));
        w.schedule(number, now);
        drop(w);
        self.coroutines.push(Some(Coroutine::new(move |yielder, ()| {
            let provider = SimProvider::new(world, number, machine as u16, core, yielder);
            slot.put(program.run(provider));
        })));
        task
    }

    fn run(&mut self) -> Result<(), RunError> {
        if let Some(error) = self.setup_error.take() {
            return Err(RunError::Setup(error));
        }
        {
            let mut world = self.world.borrow_mut();
            world.published.clear();
            world.awaited.clear();
        }
        let result = self.run_threads();
        // Threads that did not come to their end are taken down where they stand.
        self.coroutines.iter_mut().for_each(|c| *c = None);
        result
    }
}

/// Adds what one machine shows.
fn add_machine(metrics: &mut Metrics, w: &World, machine: u32, m: &Machine) {
    let window = w.window.len().max(1) as f64;
    let mut add = |resource: Resource, name: String, busy: u64| {
        let utilization = busy as f64 / window;
        metrics.resources.push(ResourceUse { class: resource.name(), name, machine, utilization });
    };
    for thread in w.threads.iter().filter(|t| t.machine == machine) {
        let until = if thread.waiting == Waiting::Ended { thread.clock } else { w.window.to };
        let present = w.window.overlap(0, until);
        add(Resource::Cpu, format!("core {}", thread.core), present.saturating_sub(thread.idle));
    }
    let t = &m.pcie.traffic;
    add(Resource::MmioBandwidth, "PCIe to NIC, MMIO".into(), t.mmio_busy);
    add(Resource::DmaBandwidth, "PCIe to NIC, read completions".into(), t.completion_busy);
    add(Resource::DmaWriteBandwidth, "PCIe to host".into(), m.pcie.to_host.busy);
    let nic = &m.nic;
    let mean = |busy: u64, units: usize| busy / units.max(1) as u64;
    add(Resource::TxUnits, "sending units".into(), mean(nic.tx.iter().map(|u| u.busy).sum(), nic.tx.len()));
    add(Resource::RxUnits, "receiving units".into(), mean(nic.rx.iter().map(|u| u.busy).sum(), nic.rx.len()));
    // One QP, or flow, has one unit at a time, which may be what limits it.
    let most = nic.qps.iter().map(|q| q.tx_busy).max().unwrap_or(0);
    add(Resource::TxUnits, "sending unit of the busiest QP".into(), most);
    let flows = nic.qps.iter().map(|q| &q.flow).chain(&nic.datagrams);
    let most = flows.map(|f| f.busy).max().unwrap_or(0);
    add(Resource::RxUnits, "receiving unit of the busiest flow".into(), most);
    if let Some((i, lock)) = m.nic.locks.iter().enumerate().max_by_key(|(i, l)| (l.busy, usize::MAX - i)) {
        add(Resource::AtomicLocks, format!("atomics lock {i}, the busiest"), lock.busy);
    }
    for (i, port) in m.nic.ports.iter().enumerate() {
        add(Resource::LinkBandwidth, format!("port {} out", i + 1), port.out.busy());
        add(Resource::LinkBandwidth, format!("port {} in", i + 1), port.into.busy());
    }
    let nic = &m.nic;
    let caches = [
        ("wqe", nic.wqe_hits, nic.wqe_misses),
        ("qp-requester", nic.requester_contexts.hits, nic.requester_contexts.misses),
        ("qp-responder", nic.responder_contexts.hits, nic.responder_contexts.misses),
        ("translation", nic.translations.hits, nic.translations.misses),
    ];
    metrics.caches.extend(caches.map(|(name, hits, misses)| CacheUse { name, machine, hits, misses }));
    metrics.pcie.push(PcieUse {
        machine,
        mmio_bytes: t.mmio_bytes,
        dma_read_bytes: t.dma_read_bytes,
        dma_write_bytes: t.dma_write_bytes,
        rdcur: t.lines_read,
        itom: t.lines_written,
    });
}
