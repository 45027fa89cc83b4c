//! How it is told what of a result rests on extrapolation.

use schemars::JsonSchema;
use serde::Serialize;

/// The JSON of a result, and what of it rests on extrapolation.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Told<'a, T> {
    /// What it is of.
    #[serde(flatten)]
    pub(crate) result: &'a T,
    /// What lies outside the measurements that the profiles were set from, a sentence each.
    pub(crate) extrapolates: &'a [String],
}

/// The same for people: a line, or nothing where nothing is to be said.
pub(crate) fn line(extrapolates: &[String]) -> String {
    match extrapolates {
        [] => String::new(),
        all => format!("\nRests on extrapolation: {}\n", all.join("; ")),
    }
}
