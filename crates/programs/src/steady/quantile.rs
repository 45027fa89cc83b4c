//! Confidence intervals of percentiles.

use super::means::{LEAST, depend, interval};
use doorbell_systems::series::{CompletionSeries, together};
use hdrhistogram::Histogram;

/// A percentile is reported only if at least this many latencies lie beyond it.
pub(super) const BEYOND: f64 = 100.0;

/// Whether enough latencies lie above the quantile `q`.
pub fn is_known(all: &Histogram<u32>, q: f64) -> bool {
    all.len() as f64 * (1.0 - q) >= BEYOND
}

/// 95% confidence interval of the quantile `q` of the latencies, in nanoseconds. `None` if there are too few
/// latencies, or if neighbouring spans of time depend on each other.
///
/// 1. The sample quantile is the quantile `q` of all latencies.
/// 2. For consecutive spans of time, the share of latencies above the sample quantile is computed.
/// 3. This share gets a Student interval, like a mean. The ends of the interval are shares, too.
/// 4. The result consists of the quantiles of all latencies that belong to these two shares.
pub fn quantile(series: &CompletionSeries, q: f64) -> Option<(u64, u64)> {
    let all = series.latency();
    if !is_known(&all, q) {
        return None;
    }
    let sample = all.value_at_quantile(q);
    let mut each = 1;
    while series.latencies().len() / each >= LEAST {
        let spans: Vec<Histogram<u32>> = series.latencies().chunks_exact(each).map(together).collect();
        let sizes: Vec<f64> = spans.iter().map(|span| span.len() as f64).collect();
        let beyond = spans.iter().map(|span| span.len() - span.count_between(0, sample));
        let beyond: Vec<f64> = beyond.map(|n| n as f64).collect();
        let (n, above) = (sizes.iter().sum::<f64>(), beyond.iter().sum::<f64>());
        let residuals: Vec<f64> = beyond.iter().zip(&sizes).map(|(b, n_i)| b - above / n * n_i).collect();
        if !depend(&residuals) {
            let half = interval(&residuals).half / (n / spans.len() as f64);
            let (low, high) = ((q - half).max(0.0), q + half);
            return (high < 1.0).then(|| (all.value_at_quantile(low), all.value_at_quantile(high)));
        }
        each += 1;
    }
    None
}
