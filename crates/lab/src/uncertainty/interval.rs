//! Intervals of results from drawn parameters.

/// Share of the distribution beyond each end of the interval.
const BEYOND: f64 = 0.05;

/// Number of bisection steps to find an end of the interval.
const HALVINGS: u32 = 60;

/// Interval that holds 90% of a mixture of distributions: one around each number, with the model's relative
/// standard error.
///
/// # Panics
/// If there are no numbers.
pub fn relative(numbers: &[f64], model: f64) -> [f64; 2] {
    // A rate of 0 has no logarithm, so the least positive number replaces it.
    let logarithms: Vec<f64> = numbers.iter().map(|n| n.max(f64::MIN_POSITIVE).ln()).collect();
    quantiles(&logarithms, model).map(f64::exp)
}

/// Interval that holds 90% of a mixture of normal distributions: one around each number, with the model's
/// standard error in the unit of the numbers.
///
/// # Panics
/// If there are no numbers.
pub fn quantiles(numbers: &[f64], model: f64) -> [f64; 2] {
    [BEYOND, 1.0 - BEYOND].map(|share| quantile(numbers, model.max(1e-9), share))
}

/// Quantile `share` of a mixture of normal distributions around these numbers, with this standard deviation.
fn quantile(numbers: &[f64], deviation: f64, share: f64) -> f64 {
    let below = |x: f64| {
        let normal = |n: &f64| 0.5 * libm::erfc((n - x) / (deviation * std::f64::consts::SQRT_2));
        numbers.iter().map(normal).sum::<f64>() / numbers.len() as f64
    };
    let least = numbers.iter().copied().fold(f64::INFINITY, f64::min) - 9.0 * deviation;
    let most = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max) + 9.0 * deviation;
    let halve = |(low, high): (f64, f64), _| {
        let middle = (low + high) / 2.0;
        if below(middle) < share { (middle, high) } else { (low, middle) }
    };
    (0..HALVINGS).fold((least, most), halve).0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ninety_percent_lie_between() {
        let near =
            |[a, b]: [f64; 2], [c, d]: [f64; 2]| (a / c - 1.0).abs() < 0.002 && (b / d - 1.0).abs() < 0.002;
        // A single normal distribution of the logarithm.
        assert!(near(relative(&[50.0; 3], 0.1), [50.0 * (-0.1645f64).exp(), 50.0 * 0.1645f64.exp()]));
        // For evenly spread numbers without model error, a twentieth of the range is cut off at each end.
        let numbers: Vec<f64> = (0..1000).map(|i| (f64::from(i) / 1000.0).exp()).collect();
        assert!(near(relative(&numbers, 0.0), [0.05f64.exp(), 0.95f64.exp()]));
        // Some draws have no result.
        assert!(relative(&[0.0, 10.0], 0.1)[0] < 1e-300);
    }
}
