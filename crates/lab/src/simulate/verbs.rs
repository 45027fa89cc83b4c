//! Runs a verbs workload in virtual time.

use super::audit;
use super::steered::{show_latencies, steered, stopped, watched};
use crate::results::{RawClass, RawRun, Shown, ShownOfClass};
use crate::run_error::SimulateError;
use crate::watch::Watch;
use doorbell_nic::Profile;
use doorbell_programs::steady::{Stop, Wanted};
use doorbell_programs::worker::{Due, Tally, ThreadResult, Worker};
use doorbell_programs::{WorkerTask, spawn};
use doorbell_schema::Duration;
use doorbell_sim::{DeviceSlot, Machine, SimCluster, SimConfig, devices};
use doorbell_systems::Measurement;
use doorbell_verbs::{Cluster, Mem, QpType, RunError, Span, Time, VerbsError};
use doorbell_workload::limits::outstanding;
use doorbell_workload::topology;
use doorbell_workload::{AtomicCounters, Buffers, Profiles, Resolved, ResolvedClass};
use std::sync::Arc;
use std::time::Instant;

/// Raw results by thread class.
fn by_class(
    w: &Resolved,
    threads: &[(u32, ThreadResult)],
    tallies: &[Tally],
    shown: impl Fn(usize) -> Option<ShownOfClass>,
) -> Vec<RawClass> {
    let of = |(number, class): (usize, ResolvedClass<'_>)| {
        let own = |at: usize| class.threads.contains(&(at as u32 % w.threads));
        let counted = threads.iter().enumerate().filter(|(at, _)| own(*at));
        RawClass {
            completed: counted.map(|(_, (_, thread))| thread.completed + thread.received).sum(),
            kinds: tallies[number].all(),
            shown: shown(number),
        }
    };
    w.classes().into_iter().enumerate().map(of).collect()
}

/// Starts the threads of the workload.
fn spawn_all(
    cluster: &mut SimCluster,
    profiles: &Profiles,
    w: &Arc<Resolved>,
    measurement: &Measurement,
    tallies: &[Tally],
) -> Result<Vec<(u32, u32, WorkerTask)>, VerbsError> {
    let ports = w.ports.unwrap_or(profiles.least(|profile| profile.device.link.ports));
    let classes: Vec<(ResolvedClass<'_>, Arc<Resolved>)> =
        w.classes().into_iter().map(|class| (class.clone(), Arc::new(class.workload.clone()))).collect();
    let mut tasks = Vec::new();
    for machine in 0..w.machines {
        let profile = profiles.of(w, machine);
        let memory_near = w.memory_near(profile, machine);
        let near = memory_near.unwrap_or_else(|| w.core(profile, machine, 0));
        let counts = |own: &Resolved| own.counters.is_some() && topology::responds(own, machine);
        let counters = match w.counters.map(AtomicCounters::bytes) {
            Some(bytes) if classes.iter().any(|(_, own)| counts(own)) => {
                Some(shared(cluster, w, (machine, near), bytes)?)
            }
            _ => None,
        };
        for (class, (ResolvedClass { threads, .. }, workload)) in classes.iter().enumerate() {
            let is_shared = workload.at_one_address() && workload.reaches_buffers();
            let is_target = is_shared && topology::responds(workload, machine);
            let bytes = Buffers::remote(workload).bytes();
            let target = is_target.then(|| shared(cluster, w, (machine, near), bytes)).transpose()?;
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
                    shared: target,
                    tally: tallies[class].clone(),
                };
                let core = w.core(profile, machine, thread);
                tasks.push((machine, thread, spawn(cluster, core, worker)));
            }
        }
    }
    Ok(tasks)
}

/// Memory that all threads of a machine expose to their peers, at the socket of core `near` or on the NIC.
fn shared(
    cluster: &mut SimCluster,
    w: &Resolved,
    (machine, near): (u32, u32),
    bytes: u64,
) -> Result<Mem, VerbsError> {
    match w.in_device_memory() {
        true => cluster.alloc_dm(machine, 0, bytes),
        false => cluster.alloc_near(machine, near, bytes, w.page_size()),
    }
}

