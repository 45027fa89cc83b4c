//! Text and JSON about the basis of a result: extrapolation, expected error and uncertainty.

use doorbell_lab::uncertainty::Uncertainty;
use doorbell_lab::{Breakdown, Loaded, Support, Typed};
use doorbell_nic::{Digits, counted};
use schemars::JsonSchema;
use serde::Serialize;

/// A result with its basis, as JSON output.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Told<'a, T> {
    /// The result itself.
    #[serde(flatten)]
    pub(crate) result: &'a T,
    /// The load of an open loop, and its capacity; absent if no load was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) load: Option<&'a Loaded>,
    /// The command, for a result that another command can make more precise.
    #[serde(skip)]
    pub(crate) typed: Option<&'a Typed>,
    /// Unit of the result's rate.
    #[serde(skip)]
    pub(crate) unit: &'static str,
    /// Parts that lie outside the measurements behind the profiles, one sentence each.
    pub(crate) extrapolates: &'a [String],
    /// Data that support the result, and the error to expect.
    pub(crate) supports: &'a [Support],
    /// Uncertainty of the result; absent unless requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uncertainty: Option<&'a Uncertainty>,
    /// Stages of the traced operations; absent unless requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) breakdown: Option<&'a Breakdown>,
}

impl<'a, T> Told<'a, T> {
    /// The result's basis as text.
    pub(crate) fn text(&self) -> String {
        let expected: String = self.supports.iter().map(support).collect();
        line(self.extrapolates)
            + &expected
            + &self.uncertainty.map_or(String::new(), |uncertainty| within(uncertainty, self.unit))
    }
}

/// Text about the expected error of an answer, or about why the error is unknown.
fn support(support: &Support) -> String {
    let Support { of, data, numbers, median_error, largest_error } = support;
    match (median_error.zip(*largest_error), data.len()) {
        (Some((median, largest)), _) => format!(
            "Expected error: {of}: median {}, largest {}, from {}, each left out in turn\n",
            percent(median),
            percent(largest),
            counted(*numbers as u64, "similar measurement"),
        ),
        (None, 0) => format!("Expected error: {of}: not known, because nothing similar was measured\n"),
        (None, _) => format!("Expected error: {of}: not known for a profile with these values\n"),
    }
}

/// Text of the intervals that contain an answer with a probability of 90%.
fn within(uncertainty: &Uncertainty, unit: &str) -> String {
    let Uncertainty { runs, mops, latency_ns, model, as_measured, because } = uncertainty;
    let [least, most] = mops.map(|mops| Digits(mops, 2));
    let latency = match latency_ns {
        Some([least, most]) => format!("{least:.0} to {most:.0} ns"),
        None => "not known, because nothing completed in some of the runs".to_owned(),
    };
    let causes: Vec<String> =
        because.iter().map(|cause| format!("{} ({})", cause.parameter, percent(cause.share))).collect();
    let causes = match causes.is_empty() {
        true => "no parameter stands out".to_owned(),
        false => format!("causes of the variance: {}", causes.join(", ")),
    };
    format!(
        "Uncertainty: 90% interval {least} to {most} {unit}; mean latency {latency}\n  from {runs} runs \
         with parameters drawn from their ranges, and a standard error of {} for the model itself{}\n  \
         {causes}\n",
        percent(*model),
        if *as_measured { "" } else { " with the measured values" }
    )
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// The extrapolated parts as a line. Empty if no part is extrapolated.
fn line(extrapolates: &[String]) -> String {
    match extrapolates {
        [] => String::new(),
        all => format!("\nExtrapolated: {}\n", all.join("; ")),
    }
}
