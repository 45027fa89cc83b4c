//! No two files of this crate use each other, nor do two of its rooms (the folders, and the files
//! beside them), by whatever detour: what is below knows nothing of what is above. Tests may use
//! anything.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What each module uses, by their paths below the crate.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The sources below a directory, by the path of their module; without the tests in them.
fn sources(directory: &Path, module: &str, all: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(directory).expect("it can be read").flatten() {
        let path = entry.path();
        let name = path.file_stem().and_then(|name| name.to_str()).expect("a name").to_owned();
        let inner = if module.is_empty() { name.clone() } else { format!("{module}::{name}") };
        if path.is_dir() {
            sources(&path, &inner, all);
        } else {
            let text = std::fs::read_to_string(&path).expect("it can be read");
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let code: Vec<&str> = code.lines().map(|line| line.split("//").next().unwrap_or("")).collect();
            all.insert(if name == "mod" { module.to_owned() } else { inner }, code.join("\n"));
        }
    }
}

/// Where `pattern` stands in a text as a word of its own, not behind `::`.
fn words<'t>(text: &'t str, pattern: &str) -> impl Iterator<Item = &'t str> {
    text.match_indices(pattern)
        .filter(|(at, _)| !text[..*at].ends_with(|c: char| c.is_alphanumeric() || "_:".contains(c)))
        .map(|(at, _)| &text[at..])
}

/// The paths that begin here, behind `before`: several where there are braces. Returns what follows.
fn expand<'t>(before: &str, text: &'t str, paths: &mut BTreeSet<String>) -> &'t str {
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            match rest.strip_prefix('}') {
                Some(behind) => return behind,
                None if rest.is_empty() => return rest,
                None => rest = expand(before, rest, paths),
            }
        }
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let path = format!("{before}::{}", &text[..end]);
    match text[end..].strip_prefix("::") {
        Some(rest) => expand(&path, rest, paths),
        None => {
            paths.insert(path);
            // Over what is no path, such as a `*` in braces.
            let rest = &text[end..];
            rest.strip_prefix('*').unwrap_or(rest)
        }
    }
}

/// The module that `path` is of, as `module` says it.
fn resolve(path: &str, module: &str, known: &BTreeMap<String, String>) -> Option<String> {
    let mut at: Vec<&str> = module.split("::").collect();
    for step in path.split("::").filter(|step| !step.is_empty()) {
        match step {
            "crate" => at.clear(),
            "super" => drop(at.pop()),
            step => at.push(step),
        }
    }
    // The last steps name what is in the module.
    (1..=at.len()).rev().map(|steps| at[..steps].join("::")).find(|path| known.contains_key(path))
}

fn graph(sources: &BTreeMap<String, String>) -> Graph {
    let uses = |(module, text): (&String, &String)| {
        let mut paths = BTreeSet::new();
        for start in ["crate::", "super::"].into_iter().flat_map(|start| words(text, start)) {
            expand("", start, &mut paths);
        }
        let mut used: BTreeSet<String> =
            paths.iter().filter_map(|path| resolve(path, module, sources)).collect();
        // A folder's own file names what is in the folder without `self`.
        let inner = sources.keys().filter_map(|other| Some((other, other.strip_prefix(&**module)?)));
        let named = inner.filter(|(_, rest)| {
            rest.strip_prefix("::").is_some_and(|name| words(text, &format!("{name}::")).next().is_some())
        });
        used.extend(named.map(|(other, _)| other.clone()));
        used.remove(module);
        (module.clone(), used)
    };
    sources.iter().map(uses).collect()
}

/// The modules that are in a circle, or between two of them.
fn circles(graph: &Graph) -> Graph {
    let mut left = graph.clone();
    loop {
        let before = left.len();
        let names: BTreeSet<String> = left.keys().cloned().collect();
        let used: BTreeSet<String> = left.values().flatten().cloned().collect();
        left.retain(|name, uses| {
            uses.retain(|other| names.contains(other));
            !uses.is_empty() && used.contains(name)
        });
        if left.len() == before {
            return left;
        }
    }
}

/// The same of the rooms.
fn rooms(graph: &Graph) -> Graph {
    let room = |module: &str| module.split("::").next().unwrap_or_default().to_owned();
    let mut rooms = Graph::new();
    for (module, uses) in graph {
        let own = room(module);
        let others = uses.iter().map(|other| room(other)).filter(|other| *other != own);
        rooms.entry(own.clone()).or_default().extend(others);
    }
    rooms
}

#[test]
fn nothing_uses_what_uses_it() {
    let mut all = BTreeMap::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut all);
    all.retain(|module, _| module != "lib" && module.split("::").next() != Some("tests"));
    let graph = graph(&all);
    assert!(graph.len() > 40, "{} modules are all that was found", graph.len());
    assert!(graph["queues::cq"].contains("rings::completions"), "{:?}", graph["queues::cq"]);
    assert_eq!(circles(&graph), Graph::new(), "files use each other");
    assert_eq!(circles(&rooms(&graph)), Graph::new(), "rooms use each other");
}

#[test]
fn circles_are_found() {
    let text = [
        ("a", "mod b;\nuse b::B;"),
        ("a::b", "use super::c::{D, e::*};\nfn f() { crate::d::g(); }"),
        ("a::c", "use super::super::{d::{self, G}, x};"),
        ("d", ""),
    ];
    let mut all: BTreeMap<String, String> = text.map(|(m, t)| (m.to_owned(), t.to_owned())).into();
    let of = |graph: &Graph, module: &str| graph[module].iter().cloned().collect::<Vec<_>>().join(" ");
    let found = graph(&all);
    assert_eq!(["a", "a::b", "a::c", "d"].map(|m| of(&found, m)), ["a::b", "a::c d", "d", ""]);
    assert_eq!(circles(&found), Graph::new());
    all.insert("d".into(), "fn g(_: &super::a::b::B) {}".into());
    let found = graph(&all);
    assert_eq!(circles(&found).keys().collect::<Vec<_>>(), ["a::b", "a::c", "d"]);
    assert_eq!(circles(&rooms(&found)).keys().collect::<Vec<_>>(), ["a", "d"]);
}
