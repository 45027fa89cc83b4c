//! Draws all parameters together from their distribution given the data.
//!
//! A random walk generates proposals from a linear model, which has the slopes of the data at the fit. Then
//! the data are evaluated at each proposal, and the results determine its probability of being drawn. This is
//! importance resampling without replacement (Gelman and others, Bayesian Data Analysis, 10.4). The slopes do
//! not show a cliff, but few proposals beyond a cliff are drawn.

use crate::fit::{Fit, Look, residual};
use crate::space::Space;
use doorbell_lab::uncertainty::DRAWS;
use doorbell_reproduce::calibration::{Datum, Target};
use nalgebra::DVector;
use rand_distr::{Distribution, StandardNormal, StandardUniform};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use std::f64::consts::TAU;

/// Proposals per draw.
const PROPOSALS: usize = 4;

/// Steps of the walk between two proposals. So many steps make proposals independent.
const APART: u32 = 1000;

/// Maximum number of tries until a profile allows a proposal.
const PATIENCE: u32 = 20;

/// Seed of all random numbers.
const SEED: u64 = 1;

/// The draws and their quality.
pub(crate) struct Draws {
    /// The point of each draw, with calibrated parameters first.
    pub(crate) places: Vec<Vec<f64>>,
    /// For each draw, the root mean square of the data's errors, in standard errors.
    pub(crate) off: Vec<f64>,
    /// Effective number of proposals (Kish): this many proposals with equal weights have as much information.
    pub(crate) worth: f64,
}

/// Draws points around a fit. `look` evaluates the data at the proposals. `may_be` returns whether a profile
/// allows a point.
///
/// # Errors
/// One sentence, if `look` fails, or if a profile allows no proposal in [`PATIENCE`] tries.
pub(crate) fn draw(
    space: &Space,
    data: &[Datum],
    fit: &Fit,
    may_be: &dyn Fn(&[f64]) -> bool,
    look: &Look<'_>,
) -> Result<Draws, String> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
    let mut walk = Walk::begin(space, data, fit);
    let far_out = "parameters drawn from their ranges are not valid in a profile";
    let proposals: Option<Vec<Vec<f64>>> =
        (0..DRAWS * PROPOSALS).map(|_| walk.propose(may_be, &mut random)).collect();
    let proposals = proposals.ok_or(far_out)?;
    let found = look(&proposals)?;
    // Logarithm of a proposal's weight: the log-likelihood of the data, minus its estimate by the slopes.
    let beyond = |(z, found): (&Vec<f64>, &Vec<f64>)| {
        likelihood(data.iter().zip(found).map(|(datum, &found)| residual(datum, found)))
            - walk.likelihood(&DVector::from(z.clone()))
    };
    let beyond: Vec<f64> = proposals.iter().zip(&found).map(beyond).collect();
    // Taking the largest of these keys draws by weight (Gumbel trick).
    let gumbel = |beyond: &f64| {
        let uniform: f64 = StandardUniform.sample(&mut random);
        beyond - (-uniform.ln()).ln()
    };
    let keys: Vec<f64> = beyond.iter().map(gumbel).collect();
    let mut drawn: Vec<usize> = (0..keys.len()).collect();
    drawn.sort_by(|&a, &b| keys[b].total_cmp(&keys[a]));
    drawn.truncate(DRAWS);
    Ok(Draws {
        places: drawn.iter().map(|&i| proposals[i].clone()).collect(),
        off: drawn.iter().map(|&i| off(data, &found[i])).collect(),
        worth: worth(&beyond),
    })
}

/// Root mean square of the data's errors with these findings, in standard errors.
pub(crate) fn off(data: &[Datum], found: &[f64]) -> f64 {
    let squares = data.iter().zip(found).map(|(datum, &found)| residual(datum, found).powi(2));
    (squares.sum::<f64>() / data.len() as f64).sqrt()
}

/// Kish's effective number of draws, from logarithms of weights.
fn worth(logarithms: &[f64]) -> f64 {
    let largest = logarithms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights = logarithms.iter().map(|logarithm| (logarithm - largest).exp());
    weights.clone().sum::<f64>().powi(2) / weights.map(|weight| weight * weight).sum::<f64>()
}

/// Log-likelihood of data with these errors, up to a constant. Errors are in standard errors.
fn likelihood(off: impl Iterator<Item = f64>) -> f64 {
    -off.map(|off| off * off).sum::<f64>() / 2.0
}

/// A random walk through the parameters' distribution, as the slopes estimate it. The method is elliptical
/// slice sampling (Murray, Adams, MacKay, 2010).
struct Walk<'a> {
    data: &'a [Datum],
    fit: &'a Fit,
    /// Point of the fit.
    fitted: DVector<f64>,
    at: DVector<f64>,
}

