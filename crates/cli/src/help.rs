//! Help for commands that run workloads. `--help` fits on one screen: the options that matter for the rest of
//! the command line come first. `--help-all` lists all options, or all options of the named system.

use crate::mistake;
use clap::{Arg, Command};
use doorbell_lab::{SYSTEMS, Schema, SystemEntry, Workload};
use doorbell_schema::{Field, FieldKind, one_of};

/// Fields that select a system and its machines. Help shows them for every system.
const BESIDE: [&str; 5] = ["system", "design", "profile", "host", "set"];

/// Most lines of a text that fits on one screen.
const LINES: usize = 48;

/// Columns of a screen.
const WIDTH: usize = 80;

/// Column at which descriptions begin.
const INDENT: usize = 22;

/// Forms of values, each with its meaning. `doorbell_schema::NumberUnit` reads the numbers.
pub(crate) const VALUES: &str = "\
Values:
  bytes               4096, 4k, 4KiB: powers of 1024, as in fio; 4KB is refused
  counts, rates       45000000, 45M, 45e6, 45_000_000: powers of 1000
  thousandths         50, or as 5%
  shares and times    1%; 500ns, 5us, 2ms, 1s
  names               also READ, RC; cas is compare-swap, faa is fetch-add";

/// Workload options that matter most, in this order.
const FIRST: [&str; 17] = [
    "verb",
    "size",
    "transport",
    "machines",
    "threads",
    "qps",
    "window",
    "batch",
    "profile",
    "system",
    "pattern",
    "signal_every",
    "inline",
    "arrivals",
    "rate",
    "mix",
    "set",
];

/// Options that matter if the command line gives another option: the option, its value if only one value
/// counts, and the options that matter.
const RELATED: [(&str, Option<&str>, &[&str]); 8] = [
    ("verb", Some("read"), &["max_rd_atomic", "remote_region", "addresses"]),
    ("verb", Some("write"), &["inline", "remote_region", "addresses"]),
    ("verb", Some("send"), &["inline", "header_only", "inline_recv"]),
    ("verb", Some("fetch-add"), &["counters", "counter_stride", "max_rd_atomic"]),
    ("verb", Some("compare-swap"), &["counters", "counter_stride", "max_rd_atomic"]),
    ("arrivals", None, &["rate", "think"]),
    ("rate", None, &["arrivals", "think"]),
    ("mix", None, &["inline_up_to", "counters"]),
];

/// Options about the time of a run. They are the last options of a system.
const TIMING: [&str; 5] = ["warmup", "duration", "precision", "max_time", "seed"];

/// Options of commands that few people need.
const RARE: [&str; 7] = ["pcap", "trace-from", "trace-ops", "shard", "merge", "fresh", "jobs"];

/// The help text that the command line asks for. `None` if clap's own text is as good.
pub(crate) fn asked() -> Option<String> {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let command = mistake::given();
    let entries = said(&words, "system").map(|system| entries(&system, said(&words, "design").as_deref()));
    if words.iter().any(|word| word == "--help-all") {
        return Some(narrowed(command, &entries?)?.render_long_help().to_string());
    }
    let runs_workloads = command.get_arguments().any(|arg| arg.get_id() == "verb" || is_system(arg));
    runs_workloads.then(|| on_one_screen(&command, &entries.unwrap_or_default(), &words))
}

fn is_system(arg: &Arg) -> bool {
    arg.get_id() == "system"
}

/// The value of an option: the text after `=`, or the next word. A side of `compare` has options such as
/// `system=rpc`.
fn said(words: &[String], key: &str) -> Option<String> {
    let option = format!("--{}", key.replace('_', "-"));
    let gives = |word: &String| match word.split_once('=') {
        Some((name, _)) => name == option || name == key,
        None => *word == option,
    };
    let at = words.iter().position(gives)?;
    let value = words[at].split_once('=').map(|(_, value)| value);
    value.or(words.get(at + 1).map(String::as_str)).map(str::to_ascii_lowercase)
}

/// The systems of this name, or the designs of this task.
fn entries(system: &str, design: Option<&str>) -> Vec<&'static SystemEntry> {
    SYSTEMS.iter().filter(|entry| is_meant(entry, system, design)).collect()
}

fn is_meant(entry: &SystemEntry, system: &str, design: Option<&str>) -> bool {
    let designed = entry.design.is_some_and(|(does, own)| does == system && design.is_none_or(|d| d == own));
    entry.name == system || designed
}

