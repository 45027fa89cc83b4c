//! Runs the systems of published papers on the software NIC, with machines as threads and as processes. The
//! program `native-test` runs them, which also tests other devices.

use crate::common;
use doorbell_launch::{Launch, Link};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Environment variables of a soak: the number of processes of each role to kill, and the first seed.
const SOAK_KILLS: &str = "DOORBELL_SOAK_KILLS";
const SOAK_SEED: &str = "DOORBELL_SOAK_SEED";

/// The path of `native-test`, which is built with the library.
fn native_test() -> PathBuf {
    common::library().with_file_name("examples").join("native-test")
}

/// Runs the checks whose names contain `filter`, and asserts that all pass.
fn pass(launch: &Launch, program: &Path, filter: &str) {
    let child = common::command(launch, program, &[filter]).spawn().expect("it starts");
    let output = common::finish_steps(child, "native-test");
    let said = common::text(&output);
    assert!(output.status.success(), "{said}");
    // The line also shows that no check was skipped.
    assert!(said.contains(" 0 failed, 0 skipped, 0 known differences"), "{said}");
    let fabric = launch.fabric.as_deref().unwrap_or_default();
    assert!(!common::leaves_something(fabric), "the fabric {fabric} is still there");
}

#[test]
fn machines_are_threads() {
    pass(&common::launch(Link::Ib), &native_test(), "systems/");
}

/// Runs machines as processes with private buffers, so that transfers use system calls and no shared memory.
#[test]
fn machines_are_processes_with_private_memory() {
    let private = Launch { private_buffers: true, ..common::launch(Link::Roce) };
    pass(&private, &native_test(), "processes/");
}

/// Kills processes of each role of the applications. A soak sets the number of kills by `SOAK_KILLS`.
#[test]
fn kills() {
    let of = |name: &str, usual: &str| std::env::var(name).unwrap_or(usual.into());
    let (kills, seed) = (of(SOAK_KILLS, "5"), of(SOAK_SEED, "1"));
    let launch = Launch { quiet: true, ..common::launch(Link::Ib) };
    let mut command = common::command(&launch, &native_test(), &["--kills", &kills, "--seed", &seed]);
    if std::env::var_os(SOAK_KILLS).is_some() {
        let ended = command.stdout(Stdio::inherit()).stderr(Stdio::inherit()).status();
        return assert!(ended.expect("it starts").success());
    }
    let output = common::finish_steps(command.spawn().expect("it starts"), "native-test");
    assert!(output.status.success(), "{}", common::text(&output));
}
