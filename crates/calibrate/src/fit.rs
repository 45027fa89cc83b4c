//! Fits the parameters: results come near the measured data, and parameters stay near their likely values.

use crate::space::{Free, Space};
use doorbell_reproduce::calibration::{Datum, Target};
use levenberg_marquardt::{LeastSquaresProblem, LevenbergMarquardt};
use nalgebra::storage::Owned;
use nalgebra::{DMatrix, DVector, Dyn};

/// Distance on its scale by which a parameter is moved to measure its effect. The distance is so large that
/// the effect exceeds the noise of a run's random draws.
const STEP: f64 = 0.3;

/// The search ends when the relative gain of the sum of squares, or the relative step, falls below this.
const ENOUGH: f64 = 1e-2;

/// Limit on a search's evaluations of all data, in multiples of the number of parameters plus 1.
const PATIENCE: usize = 4;

/// Length of the first step, in standard deviations of all parameters together.
const FIRST_STEP: f64 = 3.0;

/// Distance at which a better point is looked for, in standard deviations of a parameter without data.
const FAR: f64 = 0.5;

/// Evaluates every datum at each of several points. A point holds the parameters on their scales.
pub(crate) type Look<'a> = dyn Fn(&[Vec<f64>]) -> Result<Vec<Vec<f64>>, String> + 'a;

/// Distance of a finding from the measured value, in standard errors.
pub(crate) fn residual(datum: &Datum, found: f64) -> f64 {
    datum.target.residual(found, datum.error)
}

/// A finding on a scale of standard errors, regardless of the measured value.
fn scaled(datum: &Datum, found: f64) -> f64 {
    match datum.target {
        Target::Holds => residual(datum, found),
        Target::Number(_) | Target::Between(..) => found.max(f64::MIN_POSITIVE).ln() / datum.error,
    }
}

/// Result of a fit.
pub(crate) struct Fit {
    pub(crate) z: Vec<f64>,
    /// Finding for each datum at the fitted point.
    pub(crate) found: Vec<f64>,
    /// Slopes of the residuals at the fitted point, with a row for each datum and a column for each
    /// parameter.
    pub(crate) slopes: DMatrix<f64>,
    /// Slopes of the findings with respect to the calibrated parameters, in standard errors of the data.
    pub(crate) moves: Sides,
    /// Slopes of the findings with respect to the assumed parameters, in standard errors of the data.
    pub(crate) assumed: Sides,
    /// Number of evaluations of all data, without the evaluations for slopes.
    pub(crate) looks: usize,
    /// The search's own name for the reason why it ended.
    pub(crate) ended: String,
}

/// Finds the point with the least sum of squares: of the data's residuals, and of the parameters on their
/// scales. The search starts in the middle of all ranges.
///
/// # Errors
/// One sentence, if a run fails or the user stops it.
pub(crate) fn fit(space: &Space, data: &[Datum], look: &Look<'_>) -> Result<Fit, String> {
    let z = DVector::zeros(space.free.len());
    let mut problem = Problem { space, data, look, z, found: Err("no point was evaluated".into()) };
    problem.look();
    let search = LevenbergMarquardt::new()
        .with_ftol(ENOUGH)
        .with_xtol(ENOUGH)
        .with_stepbound(FIRST_STEP)
        .with_patience(PATIENCE)
        .with_scale_diag(false);
    let (mut least, mut looks) = (f64::INFINITY, 0);
    // A corner can end a search early. So another search starts at the end of the previous search, with long
    // steps again, as long as that helps. Then a better point elsewhere is tried, if there is one.
    let (ends, found, ended) = loop {
        let (there, report) = search.minimize(problem);
        problem = there;
        looks += report.number_of_evaluations;
        let enough = report.objective_function >= (1.0 - ENOUGH) * least;
        least = least.min(report.objective_function);
        let found = problem.found.clone()?;
        if enough {
            let ends = problem.ends()?;
            if !problem.goes_elsewhere(&ends, &found)? {
                break (ends, found, format!("{:?}", report.termination));
            }
        }
    };
    let (slopes, moves) = (ends.slopes(data, residual), ends.sides(data, &found, scaled));
    let assumed = problem.ends_of_assumed()?.sides(data, &found, scaled);
    Ok(Fit { z: problem.z.as_slice().to_vec(), found, slopes, moves, assumed, looks, ended })
}

