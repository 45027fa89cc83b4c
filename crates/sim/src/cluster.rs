//! Simulated machines and the threads on them.

use crate::config::{Machine, SimConfig, devices};
use crate::core::index::{CoreId, IdVec, MachineId, ThreadId};
use crate::core::spare::Spare;
use crate::host::{Host, MAX_CORES};
use crate::metrics::Metrics;
use crate::provider::SimProvider;
use crate::see::{Traced, Tracer, Tracing};
use crate::steer::{Steer, SteeredRun};
use crate::world::{Next, Thread, Waiting, World};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult};
use doorbell_nic::Profile;
use doorbell_verbs::{Cluster, Mem, PageSize, Program, RunError, Task, Time, VerbsError};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Turns of threads between two checks of the interrupt flag. The number is small, because turns are long
/// while threads set up.
const TURNS_PER_CHECK: u32 = 64;
/// Bytes of a thread's stack. Pages that are never touched take no memory.
const STACK: usize = 1 << 20;
/// Stacks kept for the next run: few compared with the number that a process may have.
const SPARE_STACKS: usize = 2000;

static SPARE: Spare<DefaultStack> = Spare::new(SPARE_STACKS);

/// Machines in virtual time.
pub struct SimCluster {
    world: Rc<RefCell<World>>,
    /// The stack of each thread that has not ended.
    coroutines: IdVec<ThreadId, Option<Coroutine<(), (), ()>>>,
    config: SimConfig,
    steer: Option<Box<dyn Steer>>,
    setup_error: Option<String>,
    /// Whether the set-up was stopped.
    halted: bool,
}

impl SimCluster {
    /// Creates `config.machines` machines with this profile and its [`devices`].
    ///
    /// # Panics
    /// If there are no machines, or if their ports outnumber the LIDs (48 K).
    pub fn new(profile: &Profile, config: SimConfig) -> SimCluster {
        let devices = devices(profile);
        let machine = Machine { host: profile, devices: &devices };
        SimCluster::of(&vec![machine; config.machines as usize], config)
    }

