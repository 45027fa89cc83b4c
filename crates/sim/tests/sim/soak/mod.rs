//! Random programs, valid and invalid, on random small clusters. Whatever the programs do, the simulator does
//! not panic, the run ends, and posted work requests are accounted for.
//!
//! The normal test runs [`CASES`] cases, about 30 s of processor time. `cargo xtask soak sim` runs 100 000. A
//! failing case prints how to run it alone.

mod draw;
mod ledger;
mod objects;
mod plan;
mod thread;
mod work;

use crate::common::profiles::offering_all;
use crate::common::trace::{Buffer, Trace, read_pcapng};
use doorbell_nic::{Device, Part, Profile, Registers};
use doorbell_sim::{DeviceSlot, Machine, Metrics, ResourceUse, SimCluster, SimConfig, Tracing};
use doorbell_verbs::{Cluster, PageSize, Task, Time, WcStatus};
use ledger::Tally;
use plan::{Case, MachinePlan};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thread::Soaker;

/// Cases beyond the normal ones that have found a bug.
const ONCE_FAILED: [u64; 1] = [24_658];
/// Number of cases of the normal test.
const CASES: u64 = 6500;

/// Threads that run cases.
const WORKERS: usize = 2;

/// Stands for the seed when the worker has ended.
const DONE: u64 = u64::MAX - 1;

/// Time after which a case is taken to have no end. Cases take milliseconds.
const HANGS: Duration = Duration::from_secs(120);

/// The result of a thread.
type Outcome = Result<Tally, String>;

fn cluster(profiles: &[Profile], machines: &[MachinePlan], config: SimConfig) -> SimCluster {
    let slot = |(n, &device): (usize, &usize)| DeviceSlot { profile: &profiles[device], socket: n as u8 };
    let slots: Vec<Vec<DeviceSlot<'_>>> =
        machines.iter().map(|m| m.devices.iter().enumerate().map(slot).collect()).collect();
    let machines: Vec<Machine<'_>> = machines
        .iter()
        .zip(&slots)
        .map(|(m, devices)| Machine { host: &profiles[m.host], devices })
        .collect();
    SimCluster::of(&machines, config)
}

/// The profiles of cases: without and with doorbell registers.
fn kinds_of_profiles() -> [Vec<Profile>; 2] {
    let few = Registers { total: 4, low_latency: 1, blueflame: 256 };
    let with_registers = |profile: Profile| {
        let device = Device { registers: Some(few), ..profile.device };
        Profile { device, ..profile }
    };
    [offering_all(), offering_all().into_iter().map(with_registers).collect()]
}

/// Adds the threads of a case to a cluster.
fn spawn(cluster: &mut SimCluster, case: &Case) -> Vec<Task<Outcome>> {
    let mut plans = case.threads.iter().cloned();
    let mut tasks = Vec::new();
    for (number, machine) in case.machines.iter().enumerate() {
        let number = number as u32;
        let shared = machine.shared.then(|| cluster.alloc(number, 8192, PageSize::Huge).expect("memory"));
        for (core, mut plan) in (0..machine.threads).zip(&mut plans) {
            plan.shared = shared;
            tasks.push(cluster.spawn(number, core, Soaker(plan)));
        }
    }
    tasks
}

/// Runs a case. The error describes the failure.
fn run(profiles: &[Profile], case: &Case, skip_pauses: bool) -> Result<(Tally, Metrics), String> {
    run_in(cluster(profiles, &case.machines, SimConfig { skip_pauses, ..case.config.clone() }), case)
}

/// Runs a case with a trace. The output must be a valid trace and a valid capture.
fn run_traced(profiles: &[Profile], case: &Case) -> Result<(Tally, Metrics), String> {
    let mut cluster = cluster(profiles, &case.machines, case.config.clone());
    let [trace, pcap] = [Buffer::default(), Buffer::default()];
    cluster.trace(Tracing {
        trace: Some(Box::new(trace.clone())),
        pcap: Some(Box::new(pcap.clone())),
        from: Some(Time::START),
        operations: 1000,
        paths: None,
    });
    let ran = run_in(cluster, case)?;
    let read = || (Trace::read(&trace.take()), read_pcapng(&pcap.take()));
    catch_unwind(AssertUnwindSafe(read)).map_err(|_| "what is traced is no trace".to_owned())?;
    Ok(ran)
}

fn run_in(mut cluster: SimCluster, case: &Case) -> Result<(Tally, Metrics), String> {
    let tasks = spawn(&mut cluster, case);
    match catch_unwind(AssertUnwindSafe(|| cluster.run())) {
        Ok(end) => end.map_err(|error| error.to_string())?,
        Err(_) => return Err("the simulator panicked".into()),
    }
    let mut tally = Tally::default();
    for (thread, task) in tasks.iter().enumerate() {
        let outcome = task.take().ok_or_else(|| format!("thread {thread} did not come to its end"))?;
        tally.add(&outcome.map_err(|broken| format!("thread {thread}: {broken}"))?);
    }
    let metrics = cluster.metrics();
    cluster.end_trace();
    check(case, &tally, &metrics)?;
    Ok((tally, metrics))
}

