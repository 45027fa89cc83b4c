//! Uncertainty of the fitted values.

use crate::fit::{Fit, covariance, residual};
use doorbell_nic::{ModelError, Profile};
use doorbell_reproduce::calibration::{Datum, ERROR_OF_SYSTEMS, ERROR_OF_VERBS, Target};
use nalgebra::DMatrix;
use std::collections::BTreeSet;

/// Uncertainty of a fit, to first order around the fitted values.
pub(crate) struct Sure {
    /// Covariance of the parameters on their scales. Without data, each parameter has a variance of 1 on its
    /// scale.
    pub(crate) covariance: DMatrix<f64>,
    /// For each datum that is a number, the relative error of the fit, and the estimated relative error of a
    /// fit without the datum.
    pub(crate) errors: Vec<Option<(f64, f64)>>,
    /// Error of the model that its parameters do not explain.
    pub(crate) model: ModelError,
}

/// Weight of the prior for the model's error, in number of data. The prior is the usual standard error of
/// data.
const SUPPOSED: f64 = 3.0;

/// Correlation beyond which two parameters count as indistinguishable.
const ALIKE: f64 = 0.8;

/// A parameter counts as unknown if the data leave it more than this share of its standard deviation without
/// data.
const UNKNOWN: f64 = 0.8;

impl Sure {
    /// The uncertainty of a fit.
    ///
    /// # Errors
    /// If [`covariance`] fails.
    pub(crate) fn of(profile: &Profile, fit: &Fit, data: &[Datum]) -> Result<Sure, String> {
        let covariance = covariance(&fit.slopes)?;
        let error = |(i, datum): (usize, &Datum)| {
            let found = residual(datum, fit.found[i]);
            let leverage = leverage(&fit.slopes, &covariance, i);
            let relative = |residual: f64| (residual * datum.error).exp() - 1.0;
            // If the parameters follow a datum fully, a fit without the datum says nothing about it.
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

    /// Whether the data say little about a parameter.
    pub(crate) fn is_unknown(&self, parameter: usize) -> bool {
        self.deviation(parameter) > UNKNOWN
    }

    fn correlation(&self, a: usize, b: usize) -> f64 {
        self.covariance[(a, b)] / (self.deviation(a) * self.deviation(b))
    }

    /// Pairs of indistinguishable parameters with their correlation. A change of one parameter can offset a
    /// change of the other.
    pub(crate) fn alike(&self) -> Vec<(usize, usize, f64)> {
        let all = 0..self.covariance.ncols();
        let pairs = all.clone().flat_map(|a| (0..a).map(move |b| (b, a)));
        pairs.map(|(a, b)| (a, b, self.correlation(a, b))).filter(|(.., c)| c.abs() > ALIKE).collect()
    }
}

/// Leverage of a datum: the degree to which parameters follow it, from 0 (not at all) to 1 (fully).
fn leverage(slopes: &DMatrix<f64>, covariance: &DMatrix<f64>, datum: usize) -> f64 {
    let row = slopes.row(datum);
    (row * covariance * row.transpose())[(0, 0)]
}

/// Errors of the model itself: errors of data that are left out of the fit, minus the part that parameters
/// explain.
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
            // If a fit without the datum predicts it badly, the datum says little about the model.
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

/// Slopes of the data with respect to all parameters. Data that are not numbers have slopes of 0, because a
/// range says nothing about parameters while it is met.
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
