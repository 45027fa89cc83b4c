//! Executes the commands on pages and compares their output. `cargo xtask bless` rewrites the outputs.
//!
//! A fenced block that begins with `$ ` has one of these info strings:
//!
//! - `console`: this test executes its commands.
//! - `console long`: `cargo xtask long` executes its commands. The line before it has the commit that last
//!   changed the output, with its date.
//! - `console ci`: the tests of `doorbell-soft-so` execute its commands.
//! - `console illustration`: nothing executes its commands, because their output depends on the machine.
//!
//! A block of commands without output has the info string `sh`. The comment line before it is one of these:
//!
//! - `<!-- tested: FILE TEST -->` names the test that executes such commands.
//! - `<!-- not executed: REASON -->` states why nothing executes them.
//!
//! If a command writes an SVG, the SVG equals the picture of this name in `docs`.
//!
//! A line `...` in an output stands for omitted lines. A `toml` block that begins with `# NAME.toml` is a
//! file that the page's commands use.

use crate::common::split_words;
use similar::TextDiff;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A line that stands for omitted lines.
const LEFT_OUT: &str = "...";

/// The environment variable that `cargo xtask long` sets.
const LONG: &str = "DOORBELL_LONG_PAGES";

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All pages.
fn pages() -> Vec<PathBuf> {
    let is_page = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "md");
    let of = |folder: &str| {
        let entries = std::fs::read_dir(root().join(folder)).expect("a folder of pages").flatten();
        entries.map(|entry| entry.path()).filter(is_page).collect::<Vec<_>>()
    };
    let mut all: Vec<PathBuf> = ["", "docs", "docs/notes"].into_iter().flat_map(of).collect();
    all.sort();
    all
}

#[derive(Debug, PartialEq, Eq)]
struct FencedBlock {
    /// Line number of the opening fence, counted from 0.
    line: usize,
    /// The line before the opening fence.
    before: String,
    /// The text after the fence.
    info: String,
    lines: Vec<String>,
}

fn blocks(page: &str) -> Vec<FencedBlock> {
    let mut all: Vec<FencedBlock> = Vec::new();
    let (mut inside, mut before) = (false, "");
    for (number, line) in page.lines().enumerate() {
        match (line.trim_start().strip_prefix("```"), inside) {
            (Some(info), false) => {
                let (before, info) = (before.to_owned(), info.trim().to_owned());
                all.push(FencedBlock { line: number, before, info, lines: Vec::new() });
                inside = true;
            }
            (Some(_), true) => inside = false,
            (None, true) => all.last_mut().expect("a block is open").lines.push(line.to_owned()),
            (None, false) => {}
        }
        before = line;
    }
    all
}

/// The commands of a block, each with its output.
fn commands(block: &FencedBlock) -> Vec<(String, Vec<String>)> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for line in &block.lines {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push((command.to_owned(), Vec::new())),
            (None, Some((_, output))) => output.push(line.clone()),
            (None, None) => {}
        }
    }
    all
}

/// Whether an output matches the lines that a page shows.
fn is_as_shown(shown: &[String], output: &[String]) -> bool {
    let Some(gap) = shown.iter().position(|line| line == LEFT_OUT) else {
        return shown == output;
    };
    let (before, behind) = (&shown[..gap], &shown[gap + 1..]);
    output.starts_with(before)
        && (before.len()..=output.len()).any(|from| is_as_shown(behind, &output[from..]))
}

/// The output as the page will show it: for each shown line, the most similar line of the output, with gaps
/// between them.
fn as_shown(shown: &[String], output: &[String]) -> Vec<String> {
    if !shown.iter().any(|line| line == LEFT_OUT) {
        return output.to_vec();
    }
    let (mut all, mut next) = (Vec::new(), 0);
    for line in shown.iter().filter(|line| *line != LEFT_OUT) {
        let likeness = |at: &usize| TextDiff::from_chars(line.as_str(), output[*at].as_str()).ratio();
        let Some(best) = (next..output.len()).reduce(|a, b| if likeness(&b) > likeness(&a) { b } else { a })
        else {
            break;
        };
        if best > next {
            all.push(LEFT_OUT.to_owned());
        }
        all.push(output[best].clone());
        next = best + 1;
    }
    if next < output.len() {
        all.push(LEFT_OUT.to_owned());
    }
    all
}

