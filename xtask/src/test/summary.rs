//! Runs steps one after the other, and prints a line for each at the end.

use super::processor;
use crate::command::{Problem, Task};
use std::fmt;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Result of a step.
enum StepEnd {
    Passed,
    Failed(String),
    Skipped(String),
}

impl StepEnd {
    fn of(result: Task<()>) -> StepEnd {
        match result {
            Ok(()) => StepEnd::Passed,
            Err(Problem::Failed(why)) => StepEnd::Failed(why),
            Err(Problem::Unavailable(why)) => StepEnd::Skipped(why),
        }
    }
}

/// Duration of a step.
pub(crate) struct Took {
    pub(crate) wall: Duration,
    /// Processor time of all programs that the step ran, if the system provides it.
    pub(crate) processor: Option<Duration>,
}

fn minutes(time: Duration) -> String {
    format!("{}:{:02}", time.as_secs() / 60, time.as_secs() % 60)
}

impl fmt::Display for Took {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wall = minutes(self.wall);
        match self.processor {
            Some(processor) => write!(f, "{wall}, {} of processor time", minutes(processor)),
            None => f.write_str(&wall),
        }
    }
}

/// Measures wall time and processor time since its creation.
pub(crate) struct Meter {
    begin: Instant,
    processor: Option<Duration>,
}

impl Meter {
    pub(crate) fn start() -> Meter {
        Meter { begin: Instant::now(), processor: processor::time_of_children() }
    }

    pub(crate) fn read(&self) -> Took {
        let processor = processor::time_of_children().zip(self.processor).map(|(now, then)| now - then);
        Took { wall: self.begin.elapsed(), processor }
    }
}

/// Name of a step, and the function that runs it.
pub(crate) type CheckStep<'a> = (&'a str, &'a dyn Fn() -> Task<()>);

/// Runs all steps, even after a failure, and prints the result and the duration of each.
pub(crate) fn run_steps(steps: &[CheckStep<'_>]) -> ExitCode {
    let all = Meter::start();
    let mut summary = Vec::new();
    for (name, step) in steps {
        println!("== {name}");
        let meter = Meter::start();
        let end = StepEnd::of(step());
        summary.push((name, end, meter.read()));
    }
    println!("== summary");
    for (name, end, took) in &summary {
        println!("{}", line(name, end, took));
    }
    println!("all in {}", all.read());
    let failed = summary.iter().any(|(_, end, _)| matches!(end, StepEnd::Failed(_)));
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn line(name: &str, end: &StepEnd, took: &Took) -> String {
    match end {
        StepEnd::Passed => format!("passed   {name} ({took})"),
        StepEnd::Failed(why) => format!("FAILED   {name} ({took}): {why}"),
        StepEnd::Skipped(why) => format!("skipped  {name}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_both_times() {
        let took = |processor| Took { wall: Duration::from_secs(61), processor };
        let both = took(Some(Duration::from_secs(125)));
        assert_eq!(line("lints", &StepEnd::Passed, &both), "passed   lints (1:01, 2:05 of processor time)");
        assert_eq!(line("lints", &StepEnd::Failed("no".into()), &took(None)), "FAILED   lints (1:01): no");
        assert_eq!(line("lints", &StepEnd::Skipped("no".into()), &both), "skipped  lints: no");
    }
}
