//! Comparisons of several workloads, and of results with earlier results.

mod baseline;
mod costs;

pub use baseline::{Change, Changes, Tolerance, against};
pub use costs::{Cost, CostTerm};

use crate::asked::Asked;
use crate::explain::results;
use crate::plan::{Control, Known, Run};
use crate::results::{Found, Outcome};
use crate::run_error::SimulateError;
use crate::sweep::SweepError;
use doorbell_schema::Given;
use doorbell_workload::ThreadClass;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of the JSON of a [`Comparison`]. Later versions only add fields.
pub const COMPARISON_SCHEMA: u32 = 1;

/// A comparison of workloads, as its JSON output.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
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
    /// Whether the rates differ by more than their intervals allow; null if the intervals are not known, or
    /// if a limit of time or an interrupt ended a run before it settled.
    pub beyond_intervals: Option<bool>,
}

/// Named workloads to compare.
pub struct Sides {
    runs: Vec<(String, Run)>,
    explain: bool,
    workloads: Vec<serde_json::Value>,
}

impl Sides {
    /// Checks the workloads. With `explain`, reruns find the bottlenecks.
    ///
    /// # Errors
    /// One sentence that names the side, if the side's workload is invalid.
    pub fn new(sides: &[(String, Given)], explain: bool) -> Result<Sides, SweepError> {
        let run = |(name, given): &(String, Given)| {
            let refused = |why: String| SweepError::Refused(format!("at {name}: {why}"));
            let asked = Asked::of(given).map_err(|error| refused(error.to_string()))?;
            Ok((name.clone(), Run::asked(asked).map_err(|error| refused(error.to_string()))?))
        };
        let runs = sides.iter().map(run).collect::<Result<Vec<_>, SweepError>>()?;
        let workloads = runs.iter().map(|(_, run)| run.json()).collect();
        Ok(Sides { runs, explain, workloads })
    }

    /// Options that differ, each with its value for every side; null for a side without the option.
    pub fn options(&self) -> BTreeMap<String, Vec<serde_json::Value>> {
        differing(&self.workloads)
    }

    /// A side with its result and its difference from the result of the first side.
    pub fn side(&self, at: usize, found: Option<Found>, first: Option<&Found>) -> Side {
        let other = found.as_ref().filter(|_| at > 0);
        let (change, beyond_intervals) = match (first, other) {
            (Some(first), Some(other)) => (change(first, other), beyond(first, other)),
            _ => (None, None),
        };
        let (name, workload) = (self.runs[at].0.clone(), self.workloads[at].clone());
        Side { name, workload, found, change, beyond_intervals }
    }

    /// Runs the workloads in order and compares their results. If the work is cut short, some sides have no
    /// result. `each` receives the number and the result of each side as soon as the result is final. It may
    /// be called from several threads.
    ///
    /// # Errors
    /// One sentence that names the side, if the side has no result.
    pub fn run(
        &self,
        known: &Known,
        control: &Control<'_>,
        each: &(dyn Fn(usize, Found) + Sync),
    ) -> Result<Comparison, SweepError> {
        let failed =
            |(at, cause): (usize, SimulateError)| SweepError::Point { at: self.runs[at].0.clone(), cause };
        let each = |at: usize, ran: &Outcome| each(at, Found::of(ran.clone(), self.explain));
        let found = results(&self.runs, self.explain, known, control, &each).map_err(failed)?;
        let found: Vec<Option<Found>> =
            found.into_iter().map(|ran| Some(Found::of(ran?, self.explain))).collect();
        let first = found.first().cloned().flatten();
        let sides = found.into_iter().enumerate().map(|(at, found)| self.side(at, found, first.as_ref()));
        Ok(Comparison {
            schema: COMPARISON_SCHEMA,
            explained: self.explain,
            sides: sides.collect(),
            options: self.options(),
            costs: costs::of(&self.runs.iter().map(|(_, run)| run).collect::<Vec<_>>()),
        })
    }
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
/// are independent, so this half-width is the root of the sum of the squared half-widths. `None` for a run
/// that was cut off, because its rate may still change by more than its interval.
fn beyond(first: &Found, other: &Found) -> Option<bool> {
    if first.measured.ended.is_cut_off() || other.measured.ended.is_cut_off() {
        return None;
    }
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
