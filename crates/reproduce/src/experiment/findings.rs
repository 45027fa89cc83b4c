//! What an experiment found.

use super::setting::{setting, system_setting};
use crate::data::bottlenecks::ObservedLimit;
use crate::data::measurements::MeasurementReport;
use doorbell_lab::{Outcome, SystemOutcome};
use schemars::JsonSchema;
use serde::Serialize;

/// What an experiment found.
#[derive(Default)]
pub struct Findings {
    /// What was found for its claims.
    pub checks: Vec<Check>,
    /// The curves behind that.
    pub curves: Vec<Curve>,
    /// What was found for measurements that are no claims.
    pub measured: Vec<MeasurementReport>,
}

/// What was found for one claim.
pub struct Check {
    pub(crate) claim: &'static str,
    /// The profile it was found on.
    pub(crate) profile: &'static str,
    pub(crate) found: Found,
    pub(crate) bottleneck: Option<ObservedLimit>,
    /// It follows from formulas; nothing was simulated for it.
    pub(crate) formula: bool,
    pub(crate) note: String,
    /// The numbers found on the clusters that the claim is about, where it is about several.
    pub(crate) of_each: Vec<(&'static str, f64)>,
}

/// What can be found.
pub enum Found {
    /// A number in the claim's unit.
    Number(f64),
    /// The least and the most of several numbers, of a claim that states both ends; `None` is an end that is exempt.
    Range {
        /// The least.
        low: Option<f64>,
        /// The most.
        high: Option<f64>,
    },
    /// Yes or no.
    Flag(bool),
    /// Whether a statement in words holds, and what was seen.
    Statement {
        /// Whether it holds.
        holds: bool,
        /// What was seen.
        seen: String,
    },
}

impl Found {
    /// Whether all its numbers are numbers.
    pub(crate) fn is_finite(&self) -> bool {
        match self {
            Found::Number(number) => number.is_finite(),
            Found::Range { low, high } => low.iter().chain(high).all(|end| end.is_finite()),
            Found::Flag(_) | Found::Statement { .. } => true,
        }
    }
}

impl Check {
    /// What was found on a profile.
    pub fn new(claim: &'static str, profile: &'static str, found: Found) -> Check {
        Check {
            claim,
            profile,
            found,
            bottleneck: None,
            formula: false,
            note: String::new(),
            of_each: Vec::new(),
        }
    }

    /// A number in the claim's unit.
    pub fn number(claim: &'static str, profile: &'static str, number: impl Into<f64>) -> Check {
        Check::new(claim, profile, Found::Number(number.into()))
    }

    /// Whether a statement in words holds, and what was seen.
    pub fn statement(claim: &'static str, profile: &'static str, holds: bool, seen: String) -> Check {
        Check::new(claim, profile, Found::Statement { holds, seen })
    }

    /// The rate of a run whose bottleneck was observed.
    pub fn rate(claim: &'static str, profile: &'static str, outcome: &Outcome) -> Check {
        Check::number(claim, profile, outcome.mops).limited_by(outcome).note(setting(outcome))
    }

    /// Says what limited `outcome`, which was observed by reruns.
    pub fn limited_by(mut self, outcome: &Outcome) -> Check {
        if !outcome.lift.is_empty() {
            self.bottleneck = Some(ObservedLimit::One(outcome.bottleneck.class));
        }
        self
    }

    /// The rate of a system whose bottleneck was observed.
    pub fn system(claim: &'static str, profile: &'static str, outcome: &SystemOutcome) -> Check {
        Check::number(claim, profile, outcome.mrps).system_limited_by(outcome).note(system_setting(outcome))
    }

    /// Says what limited `outcome`, which was observed by reruns.
    pub fn system_limited_by(mut self, outcome: &SystemOutcome) -> Check {
        if !outcome.lift.is_empty() {
            self.bottleneck = Some(ObservedLimit::One(outcome.bottleneck.class));
        }
        self
    }

    /// Says that it follows from formulas.
    pub fn formula(mut self) -> Check {
        self.formula = true;
        self
    }

    /// Says what else is to be known.
    pub fn note(mut self, note: impl Into<String>) -> Check {
        self.note = note.into();
        self
    }
}

/// A curve that can be plotted.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Curve {
    /// Paper and table or figure, as `atc16/fig2`.
    pub experiment: String,
    /// Which curve of it.
    pub name: String,
    /// The profile it was found on.
    pub profile: String,
    /// What x is, with its unit.
    pub x: String,
    /// What y is, with its unit.
    pub y: String,
    /// Points, x ascending.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// The same without points that are no numbers.
    pub(crate) fn of_numbers(mut self) -> Curve {
        self.points.retain(|(x, y)| x.is_finite() && y.is_finite());
        self
    }
}

/// A curve of rates.
pub(crate) fn curve(
    experiment: &str,
    name: &str,
    profile: &str,
    x: &str,
    y: &str,
    points: Vec<(f64, f64)>,
) -> Curve {
    Curve {
        experiment: experiment.into(),
        name: name.into(),
        profile: profile.into(),
        x: x.into(),
        y: y.into(),
        points,
    }
}
