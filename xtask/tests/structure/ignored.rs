//! Checks that no test is switched off. A function with the attribute `ignore` must be a program that another
//! test of its crate starts by name, in a process of its own.

use crate::source::{comment, root};
use doorbell_prose::literal_length;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// Functions of tests that start the function `program` of the module in their arguments.
const STARTERS: [&str; 3] = ["own_program(", "Running::new(", "alone("];
/// Names of a module in its own code.
const HERE: [&str; 2] = ["HERE", "module_path!()"];

/// A function that the test harness leaves out.
struct IgnoredTest {
    name: String,
    body: Range<usize>,
    is_started: bool,
}

/// A file of a crate.
struct TestFile {
    /// The last step of the module's path.
    module: String,
    /// The code without comments.
    code: String,
    ignored: Vec<IgnoredTest>,
}

impl TestFile {
    fn of(module: &str, text: &str) -> TestFile {
        let code = without(text, comment);
        let ignored = ignored(&without(&code, literal_length));
        TestFile { module: module.to_owned(), code, ignored }
    }

    /// The code without the bodies of functions that nothing starts.
    fn reached(&self) -> String {
        let mut reached = self.code.clone();
        for test in self.ignored.iter().filter(|test| !test.is_started) {
            reached.replace_range(test.body.clone(), &" ".repeat(test.body.len()));
        }
        reached
    }
}

/// The text with spaces in place of the parts that `part` measures. The other parts keep their positions.
/// Literals are skipped as a whole.
fn without(text: &str, part: fn(&str) -> Option<usize>) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(c) = rest.chars().next() {
        let (kept, length) = match (part(rest), literal_length(rest)) {
            (Some(length), _) => ("", length),
            (None, Some(length)) => (&rest[..length], length),
            (None, None) => (&rest[..c.len_utf8()], c.len_utf8()),
        };
        out.push_str(kept);
        out.extend(std::iter::repeat_n(' ', length - kept.len()));
        rest = &rest[length..];
    }
    out
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The functions with the attribute `ignore` in code without comments and literals.
fn ignored(code: &str) -> Vec<IgnoredTest> {
    let mut all = Vec::new();
    for (at, _) in code.match_indices("fn ").filter(|(at, _)| !code[..*at].ends_with(is_word)) {
        let start = code[..at].rfind([';', '{', '}']).map_or(0, |end| end + 1);
        if code[start..at].split(|c| !is_word(c)).any(|word| word == "ignore") {
            let name = code[at + 3..].split(|c| !is_word(c)).next().unwrap_or_default().to_owned();
            all.push(IgnoredTest { name, body: body(code, at), is_started: false });
        }
    }
    all
}

/// The first block in braces from `at` on.
fn body(code: &str, at: usize) -> Range<usize> {
    let start = code[at..].find('{').map_or(code.len(), |brace| at + brace);
    let mut depth = 0;
    for (length, c) in code[start..].char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return start..start + length + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    start..code.len()
}

/// Whether code starts the function `name` of a module. `own` is the code of the module's file, and `all` has
/// the code of all files of the crate.
fn is_started(module: &str, name: &str, own: &str, all: &[String]) -> bool {
    let path = format!("{module}::{name}\"");
    let quoted = format!("\"{name}\"");
    let program = |starter: &str| {
        let mut calls = own.match_indices(starter).map(|(at, _)| own[at..].split(';').next().unwrap_or(""));
        calls.any(|call| HERE.iter().any(|here| call.contains(&format!("{here},"))))
    };
    all.iter().any(|code| code.contains(&path))
        || HERE.iter().any(|here| own.contains(&format!("one_test({here}, {quoted})")))
        || own.contains(&format!("::{module}::{{")) && own.contains(&quoted)
        || name == "program" && STARTERS.into_iter().any(program)
}

/// The names of ignored functions that nothing starts, in the files of one crate.
fn not_started(mut files: Vec<TestFile>) -> Vec<String> {
    loop {
        let all: Vec<String> = files.iter().map(TestFile::reached).collect();
        let mut found = false;
        for (file, own) in files.iter_mut().zip(&all) {
            for test in file.ignored.iter_mut().filter(|test| !test.is_started) {
                test.is_started = is_started(&file.module, &test.name, own, &all);
                found |= test.is_started;
            }
        }
        if !found {
            break;
        }
    }
    let left = |file: &TestFile| {
        let all = file.ignored.iter().filter(|test| !test.is_started);
        all.map(|test| format!("{}::{}", file.module, test.name)).collect::<Vec<_>>()
    };
    files.iter().flat_map(left).collect()
}

fn read(folder: &Path, files: &mut Vec<TestFile>) {
    for path in std::fs::read_dir(folder).expect("it can be read").flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            read(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let is_folder = path.file_stem().is_some_and(|stem| stem == "mod");
            let named = if is_folder { path.parent().expect("a folder") } else { &path };
            let module = named.file_stem().expect("a name").to_string_lossy().into_owned();
            files.push(TestFile::of(&module, &std::fs::read_to_string(&path).expect("text")));
        }
    }
}

#[test]
fn no_test_is_switched_off() {
    let folders = std::fs::read_dir(root().join("crates")).expect("it can be read").flatten();
    let folders = folders.map(|entry| entry.path()).chain([root().join("xtask")]);
    let mut crates: BTreeMap<String, Vec<TestFile>> = BTreeMap::new();
    for folder in folders.filter(|folder| folder.is_dir()) {
        read(&folder, crates.entry(folder.display().to_string()).or_default());
    }
    let programs: usize = crates.values().flatten().map(|file| file.ignored.len()).sum();
    assert!(programs > 30, "{programs} programs are all that was found");
    let left = crates.into_iter().flat_map(|(folder, files)| {
        not_started(files).into_iter().map(move |name| format!("{folder}: {name}\n"))
    });
    let left: String = left.collect();
    assert!(left.is_empty(), "ignored tests that no other test starts as a program\n{left}");
}

#[test]
fn an_ignored_test_that_nothing_starts_is_found() {
    let program = "#[test]\n#[ignore = \"} a program\"]\nfn program() { alone(l, HERE, \"r\"); '{' }\n";
    let other = "#[test]\n#[cfg_attr(x, ignore)]\nfn other() { exact(\"tests::b::last\") }\n";
    let last = "#[test]\n#[ignore]\nfn last() {}\n";
    let left = |files: &[(&str, String)]| {
        not_started(files.iter().map(|(module, text)| TestFile::of(module, text)).collect()).join(" ")
    };
    let with = |code: &str| left(&[("a", format!("{program}{other}{code}")), ("b", last.to_owned())]);
    assert_eq!(with(""), "a::program a::other b::last");
    assert_eq!(with("// alone(l, HERE, \"r\"); \"a::other\"\nconst HERE: &str = module_path!();"), with(""));
    assert_eq!(with("fn t() { Running::new(l, HERE, \"r\"); }"), "a::other b::last");
    assert_eq!(with("fn t() { own_program(&l, module_path!(), \"r\"); }"), "a::other b::last");
    // The started program starts another one.
    assert_eq!(with("fn t() { one_test(HERE, \"other\") }"), "a::program");
    assert_eq!(
        with("fn t(test: &str) { exact(&format!(\"c::a::{test}\")) }\nfn u() { t(\"other\") }"),
        "a::program"
    );
    assert_eq!(
        with("fn t() { exact(\"tests::b::last\"); u(\"other\"); report[\"program\"] }"),
        "a::program a::other"
    );
}
