//! Checks that ARCHITECTURE.md and CONTRIBUTING.md match the repository. Every crate, folder, file and item
//! that these pages name must exist. The map must hold every crate with its dependencies, and every folder of
//! its sources.
//!
//! In a sentence, the test checks the targets of links, and words in backticks that look like paths or items.
//! In a picture, it checks every word with a slash, and the first word of a column if it looks like a file
//! name. Words below a folder, indented by two columns, are the folder's files. A line with only names of
//! crates assigns the columns below it to these crates.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Contents of the repository.
#[derive(Default)]
struct Repository {
    crates: BTreeSet<String>,
    /// Files and folders, relative to the root. Paths in a crate also start from its name, with and without
    /// `src`. Rust files are also listed without their extension.
    paths: BTreeSet<String>,
    /// The sources of each crate.
    sources: BTreeMap<String, String>,
    /// Folders of sources, each starting from its crate's name, without `src`.
    folders: BTreeSet<String>,
    /// The crates that each crate depends on, without test dependencies.
    needs: BTreeMap<String, BTreeSet<String>>,
}

/// Workspace crates among the dependencies in a Cargo.toml, without dependencies of tests and build scripts.
fn dependencies(manifest: &str) -> BTreeSet<String> {
    let section = manifest.split("\n[").find_map(|section| section.strip_prefix("dependencies]\n"));
    let lines = section.unwrap_or_default().lines();
    let names = lines.filter_map(|line| line.strip_prefix("doorbell-")?.split(['.', ' ']).next());
    names.map(str::to_owned).collect()
}

impl Repository {
    fn of(root: &Path) -> Repository {
        let mut all = Repository::default();
        all.walk(root, "");
        all
    }

    fn walk(&mut self, folder: &Path, name: &str) {
        for entry in std::fs::read_dir(folder).expect("a folder can be read").flatten() {
            let path = entry.path();
            let file = entry.file_name().to_string_lossy().into_owned();
            if file.starts_with('.') || file.starts_with("target") {
                continue;
            }
            let inner = if name.is_empty() { file } else { format!("{name}/{file}") };
            self.add(&inner, &path);
            if path.is_dir() {
                self.walk(&path, &inner);
            }
        }
    }

    fn add(&mut self, name: &str, path: &Path) {
        let of_crate = name.strip_prefix("crates/").or(name.strip_prefix("xtask").map(|_| name));
        let names = [
            Some(name.to_owned()),
            of_crate.map(str::to_owned),
            of_crate.map(|n| n.replacen("/src/", "/", 1)),
        ];
        for name in names.into_iter().flatten() {
            self.paths.extend(name.strip_suffix(".rs").map(str::to_owned));
            self.paths.insert(name);
        }
        let Some(own) = of_crate.and_then(|name| name.split('/').next()) else { return };
        self.crates.insert(own.to_owned());
        if let Some((_, folder)) = name.split_once("/src/")
            && path.is_dir()
        {
            self.folders.insert(format!("{own}/{folder}"));
        }
        if of_crate.is_some_and(|name| name == format!("{own}/Cargo.toml")) {
            let manifest = std::fs::read_to_string(path).expect("text");
            self.needs.insert(own.to_owned(), dependencies(&manifest));
        }
        if name.ends_with(".rs") {
            *self.sources.entry(own.to_owned()).or_default() += &std::fs::read_to_string(path).expect("text");
        }
    }

    /// Whether a path exists: in the crate `of`, or from the root or in any crate if `of` is `None`.
    fn has(&self, path: &str, of: Option<&str>) -> bool {
        !self.places(path, of).is_empty()
    }

    /// All matches of a path, from the root or from the names of crates.
    fn places(&self, path: &str, of: Option<&str>) -> Vec<String> {
        let path = path.trim_end_matches('/');
        let crates = self.crates.iter().filter(|name| of.is_none_or(|of| of == *name));
        let within = crates.map(|name| format!("{name}/{path}"));
        let all = of.is_none().then(|| path.to_owned()).into_iter().chain(within);
        all.filter(|path| self.paths.contains(path)).collect()
    }

