//! What a sweep gave.

use super::point::{Missing, Point};
use super::shards::Shard;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the JSON of a [`Sweep`]; fields are only ever added.
pub const SWEEP_SCHEMA: u32 = 1;

/// An option of a sweep, in the form of its JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Its key.
    pub option: String,
    /// Its values, in order.
    pub values: Vec<serde_json::Value>,
}

/// What a sweep gave, in the form of its JSON. Equal sweeps give equal bytes: there is no wall-clock time in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// [`SWEEP_SCHEMA`].
    pub schema: u32,
    /// Tells this sweep from others: a hash of what each point runs and of the model that runs it.
    pub sweep: String,
    /// What is given of the workload at every point.
    pub workload: BTreeMap<String, serde_json::Value>,
    /// What it goes over.
    pub over: Vec<Axis>,
    /// Whether bottlenecks are observed by reruns.
    pub explained: bool,
    /// Which part of it this is; absent of a whole one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// Points that are known, in the order of their numbers.
    pub points: Vec<Point>,
    /// Points that were to be made and are not, as somebody stopped it; absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// What a search for a knee found; absent where none was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<Knee>,
}

impl Sweep {
    /// Points of the whole sweep, those of a search apart.
    pub fn size(&self) -> usize {
        self.over.iter().map(|axis| axis.values.len()).fold(1, usize::saturating_mul)
    }

    /// Numbers of points that it should have and has not.
    pub(crate) fn numbers_missing(&self) -> Vec<usize> {
        let wanted = (0..self.size()).filter(|number| self.shard.is_none_or(|shard| shard.has(*number)));
        wanted.filter(|number| self.points.iter().all(|point| point.number != *number)).collect()
    }
}

/// What a search found, in the form of its JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Knee {
    /// The option that is the load.
    pub option: String,
    /// Nanoseconds that p99 must be under.
    pub p99_under_ns: u64,
    /// The highest load below which, itself included, no load that was tried exceeds the bound.
    pub at: u64,
    /// The least load that was tried and exceeds it; null where none does, so that the knee lies further up.
    pub exceeded_at: Option<u64>,
    /// All loads that were tried, the least first.
    pub tried: Vec<u64>,
    /// Whether the search came to its end.
    pub ended: bool,
}
