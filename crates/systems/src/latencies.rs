//! How long operations took.

use doorbell_verbs::Span;
use hdrhistogram::Histogram;

/// Longest latency that is told apart, in nanoseconds; longer ones count as this.
const LONGEST_NS: u64 = 10_000_000_000;

/// Latencies that are kept as they came, at most.
const FEW: usize = 1024;

/// Latencies in nanoseconds, and their sum to the picosecond. A histogram takes tens of kilobytes, and there are thousands of clients, most of
/// which see few operations: it begins with the thousandth.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// The sum of all, in picoseconds: what a mean is of that is not cut to whole nanoseconds.
    sum: u64,
    few: Vec<u64>,
    many: Option<Histogram<u32>>,
}

fn empty() -> Histogram<u32> {
    Histogram::new(3).expect("three digits are a valid constant")
}

fn count(histogram: &mut Histogram<u32>, latencies: &[u64]) {
    for ns in latencies {
        histogram.record(*ns).expect("the histogram grows");
    }
}

impl Latencies {
    /// One more; but in the sum, those shorter than 1 or longer than 10^10 nanoseconds count as these.
    pub fn record(&mut self, latency: Span) {
        self.sum = self.sum.saturating_add(latency.as_ps());
        self.keep(latency.as_ns());
    }

    fn keep(&mut self, ns: u64) {
        self.few.push(ns.clamp(1, LONGEST_NS));
        if self.few.len() == FEW {
            count(self.many.get_or_insert_with(empty), &self.few);
            self.few.clear();
        }
    }

    /// Adds to the sum alone what is recorded without it.
    pub(crate) fn add_to_sum(&mut self, picoseconds: u64) {
        self.sum = self.sum.saturating_add(picoseconds);
    }

    /// So many more, of which the sum is added apart; `None` where it is too long for a histogram.
    pub(crate) fn record_n(&mut self, ns: u64, count: u32) -> Option<()> {
        self.many.get_or_insert_with(empty).record_n(ns, count).ok()
    }

    /// Takes in another thread's.
    pub fn add(&mut self, other: &Latencies) {
        self.sum = self.sum.saturating_add(other.sum);
        other.few.iter().for_each(|ns| self.keep(*ns));
        if let Some(many) = &other.many {
            self.many.get_or_insert_with(empty).add(many).expect("histograms of equal bounds");
        }
    }

    /// The sum of all, in picoseconds.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// All of them, to three digits.
    pub fn histogram(&self) -> Histogram<u32> {
        let mut all = self.many.clone().unwrap_or_else(empty);
        count(&mut all, &self.few);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_are_counted_alike() {
        let (mut all, mut expected) = (Latencies::default(), empty());
        for thread in 1..4 {
            let mut own = Latencies::default();
            for n in 0..thread * FEW as u64 / 2 + 3 {
                let ns = n * n * thread;
                own.record(Span::from_ns(ns));
                expected.record(ns.max(1)).unwrap();
            }
            all.add(&own);
        }
        assert!(all.histogram() == expected);
        all.record(Span::from_ps(u64::MAX));
        assert!(all.histogram().max() < 2 * LONGEST_NS);
    }

    #[test]
    fn the_sum_is_to_the_picosecond() {
        let (mut all, mut own) = (Latencies::default(), Latencies::default());
        (0..FEW as u64 + 7).for_each(|_| own.record(Span::from_ps(1900)));
        all.add(&own);
        all.add(&own);
        assert_eq!(all.sum(), 2 * (FEW as u64 + 7) * 1900);
    }
}
