//! The runs of a series.

use super::axis;
use super::choices::{Choice, Choices};
use super::machine::{self, Hosts, Parameters};
use super::reading::Reading;
use super::refusal::Refusal;
use super::work::{self, MappedWork, PointWork};
use crate::format::{MeasuredWorkload, Measurement, SeriesPoint};
use doorbell_lab::{Outcome, Profiles, Run, Share, SystemWorkload, Until, least_latency, limits};
use doorbell_nic::Profile;
use doorbell_systems::System;
use doorbell_systems::config::Timing;
use doorbell_workload::Workload;
use std::collections::BTreeMap;

/// A series as runs on a profile.
#[derive(Clone, Debug)]
pub struct PlannedSeries {
    /// The points, in the order of the series.
    pub points: Vec<PlannedPoint>,
    /// Parameters of the profile that the link, the PCIe slot and the threads of the series set, in their
    /// units.
    pub set: BTreeMap<String, f64>,
    /// Values that the mapping takes for keys that the series lacks.
    pub choices: Vec<Choice>,
}

/// A point of a series as a run.
#[derive(Clone, Debug)]
pub struct PlannedPoint {
    /// The measured point.
    pub point: SeriesPoint,
    /// The run, or why there is none.
    pub run: Result<Run, Refusal>,
    /// How the result of the run becomes a value in the unit of the series.
    reading: Reading,
    /// Bytes of an operation.
    size: u64,
    /// The measured value is the rate of all machines divided by this number.
    shares: f64,
}

impl PlannedPoint {
    /// The model's value in the unit of the series, from the outcome of the run. `None` if no operation
    /// completed.
    pub fn model(&self, outcome: &Outcome) -> Option<f64> {
        let number = match self.reading.is_latency() {
            true => outcome.latency_ns.mean,
            false => Some(outcome.mops / self.shares).filter(|_| outcome.waits.is_none()),
        };
        number.map(|number| self.reading.value(number, self.size))
    }

    /// The analytic limit in the unit of the series: the least upper bound of a rate, or the lower bound of a
    /// latency. `None` for a ping-pong.
    pub fn limit(&self) -> Option<f64> {
        let run = self.run.as_ref().ok()?;
        let workload = run.as_verbs()?;
        let number = match self.reading.is_latency() {
            true => least_latency(&run.profiles, workload).as_ps() as f64 / 1e3,
            false => limits(&run.profiles, workload).first()?.mops / self.shares,
        };
        Some(self.reading.value(number, self.size))
    }
}

/// The runs of a series on a profile, whatever the NIC of the series is. A run ends when its rate and its
/// mean latency are known to `precision`, or to Doorbell's usual precision.
///
/// # Errors
/// If the model can answer no point of the series.
pub fn plan(
    measurement: &Measurement,
    profile: &Profile,
    hosts: &Hosts,
    precision: Option<Share>,
) -> Result<PlannedSeries, Refusal> {
    let setup = &measurement.setup;
    if let Some(why) = &setup.not_run {
        return Err(Refusal::NotRun(why.clone()));
    }
    if let Some(system) = &setup.system {
        return Err(Refusal::System(system.name.clone()));
    }
    let reading = Reading::of(setup)?;
    let points: Vec<Result<MeasuredWorkload, Refusal>> =
        measurement.points.iter().map(|point| axis::at(&setup.workload, point.x)).collect();
    let known: Vec<MeasuredWorkload> = points.iter().flatten().cloned().collect();
    let mut choices = Choices::default();
    let (profile, set) = machine::machine(setup, &known, profile, hosts, &mut choices)?;
    let links = setup.links.unwrap_or(1);
    let mut planner = Planner { profile, links, set, precision, choices, profiles: Vec::new() };
    let planned = measurement.points.iter().zip(points).map(|(point, w)| {
        let planned = w.and_then(|w| planner.run(*point, &w));
        let (size, shares) = planned.as_ref().map_or((0, 1), |(_, size, shares)| (*size, *shares));
        let run = planned.map(|(run, ..)| run);
        PlannedPoint { point: *point, run, reading, size: size.into(), shares: shares.into() }
    });
    let points: Vec<PlannedPoint> = planned.collect();
    match points.iter().find_map(|point| point.run.as_ref().err()) {
        Some(refusal) if points.iter().all(|point| point.run.is_err()) => Err(refusal.clone()),
        _ => {
            let Planner { set, choices, .. } = planner;
            Ok(PlannedSeries { points, set, choices: choices.into_all() })
        }
    }
}

/// Makes the runs of a series.
struct Planner {
    /// The profile in the host of the series.
    profile: Profile,
    links: u32,
    /// Parameters that all points set.
    set: Parameters,
    precision: Option<Share>,
    choices: Choices,
    /// Profiles by the parameters that are set, because setting them takes time.
    profiles: Vec<(Parameters, Profile)>,
}

impl Planner {
    /// The run of a point, the bytes of an operation, and the machines that share the rate.
    fn run(&mut self, point: SeriesPoint, w: &MeasuredWorkload) -> Result<(Run, u32, u32), Refusal> {
        if !(point.value > 0.0 && point.value.is_finite()) {
            return Err(Refusal::Value(point.value));
        }
        let MappedWork { work, size, shares } = work::work(w, self.links, &self.profile, &mut self.choices)?;
        let profile = self.profile_of(w)?;
        let run = match work {
            PointWork::Verbs(workload) => {
                let workload = Workload { precision: self.precision, until: Some(Until::Mean), ..*workload };
                Run::workload_on(&workload, Profiles::from(profile))
            }
            PointWork::PingPong(game) => {
                game.check().map_err(Refusal::Invalid)?;
                let precision = self.precision.unwrap_or(Timing::USUAL.precision);
                let timing = Timing { precision, until: Some(Until::Mean), ..Timing::USUAL };
                Run::system_on(SystemWorkload::from(game).timed(timing), &profile)
            }
        };
        Ok((run.map_err(|error| Refusal::Invalid(error.to_string()))?, size, shares))
    }

    /// The profile with the parameters of the series and of the point.
    fn profile_of(&mut self, w: &MeasuredWorkload) -> Result<Profile, Refusal> {
        let mut set = self.set.clone();
        set.extend(machine::of_point(w, &self.profile, &mut self.choices));
        if set.is_empty() {
            return Ok(self.profile.clone());
        }
        if let Some((_, profile)) = self.profiles.iter().find(|(known, _)| *known == set) {
            return Ok(profile.clone());
        }
        let profile = self.profile.with_set(&set).map_err(|error| Refusal::Invalid(error.to_string()))?;
        self.profiles.push((set, profile.clone()));
        Ok(profile)
    }
}
