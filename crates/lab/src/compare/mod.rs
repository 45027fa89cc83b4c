//! Comparisons of several workloads, and of results with earlier results.

mod baseline;
mod costs;
mod settings;

pub use baseline::{Change, Changes, NumberName, Tolerance, against};
pub use costs::{Cost, CostTerm};

use crate::explain::results;
use crate::load::{Loaded, Loads, at_some_rate};
use crate::plan::{Control, Known, Run};
use crate::results::{Found, Outcome};
use crate::run_error::SimulateError;
use crate::sweep::SweepError;
use doorbell_schema::Given;
use schemars::JsonSchema;
use serde::Serialize;
use settings::{Alike, Setting, Untyped};
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
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
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
    /// Whether the rates differ by more than their intervals allow; null if the intervals are not known, or
    /// if a limit of time or an interrupt ended a run before it settled.
    pub beyond_intervals: Option<bool>,
}

/// Options in which sides differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Differences {
    /// The options, each with its value for every side; null for a side without the option.
    pub options: BTreeMap<String, Vec<serde_json::Value>>,
    /// Keys of these options that the user gave for no side, and that sides have with different defaults.
    pub untyped: Vec<String>,
    /// Keys of these options that the user gave for no side, and that only some sides have.
    pub partial: Vec<String>,
    /// Options that sides now share, although their defaults differed.
    pub same: BTreeMap<String, serde_json::Value>,
}

/// Named workloads to compare.
pub struct Sides {
    /// The options of the sides as the user gave them.
    typed: Vec<(String, Given)>,
    alike: Alike,
    explain: bool,
    runs: Vec<(String, Run)>,
    workloads: Vec<serde_json::Value>,
    differences: Differences,
    /// Capacities for sides with a load; `None` before they are measured.
    loads: Option<Loads>,
}

impl Sides {
    /// Checks the workloads. With `explain`, reruns find the bottlenecks. With `same`, the sides that have an
    /// option get one value of it, if the user gave it for no side: the value of the first of these sides.
    ///
    /// # Errors
    /// One sentence that names the side, if the side's workload is invalid.
    pub fn new(sides: &[(String, Given)], explain: bool, same: bool) -> Result<Sides, SweepError> {
        let as_given = || Alike { sides: sides.to_vec(), made: BTreeMap::new() };
        let alike = if same { Alike::of(sides).map_err(SweepError::Refused)? } else { as_given() };
        Sides::with(sides.to_vec(), alike, explain, None)
    }

    /// Measures the capacities of sides with a load. Before that, their rates are not known.
    ///
    /// # Errors
    /// If a capacity cannot be measured.
    pub fn measure(self, known: &Known, control: &Control<'_>) -> Result<Sides, SweepError> {
        let loads = Loads::measure(&self.alike.sides, known, control)?;
        if loads.is_empty() {
            return Ok(self);
        }
        let Sides { typed, alike, explain, .. } = self;
        Sides::with(typed, alike, explain, Some(loads))
    }

    fn with(
        typed: Vec<(String, Given)>,
        alike: Alike,
        explain: bool,
        loads: Option<Loads>,
    ) -> Result<Sides, SweepError> {
        let rated = |given: Given| match &loads {
            Some(loads) => loads.applied(given),
            None => at_some_rate(given),
        };
        let runs = settings::runs(&alike.sides, &rated).map_err(SweepError::Refused)?;
        let workloads: Vec<serde_json::Value> = runs.iter().map(|(_, run)| run.json()).collect();
        let options = settings::differing(&workloads);
        let untyped = Untyped::of(&options, &typed);
        let keys = |all: &[Setting]| all.iter().map(Setting::to_string).collect();
        let differences = Differences {
            untyped: keys(&untyped.defaults),
            partial: keys(&untyped.partial),
            options: options.into_iter().map(|(setting, values)| (setting.to_string(), values)).collect(),
            same: alike.made.clone(),
        };
        Ok(Sides { typed, alike, explain, runs, workloads, differences, loads })
    }

    /// Options in which the sides differ.
    pub fn differences(&self) -> &Differences {
        &self.differences
    }

    /// The workloads with all of their options resolved.
    pub fn workloads(&self) -> &[serde_json::Value] {
        &self.workloads
    }

    /// A side with its result and its difference from the result of the first side.
    pub fn side(&self, at: usize, found: Option<Found>, first: Option<&Found>) -> Side {
        let other = found.as_ref().filter(|_| at > 0);
        let (change, beyond_intervals) = match (first, other) {
            (Some(first), Some(other)) => (change(first, other), beyond(first, other)),
            _ => (None, None),
        };
        let (name, workload) = (self.runs[at].0.clone(), self.workloads[at].clone());
        let load = self.loads.as_ref().and_then(|loads| loads.of(&self.alike.sides[at].1).ok().flatten());
        Side { name, workload, load, found, change, beyond_intervals }
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
        let Differences { options, untyped, partial, same } = self.differences.clone();
        Ok(Comparison {
            schema: COMPARISON_SCHEMA,
            explained: self.explain,
            sides: sides.collect(),
            options,
            untyped,
            partial,
            same,
            costs: costs::of(&self.runs.iter().map(|(_, run)| run).collect::<Vec<_>>()),
        })
    }
}

fn change(first: &Found, other: &Found) -> Option<f64> {
    (first.mops > 0.0).then(|| other.mops / first.mops - 1.0)
}

/// Whether the rates differ by more than the half-width of the interval of their difference. The measurements
/// are independent, so this half-width is the root of the sum of the squared half-widths. `None` for a run
/// that was cut off before its rate was known, because this rate may still change by more than its interval.
fn beyond(first: &Found, other: &Found) -> Option<bool> {
    let may_change = |found: &Found| found.measured.ended.is_cut_off() && found.interval.unsettled.is_some();
    if may_change(first) || may_change(other) {
        return None;
    }
    let half = first.interval.mops?.hypot(other.interval.mops?);
    Some((first.mops - other.mops).abs() > half)
}