/// Hides the options that none of these systems has. Returns `None` if the list of systems is empty, or if
/// the command does not run systems.
fn narrowed(command: Command, entries: &[&SystemEntry]) -> Option<Command> {
    let has = |field: &Field| entries.iter().any(|entry| entry.fields.iter().any(|own| own.key == field.key));
    let others =
        doorbell_lab::fields().into_iter().filter(|field| !BESIDE.contains(&field.key) && !has(field));
    let others: Vec<String> = others.flat_map(|field| field.all_flags()).map(|(name, ..)| name).collect();
    let runs_them = command.get_arguments().any(is_system);
    let hidden = |arg: Arg| {
        let is_other = others.iter().any(|name| arg.get_id() == name.as_str());
        if is_other { arg.hide(true) } else { arg }
    };
    (!entries.is_empty() && runs_them).then(|| command.mut_args(hidden))
}

/// Help of at most [`LINES`] lines of at most [`WIDTH`] columns.
fn on_one_screen(command: &Command, entries: &[&SystemEntry], words: &[String]) -> String {
    let mut before = wrapped("", &command.get_about().map(ToString::to_string).unwrap_or_default());
    before.push(String::new());
    before.push(command.clone().render_usage().to_string().trim_end().to_owned());
    before.extend(command.get_positionals().flat_map(|arg| row(&label(arg), &sentence(&help_of(arg)))));
    let own: Vec<String> =
        own_options(command).flat_map(|arg| row(&label(arg), &sentence(&help_of(arg)))).collect();
    let after = after(command, entries);
    // Headings and blank lines around the parts.
    const BETWEEN: usize = 4;
    let room = LINES.saturating_sub(before.len() + own.len() + after.len() + BETWEEN);
    let mut rows: Vec<String> = Vec::new();
    for field in in_order(command, entries, words) {
        let row = row(&label_of(field), &about(field, entries));
        if rows.len() + row.len() > room {
            break;
        }
        rows.extend(row);
    }
    let parts =
        [before, headed("Options of the workload:", rows), headed("Options of the command:", own), after];
    parts.concat().join("\n") + "\n"
}

/// Lines under a heading.
fn headed(heading: &str, rows: Vec<String>) -> Vec<String> {
    [String::new(), heading.to_owned()].into_iter().chain(rows).collect()
}

/// The last lines: forms of numbers, and further help.
fn after(command: &Command, entries: &[&SystemEntry]) -> Vec<String> {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let all = match entries.first() {
        Some(entry) => format!("All options of this system: {name} --system {} --help-all", entry.name),
        None => format!("All {} options: {name} --help-all", options(command).count()),
    };
    let of_systems = command.get_arguments().any(is_system) && entries.is_empty();
    let of_systems = of_systems.then(|| format!("Options of a system: {name} --system NAME --help"));
    let numbers = std::iter::once("").chain(VALUES.lines()).map(str::to_owned);
    numbers.chain([all]).chain(of_systems).collect()
}

/// The fields of the command's workload, the most important first.
fn in_order(command: &Command, entries: &[&SystemEntry], words: &[String]) -> Vec<&'static Field> {
    let has_flag = |field: &Field| {
        let flags = field.all_flags();
        flags.iter().any(|(name, ..)| command.get_arguments().any(|arg| arg.get_id() == name.as_str()))
    };
    let all: Vec<&'static Field> = match entries {
        [] => Workload::fields().into_iter().chain(doorbell_lab::system_fields()).collect(),
        _ => of_systems(entries),
    };
    let all: Vec<&'static Field> = all.into_iter().filter(|field| has_flag(field)).collect();
    let keys = wanted(entries, words).into_iter();
    let first: Vec<&'static Field> =
        keys.filter_map(|key| all.iter().copied().find(|field| field.key == key)).collect();
    if entries.is_empty() {
        return distinct(first);
    }
    let (timing, others): (Vec<_>, Vec<_>) = all.iter().partition(|field| TIMING.contains(&field.key));
    distinct(first.into_iter().chain(others).chain(timing))
}

/// The fields of these systems, before the fields that select them.
fn of_systems(entries: &[&SystemEntry]) -> Vec<&'static Field> {
    let beside = doorbell_lab::fields().into_iter().filter(|field| BESIDE.contains(&field.key));
    distinct(entries.iter().flat_map(|entry| entry.fields.iter().copied()).chain(beside))
}

