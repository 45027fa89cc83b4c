//! The distribution of latencies, as a few quantiles.

use doorbell_programs::steady::is_known;
use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A quantile of the latencies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantile {
    /// Share of the latencies that are at most as long, 0 to 1.
    pub share: f64,
    /// Latency in nanoseconds, rounded up to three digits.
    pub ns: u64,
}

/// Shares of the quantiles.
const SHARES: [f64; 17] =
    [0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999];

/// The quantiles with at least 100 latencies on each side, lowest first.
pub(crate) fn quantiles(all: &Histogram<u32>) -> Vec<Quantile> {
    let known = |share: &f64| is_known(all, *share) && is_known(all, 1.0 - *share);
    let one = |share: f64| Quantile { share, ns: all.value_at_quantile(share) };
    SHARES.into_iter().filter(known).map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_with_few_latencies_on_a_side_are_left_out() {
        let mut all = Histogram::new(3).unwrap();
        (1..=1500).for_each(|ns| all.record(ns).unwrap());
        let found = quantiles(&all);
        assert_eq!((found[0].share, found[found.len() - 1].share), (0.1, 0.9));
        assert!(found.iter().all(|q| q.ns == (q.share * 1500.0).round() as u64), "{found:?}");
    }
}
