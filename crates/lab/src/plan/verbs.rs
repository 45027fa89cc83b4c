//! A verbs workload as the work of a run: estimates of its time and memory.

use super::work::{Planned, Work, microseconds};
use crate::extrapolation;
use crate::nearest;
use crate::results::Outcome;
use crate::run_error::SimulateError;
use crate::simulate::verbs;
use crate::support::{self, Support};
use crate::watch::Watch;
use doorbell_nic::limits::Limit;
use doorbell_nic::{More, Profile, Resource};
use doorbell_programs::steady::Stop;
use doorbell_programs::worker;
use doorbell_schema::Duration;
use doorbell_sim::memory_bytes;
use doorbell_verbs::{QpType, UdDest};
use doorbell_workload::limits::limits;
use doorbell_workload::{
    AtomicCounters, Pattern, Profiles, QueueLimits, Queues, Resolved, ResolvedClass, topology,
};
use std::ops::Range;
use std::sync::Arc;

/// Bytes of this computer's memory for a thread, for a QP, and for a work request in the QP's queues, rounded
/// up.
const THREAD: u64 = 60_000;
const QP: u64 = 1_500;
const WORK_REQUEST: u64 = 32;
/// Bytes of this computer's memory for a CQ that belongs to a single QP, and for a CQ entry.
const CQ: u64 = 300;
const CQE: u64 = 64;

/// Run time of setting up a QP, in simulated operations.
const SET_UP: f64 = 20.0;

impl Planned for Arc<Resolved> {
    fn name(&self) -> &'static str {
        "workload"
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn json(&self) -> serde_json::Value {
        serde_json::to_value(&**self).expect("a run is JSON")
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.json().get(key)?.as_u64()
    }

    fn signal_every(&self) -> Option<u64> {
        Some(self.signal_every.into())
    }

    fn timed(&self, warmup: Duration, duration: Duration) -> Work {
        let mut timed = (**self).clone();
        (timed.warmup, timed.duration, timed.until) = (Some(warmup), Some(duration), None);
        Work::Verbs(Arc::new(timed))
    }

    fn with(&self, more: More) -> Option<Work> {
        let More::Times(Resource::OutstandingReads, times) = more else { return None };
        let most = |asked: u32| asked.saturating_mul(times).min(u8::MAX.into());
        Some(Work::Verbs(Arc::new(self.with_reads_under_way(most))))
    }

    fn may_read(&self) -> bool {
        self.operations().iter().any(|operation| operation.opcode.returns_data())
    }

    fn reach(&self) -> Option<u32> {
        Some(match (self.transport, self.pattern) {
            (QpType::Ud, _) | (_, Pattern::Inbound) => self.machines - 1,
            (_, Pattern::Outbound) => (self.threads - 1).saturating_add(self.qps).min(self.machines - 1),
            (_, Pattern::AllToAll) => self.qps.min(self.machines),
        })
    }

    fn limits(&self, profiles: &Profiles) -> Vec<Limit> {
        limits(profiles, self)
    }

    fn supports(&self, profiles: &Profiles) -> Vec<Support> {
        support::of_workload(profiles, self)
    }

    fn extrapolates(&self, profiles: &Profiles) -> Vec<String> {
        extrapolation::of_workload(profiles, self)
    }

    fn due(&self) -> Option<u64> {
        self.classes().iter().map(|class| class.workload.open_loop().map(|(_, rate)| rate)).sum()
    }

    fn cost(&self, profiles: &Profiles) -> f64 {
        let qps: f64 =
            self.classes().iter().map(|c| f64::from(c.workload.threads) * f64::from(c.workload.qps)).sum();
        operations(self, profiles) + SET_UP * f64::from(self.machines) * qps
    }

    fn bytes(&self, profiles: &Profiles) -> u64 {
        let operations = operations(self, profiles) as u64;
        let of_group = |(profile, machines): (_, Range<u32>)| {
            machines.map(|m| bytes_of(self, profile, m, operations)).sum::<u64>()
        };
        profiles.all().zip(self.groups()).map(of_group).sum()
    }

    fn threads(&self) -> u64 {
        u64::from(self.machines) * u64::from(self.threads)
    }

    fn run(&self, profiles: &Profiles, stop: &Stop, watch: &dyn Watch) -> Result<Outcome, SimulateError> {
        let run = verbs::run_once(profiles, self, stop, watch)?;
        Ok(Outcome::of_verbs(self, &run, nearest::of_verbs(profiles, self, &run)))
    }
}

/// Approximate upper bound of the number of operations in a run.
fn operations(w: &Resolved, profiles: &Profiles) -> f64 {
    let rate = limits(profiles, w).first().map_or(0.0, |least| least.mops);
    rate * microseconds(w.warmup, w.duration)
}

/// Bytes of this computer's memory for a machine in a run of `operations` operations.
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

/// Bytes of this computer's memory for the threads of a class on a machine.
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
