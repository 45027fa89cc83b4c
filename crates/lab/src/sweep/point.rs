//! Points of a sweep.

use crate::load::Loaded;
use crate::results::Found;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A point of a sweep, with its result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Number of the point from 0; the last option of the sweep changes fastest. Points of a search have the
    /// numbers after these.
    pub number: usize,
    /// Values of the swept options.
    pub at: BTreeMap<String, serde_json::Value>,
    /// The load of the point's open loop, and its capacity; absent if no load was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<Loaded>,
    /// Result of the run.
    #[serde(flatten)]
    pub found: Found,
}

impl Point {
    /// The value of an option, as users write it.
    pub fn value(&self, key: &str) -> String {
        value(&self.at, key)
    }
}

/// A point without a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    /// Number of the point, as for a [`Point`].
    pub number: usize,
    /// Values of the swept options.
    pub at: BTreeMap<String, serde_json::Value>,
    /// Why the point has no result, in words; absent if the sweep was interrupted before it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Missing {
    /// The value of an option, as users write it.
    pub fn value(&self, key: &str) -> String {
        value(&self.at, key)
    }
}

fn value(at: &BTreeMap<String, serde_json::Value>, key: &str) -> String {
    match at.get(key) {
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}
