//! The comparison of a profile with the series of its NIC.

use crate::format::{MeasuredUnit, Measurement, Metric, SeriesFile, SeriesRole};
use crate::mapping::{Choice, Hosts, PlannedPoint, PlannedSeries, Refusal, plan};
use doorbell_lab::{Control, Known, Making, NotYet, Run, Share, Taken, median};
use doorbell_nic::{Basis, Parameter, Profile, ProfileError};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Version of the JSON of a [`Checked`]. Later versions only add fields.
pub const CHECK_SCHEMA: u32 = 1;

/// Settings of a check.
#[derive(Clone, Copy, Debug, Default)]
pub struct CheckOptions {
    /// Precision at which a run ends, if not at Doorbell's usual precision.
    pub precision: Option<Share>,
}

/// Why a check is impossible.
#[derive(Debug, Error)]
pub enum CheckError {
    /// The profile has no name of a NIC, so no series is of its NIC.
    #[error(
        "profile {profile} states no measured_as, so no series is of its NIC: list the NIC's names in it; the file \
         has series of {nics}"
    )]
    NoNames {
        /// Name of the profile.
        profile: String,
        /// NICs of the file, in quotes.
        nics: String,
    },
    /// No series of the file is of the profile's NIC.
    #[error("no series is of the NIC of profile {profile} ({names}); the file has series of {nics}")]
    NoSeries {
        /// Name of the profile.
        profile: String,
        /// Names of its NIC.
        names: String,
        /// NICs of the file.
        nics: String,
    },
    /// A built-in profile is malformed.
    #[error("{0}")]
    Profile(#[from] ProfileError),
}

/// Measurements beside the model, as the JSON of `doorbell check`.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Checked {
    /// Always [`CHECK_SCHEMA`].
    pub schema: u32,
    /// Name of the profile.
    pub profile: String,
    /// Series of the profile's NIC, in the order of the file.
    pub series: Vec<CheckedSeries>,
    /// Series of other NICs, which are not simulated.
    pub others: Vec<OtherSeries>,
    /// Answers and errors by role, and of all series together.
    pub summary: Vec<Summary>,
    /// Points without a result, because the work was cut short.
    pub missing: u64,
    /// Results that were taken from the store; absent without a store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stored: Option<Taken>,
}

/// A series beside the model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CheckedSeries {
    /// Name of the series.
    pub id: String,
    /// Use of the series: `calibrate`, `check` or `reference`.
    #[serde(serialize_with = "in_words")]
    #[schemars(with = "String")]
    pub role: SeriesRole,
    /// Name of the NIC in the file.
    pub nic: String,
    /// Name of the hosts.
    pub host: String,
    /// Metric.
    #[serde(serialize_with = "in_words")]
    #[schemars(with = "String")]
    pub metric: Metric,
    /// Unit of measured, model and limit.
    #[serde(serialize_with = "in_words")]
    #[schemars(with = "String")]
    pub unit: MeasuredUnit,
    /// Key that x is a value of.
    pub axis: String,
    /// Whether a parameter of the profile was set from the series.
    pub calibrated: bool,
    /// Parameters that the link, the PCIe slot and the threads of the series set.
    pub set: BTreeMap<String, f64>,
    /// Values that the mapping takes for keys that the series lacks.
    pub choices: Vec<Choice>,
    /// The points.
    pub points: Vec<CheckedPoint>,
    /// Why the series has no answer, in a sentence; null if a point has one.
    pub refused: Option<String>,
    /// Median of the points' errors, without their signs; null without an answer.
    pub median: Option<f64>,
    /// Largest of the points' errors, without its sign; null without an answer.
    pub worst: Option<f64>,
}

/// A point beside the model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CheckedPoint {
    /// Value of the axis.
    pub x: f64,
    /// Measured value.
    pub measured: f64,
    /// The model's value; null if there is no result.
    pub model: Option<f64>,
    /// Analytic limit: an upper bound of a rate or a bandwidth, a lower bound of a latency. Null if there is
    /// none.
    pub limit: Option<f64>,
    /// The model's value by the measured value, less 1; null if there is no result.
    pub error: Option<f64>,
    /// Why the point has no answer, in a sentence; absent if it has one, or if the work was cut short.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Why the model's value may differ from its steady state, in a sentence; absent if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<String>,
}

/// A series of another NIC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OtherSeries {
    /// Name of the series.
    pub id: String,
    /// Name of the NIC in the file.
    pub nic: String,
    /// Name of the hosts.
    pub host: String,
    /// Built-in profiles of this NIC.
    pub profiles: Vec<String>,
}

/// Answers and errors of a group of series.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    /// Role of the series; null for all series together.
    pub role: Option<String>,
    /// Series with an answer for at least one point.
    pub answered: u64,
    /// Series without an answer.
    pub refused: u64,
    /// Points with an answer.
    pub points: u64,
    /// Points without an answer.
    pub refused_points: u64,
    /// Median of the medians of the answered series; null without one.
    pub median: Option<f64>,
    /// Median over the hosts, each with the median of its series' medians; null without an answer.
    pub median_of_hosts: Option<f64>,
    /// Hosts with an answered series.
    pub hosts: u64,
    /// Largest of the points' errors, without its sign; null without an answer.
    pub worst: Option<f64>,
}

