//! Trends: levels that still rise or fall, although their intervals are narrow.
//!
//! A state that fills over tens of milliseconds changes the rate by little within a short measurement. So the
//! interval of the mean looks narrow, but the long-run mean lies outside. A straight line through the batches
//! shows the trend.

use super::means::{Interval, LEAST, MOST, Means, depend};
use doorbell_schema::Share;
use doorbell_systems::series::Batch;

/// A slope counts as a trend if it is at least this many standard errors.
const SIGNIFICANT: f64 = 2.0;

/// A slope that is at least this many standard errors is no accident, even among many runs.
const CLEAR: f64 = 3.5;

/// A trend may continue, more and more slowly. The long-run level is assumed to lie within this many times
/// the change that was observed.
const CONTINUES: f64 = 5.0;

/// The changes of rate and mean latency by trends over a measured time, relative to their means. Zero without
/// a trend.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Drift {
    /// Relative change of the rate.
    pub rate: f64,
    /// Relative change of the mean latency.
    pub latency: f64,
}

impl Drift {
    /// The trends over these batches.
    pub fn of(batches: &[Batch]) -> Drift {
        let change = |line: Line| match line.is_curve || line.is(SIGNIFICANT) {
            true => line.change,
            false => 0.0,
        };
        Drift::by(batches, change)
    }

    /// The trends over these batches that are no accident. Fewer than 1% of steady series have such a trend.
    pub fn clear(batches: &[Batch]) -> Drift {
        Drift::by(batches, |line| if line.is(CLEAR) { line.change } else { 0.0 })
    }

    /// The trends over these batches that are no accident, and that are straight lines.
    pub fn straight(batches: &[Batch]) -> Drift {
        Drift::by(batches, |line| if !line.is_curve && line.is(CLEAR) { line.change } else { 0.0 })
    }

    fn by(batches: &[Batch], change: impl Fn(Line) -> f64) -> Drift {
        let mean = |batch: &Batch| (batch.timed > 0).then(|| batch.latency as f64 / batch.timed as f64);
        let rate = line(batches, |batch| Some(batch.completed as f64));
        Drift { rate: rate.map_or(0.0, &change), latency: line(batches, mean).map_or(0.0, change) }
    }

    /// The larger of both changes, without its sign.
    pub fn largest(self) -> f64 {
        self.rate.abs().max(self.latency.abs())
    }

    /// Whether both levels are within the precision of their long-run levels, even if the trends continue.
    pub fn is_within(self, precision: Share) -> bool {
        CONTINUES * self.largest() <= precision.of_one()
    }

    /// Widens intervals so that they hold the levels to which the trends may lead.
    #[must_use]
    pub fn widens(self, means: Means) -> Means {
        let wider = |interval: Interval, change: f64| Interval {
            half: interval.half + CONTINUES * change.abs() * interval.mean,
            ..interval
        };
        Means {
            rate: wider(means.rate, self.rate),
            latency: means.latency.map(|latency| wider(latency, self.latency)),
        }
    }
}

/// The line through a number of the batches. The batches are joined until their deviations from the line
/// are independent. If they never become independent, the line is a curve. `None` if there are too few
/// batches, or if some batch lacks the number.
fn line(batches: &[Batch], number: impl Fn(&Batch) -> Option<f64>) -> Option<Line> {
    let mut each = batches.len().div_ceil(MOST).max(1);
    let mut last = None;
    while batches.len() / each >= LEAST {
        // As for means, the batches that are left over are the first ones.
        let joined = batches[batches.len() % each..].chunks(each).map(Batch::all);
        let line = Line::of(&joined.map(|batch| number(&batch)).collect::<Option<Vec<f64>>>()?);
        last = Some(line);
        if !line.is_curve {
            break;
        }
        each += each.div_ceil(4);
    }
    last
}

/// A straight line through numbers in order. Change and error are relative to the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    /// Change from the first number to the last.
    change: f64,
    /// Standard error of the change.
    error: f64,
    /// Whether the deviations from the line depend on each other.
    is_curve: bool,
}

