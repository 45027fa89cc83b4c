//! Findings of an experiment.

use super::setting::setting;
use crate::data::bottlenecks::ObservedLimit;
use crate::data::measurements::MeasurementReport;
use doorbell_lab::Outcome;
use schemars::JsonSchema;
use serde::Serialize;

/// Findings of an experiment.
#[derive(Default)]
pub struct Findings {
    /// Findings for the claims.
    pub checks: Vec<Check>,
    /// Curves behind the findings.
    pub curves: Vec<Curve>,
    /// Results for measurements that are not claims.
    pub measured: Vec<MeasurementReport>,
}

/// Finding for one claim.
pub struct Check {
    pub(crate) claim: &'static str,
    /// Name of the profile with which the finding was made.
    pub(crate) profile: &'static str,
    pub(crate) found: Found,
    pub(crate) bottleneck: Option<ObservedLimit>,
    /// Whether the finding follows from formulas alone, without a simulation.
    pub(crate) formula: bool,
    pub(crate) note: String,
    /// Numbers found on each cluster, if the claim is about several clusters.
    pub(crate) of_each: Vec<(&'static str, f64)>,
}

/// Form of a finding.
pub enum Found {
    /// A number in the claim's unit.
    Number(f64),
    /// Smallest and largest of several numbers, for a claim that states both ends of a range. `None` marks an
    /// exempt end.
    Range {
        /// The smallest number.
        low: Option<f64>,
        /// The largest number.
        high: Option<f64>,
    },
    /// Yes or no.
    Flag(bool),
    /// A statement in words.
    Statement {
        /// Whether it holds.
        holds: bool,
        /// The observation in words.
        seen: String,
    },
}

impl Found {
    /// Whether all numbers of the finding are finite.
    pub(crate) fn is_finite(&self) -> bool {
        match self {
            Found::Number(number) => number.is_finite(),
            Found::Range { low, high } => low.iter().chain(high).all(|end| end.is_finite()),
            Found::Flag(_) | Found::Statement { .. } => true,
        }
    }
}

impl Check {
    /// A finding on a profile.
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

    /// A finding about a statement in words: whether it holds, and the observation.
    pub fn statement(claim: &'static str, profile: &'static str, holds: bool, seen: String) -> Check {
        Check::new(claim, profile, Found::Statement { holds, seen })
    }

    /// The rate of a run whose bottleneck was observed.
    pub fn rate(claim: &'static str, profile: &'static str, outcome: &Outcome) -> Check {
        Check::number(claim, profile, outcome.mops).limited_by(outcome).note(setting(outcome))
    }

    /// Adds the limit of `outcome`, if reruns observed it.
    pub fn limited_by(mut self, outcome: &Outcome) -> Check {
        if !outcome.lift.is_empty() {
            self.bottleneck = Some(ObservedLimit::One(outcome.bottleneck.class));
        }
        self
    }

    /// Marks the finding: it follows from formulas alone.
    pub fn formula(mut self) -> Check {
        self.formula = true;
        self
    }

    /// Sets the remark that reports show beside the finding.
    pub fn note(mut self, note: impl Into<String>) -> Check {
        self.note = note.into();
        self
    }
}

/// A curve that can be plotted.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Curve {
    /// Paper and table or figure, such as `atc16/fig2`.
    pub experiment: String,
    /// Name of the curve within the experiment.
    pub name: String,
    /// Profile on which it was found.
    pub profile: String,
    /// Quantity on the x axis, with its unit.
    pub x: String,
    /// Quantity on the y axis, with its unit.
    pub y: String,
    /// Points, x ascending.
    pub points: Vec<(f64, f64)>,
}

impl Curve {
    /// Removes the points that are not finite numbers.
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
