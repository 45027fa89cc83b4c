//! A requested sweep: its points, and their execution.

use super::error::SweepError;
use super::over::{Over, plain};
use super::point::{Missing, Point};
use super::result::{Axis, SWEEP_SCHEMA, Sweep};
use super::shards::{MOST_POINTS, Shard};
use crate::asked::Asked;
use crate::explain::{Each, results};
use crate::load::{Loads, at_some_rate};
use crate::plan::{Control, Known, MODEL, Run};
use crate::results::{Found, Outcome};
use crate::run_error::SimulateError;
use doorbell_schema::{Given, Value};
use doorbell_workload::{Workload, WorkloadError};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// A requested and valid sweep, without the capacities for its loads.
pub struct Draft(Plan);

/// A requested and valid sweep.
pub struct Plan {
    pub(super) given: Given,
    pub(super) over: Vec<Over>,
    /// The points, by point number.
    runs: Vec<NamedRun>,
    pub(super) explain: bool,
    /// Capacities for points with a load; `None` before they are measured.
    loads: Option<Loads>,
}

/// Name of a point, and its run. A point without a run has the reason instead.
type NamedRun = (String, Result<Run, String>);

/// Converts a value to JSON.
pub(super) fn json(value: &Value) -> serde_json::Value {
    serde_json::to_value(value).expect("a value of a field is JSON")
}

impl Draft {
    /// Plans a run of the workload `given` for each combination of values. With `explain`, reruns find the
    /// bottlenecks.
    ///
    /// # Errors
    /// One sentence that names the point, if the workload of a point is invalid, or if the operations of all
    /// points are too long for a result.
    pub fn new(given: Given, over: Vec<Over>, explain: bool) -> Result<Draft, SweepError> {
        let size = over.iter().map(|over| over.values.len()).product::<usize>();
        if size > MOST_POINTS {
            let why = format!("the sweep has {size} points, but must have at most {MOST_POINTS}");
            return Err(SweepError::Refused(why));
        }
        let mut plan = Plan { given, over, runs: Vec::new(), explain, loads: None };
        plan.runs = plan.all_runs(size)?;
        match plan.runs.first() {
            Some((name, Err(why))) if plan.runs.iter().all(|(_, run)| run.is_err()) => {
                Err(SweepError::Refused(format!("at {name}: {why}")))
            }
            _ => Ok(Draft(plan)),
        }
    }

    /// The swept options.
    pub fn axes(&self) -> Vec<Axis> {
        self.0.axes()
    }

    /// Options that all points share.
    pub fn workload(&self) -> BTreeMap<String, serde_json::Value> {
        self.0.workload()
    }

    /// Measures the capacities of points with a load.
    ///
    /// # Errors
    /// If a capacity cannot be measured.
    pub fn measure(self, known: &Known, control: &Control<'_>) -> Result<Plan, SweepError> {
        let mut plan = self.0;
        let size = plan.runs.len();
        let points = (0..size).map(|number| plan.given_at(&plan.values_of(number)));
        let loads = Loads::measure(&points.collect::<Result<Vec<_>, _>>()?, known, control)?;
        if !loads.is_empty() {
            plan.loads = Some(loads);
            plan.runs = plan.all_runs(size)?;
        }
        Ok(plan)
    }
}

impl Plan {
    /// The swept options.
    fn axes(&self) -> Vec<Axis> {
        self.over.iter().map(axis).collect()
    }

    /// Whether an option states if payload is inline.
    fn states_inline(&self) -> bool {
        let states = |key| self.given.get(key).is_some() || self.over.iter().any(|over| over.key() == key);
        states("inline") || states("inline_up_to")
    }

    /// Options that all points share.
    fn workload(&self) -> BTreeMap<String, serde_json::Value> {
        self.given.keys().filter_map(|key| Some((key.to_owned(), json(self.given.get(key)?)))).collect()
    }

    /// Name and run of each point.
    fn all_runs(&self, size: usize) -> Result<Vec<NamedRun>, SweepError> {
        (0..size).map(|number| self.run_at(&self.values_of(number))).collect()
    }

    /// Values of the swept options at a point.
    fn values_of(&self, number: usize) -> Vec<Value> {
        let mut rest = number;
        let mut values: Vec<Value> = Vec::new();
        for over in self.over.iter().rev() {
            values.push(over.values[rest % over.values.len()].clone());
            rest /= over.values.len();
        }
        values.reverse();
        values
    }

    fn name_of(&self, values: &[Value]) -> String {
        let each =
            self.over.iter().zip(values).map(|(over, value)| format!("{}={}", over.key(), plain(value)));
        each.collect::<Vec<_>>().join(", ")
    }

    /// Name and options of a point.
    fn given_at(&self, values: &[Value]) -> Result<(String, Given), SweepError> {
        let name = self.name_of(values);
        let refused = |why: String| SweepError::Refused(format!("at {name}: {why}"));
        let mut given = self.given.clone();
        for (over, value) in self.over.iter().zip(values) {
            Workload::check_over_classes(&self.given, over.key())
                .map_err(|error| refused(error.to_string()))?;
            given.set(over.field, value.clone()).map_err(refused)?;
        }
        Ok((name, given))
    }

