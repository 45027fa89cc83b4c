//! Profiles whose parameters are drawn from what they could be.

use crate::calibration::Target;
use doorbell_nic::{Calibrated, Met, Parameter, Profile, Spread};
use nalgebra::{Cholesky, DMatrix, DVector};
use rand_distr::{Distribution, StandardNormal, StandardUniform};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::BTreeSet;
use std::f64::consts::TAU;

/// Standard errors of the model that are supposed before any datum tells of them: as many as this count as much as those
/// that data tell of. They are those that the data were given.
const SUPPOSED: f64 = 3.0;

/// Draws that are made for one that can be had.
const PATIENCE: u32 = 20;

/// Steps of a walk between draws, after which they have little to do with each other.
const APART: u32 = 200;

/// What a profile's parameters could be, with its data.
pub(crate) struct Uncertain<'a> {
    pub(crate) profile: &'a Profile,
    /// Parameters that are drawn.
    pub(crate) moving: Vec<(&'a str, Spread)>,
    /// What each does to each datum, in standard errors: a row for each datum.
    slopes: DMatrix<f64>,
    data: &'a [Met],
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
        let spread = |p: &'a Parameter| Some((p.name.as_str(), profile.spread_of(p)?));
        let moving: Vec<(&str, Spread)> = profile.parameters.iter().filter_map(spread).collect();
        let slopes = slopes(calibrated, &moving);
        let model = Model::of(profile, calibrated, &slopes).ok_or("slopes of [calibrated] are no numbers")?;
        Ok(Uncertain { profile, moving, slopes, data: &calibrated.data, model })
    }

    /// The model's own error: a relative standard error.
    pub(crate) fn model(&self, of_system: bool) -> f64 {
        if of_system { self.model.systems } else { self.model.verbs }
    }

    /// Those that are drawn one after the other.
    pub(crate) fn walk(&self) -> Walk<'_, 'a> {
        Walk { uncertain: self, at: DVector::zeros(self.moving.len()) }
    }

    /// The logarithm of how likely the data are where parameters are so many standard deviations away, beside how likely they are
    /// here: a number may be off by as much as it is here, a range is one.
    fn likelihood(&self, steps: &DVector<f64>) -> f64 {
        let moves = &self.slopes * steps;
        let off = self.data.iter().zip(moves.iter()).map(|(datum, &by)| match datum.between {
            Some([least, most]) => {
                let found = datum.found * (by * datum.within).exp();
                Target::Between(least, most).residual(found, datum.within)
            }
            None => by,
        });
        -off.map(|off| off * off).sum::<f64>() / 2.0
    }

    fn profile(&self, steps: &[f64]) -> Result<Profile, doorbell_nic::ProfileError> {
        let moved =
            self.moving.iter().zip(steps).map(|((name, spread), &steps)| (*name, spread.value(steps)));
        self.profile.with_set(&self.profile.with_followers(moved))
    }
}

/// A walk through what parameters could be, with the data: elliptical slice sampling (Murray, Adams, MacKay, 2010).
pub(crate) struct Walk<'u, 'a> {
    uncertain: &'u Uncertain<'a>,
    /// How many standard deviations each parameter is away from its value.
    at: DVector<f64>,
}

impl Walk<'_, '_> {
    /// Goes on to the next profile, with how many standard deviations each parameter is away from its value.
    pub(crate) fn draw(&mut self, random: &mut Xoshiro256PlusPlus) -> Option<(Profile, Vec<f64>)> {
        (0..PATIENCE).find_map(|_| {
            (0..APART).for_each(|_| self.step(random));
            let steps = self.at.as_slice();
            // What no profile may have is drawn again: it is far out.
            Some((self.uncertain.profile(steps).ok()?, steps.to_vec()))
        })
    }

    /// To a place on an ellipse through here and through one that is drawn without the data.
    fn step(&mut self, random: &mut Xoshiro256PlusPlus) {
        let mut normal = || -> f64 { StandardNormal.sample(random) };
        let other = DVector::from_fn(self.at.len(), |_, _| normal());
        let mut uniform = || -> f64 { StandardUniform.sample(random) };
        let least = self.uncertain.likelihood(&self.at) + uniform().ln();
        let mut angle = uniform() * TAU;
        let (mut low, mut high) = (angle - TAU, angle);
        loop {
            let there = &self.at * angle.cos() + &other * angle.sin();
            if self.uncertain.likelihood(&there) > least {
                self.at = there;
                return;
            }
            // Towards here, where it is likely enough.
            if angle < 0.0 {
                low = angle
            } else {
                high = angle
            }
            angle = low + uniform() * (high - low);
        }
    }
}

/// What each parameter does to each datum, in standard errors: a row for each datum.
fn slopes(calibrated: &Calibrated, moving: &[(&str, Spread)]) -> DMatrix<f64> {
    DMatrix::from_fn(calibrated.data.len(), moving.len(), |datum, parameter| {
        let of_parameter = calibrated.slopes.get(moving[parameter].0);
        of_parameter.and_then(|of| of.get(&calibrated.data[datum].id)).copied().unwrap_or(0.0)
    })
}

/// Slopes of data that are numbers; a range tells of parameters only where it is left.
fn numbers(calibrated: &Calibrated, slopes: &DMatrix<f64>) -> DMatrix<f64> {
    let mut numbers = slopes.clone();
    for (mut row, _) in
        numbers.row_iter_mut().zip(&calibrated.data).filter(|(_, datum)| datum.between.is_some())
    {
        row.fill(0.0);
    }
    numbers
}

impl Model {
    /// From how far data are off that were left out, less what parameters explain of it.
    fn of(profile: &Profile, calibrated: &Calibrated, slopes: &DMatrix<f64>) -> Option<Model> {
        let numbers = numbers(calibrated, slopes);
        let information = numbers.transpose() * &numbers + DMatrix::identity(slopes.ncols(), slopes.ncols());
        let factor = Cholesky::new(information)?;
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
        Some(Model {
            verbs: error(&verbs, crate::calibration::ERROR_OF_VERBS),
            systems: error(&systems, crate::calibration::ERROR_OF_SYSTEMS),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_xoshiro::rand_core::SeedableRng;

    /// Numbers lie about what is found as far as they may be off; ranges are kept to, softly.
    #[test]
    fn draws_keep_to_the_data() {
        let profile = Profile::named("cib").unwrap();
        let uncertain = Uncertain::of(&profile).unwrap();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
        let mut walk = uncertain.walk();
        let drawn: Vec<DVector<f64>> =
            (0..200).map(|_| &uncertain.slopes * DVector::from(walk.draw(&mut random).unwrap().1)).collect();
        for (i, datum) in uncertain.data.iter().enumerate() {
            let square = drawn.iter().map(|moves| moves[i] * moves[i]).sum::<f64>() / drawn.len() as f64;
            // As far as ranges alone leave it.
            let alone = uncertain.slopes.row(i).norm();
            match datum.between {
                None => assert!(square.sqrt() < 1.3 && square.sqrt() < alone + 0.3, "{}: {square}", datum.id),
                Some([least, most]) => {
                    let found = drawn.iter().map(|moves| datum.found * (moves[i] * datum.within).exp());
                    let far = 1.0 + 3.0 * datum.within;
                    let kept = found.filter(|found| (least / far..=most * far).contains(found)).count();
                    assert!(kept * 10 > drawn.len() * 9, "{}: {kept}", datum.id);
                }
            }
        }
    }
}
