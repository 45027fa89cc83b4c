//! The two shapes of an outcome's JSON.

use super::bottleneck::Bottleneck;
use super::kinds::{OfClass, OfKind};
use super::lift::{Advice, GroupLift, Lift, OperationTime, TogetherLift};
use super::outcome::{OfSystem, OfVerbs, Outcome, OutcomeOf, Served};
use super::rate;
use super::shown::{Certainty, MeasuredTime};
use super::uses::{Cache, Latency, Pcie, PhaseTime, SentAgain, UncoreUse, Utilization};
use crate::asked::SystemWorkload;
use doorbell_workload::Resolved;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Version of the JSON of a workload of verbs; fields are only ever added.
pub const SCHEMA: u32 = 2;

/// Version of the JSON of a system; fields are only ever added.
pub const SYSTEM_SCHEMA: u32 = 1;

/// Result of a simulated workload, in the form of its JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Outcome")]
pub struct VerbsJson {
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

/// Result of a simulated system, in the form of its JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SystemOutcome")]
pub struct SystemJson {
    /// Version of this JSON.
    pub schema: u32,
    /// What was run.
    pub workload: SystemWorkload,
    /// Operations that clients saw done, per second, in millions.
    #[serde(with = "rate")]
    #[schemars(with = "Option<f64>")]
    pub mrps: f64,
    /// Bytes that operations moved, in GB per second; absent where the system moves none that are asked for, or nothing was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gb_per_s: Option<f64>,
    /// Mean number of replies that the server posted at a time; `None` where it posts none.
    pub replies_per_post: Option<f64>,
    /// How sure the rate and the mean latency are.
    pub interval: Certainty,
    /// From when to when was measured.
    pub measured: MeasuredTime,
    /// Where no operation completed: what threads waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// From the start of an operation to its end.
    pub latency_ns: Latency,
    /// Share of GETs, among all operations, whose key had been evicted.
    pub missed: f64,
    /// Share of operations answered without payload.
    pub header_only: f64,
    /// Torn and stale reads, and locks that others held or took over, per operation.
    pub again: f64,
    /// How evenly clients were served that compete; absent where they do not, or nothing was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<Served>,
    /// Messages dropped for want of a RECV, whole run.
    pub dropped: u64,
    /// What reliable connections had to send again.
    pub sent_again: SentAgain,
    /// What limits the rate.
    pub bottleneck: Bottleneck,
    /// What more of each resource brings; empty unless asked for.
    pub lift: Vec<Lift>,
    /// Resources that limit the rate together; absent where one alone does, or it was not asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<TogetherLift>,
    /// Other parameters with which the rate is higher, best first; absent unless asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Vec<Advice>>,
    /// Use of each resource.
    pub resources: Vec<Utilization>,
    /// Hits and misses of each cache of the NICs.
    pub caches: Vec<Cache>,
    /// PCIe traffic of each machine.
    pub pcie: Vec<Pcie>,
    /// What the uncore of each machine counted; none where caches have no size.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncore: Vec<UncoreUse>,
    /// What threads spent their time on, where the system tells it apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseTime>,
    /// Events of the simulator, whole run.
    pub events: u64,
    /// Hash over all of them in order, 16 hexadecimal digits.
    pub event_hash: String,
    /// Wall-clock seconds of the run.
    pub wall_seconds: f64,
}

/// Either of them: which it is its fields say.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum OutcomeJson {
    /// Of verbs.
    Verbs(Box<VerbsJson>),
    /// Of a system.
    System(Box<SystemJson>),
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        OutcomeJson::from(self.clone()).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Outcome {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Outcome, D::Error> {
        OutcomeJson::deserialize(deserializer).map(Outcome::from)
    }
}

impl From<Outcome> for OutcomeJson {
    fn from(o: Outcome) -> OutcomeJson {
        match o.of {
            OutcomeOf::Verbs(of) => OutcomeJson::Verbs(Box::new(VerbsJson {
                schema: SCHEMA,
                mops: o.mops,
                interval: o.interval,
                measured: o.measured,
                waits: o.waits,
                latency_ns: o.latency_ns,
                dropped: o.dropped,
                sent_again: o.sent_again,
                bottleneck: o.bottleneck,
                lift: o.lift,
                together: o.together,
                advice: o.advice,
                resources: o.resources,
                caches: o.caches,
                pcie: o.pcie,
                events: o.events,
                event_hash: o.event_hash,
                wall_seconds: o.wall_seconds,
                workload: of.workload,
                completed: of.completed,
                mops_per_machine: of.mops_per_machine,
                classes: of.classes,
                kinds: of.kinds,
                group_lift: of.group_lift,
                operation_time: of.operation_time,
                verbs: of.work_requests,
            })),
            OutcomeOf::System(of) => OutcomeJson::System(Box::new(SystemJson {
                schema: SYSTEM_SCHEMA,
                mrps: o.mops,
                interval: o.interval,
                measured: o.measured,
                waits: o.waits,
                latency_ns: o.latency_ns,
                dropped: o.dropped,
                sent_again: o.sent_again,
                bottleneck: o.bottleneck,
                lift: o.lift,
                together: o.together,
                advice: o.advice,
                resources: o.resources,
                caches: o.caches,
                pcie: o.pcie,
                events: o.events,
                event_hash: o.event_hash,
                wall_seconds: o.wall_seconds,
                workload: of.workload,
                gb_per_s: of.gb_per_s,
                replies_per_post: of.replies_per_post,
                missed: of.missed,
                header_only: of.header_only,
                again: of.again,
                served: of.served,
                uncore: of.uncore,
                phases: of.phases,
            })),
        }
    }
}

impl From<OutcomeJson> for Outcome {
    fn from(json: OutcomeJson) -> Outcome {
        match json {
            OutcomeJson::Verbs(o) => Outcome {
                mops: o.mops,
                interval: o.interval,
                measured: o.measured,
                waits: o.waits,
                latency_ns: o.latency_ns,
                dropped: o.dropped,
                sent_again: o.sent_again,
                bottleneck: o.bottleneck,
                lift: o.lift,
                together: o.together,
                advice: o.advice,
                resources: o.resources,
                caches: o.caches,
                pcie: o.pcie,
                events: o.events,
                event_hash: o.event_hash,
                wall_seconds: o.wall_seconds,
                without_effect: Vec::new(),
                of: OutcomeOf::Verbs(Box::new(OfVerbs {
                    workload: o.workload,
                    completed: o.completed,
                    mops_per_machine: o.mops_per_machine,
                    classes: o.classes,
                    kinds: o.kinds,
                    group_lift: o.group_lift,
                    operation_time: o.operation_time,
                    work_requests: o.verbs,
                })),
            },
            OutcomeJson::System(o) => Outcome {
                mops: o.mrps,
                interval: o.interval,
                measured: o.measured,
                waits: o.waits,
                latency_ns: o.latency_ns,
                dropped: o.dropped,
                sent_again: o.sent_again,
                bottleneck: o.bottleneck,
                lift: o.lift,
                together: o.together,
                advice: o.advice,
                resources: o.resources,
                caches: o.caches,
                pcie: o.pcie,
                events: o.events,
                event_hash: o.event_hash,
                wall_seconds: o.wall_seconds,
                without_effect: Vec::new(),
                of: OutcomeOf::System(Box::new(OfSystem {
                    workload: o.workload,
                    gb_per_s: o.gb_per_s,
                    replies_per_post: o.replies_per_post,
                    missed: o.missed,
                    header_only: o.header_only,
                    again: o.again,
                    served: o.served,
                    uncore: o.uncore,
                    phases: o.phases,
                })),
            },
        }
    }
}