fn in_words<S: Serializer>(word: &impl std::fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(word)
}

/// Simulates the series of the profile's NIC. If the work is cut short, points without a result remain
/// without a model.
///
/// # Errors
/// If no series is of the profile's NIC.
pub fn check(
    file: &SeriesFile,
    profile: &Profile,
    options: CheckOptions,
    known: &Known,
    control: &Control<'_>,
) -> Result<Checked, CheckError> {
    let (own, others): (Vec<&Measurement>, Vec<&Measurement>) =
        file.series.iter().partition(|m| profile.measured_as.contains(&m.setup.nic));
    if own.is_empty() {
        return Err(without_series(file, profile));
    }
    let hosts = Hosts::built_in()?;
    let planned = |m: &&Measurement| plan(m, profile, &hosts, options.precision);
    let plans: Vec<Result<PlannedSeries, Refusal>> = own.iter().map(planned).collect();
    find_out(&own, &plans, known, control);
    let used = used_for(profile);
    let beside =
        own.iter().zip(plans).map(|(m, plan)| beside(m, plan, known, used.contains(m.setup.id.as_str())));
    let series: Vec<CheckedSeries> = beside.collect();
    let is_missing = |point: &&CheckedPoint| point.model.is_none() && point.refused.is_none();
    let missing = |series: &CheckedSeries| match series.refused {
        Some(_) => 0,
        None => series.points.iter().filter(is_missing).count() as u64,
    };
    Ok(Checked {
        schema: CHECK_SCHEMA,
        profile: profile.name.clone(),
        others: others_of(&others)?,
        summary: summaries(&series),
        missing: series.iter().map(missing).sum(),
        series,
        stored: known.taken(),
    })
}

/// At most this many NICs of a file are named in a message.
const NAMED: usize = 5;

/// The NICs of a file, each once, in words.
fn nics(file: &SeriesFile, quote: &str) -> String {
    let names: BTreeSet<&str> = file.series.iter().map(|m| m.setup.nic.as_str()).collect();
    let named: Vec<String> = names.iter().take(NAMED).map(|name| format!("{quote}{name}{quote}")).collect();
    let more = names.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    named.join(", ") + &more
}

fn without_series(file: &SeriesFile, profile: &Profile) -> CheckError {
    let name = profile.name.clone();
    match profile.measured_as.is_empty() {
        true => CheckError::NoNames { profile: name, nics: nics(file, "\"") },
        false => CheckError::NoSeries {
            profile: name,
            names: profile.measured_as.join(", "),
            nics: nics(file, ""),
        },
    }
}

/// Ids of the measurements that parameters of the profile were set from.
fn used_for(profile: &Profile) -> BTreeSet<&str> {
    let set = profile.parameters.iter().flat_map(measurements_of);
    set.map(String::as_str).chain(profile.measured.runs()).collect()
}

/// Ids of the measurements that a parameter was set from.
fn measurements_of(parameter: &Parameter) -> &[String] {
    match &parameter.basis {
        Basis::Calibrated { measurements, .. } => measurements,
        Basis::Published { .. } | Basis::Assumed { .. } | Basis::Set { .. } => &[],
    }
}

fn name_of(id: &str, point: &PlannedPoint) -> String {
    format!("{id} at {}", point.point.x)
}

/// Makes the runs of all points that are not known.
fn find_out(
    series: &[&Measurement],
    plans: &[Result<PlannedSeries, Refusal>],
    known: &Known,
    control: &Control<'_>,
) {
    let answered = series.iter().zip(plans).filter_map(|(m, plan)| Some((&m.setup.id, plan.as_ref().ok()?)));
    let of_series = |(id, planned): (&String, &PlannedSeries)| -> Vec<(Run, String)> {
        let runs = planned.points.iter().filter_map(|p| Some((p.run.clone().ok()?, name_of(id, p))));
        runs.collect()
    };
    let asked: Vec<(Run, String)> = answered.flat_map(of_series).collect();
    loop {
        for (run, name) in &asked {
            // The result is read later; this asks for the run. A failure keeps other runs from starting, so
            // they are asked for again.
            let _ = known.of(run, name);
        }
        if !known.wants() || control.is_over() {
            return;
        }
        known.find_out(control, Making::InGroups, &|| ());
    }
}

/// A series beside the model.
fn beside(
    m: &Measurement,
    plan: Result<PlannedSeries, Refusal>,
    known: &Known,
    calibrated: bool,
) -> CheckedSeries {
    let setup = &m.setup;
    let mut series = CheckedSeries {
        id: setup.id.clone(),
        role: setup.role.clone(),
        nic: setup.nic.clone(),
        host: setup.host.clone(),
        metric: setup.workload.metric.clone(),
        unit: setup.unit.clone(),
        axis: setup.workload.axis.clone(),
        calibrated,
        set: BTreeMap::new(),
        choices: Vec::new(),
        points: m.points.iter().map(|point| CheckedPoint::without_answer(point.x, point.value)).collect(),
        refused: None,
        median: None,
        worst: None,
    };
    match plan {
        Err(refusal) => series.refused = Some(refusal.to_string()),
        Ok(PlannedSeries { points, set, choices }) => {
            (series.set, series.choices) = (set, choices);
            series.points = points.iter().map(|point| CheckedPoint::of(point, known)).collect();
            series.judge();
        }
    }
    series
}

