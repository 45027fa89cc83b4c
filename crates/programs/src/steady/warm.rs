//! Finds the end of the warm-up.

use doorbell_systems::series::{Batch, CompletionSeries};

/// Least number of batches in which an end of the warm-up is sought.
const LEAST: usize = 64;

/// End of the warm-up in picoseconds. Afterwards, rate and latency are steady. `None` if there are too few
/// batches, or if rate or latency still changes.
pub fn warm_until(series: &CompletionSeries) -> Option<u64> {
    if series.batches().iter().all(|batch| batch.completed == 0) {
        return None;
    }
    let rate = warm_from(series.batches(), |batch| batch.completed)?;
    let latency = warm_from(series.batches(), |batch| batch.latency)?;
    Some(series.begin_of(rate.max(latency)))
}

/// First batch after the warm-up, by the MSER rule. `None` if there are too few batches. `None`, too, if the
/// rest with the least error is shorter than half of the series: the level then still changes.
fn warm_from(all: &[Batch], seen: impl Fn(&Batch) -> u64) -> Option<usize> {
    if all.len() < LEAST {
        return None;
    }
    // Sums of squares of up to 512 numbers are exact if the sum of the numbers has fewer than 64 bits.
    let total: u128 = all.iter().map(|batch| u128::from(seen(batch))).sum();
    let scale = total >> 50;
    // Over the batches from `first` on: their number n, sum, and sum of squares. The squared standard error
    // of their mean is (n squares - sum^2) / n^3.
    let (mut n, mut sum, mut squares) = (0u128, 0u128, 0u128);
    let mut least: Option<(usize, f64)> = None;
    for (first, batch) in all.iter().enumerate().rev() {
        let x = u128::from(seen(batch)) / (scale + 1);
        (n, sum, squares) = (n + 1, sum + x, squares + x * x);
        // The standard error of very few batches is meaningless.
        if n < LEAST as u128 / 4 {
            continue;
        }
        let error = (n * squares - sum * sum) as f64 / (n * n * n) as f64;
        // Of several rests with the least error, takes the longest.
        if least.is_none_or(|(_, least)| error <= least) {
            least = Some((first, error));
        }
    }
    least.map(|(first, _)| first).filter(|first| *first <= all.len() / 2)
}