/// Number of the NIC for a thread on this core: the NIC of the core's socket, if each socket has one.
fn device_of(profile: &Profile, core: u32) -> u32 {
    (core / profile.host.cores).min(profile.adapters() - 1)
}

/// Collects the results of all threads, or the error of one thread. Prefers a thread that failed to threads
/// that did not end, because these may be waiting for the failed one.
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

/// Devices of the machines of each group.
fn slots(profiles: &Profiles) -> Vec<Vec<DeviceSlot<'_>>> {
    profiles.all().map(devices).collect()
}

/// The machines of all groups.
fn machines<'a>(slots: &'a [Vec<DeviceSlot<'a>>], w: &Resolved) -> Vec<Machine<'a>> {
    let like = |devices: &'a Vec<DeviceSlot<'a>>| Machine { host: devices[0].profile, devices };
    let groups = slots.iter().zip(w.groups());
    groups.flat_map(|(devices, group)| group.map(move |_| like(devices))).collect()
}

/// The request for the measurement: its times, as far as the workload gives them, and its precision.
fn wanted(w: &Resolved) -> Wanted {
    Wanted {
        begin: Time::START,
        warmup: w.warmup.map(Duration::span),
        duration: w.duration.map(Duration::span),
        precision: w.precision,
        until: w.until,
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
            .map(|class| class.workload.think().map_or(Span::ZERO, Duration::span))
            .min()
            .unwrap_or(Span::ZERO),
        round: None,
        held: None,
        unacknowledged: w.classes().iter().any(|class| class.workload.transport != QpType::Rc),
    }
}

/// The due operations of a class with an open loop; `None` for a closed loop.
fn due(w: &Resolved, number: usize, class: ResolvedClass<'_>) -> Option<Due> {
    let (_, rate) = class.workload.open_loop()?;
    let name = w.has_classes().then_some((number, class.name));
    Some(Due { class: name, rate, under_way: outstanding(class.workload) })
}

/// Runs `w` once on machines with these profiles.
pub(crate) fn run_once(
    profiles: &Profiles,
    w: &Arc<Resolved>,
    stop: &Stop,
    watch: &dyn Watch,
) -> Result<RawRun, SimulateError> {
    let begun = Instant::now();
    let wanted = wanted(w);
    let classes = if w.has_classes() { w.classes().len() } else { 0 };
    let measurement = wanted.measurement().by_parts(classes);
    let config = SimConfig { seed: w.seed, window: wanted.window(), ..SimConfig::new(w.machines) };
    let config = watched(config, stop);
    let slots = slots(profiles);
    let mut cluster = SimCluster::of(&machines(&slots, w), config);
    let tallies: Vec<Tally> = w.classes().iter().map(|class| Tally::of(class.workload)).collect();
    let tasks = spawn_all(&mut cluster, profiles, w, &measurement, &tallies)?;
    let (ended, course) = steered(&mut cluster, wanted.clone(), &measurement, stop, watch, SimCluster::run);
    if let Err(RunError::Deadlock(who)) = ended {
        // The error of a failed thread explains more than the threads that wait for it.
        return Err(match collect(tasks) {
            Err(gave_up @ SimulateError::Thread { .. }) => gave_up,
            _ => RunError::Deadlock(who).into(),
        });
    }
    if course.stopped || ended == Err(RunError::Interrupted) {
        return Err(stopped(stop));
    }
    ended?;
    let threads = collect(tasks)?;
    let shown = Shown::of(&measurement, &wanted, &course);
    show_latencies(watch, &measurement, &shown);
    let of_class = |number| ShownOfClass::of(&measurement, &wanted, number);
    let (classes, wall_seconds) = (by_class(w, &threads, &tallies, of_class), begun.elapsed().as_secs_f64());
    let mut run = RawRun { threads, shown, classes, metrics: cluster.metrics(), wall_seconds };
    if let Some(what) = audit::fault(profiles, w, &run) {
        return Err(SimulateError::Fault(what));
    }
    if run.shown.certainty.unsettled.is_none() {
        run.shown.certainty.unsettled = audit::doubt(w, profiles, &run, &measurement.series());
    }
    Ok(run)
}
