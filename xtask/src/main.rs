//! Tasks of this repository, run as `cargo xtask NAME`.
#![forbid(unsafe_code)]

mod asan;
mod bless;
mod calibrate;
mod command;
mod first_run;
mod initramfs;
mod kernel;
mod long;
mod packages;
mod peers;
mod prose;
mod qemu;
mod record;
mod rxe;
mod same;
mod soak;
mod test;
mod wheels;
mod workspace;

use command::Problem;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo xtask TASK
  test            formatting, lints, documentation, all tests, and the rxe task where it can run; the summary has
                  the wall time and the processor time of each step
  test --quick [COMMIT]
                  formatting, lints and the tests that a change since COMMIT, HEAD if not told, reaches: those of
                  the crates with changed files, and a selection of those above; prints what it leaves out
  long            checks that take hours, run once per issue: the first command on a fresh clone, instructions per
                  verb of both profiles, AddressSanitizer and soaks
  instructions [PROFILE]
                  prints the instructions per verb of a profile's build, release if not told, for docs/speed.md
  first-run       how long the README's first command takes on a fresh clone, three times, download apart
  bless           writes every generated file anew: pages, tables, schemas and pictures that tests compare
  prose [--worst N] [PATH...]
                  measures the sentences of pages and comments, lists the N worst (20 by default), and fails beyond the
                  limits of docs/notes/prose.md; PATH is a file, a folder, or - for standard input
  rxe [--kills COUNT] [--seed SEED] [FILTER]
                  samples, conformance suite and the systems' checks on the kernel's Soft-RoCE, in an
                  emulated machine; FILTER is part of a check's name. With --kills COUNT instead of all that: kills
                  so many processes of each role of the applications
  same [COMMIT] [--faster] [--list]
                  whether this tree's doorbell says the same as that of COMMIT, over many runs; COMMIT is
                  HEAD, or its parent where nothing has changed since; --faster lets events differ where
                  results do not; --list prints the runs
  peers [--rounds N]
                  latencies and rates of the software NIC beside those of UCX's shared memory and of the bare system
                  call: medians of N runs, 7 if not told, and what they are to be
  wheels          gets NIXL and Mooncake by pip, 115 MB, as `test` does where they are not there
  asan            the software NIC under AddressSanitizer: its tests, random calls, the conformance suite
  calibrate PROFILE [--dry]
                  sets the calibrated parameters of profiles/PROFILE.toml from the data that it declares, and prints
                  how sure they are (docs/calibration.md); --dry leaves the file as it is
  soak [PART]     random programs, many more than the tests run; PART is sim (programs), options (option sets),
                  soft (processes on the software NIC that are stopped, killed and starved) or apps (processes of the
                  applications that are killed), or all parts
  soak soft [--minutes N] [--seed S] [--case NAME]
                  the last for N minutes, 60 if not told, with a seed; or one case of it, or those whose names begin so
  soak apps [--kills N] [--seed S]
                  N processes of each role of each application, 200 if not told, by seeds from S on";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["test"] => test::run_all(),
        ["test", "--quick"] => quick("HEAD"),
        ["test", "--quick", commit] if !commit.starts_with('-') => quick(commit),
        ["long"] => long::run_all(),
        ["instructions"] => ended(test::print_instructions("release").map(|()| 0)),
        ["instructions", profile] => ended(test::print_instructions(profile).map(|()| 0)),
        ["first-run"] => ended(first_run::check().map(|()| 0)),
        ["bless"] => bless::run_all(),
        ["prose", ref options @ ..] => match prose::ProseOptions::parse(options) {
            Some(options) => ended(prose::run(&options)),
            None => usage(),
        },
        ["rxe", ref arguments @ ..] => ended(rxe::run(arguments)),
        ["same", ref options @ ..] => match same::Options::parse(options) {
            Some(options) => ended(same::run(&options)),
            None => usage(),
        },
        ["calibrate", ref arguments @ ..] => ended(calibrate::run_with(arguments).map(|()| 0)),
        ["soak"] => ended(soak::run_parts(None).map(|()| 0)),
        ["soak", "soft", ref options @ ..] => match soak::Soft::parse(options) {
            Some(soft) => ended(soak::run_soft(&soft).map(|()| 0)),
            None => usage(),
        },
        ["soak", "apps", ref options @ ..] => match soak::Apps::parse(options) {
            Some(apps) => ended(soak::run_apps(&apps).map(|()| 0)),
            None => usage(),
        },
        ["soak", part] => ended(soak::run_parts(Some(part)).map(|()| 0)),
        ["peers", ref options @ ..] => match peers::rounds(options) {
            Some(rounds) => ended(peers::run_rounds(rounds).map(|()| 0)),
            None => usage(),
        },
        ["wheels"] => ended(wheels::install().map(|()| 0)),
        ["asan"] => ended(asan::run_all().map(|()| 0)),
        _ => usage(),
    }
}

fn usage() -> ExitCode {
    eprintln!("{USAGE}");
    ExitCode::from(2)
}

/// Runs the tests for a change since `commit`.
fn quick(commit: &str) -> ExitCode {
    exit_code(test::run_quick(commit))
}

/// The exit code of a task.
fn ended(task: command::Task<u8>) -> ExitCode {
    exit_code(task.map(ExitCode::from))
}

fn exit_code(task: command::Task<ExitCode>) -> ExitCode {
    match task {
        Ok(code) => code,
        Err(Problem::Unavailable(why) | Problem::Failed(why)) => {
            eprintln!("{why}");
            ExitCode::from(2)
        }
    }
}
