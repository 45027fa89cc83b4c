//! Steps that several tasks share.

use crate::command::{self, Problem, Task, run};
use crate::workspace::root;
use std::process::Command;

/// cargo at the workspace's root.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut cargo = command::cargo();
    cargo.args(arguments).current_dir(root());
    cargo
}

/// Runs cargo. If its subcommand is not installed, the step is unavailable.
fn installed(arguments: &[&str]) -> Task<()> {
    let name = arguments[0];
    let known = cargo(&[name, "--help"]).output().is_ok_and(|output| output.status.success());
    if !known {
        return Err(Problem::Unavailable(format!("cargo {name} is not installed")));
    }
    run(cargo(arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

pub(crate) fn formatting() -> Task<()> {
    installed(&["fmt", "--all", "--check"])
}

pub(crate) fn lints() -> Task<()> {
    installed(&["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

pub(crate) fn documentation() -> Task<()> {
    installed(&["doc", "--quiet", "--workspace", "--no-deps"])
}
