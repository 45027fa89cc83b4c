//! Tasks of this repository, run as `cargo xtask NAME`.
#![forbid(unsafe_code)]

mod asan;
mod bless;
mod book;
mod calibrate;
mod command;
mod first_run;
mod initramfs;
mod kernel;
mod long;
mod packages;
mod page_length;
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
  test            checks formatting, lints, documentation and prose, runs all tests, and runs the rxe task if this
                  machine can; prints the wall time and the processor time of each step
  test --quick [COMMIT]
                  checks formatting and lints, and runs the tests of the crates that changed since COMMIT (HEAD by
                  default), with a selection of the tests of crates above them; prints what it leaves out
  long            runs the checks that take hours, once per issue: the first command on a fresh clone, instructions
                  per verb of both profiles, long commands on pages, AddressSanitizer and soaks
  prose [--worst N] [PATH...]
                  measures the sentences of pages and comments, lists the N worst (20 by default), counts the words
                  of pages, and fails beyond the limits of docs/notes/prose.md; PATH is a file, a folder, or - for
                  standard input
  instructions [PROFILE]
                  prints the instructions per verb of a build profile (release by default), for docs/speed.md
  first-run       measures the README's first command on a fresh clone three times, without the download
  book            builds the pages as a book into target/book, with mdBook from a wheel
  bless           writes every generated file anew: pages, tables, schemas and pictures that tests compare
  rxe [--kills COUNT] [--seed SEED] [FILTER]
                  runs samples, the conformance suite and the checks of systems on the kernel's Soft-RoCE, in an
                  emulated machine; FILTER is part of a check's name. --kills COUNT only kills COUNT processes of
                  each role of the applications
  same [COMMIT] [--faster] [--words] [--list]
                  compares the output of this tree's doorbell with the output of COMMIT, over many runs. COMMIT is
                  HEAD by default, or its parent if nothing has changed since. --faster allows other events with
                  equal results; --words lists sentences that differ, and allows them; --list prints the runs
  peers [--rounds N]
                  measures latencies and rates of the software NIC, of UCX's shared memory and of the bare system
                  call: medians of N runs (7 by default), beside the goals
  wheels          installs the Python wheels of programs that the tests run, as `test` does if one is missing
  asan            runs the software NIC under AddressSanitizer: its tests, random calls, the conformance suite
  calibrate PROFILE [--dry]
                  sets the calibrated parameters of profiles/PROFILE.toml from the data that the file declares, and
                  prints their intervals (docs/calibration.md); --dry leaves the file unchanged
  soak [PART]     runs many more random programs than the tests. PART is sim (programs), options (option sets),
                  bottlenecks (answers without and with reruns), soft (processes on the software NIC that are
                  stopped, killed and starved) or apps (killed processes of the applications); all parts by
                  default
  soak soft [--minutes N] [--seed S] [--case NAME]
                  runs part soft for N minutes (60 by default) with a seed, or only the cases whose names begin
                  with NAME
  soak apps [--kills N] [--seed S]
                  kills N processes of each role of each application (200 by default), with seeds from S on";

fn main() -> ExitCode {
    let arguments: Vec<String> =
        std::env::args_os().skip(1).map(|argument| argument.to_string_lossy().into_owned()).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["test"] => test::run_all(),
        ["test", "--quick"] => quick("HEAD"),
        ["test", "--quick", commit] if !commit.starts_with('-') => quick(commit),
        ["long"] => long::run_all(),
        ["instructions"] => ended(test::print_instructions("release").map(|()| 0)),
        ["instructions", profile] => ended(test::print_instructions(profile).map(|()| 0)),
        ["first-run"] => ended(first_run::check().map(|()| 0)),
        ["book"] => ended(book::build().map(|()| 0)),
        ["bless"] => bless::run_all(),
        ["prose", ref options @ ..] => match prose::ProseOptions::parse(options) {
            Some(options) => ended(prose::run(&options)),
            None => {
                eprintln!("prose: only --worst with a whole number, and paths, may follow");
                ExitCode::from(2)
            }
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

/// Runs the quick tests of the changes since `commit`.
fn quick(commit: &str) -> ExitCode {
    exit_code(test::run_quick(commit))
}

/// Turns a task's result into an exit code. A task that could not finish has exit code 2.
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