    /// Whether an item such as `nic::cost`, `nic::Profile::relax` or `limits::Mix` exists. Modules are found
    /// by their files, other items by name anywhere in the crate.
    fn has_item(&self, item: &str) -> bool {
        let steps: Vec<&str> = item.trim_end_matches("()").split("::").collect();
        let names_it = |own: &str, step: &str| {
            let said = self.sources.get(own).is_some_and(|text| {
                ["fn ", "struct ", "enum ", "trait ", "type ", "const ", "static ", "macro_rules! "]
                    .iter()
                    .any(|kind| text.contains(&format!("{kind}{step}")))
            });
            said || self.has(step, Some(own))
        };
        match self.crates.get(steps[0]) {
            Some(own) => steps[1..].iter().all(|step| names_it(own, step)),
            None => self.crates.iter().any(|own| steps.iter().all(|step| names_it(own, step))),
        }
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_lowercase() || c == '.')
        && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-.".contains(c))
}

/// Whether a word is a path: names separated by slashes.
fn is_path(word: &str) -> bool {
    word.contains('/') && word.trim_end_matches('/').split('/').all(is_name)
}

/// Whether a word is the name of a Rust, TOML or Markdown file.
fn is_file(word: &str) -> bool {
    is_name(word) && [".rs", ".toml"].iter().any(|ending| word.ends_with(ending)) || word.ends_with(".md")
}

fn is_item(word: &str) -> bool {
    let steps = || word.trim_end_matches("()").split("::");
    steps().count() > 1
        && steps().all(|step| !step.is_empty() && step.chars().all(|c| c.is_alphanumeric() || c == '_'))
}

/// The columns of a line of a picture: the start and the text of each.
fn columns(line: &str) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    let mut spaces = 2;
    for (at, c) in line.chars().enumerate() {
        if c == ' ' {
            spaces += 1;
            continue;
        }
        if spaces > 1 {
            all.push((at, String::new()));
        } else if spaces == 1
            && let Some((_, text)) = all.last_mut()
        {
            text.push(' ');
        }
        spaces = 0;
        all.last_mut().expect("begun above").1.push(c);
    }
    all
}

/// Names on a page that do not exist, and the count of all names.
struct Page<'r> {
    repository: &'r Repository,
    missing: Vec<String>,
    named: usize,
    /// Paths that the page names, and all their parent folders.
    places: BTreeSet<String>,
}

impl Page<'_> {
    fn check(&mut self, there: bool, what: &str) {
        self.named += 1;
        if !there {
            self.missing.push(what.to_owned());
        }
    }

    fn check_path(&mut self, path: &str, of: Option<&str>) {
        let places = self.repository.places(path, of);
        self.check(!places.is_empty(), path);
        for place in places {
            let ends = place.match_indices('/').map(|(at, _)| at).chain([place.len()]);
            self.places.extend(ends.map(|end| place[..end].replacen("/src/", "/", 1)));
        }
    }

    fn sentence(&mut self, line: &str) {
        for word in line.split('`').skip(1).step_by(2) {
            if is_path(word) || is_file(word) {
                self.check_path(word, None);
            } else if is_item(word) {
                self.check(self.repository.has_item(word), word);
            }
        }
        for link in line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
            self.check(self.repository.has(link, None), link);
        }
        // A crate's row in the table.
        let Some((own, _)) = line.strip_prefix("| `").and_then(|rest| rest.split_once(" | ")) else { return };
        for name in own.split('`').step_by(2).filter(|name| is_name(name) && !is_file(name)) {
            self.check(self.repository.crates.contains(name), name);
        }
    }

    fn picture(&mut self, lines: &[&str]) {
        let mut owners: Vec<(usize, String)> = Vec::new();
        let mut folders: BTreeMap<usize, String> = BTreeMap::new();
        for line in lines {
            let columns = columns(line);
            if columns.iter().all(|(_, text)| self.repository.crates.contains(text)) {
                owners = columns;
                continue;
            }
            let mut below: BTreeMap<usize, String> = BTreeMap::new();
            for (at, text) in &columns {
                let owner = owners.iter().rev().find(|(from, _)| from <= at).map(|(_, name)| name.as_str());
                let words = text.split([' ', '(', ')', ',', ':', ';']).filter(|word| !word.is_empty());
                let first = words.clone().next().unwrap_or_default();
                if let Some(folder) = at.checked_sub(2).and_then(|at| folders.get(&at)) {
                    for word in text.split(' ') {
                        let path = format!("{folder}{word}");
                        match is_name(word) {
                            true => self.check_path(&path, owner),
                            false => self.check(false, &path),
                        }
                    }
                    continue;
                }
                for word in words.filter(|word| is_path(word) || (*word == first && is_file(word))) {
                    self.check_path(word, owner);
                }
                if is_path(first) && first.ends_with('/') {
                    below.insert(*at, first.to_owned());
                }
            }
            folders = below;
        }
    }

    fn read<'r>(repository: &'r Repository, text: &str) -> Page<'r> {
        let mut page = Page { repository, missing: Vec::new(), named: 0, places: BTreeSet::new() };
        for (number, part) in text.split("```").enumerate() {
            match number % 2 {
                0 => part.lines().for_each(|line| page.sentence(line)),
                _ => page.picture(&part.lines().collect::<Vec<_>>()),
            }
        }
        page
    }
}

