//! Measures the README's first command on a fresh clone with an empty target folder, without the download.

use crate::command::{self, Problem, Task, failed, find, program, run};
use crate::record;
use crate::test::Meter;
use crate::workspace::{root, target};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Page with the last figure in seconds, and the marker of its table.
const PAGE: &str = "docs/speed.md";
const TABLE: &str = "<!-- first command -->";

/// The check fails if the last figure is exceeded by more than this share.
const TOLERANCE: f64 = 0.10;
const ROUNDS: usize = 3;
/// Processors that the command may use. The figure is for two.
const PROCESSORS: &str = "0,1";

const FIRST_COMMAND: [&str; 8] = ["run", "--release", "--", "simulate", "--verb", "read", "--size", "64"];

/// Clones the checked-out commit.
fn clone(to: &Path) -> Task<()> {
    let _ = fs::remove_dir_all(to);
    run(Command::new("git")
        .args(["clone", "--quiet", "--no-local", "--depth", "1"])
        .arg(format!("file://{}", root().display()))
        .arg(to))
}

/// cargo in the clone, without any of this build's settings.
fn cargo_in(clone: &Path, arguments: &[&str]) -> Command {
    let mut cargo = program("taskset");
    cargo
        .args(["--cpu-list", PROCESSORS])
        .arg(command::cargo().get_program())
        .args(arguments)
        .current_dir(clone);
    for variable in
        ["CARGO_TARGET_DIR", "CARGO_BUILD_JOBS", "CARGO_INCREMENTAL", "RUSTFLAGS", "RUSTC_WRAPPER"]
    {
        cargo.env_remove(variable);
    }
    cargo.stdout(Stdio::null());
    cargo
}

/// One round: returns the wall time of the first command.
fn round(clone: &Path) -> Task<Duration> {
    let _ = fs::remove_dir_all(clone.join("target"));
    let meter = Meter::start();
    run(cargo_in(clone, &FIRST_COMMAND).stderr(Stdio::null()))?;
    let took = meter.read();
    println!("the first command took {took}");
    Ok(took.wall)
}

/// The last figure on the page, in seconds of wall time.
fn last() -> Task<f64> {
    let row = record::last_row(PAGE, TABLE)?;
    let seconds = row.get(1).and_then(|cell| cell.split(' ').next()?.parse().ok());
    seconds.ok_or_else(|| failed(PAGE, format!("the last row of the table at `{TABLE}` has no seconds")))
}

/// Measures three times and compares the median with the page.
pub(crate) fn check() -> Task<()> {
    if find("taskset").is_none() {
        return Err(Problem::Unavailable("taskset (util-linux) is needed".into()));
    }
    let folder = target()?.join("first-run");
    clone(&folder)?;
    run(&mut cargo_in(&folder, &["fetch", "--quiet", "--locked"]))?;
    let mut walls = (0..ROUNDS).map(|_| round(&folder)).collect::<Task<Vec<_>>>()?;
    walls.sort();
    let _ = fs::remove_dir_all(&folder);
    let (median, last) = (walls[ROUNDS / 2].as_secs_f64(), last()?);
    println!("median {median:.0} s, {PAGE} has {last:.0} s");
    match median > last * (1.0 + TOLERANCE) {
        true => Err(failed("the first command", format!("{median:.0} s, where {PAGE} has {last:.0} s"))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_has_a_figure() {
        assert!(super::last().is_ok_and(|seconds| seconds > 10.0));
    }
}
