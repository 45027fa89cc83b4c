//! Comparisons of several workloads, and of results with earlier results.

mod baseline;
mod costs;
mod settings;

pub use baseline::{Change, Changes, Tolerance, against};
pub use costs::{Cost, CostTerm};

use crate::explain::results;
use crate::plan::{Control, Known, Stored};
use crate::results::Found;
use crate::run_error::SimulateError;
use crate::sweep::SweepError;
use doorbell_schema::Given;
use serde::Serialize;
use settings::{Alike, Setting, Untyped};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Version of the JSON of a [`Comparison`]. Later versions only add fields.
pub const COMPARISON_SCHEMA: u32 = 1;

/// A comparison of workloads, as its JSON output.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Always [`COMPARISON_SCHEMA`].
    pub schema: u32,
    /// Whether the bottlenecks come from reruns.
    pub explained: bool,
    /// The compared workloads.
    pub sides: Vec<Side>,
    /// Options that differ, each with its value for every side; null for a side without the option.
    pub options: BTreeMap<String, Vec<serde_json::Value>>,
    /// Keys of these options that the user gave for no side, and that sides have with different defaults.
    pub untyped: Vec<String>,
    /// Keys of these options that the user gave for no side, and that only some sides have.
    pub partial: Vec<String>,
    /// Options in which the defaults differed. Each has the value that the sides with this option now share:
    /// the first such side's.
    pub same: BTreeMap<String, serde_json::Value>,
    /// Resource costs of an operation that differ between sides.
    pub costs: Vec<Cost>,
}

/// One of the compared workloads.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// Name of the workload, as the user wrote it.
    pub name: String,
    /// The workload with all of its options resolved.
    pub workload: serde_json::Value,
    /// The result; absent if the comparison was stopped before it was known.
    #[serde(flatten)]
    pub found: Option<Found>,
    /// Rate relative to the first side: 0.1 is 10% more. Null for the first side itself, if a rate is
    /// unknown, or if the first rate is 0.
    pub change: Option<f64>,
    /// Whether the rates differ by more than their intervals allow; null if the intervals are not known.
    pub beyond_intervals: Option<bool>,
}

/// Runs named workloads and compares their results. With `explain`, reruns find the bottlenecks. With `same`,
/// sides have one value of each option that the user gave for no side: the first side's.
///
/// # Errors
/// One sentence that names the side, if the side's workload is invalid or has no result.
pub fn compare(
    sides: &[(String, Given)],
    explain: bool,
    same: bool,
    stored: Option<Arc<Stored>>,
    control: &Control<'_>,
) -> Result<Comparison, SweepError> {
    let as_given = || Alike { sides: sides.to_vec(), made: BTreeMap::new() };
    let alike = if same { Alike::of(sides).map_err(SweepError::Refused)? } else { as_given() };
    let runs = settings::runs(&alike.sides).map_err(SweepError::Refused)?;
    let known = stored.map_or_else(Known::default, Known::stored_in);
    let failed = |(at, cause): (usize, SimulateError)| SweepError::Point { at: sides[at].0.clone(), cause };
    let found = results(&runs, explain, &known, control).map_err(failed)?;
    let found: Vec<Option<Found>> = found.into_iter().map(|outcome| outcome.map(Found::from)).collect();
    let workloads: Vec<serde_json::Value> = runs.iter().map(|(_, run)| run.json()).collect();
    let options = settings::differing(&workloads);
    let untyped = Untyped::of(&options, sides);
    let keys = |all: &[Setting]| all.iter().map(Setting::to_string).collect();
    let first = found.first().cloned().flatten();
    let side = |(at, ((name, found), workload)): (usize, ((String, Option<Found>), serde_json::Value))| {
        let other = found.as_ref().filter(|_| at > 0);
        let (change, beyond_intervals) = match (&first, other) {
            (Some(first), Some(other)) => (change(first, other), beyond(first, other)),
            _ => (None, None),
        };
        Side { name, workload, found, change, beyond_intervals }
    };
    let names = runs.iter().map(|(name, _)| name.clone());
    Ok(Comparison {
        schema: COMPARISON_SCHEMA,
        explained: explain,
        sides: names.zip(found).zip(workloads).enumerate().map(side).collect(),
        untyped: keys(&untyped.defaults),
        partial: keys(&untyped.partial),
        options: options.into_iter().map(|(setting, values)| (setting.to_string(), values)).collect(),
        same: alike.made,
        costs: costs::of(&runs.iter().map(|(_, run)| run).collect::<Vec<_>>()),
    })
}

fn change(first: &Found, other: &Found) -> Option<f64> {
    (first.mops > 0.0).then(|| other.mops / first.mops - 1.0)
}

/// Whether the rates differ by more than the half-width of the interval of their difference. The measurements
/// are independent, so this half-width is the root of the sum of the squared half-widths.
fn beyond(first: &Found, other: &Found) -> Option<bool> {
    let half = first.interval.mops?.hypot(other.interval.mops?);
    Some((first.mops - other.mops).abs() > half)
}