/// Checks properties that hold for the metrics of any run.
fn check(case: &Case, tally: &Tally, metrics: &Metrics) -> Result<(), String> {
    let fails = |what: &str| Err(format!("{what}: {tally:?}, {metrics:?}"));
    // A flow may occupy two units: one processes its packet, and one still issues the DMAs of the last
    // packet.
    let most = |r: &ResourceUse| if r.meter.part() == Part::BusiestReceivingUnit { 2.0 } else { 1.0 };
    if let Some(resource) = metrics.resources.iter().find(|r| !(0.0..=most(r)).contains(&r.utilization)) {
        return fails(&format!("{resource:?} is used more than it can be"));
    }
    let of = &metrics.accounts;
    // Data of a repeated READ request is placed twice.
    let twice = case.config.layers.duplicate_ppm > 0 || metrics.sent_again.packets > 0;
    if of.posted != tally.sends || of.placed_bytes > of.posted_bytes && !twice {
        return fails("work requests are not accounted for");
    }
    if metrics.accounts.ended > tally.sends || tally.sends_completed.total() > metrics.accounts.ended {
        return fails("work requests come from nowhere");
    }
    if case.config.layers.loss_ppm == 0 && metrics.lost > 0 {
        return fails("packets are lost without loss");
    }
    let moves = |bytes: u64, lines: u64| bytes <= 64 * lines;
    if !metrics.pcie.iter().all(|p| moves(p.dma_read_bytes, p.rdcur) && moves(p.dma_write_bytes, p.itom)) {
        return fails("DMA moves bytes without touching their lines");
    }
    Ok(())
}

/// Runs the case of a seed. Some cases run again with a trace, and some without skipping passes. The results
/// must be equal.
fn soak(kinds: &[Vec<Profile>; 2], seed: u64) -> Result<(Tally, Metrics), String> {
    let case = Case::new(seed);
    let profiles = &kinds[usize::from(case.registers)];
    let first = run(profiles, &case, true)?;
    if seed.is_multiple_of(16) && run_traced(profiles, &case)? != first {
        return Err("a second run, with a trace, differs".into());
    }
    if case.is_orderly() && run(profiles, &case, false)?.0 != first.0 {
        return Err("without skipping passes it differs".into());
    }
    Ok(first)
}

/// Checks that the programs have reached every status with which work requests end.
fn has_seen(all: &Tally) {
    use WcStatus::*;
    let ends = [LocQpOpErr, BadRespErr, RemInvReqErr, RemAccessErr, RemOpErr, RetryExcErr, RnrRetryExcErr];
    for status in [Success, LocProtErr, WrFlushErr].into_iter().chain(ends) {
        assert!(all.sends_completed.count(status) > 0, "no send ended with {status:?}: {all:?}");
    }
    for status in [Success, LocLenErr, LocProtErr, LocAccessErr, WrFlushErr] {
        assert!(all.recvs_completed.count(status) > 0, "no RECV ended with {status:?}: {all:?}");
    }
}

fn alone(seed: u64) -> String {
    format!("run it alone: DOORBELL_SOAK_SEED={seed} cargo test -p doorbell-sim --test sim soak::")
}

/// Ends the process if a case does not end, because only then can the case be named.
fn watch(under_way: Arc<AtomicU64>) {
    std::thread::spawn(move || {
        let mut seen = u64::MAX;
        loop {
            let seed = under_way.load(Ordering::Relaxed);
            if seed == DONE {
                return;
            }
            if seed == seen {
                // Not eprintln!, whose output would be kept until the test ends.
                let _ = writeln!(std::io::stderr(), "case {seed}: it has no end\n{}", alone(seed));
                std::process::exit(1);
            }
            seen = seed;
            std::thread::sleep(HANGS);
        }
    });
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// Runs the cases of these seeds one after another. Returns their tallies and the number of events.
fn soak_each(profiles: &[Vec<Profile>; 2], seeds: impl Iterator<Item = u64>) -> (Tally, u64) {
    let (mut all, mut events) = (Tally::default(), 0);
    let under_way: Arc<AtomicU64> = Arc::default();
    watch(Arc::clone(&under_way));
    for (done, seed) in seeds.enumerate() {
        under_way.store(seed, Ordering::Relaxed);
        match soak(profiles, seed) {
            Ok((tally, metrics)) => {
                all.add(&tally);
                events += metrics.events;
            }
            Err(why) => {
                under_way.store(DONE, Ordering::Relaxed);
                panic!("case {seed}: {why}\n{}", alone(seed))
            }
        }
        if (done + 1).is_multiple_of(1000) {
            println!("{} cases, {events} events, {} sends, {} RECVs", done + 1, all.sends, all.recvs);
        }
    }
    under_way.store(DONE, Ordering::Relaxed);
    (all, events)
}

#[test]
fn random_programs_reach_no_panic() {
    let profiles = kinds_of_profiles();
    let cases = variable("DOORBELL_SOAK_CASES").unwrap_or(CASES);
    let seed = variable("DOORBELL_SOAK_SEED");
    let seeds = seed.map_or(0..cases, |seed| seed..seed + 1);
    let seeds = seeds.chain(ONCE_FAILED.into_iter().filter(|failed| seed.is_none() && *failed >= cases));
    let seeds: Vec<u64> = seeds.collect();
    let (mut all, mut events) = (Tally::default(), 0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|number| {
                scope.spawn({
                    let (profiles, seeds) = (&profiles, &seeds);
                    move || soak_each(profiles, seeds.iter().copied().skip(number).step_by(WORKERS))
                })
            })
            .collect();
        for worker in workers {
            let (tally, of_worker) = worker.join().unwrap_or_else(|_| panic!("see above"));
            all.add(&tally);
            events += of_worker;
        }
    });
    println!("{} cases, {events} events, {} sends, {} RECVs", seeds.len(), all.sends, all.recvs);
    println!("{all:?}");
    if seed.is_none() && cases >= CASES {
        has_seen(&all);
    }
}
