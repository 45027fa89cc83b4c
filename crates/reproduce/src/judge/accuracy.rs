//! How well numbers agree with the papers', each number counted once.

use crate::data::claims::{self, TOLERANCE};
use crate::data::measurements;
use crate::judge::claim_report::{Basis, ClaimReport};
use doorbell_lab::median;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// The numbers of systems that were predicted before other measurements were handed out, and are still.
const SYSTEMS: &str = "systems of 4ca4298";

/// Agreement of a group of numbers. Claims that state one number several times count once, with the
/// first that was checked; what is computed from other claims does not count.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Accuracy {
    /// Which: `predicted`, `calibrated`, `analytic`, or `held out`, which are those of the predicted
    /// ones that were set aside before calibrating; where there are any, `systems of 4ca4298`, which are those of
    /// sequencers and stores that were predicted at that commit and from which no parameter was set since. Of
    /// measurements that are no claims what they are for.
    pub group: String,
    /// Numbers that are compared.
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
    let mut seen = BTreeSet::new();
    let numbers: Vec<&ClaimReport> = claims
        .iter()
        .filter(|c| c.error.is_some() && !claims::restatements().computed.contains_key(&c.id))
        .filter(|c| seen.insert(claims::first_of_group(&c.id)))
        .collect();
    let of = |basis| move |c: &&&ClaimReport| c.basis == basis;
    let held_out = |c: &&&ClaimReport| c.basis == Basis::Predicted && c.held_out;
    let of_systems: BTreeSet<&str> =
        measurements::predicted_of_systems().map(claims::first_of_group).collect();
    let was_predicted = |c: &&&ClaimReport| of_systems.contains(claims::first_of_group(&c.id));
    let systems = group(SYSTEMS, numbers.iter().filter(was_predicted));
    let mut all = vec![
        group("predicted", numbers.iter().filter(of(Basis::Predicted))),
        group("held out", numbers.iter().filter(held_out)),
        group("calibrated", numbers.iter().filter(of(Basis::Calibrated))),
        group("analytic", numbers.iter().filter(of(Basis::Analytic))),
    ];
    all.extend((systems.numbers > 0).then_some(systems));
    all
}

fn group<'a>(name: &str, claims: impl Iterator<Item = &'a &'a ClaimReport>) -> Accuracy {
    of_errors(name, claims.filter_map(|c| c.error))
}

/// Of a group with these relative errors, none below 0.
pub(crate) fn of_errors(group: &str, errors: impl Iterator<Item = f64>) -> Accuracy {
    let errors: Vec<f64> = errors.collect();
    Accuracy {
        group: group.to_owned(),
        numbers: errors.len(),
        hold: errors.iter().filter(|error| **error <= TOLERANCE).count(),
        median_error: median(&errors),
        largest_error: errors.iter().copied().max_by(f64::total_cmp),
    }
}
