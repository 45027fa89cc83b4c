//! The papers' systems on the software NIC, their machines as threads and as processes; by the program
//! that also tests other devices.

mod common;

use doorbell_soft::launch::{Launch, Link};
use std::path::{Path, PathBuf};

/// The program, which is built with the library.
fn native_test() -> PathBuf {
    common::library().with_file_name("examples").join("native-test")
}

/// Runs the checks with this in their name; all pass.
fn pass(launch: &Launch, program: &Path, filter: &str) {
    let child = common::command(launch, program, &[filter]).spawn().expect("it starts");
    let output = common::finish(child, "native-test");
    let said = common::text(&output);
    assert!(output.status.success(), "{said}");
    // Every one was run.
    assert!(said.contains(" 0 failed, 0 skipped, 0 known differences"), "{said}");
    let fabric = launch.fabric.as_deref().unwrap_or_default();
    assert!(!common::leaves_something(fabric), "the fabric {fabric} is still there");
}

#[test]
fn systems() {
    let program = native_test();
    pass(&common::launch(Link::Ib), &program, "systems/");
    // What one process writes for another goes through the kernel here, rather than by shared memory.
    let private = Launch { private_buffers: true, ..common::launch(Link::Roce) };
    pass(&private, &program, "processes/");
}
