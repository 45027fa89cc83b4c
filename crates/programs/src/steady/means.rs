//! Confidence intervals of means over batches.

use doorbell_systems::series::Batch;

/// A mean and its 95% confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Middle of the interval.
    pub mean: f64,
    /// Half the width of the interval.
    pub half: f64,
}

/// Largest number of joined batches for an interval.
const MOST: usize = 32;
/// Smallest number of joined batches for an interval.
pub(super) const LEAST: usize = 10;

/// Student's t, two-sided 95%, for [`LEAST`] - 1 to [`MOST`] - 1 degrees of freedom.
const STUDENT: [f64; MOST - LEAST + 1] = [
    2.2622, 2.2281, 2.2010, 2.1788, 2.1604, 2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796,
    2.0739, 2.0687, 2.0639, 2.0595, 2.0555, 2.0518, 2.0484, 2.0452, 2.0423, 2.0395,
];

/// Batches are joined until each joined batch lasts as long as this many consecutive operations. But at least
/// [`LEAST`] joined batches must remain.
const OPERATIONS: f64 = 5.0;

/// One-sided 95% quantile of the normal distribution.
const ONE_SIDED: f64 = 1.6449;

/// Means over batches of equal length, with their intervals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Means {
    /// Operations per picosecond.
    pub rate: Interval,
    /// Mean latency in picoseconds; `None` if no operation was timed.
    pub latency: Option<Interval>,
}

impl Means {
    /// Computes the means of batches that last `length` picoseconds. Returns `None` if there are fewer than
    /// 10 batches.
    pub fn of(batches: &[Batch], length: u64) -> Option<Means> {
        let counts = |batches: &[Batch]| batches.iter().map(|b| b.completed as f64).collect();
        let least = least(batches, length);
        let (count, each) = of_joined(batches, least, counts)?;
        let length = length as f64;
        let joined = length * each as f64;
        let all = length * batches.len() as f64;
        // Even if batches are perfectly regular, the count of all may be off by one operation by chance.
        let half = (count.half / joined).max(1.0 / all);
        // Like the rate that a run shows, the mean includes the left-over batches, which no joined batch has.
        let rate = Interval { mean: Batch::all(batches).completed as f64 / all, half };
        Some(Means { rate, latency: latency(batches, least) })
    }
}

/// Smallest number of batches to join, so that a joined batch lasts as long as several consecutive
/// operations. Shorter neighbours share operations, so they depend on each other. A test of few batches does
/// not detect this dependence.
fn least(batches: &[Batch], length: u64) -> usize {
    let all = Batch::all(batches);
    let mean = if all.timed == 0 { 0.0 } else { all.latency as f64 / all.timed as f64 };
    (OPERATIONS * mean / length as f64).ceil() as usize
}

/// The mean latency and its interval.
fn latency(batches: &[Batch], least: usize) -> Option<Interval> {
    let all = Batch::all(batches);
    let mean = (all.timed > 0).then(|| all.latency as f64 / all.timed as f64)?;
    let (off, each) = of_joined(batches, least, residuals)?;
    // The mean latency is a ratio of sums. Its error is the deviation of the mean residual from 0, divided by
    // the timed operations of a batch.
    let per_batch = all.timed as f64 / (batches.len() / each) as f64;
    Some(Interval { mean, half: off.half / per_batch })
}

/// Mean over joined batches with its interval, and the number of batches in a joined batch.
///
/// Batches are joined until at most [`MOST`] joined batches are left. Then they are joined further, until
/// neighbours are independent. If neighbours never become independent, the level wanders. The interval then
/// reaches from the mean to the farthest value of the last, longest joined batches.
fn of_joined(
    batches: &[Batch],
    least: usize,
    seen: impl Fn(&[Batch]) -> Vec<f64>,
) -> Option<(Interval, usize)> {
    let mut each = batches.len().div_ceil(MOST).max(least).min(batches.len() / LEAST).max(1);
    let mut last = None;
    while batches.len() / each >= LEAST {
        // Batches that are left over are the first ones, next to the warm-up.
        let joined: Vec<Batch> = batches[batches.len() % each..].chunks(each).map(Batch::all).collect();
        let seen = seen(&joined);
        if !depend(&seen) {
            return Some((interval(&seen), each));
        }
        last = Some((farthest(&seen), each));
        each += each.div_ceil(4);
    }
    last
}

/// The mean. The half-width is the distance of the farthest value from the mean.
fn farthest(of: &[f64]) -> Interval {
    let mean = mean(of);
    let half = of.iter().map(|x| (x - mean).abs()).fold(0.0, f64::max);
    Interval { mean, half }
}

/// For each batch: its sum of latencies, minus the number of its timed operations times the mean latency.
fn residuals(batches: &[Batch]) -> Vec<f64> {
    let all = Batch::all(batches);
    let mean = if all.timed == 0 { 0.0 } else { all.latency as f64 / all.timed as f64 };
    batches.iter().map(|b| b.latency as f64 - mean * b.timed as f64).collect()
}

fn mean(of: &[f64]) -> f64 {
    of.iter().sum::<f64>() / of.len() as f64
}

/// Sum of squared distances to the mean.
fn spread(of: &[f64]) -> f64 {
    let mean = mean(of);
    of.iter().map(|x| (x - mean) * (x - mean)).sum()
}

pub(super) fn interval(of: &[f64]) -> Interval {
    let n = of.len();
    let t = STUDENT.get(n - LEAST).copied().unwrap_or(STUDENT[MOST - LEAST]);
    let error = (spread(of) / (n as f64 * (n as f64 - 1.0))).sqrt();
    Interval { mean: mean(of), half: t * error }
}

/// Whether neighbours are more alike than by chance. Von Neumann's ratio decides this: the sum of squared
/// steps between neighbours, divided by the sum of squared distances to the mean. For n independent values,
/// the ratio is 2 on average, with variance 4 (n - 2) / (n^2 - 1).
pub(super) fn depend(of: &[f64]) -> bool {
    let n = of.len() as f64;
    let steps: f64 = of.windows(2).map(|pair| (pair[1] - pair[0]) * (pair[1] - pair[0])).sum();
    let least = 2.0 - ONE_SIDED * (4.0 * (n - 2.0) / (n * n - 1.0)).sqrt();
    steps < least * spread(of)
}
