//! How sure the values are that a fit has found.

use crate::fit::{Fit, covariance, residual};
use doorbell_nic::{ModelError, Profile};
use doorbell_reproduce::calibration::{Datum, ERROR_OF_SYSTEMS, ERROR_OF_VERBS, Target};
use nalgebra::DMatrix;
use std::collections::BTreeSet;

/// How sure they are: to first order about the place that was found.
pub(crate) struct Sure {
    /// Of the parameters, on their scales, on which each has a variance of 1 without data.
    pub(crate) covariance: DMatrix<f64>,
    /// Of each datum: how much more is found than was measured, relative to that; and the same where the profile is set from the others.
    pub(crate) errors: Vec<Option<(f64, f64)>>,
    /// Beside what parameters explain.
    pub(crate) model: ModelError,
}

/// Standard errors of the model that are supposed before any datum tells of them: as many as this count as much as those
/// that data tell of. They are those that the data were given.
const SUPPOSED: f64 = 3.0;

/// Correlation from which on two parameters cannot be told apart.
const ALIKE: f64 = 0.8;

/// Share of the standard deviation that it has without data, from which on they say little of a parameter.
const UNKNOWN: f64 = 0.8;

impl Sure {
    /// Of a fit.
    ///
    /// # Errors
    /// As [`covariance`].
    pub(crate) fn of(profile: &Profile, fit: &Fit, data: &[Datum]) -> Result<Sure, String> {
        let covariance = covariance(&fit.slopes)?;
        let error = |(i, datum): (usize, &Datum)| {
            let found = residual(datum, fit.found[i]);
            let leverage = leverage(&fit.slopes, &covariance, i);
            let relative = |residual: f64| (residual * datum.error).exp() - 1.0;
            // Where the parameters follow a datum wholly, nothing is known of it without it.
            let left_out = found / (1.0 - leverage).max(f64::EPSILON);
            matches!(datum.target, Target::Number(_)).then(|| (relative(found), relative(left_out)))
        };
        let errors: Vec<Option<(f64, f64)>> = data.iter().enumerate().map(error).collect();
        let model = model(profile, fit, data, &errors)?;
        Ok(Sure { covariance, errors, model })
    }

    /// Standard deviation of a parameter, on its scale.
    pub(crate) fn deviation(&self, parameter: usize) -> f64 {
        self.covariance[(parameter, parameter)].sqrt()
    }

    /// Whether the data say little of a parameter.
    pub(crate) fn is_unknown(&self, parameter: usize) -> bool {
        self.deviation(parameter) > UNKNOWN
    }

    fn correlation(&self, a: usize, b: usize) -> f64 {
        self.covariance[(a, b)] / (self.deviation(a) * self.deviation(b))
    }

    /// Pairs of parameters of which more of one is as good as less, or more, of the other, with their correlation.
    pub(crate) fn alike(&self) -> Vec<(usize, usize, f64)> {
        let all = 0..self.covariance.ncols();
        let pairs = all.clone().flat_map(|a| (0..a).map(move |b| (b, a)));
        pairs.map(|(a, b)| (a, b, self.correlation(a, b))).filter(|(.., c)| c.abs() > ALIKE).collect()
    }
}

/// How far parameters follow a datum: 1 where wholly.
fn leverage(slopes: &DMatrix<f64>, covariance: &DMatrix<f64>, datum: usize) -> f64 {
    let row = slopes.row(datum);
    (row * covariance * row.transpose())[(0, 0)]
}

/// How far data are off that were left out, less what parameters explain of it.
fn model(
    profile: &Profile,
    fit: &Fit,
    data: &[Datum],
    errors: &[Option<(f64, f64)>],
) -> Result<ModelError, String> {
    let slopes = slopes_of_numbers(fit, data);
    let covariance = covariance(&slopes)?;
    let of_systems: BTreeSet<&str> = {
        let systems = &profile.measured.systems;
        systems.iter().flat_map(|m| m.claims.iter().chain(&m.runs)).map(String::as_str).collect()
    };
    let error = |of_system: bool, usual: f64| {
        let own = |i: usize| {
            let left_out = (1.0 + errors[i]?.1).ln();
            let leverage = leverage(&slopes, &covariance, i);
            let explained = leverage / (1.0 - leverage).max(f64::EPSILON) * data[i].error.powi(2);
            // What is known little of without a datum tells little of the model.
            let weight = (usual.powi(2) / (usual.powi(2) + explained)).powi(2);
            Some((weight * (left_out.powi(2) - explained), weight))
        };
        let group = (0..data.len()).filter(|&i| of_systems.contains(&*data[i].id) == of_system);
        let told = group.filter_map(own);
        let (sum, weight) = told.fold((0.0, 0.0), |(sum, all), (own, weight)| (sum + own, all + weight));
        ((sum.max(0.0) + SUPPOSED * usual.powi(2)) / (weight + SUPPOSED)).sqrt()
    };
    Ok(ModelError { verbs: error(false, ERROR_OF_VERBS), systems: error(true, ERROR_OF_SYSTEMS) })
}

/// What all parameters do to data that are numbers; a range tells of them only where it is left.
fn slopes_of_numbers(fit: &Fit, data: &[Datum]) -> DMatrix<f64> {
    let (free, assumed) = (fit.moves[0].ncols(), fit.assumed[0].ncols());
    DMatrix::from_fn(data.len(), free + assumed, |datum, i| {
        let (sides, i) = if i < free { (&fit.moves, i) } else { (&fit.assumed, i - free) };
        match data[datum].target {
            Target::Number(_) => (sides[0][(datum, i)] + sides[1][(datum, i)]) / 2.0,
            Target::Between(..) | Target::Holds => 0.0,
        }
    })
}
