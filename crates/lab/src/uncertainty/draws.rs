//! Draws profiles from the ranges of their parameters.

use doorbell_nic::{Calibrated, ModelError, NINETY_PERCENT, Profile, Spread};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Number of runs with drawn parameters. Together with the run with the profile's own parameters, these are
/// 40 runs.
pub const DRAWS: usize = 39;

/// A profile with uncertain parameters.
pub(crate) struct Uncertain<'a> {
    pub(crate) profile: &'a Profile,
    calibrated: &'a Calibrated,
    /// Parameters to draw, with their spreads.
    pub(crate) moving: Vec<(&'a str, Spread)>,
}

impl<'a> Uncertain<'a> {
    /// Reads the uncertainty of a profile.
    ///
    /// # Errors
    /// One sentence if the uncertainty of its calibrated parameters is unknown.
    pub(crate) fn of(profile: &'a Profile) -> Result<Uncertain<'a>, String> {
        let Some(calibrated) = &profile.calibrated else {
            return Err(format!(
                "the uncertainty of the calibrated parameters of {} is not known: section `[calibrated]` of \
                 a profile states it, and cargo xtask calibrate computes it",
                profile.name
            ));
        };
        let moving = profile.parameters.iter().filter_map(|p| Some((p.name.as_str(), p.spread()?))).collect();
        Ok(Uncertain { profile, calibrated, moving })
    }

    /// The error of the model itself.
    pub(crate) fn model(&self) -> ModelError {
        self.calibrated.model
    }

    /// Draws a profile. Also returns how far each parameter deviates from its value, in standard deviations.
    /// Uses draw number `draw` of the calibration for parameters that have one, and `random` for other
    /// parameters.
    ///
    /// # Errors
    /// One sentence if the drawn values are not valid in a profile.
    pub(crate) fn draw(
        &self,
        draw: usize,
        random: &mut Xoshiro256PlusPlus,
    ) -> Result<(Profile, Vec<f64>), String> {
        let mut step = |(name, _): &(&str, Spread)| {
            let drawn = self.calibrated.draws.get(*name).and_then(|steps| steps.get(draw)).copied();
            drawn.unwrap_or_else(|| within_its_range(random))
        };
        let steps: Vec<f64> = self.moving.iter().map(&mut step).collect();
        let moved =
            self.moving.iter().zip(&steps).map(|((name, spread), &steps)| (*name, spread.value(steps)));
        let drawn = self.profile.with_set(&self.profile.with_followers(moved));
        let drawn = drawn.map_err(|e| {
            format!(
                "parameters drawn from the ranges of {} are not valid in a profile: {e}",
                self.profile.name
            )
        })?;
        Ok((drawn, steps))
    }
}

/// Draws a deviation in standard deviations, within the 90% range of a normal distribution.
fn within_its_range(random: &mut Xoshiro256PlusPlus) -> f64 {
    loop {
        let step: f64 = StandardNormal.sample(random);
        if step.abs() <= NINETY_PERCENT {
            return step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;

    fn value(profile: &Profile, name: &str) -> f64 {
        profile.parameters.iter().find(|p| p.name == name).expect("a parameter").value
    }

    fn drawn(profile: &Profile, seed: u64) -> Vec<Profile> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let uncertain = Uncertain::of(profile).expect("cib was calibrated");
        (0..DRAWS).map(|i| uncertain.draw(i, &mut random).expect("a profile may have it").0).collect()
    }

    #[test]
    fn a_profile_has_its_own_draws() {
        let cib = Profile::named("cib").expect("a built-in profile");
        let spread = cib.parameters.iter().find(|p| p.name == "tx.send_ns").and_then(|p| p.spread());
        let (spread, steps) =
            (spread.expect("a range"), &cib.calibrated.as_ref().expect("draws").draws["tx.send_ns"]);
        assert_eq!(steps.len(), DRAWS);
        for (drawn, &steps) in drawn(&cib, 1).iter().zip(steps) {
            assert_eq!(value(drawn, "tx.send_ns"), spread.value(steps));
            // This parameter has the value of `tx.send_ns`.
            assert_eq!(value(drawn, "tx.fetched_wqe_ns"), spread.value(steps));
        }
    }

    /// In another host there are no draws from calibration, so all parameters are drawn here.
    #[test]
    fn a_nic_in_another_host_has_draws() {
        let profiles = Profile::names().map(|name| Profile::named(name).expect("a built-in profile"));
        for profile in profiles.filter(|profile| profile.calibrated.is_some()) {
            let moved = profile.on_host("e7520-t4").expect("a built-in profile");
            assert_eq!(drawn(&moved, 1).len(), DRAWS);
        }
    }

    #[test]
    fn what_is_set_stays_and_what_was_not_drawn_is() {
        let cib = Profile::named("cib").expect("a built-in profile");
        let mut set = cib.with_set(&[("tx.send_ns".to_owned(), 40.0)].into()).expect("a value it may have");
        set.calibrated.as_mut().expect("draws").draws.remove("rx.packet_ns");
        let (one, other) = (drawn(&set, 1), drawn(&set, 2));
        assert!(one.iter().all(|p| value(p, "tx.send_ns") == 40.0));
        let packets = |drawn: &[Profile]| drawn.iter().map(|p| value(p, "rx.packet_ns")).collect::<Vec<_>>();
        assert_ne!(packets(&one), packets(&other));
        assert_ne!(packets(&one), packets(&drawn(&cib, 1)));
    }
}
