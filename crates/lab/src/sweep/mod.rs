//! Sweeps: a workload at each combination of the values of one or two options.

mod knee;
mod over;
mod point;
mod shards;

pub use knee::{Bound, Knee};
pub use over::Over;
pub(crate) use over::plain;
pub use point::{Missing, Point};
pub use shards::{Shard, merge};

use crate::asked::Asked;
use crate::plan::{Control, Run, results};
use crate::results::{Known, MODEL, Ran, Stored};
use crate::simulate::SimulateError;
use doorbell_schema::{Given, Value};
use doorbell_workload::Workload;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::sync::Arc;
use thiserror::Error;

/// Version of the JSON of a [`Sweep`]; fields are only ever added.
pub const SWEEP_SCHEMA: u32 = 1;

/// Points of a sweep at most.
const MOST_POINTS: usize = 10_000;

/// Why a sweep has no result.
#[derive(Debug, Error)]
pub enum SweepError {
    /// What was asked for is to blame.
    #[error("{0}")]
    Refused(String),
    /// A point has no result.
    #[error("at {at}: {cause}")]
    Point {
        /// Which.
        at: String,
        /// Why.
        cause: SimulateError,
    },
}

impl SweepError {
    /// Whether what was asked for is to blame.
    pub fn is_bad_input(&self) -> bool {
        match self {
            SweepError::Refused(_) => true,
            SweepError::Point { cause, .. } => cause.is_bad_input(),
        }
    }
}

/// An option of a sweep, in the form of its JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// Its key.
    pub option: String,
    /// Its values, in order.
    pub values: Vec<serde_json::Value>,
}

/// What a sweep gave, in the form of its JSON. Equal sweeps give equal bytes: there is no wall-clock time in it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    /// [`SWEEP_SCHEMA`].
    pub schema: u32,
    /// Tells this sweep from others: a hash of what each point runs and of the model that runs it.
    pub sweep: String,
    /// What is given of the workload at every point.
    pub workload: BTreeMap<String, serde_json::Value>,
    /// What it goes over.
    pub over: Vec<Axis>,
    /// Whether bottlenecks are observed by reruns.
    pub explained: bool,
    /// Which part of it this is; absent of a whole one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<Shard>,
    /// Points that are known, in the order of their numbers.
    pub points: Vec<Point>,
    /// Points that were to be made and are not, as somebody stopped it; absent where there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<Missing>,
    /// What a search for a knee found; absent where none was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub knee: Option<Knee>,
}

impl Sweep {
    /// Points of the whole sweep, those of a search apart.
    pub fn size(&self) -> usize {
        self.over.iter().map(|axis| axis.values.len()).fold(1, usize::saturating_mul)
    }

    /// Numbers of points that it should have and has not.
    pub(crate) fn numbers_missing(&self) -> Vec<usize> {
        let wanted = (0..self.size()).filter(|number| self.shard.is_none_or(|shard| shard.has(*number)));
        wanted.filter(|number| self.points.iter().all(|point| point.number != *number)).collect()
    }
}

/// A sweep that is asked for and goes together.
pub struct Plan {
    given: Given,
    over: Vec<Over>,
    /// Of each point, by number.
    runs: Vec<(String, Run)>,
    explain: bool,
}

/// Values as JSON.
pub(crate) fn json(value: &Value) -> serde_json::Value {
    serde_json::to_value(value).expect("a value of a field is JSON")
}

impl Plan {
    /// The workload of `given` at each combination of values. With `explain`, bottlenecks are observed by reruns.
    ///
    /// # Errors
    /// One sentence, with the point that it is about, where a workload does not go together.
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

    /// What it goes over.
    pub fn axes(&self) -> Vec<Axis> {
        self.over.iter().map(axis).collect()
    }

    /// What the options are at a point.
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

    fn run_at(&self, values: &[Value]) -> Result<(String, Run), SweepError> {
        let name = self.name_of(values);
        let refused = |why: String| SweepError::Refused(format!("at {name}: {why}"));
        let mut given = self.given.clone();
        for (over, value) in self.over.iter().zip(values) {
            Workload::check_over_classes(&self.given, over.key())
                .map_err(|error| refused(error.to_string()))?;
            given.set(over.field, value.clone()).map_err(refused)?;
        }
        let asked = Asked::of(&given).map_err(|error| refused(error.to_string()))?;
        let run = Run::asked(&asked).map_err(|error| refused(error.to_string()))?;
        for (over, value) in self.over.iter().zip(values) {
            if let (Value::Number(asked), Some(taken)) = (value, run.number(over.key()))
                && *asked != taken
            {
                let key = over.key();
                return Err(refused(format!(
                    "{key} becomes {taken} here, as its other options need that much"
                )));
            }
        }
        Ok((name, run))
    }

    fn at(&self, values: &[Value]) -> BTreeMap<String, serde_json::Value> {
        self.over.iter().zip(values).map(|(over, value)| (over.key().to_owned(), json(value))).collect()
    }

    /// What tells this sweep from others.
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

    /// Runs the points of a shard, or all. Where somebody stops it, the result has what is known.
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

    fn run_known(
        &self,
        shard: Option<Shard>,
        known: &Known,
        control: &Control<'_>,
    ) -> Result<Sweep, SweepError> {
        let wanted = (0..self.runs.len()).filter(|number| shard.is_none_or(|shard| shard.has(*number)));
        let wanted: Vec<usize> = wanted.collect();
        let runs: Vec<(String, Run)> = wanted.iter().map(|number| self.runs[*number].clone()).collect();
        let found = self.results(&runs, known, control)?;
        let point = |(number, ran): (usize, Option<Ran>)| {
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

    fn results(
        &self,
        runs: &[(String, Run)],
        known: &Known,
        control: &Control<'_>,
    ) -> Result<Vec<Option<Ran>>, SweepError> {
        let failed =
            |(at, cause): (usize, SimulateError)| SweepError::Point { at: runs[at].0.clone(), cause };
        results(runs, self.explain, known, control).map_err(failed)
    }
}

fn axis(over: &Over) -> Axis {
    Axis { option: over.key().to_owned(), values: over.values.iter().map(json).collect() }
}
