//! The command, and the library that it loads.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The library, in the Cargo profile of the tests. Cargo does not build it for tests of the command.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let profile = Path::new(env!("CARGO_BIN_EXE_doorbell")).parent().expect("it lies in a directory");
        let target = profile.parent().expect("that lies in the target directory");
        let mut cargo = Command::new(env!("CARGO"));
        // Builds the whole workspace with the needs of its tests, to get the dependency features of `cargo
        // test --workspace`. Other features would rebuild everything below the library.
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

/// The `doorbell` command.
pub(crate) fn doorbell() -> Command {
    Command::new(env!("CARGO_BIN_EXE_doorbell"))
}

/// All output of a command.
pub(crate) fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// Splits a line into words like a shell; single and double quotes hold words together.
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
