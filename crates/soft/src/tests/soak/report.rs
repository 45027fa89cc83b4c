//! Collects the results of the cases and prints them as a matrix.

use super::case::{Case, Longest};
use super::crew::Wrong;
use super::harm::Harm;
use super::matrix::{CELLS, Row};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// The result of a case.
pub(super) enum Came {
    /// The case is right. Has the longest call, and whether a call took too long in an earlier run of the
    /// case.
    Right(Longest, bool),
    Wrong(Wrong),
    /// The case cannot run on this machine. Has the reason.
    Skipped(String),
}

/// The results of all runs of a case.
#[derive(Default)]
struct Cell {
    right: u32,
    wrong: Vec<(u64, Wrong)>,
    longest: Longest,
}

#[derive(Default)]
pub(super) struct Report {
    cells: BTreeMap<String, Cell>,
    skipped: BTreeMap<String, String>,
    /// The number of cases that were run.
    pub(super) cases: u32,
    slow_once: u32,
    pub(super) others: Vec<(String, Result<String, Wrong>)>,
}

impl Report {
    pub(super) fn add(&mut self, case: &Case, came: Came) {
        let name = case.name();
        match came {
            Came::Right(longest, was_slow) => {
                self.slow_once += u32::from(was_slow);
                let cell = self.cells.entry(name).or_default();
                cell.right += 1;
                if longest.0 > cell.longest.0 {
                    cell.longest = longest;
                }
                self.cases += 1;
            }
            Came::Wrong(wrong) => {
                println!("{}", replay(&name, case.seed, &wrong));
                self.cells.entry(name).or_default().wrong.push((case.seed, wrong));
                self.cases += 1;
            }
            Came::Skipped(why) => drop(self.skipped.insert(name, why)),
        }
    }

    /// The wrong cases as text, each with the command that runs it again.
    pub(super) fn wrong(&self) -> Vec<String> {
        let of = |(name, cell): (&String, &Cell)| {
            cell.wrong.iter().map(|(seed, wrong)| replay(name, *seed, wrong)).collect::<Vec<_>>()
        };
        let cases = self.cells.iter().flat_map(of);
        let others =
            self.others.iter().filter_map(|(name, told)| Some(format!("{name}: {}", told.as_ref().err()?)));
        cases.chain(others).collect()
    }

    /// The matrix in Markdown.
    pub(super) fn text(&self, what: &str) -> String {
        let mut text = format!("{what}: {} cases\n\n| caught |", self.cases);
        text.extend(Harm::ALL.iter().map(|harm| format!(" {harm:?} |")));
        let _ = write!(text, "\n|---|{}\n", "---|".repeat(Harm::ALL.len()));
        for row in &CELLS {
            let closed = if row.closed { ", closed" } else { "" };
            let _ = write!(text, "| {:?}, {:?} (1 of {}){closed} |", row.role, row.point, row.passes);
            text.extend(Harm::ALL.iter().map(|harm| format!(" {} |", self.cell(row, *harm))));
            text.push('\n');
        }
        let longest = self.cells.iter().max_by_key(|(_, cell)| cell.longest.0);
        if let Some((name, Cell { longest: (took, call), .. })) = longest {
            let _ = writeln!(
                text,
                "\nThe longest call of another process: {}, {call} in {name}.",
                milliseconds(*took)
            );
        }
        if self.slow_once > 0 {
            let _ = writeln!(
                text,
                "In {} cases a call took too long, but not when the case was run again.",
                self.slow_once
            );
        }
        for (name, told) in &self.others {
            let _ = writeln!(
                text,
                "{name}: {}",
                told.as_ref().map_or_else(|wrong| format!("WRONG: {wrong}"), Clone::clone)
            );
        }
        text
    }

    fn cell(&self, row: &Row, harm: Harm) -> String {
        if let Some(why) = row.skips(harm) {
            return format!("- ({why})");
        }
        let name = Case { row: *row, harm, seed: 0, stop: Duration::ZERO }.name();
        if let Some(why) = self.skipped.get(&name) {
            return format!("skipped: {why}");
        }
        match self.cells.get(&name) {
            None => "not run".to_owned(),
            Some(cell) if cell.wrong.is_empty() => {
                format!("{} ok, {}", cell.right, milliseconds(cell.longest.0))
            }
            Some(cell) => {
                format!("**{} wrong** of {}", cell.wrong.len(), cell.right + cell.wrong.len() as u32)
            }
        }
    }
}

fn milliseconds(span: Duration) -> String {
    format!("{:.1} ms", span.as_secs_f64() * 1e3)
}

fn replay(name: &str, seed: u64, wrong: &str) -> String {
    format!("{name}: {wrong}\n    again: cargo xtask soak soft --case {name} --seed {seed}")
}
