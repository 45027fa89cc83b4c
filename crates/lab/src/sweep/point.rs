//! What one point of a sweep gave.

use crate::results::{Bottleneck, Certainty, Latency, Of, Ran};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A point of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Its number, from 0, the last option of the sweep changing fastest; those that a search tried come after all
    /// of these.
    pub number: usize,
    /// What the options are.
    pub at: BTreeMap<String, serde_json::Value>,
    /// Operations per second of all machines, in millions.
    pub mops: f64,
    /// How sure the rate and the mean latency are.
    pub interval: Certainty,
    /// Of operations.
    pub latency_ns: Latency,
    /// Messages dropped for want of a RECV, whole run.
    pub dropped: u64,
    /// What limits the rate.
    pub bottleneck: Bottleneck,
}

impl Point {
    pub(crate) fn of(number: usize, at: BTreeMap<String, serde_json::Value>, ran: Ran) -> Point {
        match ran.of {
            Of::Verbs(o) => Point {
                number,
                at,
                mops: o.mops,
                interval: o.interval,
                latency_ns: o.latency_ns,
                dropped: o.dropped,
                bottleneck: o.bottleneck,
            },
            Of::System(o) => Point {
                number,
                at,
                mops: o.mrps,
                interval: Certainty::default(),
                latency_ns: o.latency_ns,
                dropped: o.dropped,
                bottleneck: o.bottleneck,
            },
        }
    }

    /// The value of an option, as people write it.
    pub fn value(&self, key: &str) -> String {
        match self.at.get(key) {
            Some(serde_json::Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        }
    }
}
