//! Computes `DOORBELL_MODEL`, a hash of everything besides the run that a result depends on. So a stored
//! result of another model is never taken for a result of this model.

use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// The crates that make up a simulation, including its programs.
const MODEL: [&str; 9] =
    ["lab", "nic", "programs", "schema", "sim", "systems", "transport", "verbs", "workload"];

fn main() {
    let lab = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo says where the crate is"));
    let crates = lab.parent().expect("the crate has a parent folder");
    let root = crates.parent().expect("the crates lie in the workspace");
    let mut files = vec![root.join("Cargo.lock")];
    for name in MODEL {
        collect(&crates.join(name).join("src"), &mut files);
    }
    let mut hash = Sha256::new();
    for file in &files {
        println!("cargo:rerun-if-changed={}", file.display());
        let name = file.strip_prefix(root).expect("all lie in the workspace");
        let text = std::fs::read(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        // The length shows where the text of the file ends.
        hash.update(format!("{} {}\n", name.display(), text.len()));
        hash.update(text);
    }
    let digits: String = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    println!("cargo:rustc-env=DOORBELL_MODEL={digits}");
}

/// Collects all files below a directory, in the order of their names.
fn collect(dir: &Path, files: &mut Vec<PathBuf>) {
    // Cargo must also notice files that are added or removed. These change the directory.
    println!("cargo:rerun-if-changed={}", dir.display());
    let entries = std::fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a directory's entry").path()).collect();
    paths.sort();
    for path in paths {
        match path.is_dir() {
            true => collect(&path, files),
            false => files.push(path),
        }
    }
}
