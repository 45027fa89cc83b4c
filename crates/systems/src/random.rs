//! Random draws by integer arithmetic alone, so that every machine draws alike.

use doorbell_verbs::Span;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A stream of draws.
#[derive(Clone, Debug)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Stream number `stream` of a seed. Each thread uses its own number.
    pub fn new(seed: u64, stream: u64) -> Random {
        Random(Xoshiro256PlusPlus::seed_from_u64(seed ^ stream.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// A uniformly distributed number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    /// An exponentially distributed span with this mean.
    ///
    /// The method compares uniform draws (von Neumann 1951). It counts draws as long as each draw is at most
    /// the previous one. If the first draw is x, the count is odd with probability exp(-x). If the count is
    /// even, the method adds one mean to the span and starts again.
    pub fn exponential(&mut self, mean: Span) -> Span {
        let mut means = 0u128;
        loop {
            let first = self.0.next_u64();
            let (mut last, mut run) = (first, 1);
            loop {
                let next = self.0.next_u64();
                if next > last {
                    break;
                }
                (last, run) = (next, run + 1);
            }
            if run % 2 == 1 {
                let parts = means << 64 | u128::from(first);
                return Span::from_ps(((u128::from(mean.as_ps()) * (parts >> 32)) >> 32) as u64);
            }
            means += 1;
        }
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_types, reason = "proptest's macros name Arc")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DRAWS: u64 = 20_000;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

        /// The bounds are five standard errors: 1/sqrt(n) for the mean, sqrt(8/n) for the variance.
        #[test]
        fn exponential_spans_have_their_mean_and_variance(seed: u64, mean in 1_000..10_000_000_000u64) {
            let mut random = Random::new(seed, 0);
            let spans: Vec<f64> = (0..DRAWS)
                .map(|_| random.exponential(Span::from_ps(mean)).as_ps() as f64 / mean as f64)
                .collect();
            let n = DRAWS as f64;
            let found = spans.iter().sum::<f64>() / n;
            let variance = spans.iter().map(|span| (span - found).powi(2)).sum::<f64>() / n;
            prop_assert!((found - 1.0).abs() < 5.0 / n.sqrt(), "mean {}", found);
            prop_assert!((variance - 1.0).abs() < 5.0 * (8.0 / n).sqrt(), "variance {}", variance);
            // Checks the tail, too, because mean and variance do not determine the distribution.
            let beyond = spans.iter().filter(|span| **span > 3.0).count() as f64 / n;
            prop_assert!((beyond - (-3.0f64).exp()).abs() < 5.0 * (0.05 / n).sqrt(), "beyond three means {}", beyond);
        }
    }
}
