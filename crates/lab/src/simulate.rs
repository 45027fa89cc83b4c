//! A workload in virtual time.

use crate::audit;
use crate::limits::outstanding;
use crate::plan::Watch;
use crate::programs::{Due, OfKind, ProgramError, Tally, ThreadResult, Worker};
use crate::results::{Shown, ShownOfClass};
use crate::steady::{Course, Ending, Stop, Wanted};
use doorbell_nic::Profile;
use doorbell_schema::Duration;
use doorbell_sim::{Machine, Metrics, SimCluster, SimConfig, Slot, devices};
use doorbell_systems::site::SiteError;
use doorbell_systems::{Measurement, SystemError};
use doorbell_verbs::{Cluster, QpType, RunError, SocketError, Span, Task, Time, VerbsError};
use doorbell_workload::topology;
use doorbell_workload::{Class, Profiles, Resolved};
use std::sync::Arc;
use std::time::Instant;
use thiserror::Error;

/// Why a simulation has no result.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SimulateError {
    /// This machine has not the memory for the run.
    #[error(
        "the run may take {} of memory, but this machine has {}: take fewer machines, threads, QPs or clients, or less of what each has",
        gib(*needed),
        gib(*memory)
    )]
    TooLarge {
        /// Bytes that it may take.
        needed: u64,
        /// Bytes that there are.
        memory: u64,
    },
    /// The run did not reach its end.
    #[error("{0}")]
    Run(#[from] RunError),
    /// Memory for the counters could not be had.
    #[error("counters: {0}")]
    Counters(#[from] VerbsError),
    /// A thread gave up.
    #[error("thread {thread} of machine {machine}: {cause}")]
    Thread {
        /// Its machine.
        machine: u32,
        /// Its number there.
        thread: u32,
        /// Why.
        cause: ProgramError,
    },
    /// A system did not come to its end.
    #[error("{0}")]
    System(SiteError),
    /// What the run counted contradicts itself.
    #[error("the run contradicts itself, which is a fault of Doorbell and no answer: {0}")]
    Fault(String),
    /// A thread did not come to its end.
    #[error("thread {thread} of machine {machine} did not end in time")]
    Unfinished {
        /// Its machine.
        machine: u32,
        /// Its number there.
        thread: u32,
    },
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

impl From<SiteError> for SimulateError {
    fn from(error: SiteError) -> SimulateError {
        match error {
            SiteError::Run(error) => SimulateError::Run(error),
            error => SimulateError::System(error),
        }
    }
}

impl SimulateError {
    /// Whether what was asked for is to blame.
    pub fn is_bad_input(&self) -> bool {
        let refused = |cause: &SystemError| match cause {
            SystemError::Config(_) | SystemError::Verbs(_) => true,
            SystemError::Post(post) => matches!(post.cause, VerbsError::Unsupported(_)),
            SystemError::Socket(error) => matches!(error, SocketError::Unsupported(_)),
            _ => false,
        };
        match self {
            SimulateError::TooLarge { .. } | SimulateError::System(SiteError::Memory(_)) => true,
            SimulateError::System(SiteError::Thread { cause, .. }) => refused(cause),
            _ => false,
        }
    }

    /// Whether somebody stopped the run.
    pub fn is_interrupt(&self) -> bool {
        matches!(self, SimulateError::Run(RunError::Interrupted))
    }
}

/// What one run gave.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Results of the threads, by machine and thread.
    pub(crate) threads: Vec<(u32, ThreadResult)>,
    /// What all of them saw together.
    pub(crate) shown: Shown,
    /// The same of each class of threads.
    pub(crate) classes: Vec<ClassRun>,
    /// What the simulator metered.
    pub(crate) metrics: Metrics,
    /// Wall-clock seconds it took.
    pub(crate) wall_seconds: f64,
}

/// What the threads of a class gave.
#[derive(Clone, Debug)]
pub(crate) struct ClassRun {
    /// Operations that completed; of SENDs those that were received.
    pub(crate) completed: u64,
    /// Each kind of operations, where there are several.
    pub(crate) kinds: Vec<OfKind>,
    /// What its threads saw, where they are not all there are.
    pub(crate) shown: Option<ShownOfClass>,
}

impl Run {
    /// What the threads of each class gave, in the order of the threads.
    fn by_class(
        w: &Resolved,
        threads: &[(u32, ThreadResult)],
        tallies: &[Tally],
        shown: impl Fn(usize) -> Option<ShownOfClass>,
    ) -> Vec<ClassRun> {
        let of = |(number, class): (usize, Class)| {
            let own = |at: usize| class.threads.contains(&(at as u32 % w.threads));
            let counted = threads.iter().enumerate().filter(|(at, _)| own(*at));
            ClassRun {
                completed: counted.map(|(_, (_, thread))| thread.completed + thread.received).sum(),
                kinds: tallies[number].all(),
                shown: shown(number),
            }
        };
        w.classes().into_iter().enumerate().map(of).collect()
    }
}

type WorkerTask = Task<Result<ThreadResult, ProgramError>>;

/// Starts the threads of the workload.
fn spawn<C: Cluster>(
    cluster: &mut C,
    profiles: &Profiles,
    w: &Arc<Resolved>,
    measurement: &Measurement,
    tallies: &[Tally],
) -> Result<Vec<(u32, u32, WorkerTask)>, VerbsError> {
    let ports = w.ports.unwrap_or(profiles.least(|profile| profile.device.link.ports));
    let classes: Vec<(Class, Arc<Resolved>)> =
        w.classes().into_iter().map(|class| (class.clone(), Arc::new(class.workload))).collect();
    let mut tasks = Vec::new();
    for machine in 0..w.machines {
        let profile = profiles.of(w, machine);
        let memory_near = w.memory_near(profile, machine);
        let counts = |own: &Resolved| own.counters.is_some() && topology::responds(own, machine);
        let counters = match w.counter_bytes() {
            Some(bytes) if classes.iter().any(|(_, own)| counts(own)) => {
                let near = memory_near.unwrap_or_else(|| w.core(profile, machine, 0));
                Some(cluster.alloc_near(machine, near, bytes, w.page_size())?)
            }
            _ => None,
        };
        for (class, (Class { threads, .. }, workload)) in classes.iter().enumerate() {
            for thread in threads.clone() {
                let measurement =
                    if w.has_classes() { measurement.of_part(class) } else { measurement.clone() };
                let worker = Worker {
                    workload: workload.clone(),
                    measurement,
                    machine,
                    thread,
                    number: thread - threads.start,
                    threads: w.threads,
                    device: device_of(profile, w.core(profile, machine, thread)),
                    memory_near,
                    own_work: profile.host.program,
                    ports,
                    counters: counters.filter(|_| counts(workload)),
                    tally: tallies[class].clone(),
                };
                let core = w.core(profile, machine, thread);
                tasks.push((machine, thread, cluster.spawn(machine, core, worker)));
            }
        }
    }
    Ok(tasks)
}

/// The NIC that a thread on a core uses: that of its socket, where each has one.
fn device_of(profile: &Profile, core: u32) -> u32 {
    (core / profile.host.cores).min(profile.adapters() - 1)
}

/// What the threads measured; else what kept one from its end. That one gave up says more than that others,
/// which may wait for it, did not end.
fn collect(tasks: Vec<(u32, u32, WorkerTask)>) -> Result<Vec<(u32, ThreadResult)>, SimulateError> {
    let mut unfinished = None;
    let mut results = Vec::with_capacity(tasks.len());
    for (machine, thread, task) in tasks {
        match task.take() {
            Some(Ok(result)) => results.push((machine, result)),
            Some(Err(cause)) => return Err(SimulateError::Thread { machine, thread, cause }),
            None => unfinished = unfinished.or(Some(SimulateError::Unfinished { machine, thread })),
        }
    }
    unfinished.map_or(Ok(results), Err)
}

/// The devices of the machines of each group.
fn slots(profiles: &Profiles) -> Vec<Vec<Slot<'_>>> {
    profiles.all().map(devices).collect()
}

