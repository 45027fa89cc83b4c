//! Measures the README's first command on a fresh clone with an empty target folder, without the download.

use crate::command::{self, Problem, Task, failed, find, program, run};
use crate::record;
use crate::test::{Meter, time_of_all};
use crate::workspace::{root, target};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Page with the last figure in seconds, and the marker of its table.
const PAGE: &str = "docs/speed.md";
const TABLE: &str = "<!-- first command -->";

/// The check fails if the median exceeds the page's last figure by more than this share.
const TOLERANCE: f64 = 0.10;
const ROUNDS: usize = 3;
/// Processors that the command may use. The page's figure is for two processors.
const PROCESSORS: [u32; 2] = [0, 1];
/// A time that is too long is no failure if other programs used these processors for more than this share of
/// it.
const OTHERS: f64 = 0.02;

const FIRST_COMMAND: [&str; 8] = ["run", "--release", "--", "simulate", "--verb", "read", "--size", "64"];

/// Clones the checked-out commit into `to`.
fn clone(to: &Path) -> Task<()> {
    let _ = fs::remove_dir_all(to);
    run(Command::new("git")
        .args(["clone", "--quiet", "--no-local", "--depth", "1"])
        .arg(format!("file://{}", root().display()))
        .arg(to))
}

/// cargo in the clone, on [`PROCESSORS`], without environment variables that change the build.
fn cargo_in(clone: &Path, arguments: &[&str]) -> Command {
    let mut cargo = program("taskset");
    cargo
        .args(["--cpu-list", &PROCESSORS.map(|number| number.to_string()).join(",")])
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

/// Runs the first command with an empty target folder. Returns its wall time, and the time for which other
/// programs used its processors.
fn round(clone: &Path) -> Task<(Duration, Duration)> {
    let _ = fs::remove_dir_all(clone.join("target"));
    let (meter, busy) = (Meter::start(), time_of_all(&PROCESSORS));
    run(cargo_in(clone, &FIRST_COMMAND).stderr(Stdio::null()))?;
    let (took, all) = (meter.read(), time_of_all(&PROCESSORS).zip(busy).map(|(now, then)| now - then));
    println!("the first command took {took}");
    let others = all.zip(took.processor).map(|(all, own)| all.saturating_sub(own));
    Ok((took.wall, others.unwrap_or_default()))
}

/// The last figure on the page, in seconds of wall time.
fn last() -> Task<f64> {
    let row = record::last_row(PAGE, TABLE)?;
    let seconds = row.get(1).and_then(|cell| cell.split(' ').next()?.parse().ok());
    seconds.ok_or_else(|| failed(PAGE, format!("the last row of the table at `{TABLE}` has no seconds")))
}

/// Measures [`ROUNDS`] times and compares the median with the page.
pub(crate) fn check() -> Task<()> {
    if find("taskset").is_none() {
        return Err(Problem::Unavailable("taskset (util-linux) is needed".into()));
    }
    let folder = target()?.join("first-run");
    clone(&folder)?;
    run(&mut cargo_in(&folder, &["fetch", "--quiet", "--locked"]))?;
    let mut rounds = (0..ROUNDS).map(|_| round(&folder)).collect::<Task<Vec<_>>>()?;
    rounds.sort();
    let _ = fs::remove_dir_all(&folder);
    let (median, others) = rounds[ROUNDS / 2];
    judge(median.as_secs_f64(), others.as_secs_f64(), last()?)
}

/// Compares the median with the last figure. All times are in seconds. A long time on a busy machine proves
/// nothing, so it makes the task unavailable.
fn judge(median: f64, others: f64, last: f64) -> Task<()> {
    println!("median {median:.0} s, {PAGE} has {last:.0} s");
    let took = format!("{median:.0} s, where {PAGE} has {last:.0} s");
    match median > last * (1.0 + TOLERANCE) {
        true if others > median * OTHERS => Err(Problem::Unavailable(format!(
            "{took}, but other programs used the processors for {others:.0} s of it"
        ))),
        true => Err(failed("the first command", took)),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_has_a_figure() {
        assert!(super::last().is_ok_and(|seconds| seconds > 10.0));
    }

    #[test]
    fn a_long_time_counts_on_an_idle_machine() {
        use super::{Problem, judge};
        assert!(judge(80.0, 0.5, 74.0).is_ok() && judge(80.0, 60.0, 74.0).is_ok());
        assert!(matches!(judge(90.0, 0.5, 74.0), Err(Problem::Failed(_))));
        assert!(matches!(judge(90.0, 30.0, 74.0), Err(Problem::Unavailable(_))));
    }
}
