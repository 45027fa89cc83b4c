//! A run as data: machines, and what they do.

use super::memory;
use crate::asked::SystemWorkload;
use crate::limits::limits;
use crate::results::{MeasuredTime, Of, Outcome, Ran};
use crate::run_error::SimulateError;
use crate::simulate::{system, verbs};
use crate::watch::Watch;
use doorbell_nic::{More, Profile, Resource};
use doorbell_programs::steady::Stop;
use doorbell_programs::worker;
use doorbell_schema::Duration;
use doorbell_sim::memory_bytes;
use doorbell_systems::config::Timing;
use doorbell_verbs::{QpType, UdDest};
use doorbell_workload::{AtomicCounters, Profiles, QueueLimits, Queues, Resolved, ResolvedClass, topology};
use std::sync::Arc;

/// What machines do.
#[derive(Clone, Debug)]
pub enum Work {
    /// A workload of verbs.
    Verbs(Arc<Resolved>),
    /// A system.
    System(SystemWorkload),
}

impl Work {
    /// The same where a workload asks for as much of what there is more of.
    fn with(&self, more: More) -> Work {
        match (self, more) {
            (Work::Verbs(w), More::Times(Resource::OutstandingReads, times)) => {
                let most = |asked: u32| asked.saturating_mul(times).min(u8::MAX.into());
                Work::Verbs(Arc::new(w.with_reads_under_way(most)))
            }
            _ => self.clone(),
        }
    }
}

/// Machines, and what they do: all that a result depends on.
#[derive(Clone, Debug)]
pub struct Run {
    /// The profiles of the groups of machines.
    pub profiles: Arc<Profiles>,
    /// What they do.
    pub work: Work,
}

/// What tells one run from another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key(String);

impl Key {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

/// Bytes that a thread takes, a QP, a work request of its queues, and a client of a system with its part of
/// the server: more rather than less.
const THREAD: u64 = 60_000;
const QP: u64 = 1_500;
const WORK_REQUEST: u64 = 32;
/// Of a CQ that a QP has for itself, and of an entry of it.
const CQ: u64 = 300;
const CQE: u64 = 64;
const CLIENT: u64 = 400_000;
/// Threads of a system's server at most.
const SERVER_THREADS: u64 = 256;

/// Operations that a QP's set-up takes as long as.
const SET_UP: f64 = 20.0;
/// Virtual microseconds that warm-up and measured time take, about, where they are not said.
const USUAL_US: f64 = 200.0;
/// Messages that a system exchanges in a microsecond at most, about.
const SYSTEM_RATE: f64 = 200.0;

impl Run {
    /// A workload on machines of these profiles.
    pub fn verbs(profiles: Profiles, workload: Resolved) -> Run {
        Run { profiles: Arc::new(profiles), work: Work::Verbs(Arc::new(workload)) }
    }

    /// A system on machines of this profile, which decides what it is to decide.
    pub fn system(profile: &Profile, workload: SystemWorkload) -> Run {
        let work = Work::System(workload.decided(profile));
        Run { profiles: Arc::new(Profiles::from(profile)), work }
    }

    /// The same with more of some resources on all machines.
    pub(crate) fn with(&self, all: &[More]) -> Run {
        let profiles = all.iter().fold((*self.profiles).clone(), |profiles, more| profiles.with(*more));
        let work = all.iter().fold(self.work.clone(), |work, more| work.with(*more));
        Run { profiles: Arc::new(profiles), work }
    }

    /// The same with more of a resource on the machines of a group.
    pub(crate) fn with_of_group(&self, group: usize, more: More) -> Run {
        let profiles = Arc::new(self.profiles.with_of_group(group, more));
        Run { profiles, work: self.work.clone() }
    }

    /// The same, warmed up and measured for as long as another run was.
    pub(crate) fn timed_as(&self, measured: &MeasuredTime) -> Run {
        let (warmup, duration) = (Some(measured.warmup), Some(measured.duration));
        let work = match &self.work {
            Work::Verbs(w) => {
                let mut timed = (**w).clone();
                (timed.warmup, timed.duration) = (warmup, duration);
                Work::Verbs(Arc::new(timed))
            }
            Work::System(system) => {
                let timing = system.timing().clone();
                Work::System(system.timed(Timing { warmup, duration, ..timing }))
            }
        };
        Run { profiles: self.profiles.clone(), work }
    }

