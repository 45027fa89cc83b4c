//! Results of a run of the suite.

use std::fmt;

/// Result of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The device behaves as required.
    Passed,
    /// The device does not behave as required. The text says where and how.
    Failed(String),
    /// The device lacks the feature that the text names.
    Skipped(String),
}

/// A check and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResult {
    /// Name: `group/check`.
    pub name: &'static str,
    /// Result.
    pub outcome: Outcome,
}

impl fmt::Display for CheckResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.outcome {
            Outcome::Passed => write!(f, "passed   {}", self.name),
            Outcome::Failed(why) => write!(f, "FAILED   {}: {why}", self.name),
            Outcome::Skipped(why) => write!(f, "skipped  {}: {why}", self.name),
        }
    }
}

/// A check that a device is known to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownDifference {
    /// Name: `group/check`.
    pub check: &'static str,
    /// The device's actual behaviour.
    pub reason: &'static str,
}

/// Results of a run, in the order of the suite.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Report {
    /// Results of the checks that the filter selected.
    pub checks: Vec<CheckResult>,
}

impl Report {
    /// Numbers of checks passed, failed and skipped.
    pub fn counts(&self) -> (usize, usize, usize) {
        self.checks.iter().fold((0, 0, 0), |(passed, failed, skipped), check| match check.outcome {
            Outcome::Passed => (passed + 1, failed, skipped),
            Outcome::Failed(_) => (passed, failed + 1, skipped),
            Outcome::Skipped(_) => (passed, failed, skipped + 1),
        })
    }

    /// The names of the failed checks.
    pub fn failed(&self) -> Vec<&'static str> {
        let failed = self.checks.iter().filter(|c| matches!(c.outcome, Outcome::Failed(_)));
        failed.map(|c| c.name).collect()
    }

    /// Differences from the known results of a device: checks that failed unexpectedly, and checks that
    /// passed although they are known to fail. The list is empty if there is no difference.
    pub fn surprises(&self, known: &[KnownDifference]) -> Vec<String> {
        let surprise = |c: &CheckResult| {
            let difference = known.iter().find(|d| d.check == c.name);
            match (&c.outcome, difference) {
                (Outcome::Failed(_), None) => Some(c.to_string()),
                (Outcome::Passed, Some(known)) => {
                    Some(format!("{} passed, but this difference is known: {}", c.name, known.reason))
                }
                _ => None,
            }
        };
        self.checks.iter().filter_map(surprise).collect()
    }
}

impl fmt::Display for Report {
    /// Writes one line with the counts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (passed, failed, skipped) = self.counts();
        write!(f, "{passed} passed, {failed} failed, {skipped} skipped")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let check = |name, outcome| CheckResult { name, outcome };
        Report {
            checks: vec![
                check("a/passes", Outcome::Passed),
                check("a/fails", Outcome::Failed("why".into())),
                check("a/lacks", Outcome::Skipped("no atomics".into())),
            ],
        }
    }

    #[test]
    fn counts_by_outcome() {
        assert_eq!(report().counts(), (1, 1, 1));
        assert_eq!(report().to_string(), "1 passed, 1 failed, 1 skipped");
        assert_eq!(report().failed(), ["a/fails"]);
    }

    #[test]
    fn a_known_difference_is_no_surprise_and_a_lost_one_is() {
        let known = |check| KnownDifference { check, reason: "it says no" };
        assert_eq!(report().surprises(&[known("a/fails"), known("a/lacks")]), Vec::<String>::new());
        assert_eq!(report().surprises(&[]), ["FAILED   a/fails: why"]);
        let surprises = report().surprises(&[known("a/fails"), known("a/passes")]);
        assert_eq!(surprises, ["a/passes passed, but this difference is known: it says no"]);
    }
}
