//! Finds the crates that a change reaches: the crates of changed files, and all crates that depend on them.

use crate::command::{Task, failed, lines, output};
use crate::test::steps::cargo;
use crate::workspace::root;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Prefixes of files outside of crates, and the crate that includes or tests them.
const OUTSIDE: [(&str, &str); 4] = [
    ("profiles/", "doorbell-nic"),
    ("papers/", "doorbell-reproduce"),
    ("docs/", "doorbell-cli"),
    ("", "xtask"),
];

/// A crate of the workspace.
#[derive(Default)]
struct Member {
    /// Folder of the crate, relative to the workspace's root.
    folder: String,
    /// Workspace crates that the library or program depends on.
    needs: BTreeSet<String>,
    /// Further workspace crates that the tests depend on.
    tests_need: BTreeSet<String>,
}

/// The workspace's crates by name.
#[derive(Default)]
pub(crate) struct Workspace {
    members: BTreeMap<String, Member>,
}

/// The crates that a change reaches.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChangeReach {
    /// Crates with changed files.
    pub(crate) changed: BTreeSet<String>,
    /// Other crates that depend on a changed crate, or whose tests depend on one.
    pub(crate) above: BTreeSet<String>,
}

/// Files that differ from a commit, including new files, relative to the workspace's root.
pub(crate) fn changed_files(commit: &str) -> Task<Vec<String>> {
    let git = |arguments: &[&str]| lines(Command::new("git").args(arguments).current_dir(root()));
    let mut files = git(&["diff", "--name-only", "--relative", commit, "--"])?;
    files.extend(git(&["ls-files", "--others", "--exclude-standard"])?);
    Ok(files)
}

impl Workspace {
    /// Reads the workspace from `cargo metadata`.
    pub(crate) fn read() -> Task<Workspace> {
        let json = output(&mut cargo(&["metadata", "--format-version", "1", "--no-deps", "--offline"]))?;
        let json: Value = serde_json::from_slice(&json).map_err(|error| failed("cargo metadata", error))?;
        Workspace::of(&json).ok_or_else(|| failed("cargo metadata", "a field is missing"))
    }

    fn of(json: &Value) -> Option<Workspace> {
        let root = json["workspace_root"].as_str()?;
        let packages = json["packages"].as_array()?.iter();
        let members = packages.map(|package| {
            let manifest = package["manifest_path"].as_str()?.strip_prefix(root)?;
            let folder = manifest.strip_prefix('/')?.strip_suffix("Cargo.toml")?.to_owned();
            let mut member = Member { folder, ..Member::default() };
            for needed in
                package["dependencies"].as_array()?.iter().filter(|needed| needed["path"].is_string())
            {
                let name = needed["name"].as_str()?.to_owned();
                match needed["kind"].as_str() {
                    Some("dev") => member.tests_need.insert(name),
                    _ => member.needs.insert(name),
                };
            }
            Some((package["name"].as_str()?.to_owned(), member))
        });
        Some(Workspace { members: members.collect::<Option<_>>()? })
    }

    /// Names of all crates.
    #[cfg(test)]
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.members.keys().map(String::as_str)
    }

    /// The crate that a file belongs to.
    fn owner(&self, file: &str) -> &str {
        let owner = self.members.iter().find(|(_, member)| file.starts_with(&member.folder));
        let outside = || OUTSIDE.iter().find(|(begin, _)| file.starts_with(begin)).map(|(_, name)| *name);
        owner.map(|(name, _)| name.as_str()).or_else(outside).expect("the last line takes every file")
    }

    /// The crates that a change of these files reaches.
    pub(crate) fn reach(&self, files: &[String]) -> ChangeReach {
        let changed: BTreeSet<String> = files.iter().map(|file| self.owner(file).to_owned()).collect();
        let mut built = changed.clone();
        loop {
            let more = self.members.iter().filter(|(_, member)| !member.needs.is_disjoint(&built));
            let more: BTreeSet<String> = more.map(|(name, _)| name.clone()).collect();
            if more.is_subset(&built) {
                break;
            }
            built.extend(more);
        }
        // A crate does not depend on the test dependencies of its own dependencies.
        let tests = self.members.iter().filter(|(_, member)| !member.tests_need.is_disjoint(&built));
        let all: BTreeSet<String> = tests.map(|(name, _)| name.clone()).chain(built.clone()).collect();
        ChangeReach { above: &all - &changed, changed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// `b` depends on `a`, the tests of `c` depend on `b`, and `d` depends on `c`.
    fn workspace() -> Workspace {
        let package = |name: &str, needed: Value| json!({ "name": name, "manifest_path": format!("/w/crates/{name}/Cargo.toml"), "dependencies": needed });
        let needs = |name: &str, kind: Value| json!([{ "name": name, "kind": kind, "path": "/w" }, { "name": "libc" }]);
        let packages = json!([
            package("a", json!([])),
            package("b", needs("a", Value::Null)),
            package("c", needs("b", "dev".into())),
            package("d", needs("c", Value::Null)),
            package("doorbell-nic", json!([])),
        ]);
        Workspace::of(&json!({ "workspace_root": "/w", "packages": packages })).expect("all fields")
    }

    #[test]
    fn a_change_reaches_what_is_built_with_it() {
        let reach = |files: &[&str]| {
            let reach = workspace().reach(&files.iter().map(|&file| file.to_owned()).collect::<Vec<_>>());
            [reach.changed, reach.above].map(|names| names.into_iter().collect::<Vec<_>>().join(" "))
        };
        assert_eq!(reach(&["crates/a/src/lib.rs"]), ["a", "b c"]);
        assert_eq!(reach(&["crates/c/x", "crates/a/tests/y"]), ["a c", "b d"]);
        assert_eq!(reach(&["profiles/x.toml", "README.md"]), ["doorbell-nic xtask", ""]);
        assert_eq!(reach(&[]), ["", ""]);
    }

    #[test]
    fn this_workspace_is_read() {
        let reach =
            Workspace::read().ok().expect("cargo says it").reach(&["crates/sim/src/lib.rs".to_owned()]);
        assert_eq!(reach.changed, ["doorbell-sim".to_owned()].into());
        let above = ["doorbell-conformance", "doorbell-lab", "doorbell-cli", "doorbell-systems"];
        assert!(above.iter().all(|&name| reach.above.contains(name)), "{reach:?}");
        assert!(!reach.above.contains("doorbell-nic"), "{reach:?}");
    }
}
