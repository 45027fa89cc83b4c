//! Result of a sweep.

use super::point::{Missing, Point};
use super::shards::Shard;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the JSON of a [`Sweep`]. Later versions only add fields.
pub const SWEEP_SCHEMA: u32 = 1;

/// A swept option, as its JSON output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Axis {
    /// Key of the option.
    pub option: String,
    /// Values of the option, in order.
    pub values: Vec<serde_json::Value>,
}

/// Result of a sweep, as its JSON output. Equal sweeps give equal bytes, because there is no wall-clock time
/// in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sweep {
    /// Always [`SWEEP_SCHEMA`].
    pub schema: u32,
    /// Identity of the sweep: a hash of each point's run and of the model.
    pub sweep: String,
    /// Options that were given for all points.
    pub workload: BTreeMap<String, serde_json::Value>,
    /// The swept options.
    pub over: Vec<Axis>,
    /// Whether the bottlenecks come from reruns.
    pub explained: bool,
    /// The part of the sweep in this result; absent for a whole sweep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub shard: Option<Shard>,
    /// Known points, in the order of their numbers.
    pub points: Vec<Point>,
    /// Points without a result, because the sweep was cut short or their operations are too long; absent if
    /// there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// Result of a search for a knee; absent unless requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<Knee>,
}

impl Sweep {
    /// Number of points of the whole sweep, without points of a search.
    pub fn size(&self) -> usize {
        self.over.iter().map(|axis| axis.values.len()).fold(1, usize::saturating_mul)
    }

    /// Numbers of the points that this part should have but lacks.
    pub(crate) fn numbers_missing(&self) -> Vec<usize> {
        let wanted = (0..self.size()).filter(|number| self.shard.is_none_or(|shard| shard.has(*number)));
        wanted.filter(|number| self.points.iter().all(|point| point.number != *number)).collect()
    }
}

/// Result of a search for a knee, as its JSON output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Knee {
    /// The option that sets the load.
    pub option: String,
    /// Exclusive upper bound of p99, in nanoseconds.
    pub p99_under_ns: u64,
    /// Highest tried load under the bound, below the first load that exceeds it.
    pub at: u64,
    /// Lowest tried load that exceeds the bound; null if none does, so that the knee is higher.
    pub exceeded_at: Option<u64>,
    /// All tried loads, lowest first.
    pub tried: Vec<u64>,
    /// Whether the search finished.
    pub ended: bool,
}
