//! What a simulation of a workload says.

use super::busiest::busiest;
use super::kinds::{OfClass, OfKind};
use super::lift::{Advice, Bottleneck, GroupLift, Lift, OperationTime, TogetherLift};
use super::raw::RawRun;
use super::shown::{Certainty, MeasuredTime};
use super::uses::{Cache, Latency, Pcie, SentAgain, Utilization, hash_text, rate};
use doorbell_programs::worker::ThreadResult;
use doorbell_workload::Resolved;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Version of the JSON of an [`Outcome`]; fields are only ever added.
pub const SCHEMA: u32 = 2;

/// Result of a simulated workload, in the form of its JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Version of this JSON.
    pub schema: u32,
    /// The workload as resolved.
    pub workload: Resolved,
    /// Completed operations (SEND: messages received) per second over all machines, in millions,
    /// after the warm-up.
    #[serde(with = "rate")]
    #[schemars(with = "Option<f64>")]
    pub mops: f64,
    /// Operations that completed in the measured time, as they were counted. Where completions come in lumps the
    /// rate is not this over the time: what the last lumps are of was not over.
    pub completed: u64,
    /// How sure the rate and the latencies are.
    pub interval: Certainty,
    /// From when to when was measured.
    pub measured: MeasuredTime,
    /// Where no operation completed: what threads waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// The same by the machine that saw the completion (SEND: that received).
    pub mops_per_machine: Vec<f64>,
    /// Messages dropped for want of a RECV, whole run.
    pub dropped: u64,
    /// What reliable connections had to send again.
    pub sent_again: SentAgain,
    /// From post to completion seen, of signalled operations.
    pub latency_ns: Latency,
    /// The operations of each class of threads, in their order; empty where there are no classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<OfClass>,
    /// The operations of each item of a mix, in its order; empty where all are alike, or in classes, which say it then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<OfKind>,
    /// What limits the rate.
    pub bottleneck: Bottleneck,
    /// What more of each resource brings; empty unless asked for.
    pub lift: Vec<Lift>,
    /// Resources that limit the rate together; absent where one alone does, or it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<TogetherLift>,
    /// What more of the resource that limits the rate brings on the machines of one group alone, for each group;
    /// empty where machines are alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group_lift: Vec<GroupLift>,
    /// Where too little is outstanding, and it was asked for: what the time of an operation consists of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_time: Option<OperationTime>,
    /// Other options with which the rate is higher, best first; absent unless asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Vec<Advice>>,
    /// Use of each resource.
    pub resources: Vec<Utilization>,
    /// Hits and misses of each cache of the NICs.
    pub caches: Vec<Cache>,
    /// PCIe traffic of each machine.
    pub pcie: Vec<Pcie>,
    /// Send work requests, whole run.
    pub verbs: u64,
    /// Events of the simulator, whole run.
    pub events: u64,
    /// Hash over all of them in order, 16 hexadecimal digits: as a number it would be more than the
    /// numbers of many JSON readers hold.
    pub event_hash: String,
    /// Wall-clock seconds, whole run.
    pub wall_seconds: f64,
}

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
    /// Its bottleneck is the resource that was busiest, not confirmed.
    pub(crate) fn new(w: &Resolved, run: &RawRun) -> Outcome {
        let mops_per_machine = rates(w, run);
        let (m, mops) = (&run.metrics, mops_per_machine.iter().sum());
        let resources: Vec<Utilization> = m.resources.iter().map(Utilization::from).collect();
        let bottleneck = busiest(&resources, run.shown.waits.is_none(), &|machine| w.machine_name(machine));
        Outcome {
            schema: SCHEMA,
            workload: w.clone(),
            mops,
            completed: completed(run),
            interval: run.shown.certainty.clone(),
            measured: run.shown.measured.clone(),
            waits: run.shown.waits.clone(),
            mops_per_machine,
            dropped: m.dropped,
            sent_again: SentAgain::from(&m.sent_again),
            latency_ns: run.shown.latency,
            classes: OfClass::all(w, run, mops),
            kinds: match &run.classes[..] {
                [all] if !w.has_classes() => OfKind::all(w, all, mops, run.shown.certainty.overload),
                _ => Vec::new(),
            },
            bottleneck,
            lift: Vec::new(),
            together: None,
            group_lift: Vec::new(),
            operation_time: None,
            advice: None,
            resources,
            caches: m.caches.iter().map(Cache::from).collect(),
            pcie: m.pcie.iter().map(Pcie::from).collect(),
            verbs: m.accounts.ended,
            events: m.events,
            event_hash: hash_text(m.event_hash),
            wall_seconds: run.wall_seconds,
        }
    }
}
