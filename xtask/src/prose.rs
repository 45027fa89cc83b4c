//! Measures the sentences of pages and comments against the limits of `docs/notes/prose.md`.

use crate::command::{Problem, Task, failed};
use crate::page_length::PageLength;
use crate::workspace::root;
use doorbell_prose::{Measure, Passage, ProseLimits, Sentence};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};

/// Pages, and the folder of pages.
const PAGES: [&str; 5] = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "LIMITATIONS.md", "docs"];

/// Number of worst sentences to list, unless `--worst` states another.
const WORST: usize = 20;

/// Maximum number of characters that are printed of a listed sentence.
const SHOWN: usize = 200;

/// Prints a line. Ignores errors, because the reader may have closed the pipe.
macro_rules! say {
    ($($text:tt)*) => { let _ = writeln!(std::io::stdout(), $($text)*); };
}

/// Options of the task.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ProseOptions {
    worst: usize,
    paths: Vec<PathBuf>,
}

impl ProseOptions {
    /// Reads the options. Returns `None` if one is wrong.
    pub(crate) fn parse(options: &[&str]) -> Option<ProseOptions> {
        let mut parsed = ProseOptions { worst: WORST, paths: Vec::new() };
        let mut rest = options.iter();
        while let Some(option) = rest.next() {
            match *option {
                "--worst" => parsed.worst = rest.next()?.parse().ok()?,
                "-" => parsed.paths.push("-".into()),
                option if option.starts_with('-') => return None,
                path => parsed.paths.push(path.into()),
            }
        }
        Some(parsed)
    }
}

/// A page, or all comments of a crate.
struct Unit {
    name: String,
    limits: ProseLimits,
    /// Sentences, each with its file.
    sentences: Vec<(String, Sentence)>,
    /// Lines that are too wide, as `file:line`.
    wide: Vec<String>,
}

impl Unit {
    fn new(name: String) -> Unit {
        let limits = if name.starts_with("docs/notes/") { ProseLimits::NOTES } else { ProseLimits::USUAL };
        Unit { name, limits, sentences: Vec::new(), wide: Vec::new() }
    }

    fn add(&mut self, file: &str, passages: &[Passage], wide: &[usize]) {
        let sentences = passages.iter().flat_map(doorbell_prose::sentences);
        self.sentences.extend(sentences.map(|sentence| (file.to_owned(), sentence)));
        self.wide.extend(wide.iter().map(|line| format!("{file}:{line}")));
    }

    fn measure(&self) -> Measure {
        Measure::of(self.sentences.iter().map(|(_, sentence)| sentence))
    }

    /// Describes each limit that the unit exceeds.
    fn breaches(&self) -> Vec<String> {
        let wide = (!self.wide.is_empty()).then(|| {
            format!("{} lines of more than {} columns", self.wide.len(), doorbell_prose::MOST_COLUMNS)
        });
        let measured = self.measure().breaches(&self.limits);
        measured.iter().map(ToString::to_string).chain(wide).collect()
    }
}

/// Measures pages and comments, and counts the words of all pages unless paths are stated. The exit code is 1
/// if a limit is exceeded.
pub(crate) fn run(options: &ProseOptions) -> Task<u8> {
    let units = units(&options.paths)?;
    let length = if options.paths.is_empty() { Some(page_length()?) } else { None };
    say!("{:<44} sentences   mean  >35 %  odd %  refs/100", "");
    for unit in &units {
        let measure = unit.measure();
        say!(
            "{:<44} {:>9} {:>6.1} {:>6.1} {:>6.1} {:>9.2}{}",
            unit.name,
            measure.sentences,
            measure.mean(),
            measure.long_percent(),
            measure.odd_percent(),
            measure.references_per_100(),
            if unit.breaches().is_empty() { "" } else { "  beyond" }
        );
    }
    list_worst(&units, options.worst);
    let beyond = list_breaches(&units);
    if let Some(length) = &length {
        say!("{length}");
    }
    Ok(u8::from(beyond || length.is_some_and(|length| length.is_beyond())))
}

/// A step of `cargo xtask test`. Fails if a page, the comments or messages of a crate, or the length of all
/// pages exceed a limit.
pub(crate) fn check() -> Task<()> {
    let beyond = list_breaches(&units(&[])?);
    let length = page_length()?;
    if length.is_beyond() {
        say!("{length}");
    }
    match beyond || length.is_beyond() {
        false => Ok(()),
        true => Err(Problem::Failed("prose is beyond the limits of docs/notes/prose.md".into())),
    }
}

/// Prints the units that exceed limits. Returns whether there are any.
fn list_breaches(units: &[Unit]) -> bool {
    let beyond: Vec<&Unit> = units.iter().filter(|unit| !unit.breaches().is_empty()).collect();
    for unit in &beyond {
        say!("{}: {}", unit.name, unit.breaches().join(", "));
        for line in unit.wide.iter().take(WORST) {
            say!("    {line} is too wide");
        }
    }
    !beyond.is_empty()
}

/// Prints the worst sentences of all units.
fn list_worst(units: &[Unit], most: usize) {
    let mut all: Vec<(usize, &String, &Sentence)> =
        units.iter().flat_map(|unit| &unit.sentences).map(|(file, s)| (weight(s), file, s)).collect();
    all.sort_by_key(|(weight, _, _)| std::cmp::Reverse(*weight));
    for (_, file, sentence) in all.iter().filter(|(weight, _, _)| *weight > 0).take(most) {
        let text: String = sentence.text.chars().take(SHOWN).collect();
        say!(
            "{file}:{}: {} words, {} references: {text}",
            sentence.line,
            sentence.words,
            sentence.references
        );
    }
}