fn distinct(fields: impl IntoIterator<Item = &'static Field>) -> Vec<&'static Field> {
    let mut all: Vec<&'static Field> = Vec::new();
    for field in fields {
        if all.iter().all(|known| known.key != field.key) {
            all.push(field);
        }
    }
    all
}

/// Keys of the fields that come first: the fields on the command line, fields that matter with them, and the
/// usual ones.
fn wanted(entries: &[&SystemEntry], words: &[String]) -> Vec<&'static str> {
    let fields = doorbell_lab::fields();
    let typed = fields.iter().filter(|field| said(words, field.key).is_some()).map(|field| field.key);
    let related = RELATED.iter().filter(|(key, value, _)| {
        said(words, key).is_some_and(|said| value.is_none_or(|value| is_value(key, &said, value)))
    });
    let related = related.flat_map(|(.., keys)| keys.iter().copied());
    let usual: &[&'static str] = if entries.is_empty() { &FIRST } else { &["system"] };
    typed.chain(related).chain(usual.iter().copied()).collect()
}

/// Whether the text that is typed for a field is this value.
fn is_value(key: &str, typed: &str, value: &str) -> bool {
    let field = Workload::fields().into_iter().find(|field| field.key == key);
    let FieldKind::Name(names) = field.map_or(FieldKind::Text, |field| field.kind) else {
        return typed == value;
    };
    field.and_then(|field| doorbell_schema::named(names, field.also, typed)) == Some(value)
}

/// The command's options, with and without values.
fn options(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| !arg.is_positional())
}

/// The command's own options, which no field gives.
fn own_options(command: &Command) -> impl Iterator<Item = &Arg> {
    let flags: Vec<String> =
        all_fields().iter().flat_map(|field| field.all_flags()).map(|(name, ..)| name).collect();
    options(command).filter(move |arg| {
        let id = arg.get_id().as_str();
        let long = arg.get_long().unwrap_or_default();
        let is_shown = !arg.is_hide_set() && !RARE.contains(&long) && !["help", "help_all"].contains(&id);
        is_shown && !flags.iter().any(|flag| flag == id)
    })
}

fn all_fields() -> Vec<&'static Field> {
    let of_systems = SYSTEMS.iter().flat_map(|entry| entry.fields.iter().copied());
    doorbell_lab::fields().into_iter().chain(of_systems).collect()
}

/// An argument as the user types it.
fn label(arg: &Arg) -> String {
    let value = arg.get_value_names().and_then(|names| names.first()).map(|name| format!("<{name}>"));
    let value = value.filter(|_| arg.get_action().takes_values());
    match (arg.get_long(), value) {
        (Some(long), Some(value)) => format!("--{long} {value}"),
        (Some(long), None) => format!("--{long}"),
        (None, value) => value.unwrap_or_else(|| format!("<{}>", arg.get_id().as_str().to_uppercase())),
    }
}

/// A field's first flag as the user types it.
fn label_of(field: &Field) -> String {
    let flags = field.all_flags();
    let Some((name, says, _)) = flags.first() else { return String::new() };
    match says {
        doorbell_schema::Says::Value(shown) => format!("--{name} <{shown}>"),
        doorbell_schema::Says::Switch(_) => format!("--{name}"),
    }
}

fn help_of(arg: &Arg) -> String {
    arg.get_help().map(ToString::to_string).unwrap_or_default()
}

/// The first sentence of a description, without conditions after a semicolon, and without examples.
fn sentence(text: &str) -> String {
    before(text, &["; ", ". ", ", such as", " (", " [default"])
}

/// The text before the first of these ends.
fn before(text: &str, ends: &[&str]) -> String {
    let end = ends.iter().filter_map(|end| text.find(end)).min();
    text[..end.unwrap_or(text.len())].to_owned()
}

/// Beginnings of conditions of a usual value.
const CONDITIONS: [&str; 4] = ["; ", ", if ", ", or ", ", fewer "];

/// Names of a field that are listed on one screen.
const NAMED: usize = 8;

/// The description of a field, its names, and its usual value: for systems, their own.
fn about(field: &Field, entries: &[&SystemEntry]) -> String {
    let flags = field.all_flags();
    let about = flags.first().map_or(field.about, |(.., about)| about);
    let names = match field.kind {
        FieldKind::Name(names) if names.len() <= NAMED => format!(": {}", one_of(names)),
        _ => String::new(),
    };
    let usual = usual(field, entries);
    let is_switch = matches!(field.kind, FieldKind::Switch);
    let usual = if usual.is_empty() || is_switch {
        String::new()
    } else {
        format!(" [{}]", before(&usual, &CONDITIONS))
    };
    sentence(about) + &names + &usual
}

