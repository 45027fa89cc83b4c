//! What a simulation says of each class of threads, and of each item of a mix.

use super::rate;
use super::raw::{RawClass, RawRun};
use super::shown::Certainty;
use super::uses::Latency;
use doorbell_programs::worker;
use doorbell_workload::{Operation, Resolved, ResolvedClass, Verb};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The operations of an item of a mix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OfKind {
    /// Verb.
    #[schemars(with = "String")]
    pub verb: Verb,
    /// Payload in bytes.
    pub size: u32,
    /// Those that completed in the measured time; of SENDs those that were received.
    pub completed: u64,
    /// Their rate over all machines, in millions per second: their part of all that completed, of the rate of all.
    #[serde(with = "rate")]
    #[schemars(with = "Option<f64>")]
    pub mops: f64,
    /// From post to completion seen, of signalled ones.
    pub latency_ns: Latency,
}

/// The operations of a class of threads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OfClass {
    /// What it is called; where it has no name, its number.
    pub name: String,
    /// Its threads of each machine.
    pub threads: u32,
    /// Operations that completed in the measured time; of SENDs those that were received.
    pub completed: u64,
    /// Their rate over all machines, in millions per second: their part of all that completed, of the rate of all.
    #[serde(with = "rate")]
    #[schemars(with = "Option<f64>")]
    pub mops: f64,
    /// Their part of all that completed, 0 to 1.
    pub share: f64,
    /// How sure the rate and the latencies are.
    pub interval: Certainty,
    /// From post to completion seen, of signalled operations.
    pub latency_ns: Latency,
    /// The operations of each item of its mix; empty where it has none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<OfKind>,
}

impl OfClass {
    /// Those of each class; none where there are no classes.
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
                kinds: OfKind::all(class.workload, run, mops, shown.certainty.overload),
            })
        };
        w.classes().into_iter().zip(&run.classes).filter_map(one).collect()
    }
}

impl OfKind {
    /// Those of each item, in the order of the mix; none where there is but one.
    pub(super) fn all(w: &Resolved, run: &RawClass, mops: f64, overload: bool) -> Vec<OfKind> {
        let all: u64 = run.kinds.iter().map(|kind| kind.completed).sum();
        let one = |(&Operation { verb, size, .. }, kind): (&Operation, &worker::OfKind)| OfKind {
            verb,
            size,
            completed: kind.completed,
            mops: mops * kind.completed as f64 / all.max(1) as f64,
            latency_ns: match overload {
                true => Latency::none(),
                false => Latency::from(&kind.latency),
            },
        };
        w.operations().iter().zip(&run.kinds).map(one).collect()
    }
}
