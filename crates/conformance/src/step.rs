//! Results of a check's body, and its assertions.

use crate::Outcome;
use std::fmt::Debug;
use std::panic::Location;

/// The reason why a check's body stopped before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CheckStop {
    /// The device did not behave as required.
    Failed(String),
    /// The device lacks a feature that the check needs.
    Skipped(String),
    /// The other side stopped first and reports the reason.
    PeerStopped,
}

/// Result of a step of a check's body.
pub(crate) type CheckStep<T = ()> = Result<T, CheckStop>;

impl<E: std::error::Error> From<E> for CheckStop {
    #[track_caller]
    fn from(error: E) -> CheckStop {
        failed(error.to_string())
    }
}

/// A failure, with the file and line of the caller.
#[track_caller]
pub(crate) fn failed(what: impl Into<String>) -> CheckStop {
    let place = Location::caller();
    let file = place.file().rsplit(['/', '\\']).next().unwrap_or_default();
    CheckStop::Failed(format!("{} ({file}:{})", what.into(), place.line()))
}

/// Fails unless `got` equals `want`.
#[track_caller]
pub(crate) fn same<T: PartialEq + Debug>(what: &str, got: T, want: T) -> CheckStep {
    if got == want { Ok(()) } else { Err(failed(format!("{what} is {got:?}, not {want:?}"))) }
}

/// Fails unless the condition holds.
#[track_caller]
pub(crate) fn holds(what: &str, condition: bool) -> CheckStep {
    if condition { Ok(()) } else { Err(failed(format!("this does not hold: {what}"))) }
}

/// Fails unless the request was refused. Returns the refusal.
#[track_caller]
pub(crate) fn refused<T, E>(what: &str, result: Result<T, E>) -> CheckStep<E> {
    match result {
        Ok(_) => Err(failed(format!("{what} was not refused"))),
        Err(refusal) => Ok(refusal),
    }
}

/// Skips the check unless the device has the feature.
pub(crate) fn needs(what: &str, has: bool) -> CheckStep {
    if has { Ok(()) } else { Err(CheckStop::Skipped(format!("the device has no {what}"))) }
}

/// The outcome of a check from the results of its sides. A failure outweighs a skip, and a skip outweighs a
/// success.
pub(crate) fn outcome(sides: &[(&str, CheckStep)]) -> Outcome {
    let stops = || sides.iter().filter_map(|(side, step)| step.as_ref().err().map(|stop| (side, stop)));
    let failures: Vec<String> = stops()
        .filter_map(|(side, stop)| match stop {
            CheckStop::Failed(why) => Some(format!("{side}: {why}")),
            _ => None,
        })
        .collect();
    if !failures.is_empty() {
        return Outcome::Failed(failures.join("; "));
    }
    let skip = stops().find_map(|(_, stop)| match stop {
        CheckStop::Skipped(why) => Some(why.clone()),
        _ => None,
    });
    match skip {
        Some(why) => Outcome::Skipped(why),
        None if stops().next().is_some() => Outcome::Failed("a side stopped without a reason".into()),
        None => Outcome::Passed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_wins_over_a_skip_and_a_skip_over_success() {
        let fail = Err(CheckStop::Failed("broken".into()));
        let skip = Err(CheckStop::Skipped("nothing there".into()));
        let peer = Err(CheckStop::PeerStopped);
        let of =
            |a: &CheckStep, b: &CheckStep| outcome(&[("requester", a.clone()), ("responder", b.clone())]);
        assert_eq!(of(&Ok(()), &Ok(())), Outcome::Passed);
        assert_eq!(of(&fail, &peer), Outcome::Failed("requester: broken".into()));
        assert_eq!(of(&fail, &fail), Outcome::Failed("requester: broken; responder: broken".into()));
        assert_eq!(of(&skip, &fail), Outcome::Failed("responder: broken".into()));
        assert_eq!(of(&peer, &skip), Outcome::Skipped("nothing there".into()));
        assert_eq!(of(&Ok(()), &skip), Outcome::Skipped("nothing there".into()));
        assert!(matches!(of(&peer, &Ok(())), Outcome::Failed(_)));
    }

    #[test]
    fn a_failure_says_where() {
        let CheckStop::Failed(why) = same("state", 1, 2).unwrap_err() else { panic!("not a failure") };
        assert!(why.starts_with("state is 1, not 2 (step.rs:"), "{why}");
        fn through() -> CheckStep {
            "x".parse::<u32>()?;
            Ok(())
        }
        let CheckStop::Failed(why) = through().unwrap_err() else { panic!("not a failure") };
        assert!(why.contains("(step.rs:"), "{why}");
    }

    #[test]
    fn a_verb_that_works_is_not_refused() {
        assert!(refused::<_, ()>("it", Ok(())).is_err());
        assert_eq!(refused::<(), _>("it", Err(7)), Ok(7));
    }
}
