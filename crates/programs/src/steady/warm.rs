//! Where the warm-up ends.

use doorbell_systems::series::{Batch, CompletionSeries};

/// With fewer batches, nothing is said of the warm-up.
const LEAST: usize = 64;

/// When the warm-up is over, in picoseconds: rate and latency are steady from then on. `None` where there are too
/// few batches, or one of the two still changes.
pub fn warm_until(series: &CompletionSeries) -> Option<u64> {
    if series.batches().iter().all(|batch| batch.completed == 0) {
        return None;
    }
    let rate = warm_from(series.batches(), |batch| batch.completed)?;
    let latency = warm_from(series.batches(), |batch| batch.latency)?;
    Some(series.begin_of(rate.max(latency)))
}

/// The first batch after the warm-up, by MSER; `None` where there are too few batches, or the least error is that of a
/// rest shorter than half, as it is while what is looked at still changes.
fn warm_from(all: &[Batch], seen: impl Fn(&Batch) -> u64) -> Option<usize> {
    if all.len() < LEAST {
        return None;
    }
    // Sums of squares of up to 512 numbers that together have fewer than 64 bits are exact.
    let total: u128 = all.iter().map(|batch| u128::from(seen(batch))).sum();
    let scale = total >> 50;
    // Of the batches from `first` on: how many, the sum, the sum of the squares. The squared standard error of
    // their mean is (n squares - sum^2) / n^3.
    let (mut n, mut sum, mut squares) = (0u128, 0u128, 0u128);
    let mut least: Option<(usize, f64)> = None;
    for (first, batch) in all.iter().enumerate().rev() {
        let x = u128::from(seen(batch)) / (scale + 1);
        (n, sum, squares) = (n + 1, sum + x, squares + x * x);
        // The error of a few says nothing.
        if n < LEAST as u128 / 4 {
            continue;
        }
        let error = (n * squares - sum * sum) as f64 / (n * n * n) as f64;
        // Of rests that are equally good the longest.
        if least.is_none_or(|(_, least)| error <= least) {
            least = Some((first, error));
        }
    }
    least.map(|(first, _)| first).filter(|first| *first <= all.len() / 2)
}
