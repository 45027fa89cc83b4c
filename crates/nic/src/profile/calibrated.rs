//! The result of `cargo xtask calibrate` for a profile: how certain its values are, and how well they fit the
//! data.

use super::parameter::{Basis, Parameter, Unit};
use crate::digits::counted;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a profile's parameters were set together, from all its data.
///
/// TOML: the table `[calibrated]`, which the program writes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Calibrated {
    /// The data, and the value that the model finds for each.
    pub data: Vec<Met>,
    /// The model's own error.
    pub model: ModelError,
    /// Draws of the uncertain parameters, by name. A number is the distance from the parameter's value in
    /// standard deviations ([`Spread`]). Number n of all parameters is one joint draw, given the data.
    pub draws: BTreeMap<String, Vec<f64>>,
}

impl Calibrated {
    /// Checks the numbers, and that each draw belongs to one of `parameters`.
    pub(super) fn check(&self, parameters: &[Parameter]) -> Result<(), String> {
        let ModelError { verbs, systems } = self.model;
        for (name, error) in [("verbs", verbs), ("systems", systems)] {
            if !(0.0..=LARGEST_ERROR).contains(&error) {
                return Err(format!("calibrated.model.{name} is {error}, not within 0 to {LARGEST_ERROR}"));
            }
        }
        for Met { id, found, error, left_out } in &self.data {
            if [Some(*found), *error, *left_out].into_iter().flatten().any(|number| !number.is_finite()) {
                return Err(format!("calibrated.data of {id} has a number that is not finite"));
            }
        }
        let draws = self.draws.values().next().map_or(0, Vec::len);
        for (name, steps) in &self.draws {
            if !parameters.iter().any(|parameter| parameter.name == *name) {
                return Err(format!("calibrated.draws has {name}, which is not a parameter of this profile"));
            }
            if steps.len() != draws || draws == 0 {
                return Err(format!(
                    "calibrated.draws.\"{name}\" has {}, but all parameters must have equally many, and at \
                     least one",
                    counted(steps.len() as u64, "number")
                ));
            }
            if let Some(step) = steps.iter().find(|step| !(-FARTHEST..=FARTHEST).contains(*step)) {
                return Err(format!(
                    "calibrated.draws.\"{name}\" has {step}, not within {FARTHEST} standard deviations"
                ));
            }
        }
        Ok(())
    }
}

/// The largest relative model error for which an interval is still meaningful.
const LARGEST_ERROR: f64 = 10.0;

/// The most standard deviations that a draw may be away from the parameter's value. In 39 draws, none is that
/// far away.
const FARTHEST: f64 = 10.0;

/// How well the model meets a datum.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Met {
    /// Id of the claim or the measurement.
    pub id: String,
    /// The value found with the profile's parameters; for a statement, 1 if it holds or 0 if not.
    pub found: f64,
    /// Relative error of the found value against the measured one; absent for a statement.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// Relative error if the profile is set from the other data alone, to first order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<f64>,
}

/// The model's own error with the best parameters: relative standard errors, from data that were left out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelError {
    /// Error of a workload of verbs.
    pub verbs: f64,
    /// Error of a system.
    pub systems: f64,
}

/// A normal distribution has 90% of its values within this many standard deviations of its mean.
pub const NINETY_PERCENT: f64 = 1.645;

/// A scale on which a parameter's possible values have the standard normal distribution. The parameter's
/// range holds 90% of the distribution. The scale is logarithmic unless the range begins at 0.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    centre: f64,
    deviation: f64,
    is_log: bool,
}

impl Scale {
    /// The scale of a range.
    fn of([least, most]: [f64; 2]) -> Scale {
        let is_log = least > 0.0;
        let (least, most) = if is_log { (least.ln(), most.ln()) } else { (least, most) };
        Scale { centre: (least + most) / 2.0, deviation: (most - least) / (2.0 * NINETY_PERCENT), is_log }
    }

    /// The value at `z` standard deviations above the middle; never below 0.
    fn value(&self, z: f64) -> f64 {
        let x = self.centre + self.deviation * z;
        if self.is_log { x.exp() } else { x.max(0.0) }
    }

    /// Distance of a value from the middle in standard deviations.
    fn at(&self, value: f64) -> f64 {
        let x = if self.is_log { value.ln() } else { value };
        (x - self.centre) / self.deviation
    }
}

/// The possible values of a parameter around a point on its scale. A step is one standard deviation, or less
/// towards the nearer end of the range.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    scale: Scale,
    centre: f64,
    below: f64,
    above: f64,
    /// The least possible number, for parameters that are counted.
    whole: Option<f64>,
}

/// Significant digits of a value that are kept.
const DIGITS: i32 = 3;