/// Executes a command in the page's folder. Returns its output lines without trailing spaces.
fn executed(folder: &Path, command: &str) -> Result<Vec<String>, String> {
    let words = split_words(command);
    if words.first().is_none_or(|program| program != "doorbell") || command.contains([';', '|', '>', '\\']) {
        return Err(format!(
            "`{command}`: only commands of doorbell are executed; mark the block as an illustration"
        ));
    }
    let mut doorbell = Command::new(env!("CARGO_BIN_EXE_doorbell"));
    doorbell.args(&words[1..]).current_dir(folder).env("DOORBELL_CACHE_DIR", folder.join("cache"));
    let output = doorbell.output().map_err(|error| format!("`{command}`: {error}"))?;
    let printed = [output.stdout, output.stderr].concat();
    let printed = String::from_utf8(printed).map_err(|error| format!("`{command}`: {error}"))?;
    Ok(printed.trim_end().lines().map(|line| line.trim_end().to_owned()).collect())
}

/// A folder with the files of a page.
fn folder_of(page: &Path, blocks: &[FencedBlock]) -> PathBuf {
    let name = page.file_stem().expect("a page has a name");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pages").join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a directory can be made");
    for block in blocks.iter().filter(|block| block.info == "toml") {
        if let Some(name) = block.lines.first().and_then(|line| line.strip_prefix("# "))
            && name.ends_with(".toml")
            && !name.contains([' ', '/'])
        {
            std::fs::write(folder.join(name), block.lines.join("\n") + "\n").expect("a file can be written");
        }
    }
    folder
}

/// Compares the SVGs that a page's commands have written to their folder with the pictures in `docs`, or
/// replaces the pictures. Returns a text about each difference.
fn checked_pictures(folder: &Path) -> Vec<String> {
    let mut failures = Vec::new();
    for entry in std::fs::read_dir(folder).expect("the folder of a page").flatten() {
        let drawn = entry.path();
        if drawn.extension().is_none_or(|ending| ending != "svg") {
            continue;
        }
        let picture = root().join("docs").join(entry.file_name());
        if std::env::var_os("DOORBELL_BLESS").is_some() {
            std::fs::copy(&drawn, &picture).expect("a picture can be written");
        } else if std::fs::read(&drawn).ok() != std::fs::read(&picture).ok() {
            failures.push(format!("{} differs from {}", picture.display(), drawn.display()));
        }
    }
    failures
}

/// Checks a page, or rewrites it. Returns a text about each failure.
fn checked(page: &Path, kind: &str) -> Vec<String> {
    let text = std::fs::read_to_string(page).expect("a page is text");
    let blocks = blocks(&text);
    let folder = folder_of(page, &blocks);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut failures = Vec::new();
    for block in blocks.iter().rev().filter(|block| block.info == kind) {
        let mut new = Vec::new();
        for (command, shown) in commands(block) {
            let shown: Vec<String> = shown.iter().map(|line| line.trim_end().to_owned()).collect();
            let written: Vec<String> =
                shown.iter().rev().skip_while(|line| line.is_empty()).cloned().collect();
            let written: Vec<String> = written.into_iter().rev().collect();
            let blank = shown.len() - written.len();
            match executed(&folder, &command) {
                Err(why) => {
                    failures.push(format!("{}: {why}", page.display()));
                    new.extend(once(&command).chain(shown));
                }
                Ok(output) if is_as_shown(&written, &output) => new.extend(once(&command).chain(shown)),
                Ok(output) => {
                    let should = as_shown(&written, &output);
                    failures.push(format!("{}: `{command}` prints\n{}", page.display(), should.join("\n")));
                    new.extend(once(&command).chain(should).chain(vec![String::new(); blank]));
                }
            }
        }
        lines.splice(block.line + 1..block.line + 1 + block.lines.len(), new);
    }
    failures.extend(checked_pictures(&folder));
    if std::env::var_os("DOORBELL_BLESS").is_some() {
        std::fs::write(page, lines.join("\n") + "\n").expect("a page can be written");
        failures.clear();
    }
    failures
}

fn once(command: &str) -> impl Iterator<Item = String> {
    std::iter::once(format!("$ {command}"))
}

