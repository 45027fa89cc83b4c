//! A requested sweep: its points, and their execution.

use super::error::SweepError;
use super::over::{Over, plain};
use super::point::{Missing, Point};
use super::result::{Axis, SWEEP_SCHEMA, Sweep};
use super::shards::{MOST_POINTS, Shard};
use crate::asked::Asked;
use crate::explain::results;
use crate::plan::{Control, Known, MODEL, Run, Stored, Work};
use crate::results::Outcome;
use crate::run_error::SimulateError;
use doorbell_schema::{Given, Value};
use doorbell_workload::Workload;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A requested and valid sweep.
pub struct Plan {
    pub(super) given: Given,
    pub(super) over: Vec<Over>,
    /// Name and run of each point, by point number.
    pub(super) runs: Vec<(String, Run)>,
    explain: bool,
}

/// Converts a value to JSON.
pub(super) fn json(value: &Value) -> serde_json::Value {
    serde_json::to_value(value).expect("a value of a field is JSON")
}

impl Plan {
    /// Plans a run of the workload `given` for each combination of values. With `explain`, reruns find the
    /// bottlenecks.
    ///
    /// # Errors
    /// One sentence that names the point, if the workload of a point is invalid.
    pub fn new(given: Given, over: Vec<Over>, explain: bool) -> Result<Plan, SweepError> {
        let size = over.iter().map(|over| over.values.len()).product::<usize>();
        if size > MOST_POINTS {
            let why = format!("the sweep has {size} points, but must have at most {MOST_POINTS}");
            return Err(SweepError::Refused(why));
        }
        let mut plan = Plan { given, over, runs: Vec::new(), explain };
        plan.runs = (0..size).map(|number| plan.run_at(&plan.values_of(number))).collect::<Result<_, _>>()?;
        Ok(plan)
    }

    /// The swept options.
    pub fn axes(&self) -> Vec<Axis> {
        self.over.iter().map(axis).collect()
    }

    /// Names of the points at which payload would fit into WQEs, but is read by DMA, because no option states
    /// the choice and DMA is faster.
    pub fn by_dma(&self) -> Vec<&str> {
        let states = |key| self.given.get(key).is_some() || self.over.iter().any(|over| over.key() == key);
        if states("inline") || states("inline_up_to") {
            return Vec::new();
        }
        let is_by_dma = |run: &Run| match &run.work {
            Work::Verbs(w) => {
                w.classes().iter().any(|class| class.workload.dma_gain(&run.profiles).is_some())
            }
            Work::System(_) => false,
        };
        self.runs.iter().filter(|(_, run)| is_by_dma(run)).map(|(name, _)| name.as_str()).collect()
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

    pub(super) fn run_at(&self, values: &[Value]) -> Result<(String, Run), SweepError> {
        let name = self.name_of(values);
        let refused = |why: String| SweepError::Refused(format!("at {name}: {why}"));
        let mut given = self.given.clone();
        for (over, value) in self.over.iter().zip(values) {
            Workload::check_over_classes(&self.given, over.key())
                .map_err(|error| refused(error.to_string()))?;
            given.set(over.field, value.clone()).map_err(refused)?;
        }
        let asked = Asked::of(&given).map_err(|error| refused(error.to_string()))?;
        let run = Run::asked(asked).map_err(|error| refused(error.to_string()))?;
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
        Ok((name, run))
    }

    pub(super) fn at(&self, values: &[Value]) -> BTreeMap<String, serde_json::Value> {
        self.over.iter().zip(values).map(|(over, value)| (over.key().to_owned(), json(value))).collect()
    }

    /// Identity of the sweep: equal ids mean equal sweeps.
    fn id(&self) -> String {
        let mut hash = Sha256::new().chain_update(MODEL);
        hash.update([u8::from(self.explain)]);
        for (name, run) in &self.runs {
            let key = run.key();
            hash.update(format!("{name} {}\n", key.as_bytes().len()));
            hash.update(key.as_bytes());
        }
        hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Runs the points of a shard, or all points. If interrupted, the result has the points known so far.
    ///
    /// # Errors
    /// If a point fails.
    pub fn run(
        &self,
        shard: Option<Shard>,
        stored: Option<Arc<Stored>>,
        control: &Control<'_>,
    ) -> Result<Sweep, SweepError> {
        self.run_known(shard, &stored.map_or_else(Known::default, Known::stored_in), control)
    }

    pub(super) fn run_known(
        &self,
        shard: Option<Shard>,
        known: &Known,
        control: &Control<'_>,
    ) -> Result<Sweep, SweepError> {
        let wanted = (0..self.runs.len()).filter(|number| shard.is_none_or(|shard| shard.has(*number)));
        let wanted: Vec<usize> = wanted.collect();
        let runs: Vec<(String, Run)> = wanted.iter().map(|number| self.runs[*number].clone()).collect();
        let found = self.results(&runs, known, control)?;
        let point = |(number, ran): (usize, Option<Outcome>)| {
            Some(Point { number, at: self.at(&self.values_of(number)), found: ran?.into() })
        };
        let mut sweep = Sweep {
            schema: SWEEP_SCHEMA,
            sweep: self.id(),
            workload: self
                .given
                .keys()
                .filter_map(|k| Some((k.to_owned(), json(self.given.get(k)?))))
                .collect(),
            over: self.axes(),
            explained: self.explain,
            shard,
            points: wanted.into_iter().zip(found).filter_map(point).collect(),
            missing: Vec::new(),
            knee: None,
        };
        let missing = sweep.numbers_missing().into_iter();
        sweep.missing =
            missing.map(|number| Missing { number, at: self.at(&self.values_of(number)) }).collect();
        Ok(sweep)
    }

    pub(super) fn results(
        &self,
        runs: &[(String, Run)],
        known: &Known,
        control: &Control<'_>,
    ) -> Result<Vec<Option<Outcome>>, SweepError> {
        let failed =
            |(at, cause): (usize, SimulateError)| SweepError::Point { at: runs[at].0.clone(), cause };
        results(runs, self.explain, known, control).map_err(failed)
    }
}

fn axis(over: &Over) -> Axis {
    Axis { option: over.key().to_owned(), values: over.values.iter().map(json).collect() }
}
