//! What a run gave, be it of verbs or of a system.

use super::bottleneck::Bottleneck;
use super::busiest::busiest;
use super::kinds::{OfClass, OfKind};
use super::lift::{Advice, GroupLift, Lift, OperationTime, TogetherLift};
use super::raw::RawRun;
use super::shown::{Certainty, MeasuredTime};
use super::uses::{Cache, Latency, Pcie, PhaseTime, SentAgain, UncoreUse, Utilization, hash_text};
use crate::asked::SystemWorkload;
use crate::run_error::SimulateError;
use doorbell_nic::Resource;
use doorbell_programs::steady::Ended;
use doorbell_programs::worker::ThreadResult;
use doorbell_sim::Meter;
use doorbell_systems::config::Clients;
use doorbell_verbs::RunError;
use doorbell_workload::Resolved;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a run gave, be it of verbs or of a system. Its JSON is a [`VerbsJson`](super::VerbsJson) or a
/// [`SystemJson`](super::SystemJson).
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Operations per second of all machines after the warm-up, in millions: of verbs those that completed (SEND:
    /// messages received), of a system those that clients saw done. 0 where none was.
    pub mops: f64,
    /// How sure the rate and the latencies are.
    pub interval: Certainty,
    /// From when to when was measured.
    pub measured: MeasuredTime,
    /// Where no operation completed: what threads waited for.
    pub waits: Option<String>,
    /// From the start of an operation to its end; of verbs from post to completion seen, of signalled operations.
    pub latency_ns: Latency,
    /// Messages dropped for want of a RECV, whole run.
    pub dropped: u64,
    /// What reliable connections had to send again.
    pub sent_again: SentAgain,
    /// What limits the rate.
    pub bottleneck: Bottleneck,
    /// What more of each resource brings; empty unless asked for.
    pub lift: Vec<Lift>,
    /// Resources that limit the rate together; `None` where one alone does, or it was not asked for.
    pub together: Option<TogetherLift>,
    /// Other options or parameters with which the rate is higher, best first; `None` unless asked for.
    pub advice: Option<Vec<Advice>>,
    /// Use of each resource.
    pub resources: Vec<Utilization>,
    /// Hits and misses of each cache of the NICs.
    pub caches: Vec<Cache>,
    /// PCIe traffic of each machine.
    pub pcie: Vec<Pcie>,
    /// Events of the simulator, whole run.
    pub events: u64,
    /// Hash over all of them in order, 16 hexadecimal digits: as a number it would be more than the
    /// numbers of many JSON readers hold.
    pub event_hash: String,
    /// Wall-clock seconds, whole run.
    pub wall_seconds: f64,
    /// Resources of which more would have changed nothing at all; not part of the JSON.
    pub without_effect: Vec<Resource>,
    /// What only runs of verbs have, or only systems.
    pub of: OutcomeOf,
}

/// What a run was of, and what only such runs have.
#[derive(Clone, Debug, PartialEq)]
pub enum OutcomeOf {
    /// A workload of verbs.
    Verbs(Box<OfVerbs>),
    /// A system.
    System(Box<OfSystem>),
}

/// What only a run of verbs has.
#[derive(Clone, Debug, PartialEq)]
pub struct OfVerbs {
    /// The workload as resolved.
    pub workload: Resolved,
    /// Operations that completed in the measured time, as they were counted. Where completions come in lumps the
    /// rate is not this over the time: what the last lumps are of was not over.
    pub completed: u64,
    /// The rate by the machine that saw the completion (SEND: that received).
    pub mops_per_machine: Vec<f64>,
    /// The operations of each class of threads, in their order; empty where there are no classes.
    pub classes: Vec<OfClass>,
    /// The operations of each item of a mix, in its order; empty where all are alike, or in classes, which say it then.
    pub kinds: Vec<OfKind>,
    /// What more of the resource that limits the rate brings on the machines of one group alone, for each group;
    /// empty where machines are alike.
    pub group_lift: Vec<GroupLift>,
    /// Where too little is outstanding, and it was asked for: what the time of an operation consists of.
    pub operation_time: Option<OperationTime>,
    /// Send work requests, whole run.
    pub work_requests: u64,
}

