//! The parameters that are set, each on its scale.

use doorbell_nic::{Basis, Parameter, Profile, Scale, Unit};
use std::collections::BTreeMap;

/// A parameter that is set.
pub(crate) struct Free {
    pub(crate) name: String,
    pub(crate) scale: Scale,
    unit: Unit,
    /// The least that is counted.
    least: f64,
    /// Parameters that have its value.
    followers: Vec<String>,
}

/// Steps after which no further one changes a value.
const FURTHEST: u32 = 10;

/// Digits of a value that are kept.
const DIGITS: i32 = 3;

impl Free {
    #[cfg(test)]
    pub(crate) fn new(name: &str, range: [f64; 2], unit: Unit) -> Free {
        Free { name: name.into(), scale: Scale::of(range), unit, least: least(range), followers: Vec::new() }
    }

    fn of(parameter: &Parameter, profile: &Profile) -> Option<Free> {
        let Basis::Calibrated { range: Some(range), .. } = parameter.basis else { return None };
        Some(Free {
            name: parameter.name.clone(),
            scale: Scale::of(range),
            unit: parameter.unit,
            least: least(range),
            followers: profile.followers(&parameter.name).map(|p| p.name.clone()).collect(),
        })
    }

    /// The value at a place of its scale, as a file has it.
    pub(crate) fn value(&self, z: f64) -> f64 {
        let value = self.scale.value(z);
        match self.unit {
            Unit::Count | Unit::Bytes => value.round().max(self.least),
            _ => rounded(value),
        }
    }

    /// A place about `step` from `z` at which the value is another one, and how far that is from the value at `z`: `z` itself where
    /// there is none, as nothing is below 0.
    pub(crate) fn step(&self, z: f64, step: f64) -> (f64, f64) {
        let from = self.value(z);
        let places = (1..=FURTHEST).map(|n| z + step * f64::from(n));
        match places.into_iter().find(|&to| self.value(to) != from) {
            Some(to) => (to, self.scale.at(self.value(to)) - self.scale.at(from)),
            None => (z, 0.0),
        }
    }
}

/// Of things that there may be none of, none.
fn least([low, _]: [f64; 2]) -> f64 {
    low.min(1.0).ceil()
}

/// To three digits.
fn rounded(value: f64) -> f64 {
    if value == 0.0 {
        return 0.0;
    }
    let unit = 10f64.powi(value.abs().log10().floor() as i32 + 1 - DIGITS);
    // Powers of ten below one are not exact: what is divided by their inverse is the nearest number.
    if unit < 1.0 { (value / unit).round() / (1.0 / unit).round() } else { (value / unit).round() * unit }
}

/// All of them.
pub(crate) struct Space {
    pub(crate) free: Vec<Free>,
    profile: Profile,
}

impl Space {
    /// Of a profile.
    ///
    /// # Errors
    /// If it has none: one sentence.
    pub(crate) fn of(profile: &Profile) -> Result<Space, String> {
        let free: Vec<Free> = profile.parameters.iter().filter_map(|p| Free::of(p, profile)).collect();
        match free.is_empty() {
            false => Ok(Space { free, profile: profile.clone() }),
            true => Err(format!(
                "no parameter of {} is calibrated and has a range, so that there is nothing to set",
                profile.name
            )),
        }
    }

    /// The values at a place, by name.
    pub(crate) fn values(&self, z: &[f64]) -> BTreeMap<String, f64> {
        let mut values = BTreeMap::new();
        for (free, &z) in self.free.iter().zip(z) {
            let value = free.value(z);
            values.insert(free.name.clone(), value);
            values.extend(free.followers.iter().map(|name| (name.clone(), value)));
        }
        values
    }

    /// The profile with the values at a place.
    ///
    /// # Errors
    /// If one of them is none that the parameter can have: one sentence.
    pub(crate) fn profile(&self, z: &[f64]) -> Result<Profile, String> {
        self.profile.with_set(&self.values(z)).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_may_be_none_of_what_a_range_says_so_of() {
        let lowest = |range| Free::new("a", range, Unit::Count).value(-9.0);
        assert_eq!((lowest([0.0, 16.0]), lowest([1.0, 16.0])), (0.0, 1.0));
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
}
