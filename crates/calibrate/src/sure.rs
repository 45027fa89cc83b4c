//! How sure the values are that a fit has found.

use crate::fit::{Fit, covariance, residual};
use doorbell_lab::calibration::{Datum, Target};
use nalgebra::DMatrix;

/// How sure they are: to first order about the place that was found.
pub(crate) struct Sure {
    /// Of the parameters, on their scales, on which each has a variance of 1 without data.
    pub(crate) covariance: DMatrix<f64>,
    /// Of each datum: how much more is found than was measured, relative to that; and the same where the profile is set from the others.
    pub(crate) errors: Vec<Option<(f64, f64)>>,
}

/// Correlation from which on two parameters cannot be told apart.
const ALIKE: f64 = 0.8;

/// Share of the standard deviation that it has without data, from which on they say little of a parameter.
const UNKNOWN: f64 = 0.8;

impl Sure {
    /// Of a fit.
    ///
    /// # Errors
    /// As [`covariance`].
    pub(crate) fn of(fit: &Fit, data: &[Datum]) -> Result<Sure, String> {
        let covariance = covariance(&fit.slopes)?;
        let error = |(i, datum): (usize, &Datum)| {
            let found = residual(datum, fit.found[i]);
            let row = fit.slopes.row(i);
            let leverage = (row * &covariance * row.transpose())[(0, 0)];
            let relative = |residual: f64| (residual * datum.error).exp() - 1.0;
            // Where the parameters follow a datum wholly, nothing is known of it without it.
            let left_out = found / (1.0 - leverage).max(f64::EPSILON);
            matches!(datum.target, Target::Number(_)).then(|| (relative(found), relative(left_out)))
        };
        let errors = data.iter().enumerate().map(error).collect();
        Ok(Sure { covariance, errors })
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
