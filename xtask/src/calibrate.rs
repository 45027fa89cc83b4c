//! Runs `doorbell-calibrate`, which sets a profile's parameters from its data.

use crate::command::{self, Task, run};
use crate::workspace::root;

pub(crate) fn run_with(arguments: &[&str]) -> Task<()> {
    let mut cargo = command::cargo();
    cargo.args(["run", "--quiet", "--release", "--package", "doorbell-calibrate", "--"]).args(arguments);
    run(cargo.current_dir(root()))
}
