//! The software NIC under AddressSanitizer.
//!
//! It covers the unit tests, including those with hostile records, and the conformance suite with the library
//! in the same process. The sanitizer's runtime comes with the toolchain. RUSTC_BOOTSTRAP lets the stable
//! compiler accept the flag; these builds serve no other purpose.

use crate::command::{self, Problem, Task, lines, run};
use crate::workspace::{self, root};
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Runs everything. Without the sanitizer, the task is unavailable.
pub(crate) fn run_all() -> Task<()> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu")) {
        return Err(Problem::Unavailable(format!("AddressSanitizer is used on {TARGET} only")));
    }
    if !runtime_is_there()? {
        return Err(Problem::Unavailable("this Rust toolchain has no runtime of AddressSanitizer".into()));
    }
    run(cargo("test")?.args([
        "--package",
        "doorbell-soft",
        "--package",
        "doorbell-launch",
        "--package",
        "doorbell-abi",
    ]))?;
    run(cargo("build")?.args(["--package", "doorbell-soft-so"]))?;
    let library = directory()?.join(TARGET).join("debug/libibverbs.so");
    let mut suite = cargo("run")?;
    suite.args(["--package", "doorbell-native", "--example", "native-test", "--", "--library"]).arg(library);
    run(&mut suite)
}

fn directory() -> Task<PathBuf> {
    Ok(workspace::target()?.join("asan"))
}

/// cargo with the sanitizer enabled. An explicit target keeps the sanitizer out of programs that cargo itself
/// runs.
fn cargo(task: &str) -> Task<Command> {
    let mut cargo = command::cargo();
    cargo.args([task, "--quiet", "--target", TARGET, "--target-dir"]).arg(directory()?).current_dir(root());
    cargo.env("RUSTC_BOOTSTRAP", "1");
    // The library uses the runtime of the program that loads it.
    cargo.env("RUSTFLAGS", "-Zsanitizer=address -Clink-arg=-rdynamic");
    // Memory that lives as long as its process is never freed.
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
