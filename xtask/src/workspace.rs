//! Paths of the repository and of cargo's target folder.

use crate::command::{Task, failed};
use std::path::PathBuf;

/// The workspace's root. Cargo tells it when it starts the program. The path at compile time would be wrong
/// if two checkouts share a target folder: cargo then starts the program of one checkout in the other.
pub(crate) fn root() -> PathBuf {
    let package = std::env::var_os("CARGO_MANIFEST_DIR");
    package.map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from).join("..")
}

/// Cargo's target folder, even if `CARGO_TARGET_DIR` sets it. This program's file is two levels below the
/// folder.
pub(crate) fn target() -> Task<PathBuf> {
    let this = std::env::current_exe().map_err(|error| failed("this program", error))?;
    let target = this.ancestors().nth(2).map(PathBuf::from);
    target.ok_or_else(|| failed(this.display(), "is not in a target folder"))
}
