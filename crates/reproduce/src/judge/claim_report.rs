//! One claim and its finding.

use crate::data::bottlenecks::BottleneckPair;
use crate::data::claims::{Kind, Value};
use schemars::JsonSchema;
use serde::Serialize;

/// Evidence that a finding gives about the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// The profile was set neither from this claim nor from a claim that states or implies it.
    Predicted,
    /// The profile was set from this claim, or from a claim that states or implies it.
    Calibrated,
    /// Follows from formulas.
    Analytic,
    /// A property of the hardware that the profile states.
    Given,
    /// A statement of Doorbell's own, about what a system does beyond the papers.
    Ours,
}

impl Basis {
    /// Name of the basis in reports and JSON.
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

/// One claim and its finding.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ClaimReport {
    /// Id of the claim.
    pub id: String,
    /// Paper that makes the claim.
    pub paper: String,
    /// Section, table or figure.
    #[serde(rename = "where")]
    pub place: String,
    /// Profile on which it was checked.
    pub profile: String,
    /// Kind of statement that the claim makes.
    pub kind: Kind,
    /// Unit of the number.
    pub unit: String,
    /// Value that the paper states.
    pub paper_value: Value,
    /// Value that was found.
    pub simulated: Value,
    /// Relative distance from the values that the claim allows; `None` if there is no number.
    pub error: Option<f64>,
    /// Evidence that the finding gives about the model.
    pub basis: Basis,
    /// Whether the claim holds. A number holds within 10%.
    pub holds: bool,
    /// Limit that the paper names and limit that was observed.
    pub bottleneck: BottleneckPair,
    /// Claims that contradict this one.
    pub contested: Vec<String>,
    /// Remarks.
    pub note: String,
    /// Name of the experiment, after the paper's name: `tab4`.
    pub experiment: String,
    /// Whether the claim was set aside before calibration.
    pub held_out: bool,
    /// First claim that states this number; absent for that first claim itself.
    pub restates: Option<String>,
    /// Why the claim is missed, and the run that shows it; `None` if it holds or the reason is unknown.
    pub explanation: Option<Explained>,
}

/// The reason why a claim is missed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Explained {
    /// Reason, in words.
    pub why: String,
    /// Command whose result shows the reason.
    pub run: String,
}

/// A claim that no experiment checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NotChecked {
    /// Id of the claim.
    pub id: String,
    /// Reason why no experiment checks it.
    pub reason: String,
}
