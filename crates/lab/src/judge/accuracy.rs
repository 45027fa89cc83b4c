//! How well numbers agree with the papers', each number counted once.

use crate::judge::claims;
use crate::judge::report::{Basis, ClaimReport};
use schemars::JsonSchema;
use serde::Serialize;

/// Agreement of a group of numbers. Claims that state one number several times count once, with the
/// first that was checked; what is computed from other claims does not count.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Accuracy {
    /// Which: `predicted`, `calibrated`, `analytic`, or `held out`, which are those of the predicted
    /// ones that were set aside before calibrating.
    pub group: String,
    /// Numbers.
    pub numbers: usize,
    /// Those within 10%.
    pub hold: usize,
    /// Median of the relative errors; `None` where there are no numbers.
    pub median_error: Option<f64>,
    /// Largest of them.
    pub largest_error: Option<f64>,
}

/// Of each group.
pub(crate) fn of(claims: &[ClaimReport]) -> Vec<Accuracy> {
    let mut seen = std::collections::BTreeSet::new();
    let numbers: Vec<&ClaimReport> = claims
        .iter()
        .filter(|c| c.error.is_some() && !claims::restatements().computed.contains_key(&c.id))
        .filter(|c| seen.insert(claims::first_of_group(&c.id)))
        .collect();
    let of = |basis| move |c: &&&ClaimReport| c.basis == basis;
    let held_out = |c: &&&ClaimReport| c.basis == Basis::Predicted && c.held_out;
    vec![
        group("predicted", numbers.iter().filter(of(Basis::Predicted))),
        group("held out", numbers.iter().filter(held_out)),
        group("calibrated", numbers.iter().filter(of(Basis::Calibrated))),
        group("analytic", numbers.iter().filter(of(Basis::Analytic))),
    ]
}

fn group<'a>(name: &str, claims: impl Iterator<Item = &'a &'a ClaimReport>) -> Accuracy {
    let claims: Vec<&&ClaimReport> = claims.collect();
    let mut errors: Vec<f64> = claims.iter().filter_map(|c| c.error).collect();
    errors.sort_by(f64::total_cmp);
    Accuracy {
        group: name.to_owned(),
        numbers: claims.len(),
        hold: claims.iter().filter(|c| c.holds).count(),
        median_error: median(&errors),
        largest_error: errors.last().copied(),
    }
}

/// Of numbers in order.
fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::median;

    #[test]
    fn medians() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[1.0, 2.0, 3.0]), Some(2.0));
        assert_eq!(median(&[1.0, 2.0, 3.0, 4.0]), Some(2.5));
    }
}
