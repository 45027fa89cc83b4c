//! The two JSON shapes of an outcome.

use super::bottleneck::Bottleneck;
use super::kinds::{OfClass, OfKind};
use super::lift::{Advice, GroupLift, Lift, OperationTime, TogetherLift};
use super::outcome::{OfSystem, OfVerbs, Outcome, OutcomeOf, Served};
use super::quantiles::Quantile;
use super::rate;
use super::shown::{Certainty, MeasuredTime};
use super::uses::{Cache, Latency, Pcie, PhaseTime, SentAgain, UncoreUse, Utilization};
use crate::asked::SystemWorkload;
use doorbell_workload::Resolved;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Version of the JSON of a verbs workload. Later versions only add fields.
pub const SCHEMA: u32 = 2;

/// Version of the JSON of a system. Later versions only add fields.
pub const SYSTEM_SCHEMA: u32 = 1;

/// Result of a simulated workload, as its JSON output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Outcome")]
pub struct VerbsJson {
    /// Version of this JSON.
    pub schema: u32,
    /// The workload with all of its options resolved.
    pub workload: Resolved,
    /// Completed operations (for SEND: received messages) per second over all machines after the warm-up, in
    /// millions.
    #[serde(with = "rate")]
    #[schemars(with = "Option<f64>")]
    pub mops: f64,
    /// Number of operations that completed in the measured time. With completions in lumps, the rate is not
    /// this number over the time, because the last lumps are incomplete.
    pub completed: u64,
    /// Confidence intervals of the rate and the latencies.
    pub interval: Certainty,
    /// The measured time.
    pub measured: MeasuredTime,
    /// If no operation completed: the reasons for which threads waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// Rate per machine in millions per second, by the machine that saw the completion (for SEND: received
    /// the message).
    pub mops_per_machine: Vec<f64>,
    /// Messages dropped because no RECV was posted, over the whole run.
    pub dropped: u64,
    /// Retransmissions of reliable connections.
    pub sent_again: SentAgain,
    /// Latencies of signalled operations, from post to the poll that finds the completion.
    pub latency_ns: Latency,
    /// Quantiles of the latencies, lowest first: those with at least 100 latencies on each side.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantiles: Vec<Quantile>,
    /// Results of each thread class, in the order of the workload; empty without classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<OfClass>,
    /// Results of each item of a mix, in its order. Empty without a mix. For threads in classes, each class
    /// has its own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<OfKind>,
    /// Bottleneck of the workload.
    pub bottleneck: Bottleneck,
    /// Gain from more of each resource; empty unless requested.
    pub lift: Vec<Lift>,
    /// Resources that limit the rate together; absent if one alone does, or if not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<TogetherLift>,
    /// Gain from more of the limiting resource on each machine group alone; empty if machines are alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub group_lift: Vec<GroupLift>,
    /// Parts of an operation's latency, if latency is the bottleneck; absent unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_time: Option<OperationTime>,
    /// Changed options with a higher rate, best first; absent unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Vec<Advice>>,
    /// Utilization of each resource.
    pub resources: Vec<Utilization>,
    /// Hits and misses of each cache of the NICs.
    pub caches: Vec<Cache>,
    /// PCIe traffic of each machine.
    pub pcie: Vec<Pcie>,
    /// Number of send work requests, over the whole run.
    pub verbs: u64,
    /// Number of simulator events, over the whole run.
    pub events: u64,
    /// Hash over all simulator events in order, as 16 hexadecimal digits. Many JSON readers cannot hold it as
    /// a number.
    pub event_hash: String,
    /// Wall-clock seconds of the whole run.
    pub wall_seconds: f64,
}

/// Result of a simulated system, as its JSON output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SystemOutcome")]
pub struct SystemJson {
    /// Version of this JSON.
    pub schema: u32,
    /// The system with its parameters.
    pub workload: SystemWorkload,
    /// Operations that clients saw completed per second, in millions.
    #[serde(with = "rate")]
    #[schemars(with = "Option<f64>")]
    pub mrps: f64,
    /// Data moved by operations, in GB per second. Absent if the system has no such result, or nothing
    /// completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gb_per_s: Option<f64>,
    /// Mean number of replies that the server posts at a time; `None` if it posts none.
    pub replies_per_post: Option<f64>,
    /// Confidence intervals of the rate and the latencies.
    pub interval: Certainty,
    /// The measured time.
    pub measured: MeasuredTime,
    /// If no operation completed: the reasons for which threads waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// Latencies of operations, from start to end.
    pub latency_ns: Latency,
    /// Quantiles of the latencies, lowest first: those with at least 100 latencies on each side.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantiles: Vec<Quantile>,
    /// GETs of evicted keys, as a share of all operations.
    pub missed: f64,
    /// Share of operations answered without payload.
    pub header_only: f64,
    /// Retries per operation: torn and stale reads, and locks that another client held or took over.
    pub again: f64,
    /// Fairness among clients that compete; absent if clients do not compete, or nothing completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<Served>,
    /// Messages dropped because no RECV was posted, over the whole run.
    pub dropped: u64,
    /// Retransmissions of reliable connections.
    pub sent_again: SentAgain,
    /// Bottleneck of the system.
    pub bottleneck: Bottleneck,
    /// Gain from more of each resource; empty unless requested.
    pub lift: Vec<Lift>,
    /// Resources that limit the rate together; absent if one alone does, or if not requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub together: Option<TogetherLift>,
    /// Changed parameters with a higher rate, best first; absent unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Vec<Advice>>,
    /// Utilization of each resource.
    pub resources: Vec<Utilization>,
    /// Hits and misses of each cache of the NICs.
    pub caches: Vec<Cache>,
    /// PCIe traffic of each machine.
    pub pcie: Vec<Pcie>,
    /// Uncore counters of each machine; empty if caches have no sizes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub uncore: Vec<UncoreUse>,
    /// Time that threads spent per phase, for systems that distinguish phases.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<PhaseTime>,
    /// Number of simulator events, over the whole run.
    pub events: u64,
    /// Hash over all simulator events in order, as 16 hexadecimal digits.
    pub event_hash: String,
    /// Wall-clock seconds of the run.
    pub wall_seconds: f64,
}

/// JSON of either kind. The fields tell which it is.
#[derive(Clone, Serialize, Deserialize)]
#[serde(untagged)]
enum OutcomeJson {
    /// Result of a verbs workload.
    Verbs(Box<VerbsJson>),
    /// Result of a system.
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
                quantiles: o.quantiles,
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
                quantiles: o.quantiles,
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
                quantiles: o.quantiles,
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
                quantiles: o.quantiles,
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