    pub(crate) fn key(&self) -> Key {
        let work = match &self.work {
            Work::Verbs(workload) => format!("{workload:?}"),
            Work::System(system) => format!("{system:?}"),
        };
        Key(format!("{:?} {work}", self.profiles))
    }

    /// What an option that is a number has become; `None` where there is no such option, or it is none.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        match &self.work {
            Work::Verbs(w) => serde_json::to_value(&**w).ok()?.get(key)?.as_u64(),
            Work::System(system) => system.get(key),
        }
    }

    /// What it is called in messages.
    pub(crate) fn name(&self) -> &'static str {
        match self.work {
            Work::Verbs(_) => "workload",
            Work::System(_) => "system",
        }
    }

    /// How long it takes beside others: roughly the operations that it simulates.
    pub(crate) fn cost(&self) -> f64 {
        match &self.work {
            Work::Verbs(w) => {
                let qps: f64 = w
                    .classes()
                    .iter()
                    .map(|c| f64::from(c.workload.threads) * f64::from(c.workload.qps))
                    .sum();
                self.operations(w) + SET_UP * f64::from(w.machines) * qps
            }
            Work::System(system) => {
                let Timing { warmup, duration, .. } = system.timing();
                SYSTEM_RATE * (system.set_up().as_secs_f64() * 1e6 + microseconds(*warmup, *duration))
            }
        }
    }

    /// Bytes of memory that it takes at most, roughly.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.work {
            Work::Verbs(w) => {
                let operations = self.operations(w) as u64;
                let groups = self.profiles.all().zip(w.groups());
                let of_group = |(profile, machines): (_, std::ops::Range<u32>)| {
                    machines.map(|m| bytes_of(w, profile, m, operations)).sum::<u64>()
                };
                groups.map(of_group).sum()
            }
            Work::System(system) => {
                // With what is known of each of their lines.
                let buffers = system.client_bytes() / 4 * 5;
                system.server_bytes() + CLIENT * u64::from(system.clients().clients) + buffers
            }
        }
    }

    /// How many operations are done in it at most, about.
    fn operations(&self, w: &Resolved) -> f64 {
        let rate = limits(&self.profiles, w).first().map_or(0.0, |least| least.mops);
        rate * microseconds(w.warmup, w.duration)
    }

    /// Whether this machine has the memory for it.
    pub(crate) fn fits(&self) -> bool {
        self.bytes() <= memory::of_machine()
    }

    /// Threads that it starts.
    pub(crate) fn threads(&self) -> u64 {
        match &self.work {
            Work::Verbs(w) => u64::from(w.machines) * u64::from(w.threads),
            Work::System(system) => u64::from(system.clients().clients) + SERVER_THREADS,
        }
    }

    /// Runs it; `watch` may have it traced.
    ///
    /// # Errors
    /// If this machine has not the memory for it, and as the simulation.
    pub(crate) fn run(&self, stop: &Stop, watch: &dyn Watch) -> Result<Ran, SimulateError> {
        let (needed, memory) = (self.bytes(), memory::of_machine());
        if needed > memory {
            return Err(SimulateError::TooLarge { needed, memory });
        }
        match &self.work {
            Work::Verbs(w) => {
                let run = verbs::run_once(&self.profiles, w, stop, watch)?;
                Ok(Ran {
                    without_effect: run.metrics.without_effect.clone(),
                    of: Of::Verbs(Box::new(Outcome::new(w, &run))),
                })
            }
            Work::System(system) => {
                let (outcome, without_effect) = system::run_once(self.profiles.first(), system, stop, watch)?;
                Ok(Ran { of: Of::System(Box::new(outcome)), without_effect })
            }
        }
    }
}

/// About how long a run with these times is, in microseconds.
fn microseconds(warmup: Option<Duration>, duration: Option<Duration>) -> f64 {
    let us = |time: Option<Duration>| time.map_or(USUAL_US, |time| time.span().as_secs_f64() * 1e6);
    us(warmup) + us(duration)
}

/// Bytes that a machine takes in a run of so many operations.
fn bytes_of(w: &Resolved, profile: &Profile, machine: u32, operations: u64) -> u64 {
    let counts = |class: &ResolvedClass<'_>| {
        class.workload.counters.is_some() && topology::responds(class.workload, machine)
    };
    let counters =
        w.counters.map(AtomicCounters::bytes).filter(|_| w.classes().iter().any(counts)).unwrap_or(0);
    let classes = w.classes();
    let of_class = |class: &ResolvedClass<'_>| bytes_of_class(class.workload, profile, machine, operations);
    counters + classes.iter().map(of_class).sum::<u64>()
}

