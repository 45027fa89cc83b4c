//! What curves and comparisons have of a run, be it of verbs or of a system.

use super::bottleneck::Bottleneck;
use super::outcome::Outcome;
use super::shown::{Certainty, MeasuredTime};
use super::uses::Latency;
use serde::{Deserialize, Serialize};

/// Rate, latency and bottleneck of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Operations per second of all machines, in millions.
    pub mops: f64,
    /// How sure the rate and the mean latency are.
    pub interval: Certainty,
    /// Of operations.
    pub latency_ns: Latency,
    /// From when to when was measured.
    pub measured: MeasuredTime,
    /// Messages dropped for want of a RECV, whole run.
    pub dropped: u64,
    /// What limits the rate.
    pub bottleneck: Bottleneck,
}

impl From<Outcome> for Found {
    fn from(o: Outcome) -> Found {
        Found {
            mops: o.mops,
            interval: o.interval,
            latency_ns: o.latency_ns,
            measured: o.measured,
            dropped: o.dropped,
            bottleneck: o.bottleneck,
        }
    }
}