#[test]
fn what_the_pages_name_is_there() {
    let repository = Repository::of(&root());
    for (page, least) in [("ARCHITECTURE.md", 200), ("CONTRIBUTING.md", 50)] {
        let text = std::fs::read_to_string(root().join(page)).expect("it is there");
        let Page { missing, named, .. } = Page::read(&repository, &text);
        assert_eq!(missing, Vec::<String>::new(), "{page} names what is not there");
        assert!(named > least, "{named} names are all that was found in {page}");
    }
}

fn architecture() -> String {
    std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("it is there")
}

/// Names in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The correct rows of the crates whose rows in the table are missing or wrong.
fn wrong_rows(text: &str, needs: &BTreeMap<String, BTreeSet<String>>) -> Vec<String> {
    let cells = |line: &str| line.trim_matches('|').split(" | ").map(str::to_owned).collect::<Vec<_>>();
    let rows = text.lines().filter(|line| line.starts_with("| `")).map(cells);
    let rows: BTreeMap<String, BTreeSet<String>> = rows
        .filter_map(|cells| {
            let [own, _, knows] = &cells[..] else { return None };
            let own = quoted(own).next().filter(|own| needs.contains_key(*own))?;
            Some((own.to_owned(), quoted(knows).map(str::to_owned).collect()))
        })
        .collect();
    let list = |names: &BTreeSet<String>| {
        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
    };
    let wrong = needs.iter().filter(|(name, needs)| rows.get(*name) != Some(needs));
    wrong.map(|(name, needs)| format!("| `{name}` | ... | {} |", list(needs))).collect()
}

#[test]
fn the_table_has_every_crate_with_its_dependencies() {
    let needs = Repository::of(&root()).needs;
    assert!(needs.len() > 15 && needs["cli"].contains("lab"), "{needs:?}");
    assert_eq!(wrong_rows(&architecture(), &needs), Vec::<String>::new(), "rows are to say");
}

#[test]
fn every_folder_is_on_the_map() {
    let repository = Repository::of(&root());
    assert!(repository.folders.len() > 50, "{:?}", repository.folders);
    let named = Page::read(&repository, &architecture()).places;
    let missing: Vec<_> = repository.folders.difference(&named).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md does not name {missing:?}");
}

#[test]
fn rows_that_differ_are_found() {
    let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<_>>();
    let needs = [("a", names(&[])), ("b", names(&["a"])), ("c", names(&["a", "b"]))];
    let needs = needs.map(|(name, needs)| (name.to_owned(), needs)).into();
    assert_eq!(
        wrong_rows("| `a` | is | |\n| `b` | is `x` | `a` |\n| `c` | is | `a`, `b` |\n", &needs),
        [""; 0]
    );
    assert_eq!(
        wrong_rows("| `a` | is | `b` |\n| `b` | is | nothing |\n", &needs),
        ["| `a` | ... |  |", "| `b` | ... | `a` |", "| `c` | ... | `a`, `b` |"]
    );
    let manifest = "[package]\nname = \"x\"\n\n[dependencies]\ndoorbell-a.workspace = true\nlibc = 1\ndoorbell-b = { path = \"b\" }\n\n[dev-dependencies]\ndoorbell-c.workspace = true\n";
    assert_eq!(dependencies(manifest), names(&["a", "b"]));
}

#[test]
fn what_is_not_there_is_found() {
    let repository = Repository::of(&root());
    let missing = |text: &str| Page::read(&repository, text).missing.join(" ");
    assert_eq!(
        missing("`sim/core/queue`, `limits/unlike.rs`, `README.md`, `nic::Profile::relax`, `x`, `/dev/shm`"),
        ""
    );
    assert_eq!(
        missing("`sim/core/heap`, `NOTHING.md`, `nic::Profile::tighten`"),
        "sim/core/heap NOTHING.md nic::Profile::tighten"
    );
    assert_eq!(missing("| `simulator` | models |\n"), "simulator");
    let picture = "```
 nic                    sim
 cost/    (in cost/pu)  core/  of what
   cpu what               queue heap
```";
    assert_eq!(missing(picture), "cost/pu cost/what core/heap");
}