#[test]
fn pages_show_what_is_printed() {
    let kind = if std::env::var_os(LONG).is_some() { "console long" } else { "console" };
    let (pages, next, failures) = (pages(), AtomicUsize::new(0), Mutex::new(String::new()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    for failure in checked(page, kind) {
                        let mut all = failures.lock().expect("no thread panics with it");
                        writeln!(all, "{failure}").expect("a string takes text");
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no thread panicked");
    assert!(failures.is_empty(), "`cargo xtask bless` writes pages anew\n{failures}");
}

#[test]
fn each_command_on_a_page_is_executed_or_marked() {
    let kinds = ["console", "console long", "console ci", "console illustration"];
    let mut unmarked = String::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page is text");
        for block in blocks(&text) {
            let is_command = block.lines.first().is_some_and(|line| line.starts_with("$ "));
            if is_command != kinds.contains(&&*block.info) {
                writeln!(unmarked, "{}:{}: {:?}", page.display(), block.line + 1, block.info).expect("text");
            }
        }
    }
    assert!(unmarked.is_empty(), "blocks without a mark, or with a mark and no command\n{unmarked}");
}

/// Whether a line names a commit and its date, as in `commit d150ec08 (2026-11-27)`.
fn has_commit(line: &str) -> bool {
    let named = line.split_once("commit ").and_then(|(_, named)| named.split_once(" ("));
    named.is_some_and(|(commit, date)| {
        let starts_with_digit = date.starts_with(|c: char| c.is_ascii_digit());
        commit.len() >= 8 && commit.chars().all(|c| c.is_ascii_hexdigit()) && starts_with_digit
    })
}

/// The fault of the comment line before a `sh` block, if it has one.
fn fault_of_mark(line: &str) -> Option<&'static str> {
    let mark = line.strip_prefix("<!-- ").and_then(|line| line.strip_suffix(" -->")).unwrap_or_default();
    if let Some(reason) = mark.strip_prefix("not executed: ") {
        return reason.trim().is_empty().then_some("no reason");
    }
    let Some((file, test)) = mark.strip_prefix("tested: ").and_then(|mark| mark.split_once(' ')) else {
        return Some("neither a test nor a reason");
    };
    let source = std::fs::read_to_string(root().join(file)).unwrap_or_default();
    (!source.contains(&format!("#[test]\nfn {test}() {{"))).then_some("no such test")
}

#[test]
fn each_block_that_no_test_executes_has_a_mark() {
    let is_command = |line: &String| line.starts_with("cargo ") || line.starts_with("doorbell ");
    let mut faults = String::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page is text");
        for block in blocks(&text) {
            let fault = match &*block.info {
                "sh" => fault_of_mark(&block.before),
                "console long" if !has_commit(&block.before) => Some("no commit and date"),
                "" if block.lines.first().is_some_and(is_command) => Some("not marked as sh"),
                _ => None,
            };
            if let Some(fault) = fault {
                writeln!(faults, "{}:{}: {fault}", page.display(), block.line + 1).expect("text");
            }
        }
    }
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn a_mark_names_a_test_or_a_reason() {
    assert!(has_commit("equal since commit d150ec08 (2026-11-27):") && !has_commit("since commit d150ec08:"));
    let this = "crates/cli/tests/cli/pages.rs a_mark_names_a_test_or_a_reason";
    assert_eq!(fault_of_mark(&format!("<!-- tested: {this} -->")), None);
    assert_eq!(fault_of_mark(&format!("<!-- tested: {this}s -->")), Some("no such test"));
    assert_eq!(fault_of_mark("<!-- not executed: it takes hours -->"), None);
    assert_eq!(fault_of_mark("<!-- not executed:  -->"), Some("no reason"));
    assert_eq!(fault_of_mark(""), Some("neither a test nor a reason"));
}

/// The page Start executes the arguments of README's first command. A step of `cargo xtask test` starts the
/// command by `cargo run --release`. The second command is this task itself.
#[test]
fn the_commands_of_readme_are_executed_elsewhere() {
    let read = |page: &str| std::fs::read_to_string(root().join(page)).expect("a page is text");
    let (readme, start) = (blocks(&read("README.md")), blocks(&read("docs/start.md")));
    let block = readme.iter().find(|block| block.info == "sh").expect("README has commands");
    let [simulate, test] = &block.lines[..] else { panic!("README has two commands") };
    let arguments = simulate.strip_prefix("cargo run --release -- ").expect("cargo starts the command");
    let executed = start.iter().filter(|block| block.info == "console").flat_map(commands);
    let expected = format!("doorbell {arguments}");
    assert!(executed.map(|(command, _)| command).any(|command| command == expected), "{simulate}");
    assert_eq!(test, "cargo xtask test");
}

#[test]
fn gaps_stand_for_lines() {
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let output = lines("a 1\nb 2\nc 3\nd 4");
    for (shown, expected) in [
        ("a 1\nb 2\nc 3\nd 4", true),
        ("a 1\n...\nd 4", true),
        ("...\nc 3\n...", true),
        ("a 1\nd 4", false),
        ("...\nc 4\n...", false),
    ] {
        assert_eq!(is_as_shown(&lines(shown), &output), expected, "{shown}");
    }
    assert_eq!(as_shown(&lines("a 0\n...\nc 4\n..."), &output), lines("a 1\n...\nc 3\n..."));
    assert_eq!(
        split_words("doorbell compare \"a b\" 'c' d=\"e f\""),
        ["doorbell", "compare", "a b", "c", "d=e f"]
    );
}