/// What only a run of a system has.
#[derive(Clone, Debug, PartialEq)]
pub struct OfSystem {
    /// What was run.
    pub workload: SystemWorkload,
    /// Bytes that operations moved, in GB per second; absent where the system moves none that are asked for, or nothing was done.
    pub gb_per_s: Option<f64>,
    /// Mean number of replies that the server posted at a time; `None` where it posts none.
    pub replies_per_post: Option<f64>,
    /// Share of GETs, among all operations, whose key had been evicted.
    pub missed: f64,
    /// Share of operations answered without payload.
    pub header_only: f64,
    /// Torn and stale reads, and locks that others held or took over, per operation.
    pub again: f64,
    /// How evenly clients were served that compete; absent where they do not, or nothing was done.
    pub served: Option<Served>,
    /// What the uncore of each machine counted; none where caches have no size.
    pub uncore: Vec<UncoreUse>,
    /// What threads spent their time on, where the system tells it apart.
    pub phases: Vec<PhaseTime>,
}

/// How evenly clients that compete were served.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Served {
    /// Operations of the client that saw fewest done, by those of a client on average.
    pub least: f64,
    /// Operations of the client that saw most done, by those of a client on average.
    pub most: f64,
}

impl Served {
    /// Of operations that each client saw done; `None` where none did.
    pub(crate) fn of(done: impl Iterator<Item = u64> + Clone) -> Option<Served> {
        let (all, clients) = (done.clone().sum::<u64>(), done.clone().count());
        let part = |done: Option<u64>| done.unwrap_or(0) as f64 * clients as f64 / all as f64;
        (all > 0).then(|| Served { least: part(done.clone().min()), most: part(done.max()) })
    }
}

/// Latencies from this on, in nanoseconds, tell more than rates: of shorter operations enough complete to be counted as finely.
const FINE: f64 = 200.0;

/// What a thread counted: of SENDs those that it received.
fn of_thread(thread: &ThreadResult) -> u64 {
    thread.completed + thread.received
}

/// Operations that completed.
fn completed(run: &RawRun) -> u64 {
    run.threads.iter().map(|(_, thread)| of_thread(thread)).sum()
}

/// Operations per second in millions, by machine.
pub(crate) fn rates(w: &Resolved, run: &RawRun) -> Vec<f64> {
    let mut operations = vec![0u64; w.machines as usize];
    for (machine, thread) in &run.threads {
        operations[*machine as usize] += of_thread(thread);
    }
    let seconds = run.shown.span().as_secs_f64();
    let all = operations.iter().sum::<u64>() as f64 / seconds / 1e6;
    // Each machine's share is that of the completions that came.
    let evened = run.shown.evened.filter(|_| all > 0.0).map_or(1.0, |mops| mops / all);
    operations.into_iter().map(|n| n as f64 / seconds / 1e6 * evened).collect()
}

impl Outcome {
    /// Of a run of verbs. Its bottleneck is the resource that was busiest, not confirmed.
    pub(crate) fn of_verbs(w: &Resolved, run: &RawRun) -> Outcome {
        let mops_per_machine = rates(w, run);
        let (m, mops) = (&run.metrics, mops_per_machine.iter().sum());
        let resources: Vec<Utilization> = m.resources.iter().map(Utilization::from).collect();
        let bottleneck = busiest(&resources, run.shown.waits.is_none(), &|machine| w.machine_name(machine));
        let of = OfVerbs {
            workload: w.clone(),
            completed: completed(run),
            mops_per_machine,
            classes: OfClass::all(w, run, mops),
            kinds: match &run.classes[..] {
                [all] if !w.has_classes() => OfKind::all(w, all, mops, run.shown.certainty.overload),
                _ => Vec::new(),
            },
            group_lift: Vec::new(),
            operation_time: None,
            work_requests: m.accounts.ended,
        };
        Outcome {
            mops,
            interval: run.shown.certainty.clone(),
            measured: run.shown.measured.clone(),
            waits: run.shown.waits.clone(),
            latency_ns: run.shown.latency,
            dropped: m.dropped,
            sent_again: SentAgain::from(&m.sent_again),
            bottleneck,
            lift: Vec::new(),
            together: None,
            advice: None,
            resources,
            caches: m.caches.iter().map(Cache::from).collect(),
            pcie: m.pcie.iter().map(Pcie::from).collect(),
            events: m.events,
            event_hash: hash_text(m.event_hash),
            wall_seconds: run.wall_seconds,
            without_effect: m.without_effect.clone(),
            of: OutcomeOf::Verbs(Box::new(of)),
        }
    }

