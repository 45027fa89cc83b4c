//! How long operations took.

use hdrhistogram::Histogram;

/// Longest latency that is told apart, in nanoseconds; longer ones count as this.
const LONGEST_NS: u64 = 10_000_000_000;

/// Latencies that are kept as they came, at most.
const FEW: usize = 1024;

/// Latencies in nanoseconds. A histogram takes tens of kilobytes, and there are thousands of clients, most of
/// which see few operations: it begins with the thousandth.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
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
    /// One more, of 1 to 10^10 nanoseconds; others count as these.
    pub fn record(&mut self, ns: u64) {
        self.few.push(ns.clamp(1, LONGEST_NS));
        if self.few.len() == FEW {
            count(self.many.get_or_insert_with(empty), &self.few);
            self.few.clear();
        }
    }

    /// So many more; `None` where it is too long for a histogram.
    pub(crate) fn record_n(&mut self, ns: u64, count: u32) -> Option<()> {
        self.many.get_or_insert_with(empty).record_n(ns, count).ok()
    }

    /// Takes in another thread's.
    pub fn add(&mut self, other: &Latencies) {
        other.few.iter().for_each(|ns| self.record(*ns));
        if let Some(many) = &other.many {
            self.many.get_or_insert_with(empty).add(many).expect("histograms of equal bounds");
        }
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
                own.record(ns);
                expected.record(ns.max(1)).unwrap();
            }
            all.add(&own);
        }
        assert!(all.histogram() == expected);
        all.record(u64::MAX);
        assert!(all.histogram().max() < 2 * LONGEST_NS);
    }
}