/// The machines that the groups consist of.
fn machines<'a>(slots: &'a [Vec<Slot<'a>>], w: &Resolved) -> Vec<Machine<'a>> {
    let like = |devices: &'a Vec<Slot<'a>>| Machine { host: devices[0].profile, devices };
    let groups = slots.iter().zip(w.groups());
    groups.flat_map(|(devices, group)| group.map(move |_| like(devices))).collect()
}

/// Runs what was made ready in a cluster until it is to end, traced where that is asked for; also says how it went.
pub(crate) fn steered<R, E>(
    cluster: &mut SimCluster,
    wanted: Wanted,
    measurement: &Measurement,
    stop: &Stop,
    watch: &dyn Watch,
    run: impl FnOnce(&mut SimCluster) -> Result<R, E>,
) -> (Result<R, E>, Course) {
    if let Some(tracing) = watch.trace() {
        cluster.trace(tracing);
    }
    let (first, ending, course) = Ending::new(wanted, stop.clone(), measurement.clone());
    cluster.steer(first, ending);
    let ended = run(cluster);
    if let Some(traced) = cluster.end_trace() {
        watch.traced(traced);
    }
    let course = course.lock().unwrap_or_else(|e| e.into_inner()).clone();
    (ended, course)
}

/// From when to when a workload is measured, as far as that is said.
fn wanted(w: &Resolved) -> Wanted {
    Wanted {
        begin: Time::START,
        warmup: w.warmup.map(Duration::span),
        duration: w.duration.map(Duration::span),
        precision: w.precision,
        max_time: w.max_time.span(),
        due: w
            .classes()
            .into_iter()
            .enumerate()
            .filter_map(|(number, class)| due(w, number, class))
            .collect(),
        think: w
            .classes()
            .iter()
            .map(|class| class.workload.think.map_or(Span::ZERO, Duration::span))
            .min()
            .unwrap_or(Span::ZERO),
        round: None,
        held: None,
        unacknowledged: w.classes().iter().any(|class| class.workload.transport != QpType::Rc),
    }
}

/// What the threads of a class are to post whatever becomes of it, if anything.
fn due(w: &Resolved, number: usize, class: Class) -> Option<Due> {
    let rate = class.workload.arrivals.and(class.workload.rate)?;
    let name = w.has_classes().then_some((number, class.name));
    Some(Due { class: name, rate, under_way: outstanding(&class.workload) })
}

/// Runs `w` once on machines of these profiles.
pub(crate) fn run_once(
    profiles: &Profiles,
    w: &Arc<Resolved>,
    stop: &Stop,
    watch: &dyn Watch,
) -> Result<Run, SimulateError> {
    let begun = Instant::now();
    let wanted = wanted(w);
    let classes = if w.has_classes() { w.classes().len() } else { 0 };
    let measurement = wanted.measurement().by_parts(classes);
    let config = SimConfig { seed: w.seed, window: wanted.window(), ..SimConfig::new(w.machines) };
    let slots = slots(profiles);
    let mut cluster = SimCluster::of(&machines(&slots, w), config);
    let tallies: Vec<Tally> = w.classes().iter().map(|class| Tally::of(&class.workload)).collect();
    let tasks = spawn(&mut cluster, profiles, w, &measurement, &tallies)?;
    let (ended, course) = steered(&mut cluster, wanted.clone(), &measurement, stop, watch, SimCluster::run);
    if let Err(RunError::Deadlock(who)) = ended {
        // Who waits for a thread that gave up is not what is wrong.
        return Err(match collect(tasks) {
            Err(gave_up @ SimulateError::Thread { .. }) => gave_up,
            _ => RunError::Deadlock(who).into(),
        });
    }
    ended?;
    if course.stopped {
        return Err(RunError::Interrupted.into());
    }
    let threads = collect(tasks)?;
    let shown = Shown::of(&measurement, &wanted, &course);
    let of_class = |number| ShownOfClass::of(&measurement, &wanted, number);
    let (classes, wall_seconds) =
        (Run::by_class(w, &threads, &tallies, of_class), begun.elapsed().as_secs_f64());
    let mut run = Run { threads, shown, classes, metrics: cluster.metrics(), wall_seconds };
    if let Some(what) = audit::fault(profiles, w, &run) {
        return Err(SimulateError::Fault(what));
    }
    if run.shown.certainty.unsettled.is_none() {
        run.shown.certainty.unsettled = audit::doubt(w, profiles, &run, &measurement.series());
    }
    Ok(run)
}
