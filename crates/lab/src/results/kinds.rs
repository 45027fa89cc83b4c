//! Results per thread class and per item of a mix.

use super::rate;
use super::raw::{RawClass, RawRun};
use super::shown::Certainty;
use super::uses::Latency;
use doorbell_programs::worker;
use doorbell_workload::{Operation, Resolved, ResolvedClass, Verb};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Results of an item of a mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OfKind {
    /// Verb of the item.
    #[schemars(with = "String")]
    pub verb: Verb,
    /// Payload in bytes.
    pub size: u32,
    /// Operations that completed in the measured time (for SEND: received messages).
    pub completed: u64,
    /// Rate over all machines, in millions per second: the item's share of all completions, times the total
    /// rate.
    #[serde(with = "rate")]
    #[schemars(with = "Option<f64>")]
    pub mops: f64,
    /// Latencies of signalled operations, from post to the poll that finds the completion.
    pub latency_ns: Latency,
}

/// Results of a thread class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OfClass {
    /// Name of the class, or its number if it has no name.
    pub name: String,
    /// Threads of the class on each machine.
    pub threads: u32,
    /// Operations that completed in the measured time (for SEND: received messages).
    pub completed: u64,
    /// Rate over all machines, in millions per second: the class's share of all completions, times the total
    /// rate.
    #[serde(with = "rate")]
    #[schemars(with = "Option<f64>")]
    pub mops: f64,
    /// Share of all completions, 0 to 1.
    pub share: f64,
    /// Confidence intervals of the rate and the latencies.
    pub interval: Certainty,
    /// Latencies of signalled operations, from post to the poll that finds the completion.
    pub latency_ns: Latency,
    /// Results of each item of the class's mix; empty without a mix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<OfKind>,
}

impl OfClass {
    /// Results of each class; empty without classes.
    pub(super) fn all(w: &Resolved, run: &RawRun, mops: f64) -> Vec<OfClass> {
        let all: u64 = run.classes.iter().map(|class| class.completed).sum();
        let one = |(class, run): (ResolvedClass<'_>, &RawClass)| {
            let shown = run.shown.as_ref()?;
            let share = run.completed as f64 / all.max(1) as f64;
            let mops = mops * share;
            Some(OfClass {
                name: class.name,
                threads: class.threads.len() as u32,
                completed: run.completed,
                mops,
                share,
                interval: shown.certainty.clone(),
                latency_ns: shown.latency,
                kinds: OfKind::all(class.workload, run, mops, shown.latency.mean.is_some()),
            })
        };
        w.classes().into_iter().zip(&run.classes).filter_map(one).collect()
    }
}

impl OfKind {
    /// Results of each item, in the order of the mix; empty if there is only one kind. If all items together
    /// have no latency, an item has none.
    pub(super) fn all(w: &Resolved, run: &RawClass, mops: f64, has_latency: bool) -> Vec<OfKind> {
        let all: u64 = run.kinds.iter().map(|kind| kind.completed).sum();
        let one = |(&Operation { verb, size, .. }, kind): (&Operation, &worker::OfKind)| OfKind {
            verb,
            size,
            completed: kind.completed,
            mops: mops * kind.completed as f64 / all.max(1) as f64,
            latency_ns: match has_latency {
                true => Latency::from(&kind.latency),
                false => Latency::none(),
            },
        };
        w.operations().iter().zip(&run.kinds).map(one).collect()
    }
}
