//! Parameters that make a number uncertain.

use schemars::JsonSchema;
use serde::Serialize;

/// Smallest share of the variance to report.
const LEAST: f64 = 0.05;

/// A correlation must exceed this value. With so few draws, no parameter without an effect reaches it by
/// chance, even among many parameters.
const SURE: f64 = 0.6;

/// A parameter that makes a result uncertain.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Cause {
    /// Name of the parameter, such as `tx.send_ns`.
    pub parameter: String,
    /// Share of the rate's variance between draws that this parameter explains.
    pub share: f64,
}

/// The parameters that explain most of the variance of `numbers`. They are found one by one: each step
/// examines the variance that the earlier ones leave.
pub(crate) fn of(names: &[String], steps: &[&Vec<f64>], numbers: &[f64]) -> Vec<Cause> {
    let logarithms = numbers.iter().map(|n| n.max(f64::MIN_POSITIVE).ln());
    let mut left = centred(logarithms.collect());
    let all = square(&left);
    let mut causes = Vec::new();
    loop {
        let correlated = (0..names.len()).map(|i| {
            let moved = centred(steps.iter().map(|steps| steps[i]).collect());
            let (product, length) = (dot(&moved, &left), square(&moved));
            (i, product / length.max(f64::MIN_POSITIVE), product / (length * square(&left)).sqrt())
        });
        let best = correlated.max_by(|a, b| a.2.abs().total_cmp(&b.2.abs()));
        let Some((i, slope, _)) = best.filter(|(.., correlation)| correlation.abs() > SURE) else { break };
        let before = square(&left);
        let moved = centred(steps.iter().map(|steps| steps[i]).collect());
        left.iter_mut().zip(&moved).for_each(|(left, moved)| *left -= slope * moved);
        let share = (before - square(&left)) / all;
        if share < LEAST {
            break;
        }
        causes.push(Cause { parameter: names[i].clone(), share });
    }
    causes
}

fn centred(mut numbers: Vec<f64>) -> Vec<f64> {
    let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
    numbers.iter_mut().for_each(|n| *n -= mean);
    numbers
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn square(a: &[f64]) -> f64 {
    dot(a, a)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_distr::{Distribution, StandardNormal};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use rand_xoshiro::rand_core::SeedableRng;

    /// Two of 80 parameters have a noticeable effect. For pure noise, no cause is found.
    #[test]
    fn those_that_count_are_found_among_many() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let names: Vec<String> = (0..80).map(|i| format!("p{i}")).collect();
        let mut row = || -> Vec<f64> { (0..80).map(|_| StandardNormal.sample(&mut random)).collect() };
        let steps: Vec<Vec<f64>> = (0..39).map(|_| row()).collect();
        let all: Vec<&Vec<f64>> = steps.iter().collect();
        let rates: Vec<f64> =
            steps.iter().map(|s| 50.0 * (0.10 * s[3] - 0.05 * s[70] + 0.005 * s[5]).exp()).collect();
        let causes = of(&names, &all, &rates);
        let told: Vec<&str> = causes.iter().map(|c| &*c.parameter).collect();
        assert_eq!(told, ["p3", "p70"]);
        assert!(causes[0].share > 0.65 && causes[1].share > 0.1, "{causes:?}");
        let noise: Vec<f64> = (0..39).map(|i| 50.0 + f64::from(i * 7919 % 39)).collect();
        assert!(of(&names, &all, &noise).is_empty());
        assert!(of(&names, &all, &[5.0; 39]).is_empty());
    }
}
