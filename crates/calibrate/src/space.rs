//! The calibrated parameters, each on its scale, and the other uncertain parameters.

use doorbell_nic::{Basis, Parameter, Profile, Spread};
use std::collections::BTreeMap;
use toml_edit::DocumentMut;

/// A parameter that can be moved.
pub(crate) struct Free {
    pub(crate) name: String,
    pub(crate) spread: Spread,
}

/// Number of multiples of a step that are tried. If none of them changes the value, no larger multiple does.
const FURTHEST: u32 = 10;

impl Free {
    #[cfg(test)]
    pub(crate) fn new(name: &str, range: [f64; 2]) -> Free {
        Free { name: name.into(), spread: Spread::of(range, doorbell_nic::Unit::Nanoseconds) }
    }

    fn of(parameter: &Parameter, spread: Spread) -> Free {
        Free { name: parameter.name.clone(), spread }
    }

    /// The value at a point of the scale, rounded as a file states it.
    pub(crate) fn value(&self, z: f64) -> f64 {
        self.spread.value(z)
    }

    /// A point with another value, at the smallest multiple of `step` from `z`, and the distance between the
    /// two values on the scale. If there is no other value, because nothing lies below 0, returns `z` and 0.
    pub(crate) fn step(&self, z: f64, step: f64) -> (f64, f64) {
        let from = self.value(z);
        let places = (1..=FURTHEST).map(|n| z + step * f64::from(n));
        match places.into_iter().find(|&to| self.value(to) != from) {
            Some(to) => (to, self.spread.at(self.value(to)) - self.spread.at(from)),
            None => (z, 0.0),
        }
    }
}

/// All uncertain parameters. A point has a number for each, with calibrated parameters first. Missing numbers
/// count as 0.
pub(crate) struct Space {
    /// Calibrated parameters, on scales around the middle of their ranges.
    pub(crate) free: Vec<Free>,
    /// Assumed parameters, on scales around their values.
    pub(crate) assumed: Vec<Free>,
    profile: Profile,
}

impl Space {
    #[cfg(test)]
    pub(crate) fn with(free: Vec<Free>, assumed: Vec<Free>) -> Space {
        Space { free, assumed, profile: Profile::named("cx").expect("a built-in profile") }
    }

    /// The parameters of a profile with this text. A parameter that the profile takes from its base was
    /// calibrated there, so it counts as assumed here.
    ///
    /// # Errors
    /// One sentence, if the text is not TOML, or if the profile has no calibrated parameter with a range.
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
                "no parameter of {} is calibrated and has a range, so there is nothing to set",
                profile.name
            )),
        }
    }

    /// Values at a point, by name. They include parameters that always have the value of another parameter.
    pub(crate) fn values(&self, z: &[f64]) -> BTreeMap<String, f64> {
        let moved = self.free.iter().chain(&self.assumed).zip(z);
        self.profile.with_followers(moved.map(|(free, &z)| (free.name.as_str(), free.value(z))))
    }

    /// The profile with the values at a point.
    ///
    /// # Errors
    /// One sentence, if a parameter cannot have its value.
    pub(crate) fn profile(&self, z: &[f64]) -> Result<Profile, String> {
        self.profile.with_set(&self.values(z)).map_err(|error| error.to_string())
    }
}
