//! What a simulation says of each item of a mix.

use super::Latency;
use super::outcome::rate;
use crate::simulate::Run;
use doorbell_workload::{Operation, Resolved, Verb};
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

impl OfKind {
    /// Those of each item, in the order of the mix; none where there is but one.
    pub(super) fn all(w: &Resolved, run: &Run, mops: f64) -> Vec<OfKind> {
        let all: u64 = run.kinds.iter().map(|kind| kind.completed).sum();
        let one = |(Operation { verb, size, .. }, kind): (Operation, &crate::programs::OfKind)| OfKind {
            verb,
            size,
            completed: kind.completed,
            mops: mops * kind.completed as f64 / all.max(1) as f64,
            latency_ns: match run.shown.certainty.overload {
                true => Latency::none(),
                false => Latency::from(&kind.latency.histogram()),
            },
        };
        w.operations().into_iter().zip(&run.kinds).map(one).collect()
    }
}
