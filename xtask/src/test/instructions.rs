//! Instructions per verb of two workloads, counted by callgrind and compared with the last figures in
//! docs/speed.md.
//!
//! The counted build is `release`, which users run. The step that tests the README's first command has built
//! it already. A count is the difference of two runs with different durations, so it excludes start-up,
//! reading profiles and set-up.

use super::steps::cargo;
use crate::command::{Task, failed, program, run};
use crate::workspace::{root, target};
use crate::{packages, record};
use std::path::Path;

/// Page with the figures, and the marker of their table. The table has a row for each commit that changed the
/// figures.
const PAGE: &str = "docs/speed.md";
const TABLE: &str = "<!-- instructions per verb -->";

/// The check fails if a count exceeds the page's last figure by more than this share.
const TOLERANCE: f64 = 0.01;
/// Share by which counts of `release` may exceed counts of `dist`, which has full LTO.
const WITHOUT_LTO: f64 = 0.10;

const READ: &str = "--verb read --transport rc --size 32";
const SEND: &str = "--verb send --transport ud --size 32 --batch 16";
const COMMON: &str = "--pattern outbound --machines 6 --threads 14 --warmup 20us --json";
const DURATIONS: [&str; 2] = ["50us", "150us"];

/// Instructions per verb of the two workloads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Instructions {
    read: f64,
    send: f64,
}

/// Instructions and verbs of one run under callgrind.
fn run_once(doorbell: &Path, workload: &str, duration: &str) -> Task<[f64; 2]> {
    let mut valgrind = program("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(doorbell).arg("simulate");
    valgrind
        .args(workload.split(' '))
        .args(COMMON.split(' '))
        .args(["--duration", duration])
        .current_dir(root());
    let doing = format!("callgrind of simulate {workload}");
    let output = valgrind.output().map_err(|error| failed(&doing, error))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let unread = || failed(&doing, format!("{}\n{}", output.status, said.trim_end()));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).map_err(|_| unread())?;
    let verbs = json["verbs"].as_f64().ok_or_else(unread)?;
    Ok([collected(&said).ok_or_else(unread)?, verbs])
}

/// The instruction count in callgrind's output.
fn collected(said: &str) -> Option<f64> {
    let (_, count) = said.split_once("Collected : ")?;
    count.split_whitespace().next()?.parse().ok()
}

fn per_verb(doorbell: &Path, workload: &str) -> Task<f64> {
    let [short, long] = DURATIONS.map(|duration| run_once(doorbell, workload, duration));
    let ([few, some], [many, more]) = (short?, long?);
    Ok((many - few) / (more - some))
}

/// Builds the command with a cargo profile and counts its instructions.
fn count(profile: &str) -> Task<Instructions> {
    packages::ensure_valgrind()?;
    run(&mut cargo(&["build", "--quiet", "--profile", profile, "--bin", "doorbell"]))?;
    let doorbell = target()?.join(profile).join("doorbell");
    Ok(Instructions { read: per_verb(&doorbell, READ)?, send: per_verb(&doorbell, SEND)? })
}

/// The last figures of `release` on the page.
fn last() -> Task<Instructions> {
    let row = record::last_row(PAGE, TABLE)?;
    let number = |at: usize| row.get(at).and_then(|cell| cell.replace(' ', "").parse().ok());
    let figures = number(1).zip(number(2)).map(|(read, send)| Instructions { read, send });
    figures.ok_or_else(|| failed(PAGE, format!("the last row of the table at `{TABLE}` has no figures")))
}

/// Describes the figures that exceed `before` by more than `share`.
fn excess(now: Instructions, before: Instructions, share: f64) -> Vec<String> {
    let pairs = [("READ", now.read, before.read), ("SEND", now.send, before.send)];
    let above = pairs.into_iter().filter(|(_, now, before)| *now > before * (1.0 + share));
    let text = |(name, now, before): (&str, f64, f64)| {
        format!("{name} takes {now:.0} instructions, {:+.1}% of {before:.0}", (now / before - 1.0) * 100.0)
    };
    above.map(text).collect()
}

fn show(profile: &str, figures: Instructions) {
    println!("{profile}: READ {:.0}, SEND {:.0} instructions a verb", figures.read, figures.send);
}

/// Prints the figures of a cargo profile's build, for a row of the page.
pub(crate) fn print(profile: &str) -> Task<()> {
    count(profile).map(|figures| show(profile, figures))
}

/// Fails if `release` exceeds the last figures on the page.
pub(crate) fn check() -> Task<()> {
    let (now, before) = (count("release")?, last()?);
    show("release", now);
    match &excess(now, before, TOLERANCE)[..] {
        [] => Ok(()),
        more => Err(failed(
            "instructions per verb",
            format!("{}; a commit that adds some enters a row in {PAGE}, with its reason", more.join("; ")),
        )),
    }
}

/// Counts both profiles. Fails if `release` exceeds `dist` by too much.
pub(crate) fn compare_profiles() -> Task<()> {
    let (release, dist) = (count("release")?, count("dist")?);
    show("release", release);
    show("dist", dist);
    match &excess(release, dist, WITHOUT_LTO)[..] {
        [] => Ok(()),
        more => Err(failed("release beside dist", more.join("; "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read() {
        assert_eq!(
            collected("==7== Events    : Ir\n==7== Collected : 96597516\n==7==\n"),
            Some(96_597_516.0)
        );
        assert_eq!(collected("==7== error"), None);
    }

    #[test]
    fn one_percent_is_allowed() {
        let figures = |read, send| Instructions { read, send };
        let before = figures(10_000.0, 6000.0);
        assert_eq!(excess(figures(10_099.0, 5000.0), before, TOLERANCE), Vec::<String>::new());
        let more = excess(figures(9000.0, 6120.0), before, TOLERANCE);
        assert_eq!(more, ["SEND takes 6120 instructions, +2.0% of 6000"]);
    }

    #[test]
    fn the_page_has_figures() {
        let last = last().ok().expect("a row");
        assert!(last.read > last.send && last.send > 1000.0, "{last:?}");
    }
}
