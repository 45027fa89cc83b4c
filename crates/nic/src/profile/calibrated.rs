//! What `cargo xtask calibrate` found when it set a profile: how sure its values are, and how well they meet their data.

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
    /// The data, and what was found for each.
    pub data: Vec<Met>,
    /// The model's own error.
    pub model: ModelError,
    /// By parameter, of those that are uncertain: how many standard deviations ([`Spread`]) it is away from its value in each of some draws
    /// from what all of them could be together, with the data.
    pub draws: BTreeMap<String, Vec<f64>>,
}

impl Calibrated {
    /// That it is of these parameters.
    pub(super) fn check(&self, parameters: &[Parameter]) -> Result<(), String> {
        let ModelError { verbs, systems } = self.model;
        for (name, error) in [("verbs", verbs), ("systems", systems)] {
            if !(0.0..=LARGEST_ERROR).contains(&error) {
                return Err(format!("calibrated.model.{name} is {error}, not within 0 to {LARGEST_ERROR}"));
            }
        }
        for Met { id, found, error, left_out } in &self.data {
            if [Some(*found), *error, *left_out].into_iter().flatten().any(|number| !number.is_finite()) {
                return Err(format!("calibrated.data of {id} has a number that is none"));
            }
        }
        let draws = self.draws.values().next().map_or(0, Vec::len);
        for (name, steps) in &self.draws {
            if !parameters.iter().any(|parameter| parameter.name == *name) {
                return Err(format!("calibrated.draws has {name}, which is no parameter of this profile"));
            }
            if steps.len() != draws || draws == 0 {
                return Err(format!(
                    "calibrated.draws.\"{name}\" has {}, but each parameter has as many, and at least one",
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

/// The largest relative error of a model of which an interval still says something.
const LARGEST_ERROR: f64 = 10.0;

/// Standard deviations that a draw is away at most: of 39 none is ever as far.
const FARTHEST: f64 = 10.0;

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

/// How far the model is off whatever its parameters are: relative standard errors, from data that were left out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelError {
    /// Of a workload of verbs.
    pub verbs: f64,
    /// Of a system.
    pub systems: f64,
}

/// Standard deviations of a normal distribution between which 90% of it lies.
pub const NINETY_PERCENT: f64 = 1.645;

/// A scale on which what a parameter could be is a normal distribution of mean 0 and standard deviation 1: 90% of it is the range
/// that it is given. The scale is logarithmic where the range does not begin at 0.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Scale {
    centre: f64,
    deviation: f64,
    is_log: bool,
}

impl Scale {
    /// Of a range.
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

    /// Standard deviations of a value above the middle.
    fn at(&self, value: f64) -> f64 {
        let x = if self.is_log { value.ln() } else { value };
        (x - self.centre) / self.deviation
    }
}

/// What a parameter could be, about a place on its scale: steps of one standard deviation from there, shorter ones towards the end of its range
/// that is nearer.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread {
    scale: Scale,
    centre: f64,
    below: f64,
    above: f64,
    /// The least that is counted, of what is counted.
    whole: Option<f64>,
}

/// Digits of a value that are kept.
const DIGITS: i32 = 3;

/// To three digits.
fn rounded(value: f64) -> f64 {
    // What is left of a difference is nothing.
    if value.abs() < 1e-9 {
        return 0.0;
    }
    let unit = 10f64.powi(value.abs().log10().floor() as i32 + 1 - DIGITS);
    // Powers of ten below one are not exact: what is divided by their inverse is the nearest number.
    if unit < 1.0 { (value / unit).round() / (1.0 / unit).round() } else { (value / unit).round() * unit }
}

impl Spread {
    /// Of a parameter in this unit that could be anything in this range, about the middle of it.
    pub fn of(range: [f64; 2], unit: Unit) -> Spread {
        // Of things that there may be none of, none.
        let least = range[0].min(1.0).ceil();
        let whole = matches!(unit, Unit::Count | Unit::Bytes).then_some(least);
        Spread { scale: Scale::of(range), centre: 0.0, below: 1.0, above: 1.0, whole }
    }

    /// The same about a value of it, beside which there is as much of its distribution as beside the middle.
    fn about(self, value: f64) -> Spread {
        let centre = self.scale.at(value);
        let towards = |end: f64| (end / NINETY_PERCENT).max(0.0);
        let (below, above) = (towards(NINETY_PERCENT + centre), towards(NINETY_PERCENT - centre));
        Spread { centre, below, above, ..self }
    }

    /// The value so many standard deviations away, as a file has it.
    pub fn value(&self, steps: f64) -> f64 {
        let step = if steps < 0.0 { self.below } else { self.above };
        let value = self.scale.value(self.centre + steps * step);
        self.whole.map_or_else(|| rounded(value), |least| value.round().max(least))
    }

    /// How many standard deviations away a value is; 0 where there is no way there.
    pub fn at(&self, value: f64) -> f64 {
        let far = self.scale.at(value) - self.centre;
        let step = if far < 0.0 { self.below } else { self.above };
        if step > 0.0 { far / step } else { 0.0 }
    }
}

/// What is known to who has the device, or that costs were set for: no part of what is uncertain.
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
    /// What it could be beside its value, where that is known: of a calibrated one without its data, in steps as long as without them.
    pub fn spread(&self) -> Option<Spread> {
        let all = Spread::of(self.range()?, self.unit);
        match self.basis {
            Basis::Calibrated { .. } => Some(Spread { centre: all.scale.at(self.value), ..all }),
            _ if KNOWN.contains(&self.name.as_str()) => None,
            _ => Some(all.about(self.value)),
        }
    }

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

    /// About the end of its range it goes one way only, and as far as the other end.
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
