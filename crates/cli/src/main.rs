//! The `doorbell` command.
#![deny(unsafe_code)]

mod args;
mod cache;
mod check;
mod compare;
mod distribution;
mod exit;
mod explained;
mod extrapolation;
mod flags;
mod help;
mod import;
mod limits;
mod live;
mod man;
mod mistake;
mod output;
mod overview;
mod plot;
mod posted;
mod profiles;
mod progress;
mod report;
mod reproduce;
mod rows;
mod run;
#[cfg(test)]
mod schemas;
mod screen;
mod signals;
mod simulate;
mod sweep;
mod table;
mod trace;
mod typed;
mod waterfall;
mod workload;

use args::{Args, Command};
use clap::CommandFactory;
use clap::error::ErrorKind;
use exit::Exit;
use std::process::ExitCode;

fn completions(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "doorbell", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// The help text that a command line asks for, if clap's own text is not as good.
fn help_of(error: &clap::Error) -> Option<String> {
    if error.kind() == ErrorKind::DisplayHelp { help::asked() } else { None }
}

/// Handles an error of clap: prints help, or explains the mistake on the command line.
fn refused(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        if let Some(text) = help_of(error) {
            return exit::print(&text).map_or_else(ended, |()| ExitCode::SUCCESS);
        }
        error.exit();
    }
    ended(Exit::bad_input(mistake::sentence(error)))
}

/// Prints the message and returns the exit code.
fn ended(Exit { code, message }: Exit) -> ExitCode {
    if let Some(message) = message {
        exit::say_message(&message);
    }
    ExitCode::from(code)
}

fn main() -> ExitCode {
    let args = match Args::read() {
        Ok(args) => args,
        Err(error) => return refused(&error),
    };
    let result = match args.command {
        None => exit::print(overview::TEXT),
        Some(Command::Simulate(args)) => simulate::run(args),
        Some(Command::Sweep(args)) => sweep::run(&args),
        Some(Command::Compare(args)) => compare::run(&args),
        Some(Command::Check(args)) => check::run(&args),
        Some(Command::Limits(args)) => limits::run(args),
        Some(Command::Profiles(args)) => profiles::run(args),
        Some(Command::Import(command)) => import::run(command),
        Some(Command::Reproduce(args)) => reproduce::run(args),
        Some(Command::Run(args)) => run::run(args),
        Some(Command::Live(args)) => live::run(&args),
        Some(Command::Cache(args)) => cache::run(&args),
        Some(Command::Man(args)) => man::run(&args),
        Some(Command::Completions { shell }) => exit::print(&completions(shell)),
    };
    result.map_or_else(ended, |()| ExitCode::SUCCESS)
}
