//! Helpers of the tests: the command, and the library that the command loads.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The library, built in the Cargo profile of the tests. Cargo does not build the library for tests of the
/// command, so this function does.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let profile = Path::new(env!("CARGO_BIN_EXE_doorbell")).parent().expect("it lies in a directory");
        let target = profile.parent().expect("that lies in the target directory");
        let mut cargo = Command::new(env!("CARGO"));
        // Builds the whole workspace with the example that tests need, so that dependencies get the features
        // that they have in `cargo test --workspace`. With other features, cargo would rebuild all
        // dependencies of the library.
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

pub(crate) fn doorbell() -> Command {
    Command::new(env!("CARGO_BIN_EXE_doorbell"))
}

/// All output of a command.
pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Splits a line into words as a shell does. Single and double quotes hold words together.
pub(crate) fn split_words(line: &str) -> Vec<String> {
    let (mut all, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in line.chars() {
        match (c, quote) {
            (c, Some(q)) if c == q => quote = None,
            ('"' | '\'', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (' ', None) => all.extend(word.take()),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    all.extend(word);
    all
}
