//! Checks whether a change to the code has changed Doorbell's output.
//!
//! Builds `doorbell` from a commit and from the work tree, runs both with equal command lines, and compares
//! all output. This is the gate for restructuring.

mod build;
mod compare;
mod drive;
mod runs;

use crate::command::{Problem, Task, failed, output};
use crate::workspace::{self, root};
use build::{Commit, ProgramStore};
use compare::{Difference, DifferenceClass, RunPair, Unknown};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

/// Maximum number of differing runs whose fields are printed, and maximum number of fields for each.
const SHOWN: (usize, usize) = (20, 4);

/// Command line options.
#[derive(Default)]
pub(crate) struct Options<'a> {
    commit: Option<&'a str>,
    faster: bool,
    list: bool,
    /// Leaves sentences out of the comparison, and lists the sentences that differ.
    words: bool,
}

impl<'a> Options<'a> {
    /// Reads the options. Returns `None` if one is wrong.
    pub(crate) fn parse(arguments: &[&'a str]) -> Option<Options<'a>> {
        let mut options = Options::default();
        for &argument in arguments {
            match argument {
                "--faster" => options.faster = true,
                "--list" => options.list = true,
                "--words" => options.words = true,
                _ if argument.starts_with('-') || options.commit.is_some() => return None,
                _ => options.commit = Some(argument),
            }
        }
        Some(options)
    }
}

/// Compares the two programs. The exit code is 0 if there is no difference that the options forbid.
pub(crate) fn run(options: &Options<'_>) -> Task<u8> {
    if options.list {
        let runs = runs::all(&profiles_of_tree()?).into_iter().chain(runs::unlike());
        let lines = runs.map(|run| format!("doorbell {run}\n"));
        // Ignore errors, because the reader may have closed the pipe.
        let _ = std::io::stdout().write_all(lines.collect::<String>().as_bytes());
        return Ok(0);
    }
    let commit = Commit::choose(options.commit)?;
    println!("comparing the work tree with {}", commit.text());
    let place = ProgramStore::open(&workspace::target()?)?;
    let now = place.of_tree()?;
    let before = place.of_commit(&commit)?;
    println!("before: {}\nnow:    {}", before.display(), now.display());
    let begun = Instant::now();
    let pairs = drive::all(&runs_of_both(&before, &now)?, &before, &now)?;
    println!("{} runs of each in {:.0} s", pairs.len(), begun.elapsed().as_secs_f64());
    Ok(report(&pairs, &commit, options))
}

/// Names of the profiles in the work tree.
fn profiles_of_tree() -> Task<Vec<String>> {
    let folder = root().join("profiles");
    let entries = std::fs::read_dir(&folder).map_err(|error| failed(folder.display(), error))?;
    let files = entries.flatten().map(|entry| entry.path());
    let tables = files.filter(|file| file.extension().is_some_and(|e| e == "toml"));
    let mut names: Vec<String> =
        tables.filter_map(|file| Some(file.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    Ok(names)
}

/// Names of the profiles that a program knows.
fn profiles(program: &Path) -> Task<Vec<String>> {
    let json = output(Command::new(program).args(["profiles", "--json"]))?;
    let profiles: Vec<serde_json::Value> =
        serde_json::from_slice(&json).map_err(|error| failed("profiles --json", error))?;
    Ok(profiles.iter().filter_map(|p| Some(p.get("name")?.as_str()?.to_owned())).collect())
}

/// The runs that both programs can execute.
fn runs_of_both(before: &Path, now: &Path) -> Task<Vec<String>> {
    let mut runs = runs::all(&profiles_of_both(before, now)?);
    if reads_unlike(before)? && reads_unlike(now)? {
        runs.extend(runs::unlike());
    } else {
        println!("not compared, as one of them does not read it: {}", runs::UNLIKE);
    }
    Ok(runs)
}

/// Whether a program can read workloads of machines with different profiles.
fn reads_unlike(program: &Path) -> Task<bool> {
    let mut command = Command::new(program);
    command.args(["limits", runs::UNLIKE, "--json"]).current_dir(root());
    let ended = command.output().map_err(|error| failed(program.display(), error))?;
    Ok(ended.status.success())
}

fn profiles_of_both(before: &Path, now: &Path) -> Task<Vec<String>> {
    let known = profiles(before)?;
    let mut both: Vec<String> = profiles(now)?.into_iter().filter(|name| known.contains(name)).collect();
    both.sort();
    match both.is_empty() {
        false => Ok(both),
        true => Err(Problem::Failed("the two programs have no profile in common".into())),
    }
}

/// Prints the differences. Returns the exit code.
fn report(pairs: &[RunPair], commit: &Commit, options: &Options<'_>) -> u8 {
    let unknown = Unknown::of(pairs);
    for sentence in unknown.sentences(commit.short()) {
        println!("{sentence}");
    }
    let refused = pairs.iter().filter(|pair| pair.is_refused()).count();
    println!("{refused} of the runs are refused by both");
    let mut sentences = BTreeSet::new();
    let mut compared = |pair| {
        let mut all = compare::differences(pair, &unknown);
        if options.words {
            let words = all.extract_if(.., |difference| difference.of_words());
            sentences.extend(words.map(|d| format!("  {}\n  -> {}", d.before, d.now)));
        }
        (pair, all)
    };
    let compared: Vec<_> = pairs.iter().map(&mut compared).collect();
    for sentence in &sentences {
        println!("a sentence differs:\n{sentence}");
    }
    let compared = compared.into_iter();
    let differing: Vec<(&RunPair, Vec<Difference>)> = compared.filter(|(_, d)| !d.is_empty()).collect();
    for (i, (pair, differences)) in differing.iter().enumerate() {
        show(pair, differences, if i < SHOWN.0 { SHOWN.1 } else { 0 });
    }
    let count = |class| differing.iter().filter(|(_, d)| compare::class(d) == class).count();
    let (events, results) = (count(DifferenceClass::Events), count(DifferenceClass::Results));
    println!("same: {}", summary(pairs.len(), events, results, commit.short(), unknown.lacks_hash()));
    u8::from(results > 0 || events > 0 && !options.faster)
}

fn show(pair: &RunPair, differences: &[Difference], most: usize) {
    let what = if compare::class(differences) == DifferenceClass::Events { "events" } else { "results" };
    println!("{what} differ: doorbell {}", pair.run);
    for Difference { path, before, now } in differences.iter().take(most) {
        println!("  {path}: {before} -> {now}");
    }
    if most > 0 && differences.len() > most {
        println!("  and {} more", differences.len() - most);
    }
}

/// The last line of output, which summarizes the differences.
fn summary(runs: usize, events: usize, results: usize, commit: &str, no_hash: bool) -> String {
    let what = if no_hash { "events" } else { "events and hashes" };
    match (events, results) {
        (0, 0) if no_hash => {
            format!("{runs} runs, all identical to {commit} (events too, hashes not compared)")
        }
        (0, 0) => format!("{runs} runs, all identical to {commit} (events and hashes too)"),
        (_, 0) => format!("{runs} runs, all results as of {commit}, but {what} differ in {events}"),
        (0, _) => format!("{runs} runs, results differ from {commit} in {results}"),
        _ => format!("{runs} runs, results differ from {commit} in {results}, only {what} in {events} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_says_it_all() {
        let line = |events, results| summary(9, events, results, "abc", false);
        assert_eq!(line(0, 0), "9 runs, all identical to abc (events and hashes too)");
        assert_eq!(line(2, 0), "9 runs, all results as of abc, but events and hashes differ in 2");
        assert_eq!(line(0, 3), "9 runs, results differ from abc in 3");
        assert_eq!(line(2, 3), "9 runs, results differ from abc in 3, only events and hashes in 2 more");
        assert!(summary(9, 0, 0, "abc", true).ends_with("(events too, hashes not compared)"));
    }

    #[test]
    fn arguments_come_in_any_order() {
        let options = Options::parse(&["--faster", "abc"]).unwrap();
        assert_eq!((options.commit, options.faster, options.list), (Some("abc"), true, false));
        assert!(Options::parse(&["--slower"]).is_none());
        assert!(Options::parse(&["abc", "def"]).is_none());
    }
}