    /// Name and run of a point, which must have a run.
    pub(super) fn run_of(&self, values: &[Value]) -> Result<(String, Run), SweepError> {
        let (name, run) = self.run_at(values)?;
        let run = run.map_err(|why| SweepError::Refused(format!("at {name}: {why}")))?;
        Ok((name, run))
    }

    /// Number of points that have a run.
    pub(super) fn run_count(&self) -> usize {
        self.runs.iter().filter(|(_, run)| run.is_ok()).count()
    }

    /// Name and run of a point. If its operations are too long for a result, the reason instead of the run.
    fn run_at(&self, values: &[Value]) -> Result<NamedRun, SweepError> {
        let (name, given) = self.given_at(values)?;
        let refused = |why: String| SweepError::Refused(format!("at {name}: {why}"));
        let given = match &self.loads {
            Some(loads) => loads.applied(given).map_err(refused)?,
            None => at_some_rate(given).map_err(refused)?,
        };
        let asked = Asked::of(&given).map_err(|error| refused(error.to_string()))?;
        let run = match Run::asked(asked) {
            Ok(run) => run,
            Err(WorkloadError::TooLong(why)) => return Ok((name, Err(why))),
            Err(error) => return Err(refused(error.to_string())),
        };
        for (over, value) in self.over.iter().zip(values) {
            if let (Value::Number(asked), Some(taken)) = (value, run.number(over.key()))
                && *asked != taken
            {
                let key = over.key();
                return Err(refused(format!(
                    "{key} becomes {taken} here, because the other options need this value"
                )));
            }
        }
        Ok((name, Ok(run)))
    }

    /// A point with these values of the swept options, its run and its outcome.
    pub(super) fn point(&self, number: usize, values: &[Value], run: &Run, ran: Outcome) -> Point {
        let loaded = |loads: &Loads| loads.of(&self.given_at(values).ok()?.1).ok()?;
        let load = self.loads.as_ref().and_then(loaded);
        Point::of(number, self.at(values), load, (run, self.states_inline()), Found::of(ran, self.explain))
    }

    pub(super) fn at(&self, values: &[Value]) -> BTreeMap<String, serde_json::Value> {
        self.over.iter().zip(values).map(|(over, value)| (over.key().to_owned(), json(value))).collect()
    }

    /// Identity of the sweep: equal ids mean equal sweeps.
    fn id(&self) -> String {
        let mut hash = Sha256::new().chain_update(MODEL);
        hash.update([u8::from(self.explain)]);
        for (name, run) in &self.runs {
            match run {
                Ok(run) => {
                    let key = run.key();
                    hash.update(format!("{name} {}\n", key.as_bytes().len()));
                    hash.update(key.as_bytes());
                }
                Err(why) => hash.update(format!("{name} {why}\n")),
            }
        }
        hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Runs the points of a shard, or all points, in order. If the work is cut short, the result has the
    /// points known so far. `each` receives each point as soon as its result is final, with the point's index
    /// among the points of the shard that can have a result. It may be called from several threads.
    ///
    /// # Errors
    /// If a point fails.
    pub fn run(
        &self,
        shard: Option<Shard>,
        known: &Known,
        control: &Control<'_>,
        each: &(dyn Fn(usize, Point) + Sync),
    ) -> Result<Sweep, SweepError> {
        let wanted = (0..self.runs.len()).filter(|number| shard.is_none_or(|shard| shard.has(*number)));
        let with_run = |number: usize| {
            let (name, run) = &self.runs[number];
            Some((number, (name.clone(), run.clone().ok()?)))
        };
        let (wanted, runs): (Vec<usize>, Vec<(String, Run)>) = wanted.filter_map(with_run).unzip();
        let point =
            |at: usize, ran: Outcome| self.point(wanted[at], &self.values_of(wanted[at]), &runs[at].1, ran);
        let found = self.results(&runs, known, control, &|at, ran| each(at, point(at, ran.clone())))?;
        let points = found.into_iter().enumerate().filter_map(|(at, ran)| Some(point(at, ran?))).collect();
        let mut sweep = Sweep {
            schema: SWEEP_SCHEMA,
            sweep: self.id(),
            workload: self.workload(),
            over: self.axes(),
            explained: self.explain,
            shard,
            points,
            missing: Vec::new(),
            knee: None,
        };
        let missing = sweep.numbers_missing().into_iter();
        let reason = |number: usize| self.runs[number].1.as_ref().err().cloned();
        let one = |number| Missing { number, at: self.at(&self.values_of(number)), why: reason(number) };
        sweep.missing = missing.map(one).collect();
        Ok(sweep)
    }

    pub(super) fn results(
        &self,
        runs: &[(String, Run)],
        known: &Known,
        control: &Control<'_>,
        each: &Each<'_>,
    ) -> Result<Vec<Option<Outcome>>, SweepError> {
        let failed =
            |(at, cause): (usize, SimulateError)| SweepError::Point { at: runs[at].0.clone(), cause };
        results(runs, self.explain, known, control, each).map_err(failed)
    }
}

fn axis(over: &Over) -> Axis {
    Axis { option: over.key().to_owned(), values: over.values.iter().map(json).collect() }
}