    /// Creates a cluster of these machines. `config.machines` must be their number.
    ///
    /// # Panics
    /// If `config.machines` is not their number or is zero, if a machine has no device or more than 255, or
    /// if the ports outnumber the LIDs (48 K).
    pub fn of(machines: &[Machine<'_>], config: SimConfig) -> SimCluster {
        assert_eq!(machines.len(), config.machines as usize, "config.machines is the number of machines");
        let devices = |m: &Machine<'_>| (1..256).contains(&m.devices.len());
        assert!(machines.iter().all(devices), "a machine has 1 to 255 devices");
        let ports: u32 = machines.iter().flat_map(|m| m.devices).map(|d| d.profile.device.link.ports).sum();
        assert!(
            (1..0xc000).contains(&ports),
            "the ports of {} machines outnumber the LIDs, or there is no machine",
            config.machines
        );
        let world = Rc::new(RefCell::new(World::new(machines, &config)));
        SimCluster { world, coroutines: IdVec::new(), config, steer: None, setup_error: None, halted: false }
    }

    /// Traces the run. Must be called before the run starts.
    pub fn trace(&mut self, tracing: Tracing) {
        let mut world = self.world.borrow_mut();
        let mut tracer = Tracer::new(tracing, &world.devices, &world.env.fabric);
        tracer.metered_from(world.env.window.from);
        world.begin_trace(tracer);
    }

    /// Lets `steer` control the run. The run calls `steer` first at time `look`. [`SimConfig::end`] is then
    /// ignored, and [`SimConfig::interrupt`] is watched only during the set-up.
    pub fn steer(&mut self, look: Time, steer: Box<dyn Steer>) {
        self.steer = Some(steer);
        self.world.borrow_mut().end_at(look.into());
    }

    /// Asks the [`Steer`] when to stop next. Returns false if the run ends.
    fn look(&mut self) -> bool {
        let Some(steer) = &mut self.steer else { return false };
        let mut world = self.world.borrow_mut();
        let next = steer.look(&mut SteeredRun(&mut world)).into();
        world.end_at(next);
        next > world.env.now
    }

    /// Whether the run must stop. If there is a [`Steer`], it decides.
    fn is_called(&mut self) -> bool {
        let now = self.world.borrow().env.now.time();
        match &mut self.steer {
            Some(steer) => steer.is_called(now) && !self.look(),
            None => is_set(self.config.interrupt.as_deref()),
        }
    }

    /// Whether the set-up must stop. Once it must, nothing more is set up, and the run is refused.
    fn is_halted(&mut self) -> bool {
        self.halted |= is_over(self.config.interrupt.as_deref(), self.config.deadline);
        self.halted
    }

    /// Ends the trace. The first call returns a summary of the trace.
    pub fn end_trace(&mut self) -> Option<Traced> {
        let mut world = self.world.borrow_mut();
        world.end_trace();
        world.traced.take()
    }

    /// The measurements of the run.
    pub fn metrics(&self) -> Metrics {
        Metrics::of(&self.world.borrow())
    }

    /// Resumes a thread.
    ///
    /// # Errors
    /// If the thread panicked.
    fn resume(&mut self, thread: ThreadId) -> Result<(), RunError> {
        let Some(coroutine) = &mut self.coroutines[thread] else { return Ok(()) };
        let resumed = catch_unwind(AssertUnwindSafe(|| coroutine.resume(())));
        if matches!(resumed, Ok(CoroutineResult::Yield(()))) {
            return Ok(());
        }
        let ended = self.coroutines[thread].take().expect("a resumed thread has a coroutine");
        if ended.done() {
            SPARE.give(ended.into_stack());
        }
        let mut w = self.world.borrow_mut();
        let World { threads, hosts, .. } = &mut *w;
        let t = &mut threads[thread];
        match resumed {
            Ok(_) => {
                t.waiting = Waiting::Ended;
                hosts[t.machine].core(t.core).thread = None;
                Ok(())
            }
            Err(panic) => {
                let message = panic
                    .downcast_ref::<&str>()
                    .map(|s| (*s).to_owned())
                    .or_else(|| panic.downcast_ref::<String>().cloned())
                    .unwrap_or_else(|| "no message".into());
                Err(RunError::Panicked { thread: t.name(), message })
            }
        }
    }

    fn run_threads(&mut self) -> Result<(), RunError> {
        let mut turns = 0;
        let mut running = self.coroutines.iter().flatten().count();
        while running > 0 {
            let next = self.world.borrow_mut().run_to_thread();
            match next {
                Next::End if self.look() => continue,
                Next::End => return Ok(()),
                Next::Nothing => {
                    return Err(RunError::Deadlock(self.world.borrow().describe_waiting()));
                }
                Next::Thread(thread) => {
                    if self.world.borrow_mut().takes_turn(thread) {
                        self.resume(thread)?;
                        running -= usize::from(self.coroutines[thread].is_none());
                    }
                }
            }
            turns += 1;
            if turns == TURNS_PER_CHECK {
                turns = 0;
                if self.is_called() {
                    return Err(RunError::Interrupted);
                }
            }
        }
        Ok(())
    }
}

fn is_set(interrupt: Option<&AtomicBool>) -> bool {
    interrupt.is_some_and(|interrupt| interrupt.load(Ordering::Relaxed))
}

/// Whether work that watches the interrupt flag and the wall clock must stop.
fn is_over(interrupt: Option<&AtomicBool>, deadline: Option<Instant>) -> bool {
    is_set(interrupt) || deadline.is_some_and(|deadline| Instant::now() >= deadline)
}

/// The id of a machine. A cluster has fewer than 2^16 machines.
fn machine_id(machine: u32) -> MachineId {
    MachineId(machine as u16)
}

fn find(w: &mut World, machine: u32) -> Result<&mut Host, String> {
    let host = u16::try_from(machine).ok().and_then(|machine| w.hosts.get_mut(MachineId(machine)));
    host.ok_or_else(|| format!("there is no machine {machine}"))
}

/// The core with this number, if the machine has it and no thread runs on it.
fn free_core(w: &mut World, machine: u32, core: u32) -> Result<CoreId, String> {
    let host = find(w, machine)?;
    if core >= MAX_CORES {
        return Err(format!("a simulated machine has cores 0 to {}, not {core}", MAX_CORES - 1));
    }
    let id = CoreId(core as u8);
    match host.core(id).thread {
        None => Ok(id),
        Some(_) => Err(format!("core {core} of machine {machine} already has a thread")),
    }
}

impl SimCluster {
    /// Allocates shared memory on a device of a machine (ibv_alloc_dm(3)). Devices are counted from 0.
    ///
    /// # Errors
    /// If there is no such machine or device, or if the device has not enough memory for programs.
    pub fn alloc_dm(&mut self, machine: u32, device: u8, len: u64) -> Result<Mem, VerbsError> {
        let w = &mut *self.world.borrow_mut();
        let host = find(w, machine).map_err(VerbsError::Invalid)?;
        if u32::from(device) >= host.devices() {
            return Err(VerbsError::NoDevice(format!("machine {machine} has no device {device}")));
        }
        let device = host.device(device);
        w.devices[device].alloc_own(len)
    }
}

impl Cluster for SimCluster {
    fn machines(&self) -> u32 {
        self.config.machines
    }

