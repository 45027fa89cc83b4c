//! Agreement of numbers with the papers' numbers, each number counted once.

use crate::data::claims::{self, TOLERANCE};
use crate::data::measurements;
use crate::judge::claim_report::{Basis, ClaimReport};
use doorbell_lab::median;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// Name of a group: numbers of systems that were predicted before other measurements were handed out, and are
/// still predicted.
const SYSTEMS: &str = "systems of 4ca4298";

/// Agreement of a group of numbers. Claims that state one number several times count once, with the first
/// claim that was checked. Numbers that are computed from other claims do not count.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Accuracy {
    /// Name of the group. Groups of claims are `predicted`, `calibrated`, `analytic` and `held out`, the
    /// predicted numbers that were set aside before calibration. `systems of 4ca4298` holds numbers of
    /// sequencers and stores that were predicted at that commit and that no parameter was set from since; it
    /// is absent if there are none. Measurements that are not claims are grouped by role.
    pub group: String,
    /// Count of compared numbers.
    pub numbers: usize,
    /// Count of numbers within 10%.
    pub hold: usize,
    /// Median of the relative errors; `None` if there are no numbers.
    pub median_error: Option<f64>,
    /// Largest relative error; `None` if there are no numbers.
    pub largest_error: Option<f64>,
}

/// The agreement of each group of claims.
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

/// The agreement of a group whose numbers have these relative errors. No error is negative.
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
