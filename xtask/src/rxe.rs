//! Runs the samples, the conformance suite and the systems' checks on the kernel's Soft-RoCE in an emulated
//! machine. This needs neither an RDMA NIC nor privileges.

use crate::command::{self, Task, failed};
use crate::workspace::{self, root};
use crate::{initramfs, kernel, packages, qemu};
use std::fs;
use std::path::{Path, PathBuf};

/// Builds the program that runs in the machine, with cargo's `dev` profile.
fn build(target: &Path) -> Task<PathBuf> {
    let mut build = command::cargo();
    // Building the whole workspace gives dependencies the features that `cargo test --workspace` uses. After
    // that command, no dependency must be built again.
    build.args(["build", "--quiet", "--workspace", "--example", "native-test"]);
    command::run(build.current_dir(root()).env("CARGO_TARGET_DIR", target))?;
    Ok(target.join("debug/examples/native-test"))
}

/// Compiles the C programs whose calls Soft-RoCE must answer as the software NIC does. Returns the programs.
fn compile_calls(folder: &Path) -> Task<Vec<PathBuf>> {
    let compile = |name: &&str| {
        let source = root().join("crates/soft-so/tests/soft-so").join(name).with_extension("c");
        let binary = folder.join(name);
        command::run(command::program("cc").arg("-o").arg(&binary).arg(source).arg("-libverbs"))?;
        Ok(binary)
    };
    ["calls", "refused"].iter().map(compile).collect()
}

/// Runs the program in the machine and returns its exit code. The arguments state a part of the names of
/// checks, or the number of processes to kill. Without arguments, the C programs run, too.
pub(crate) fn run(arguments: &[&str]) -> Task<u8> {
    packages::ensure()?;
    let target = workspace::target()?;
    let program = build(&target)?;
    let cache = target.join("rxe");
    fs::create_dir_all(&cache).map_err(|error| failed(cache.display(), error))?;
    let kernel = kernel::fetch(&cache)?;
    let calls = if arguments.is_empty() { compile_calls(&cache)? } else { Vec::new() };
    let arguments: Vec<_> = std::iter::once("--soft-roce").chain(arguments.iter().copied()).collect();
    let archive = cache.join("initramfs");
    initramfs::build(&kernel, &program, &calls, &arguments, &archive)?;
    qemu::boot(&kernel.vmlinux, &archive)
}
