//! Compares the resource costs of operations between workloads.

use crate::plan::Run;
use doorbell_nic::Resource;
use doorbell_nic::limits::{Limit, Measure};
use schemars::JsonSchema;
use serde::Serialize;

/// Cost of operations on a resource, for each compared workload (side). It comes from the lowest bound that
/// the resource sets. Unknown for systems.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Cost {
    /// The resource.
    pub resource: Resource,
    /// For each side, the largest rate of all machines that the resource allows, in millions per second. Null
    /// for a side without such a bound.
    pub mops: Vec<Option<f64>>,
    /// Terms of the bound that differ between sides.
    pub terms: Vec<CostTerm>,
}

/// A term of an operation's cost.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CostTerm {
    /// Purpose of the term.
    pub what: &'static str,
    /// Unit of the amounts.
    pub unit: Measure,
    /// Cost of an operation for each side; null for a side without this term.
    pub amounts: Vec<Option<f64>>,
}

/// Relative differences below this are rounding errors.
const SAME: f64 = 1e-9;

fn differ(values: &[Option<f64>]) -> bool {
    let same = |a: f64, b: f64| (a - b).abs() <= SAME * a.abs().max(b.abs());
    values.iter().any(|value| match (value, values[0]) {
        (Some(a), Some(b)) => !same(*a, b),
        (a, b) => a.is_some() != b.is_some(),
    })
}

/// Resources with differing bounds or terms, in the order of [`Resource::ALL`].
pub(super) fn of(runs: &[&Run]) -> Vec<Cost> {
    let all: Vec<Vec<Limit>> = runs.iter().map(|run| run.limits()).collect();
    Resource::ALL.into_iter().filter_map(|resource| cost(resource, &all)).collect()
}

fn cost(resource: Resource, all: &[Vec<Limit>]) -> Option<Cost> {
    // The lowest bound of a resource comes first.
    let least: Vec<Option<&Limit>> =
        all.iter().map(|limits| limits.iter().find(|limit| limit.resource == resource)).collect();
    let mops: Vec<Option<f64>> = least.iter().map(|limit| limit.map(|limit| limit.mops)).collect();
    let terms: Vec<CostTerm> = terms(&least).into_iter().filter(|term| differ(&term.amounts)).collect();
    (differ(&mops) || !terms.is_empty()).then_some(Cost { resource, mops, terms })
}

/// The terms of all sides, each once.
fn terms(least: &[Option<&Limit>]) -> Vec<CostTerm> {
    let mut names: Vec<(&'static str, Measure)> = Vec::new();
    for term in least.iter().flatten().flat_map(|limit| &limit.terms) {
        if !names.contains(&(term.what, term.unit)) {
            names.push((term.what, term.unit));
        }
    }
    let amount = |limit: &Option<&Limit>, (what, unit): (&str, Measure)| {
        let alike = limit.as_ref()?.terms.iter().filter(|term| (term.what, term.unit) == (what, unit));
        let amounts: Vec<f64> = alike.map(doorbell_nic::limits::Term::amount).collect();
        (!amounts.is_empty()).then(|| amounts.iter().sum())
    };
    let term = |name: (&'static str, Measure)| CostTerm {
        what: name.0,
        unit: name.1,
        amounts: least.iter().map(|limit| amount(limit, name)).collect(),
    };
    names.into_iter().map(term).collect()
}
