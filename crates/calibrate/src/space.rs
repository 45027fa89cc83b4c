//! The parameters that are set, each on its scale, and those that are uncertain beside them.

use doorbell_nic::{Basis, Parameter, Profile, Spread};
use std::collections::BTreeMap;
use toml_edit::DocumentMut;

/// A parameter that is moved.
pub(crate) struct Free {
    pub(crate) name: String,
    pub(crate) spread: Spread,
}

/// Steps after which no further one changes a value.
const FURTHEST: u32 = 10;

impl Free {
    #[cfg(test)]
    pub(crate) fn new(name: &str, range: [f64; 2]) -> Free {
        Free { name: name.into(), spread: Spread::of(range, doorbell_nic::Unit::Nanoseconds) }
    }

    fn of(parameter: &Parameter, spread: Spread) -> Free {
        Free { name: parameter.name.clone(), spread }
    }

    /// The value at a place of its scale, as a file has it.
    pub(crate) fn value(&self, z: f64) -> f64 {
        self.spread.value(z)
    }

    /// A place about `step` from `z` at which the value is another one, and how far that is from the value at `z`: `z` itself where
    /// there is none, as nothing is below 0.
    pub(crate) fn step(&self, z: f64, step: f64) -> (f64, f64) {
        let from = self.value(z);
        let places = (1..=FURTHEST).map(|n| z + step * f64::from(n));
        match places.into_iter().find(|&to| self.value(to) != from) {
            Some(to) => (to, self.spread.at(self.value(to)) - self.spread.at(from)),
            None => (z, 0.0),
        }
    }
}

/// All of them: a place has a number for each, those that are set first; what is left out is 0.
pub(crate) struct Space {
    /// Calibrated ones, about the middle of their ranges.
    pub(crate) free: Vec<Free>,
    /// Assumed ones, about their values.
    pub(crate) assumed: Vec<Free>,
    profile: Profile,
}

impl Space {
    #[cfg(test)]
    pub(crate) fn with(free: Vec<Free>, assumed: Vec<Free>) -> Space {
        Space { free, assumed, profile: Profile::named("cx").expect("a built-in profile") }
    }

    /// Of a profile with this text. What it has from its base was set there: of that it is as unsure as of what it assumes.
    ///
    /// # Errors
    /// If it has none: one sentence.
    pub(crate) fn of(profile: &Profile, text: &str) -> Result<Space, String> {
        let document: DocumentMut = text.parse().map_err(|e| format!("the profile cannot be read: {e}"))?;
        let is_own = |p: &Parameter| {
            let (section, key) = p.name.split_once('.').unwrap_or_default();
            document.get(section).is_some_and(|section| section.get(key).is_some())
        };
        let of = |p: &Parameter| match p.basis {
            Basis::Calibrated { range: Some(range), .. } if is_own(p) => {
                Some((true, Free::of(p, Spread::of(range, p.unit))))
            }
            Basis::Calibrated { range: Some(_), .. } | Basis::Assumed { .. } => {
                Some((false, Free::of(p, p.spread()?)))
            }
            _ => None,
        };
        let (free, assumed): (Vec<_>, Vec<_>) =
            profile.parameters.iter().filter_map(of).partition(|(is_set, _)| *is_set);
        let [free, assumed] =
            [free, assumed].map(|all| all.into_iter().map(|(_, free)| free).collect::<Vec<_>>());
        match free.is_empty() {
            false => Ok(Space { free, assumed, profile: profile.clone() }),
            true => Err(format!(
                "no parameter of {} is calibrated and has a range, so that there is nothing to set",
                profile.name
            )),
        }
    }

    /// The values at a place, by name.
    pub(crate) fn values(&self, z: &[f64]) -> BTreeMap<String, f64> {
        let moved = self.free.iter().chain(&self.assumed).zip(z);
        self.profile.with_followers(moved.map(|(free, &z)| (free.name.as_str(), free.value(z))))
    }

    /// The profile with the values at a place.
    ///
    /// # Errors
    /// If one of them is none that the parameter can have: one sentence.
    pub(crate) fn profile(&self, z: &[f64]) -> Result<Profile, String> {
        self.profile.with_set(&self.values(z)).map_err(|error| error.to_string())
    }
}