    /// What only a run of verbs has.
    ///
    /// # Panics
    /// If it was a system's.
    pub fn verbs(&self) -> &OfVerbs {
        let OutcomeOf::Verbs(of) = &self.of else { panic!("verbs were asked for") };
        of
    }

    /// What only a run of a system has.
    ///
    /// # Panics
    /// If it was of verbs.
    pub fn system(&self) -> &OfSystem {
        let OutcomeOf::System(of) = &self.of else { panic!("a system was asked for") };
        of
    }

    /// Its rate in millions per second with half of its interval, as reruns are compared by. One client with one
    /// operation at a time does few in the time that is measured; its latency tells the same, and finer than their
    /// number.
    pub(crate) fn rate(&self) -> (f64, Option<f64>) {
        match self.mean_alone() {
            Some(ns) => (1e3 / ns, self.interval.latency_ns.map(|half| 1e3 / ns * half / ns)),
            None => self.told_rate(),
        }
    }

    /// The mean latency of a system's one client with one operation at a time.
    fn mean_alone(&self) -> Option<f64> {
        let OutcomeOf::System(of) = &self.of else { return None };
        let Clients { clients, outstanding, .. } = of.workload.clients();
        let alone = (*clients, *outstanding) == (1, 1);
        self.latency_ns.mean.filter(|mean| alone && *mean >= FINE)
    }

    /// Its rate as it is told, in millions per second, with half of its interval.
    pub(crate) fn told_rate(&self) -> (f64, Option<f64>) {
        (self.mops, self.interval.mops)
    }

    /// Why it ended.
    pub(crate) fn ended(&self) -> Ended {
        self.measured.ended
    }

    /// It, unless somebody stopped it: what was measured by then is not comparable.
    pub(crate) fn unless_interrupted(self) -> Result<Outcome, SimulateError> {
        match self.ended() {
            Ended::Interrupted => Err(SimulateError::Run(RunError::Interrupted)),
            _ => Ok(self),
        }
    }

    /// A machine in words.
    pub(crate) fn machine_name(&self, machine: u32) -> String {
        match &self.of {
            OutcomeOf::Verbs(of) => of.workload.machine_name(machine),
            OutcomeOf::System(_) => format!("machine {machine}"),
        }
    }

    /// Whether anything completed.
    pub(crate) fn completed(&self) -> bool {
        self.waits.is_none()
    }

    /// The use of resources that operations depend on.
    pub(crate) fn used(&self) -> Vec<Utilization> {
        match &self.of {
            OutcomeOf::Verbs(_) => self.resources.clone(),
            OutcomeOf::System(of) => used_by_operations(&of.workload, &self.resources),
        }
    }
}

/// Of the use of a system's resources that which operations depend on.
pub(crate) fn used_by_operations(w: &SystemWorkload, all: &[Utilization]) -> Vec<Utilization> {
    let beside = w.beside().map(Meter::core);
    let is_beside = |r: &Utilization| r.machine == 0 && Some(r.meter) == beside;
    all.iter().filter(|r| !is_beside(r)).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_by_what_is_even() {
        let of = |done: &[u64]| Served::of(done.iter().copied());
        assert_eq!(of(&[3, 3, 3]), Some(Served { least: 1.0, most: 1.0 }));
        assert_eq!(of(&[0, 2, 4, 2]), Some(Served { least: 0.0, most: 2.0 }));
        assert_eq!((of(&[0, 0]), of(&[])), (None, None));
    }
}
