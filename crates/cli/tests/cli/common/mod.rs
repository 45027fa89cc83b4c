//! The command, and the library that it loads.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The library of the profile that the tests were built with; Cargo builds none for tests of the
/// command.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let profile = Path::new(env!("CARGO_BIN_EXE_doorbell")).parent().expect("it lies in a directory");
        let target = profile.parent().expect("that lies in the target directory");
        let mut cargo = Command::new(env!("CARGO"));
        // The whole workspace with what its tests need, for the features of dependencies that
        // `cargo test --workspace` has: with others all below the library would be built again.
        cargo.args(["build", "--quiet", "--workspace", "--lib", "--example", "native-test"]);
        cargo.arg("--target-dir").arg(target);
        if profile.ends_with("release") {
            cargo.arg("--release");
        }
        let status = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).status().expect("cargo runs");
        assert!(status.success(), "the library is built");
        profile.join("libibverbs.so")
    })
}

/// The command.
pub(crate) fn doorbell() -> Command {
    Command::new(env!("CARGO_BIN_EXE_doorbell"))
}

/// All that a command has said.
pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}
