//! Tests a change during development, in less than three minutes.
//!
//! The quick test checks formatting and the lints of every crate. It runs all fast tests of crates with
//! changed files, and a selection of the tests of crates that depend on them. It prints which tests it leaves
//! out.

use super::reach::{self, ChangeReach, Workspace};
use super::steps::{self, cargo};
use super::summary::{CheckStep, run_steps};
use crate::command::{Task, run};
use std::collections::BTreeSet;
use std::process::ExitCode;

/// The part of a crate's tests that a quick run executes.
struct Selection {
    package: &'static str,
    /// Modules and tests that are too slow for a quick run.
    slow: &'static [&'static str],
    /// The test program, and its modules that run if a crate of `below` has changed.
    above: (&'static str, &'static [&'static str]),
    /// The other crates that trigger `above`. If the test program is slow to build, these are only the
    /// package's direct dependencies.
    below: &'static [&'static str],
}

const SELECTIONS: [Selection; 9] = [
    Selection { package: "doorbell-nic", slow: &["limits::"], above: ("nic", &[]), below: &[] },
    Selection {
        package: "doorbell-sim",
        slow: &["soak::"],
        above: ("sim", &["accounting::", "conformance::", "virtual_time::"]),
        below: &["doorbell-nic", "doorbell-transport", "doorbell-verbs"],
    },
    Selection {
        package: "doorbell-conformance",
        slow: &[],
        above: ("finds_flaws", &[""]),
        below: &["doorbell-sim", "doorbell-transport", "doorbell-verbs"],
    },
    Selection { package: "doorbell-systems", slow: &["kills::"], above: ("systems", &[]), below: &[] },
    Selection {
        package: "doorbell-lab",
        slow: &["cliffs", "cover::", "options::", "uncertainty::", "walk::"],
        above: ("lab", &["allocation::", "simulate::"]),
        below: &["doorbell-programs", "doorbell-schema", "doorbell-workload"],
    },
    Selection {
        package: "doorbell-cli",
        slow: &["curves::", "interrupts::", "live::", "trace::"],
        above: ("cli", &["docs::", "schemas::"]),
        below: &["doorbell-lab", "doorbell-launch", "doorbell-live", "doorbell-reproduce"],
    },
    Selection {
        package: "doorbell-soft",
        slow: &["tests::many", "tests::soak"],
        above: ("soft", &[]),
        below: &[],
    },
    Selection {
        package: "doorbell-soft-models",
        slow: &[],
        above: ("models", &[""]),
        below: &["doorbell-soft"],
    },
    Selection {
        package: "doorbell-soft-so",
        slow: &["ci::", "joined::", "programs::", "pyverbs::", "stacks::", "systems::"],
        above: ("soft-so", &["edges::", "headers::", "library::", "refusals::"]),
        below: &["doorbell-abi", "doorbell-launch", "doorbell-soft"],
    },
];

impl Selection {
    /// The modules to run if these crates have changed.
    fn above(&self, changed: &BTreeSet<String>) -> &'static [&'static str] {
        let is_below = self.below.iter().any(|&name| changed.contains(name));
        if is_below && !changed.contains(self.package) { self.above.1 } else { &[] }
    }
}

fn selection(package: &str) -> Option<&'static Selection> {
    SELECTIONS.iter().find(|selection| selection.package == package)
}

/// Runs all tests of a changed crate, except the slow ones.
fn tests_of(package: &str) -> Task<()> {
    let mut tests = cargo(&["test", "--quiet", "--package", package, "--lib", "--bins", "--tests", "--"]);
    let slow = selection(package).map_or(&[][..], |selection| selection.slow);
    run(tests.args(slow.iter().flat_map(|test| ["--skip", test])))
}

/// Runs the selected tests of a dependent crate. Cargo builds them with the whole workspace, because a single
/// crate would enable other features of its dependencies.
fn tests_above(selection: &Selection) -> Task<()> {
    let (program, modules) = selection.above;
    let mut tests = cargo(&["test", "--quiet", "--workspace", "--test", program, "--"]);
    run(tests.args(modules))
}

/// Describes the checks that a quick run leaves out.
fn left_out(reach: &ChangeReach) -> Vec<String> {
    let slow = reach.changed.iter().filter_map(|name| selection(name)).filter(|s| !s.slow.is_empty());
    let slow = slow.map(|s| format!("tests of {}: {}", s.package, s.slow.join(", ")));
    let above =
        reach.above.iter().filter_map(|name| match selection(name).map(|s| s.above(&reach.changed)) {
            Some([""]) => None,
            Some([]) | None => Some(format!("tests of {name}")),
            Some(some) => Some(format!("tests of {name} other than {}", some.join(", "))),
        });
    let always = ["documentation, instructions per verb, Soft-RoCE".to_owned()];
    slow.chain(above).chain(always).collect()
}

/// Runs the steps for the files that differ from `commit`.
pub(crate) fn run_quick(commit: &str) -> Task<ExitCode> {
    let files = reach::changed_files(commit)?;
    let reach = Workspace::read()?.reach(&files);
    let names = |names: &BTreeSet<String>| match names.iter().cloned().collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "nothing".to_owned(),
        some => some,
    };
    println!("changed since {commit}: {}; above: {}", names(&reach.changed), names(&reach.above));
    let own: Vec<(String, _)> =
        reach.changed.iter().map(|name| (format!("tests of {name}"), move || tests_of(name))).collect();
    let above =
        reach.above.iter().filter_map(|name| selection(name)).filter(|s| !s.above(&reach.changed).is_empty());
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

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(changed: &[&str], above: &[&str]) -> ChangeReach {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        ChangeReach { changed: names(changed), above: names(above) }
    }

    #[test]
    fn selected_crates_and_programs_are_in_the_workspace() {
        let workspace = Workspace::read().ok().expect("cargo says it");
        let names: BTreeSet<&str> = workspace.names().collect();
        for selection in &SELECTIONS {
            let all = selection.below.iter().chain([&selection.package]);
            assert!(all.clone().all(|name| names.contains(name)), "{:?}", all.collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_is_left_out_is_named() {
        let reach = reach(&["doorbell-sim"], &["doorbell-conformance", "doorbell-lab", "doorbell-toy"]);
        assert_eq!(
            left_out(&reach),
            [
                "tests of doorbell-sim: soak::",
                "tests of doorbell-lab",
                "tests of doorbell-toy",
                "documentation, instructions per verb, Soft-RoCE"
            ]
        );
    }
}