/// Rounds to three digits.
fn rounded(value: f64) -> f64 {
    // A difference that should be zero may leave a small remainder.
    if value.abs() < 1e-9 {
        return 0.0;
    }
    let unit = 10f64.powi(value.abs().log10().floor() as i32 + 1 - DIGITS);
    // Powers of ten below one are not exact. Dividing by their inverse gives the nearest number.
    if unit < 1.0 { (value / unit).round() / (1.0 / unit).round() } else { (value / unit).round() * unit }
}

impl Spread {
    /// The spread of a parameter that can have any value in `range`, around the middle of the range.
    pub fn of(range: [f64; 2], unit: Unit) -> Spread {
        // If a range includes zero, the count may be zero.
        let least = range[0].min(1.0).ceil();
        let whole = matches!(unit, Unit::Count | Unit::Bytes).then_some(least);
        Spread { scale: Scale::of(range), centre: 0.0, below: 1.0, above: 1.0, whole }
    }

    /// This spread around `value` instead of the middle. The range still holds 90% of the distribution.
    fn about(self, value: f64) -> Spread {
        let centre = self.scale.at(value);
        let towards = |end: f64| (end / NINETY_PERCENT).max(0.0);
        let (below, above) = (towards(NINETY_PERCENT + centre), towards(NINETY_PERCENT - centre));
        Spread { centre, below, above, ..self }
    }

    /// The value `steps` standard deviations from the spread's centre, rounded as in a file.
    pub fn value(&self, steps: f64) -> f64 {
        let step = if steps < 0.0 { self.below } else { self.above };
        let value = self.scale.value(self.centre + steps * step);
        self.whole.map_or_else(|| rounded(value), |least| value.round().max(least))
    }

    /// Distance of a value from the spread's centre in standard deviations; 0 if the spread has no values on
    /// that side.
    pub fn at(&self, value: f64) -> f64 {
        let far = self.scale.at(value) - self.centre;
        let step = if far < 0.0 { self.below } else { self.above };
        if step > 0.0 { far / step } else { 0.0 }
    }
}

/// Parameters that are not uncertain: the owner of a device knows them, or the costs were set for them.
const KNOWN: [&str; 7] = [
    "nic.max_inline_bytes",
    "nic.max_sge",
    "nic.max_qp_wr",
    "nic.max_cqe",
    "nic.max_rd_atomic",
    "tx.units",
    "rx.units",
];

impl Parameter {
    /// The spread of the parameter's possible values around its own value, if known. For a calibrated
    /// parameter, the steps are as long as they were without the data.
    pub fn spread(&self) -> Option<Spread> {
        let all = Spread::of(self.range()?, self.unit);
        match self.basis {
            Basis::Calibrated { .. } => Some(Spread { centre: all.scale.at(self.value), ..all }),
            _ if KNOWN.contains(&self.name.as_str()) => None,
            _ => Some(all.about(self.value)),
        }
    }

    /// The range of the parameter's possible values, if it has one.
    pub fn range(&self) -> Option<[f64; 2]> {
        match &self.basis {
            Basis::Calibrated { range, .. } | Basis::Assumed { range, .. } => *range,
            Basis::Published { .. } | Basis::Set { .. } => None,
        }
    }

    /// Name of the parameter whose value this parameter always has.
    pub fn same_as(&self) -> Option<&str> {
        match &self.basis {
            Basis::Assumed { same_as, .. } => same_as.as_deref(),
            Basis::Published { .. } | Basis::Calibrated { .. } | Basis::Set { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn three_digits_are_kept() {
        for (value, expected) in [
            (0.0, 0.0),
            (131.6432, 132.0),
            (18.6449, 18.6),
            (1.234_56, 1.23),
            (0.012_345, 0.0123),
            (4096.0, 4100.0),
        ] {
            assert_eq!(rounded(value), expected, "{value}");
        }
    }

    #[test]
    fn there_may_be_none_of_what_a_range_says_so_of() {
        let lowest = |range| Spread::of(range, Unit::Count).value(-9.0);
        assert_eq!((lowest([0.0, 16.0]), lowest([1.0, 16.0])), (0.0, 1.0));
    }

    /// Around the end of its range a spread goes only inwards, as far as the other end.
    #[test]
    fn a_spread_keeps_to_its_range() {
        for (value, ends) in [(0.0, [0.0, 80.0]), (80.0, [0.0, 80.0]), (20.0, [0.0, 80.0])] {
            let spread = Spread::of([0.0, 80.0], Unit::Nanoseconds).about(value);
            assert_eq!([-1.645, 0.0, 1.645].map(|u| spread.value(u)), [ends[0], value, ends[1]]);
            let beside = [-0.5, 0.5].map(|u| spread.at(spread.value(u)));
            assert!(beside.iter().zip([-0.5, 0.5]).all(|(b, u)| *b == 0.0 || (b - u).abs() < 0.01));
        }
    }
}
