//! Setting a profile's parameters from its data.

use crate::command::{Task, run};
use crate::root;
use std::process::Command;

/// Runs the program that does it.
pub(crate) fn run_with(arguments: &[&str]) -> Task<()> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args(["run", "--quiet", "--release", "--package", "doorbell-calibrate", "--"]).args(arguments);
    run(cargo.current_dir(root()))
}
