//! Confidence intervals of percentiles.

use super::means::{LEAST, correlation, depend, skewness, standard_error, student};
use doorbell_systems::series::{CompletionSeries, together};
use hdrhistogram::Histogram;

/// A percentile is reported only if at least this many latencies lie beyond it.
pub(super) const BEYOND: f64 = 100.0;

/// Number of latencies with which enough lie above the quantile `q`.
pub fn needed(q: f64) -> u64 {
    (BEYOND / (1.0 - q)).round() as u64
}

/// Whether enough latencies lie above the quantile `q`.
pub fn is_known(all: &Histogram<u32>, q: f64) -> bool {
    all.len() as f64 * (1.0 - q) >= BEYOND
}

/// 95% confidence interval of the quantile `q` of the latencies, in nanoseconds. `None` if there are too few
/// latencies, or if neighbouring spans of time depend on each other.
///
/// 1. The sample quantile is the quantile `q` of all latencies.
/// 2. For consecutive spans of time, the share of latencies above the sample quantile is computed.
/// 3. This share gets a Student interval, like a mean, with the corrections of `halves`. The ends of the
///    interval are shares, too.
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
            let (below, above) = halves(&residuals);
            let per_span = n / spans.len() as f64;
            let (low, high) = ((q - below / per_span).max(0.0), q + above / per_span);
            return (high < 1.0).then(|| (all.value_at_quantile(low), all.value_at_quantile(high)));
        }
        each += 1;
    }
    None
}

/// Distances from the mean of these values to both ends of its 95% interval. They are Student's, with two
/// corrections of Skart (Tafazzoli and Wilson, "Skart: a skewness- and autoregression-adjusted batch-means
/// procedure for simulation analysis", 2011). The first widens the interval if neighbours are alike, though
/// no more than by chance. The second moves its upper end away if the values are skewed: long latencies come
/// together, so most spans have few of them, and one span has many.
fn halves(of: &[f64]) -> (f64, f64) {
    let (t, alike) = (student(of.len()), correlation(of));
    let error = standard_error(of) * ((1.0 + alike) / (1.0 - alike)).sqrt();
    let skewed = skewness(of) / (6.0 * (of.len() as f64).sqrt());
    // Below this skewness, the correction is lost in rounding.
    let upper = if skewed > 1e-6 {
        (1.0 - libm::cbrt(1.0 - 6.0 * skewed * (t + skewed))) / (2.0 * skewed)
    } else {
        t
    };
    (t * error, upper.max(t) * error)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Answer, queue};
    use super::*;

    /// Whether the interval of the quantile `q` holds the true value, in a queue that runs until its rate and
    /// mean latency are known within 5%, and the quantile has an interval. Services take `load` of the 1000
    /// ns between arrivals.
    fn holds(seed: u64, load: f64, q: f64) -> bool {
        let mut end = 1e10;
        loop {
            let series = queue(seed, 1e6, load * 1e6, end);
            let is_known = Answer::of(&series).is_some_and(|answer| answer.is_within(0.05));
            if is_known && let Some((low, high)) = quantile(&series, q) {
                // Times in the system are exponentially distributed.
                let truth = (1.0 / (1.0 - q)).ln() * 1000.0 * load / (1.0 - load);
                return (low as f64..=high as f64).contains(&truth);
            }
            end *= 1.4;
        }
    }

    #[test]
    fn intervals_hold_the_true_percentile() {
        // `cargo xtask long` sets the number of seeds.
        let seeds = std::env::var("DOORBELL_QUANTILE_SEEDS").ok().and_then(|seeds| seeds.parse::<u64>().ok());
        let cells = match seeds {
            None => vec![(0.5, 0.99), (0.7, 0.99)],
            Some(_) => [0.3, 0.7, 0.9].into_iter().flat_map(|load| [(load, 0.99), (load, 0.999)]).collect(),
        };
        let seeds = seeds.unwrap_or(100);
        for (load, q) in cells {
            let held = (0..seeds).filter(|seed| holds(*seed, load, q)).count() as u64;
            println!("load {load}, quantile {q}: {held} of {seeds}");
            assert!(100 * held >= 95 * seeds, "load {load}, quantile {q}: {held} of {seeds}");
        }
    }

    #[test]
    fn enough_latencies_are_needed_and_not_more() {
        for (q, all) in [(0.5, 200), (0.99, 10_000), (0.999, 100_000)] {
            assert_eq!(needed(q), all);
            let mut latencies = Histogram::new(3).unwrap();
            latencies.record_n(100, all as u32 - 1).unwrap();
            assert!(!is_known(&latencies, q), "{q}");
            latencies.record(100).unwrap();
            assert!(is_known(&latencies, q), "{q}");
        }
    }

    #[test]
    fn skewed_values_move_the_upper_end() {
        let even: Vec<f64> = (0..20).map(|n| f64::from(n * 7 % 20)).collect();
        let (below, above) = halves(&even);
        assert!((above / below - 1.0).abs() < 1e-9, "{below} {above}");
        let skewed: Vec<f64> = even.iter().map(|x| x * x * x).collect();
        let (below, above) = halves(&skewed);
        assert!(above > 1.2 * below, "{below} {above}");
        assert_eq!(halves(&[3.0; 12]), (0.0, 0.0));
    }
}