/// Badness of a sentence: 1 for each word beyond 30, 8 for each reference word, and 8 for an odd beginning.
fn weight(sentence: &Sentence) -> usize {
    sentence.words.saturating_sub(30) + 8 * (sentence.references + usize::from(sentence.odd))
}

/// The units of these paths. The path `-` is standard input. Without paths, the units are all pages and
/// crates.
fn units(paths: &[PathBuf]) -> Task<Vec<Unit>> {
    let mut units = BTreeMap::new();
    let mut files = Vec::new();
    for path in paths {
        if path == Path::new("-") {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(|error| failed("standard input", error))?;
            take(&mut units, Path::new("standard input"), &text)?;
        } else {
            let whole = path.canonicalize().map_err(|error| failed(path.display(), error))?;
            let before = files.len();
            collect(&whole, &mut files)?;
            if files.len() == before {
                return Err(failed(path.display(), "has no page, no Rust source and no schema"));
            }
        }
    }
    if paths.is_empty() {
        for path in PAGES.into_iter().chain(["crates", "xtask"]) {
            collect(&root().join(path), &mut files)?;
        }
    }
    files.sort();
    files.dedup();
    let root = root().canonicalize().map_err(|error| failed("the workspace", error))?;
    for file in files {
        let text = fs::read_to_string(&file).map_err(|error| failed(file.display(), error))?;
        let file = file.canonicalize().unwrap_or(file);
        take(&mut units, file.strip_prefix(&root).unwrap_or(&file), &text)?;
    }
    match units.is_empty() {
        true => Err(failed("prose", "these files have no prose that is measured")),
        false => Ok(units.into_values().collect()),
    }
}

/// The length of all pages.
fn page_length() -> Task<PageLength> {
    let root = root();
    let mut files = Vec::new();
    for path in PAGES {
        collect(&root.join(path), &mut files)?;
    }
    let mut length = PageLength::default();
    for file in files.iter().filter(|file| file.extension().is_some_and(|ending| ending == "md")) {
        let page = fs::read_to_string(file).map_err(|error| failed(file.display(), error))?;
        length.add(file.strip_prefix(&root).unwrap_or(file), &page);
    }
    Ok(length)
}

/// Adds the files with prose below a path to `files`.
fn collect(path: &Path, files: &mut Vec<PathBuf>) -> Task<()> {
    let doing = |error| failed(path.display(), error);
    if path.is_dir() {
        for entry in fs::read_dir(path).map_err(doing)? {
            let entry = entry.map_err(doing)?.path();
            if !entry.ends_with("target") {
                collect(&entry, files)?;
            }
        }
        files.sort();
    } else if path.extension().is_some_and(|ending| ["md", "rs", "json"].iter().any(|known| ending == *known))
    {
        files.push(path.to_owned());
    }
    Ok(())
}

/// Adds a file to its unit.
fn take(units: &mut BTreeMap<String, Unit>, file: &Path, text: &str) -> Task<()> {
    let shown = file.display().to_string();
    let mut add = |name: String, passages: &[Passage], wide: &[usize]| {
        units.entry(name.clone()).or_insert_with(|| Unit::new(name)).add(&shown, passages, wide);
    };
    match file.extension().and_then(|ending| ending.to_str()) {
        Some("rs") => {
            let parts: Vec<&str> = shown.split('/').collect();
            let name = if parts[0] == "crates" { parts[..2].join("/") } else { parts[0].to_owned() };
            let passages = doorbell_prose::comments(text);
            add(name.clone(), &passages, &doorbell_prose::too_wide_comments(text));
            let is_test =
                parts.contains(&"tests") || parts.contains(&"benches") || shown.ends_with("tests.rs");
            if !is_test {
                add(format!("messages of {name}"), &doorbell_prose::messages(text), &[]);
            }
        }
        Some("json") if shown.starts_with("docs/schemas") => {
            let schema = serde_json::from_str(text).map_err(|error| failed(file.display(), error))?;
            add("docs/schemas".to_owned(), &descriptions(&schema), &[]);
        }
        // A page in a crate's folder is input of a test.
        Some("md") if shown.starts_with("crates") => {}
        // Standard input has no extension.
        Some("md") | None => {
            add(shown.clone(), &doorbell_prose::markdown(text, 1), &doorbell_prose::too_wide_lines(text))
        }
        _ => {}
    }
    Ok(())
}

/// The descriptions of a JSON Schema.
fn descriptions(schema: &serde_json::Value) -> Vec<Passage> {
    fn walk(value: &serde_json::Value, all: &mut Vec<Passage>) {
        match value {
            serde_json::Value::Object(fields) => {
                for (key, value) in fields {
                    match value {
                        serde_json::Value::String(text) if key == "description" => {
                            all.extend(doorbell_prose::markdown(text, 1));
                        }
                        _ => walk(value, all),
                    }
                }
            }
            serde_json::Value::Array(values) => values.iter().for_each(|value| walk(value, all)),
            _ => {}
        }
    }
    let mut all = Vec::new();
    walk(schema, &mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let read = |options: &[&str]| ProseOptions::parse(options);
        assert_eq!(read(&["--worst", "3", "-"]), Some(ProseOptions { worst: 3, paths: vec!["-".into()] }));
        assert_eq!((read(&["--worst"]), read(&["--best"])), (None, None));
    }

    #[test]
    fn descriptions_of_schemas_are_measured() {
        let schema = r#"{"description": "What it is.", "properties": {"a": {"description": "A rate."}}}"#;
        assert_eq!(descriptions(&serde_json::from_str(schema).expect("JSON")).len(), 2);
    }
}
