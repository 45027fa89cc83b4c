//! What a run without a given duration measures before it ends.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The number that a run must know, besides its rate and its mean latency, before it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Until {
    /// No other number.
    #[serde(rename = "mean")]
    Mean,
    /// The 99th percentile of latency.
    #[serde(rename = "p99")]
    P99,
    /// The 99.9th percentile of latency.
    #[serde(rename = "p99.9")]
    P999,
}

impl Until {
    /// All names, in the order of the variants.
    pub const NAMES: &'static [&'static str] = &["mean", "p99", "p99.9"];

    /// Name in options and files.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self as usize]
    }

    /// The share of latencies below the percentile; `None` if there is no percentile.
    pub const fn quantile(self) -> Option<f64> {
        match self {
            Until::Mean => None,
            Until::P99 => Some(0.99),
            Until::P999 => Some(0.999),
        }
    }
}

impl fmt::Display for Until {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
