//! Counts of checked claims for each paper, and the speed-ups in the abstract of CLUSTER'21.

use crate::data::claims::{self, Kind, Value};
use crate::judge::claim_report::ClaimReport;
use crate::judge::selector::Selection;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeSet;

/// Counts of the selected claims of a paper, without hardware parameters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CheckedClaims {
    /// The paper.
    pub paper: String,
    /// Claims in all.
    pub claims: usize,
    /// Claims that an experiment checked in this run.
    pub checked: usize,
    /// Claims that no experiment checks; `not_checked` gives the reason for each.
    pub not_checked: usize,
}

/// A speed-up that an abstract promises, and the speed-up that was found.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Headline {
    /// System that is faster.
    pub what: String,
    /// Id of the claim.
    pub claim: String,
    /// Speed-up in the paper, as a factor.
    pub paper: f64,
    /// Speed-up that was found, as a factor.
    pub simulated: f64,
}

/// Speed-ups in CLUSTER'21's abstract: the faster system and the claim.
const HEADLINES: [(&str, &str); 4] = [
    ("hashtable", "cluster21-abs-hashtable"),
    ("shuffle", "cluster21-abs-shuffle"),
    ("join", "cluster21-abs-join"),
    ("log", "cluster21-abs-log"),
];

/// Counts for each paper that has selected claims, in the order of the papers.
pub(crate) fn of(selection: &Selection, reported: &[ClaimReport]) -> Vec<CheckedClaims> {
    let reported: BTreeSet<&str> = reported.iter().map(|claim| claim.id.as_str()).collect();
    let mut all: Vec<CheckedClaims> = Vec::new();
    let said = |claim: &&claims::Claim| {
        claim.paper != claims::OURS && claim.kind != Kind::HardwareParameter && selection.wants(&claim.id)
    };
    for claim in claims::all().iter().filter(said) {
        let at = all.iter().position(|of| of.paper == claim.paper).unwrap_or_else(|| {
            let paper = claim.paper.clone();
            all.push(CheckedClaims { paper, claims: 0, checked: 0, not_checked: 0 });
            all.len() - 1
        });
        all[at].claims += 1;
        all[at].checked += usize::from(reported.contains(claim.id.as_str()));
        all[at].not_checked += usize::from(reason(&claim.id).is_some());
    }
    all
}

/// The reason why no experiment checks a claim. `None` if an experiment checks it.
fn reason(claim: &str) -> Option<&'static str> {
    claims::not_checked().iter().find(|(id, _)| id == claim).map(|(_, reason)| reason.as_str())
}

/// The speed-ups that were found.
pub(crate) fn headlines(reported: &[ClaimReport]) -> Vec<Headline> {
    let headline = |(what, id): (&str, &str)| {
        let claim = reported.iter().find(|claim| claim.id == id)?;
        let (Value::Number(paper), Value::Number(simulated)) = (&claim.paper_value, &claim.simulated) else {
            return None;
        };
        Some(Headline { what: what.into(), claim: id.into(), paper: *paper, simulated: *simulated })
    };
    HEADLINES.into_iter().filter_map(headline).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::REGISTER;

    /// Counts the three papers' claims and their checked claims. Each unchecked claim must have a reason.
    #[test]
    fn at_least_350_of_400_are_checked_and_the_rest_has_reasons() {
        let all = of(&Selection::new(&REGISTER, &[]).unwrap(), &[]);
        let sum = |of: fn(&CheckedClaims) -> usize| all.iter().map(of).sum::<usize>();
        assert_eq!(sum(|of| of.claims), 400);
        assert!(sum(|of| of.claims - of.not_checked) >= 350, "{all:?}");
        let says = |claim: &claims::Claim| {
            let checked = REGISTER.checking(&claim.id).is_some();
            let reason = reason(&claim.id);
            assert!(checked != reason.is_some(), "{}: checked {checked}, reason {reason:?}", claim.id);
            let unbuilt = |reason: &str| ["not written", "not built"].iter().any(|not| reason.contains(not));
            assert!(!reason.is_some_and(unbuilt), "{}: {reason:?}", claim.id);
        };
        claims::all().iter().for_each(says);
    }

    #[test]
    fn headlines_are_claims_that_are_checked() {
        for (what, id) in HEADLINES {
            let claim = claims::find(id).unwrap_or_else(|| panic!("{what}: {id} is no claim"));
            assert!(matches!(claim.value, Value::Number(_)), "{id}");
            assert!(REGISTER.checking(id).is_some(), "{id} is checked by nobody");
        }
    }
}
