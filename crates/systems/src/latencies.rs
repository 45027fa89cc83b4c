//! Latencies of operations.

use doorbell_verbs::Span;
use hdrhistogram::Histogram;

/// Longest latency that is distinguished, in nanoseconds. Longer latencies count as this one.
const LONGEST_NS: u64 = 10_000_000_000;

/// Length at which the list of latencies is moved to the histogram.
const FEW: usize = 1024;

/// Latencies in nanoseconds, and their sum in picoseconds. Fewer than 1024 latencies need no histogram: a
/// histogram takes tens of kilobytes, and most of thousands of clients have few operations.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// Sum in picoseconds, so that a mean is not rounded to whole nanoseconds.
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
    /// Adds a latency. In the histogram, latencies below 1 ns count as 1 ns, and latencies above 10^10 ns as
    /// 10^10 ns.
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

    /// Adds to the sum only, for callers of [`Latencies::record_n`].
    pub(crate) fn add_to_sum(&mut self, picoseconds: u64) {
        self.sum = self.sum.saturating_add(picoseconds);
    }

    /// Adds `count` latencies of `ns` nanoseconds to the histogram, but not to the sum. Returns `None` if
    /// `ns` is too long for a histogram.
    pub(crate) fn record_n(&mut self, ns: u64, count: u32) -> Option<()> {
        self.many.get_or_insert_with(empty).record_n(ns, count).ok()
    }

    /// Adds another thread's latencies.
    pub fn add(&mut self, other: &Latencies) {
        self.sum = self.sum.saturating_add(other.sum);
        other.few.iter().for_each(|ns| self.keep(*ns));
        if let Some(many) = &other.many {
            self.many.get_or_insert_with(empty).add(many).expect("the histograms have equal bounds");
        }
    }

    /// The sum of all latencies, in picoseconds.
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// All latencies in nanoseconds, with three significant digits.
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
