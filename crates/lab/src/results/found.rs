//! The part of a result that curves and comparisons use, for verbs and systems alike.

use super::bottleneck::Bottleneck;
use super::outcome::{Outcome, OutcomeOf, Served};
use super::quantiles::Quantile;
use super::shown::{Certainty, MeasuredTime};
use super::uses::Latency;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Rate, latency and bottleneck of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Found {
    /// Operations per second of all machines, in millions.
    pub mops: f64,
    /// Confidence intervals of the rate and the latencies.
    pub interval: Certainty,
    /// Latencies of the operations.
    pub latency_ns: Latency,
    /// Quantiles of the latencies, lowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantiles: Vec<Quantile>,
    /// In words, the window or the load that the latencies belong to.
    #[serde(default)]
    pub latency_with: String,
    /// In words, the span that a latency covers; absent if it is the time from the start to the end of an
    /// operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_covers: Option<String>,
    /// The measured time.
    pub measured: MeasuredTime,
    /// Messages dropped because no RECV was posted, over the whole run.
    pub dropped: u64,
    /// Fairness among clients that compete; absent if clients do not compete, or nothing completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served: Option<Served>,
    /// Bottleneck of the run.
    pub bottleneck: Bottleneck,
    /// Whether the requested reruns were cut short, so that the bottleneck is not confirmed; absent if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut_short: bool,
}

impl Found {
    /// The part of an outcome. `explain` tells whether reruns were requested.
    pub(crate) fn of(o: Outcome, explain: bool) -> Found {
        let latency_with = o.latency_with();
        let (latency_covers, served) = match &o.of {
            OutcomeOf::Verbs(_) => (None, None),
            OutcomeOf::System(of) => (of.workload.latency_of().map(str::to_owned), of.served),
        };
        Found {
            cut_short: explain && o.lift.is_empty() && o.completed() && !o.has_given_rate(),
            latency_with,
            latency_covers,
            mops: o.mops,
            interval: o.interval,
            latency_ns: o.latency_ns,
            quantiles: o.quantiles,
            measured: o.measured,
            dropped: o.dropped,
            served,
            bottleneck: o.bottleneck,
        }
    }
}
