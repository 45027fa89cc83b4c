//! What one point of a sweep gave.

use crate::results::Found;
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
    /// What was found there.
    #[serde(flatten)]
    pub found: Found,
}

impl Point {
    /// The value of an option, as people write it.
    pub fn value(&self, key: &str) -> String {
        value(&self.at, key)
    }
}

/// A point that is not made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Missing {
    /// Its number, as that of a [`Point`].
    pub number: usize,
    /// What the options are.
    pub at: BTreeMap<String, serde_json::Value>,
}

impl Missing {
    /// The value of an option, as people write it.
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
