//! Comparisons of several workloads, and of results with earlier results.

mod baseline;
mod costs;

pub use baseline::{Change, Changes, Tolerance, against};
pub use costs::{Cost, CostTerm};

use crate::asked::Asked;
use crate::explain::results;
use crate::load::{Loaded, Loads, at_some_rate};
use crate::plan::{Control, Known, Run, Stored};
use crate::results::Found;
use crate::run_error::SimulateError;
use crate::sweep::SweepError;
use doorbell_schema::Given;
use doorbell_workload::ThreadClass;
use serde::Serialize;
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
    /// The load of the side's open loop, and its capacity; absent if no load was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load: Option<Loaded>,
    /// The result; absent if the comparison was stopped before it was known.
    #[serde(flatten)]
    pub found: Option<Found>,
    /// Rate relative to the first side: 0.1 is 10% more. Null for the first side itself, if a rate is
    /// unknown, or if the first rate is 0.
    pub change: Option<f64>,
    /// Whether the rates differ by more than their intervals allow; null if the intervals are not known.
    pub beyond_intervals: Option<bool>,
}

/// Runs named workloads and compares their results. With `explain`, reruns find the bottlenecks.
///
/// # Errors
/// One sentence that names the side, if the side's workload is invalid or has no result.
pub fn compare(
    sides: &[(String, Given)],
    explain: bool,
    stored: Option<Arc<Stored>>,
    control: &Control<'_>,
) -> Result<Comparison, SweepError> {
    // All sides are checked before the capacities for loads are measured.
    runs_of(sides, &at_some_rate)?;
    let loads = Loads::measure(sides, stored.clone(), control)?;
    let runs = runs_of(sides, &|given| loads.applied(given))?;
    let known = stored.map_or_else(Known::default, Known::stored_in);
    let failed = |(at, cause): (usize, SimulateError)| SweepError::Point { at: sides[at].0.clone(), cause };
    let found = results(&runs, explain, &known, control).map_err(failed)?;
    let found: Vec<Option<Found>> = found.into_iter().map(|outcome| outcome.map(Found::from)).collect();
    let workloads: Vec<serde_json::Value> = runs.iter().map(|(_, run)| run.json()).collect();
    let options = differing(&workloads);
    let first = found.first().cloned().flatten();
    let side = |(at, ((name, found), workload)): (usize, ((String, Option<Found>), serde_json::Value))| {
        let other = found.as_ref().filter(|_| at > 0);
        let (change, beyond_intervals) = match (&first, other) {
            (Some(first), Some(other)) => (change(first, other), beyond(first, other)),
            _ => (None, None),
        };
        let load = loads.of(&sides[at].1).ok().flatten();
        Side { name, workload, load, found, change, beyond_intervals }
    };
    let names = runs.iter().map(|(name, _)| name.clone());
    Ok(Comparison {
        schema: COMPARISON_SCHEMA,
        explained: explain,
        sides: names.zip(found).zip(workloads).enumerate().map(side).collect(),
        options,
        costs: costs::of(&runs.iter().map(|(_, run)| run).collect::<Vec<_>>()),
    })
}

/// Name and run of each side. `rated` replaces a load by a rate.
fn runs_of(
    sides: &[(String, Given)],
    rated: &dyn Fn(Given) -> Result<Given, String>,
) -> Result<Vec<(String, Run)>, SweepError> {
    let run = |(name, given): &(String, Given)| {
        let refused = |why: String| SweepError::Refused(format!("at {name}: {why}"));
        let given = rated(given.clone()).map_err(refused)?;
        let asked = Asked::of(&given).map_err(|error| refused(error.to_string()))?;
        Ok((name.clone(), Run::asked(asked).map_err(|error| refused(error.to_string()))?))
    };
    sides.iter().map(run).collect()
}

/// Moves the options of each thread class to the top level, prefixed by the name of the class or its number.
fn with_classes_apart(workload: &serde_json::Value) -> serde_json::Value {
    let mut apart = workload.clone();
    let Some(fields) = apart.as_object_mut() else { return apart };
    let Some(serde_json::Value::Array(classes)) = fields.remove("class") else { return apart };
    // The top level only repeats the first class's options of threads, so they are dropped there.
    fields.retain(|key, _| key == "threads" || ThreadClass::FIELDS.iter().all(|field| field.key != key));
    for (number, class) in classes.iter().enumerate() {
        let name = class["name"].as_str().map_or_else(|| number.to_string(), str::to_owned);
        for (key, value) in class.as_object().into_iter().flatten().filter(|(key, _)| *key != "name") {
            fields.insert(format!("class {name}: {key}"), value.clone());
        }
    }
    apart
}

/// Keys with values that differ between workloads.
fn differing(workloads: &[serde_json::Value]) -> BTreeMap<String, Vec<serde_json::Value>> {
    let workloads: Vec<serde_json::Value> = workloads.iter().map(with_classes_apart).collect();
    let keys = workloads.iter().filter_map(|w| w.as_object()).flat_map(|w| w.keys());
    let values = |key: &String| workloads.iter().map(|w| w[key.as_str()].clone()).collect::<Vec<_>>();
    let all: BTreeMap<String, Vec<serde_json::Value>> = keys.map(|key| (key.clone(), values(key))).collect();
    all.into_iter().filter(|(_, values)| values.iter().any(|value| *value != values[0])).collect()
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn options_of_classes_differ_one_by_one() {
        let side = |qps: u32, size: u32| {
            json!({
                "machines": 2, "threads": 3, "qps": qps,
                "class": [{"threads": 1, "qps": qps}, {"name": "b", "threads": 2, "qps": 1, "size": size}],
            })
        };
        let differ = differing(&[side(1, 8), side(2, 8), json!({"machines": 2, "threads": 3, "qps": 1})]);
        let keys: Vec<&str> = differ.keys().map(String::as_str).collect();
        let of_classes =
            ["class 0: qps", "class 0: threads", "class b: qps", "class b: size", "class b: threads"];
        assert_eq!(keys, [&of_classes[..], &["qps"]].concat());
        assert_eq!(differ["class 0: qps"], [json!(1), json!(2), json!(null)]);
        assert_eq!(differing(&[side(1, 8), side(1, 9)]).into_keys().collect::<Vec<_>>(), ["class b: size"]);
    }
}
