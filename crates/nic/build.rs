//! Finds the built-in profiles and models of NICs. Each file in `profiles/` is a profile with the name of the
//! file, and each file in `profiles/nics/` a model.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn main() {
    let folder = Path::new(&variable("CARGO_MANIFEST_DIR")).join("../../profiles");
    let mut list = String::from("const BUILT_IN: &[BuiltIn] = &[\n");
    for file in tables(&folder) {
        let text =
            std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let (name, processor) = (name(&file), processor(&text));
        let built_in = format!("name: {name:?}, processor: {processor:?}, text: include_str!({file:?})");
        writeln!(list, "    BuiltIn {{ {built_in} }},").expect("a text has room");
    }
    list += "];\nconst NIC_MODELS: &[(&str, &str)] = &[\n";
    for file in tables(&folder.join("nics")) {
        writeln!(list, "    ({:?}, include_str!({file:?})),", name(&file)).expect("a text has room");
    }
    list += "];\n";
    let out = Path::new(&variable("OUT_DIR")).join("built_in.rs");
    std::fs::write(&out, list).unwrap_or_else(|error| panic!("{}: {error}", out.display()));
}

/// The TOML files of a folder, by name.
fn tables(folder: &Path) -> Vec<PathBuf> {
    // Adding or removing a file changes the folder.
    println!("cargo:rerun-if-changed={}", folder.display());
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a folder's entry").path()).collect();
    files.retain(|file| file.extension().is_some_and(|ending| ending == "toml"));
    files.sort_by(|one, other| one.file_stem().cmp(&other.file_stem()));
    for file in &files {
        println!("cargo:rerun-if-changed={}", file.display());
    }
    files
}

/// The name of a file, without its ending.
fn name(file: &Path) -> String {
    file.file_stem().expect("it ends in .toml").to_string_lossy().into_owned()
}

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|error| panic!("cargo says {name}: {error}"))
}

/// The processor of the profile's host, if the profile names one. The line is above all sections.
fn processor(text: &str) -> Option<&str> {
    let lines = text.lines().take_while(|line| !line.starts_with('['));
    let value = lines.filter_map(|line| line.strip_prefix("processor = \"")).next()?;
    value.split('"').next()
}
