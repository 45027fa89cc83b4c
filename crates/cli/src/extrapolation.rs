//! How it is told what supports a result: what of it rests on extrapolation, and how far off it may be.

use doorbell_lab::Support;
use doorbell_lab::uncertainty::Uncertainty;
use doorbell_nic::{Digits, counted};
use schemars::JsonSchema;
use serde::Serialize;

/// The JSON of a result, and what of it rests on extrapolation.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Told<'a, T> {
    /// What it is of.
    #[serde(flatten)]
    pub(crate) result: &'a T,
    /// The unit of its rate.
    #[serde(skip)]
    pub(crate) unit: &'static str,
    /// What lies outside the measurements that the profiles were set from, a sentence each.
    pub(crate) extrapolates: &'a [String],
    /// What supports it, and how far off it may be expected to be.
    pub(crate) supports: &'a [Support],
    /// Within what it lies; absent unless asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uncertainty: Option<&'a Uncertainty>,
}

impl<'a, T> Told<'a, T> {
    /// What is known beside the result.
    pub(crate) fn text(&self) -> String {
        let expected: String = self.supports.iter().map(support).collect();
        line(self.extrapolates)
            + &expected
            + &self.uncertainty.map_or(String::new(), |uncertainty| within(uncertainty, self.unit))
    }
}

/// How far off an answer may be expected to be; nothing where its profile does not know.
fn support(support: &Support) -> String {
    let Support { of, data, numbers, median_error, largest_error } = support;
    match (median_error.zip(*largest_error), data.len()) {
        (Some((median, largest)), _) => format!(
            "Expected error: {of}: {} in the median, {} at most, by {}, each left out in turn\n",
            percent(median),
            percent(largest),
            counted(*numbers as u64, "number like it").replace("number like its", "numbers like it"),
        ),
        (None, 0) => format!("Expected error: {of}: not known, no number like it was measured\n"),
        (None, _) => format!("Expected error: {of}: not known of a profile with these values\n"),
    }
}

/// Within what an answer lies.
fn within(uncertainty: &Uncertainty, unit: &str) -> String {
    let Uncertainty { runs, mops, latency_ns, model, because } = uncertainty;
    let [least, most] = mops.map(|mops| Digits(mops, 2));
    let latency = match latency_ns {
        Some([least, most]) => format!("{least:.0} to {most:.0} ns"),
        None => "not known, as nothing completed in some of the runs".to_owned(),
    };
    let causes: Vec<String> =
        because.iter().map(|cause| format!("{} ({})", cause.parameter, percent(cause.share))).collect();
    let causes = match causes.is_empty() {
        true => "no parameter stands out".to_owned(),
        false => format!("of the variance between them: {}", causes.join(", ")),
    };
    format!(
        "Uncertainty: 90% between {least} and {most} {unit}; mean latency {latency}\n  {runs} runs with parameters drawn from what they could be, and {} standard error of the model itself\n  {causes}\n",
        percent(*model)
    )
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// The same for people: a line, or nothing where nothing is to be said.
fn line(extrapolates: &[String]) -> String {
    match extrapolates {
        [] => String::new(),
        all => format!("\nRests on extrapolation: {}\n", all.join("; ")),
    }
}
