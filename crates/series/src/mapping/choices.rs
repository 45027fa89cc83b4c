//! Values that the mapping takes for keys that a series lacks.

use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// A value that the mapping takes for a key, because the series does not state it or the model lacks it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Choice {
    /// The key.
    pub key: &'static str,
    /// The value, in words.
    pub taken: String,
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.taken)
    }
}

/// The choices of a series, each once.
#[derive(Debug, Default)]
pub(super) struct Choices(Vec<Choice>);

impl Choices {
    /// Notes a choice.
    pub(super) fn take(&mut self, key: &'static str, taken: impl Into<String>) {
        let choice = Choice { key, taken: taken.into() };
        if !self.0.contains(&choice) {
            self.0.push(choice);
        }
    }

    /// The value of a key, or the usual value, which is then a choice.
    pub(super) fn or<T: Copy + fmt::Display>(&mut self, key: &'static str, stated: Option<T>, usual: T) -> T {
        stated.unwrap_or_else(|| {
            self.take(key, usual.to_string());
            usual
        })
    }

    pub(super) fn into_all(self) -> Vec<Choice> {
        self.0
    }
}
