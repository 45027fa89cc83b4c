//! Comparisons of numbers from several runs.

use super::findings::{Check, Found};
use crate::data::claims;

/// By how many percent `to` exceeds `from`.
pub(crate) fn percent_more(from: f64, to: f64) -> f64 {
    (to / from - 1.0) * 100.0
}

/// The check whose number has the largest error. A claim about several clusters must hold on the worst of
/// them.
pub(crate) fn worst(checks: Vec<Check>) -> Check {
    let error = |c: &Check| match c.found {
        Found::Number(n) => claims::find(c.claim).and_then(|claim| claim.error(n)),
        _ => None,
    };
    let number = |c: &Check| match c.found {
        Found::Number(n) => Some((c.profile, n)),
        _ => None,
    };
    let of_each = checks.iter().filter_map(number).collect();
    let worst = checks.into_iter().max_by(|a, b| error(a).unwrap_or(0.0).total_cmp(&error(b).unwrap_or(0.0)));
    Check { of_each, ..worst.expect("a claim is about at least one cluster") }
}