impl CheckedSeries {
    /// Errors of the answered points, without their signs.
    fn errors(&self) -> Vec<f64> {
        self.points.iter().filter_map(|point| Some(point.error?.abs())).collect()
    }

    /// Sums up the points.
    fn judge(&mut self) {
        let errors = self.errors();
        self.median = median(&errors);
        self.worst = errors.into_iter().reduce(f64::max);
        // Runs without a result can leave no point with an answer.
        if self.points.iter().all(|point| point.refused.is_some()) {
            self.refused = self.points.iter().find_map(|point| point.refused.clone());
        }
    }
}

impl CheckedPoint {
    fn without_answer(x: f64, measured: f64) -> CheckedPoint {
        CheckedPoint { x, measured, model: None, limit: None, error: None, refused: None, unsettled: None }
    }

    /// A point with the result of its run, if that is known.
    fn of(point: &PlannedPoint, known: &Known) -> CheckedPoint {
        let measured = point.point.value;
        let none = CheckedPoint::without_answer(point.point.x, measured);
        let refused = |why: String| CheckedPoint { refused: Some(why), ..none.clone() };
        let run = match &point.run {
            Ok(run) => run,
            Err(refusal) => return refused(refusal.to_string()),
        };
        let limit = point.limit();
        match known.of(run, "") {
            Ok(outcome) => match point.model(&outcome) {
                Some(model) => {
                    let error = Some(model / measured - 1.0);
                    let unsettled = outcome.interval.unsettled.clone();
                    CheckedPoint { model: Some(model), limit, error, unsettled, ..none }
                }
                None => refused("no operation completed in the simulation".into()),
            },
            Err(NotYet::Failed(error)) if !error.is_cut() => refused(error.to_string()),
            Err(_) => CheckedPoint { limit, ..none },
        }
    }
}

/// The series of other NICs, with the built-in profiles of these NICs.
fn others_of(series: &[&Measurement]) -> Result<Vec<OtherSeries>, ProfileError> {
    let profiles = Profile::names().map(Profile::named).collect::<Result<Vec<_>, _>>()?;
    let of = |m: &&Measurement| OtherSeries {
        id: m.setup.id.clone(),
        nic: m.setup.nic.clone(),
        host: m.setup.host.clone(),
        profiles: profiles
            .iter()
            .filter(|profile| profile.measured_as.contains(&m.setup.nic))
            .map(|profile| profile.name.clone())
            .collect(),
    };
    Ok(series.iter().map(of).collect())
}

/// A summary of each role, in the order of the series, and of all series.
fn summaries(series: &[CheckedSeries]) -> Vec<Summary> {
    let mut roles: Vec<&SeriesRole> = Vec::new();
    for role in series.iter().map(|series| &series.role) {
        if !roles.contains(&role) {
            roles.push(role);
        }
    }
    let of_role = |role: &SeriesRole| {
        let own: Vec<&CheckedSeries> = series.iter().filter(|series| series.role == *role).collect();
        summary(Some(role.to_string()), &own)
    };
    let all: Vec<&CheckedSeries> = series.iter().collect();
    roles.into_iter().map(of_role).chain([summary(None, &all)]).collect()
}

fn summary(role: Option<String>, series: &[&CheckedSeries]) -> Summary {
    let medians: Vec<f64> = series.iter().filter_map(|series| series.median).collect();
    let mut of_hosts: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (host, median) in series.iter().filter_map(|series| Some((&*series.host, series.median?))) {
        of_hosts.entry(host).or_default().push(median);
    }
    let hosts: Vec<f64> = of_hosts.values().filter_map(|medians| median(medians)).collect();
    let points = || series.iter().flat_map(|series| &series.points);
    let refused = |series: &&&CheckedSeries| series.refused.is_some();
    let is_refused = |point: &&CheckedPoint| point.refused.is_some();
    let of_refused: usize = series.iter().filter(refused).map(|series| series.points.len()).sum();
    let of_answered = series.iter().filter(|series| series.refused.is_none());
    let in_answered: usize = of_answered.map(|series| series.points.iter().filter(is_refused).count()).sum();
    Summary {
        role,
        answered: medians.len() as u64,
        refused: series.iter().filter(refused).count() as u64,
        points: points().filter(|point| point.error.is_some()).count() as u64,
        refused_points: (of_refused + in_answered) as u64,
        median: median(&medians),
        median_of_hosts: median(&hosts),
        hosts: hosts.len() as u64,
        worst: series.iter().filter_map(|series| series.worst).reduce(f64::max),
    }
}
