//! Units of measured values, and the model's results in these units.

use super::refusal::Refusal;
use crate::format::{MeasuredUnit, Metric, Setup};

/// How a number of the model becomes a value in the unit of a series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reading {
    /// A rate: this times millions of operations per second.
    Rate(f64),
    /// A bandwidth: this times millions of operations per second times bytes of an operation.
    Bandwidth(f64),
    /// A latency: this times nanoseconds.
    Latency(f64),
}

impl Reading {
    /// The reading of a series.
    ///
    /// # Errors
    /// If the metric is none of Doorbell's, or the unit is not one of the metric's units.
    pub(super) fn of(setup: &Setup) -> Result<Reading, Refusal> {
        let (metric, unit) = (&setup.workload.metric, &setup.unit);
        let wrong = || Refusal::Unit { metric: metric.clone(), unit: unit.clone() };
        match metric {
            Metric::Rate | Metric::Bandwidth => match (unit, bytes_per_second(unit)) {
                (MeasuredUnit::MopsPerSecond, _) => Ok(Reading::Rate(1.0)),
                (_, Some(bytes)) => Ok(Reading::Bandwidth(1e6 / bytes)),
                _ => Err(wrong()),
            },
            Metric::LatencyHalf | Metric::LatencyFull => match unit {
                MeasuredUnit::Nanoseconds => Ok(Reading::Latency(1.0)),
                MeasuredUnit::Microseconds => Ok(Reading::Latency(1e-3)),
                _ => Err(wrong()),
            },
            Metric::Other(name) => Err(Refusal::Metric(name.clone())),
        }
    }

    /// Whether the values are latencies.
    pub fn is_latency(self) -> bool {
        matches!(self, Reading::Latency(_))
    }

    /// A value from a rate in millions of operations of `size` bytes per second, or from a latency in
    /// nanoseconds.
    pub(crate) fn value(self, number: f64, size: u64) -> f64 {
        match self {
            Reading::Rate(factor) | Reading::Latency(factor) => factor * number,
            Reading::Bandwidth(factor) => factor * number * size as f64,
        }
    }
}

/// Bytes per second of a unit of bandwidth.
fn bytes_per_second(unit: &MeasuredUnit) -> Option<f64> {
    match unit {
        MeasuredUnit::GbPerSecond => Some(1e9 / 8.0),
        MeasuredUnit::MbPerSecond => Some(1e6),
        MeasuredUnit::MibPerSecond => Some(f64::from(1 << 20)),
        MeasuredUnit::GbytesPerSecond => Some(1e9),
        MeasuredUnit::GibPerSecond => Some(f64::from(1 << 30)),
        MeasuredUnit::MopsPerSecond
        | MeasuredUnit::Nanoseconds
        | MeasuredUnit::Microseconds
        | MeasuredUnit::Other(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::SeriesFile;

    fn reading(metric: &str, unit: &str) -> Reading {
        let text = format!(
            "[[measurement]]\nid = \"it\"\nnic = \"n\"\nunit = \"{unit}\"\nrole = \"check\"\nhost = \"h\"\nworkload = \
             {{ verb = \"read\", transport = \"rc\", metric = \"{metric}\", axis = \"size\" }}\nsize = [1]\nvalue = [1]"
        );
        Reading::of(&SeriesFile::parse("m.toml", &text).unwrap().series[0].setup).unwrap()
    }

    /// Two million operations of 64 KiB per second.
    #[test]
    fn values_are_in_the_unit_of_the_series() {
        for (unit, value) in [
            ("Mops/s", 2.0),
            ("Gb/s", 1048.576),
            ("MB/s", 131_072.0),
            ("MiB/s", 125_000.0),
            ("GB/s", 131.072),
            ("GiB/s", 122.0703125),
        ] {
            for metric in ["rate", "bandwidth"] {
                let found = reading(metric, unit).value(2.0, 65536);
                assert!((found / value - 1.0).abs() < 1e-12, "{metric} {unit}: {found}");
            }
        }
        assert_eq!(reading("latency-full", "ns").value(1500.0, 8), 1500.0);
        assert_eq!(reading("latency-half", "us").value(1500.0, 8), 1.5);
    }
}