/// Bytes that the threads of a class take there.
fn bytes_of_class(w: &Resolved, profile: &Profile, machine: u32, operations: u64) -> u64 {
    let targets = topology::targets(w, machine).len() as u64;
    let threads = (0..w.threads).map(|thread| {
        let limits =
            QueueLimits { max_qp_wr: profile.device.nic.max_qp_wr, max_cqe: profile.device.nic.max_cqe };
        let queues = Queues::of(w, machine, thread, limits);
        let work_requests = u64::from(w.window().operations()) + u64::from(queues.recv_depth);
        let dests = if w.transport == QpType::Ud { targets * u64::from(queues.qps) } else { 0 };
        let cqs = if w.cq_per_qp { queues.send_cqs } else { 0 };
        THREAD
            + u64::from(cqs) * (CQ + queues.send_cqe * CQE)
            + u64::from(queues.qps) * (QP + work_requests * WORK_REQUEST)
            + dests * size_of::<UdDest>() as u64
            + worker::buffers(w, machine, &queues)
                .map(|len| memory_bytes(len, operations, w.longest().into()))
                .sum::<u64>()
    });
    threads.sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use doorbell_workload::Workload;

    #[test]
    fn a_parameter_that_is_set_makes_another_run() {
        let key = |toml: &str| run(toml).key();
        let keys =
            ["", "[set]\ntx.send_ns = 20", "[set]\ntx.send_ns = 21", "[set]\ntx.send_ns = 60"].map(key);
        for (i, one) in keys.iter().enumerate() {
            assert!(keys.iter().skip(i + 1).all(|other| other != one), "{one:?}");
        }
    }

    #[test]
    fn a_parameter_that_is_set_counts_for_systems_too() {
        let key = |toml: &str| {
            let given = doorbell_schema::Given::from_toml("w.toml", toml, &crate::fields()).unwrap();
            Run::asked(&crate::Asked::of(&given).unwrap()).unwrap().profiles.first().device.link.mtu
        };
        assert_eq!(key("system = \"rpc\"\n[set]\nlink.mtu_bytes = 2048"), 2048);
    }

    #[test]
    fn buffers_of_clients_count_as_memory() {
        let bytes = |toml: &str| {
            let given = doorbell_schema::Given::from_toml("w.toml", toml, &crate::fields()).unwrap();
            Run::asked(&crate::Asked::of(&given).unwrap()).unwrap().bytes()
        };
        // A source of 1 MB and four copies for each.
        let calls = "system = \"vector-io\"\niovcnt = 16\npiece = 65536\nclients = ";
        assert!(bytes(&format!("{calls}512")) - bytes(&format!("{calls}256")) > 256 * (9 << 20));
        let held = "system = \"consolidate\"\nblocks = ";
        assert!(bytes(&format!("{held}10000")) - bytes(&format!("{held}16")) > 2 * 9984 * 1024);
    }

    fn run(toml: &str) -> Run {
        let workload = Workload::from_toml("w.toml", toml).unwrap();
        let profiles = workload.load_profiles().unwrap();
        Run::verbs(profiles.clone(), workload.resolve(&profiles).unwrap())
    }

    #[test]
    fn a_rerun_lasts_as_long_as_the_run() {
        let time = |us| Duration::new(doorbell_verbs::Span::from_us(us));
        let (warmup, duration, ended) = (time(30), time(70), doorbell_programs::steady::Ended::Settled);
        let measured = MeasuredTime { warmup, duration, ended, warmed: None, overrun: None };
        let said = run("warmup = \"30us\"\nduration = \"70us\"");
        assert_ne!(run("").key(), said.key());
        assert_eq!(run("").timed_as(&measured).key(), said.key());
        assert_eq!(said.timed_as(&measured).key(), said.key());
    }

    #[test]
    fn more_reads_under_way_are_also_what_the_workload_asks_for() {
        let reads = |toml: &str| {
            let more = run(toml).with(&[More::Times(Resource::OutstandingReads, 2)]);
            let Work::Verbs(w) = &more.work else { unreachable!("these are verbs") };
            (more.profiles.first().device.nic.max_rd_atomic, w.max_rd_atomic)
        };
        assert_eq!(reads("verb = \"read\"\nmax_rd_atomic = 3"), (32, Some(6)));
        assert_eq!(reads("verb = \"read\""), (32, None));
    }
}
