//! What operations of several workloads take of each resource, side by side.

use crate::limits::limits;
use crate::plan::{Run, Work};
use doorbell_nic::Resource;
use doorbell_nic::limits::{Limit, Measure};
use serde::Serialize;

/// What operations take of a resource, by the least bound that it sets at each side. Of a system nothing is known.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// Which.
    pub resource: Resource,
    /// The rate that it allows at most, of all machines, in millions per second; null at sides that have no such
    /// bound.
    pub mops: Vec<Option<f64>>,
    /// Terms that are not the same everywhere.
    pub terms: Vec<CostTerm>,
}

/// A term of what an operation takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CostTerm {
    /// What it is for.
    pub what: &'static str,
    /// In what it is measured.
    pub unit: Measure,
    /// What an operation takes of it at each side; null where it has no such term.
    pub amounts: Vec<Option<f64>>,
}

/// Relative differences below this are of rounding.
const SAME: f64 = 1e-9;

fn differ(values: &[Option<f64>]) -> bool {
    let same = |a: f64, b: f64| (a - b).abs() <= SAME * a.abs().max(b.abs());
    values.iter().any(|value| match (value, values[0]) {
        (Some(a), Some(b)) => !same(*a, b),
        (a, b) => a.is_some() != b.is_some(),
    })
}

/// Resources whose bounds or terms differ, in the order of their names' list.
pub(super) fn of(runs: &[&Run]) -> Vec<Cost> {
    let all: Vec<Vec<Limit>> = runs.iter().map(|run| bounds(run)).collect();
    Resource::ALL.into_iter().filter_map(|resource| cost(resource, &all)).collect()
}

fn bounds(run: &Run) -> Vec<Limit> {
    match &run.work {
        Work::Verbs(w) => limits(&run.profiles, w),
        Work::System(_) => Vec::new(),
    }
}

fn cost(resource: Resource, all: &[Vec<Limit>]) -> Option<Cost> {
    // The least of a resource comes first.
    let least: Vec<Option<&Limit>> =
        all.iter().map(|limits| limits.iter().find(|limit| limit.resource == resource)).collect();
    let mops: Vec<Option<f64>> = least.iter().map(|limit| limit.map(|limit| limit.mops)).collect();
    let terms: Vec<CostTerm> = terms(&least).into_iter().filter(|term| differ(&term.amounts)).collect();
    (differ(&mops) || !terms.is_empty()).then_some(Cost { resource, mops, terms })
}

/// All terms that some side has, each once.
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
