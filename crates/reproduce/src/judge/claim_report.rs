//! One claim, and what was found.

use crate::data::bottlenecks::BottleneckPair;
use crate::data::claims::{Kind, Value};
use schemars::JsonSchema;
use serde::Serialize;

/// How much a finding says about the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The profile was not set from this claim, nor from what states or implies it.
    Predicted,
    /// The profile was set from it, or from what states or implies it.
    Calibrated,
    /// Follows from formulas.
    Analytic,
    /// A property of the hardware that the profile states.
    Given,
    /// No paper says it: a statement of our own, of what a system does beyond the papers.
    Ours,
}

impl Basis {
    /// Its name in reports and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Basis::Predicted => "predicted",
            Basis::Calibrated => "calibrated",
            Basis::Analytic => "analytic",
            Basis::Given => "given",
            Basis::Ours => "ours",
        }
    }
}

/// One claim and what was found.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClaimReport {
    /// The claim.
    pub id: String,
    /// Its paper.
    pub paper: String,
    /// Section, table or figure.
    #[serde(rename = "where")]
    pub place: String,
    /// Profile on which it was checked.
    pub profile: String,
    /// What sort of statement it is.
    pub kind: Kind,
    /// Unit of its number.
    pub unit: String,
    /// What the paper says.
    pub paper_value: Value,
    /// What was found.
    pub simulated: Value,
    /// Relative distance from what the claim allows; `None` where there is no number.
    pub error: Option<f64>,
    /// How much the finding says about the model.
    pub basis: Basis,
    /// Whether the claim holds; a number within 10%.
    pub holds: bool,
    /// The paper's bottleneck beside ours.
    pub bottleneck: BottleneckPair,
    /// Claims that contradict this one.
    pub contested: Vec<String>,
    /// Remarks.
    pub note: String,
    /// Name of the experiment, after the paper's: `tab4`.
    pub experiment: String,
    /// Set aside before calibrating.
    pub held_out: bool,
    /// The first claim that states the same number, where that is not this one.
    pub restates: Option<String>,
    /// Why it is missed, and the run that shows it; `None` where it holds or nobody knows.
    pub explanation: Option<Explained>,
}

/// Why a claim is missed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Explained {
    /// Why.
    pub why: String,
    /// The command whose result shows it.
    pub run: String,
}

/// A claim that no experiment checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NotChecked {
    /// The claim.
    pub id: String,
    /// Why not.
    pub reason: String,
}
