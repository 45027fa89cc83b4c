//! What a change to a few files is tested with while one works on it, in under three minutes.
//!
//! Formatting, lints of every crate, all tests of the crates with changed files that take seconds, and of the
//! crates above them a selection. What that leaves out is printed.

use super::reach::{self, ChangeReach, Workspace};
use super::steps::{self, cargo};
use super::summary::{CheckStep, run_steps};
use crate::command::{Task, run};
use std::process::ExitCode;

/// What a quick run has of the test program of a crate.
struct Selection {
    package: &'static str,
    program: &'static str,
    /// Modules and tests that are too slow for a quick run.
    slow: &'static [&'static str],
    /// Modules and tests that are run where a crate below has changed.
    above: &'static [&'static str],
}

const SELECTIONS: [Selection; 0] = [];

fn selection(package: &str) -> Option<&'static Selection> {
    SELECTIONS.iter().find(|selection| selection.package == package)
}

/// All tests of a crate that has changed, but for the slow ones.
fn tests_of(package: &str) -> Task<()> {
    let mut tests = cargo(&["test", "--quiet", "--package", package, "--lib", "--bins", "--tests", "--"]);
    let slow = selection(package).map_or(&[][..], |selection| selection.slow);
    run(tests.args(slow.iter().flat_map(|test| ["--skip", test])))
}

/// The selected tests of a crate above. They are built as those of the whole workspace are, whose features of other
/// crates differ from those of one crate.
fn tests_above(selection: &Selection) -> Task<()> {
    let mut tests = cargo(&["test", "--quiet", "--workspace", "--test", selection.program, "--"]);
    run(tests.args(selection.above))
}

/// What a quick run leaves out of everything.
fn left_out(reach: &ChangeReach) -> Vec<String> {
    let slow = reach.changed.iter().filter_map(|name| selection(name)).filter(|s| !s.slow.is_empty());
    let slow = slow.map(|s| format!("tests of {}: {}", s.package, s.slow.join(", ")));
    let above = reach.above.iter().map(|name| match selection(name).map_or(&[][..], |s| s.above) {
        [] => format!("tests of {name}"),
        some => format!("tests of {name} other than {}", some.join(", ")),
    });
    let always = ["documentation, instructions per verb, Soft-RoCE".to_owned()];
    slow.chain(above).chain(always).collect()
}

/// Runs the steps for the files that differ from a commit.
pub(crate) fn run_quick(commit: &str) -> Task<ExitCode> {
    let files = reach::changed_files(commit)?;
    let reach = Workspace::read()?.reach(&files);
    let names = |names: &std::collections::BTreeSet<String>| {
        if names.is_empty() {
            "nothing".to_owned()
        } else {
            names.iter().cloned().collect::<Vec<_>>().join(", ")
        }
    };
    println!("changed since {commit}: {}; above: {}", names(&reach.changed), names(&reach.above));
    let own: Vec<(String, _)> =
        reach.changed.iter().map(|name| (format!("tests of {name}"), move || tests_of(name))).collect();
    let above = reach.above.iter().filter_map(|name| selection(name)).filter(|s| !s.above.is_empty());
    let above: Vec<(String, _)> =
        above.map(|s| (format!("selected tests of {}", s.package), move || tests_above(s))).collect();
    let mut all: Vec<CheckStep<'_>> = vec![("formatting", &steps::formatting), ("lints", &steps::lints)];
    all.extend(own.iter().map(|(name, step)| -> CheckStep<'_> { (name, step) }));
    all.extend(above.iter().map(|(name, step)| -> CheckStep<'_> { (name, step) }));
    let code = run_steps(&all);
    println!("left out, see `cargo xtask test`:");
    for what in left_out(&reach) {
        println!("  {what}");
    }
    Ok(code)
}