/// The problem to minimise. Its residuals are the residuals of the data and then the parameters.
struct Problem<'a> {
    space: &'a Space,
    data: &'a [Datum],
    look: &'a Look<'a>,
    z: DVector<f64>,
    /// Findings at the point `z`.
    found: Result<Vec<f64>, String>,
}

impl Problem<'_> {
    fn look(&mut self) {
        let here = [self.z.as_slice().to_vec()];
        self.found = (self.look)(&here).map(|found| found.into_iter().flatten().collect());
    }

    fn of_data(&self, found: &[f64]) -> Vec<f64> {
        self.data.iter().zip(found).map(|(datum, &found)| residual(datum, found)).collect()
    }

    /// Half the sum of squares at the point `z` with these findings.
    fn objective(&self, z: &[f64], found: &[f64]) -> f64 {
        let all = self.of_data(found).into_iter().chain(z.iter().copied());
        all.map(|residual| residual * residual).sum::<f64>() / 2.0
    }

    /// Looks for a better point far from the current point, which has the findings `found`. Moves each
    /// parameter by [`FAR`] to both sides, and all other parameters along the slopes. If the best of these
    /// points is better than the current point, it becomes the current point. Returns whether it did.
    fn goes_elsewhere(&mut self, ends: &Ends, found: &[f64]) -> Result<bool, String> {
        let covariance = covariance(&ends.slopes(self.data, residual))?;
        let moved = |i: usize, far: f64| {
            let along = covariance.column(i) / covariance[(i, i)];
            (&self.z + along * far).as_slice().to_vec()
        };
        let places: Vec<Vec<f64>> = (0..self.z.len()).flat_map(|i| [moved(i, -FAR), moved(i, FAR)]).collect();
        let there = (self.look)(&places)?;
        let objectives = places.iter().zip(&there).map(|(z, found)| self.objective(z, found));
        let best = objectives.enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        let here = self.objective(self.z.as_slice(), found);
        match best {
            Some((place, objective)) if objective < (1.0 - ENOUGH) * here => {
                self.z = DVector::from(places[place].clone());
                self.found = Ok(there[place].clone());
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Findings with each parameter moved by equal steps down and up. Equal steps average the slopes on both
    /// sides of a corner.
    fn ends(&self) -> Result<Ends, String> {
        let here = self.z.as_slice();
        let steps: Vec<[(f64, f64); 2]> =
            self.space.free.iter().zip(here).map(|(f, &z)| [f.step(z, -STEP), f.step(z, STEP)]).collect();
        let ends = steps.iter().enumerate().flat_map(|(i, ends)| ends.map(|(to, _)| moved(here, i, to)));
        let there = (self.look)(&ends.collect::<Vec<_>>())?;
        let far = steps.iter().map(|ends| ends.map(|(_, far)| far)).collect();
        Ok(Ends { far, there })
    }

    /// Findings with each assumed parameter moved to the ends of its likely range.
    fn ends_of_assumed(&self) -> Result<Ends, String> {
        let ends = |i: usize| [-1.0, 1.0].map(|to| moved(self.z.as_slice(), self.space.free.len() + i, to));
        let assumed = &self.space.assumed;
        let there = (self.look)(&(0..assumed.len()).flat_map(ends).collect::<Vec<_>>())?;
        let far = |free: &Free| [-1.0, 1.0].map(|to| free.spread.at(free.value(to)));
        Ok(Ends { far: assumed.iter().map(far).collect(), there })
    }
}

/// Covariance of the parameters on their scales, from the slopes of the data. Without data, each parameter
/// has a variance of 1 on its scale.
///
/// # Errors
/// If the matrix has no inverse. This does not happen with finite slopes.
pub(crate) fn covariance(slopes: &DMatrix<f64>) -> Result<DMatrix<f64>, String> {
    let parameters = slopes.ncols();
    let information = slopes.transpose() * slopes + DMatrix::identity(parameters, parameters);
    Ok(information.try_inverse().ok_or("the parameters' covariance cannot be computed")?)
}

/// A point with one parameter changed. Missing parameters are 0.
fn moved(here: &[f64], i: usize, to: f64) -> Vec<f64> {
    let mut z = here.to_vec();
    z.resize(here.len().max(i + 1), 0.0);
    z[i] = to;
    z
}

/// Slopes of the data below and above the point. Each matrix has a row for each datum and a column for each
/// parameter.
pub(crate) type Sides = [DMatrix<f64>; 2];

/// Findings with each parameter moved down and up.
struct Ends {
    /// Distance of each parameter's move down and up.
    far: Vec<[f64; 2]>,
    /// Findings of each parameter's move down, and then of its move up.
    there: Vec<Vec<f64>>,
}

impl Ends {
    /// Slope of `measure` from the lower to the upper end, with a row for each datum and a column for each
    /// parameter.
    fn slopes(&self, data: &[Datum], measure: impl Fn(&Datum, f64) -> f64) -> DMatrix<f64> {
        DMatrix::from_fn(data.len(), self.far.len(), |datum, parameter| {
            let [below, above] = [0, 1].map(|end| measure(&data[datum], self.at(parameter, end)[datum]));
            let [down, up] = self.far[parameter];
            slope(above - below, up - down)
        })
    }

    /// Slopes of `measure` on both sides of the point with the findings `found`.
    fn sides(&self, data: &[Datum], found: &[f64], measure: impl Fn(&Datum, f64) -> f64) -> Sides {
        [0, 1].map(|end| {
            DMatrix::from_fn(data.len(), self.far.len(), |datum, parameter| {
                let there = measure(&data[datum], self.at(parameter, end)[datum]);
                slope(there - measure(&data[datum], found[datum]), self.far[parameter][end])
            })
        })
    }

    fn at(&self, parameter: usize, end: usize) -> &[f64] {
        &self.there[2 * parameter + end]
    }
}

/// The slope, or 0 for a parameter that cannot be moved.
fn slope(rise: f64, far: f64) -> f64 {
    if far == 0.0 { 0.0 } else { rise / far }
}

impl LeastSquaresProblem<f64, Dyn, Dyn> for Problem<'_> {
    type ResidualStorage = Owned<f64, Dyn>;
    type JacobianStorage = Owned<f64, Dyn, Dyn>;
    type ParameterStorage = Owned<f64, Dyn>;

    fn set_params(&mut self, z: &DVector<f64>) {
        if self.z != *z {
            self.z.copy_from(z);
            self.look();
        }
    }

    fn params(&self) -> DVector<f64> {
        self.z.clone()
    }

    fn residuals(&self) -> Option<DVector<f64>> {
        let mut all = self.of_data(self.found.as_ref().ok()?);
        all.extend(&self.z);
        Some(all.into())
    }

    fn jacobian(&self) -> Option<DMatrix<f64>> {
        let slopes = self.ends().ok()?.slopes(self.data, residual);
        let (data, parameters) = slopes.shape();
        let mut all = slopes.resize_vertically(data + parameters, 0.0);
        (0..parameters).for_each(|i| all[(data + i, i)] = 1.0);
        Some(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sure::Sure;

    fn space() -> Space {
        let free = |(name, range)| Free::new(name, range);
        let [a, b, c] = [("a", [10.0, 90.0]), ("b", [0.0, 60.0]), ("c", [1.0, 100.0])].map(free);
        Space::with(vec![a, b, c], vec![free(("d", [5.0, 50.0]))])
    }

    fn profile() -> doorbell_nic::Profile {
        doorbell_nic::Profile::named("cx").unwrap()
    }

    fn datum(id: &str, target: Target) -> Datum {
        Datum::new(id, target, 0.01)
    }

    /// Findings: the sum of a and b, a alone, and twice b. All grow with d, which is assumed. None depends on
    /// c.
    fn found(z: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, String> {
        let space = space();
        let of = |z: &Vec<f64>| {
            let [a, b] = [0, 1].map(|i| space.free[i].value(z[i]));
            let more = space.assumed[0].value(z.get(3).copied().unwrap_or(0.0)) / space.assumed[0].value(0.0);
            [a + b, a, 2.0 * b].map(|n| n * more).into()
        };
        Ok(z.iter().map(of).collect())
    }

    #[test]
    fn data_set_parameters_and_those_they_say_nothing_of_stay() {
        let data = [
            datum("sum", Target::Number(60.0)),
            datum("a", Target::Number(25.0)),
            datum("twice b", Target::Between(10.0, 100.0)),
        ];
        let fit = fit(&space(), &data, &found).unwrap();
        let [a, b, c] = [0, 1, 2].map(|i| space().free[i].value(fit.z[i]));
        assert!((a - 25.0).abs() < 0.3 && (b - 35.0).abs() < 0.5, "{a}, {b}");
        assert_eq!(c, 10.0, "the middle of its range");
        let sure = Sure::of(&profile(), &fit, &data).unwrap();
        assert!(sure.deviation(0) < 0.05 && sure.deviation(2) == 1.0);
        assert!(sure.is_unknown(2) && !sure.is_unknown(1));
        for side in &fit.assumed {
            let per_error = side[(0, 0)] * 0.01;
            assert!(
                (per_error - 10f64.ln() / 3.29).abs() < 0.01,
                "{per_error}: what is assumed moves data, too"
            );
        }
    }

    /// The estimated error of a left-out datum is near its error in a fit without the datum.
    #[test]
    fn errors_without_a_datum_are_those_of_a_fit_without_it() {
        let all = [
            datum("sum", Target::Number(60.0)),
            datum("a", Target::Number(26.0)),
            datum("twice b", Target::Number(66.0)),
        ];
        let sure = Sure::of(&profile(), &fit(&space(), &all, &found).unwrap(), &all).unwrap();
        let without = |z: &[Vec<f64>]| found(z).map(|f| f.into_iter().map(|f| f[..2].to_vec()).collect());
        let fit = fit(&space(), &all[..2], &without).unwrap();
        let there = found(&[fit.z]).unwrap()[0][2] / 66.0 - 1.0;
        let told = sure.errors[2].unwrap();
        assert!((told.1 - there).abs() < 0.2 * there.abs(), "{told:?}, {there}");
        assert!(told.0.abs() < told.1.abs());
    }

    /// Two values of a meet the datum. The search starts nearer to the value that meets the datum less well.
    #[test]
    fn another_valley_is_found() {
        let data = [datum("valleys", Target::Number(10.0))];
        let look = |z: &[Vec<f64>]| {
            // A cliff down to the measured value. The cliff is farther from the bottom of the first valley
            // than the slopes reach.
            let of = |z: &Vec<f64>| {
                vec![if z[0] > 0.35 { 10.0 } else { 10.0 * (0.05 + (z[0] + 0.1).powi(2)).exp() }]
            };
            Ok(z.iter().map(of).collect())
        };
        let fit = fit(&space(), &data, &look).unwrap();
        assert!(fit.z[0] > 0.35, "{}", fit.z[0]);
    }

    #[test]
    fn who_cannot_look_ends_the_search_with_the_reason() {
        let fails = |_: &[Vec<f64>]| Err("stopped".to_owned());
        assert_eq!(fit(&space(), &[datum("a", Target::Holds)], &fails).err().unwrap(), "stopped");
    }
}