impl<'a> Walk<'a> {
    fn begin(space: &Space, data: &'a [Datum], fit: &'a Fit) -> Walk<'a> {
        let mut fitted = DVector::zeros(space.free.len() + space.assumed.len());
        fitted.rows_mut(0, fit.z.len()).copy_from_slice(&fit.z);
        Walk { data, fit, at: fitted.clone(), fitted }
    }

    fn propose(
        &mut self,
        may_be: &dyn Fn(&[f64]) -> bool,
        random: &mut Xoshiro256PlusPlus,
    ) -> Option<Vec<f64>> {
        (0..PATIENCE).find_map(|_| {
            (0..APART).for_each(|_| self.step(random));
            let z = self.at.as_slice();
            may_be(z).then(|| z.to_vec())
        })
    }

    /// Moves to a point on an ellipse through the current point and a point that is drawn from the
    /// distribution without data.
    fn step(&mut self, random: &mut Xoshiro256PlusPlus) {
        let mut normal = || -> f64 { StandardNormal.sample(random) };
        let other = DVector::from_fn(self.at.len(), |_, _| normal());
        let mut uniform = || -> f64 { StandardUniform.sample(random) };
        let least = self.likelihood(&self.at) + uniform().ln();
        let mut angle = uniform() * TAU;
        let (mut low, mut high) = (angle - TAU, angle);
        loop {
            let there = &self.at * angle.cos() + &other * angle.sin();
            if self.likelihood(&there) > least {
                self.at = there;
                return;
            }
            // Shrink the interval towards the current point, whose likelihood is sufficient.
            if angle < 0.0 {
                low = angle
            } else {
                high = angle
            }
            angle = low + uniform() * (high - low);
        }
    }

    /// Log-likelihood of the data at a point, as the slopes estimate it.
    fn likelihood(&self, z: &DVector<f64>) -> f64 {
        let steps = z - &self.fitted;
        let (below, above) = (steps.map(|step| step.min(0.0)), steps.map(|step| step.max(0.0)));
        let free = self.fit.z.len();
        let of_side = |side: usize, steps: &DVector<f64>| {
            &self.fit.moves[side] * steps.rows(0, free)
                + &self.fit.assumed[side] * steps.rows(free, steps.len() - free)
        };
        let moves = of_side(0, &below) + of_side(1, &above);
        likelihood(self.data.iter().enumerate().map(|(i, datum)| match datum.target {
            Target::Holds => moves[i],
            Target::Number(_) | Target::Between(..) => {
                residual(datum, self.fit.found[i] * (moves[i] * datum.error).exp())
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::Free;
    use nalgebra::DMatrix;

    /// Findings for a sum of two parameters, and for a limit that the slopes at the fit do not show. One of
    /// the parameters is assumed.
    fn found(z: &[Vec<f64>]) -> Result<Vec<Vec<f64>>, String> {
        let of = |z: &Vec<f64>| {
            let limit = if z[1] < -0.3 { 0.5 } else { 1.0 };
            vec![10.0 * (0.1 * (z[0] + z[1])).exp(), 10.0 * limit]
        };
        Ok(z.iter().map(of).collect())
    }

    fn drawn() -> Vec<Vec<f64>> {
        let free = |name| Free::new(name, [1.0, 100.0]);
        let space = Space::with(vec![free("a")], vec![free("b")]);
        let data = [("sum", 10.0), ("limited", 10.0)].map(|(id, n)| Datum::new(id, Target::Number(n), 0.01));
        let slopes = || DMatrix::from_column_slice(2, 1, &[10.0, 0.0]);
        let fit = Fit {
            z: vec![0.0],
            found: vec![10.0; 2],
            slopes: slopes(),
            moves: [slopes(), slopes()],
            assumed: [slopes(), slopes()],
            looks: 1,
            ended: String::new(),
        };
        draw(&space, &data, &fit, &|_| true, &found).unwrap().places
    }

    /// Draws keep the sum near its datum, while both parameters vary.
    #[test]
    fn draws_keep_to_the_data() {
        let drawn = drawn();
        assert_eq!(drawn.len(), DRAWS);
        let deviation = |of: fn(&Vec<f64>) -> f64| {
            (drawn.iter().map(|z| of(z).powi(2)).sum::<f64>() / drawn.len() as f64).sqrt()
        };
        let (sum, one) = (deviation(|z| z[0] + z[1]), deviation(|z| z[1]));
        assert!(sum < 0.15 && one > 0.4, "{sum} {one}");
    }

    #[test]
    fn what_slopes_do_not_see_is_seen() {
        assert!(drawn().iter().all(|z| z[1] >= -0.3));
    }
}