    fn alloc(&mut self, machine: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        self.alloc_near(machine, 0, len, page)
    }

    fn alloc_near(&mut self, machine: u32, core: u32, len: u64, page: PageSize) -> Result<Mem, VerbsError> {
        let mut w = self.world.borrow_mut();
        let host = find(&mut w, machine).map_err(VerbsError::Invalid)?;
        // The memory lies as if a thread on this core had allocated it and had ended.
        host.alloc_near(core, CoreId(u8::try_from(core).unwrap_or(u8::MAX)), len, page)
    }

    fn spawn<T: Program>(&mut self, machine: u32, core: u32, program: T) -> Task<T::Output> {
        let (task, slot) = Task::new();
        if self.is_halted() {
            return task;
        }
        let world = self.world.clone();
        let mut w = self.world.borrow_mut();
        if self.setup_error.is_some() {
            return task;
        }
        let number = ThreadId(w.threads.len() as u32);
        let core_id = match free_core(&mut w, machine, core) {
            Ok(core) => core,
            Err(why) => {
                self.setup_error = Some(why);
                return task;
            }
        };
        let stack = match SPARE.take(|_| true).map_or_else(|| DefaultStack::new(STACK), Ok) {
            Ok(stack) => stack,
            Err(why) => {
                let others = w.threads.len();
                self.setup_error = Some(format!(
                    "the stack of another thread cannot be allocated, there are {others} threads: {why}"
                ));
                return task;
            }
        };
        let machine = machine_id(machine);
        w.hosts[machine].core(core_id).thread = Some(number);
        let now = w.env.now;
        w.threads.push(Thread::new(machine, core_id, now));
        w.schedule(number, now);
        drop(w);
        self.coroutines.push(Some(Coroutine::with_stack(stack, move |yielder, ()| {
            let provider = SimProvider::new(world, number, machine, core_id, yielder);
            slot.put(program.run(provider));
        })));
        task
    }

    fn preset<R>(&mut self, machine: u32, mem: Mem, fill: impl FnOnce(&mut [u8]) -> R) -> Option<R> {
        if self.is_halted() {
            return None;
        }
        let mut world = self.world.borrow_mut();
        Some(fill(world.hosts[machine_id(machine)].memory.whole(mem)))
    }

    fn stopped(&self) -> impl Fn() -> bool + Send + Sync + 'static {
        let (interrupt, deadline) = (self.config.interrupt.clone(), self.config.deadline);
        move || is_over(interrupt.as_deref(), deadline)
    }

    fn is_virtual(&self) -> bool {
        true
    }

    /// At first the caches hold lines that are spread evenly over the allocation. Memory of other allocations
    /// stays cached from its first use on.
    fn limit_cached(&mut self, machine: u32, mem: Mem, bytes: u64) {
        self.world.borrow_mut().hosts[machine_id(machine)].limit_cached(mem, bytes);
    }

    fn run(&mut self) -> Result<(), RunError> {
        if self.is_halted() {
            return Err(RunError::Interrupted);
        }
        if let Some(error) = self.setup_error.take() {
            return Err(RunError::Setup(error));
        }
        self.world.borrow_mut().exchange.clear();
        let result = self.run_threads();
        // Threads that have not ended are dropped in the middle of their work.
        self.coroutines.iter_mut().for_each(|c| *c = None);
        result
    }
}
