//! Latencies of operations.

use doorbell_verbs::Span;
use hdrhistogram::Histogram;

/// Longest latency that is distinguished, in nanoseconds. Longer latencies count as this one.
const LONGEST_NS: u64 = 10_000_000_000;

/// Latencies that are listed before they go to a histogram.
const FEW: usize = 1024;

/// Latencies in nanoseconds, and their sum to the picosecond. The first thousand are a list: a histogram
/// takes tens of kilobytes, and there are thousands of clients, most with few operations.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    /// Sum in picoseconds, so that a mean is not cut to whole nanoseconds.
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
    /// Adds a latency. It counts as 1 ns if it is shorter, and as 10^10 ns if it is longer, except in the
    /// sum.
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

    /// Adds to the sum only. Callers of `record_n` need it.
    pub(crate) fn add_to_sum(&mut self, picoseconds: u64) {
        self.sum = self.sum.saturating_add(picoseconds);
    }

    /// Adds `count` latencies, except to the sum. Returns `None` if `ns` is too long for a histogram.
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

    /// All latencies in nanoseconds, to three digits.
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
