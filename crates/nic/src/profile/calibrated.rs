//! What `cargo xtask calibrate` found when it set a profile: how sure its values are, and how well they meet their data.

use super::parameter::{Basis, Parameter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a profile's parameters were set together, from all its data.
///
/// TOML: the table `[calibrated]`, which the program writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Calibrated {
    /// Names of the parameters.
    pub parameters: Vec<String>,
    /// Their covariance, on the scale of each ([`Scale`]); a row for each of them.
    pub covariance: Vec<Vec<f64>>,
    /// The data, and what was found for each.
    pub data: Vec<Met>,
}

/// How a datum is met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Met {
    /// The claim, or the measurement.
    pub id: String,
    /// What is found with the values that the profile has; 1 or 0 for a statement that holds or does not.
    pub found: f64,
    /// How much more is found than was measured, relative to that; none for a statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// The same where the profile is set from the other data alone, to first order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<f64>,
}

/// Standard deviations of a normal distribution between which 90% of it lies.
const NINETY_PERCENT: f64 = 1.645;

/// A scale on which what a parameter could be is a normal distribution of mean 0 and standard deviation 1: 90% of it is the range
/// that it is given. The scale is logarithmic where the range does not begin at 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    centre: f64,
    deviation: f64,
    is_log: bool,
}

impl Scale {
    /// Of a range.
    pub fn of([least, most]: [f64; 2]) -> Scale {
        let is_log = least > 0.0;
        let (least, most) = if is_log { (least.ln(), most.ln()) } else { (least, most) };
        Scale { centre: (least + most) / 2.0, deviation: (most - least) / (2.0 * NINETY_PERCENT), is_log }
    }

    /// The value at `z` standard deviations above the middle; never below 0.
    pub fn value(&self, z: f64) -> f64 {
        let x = self.centre + self.deviation * z;
        if self.is_log { x.exp() } else { x.max(0.0) }
    }

    /// Standard deviations of a value above the middle.
    pub fn at(&self, value: f64) -> f64 {
        let x = if self.is_log { value.ln() } else { value };
        (x - self.centre) / self.deviation
    }
}

impl Parameter {
    /// What it could be, as far as that is a range.
    pub fn range(&self) -> Option<[f64; 2]> {
        match &self.basis {
            Basis::Calibrated { range, .. } | Basis::Assumed { range, .. } => *range,
            Basis::Published { .. } | Basis::Set { .. } => None,
        }
    }

    /// The parameter whose value it has.
    pub fn same_as(&self) -> Option<&str> {
        match &self.basis {
            Basis::Assumed { same_as, .. } => same_as.as_deref(),
            Basis::Published { .. } | Basis::Calibrated { .. } | Basis::Set { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Scale;

    #[test]
    fn ninety_percent_lie_in_the_range() {
        for (range, middle) in [([20.0, 80.0], 40.0), ([0.0, 80.0], 40.0)] {
            let scale = Scale::of(range);
            assert!((scale.value(0.0) - middle).abs() < 1e-9);
            assert!((scale.value(-1.645) - range[0]).abs() < 1e-9);
            assert!((scale.value(1.645) - range[1]).abs() < 1e-9);
            assert!((scale.at(scale.value(0.7)) - 0.7).abs() < 1e-9);
        }
        assert_eq!(Scale::of([0.0, 80.0]).value(-5.0), 0.0);
    }
}
