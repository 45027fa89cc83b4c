//! Statistics by which both sides are compared.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Statistic {
    /// Median one-way latency in microseconds.
    Latency,
    /// All messages divided by the total time, in millions per second.
    Rate,
}

pub(super) fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}
