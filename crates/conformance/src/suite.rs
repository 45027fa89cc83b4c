//! Runs the suite.

use crate::bench::Bench;
use crate::line::LineSide;
use crate::step::{CheckStep, failed, outcome};
use crate::table::{SUITE, TableCheck, body};
use crate::{CheckResult, Outcome, Report};
use doorbell_verbs::{Cluster, Program, Provider};

/// One side of a check.
struct Body {
    check: TableCheck,
    side: LineSide,
}

impl Program for Body {
    type Output = CheckStep;

    fn run<P: Provider>(self, provider: P) -> CheckStep {
        Bench::run(provider, self.side, self.check.machines == 2, |bench| body(self.check.name, bench))
    }
}

/// The names of all checks, `group/check`, in the order in which [`run`] runs them.
pub fn names() -> impl Iterator<Item = &'static str> {
    SUITE.iter().map(|check| check.name)
}

/// Runs the checks whose name contains `filter`, or all checks without a filter. Each check runs on a fresh
/// cluster from `make`, which gets the number of machines. Reports each result to `each`.
///
/// Every machine needs a core 0 and a device 0 whose port 1 is active. The ports must reach each other.
pub fn run<C: Cluster>(
    make: &mut dyn FnMut(u32) -> C,
    filter: Option<&str>,
    each: &mut dyn FnMut(&CheckResult),
) -> Report {
    let mut report = Report::default();
    let wanted = |check: &&TableCheck| filter.is_none_or(|part| check.name.contains(part));
    for check in SUITE.iter().filter(wanted) {
        let result = CheckResult { name: check.name, outcome: run_check(make(check.machines), *check) };
        each(&result);
        report.checks.push(result);
    }
    report
}

fn run_check<C: Cluster>(mut cluster: C, check: TableCheck) -> Outcome {
    let sides = [LineSide::Requester, LineSide::Responder];
    let tasks: Vec<_> = (0..check.machines)
        .zip(sides)
        .map(|(machine, side)| (side, cluster.spawn(machine, 0, Body { check, side })))
        .collect();
    let ran = cluster.run();
    let mut steps: Vec<(&str, CheckStep)> = vec![];
    for (side, task) in tasks {
        match (task.take(), &ran) {
            (Some(step), _) => steps.push((side.name(), step)),
            // The error of the run, which is added below, gives the reason.
            (None, Err(_)) => {}
            (None, Ok(())) => steps.push((side.name(), Err(failed("did not end")))),
        }
    }
    if let Err(error) = ran {
        steps.push(("the run", Err(failed(error.to_string()))));
    }
    outcome(&steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_check_has_a_name_of_its_own() {
        let unique: HashSet<_> = names().collect();
        assert_eq!(unique.len(), SUITE.len());
    }

    #[test]
    fn known_differences_name_checks() {
        for known in crate::SOFT_ROCE_DIFFERENCES {
            assert!(names().any(|name| name == known.check), "no check is called {}", known.check);
        }
    }

    #[test]
    fn every_check_takes_one_machine_or_two() {
        assert!(SUITE.iter().all(|check| matches!(check.machines, 1 | 2)));
    }
}
