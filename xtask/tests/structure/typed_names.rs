//! Checks that code distinguishes resources, parts and meters by type. Their names are for readers. Outside
//! of tests, no code compares a name with a string or parses it.

use crate::source;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files that define the names, as strings behind `=>`.
const DEFINED: [&str; 3] =
    ["crates/nic/src/resource.rs", "crates/nic/src/parts.rs", "crates/sim/src/meter.rs"];

/// Files that parse names because their format contains them: file, reason.
const READERS: [(&str, &str); 3] = [
    ("crates/nic/src/resource.rs", "`Deserialize` of Resource: its JSON is its name"),
    ("crates/sim/src/meter.rs", "`FromStr` of Meter: stored results have its name"),
    (
        "crates/lab/src/results/lift.rs",
        "`Deserialize` of a bottleneck's class: its JSON is the name of a resource",
    ),
];

/// Methods that compare or parse a string.
const TAKING_APART: [&str; 9] = [
    "split",
    "split_once",
    "rsplit",
    "rsplit_once",
    "strip_prefix",
    "strip_suffix",
    "starts_with",
    "ends_with",
    "contains",
];

/// Names of variables and fields that hold names of resources or parts.
const CALLED: [&str; 10] =
    ["resource", "resources", "part", "parts", "meter", "bottleneck", "class", "limiter", "cache", "phase"];

/// The string literals in a line: start and text.
fn texts(line: &str) -> Vec<(usize, &str)> {
    let mut all = Vec::new();
    let mut rest = 0;
    while let Some(begin) = line[rest..].find('"').map(|at| rest + at) {
        let Some(end) = line[begin + 1..].find('"').map(|at| begin + 1 + at) else { break };
        all.push((begin, &line[begin + 1..end]));
        rest = end + 1;
    }
    all
}

/// The names of resources, parts and meters. For names with variable parts, their constant parts.
fn names() -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for file in DEFINED {
        let code = std::fs::read_to_string(source::root().join(file)).expect(file);
        for line in code.lines().take_while(|line| !line.contains("#[cfg(test)]")) {
            let behind = line.split_once("=> ").map_or("", |(_, behind)| behind);
            let told = texts(behind).into_iter().map(|(_, text)| text.trim()).filter(|text| text.len() > 2);
            all.extend(told.map(str::to_owned));
        }
    }
    all
}

/// The complaint about a line that compares or parses a name. Returns `None` for any other line.
fn complaint(line: &str, names: &BTreeSet<String>) -> Option<String> {
    for (begin, text) in texts(line) {
        let (before, behind) = (line[..begin].trim_end(), line[begin + text.len() + 2..].trim_start());
        let is_compared = before.ends_with("==") || before.ends_with("!=") || behind.starts_with("==");
        let is_arm = behind.starts_with("=>") || behind.starts_with('|') || before.ends_with('|');
        if (is_compared || is_arm) && names.contains(text) {
            return Some(format!("compares with the name {text:?}"));
        }
        let method = TAKING_APART.into_iter().find(|method| before.ends_with(&format!(".{method}(")));
        let is_of_name = |name: &String| name.starts_with(text.trim()) || name.ends_with(text.trim());
        if let Some(method) = method
            && (text.trim().len() > 2 && names.iter().any(is_of_name)
                || text == "nic-"
                || text == " of device ")
        {
            return Some(format!("{method} by a part of a name, {text:?}"));
        }
    }
    let words = |text: &str| -> Vec<String> {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect()
    };
    for name in [".name()", ".class_name()", ".to_string()"] {
        for (at, _) in line.match_indices(name) {
            let (before, behind) = (&line[..at], line[at + name.len()..].trim_start());
            let owner = before.rsplit([' ', '(', ',', '|', '!', '&', '*']).next().unwrap_or_default();
            if !words(owner).iter().any(|word| CALLED.contains(&&**word)) {
                continue;
            }
            let begins = &before[..before.len() - owner.len()];
            let method = |method: &&str| behind.starts_with(&format!(".{method}("));
            let is_compared = behind.starts_with("==") || behind.starts_with("!=");
            if is_compared || begins.trim_end().ends_with("==") || TAKING_APART.iter().any(method) {
                return Some(format!("looks into {owner}{name}"));
            }
        }
    }
    None
}

fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("it can be read").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            all.push(path);
        }
    }
}

#[test]
fn no_code_looks_into_names_of_resources_and_parts() {
    let names = names();
    assert!(names.contains("nic-tx-pu") && names.contains("PCIe to host") && names.len() > 30, "{names:?}");
    let mut files = Vec::new();
    for entry in std::fs::read_dir(source::root().join("crates")).expect("it can be read").flatten() {
        if entry.path().join("src").is_dir() {
            sources(&entry.path().join("src"), &mut files);
        }
    }
    assert!(files.len() > 500, "{} files", files.len());
    let mut failures = String::new();
    for file in files {
        let own = file.strip_prefix(source::root()).unwrap_or(&file).to_string_lossy().into_owned();
        let is_test = own.contains("/tests") || own.ends_with("/tests.rs");
        if is_test || READERS.iter().any(|(reader, _)| own == *reader) {
            continue;
        }
        let code = std::fs::read_to_string(&file).expect("text");
        let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for (number, line) in code.lines().enumerate() {
            let line = line.split("//").next().unwrap_or_default();
            if let Some(complaint) = complaint(line, &names) {
                failures += &format!("{own}:{}: {complaint}\n", number + 1);
            }
        }
    }
    assert!(failures.is_empty(), "names are for people; compare types\n{failures}");
}

#[test]
fn looks_into_names_are_found() {
    let names: BTreeSet<String> = ["nic-tx-pu", "ib-bw", "core", "PCIe to host"].map(str::to_owned).into();
    for line in [
        r#"let of_link = large.bottleneck.class == "ib-bw";"#,
        r#"if class.starts_with("nic-") {"#,
        r#"rs.filter(|r| r.name.starts_with("core "))"#,
        r#"name.split_once(" of device ")"#,
        r#"match class { "ib-bw" => Link,"#,
        r#"find(|resource| resource.name() == bottleneck)"#,
        r#"let device = r.meter.to_string().split_once(' ');"#,
        r#"found.class == Resource::Latency.name() && resource == other.resource.name()"#,
        r#"any(|f| f.class == cost.resource.name())"#,
    ] {
        assert!(complaint(line, &names).is_some(), "{line}");
    }
    for line in [
        r#"Resource::LinkBandwidth => "ib-bw","#,
        r#"println!("{} limits", resource.name());"#,
        r#"text.split(' ').next()"#,
        r#"if key.starts_with("tx.") {"#,
    ] {
        assert_eq!(complaint(line, &names), None, "{line}");
    }
}