/// The usual value of a field. Empty if several systems have different ones.
fn usual(field: &Field, entries: &[&SystemEntry]) -> String {
    let mut values = entries.iter().filter_map(|entry| entry.usual.get(field.key));
    match values.next() {
        Some(first) if values.all(|value| value == first) => first.to_string().replace('`', ""),
        Some(_) => String::new(),
        None if entries.is_empty() || BESIDE.contains(&field.key) => field.usual.to_owned(),
        None => String::new(),
    }
}

/// A label and its description in columns.
fn row(label: &str, text: &str) -> Vec<String> {
    let label = format!("  {label}");
    let first = if label.len() + 2 > INDENT { format!("{label}  ") } else { format!("{label:INDENT$}") };
    wrapped(&first, text)
}

/// Words in lines of at most [`WIDTH`] columns. Lines after the first are indented if `first` is not empty.
fn wrapped(first: &str, text: &str) -> Vec<String> {
    let indent = if first.is_empty() { 0 } else { INDENT };
    let mut lines = vec![first.to_owned()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is a first line");
        let begins = line.len() <= indent || line.ends_with(' ');
        let space = usize::from(!begins);
        if line.chars().count() + space + word.chars().count() <= WIDTH {
            line.push_str(&" ".repeat(space));
            line.push_str(word);
        } else {
            lines.push(" ".repeat(indent) + word);
        }
    }
    lines.into_iter().map(|line| line.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;
    use clap::CommandFactory;

    fn command(name: &str) -> Command {
        let mut all = Args::command();
        all.build();
        all.find_subcommand(name).expect("there is one").clone()
    }

    fn help_all(name: &str, system: &str) -> Option<String> {
        Some(narrowed(command(name), &entries(system, None))?.render_long_help().to_string())
    }

    /// The help of a command line.
    fn help(line: &str) -> String {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let system = said(&words, "system").map_or(Vec::new(), |system| entries(&system, None));
        on_one_screen(&command(&words[0]), &system, &words)
    }

    fn has(text: &str, option: &str) -> bool {
        text.lines().any(|line| line.split_whitespace().next() == Some(option))
    }

    #[test]
    fn options_of_other_systems_are_left_out() {
        let text = help_all("simulate", "spinlock").unwrap();
        for (option, is_of_it) in
            [("--lease", true), ("--profile", true), ("--json", true), ("--theta", false), ("--verb", false)]
        {
            assert_eq!(has(&text, option), is_of_it, "{option}");
        }
        assert_eq!((help_all("simulate", "no-such"), help_all("profiles", "rpc")), (None, None));
    }

    #[test]
    fn help_fits_on_one_screen() {
        let systems = SYSTEMS.iter().map(|entry| format!("--system {}", entry.name));
        let options: Vec<String> = [String::new(), "--verb read".into()].into_iter().chain(systems).collect();
        for name in ["simulate", "sweep", "compare", "limits", "live"] {
            for options in &options {
                let text = help(&format!("{name} {options}"));
                assert!(text.lines().count() <= LINES, "{name} {options}: {}\n{text}", text.lines().count());
                assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
                assert!(has(&text, "--json") && text.contains("--help-all"), "{text}");
            }
        }
    }

    #[test]
    fn options_that_matter_come_first() {
        let position = |text: &str, option: &str| {
            text.lines().position(|line| line.split_whitespace().next() == Some(option))
        };
        let plain = help("simulate");
        assert!(position(&plain, "--verb") < position(&plain, "--profile"), "{plain}");
        assert!(has(&plain, "--explain") && !has(&plain, "--counters"), "{plain}");
        let atomics = help("simulate --verb CAS");
        assert!(has(&atomics, "--counters"), "{atomics}");
        let open = help("simulate --arrivals=poisson");
        assert!(position(&open, "--rate") < position(&open, "--size"), "{open}");
        let shuffle = help("simulate --system shuffle");
        for option in ["--clients", "--entry", "--batch-entries", "--transfer"] {
            assert!(has(&shuffle, option), "{option}: {shuffle}");
        }
        assert!(!has(&shuffle, "--verb"), "{shuffle}");
    }

    #[test]
    fn what_is_said_of_an_option_is_found() {
        let words = ["doorbell", "simulate", "--design=rpc", "--system", "Spinlock"].map(str::to_owned);
        assert_eq!(said(&words, "system").as_deref(), Some("spinlock"));
        assert_eq!((said(&words, "design").as_deref(), said(&words, "verb")), (Some("rpc"), None));
        assert_eq!(said(&["system=rpc".to_owned()], "system").as_deref(), Some("rpc"));
    }
}
