//! Runs the software NIC under AddressSanitizer.
//!
//! The task runs the unit tests, including tests with hostile records, and the conformance suite. The suite
//! loads the library into its own process. The sanitizer's runtime comes with the toolchain. RUSTC_BOOTSTRAP
//! lets the stable compiler accept `-Zsanitizer`. These builds serve no other purpose.

use crate::command::{self, Problem, Task, lines, run};
use crate::workspace::{self, root};
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// The test that does not run under the sanitizer. It checks the loads and stores of small copies, which are
/// calls of the sanitizer's runtime here.
const WITHOUT: &str = "tests::placing::each_unit_is_stored_once_and_whole_and_in_order";

/// Runs all checks. The task is unavailable on other targets, and if the toolchain lacks the sanitizer's
/// runtime.
pub(crate) fn run_all() -> Task<()> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")) {
        return Err(Problem::Unavailable(format!("AddressSanitizer is used on {TARGET} only")));
    }
    if !runtime_is_there()? {
        return Err(Problem::Unavailable("this Rust toolchain has no runtime of AddressSanitizer".into()));
    }
    let mut tests = cargo("test")?;
    tests.args(["--package", "doorbell-soft", "--package", "doorbell-launch", "--package", "doorbell-abi"]);
    run(tests.args(["--", "--skip", WITHOUT]))?;
    run(cargo("build")?.args(["--package", "doorbell-soft-so"]))?;
    let library = directory()?.join(TARGET).join("debug/libibverbs.so");
    let mut suite = cargo("run")?;
    suite.args(["--package", "doorbell-native", "--example", "native-test", "--", "--library"]).arg(library);
    run(&mut suite)
}

fn directory() -> Task<PathBuf> {
    Ok(workspace::target()?.join("asan"))
}

/// cargo with the sanitizer enabled. An explicit target keeps the sanitizer out of build scripts and
/// procedural macros.
fn cargo(task: &str) -> Task<Command> {
    let mut cargo = command::cargo();
    cargo.args([task, "--quiet", "--target", TARGET, "--target-dir"]).arg(directory()?).current_dir(root());
    cargo.env("RUSTC_BOOTSTRAP", "1");
    // The library uses the sanitizer's runtime in the program that loads it. `-rdynamic` exports the
    // runtime's symbols.
    cargo.env("RUSTFLAGS", "-Zsanitizer=address -Clink-arg=-rdynamic");
    // Leaks are not detected, because memory that lives as long as its process is never freed.
    cargo.env("ASAN_OPTIONS", "detect_leaks=0");
    Ok(cargo)
}

fn runtime_is_there() -> Task<bool> {
    let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let printed = lines(Command::new(rustc).args(["--print", "target-libdir", "--target", TARGET]))?;
    let directory = printed.first().map(String::as_str).unwrap_or_default();
    let entries = std::fs::read_dir(Path::new(directory)).into_iter().flatten().flatten();
    Ok(entries.into_iter().any(|entry| entry.file_name().to_string_lossy().ends_with("rt.asan.a")))
}
