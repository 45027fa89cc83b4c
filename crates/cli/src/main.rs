//! The `doorbell` command.
#![forbid(unsafe_code)]

mod args;
mod exit;
mod flags;
mod limits;
mod overview;
mod plot;
mod profiles;
mod progress;
mod reproduce;
mod run;
mod simulate;
mod system;
mod table;

use args::{Args, Command};
use clap::Parser;
use exit::Exit;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::parse();
    let result = match args.command {
        None => exit::print(overview::TEXT),
        Some(Command::Simulate(args)) => simulate::run(args),
        Some(Command::Limits(args)) => limits::run(args),
        Some(Command::Profiles(args)) => profiles::run(args),
        Some(Command::Reproduce(args)) => reproduce::run(args),
        Some(Command::Run(args)) => run::run(args),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Exit { code, message }) => {
            if let Some(message) = message {
                eprintln!("doorbell: {message}");
            }
            ExitCode::from(code)
        }
    }
}
