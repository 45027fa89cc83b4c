//! Profiles whose parameters are drawn from what they could be.

use doorbell_nic::{Calibrated, Met, Profile, Spread};
use nalgebra::{Cholesky, DMatrix, DVector, Dyn};
use rand_distr::{Distribution, StandardNormal};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeSet;

/// Standard errors of the model that are supposed before any datum tells of them: as many as this count as much as those
/// that data tell of. They are those that the data were given.
const SUPPOSED: f64 = 3.0;

/// Draws that are made for one that can be had.
const PATIENCE: u32 = 20;

/// What a profile's parameters could be, with its data.
pub(crate) struct Uncertain<'a> {
    pub(crate) profile: &'a Profile,
    /// Parameters that are drawn.
    pub(crate) moving: Vec<(&'a str, Spread)>,
    /// Of the inverse of their covariance.
    factor: Cholesky<f64, Dyn>,
    model: Model,
}

/// The model's own error: relative standard errors.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Model {
    verbs: f64,
    systems: f64,
}

impl<'a> Uncertain<'a> {
    /// Of a profile.
    ///
    /// # Errors
    /// One sentence where nothing is known of how sure its calibrated parameters are.
    pub(crate) fn of(profile: &'a Profile) -> Result<Uncertain<'a>, String> {
        let Some(calibrated) = &profile.calibrated else {
            return Err(format!(
                "how sure the calibrated parameters of {} are is not known: `[calibrated]` of a profile says it, and cargo xtask calibrate finds it",
                profile.name
            ));
        };
        let moving: Vec<(&str, Spread)> =
            profile.parameters.iter().filter_map(|p| Some((p.name.as_str(), p.spread()?))).collect();
        let slopes = slopes(calibrated, &moving);
        let information = slopes.transpose() * &slopes + DMatrix::identity(moving.len(), moving.len());
        let factor = Cholesky::new(information).ok_or("slopes of [calibrated] are no numbers")?;
        let model = Model::of(profile, calibrated, &slopes, &factor);
        Ok(Uncertain { profile, moving, factor, model })
    }

    /// The model's own error: a relative standard error.
    pub(crate) fn model(&self, of_system: bool) -> f64 {
        if of_system { self.model.systems } else { self.model.verbs }
    }

    /// One that is drawn, with how many standard deviations each parameter is away from its value.
    pub(crate) fn draw(&self, random: &mut Xoshiro256PlusPlus) -> Option<(Profile, Vec<f64>)> {
        (0..PATIENCE).find_map(|_| {
            let normal: Vec<f64> = self.moving.iter().map(|_| StandardNormal.sample(random)).collect();
            let upper = self.factor.l().transpose();
            let steps = upper.solve_upper_triangular(&DVector::from(normal))?;
            // What no profile may have is drawn again: it is far out.
            Some((self.profile(steps.as_slice()).ok()?, steps.as_slice().to_vec()))
        })
    }

    fn profile(&self, steps: &[f64]) -> Result<Profile, doorbell_nic::ProfileError> {
        let moved =
            self.moving.iter().zip(steps).map(|((name, spread), &steps)| (*name, spread.value(steps)));
        self.profile.with_set(&self.profile.with_followers(moved))
    }
}

/// What each parameter does to each datum, in standard errors: a row for each datum.
fn slopes(calibrated: &Calibrated, moving: &[(&str, Spread)]) -> DMatrix<f64> {
    DMatrix::from_fn(calibrated.data.len(), moving.len(), |datum, parameter| {
        let of_parameter = calibrated.slopes.get(moving[parameter].0);
        of_parameter.and_then(|of| of.get(&calibrated.data[datum].id)).copied().unwrap_or(0.0)
    })
}

impl Model {
    /// From how far data are off that were left out, less what parameters explain of it.
    fn of(
        profile: &Profile,
        calibrated: &Calibrated,
        slopes: &DMatrix<f64>,
        factor: &Cholesky<f64, Dyn>,
    ) -> Model {
        let of_systems: BTreeSet<&str> = {
            let systems = &profile.measured.systems;
            systems.iter().flat_map(|m| m.claims.iter().chain(&m.runs)).map(String::as_str).collect()
        };
        let (systems, verbs): (Vec<_>, Vec<_>) =
            calibrated.data.iter().enumerate().partition(|(_, datum)| of_systems.contains(&*datum.id));
        let error = |data: &[(usize, &Met)], usual: f64| {
            let explained = |i: usize| {
                let row = slopes.row(i).transpose();
                let leverage = row.dot(&factor.solve(&row)).min(1.0 - f64::EPSILON);
                leverage / (1.0 - leverage)
            };
            // What is known little of without a datum tells little of the model.
            let own = |(i, datum): &(usize, &Met)| {
                let left_out = (1.0 + datum.left_out?).ln();
                let parameters = explained(*i) * datum.within.powi(2);
                let weight = (usual.powi(2) / (usual.powi(2) + parameters)).powi(2);
                Some((weight * (left_out.powi(2) - parameters), weight))
            };
            let told = data.iter().filter_map(own);
            let (sum, weight) = told.fold((0.0, 0.0), |(sum, all), (own, weight)| (sum + own, all + weight));
            ((sum.max(0.0) + SUPPOSED * usual.powi(2)) / (weight + SUPPOSED)).sqrt()
        };
        Model {
            verbs: error(&verbs, crate::calibration::ERROR_OF_VERBS),
            systems: error(&systems, crate::calibration::ERROR_OF_SYSTEMS),
        }
    }
}