impl Line {
    fn of(numbers: &[f64]) -> Line {
        let n = numbers.len() as f64;
        let mean = numbers.iter().sum::<f64>() / n;
        let middle = (n - 1.0) / 2.0;
        let places = || (0..numbers.len()).map(|i| i as f64 - middle);
        let squares = n * (n * n - 1.0) / 12.0;
        let slope = places().zip(numbers).map(|(x, y)| x * (y - mean)).sum::<f64>() / squares;
        let deviations: Vec<f64> = places().zip(numbers).map(|(x, y)| y - mean - slope * x).collect();
        let variance = deviations.iter().map(|d| d * d).sum::<f64>() / (n - 2.0);
        let relative = if mean > 0.0 { n / mean } else { 0.0 };
        Line {
            change: slope * relative,
            error: (variance / squares).sqrt() * relative,
            is_curve: depend(&deviations),
        }
    }
}

impl Line {
    /// Whether the change is at least this many standard errors.
    fn is(&self, errors: f64) -> bool {
        self.change.abs() >= errors * self.error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::{Rng, SeedableRng};

    /// Deviations that are independent, and do not alternate.
    const NOISE: [f64; 16] =
        [0.3, -0.1, -0.4, 0.2, 0.1, -0.3, 0.4, -0.2, 0.0, 0.3, -0.3, 0.1, -0.1, 0.2, -0.2, 0.0];

    fn noisy(slope: f64) -> Line {
        let numbers: Vec<f64> = (0..16).map(|i| 100.0 + slope * f64::from(i) + NOISE[i as usize]).collect();
        Line::of(&numbers)
    }

    #[test]
    fn a_slope_is_found_with_its_error() {
        let rises = noisy(0.5);
        assert!((rises.change - 0.5 * 16.0 / 103.75).abs() < 0.01 && !rises.is_curve, "{rises:?}");
        assert!(rises.change > 10.0 * rises.error, "{rises:?}");
        let level = noisy(0.0);
        assert!(level.change.abs() < SIGNIFICANT * level.error && !level.is_curve, "{level:?}");
    }

    #[test]
    fn a_curve_is_no_line() {
        let decay: Vec<f64> = (0..32).map(|i| 100.0 + 30.0 * 0.8f64.powi(i)).collect();
        let line = Line::of(&decay);
        assert!(line.is_curve && line.change < -0.05, "{line:?}");
    }

    /// Batches whose numbers of operations and mean latencies are independent and nearly normal.
    fn steady(seed: u64, number: usize) -> Vec<Batch> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut normal = || (0..6).map(|_| (random.next_u64() % 10_000) as f64).sum::<f64>() / 3e4 - 1.0;
        let batch = |_| {
            let (completed, each) = (10_000.0 + 100.0 * normal(), 10_000.0 + 100.0 * normal());
            let completed = completed as u64;
            Batch { completed, evened: completed, timed: completed, latency: completed * each as u64 }
        };
        (0..number).map(batch).collect()
    }

    /// A run that a limit of time cuts off says that it drifts only if it does.
    #[test]
    fn steady_series_are_rarely_said_to_drift() {
        for number in [32, 200] {
            let drifts = (0..1000).filter(|seed| Drift::clear(&steady(*seed, number)) != Drift::default());
            let drifts = drifts.count();
            assert!(drifts <= 10, "{drifts} of 1000 series of {number} batches");
        }
    }

    #[test]
    fn a_level_that_falls_is_said_to_drift() {
        let mut batches = steady(1, 200);
        for (i, batch) in batches.iter_mut().enumerate() {
            let excess = 1.0 + 0.05 * (-(i as f64) / 100.0).exp();
            batch.completed = (batch.completed as f64 * excess) as u64;
        }
        let drift = Drift::clear(&batches);
        assert!(drift.rate < -0.02 && drift.latency == 0.0, "{drift:?}");
    }

    #[test]
    fn what_does_not_vary_does_not_drift() {
        let batch = Batch { completed: 7, evened: 7, timed: 7, latency: 700 };
        assert_eq!(Drift::of(&[batch; 100]), Drift::default());
        assert_eq!(Drift::of(&[]), Drift::default());
    }
}
