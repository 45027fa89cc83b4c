//! The code of every crate, module by module, without comments, string literals and tests.

use doorbell_prose::literal_length;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The code of a crate's modules by path, such as `a::b`. The root's path is empty.
pub(crate) type Modules = BTreeMap<String, String>;

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The modules of every crate, by folder name.
pub(crate) fn crates() -> BTreeMap<String, Modules> {
    let folders = std::fs::read_dir(root().join("crates")).expect("it can be read").flatten();
    let folders = folders.map(|entry| entry.path()).chain([root().join("xtask")]);
    let name = |folder: &Path| folder.file_name().expect("a name").to_string_lossy().into_owned();
    folders
        .filter(|folder| folder.join("src").is_dir())
        .map(|folder| (name(&folder), modules(&folder)))
        .collect()
}

/// The modules below `src`, without modules that are compiled only for tests.
fn modules(folder: &Path) -> Modules {
    let (mut all, mut tests) = (Modules::new(), BTreeSet::new());
    collect(&folder.join("src"), "", &mut all, &mut tests);
    let is_test = |module: &str| {
        tests.iter().any(|test: &String| {
            module.strip_prefix(&**test).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
        })
    };
    all.retain(|module, _| !is_test(module));
    all
}

/// The path of a module within another.
pub(crate) fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}

fn collect(folder: &Path, module: &str, all: &mut Modules, tests: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("it can be read").flatten() {
        let path = entry.path();
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            collect(&path, &join(module, &stem), all, tests);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let is_root = ["mod", "lib", "main"].contains(&&*stem) && (stem == "mod" || module.is_empty());
            let name = if is_root { module.to_owned() } else { join(module, &stem) };
            let (code, test_modules) = without_tests(&bare(&std::fs::read_to_string(&path).expect("text")));
            tests.extend(test_modules.iter().map(|test| join(&name, test)));
            *all.entry(name).or_default() += &code;
        }
    }
}

/// Code without comments and without string and character literals.
pub(crate) fn bare(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skipped = comment(rest).or_else(|| literal_length(rest));
        match skipped {
            Some(length) => {
                // Keep line breaks, and a space between the words on both sides.
                out.push(' ');
                out.extend(rest[..length].chars().filter(|c| *c == '\n'));
                rest = &rest[length..];
            }
            None => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    out
}

/// The length of the comment that starts here.
pub(crate) fn comment(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    rest.starts_with("/*").then(|| rest.find("*/").map_or(rest.len(), |end| end + 2))
}

/// Bare code without items for tests only, and the names of the modules among these items.
fn without_tests(code: &str) -> (String, Vec<String>) {
    let mut parts = code.split("#[cfg(test)]");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    let mut modules = Vec::new();
    for part in parts {
        let end = item(part);
        let words: Vec<&str> = part[..end].split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let module = words.iter().position(|word| *word == "mod").and_then(|at| words.get(at + 1));
        modules.extend(module.map(|&name| name.to_owned()));
        kept += &part[end..];
    }
    (kept, modules)
}

/// The length of the item that starts here: up to its semicolon, comma or closing brace.
fn item(code: &str) -> usize {
    let start = code.trim_start().trim_start_matches("pub ");
    if start.starts_with("use ") {
        return code.find(';').map_or(code.len(), |at| at + 1);
    }
    let mut depth = 0usize;
    for (at, c) in code.char_indices() {
        match c {
            '{' | '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            '}' if depth <= 1 => return at + usize::from(depth == 1),
            '}' => depth -= 1,
            ';' | ',' if depth == 0 => return at + 1,
            _ => {}
        }
    }
    code.len()
}

#[test]
fn comments_texts_and_tests_are_left_out() {
    let text = "a 'x' '\\'' \"b \\\" // c\" r#\"d \" \"# <'e> // f\n/* g */ h\n#[cfg(test)]\nuse i::{j};\n#[cfg(test)]\nmod k {\n fn l() {}\n}\nm";
    let (code, tests) = without_tests(&bare(text));
    assert_eq!(code.split_whitespace().collect::<Vec<_>>().join(" "), "a <'e> h m");
    assert_eq!(tests, ["k"]);
}
