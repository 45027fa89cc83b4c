//! Help for commands that run workloads. `--help` fits on one screen: the options that matter for the rest of
//! the command line come first. `--help-all` lists all options, or all options of the named systems.

use crate::flags::USUAL_LIVE;
use crate::screen;
use crate::typed::{self, all_said, canonical, named};
use clap::{Arg, Command};
use doorbell_lab::{SYSTEM_SELECTORS, SYSTEMS, SystemEntry, Workload, keys};
use doorbell_schema::{Field, FieldKind, one_of};
use doorbell_systems::config::{Clients, Pairs, Timing, Values, Workers};
use doorbell_systems::ping_pong::PingPong;
use doorbell_systems::rpc::Rpc;

/// Maximum number of lines of a text that fits on one screen. A terminal may have fewer.
const LINES: usize = 48;

/// Lines below which a screen only names the options of the command.
const FEW_LINES: usize = 36;

/// Columns of a screen.
const WIDTH: usize = 80;

/// Column at which descriptions begin.
const INDENT: usize = 22;

/// Forms of values in short, for one screen. `flags` has the long text.
const SHORT_VALUES: &str = "\
Values: bytes 4096, 4k, 4KiB (powers of 1024); counts and rates 45M, 45e6
(powers of 1000); thousandths 50, 5%; shares 1%; times 5us; names READ, cas";

/// Workload options that matter most, in this order.
const FIRST: [&str; 22] = [
    Workload::verb.key,
    Workload::size.key,
    Workload::transport.key,
    Workload::machines.key,
    Workload::threads.key,
    Workload::qps.key,
    Workload::window.key,
    Workload::batch.key,
    Workload::profile.key,
    keys::SYSTEM,
    Workload::duration.key,
    Workload::precision.key,
    Workload::arrivals.key,
    Workload::rate.key,
    Workload::pattern.key,
    Workload::mix.key,
    Workload::set.key,
    Workload::pcie.key,
    Workload::link.key,
    Workload::signal_every.key,
    Workload::inline.key,
    Workload::warmup.key,
];

/// Options of systems that matter most, in this order, for a command that only runs systems.
const FIRST_OF_SYSTEMS: [&str; 15] = [
    keys::SYSTEM,
    keys::DESIGN,
    Clients::clients.key,
    Clients::clients_per_machine.key,
    Workers::cores.key,
    Clients::outstanding.key,
    PingPong::size.key,
    Rpc::request_size.key,
    Rpc::reply_size.key,
    Values::value.key,
    Pairs::put_permille.key,
    Rpc::arrivals.key,
    Rpc::rate.key,
    Timing::warmup.key,
    Timing::duration.key,
];

/// Options that matter if the command line gives another option: the option, its value if only one value
/// counts, and the options that matter.
const RELATED: [(&str, Option<&str>, &[&str]); 10] = [
    (Workload::profile.key, None, &[Workload::pcie.key, Workload::link.key, Workload::host.key]),
    (
        Workload::verb.key,
        Some("read"),
        &[Workload::max_rd_atomic.key, Workload::remote_region.key, Workload::addresses.key],
    ),
    (
        Workload::verb.key,
        Some("write"),
        &[Workload::inline.key, Workload::remote_region.key, Workload::addresses.key],
    ),
    (
        Workload::verb.key,
        Some("send"),
        &[Workload::inline.key, Workload::header_only.key, Workload::inline_recv.key],
    ),
    (
        Workload::verb.key,
        Some("fetch-add"),
        &[Workload::counters.key, Workload::counter_stride.key, Workload::max_rd_atomic.key],
    ),
    (
        Workload::verb.key,
        Some("compare-swap"),
        &[Workload::counters.key, Workload::counter_stride.key, Workload::max_rd_atomic.key],
    ),
    (Workload::arrivals.key, None, &[Workload::rate.key, keys::LOAD, Workload::think.key]),
    (Workload::rate.key, None, &[Workload::arrivals.key, Workload::think.key]),
    (keys::LOAD, None, &[Workload::arrivals.key, Workload::think.key]),
    (Workload::mix.key, None, &[Workload::inline_up_to.key, Workload::counters.key]),
];

/// Options about the time of a run. They are the last options of a system.
const TIMING: [&str; 6] = [
    Timing::warmup.key,
    Timing::duration.key,
    Timing::precision.key,
    Timing::until.key,
    Timing::max_time.key,
    Timing::seed.key,
];

/// Options of commands that few people need.
const RARE: [&str; 8] = ["pcap", "breakdown", "trace-from", "trace-ops", "shard", "merge", "fresh", "jobs"];

/// The help text that the command line asks for. `None` if clap's own text is as good.
pub(crate) fn asked() -> Option<String> {
    let (words, command) = (typed::words(), typed::command());
    let named = named(&words);
    if words.iter().any(|word| word == "--help-all") {
        return Some(narrowed(command, &named)?.render_long_help().to_string());
    }
    let lines = screen::lines().map_or(LINES, |lines| (lines - 1).min(LINES));
    let runs_workloads = runs_verbs(&command) || runs_systems(&command);
    runs_workloads.then(|| on_one_screen(&command, &named, &words, lines))
}

fn runs_verbs(command: &Command) -> bool {
    command.get_arguments().any(|arg| arg.get_id() == Workload::verb.key)
}

fn runs_systems(command: &Command) -> bool {
    command.get_arguments().any(|arg| arg.get_id() == keys::SYSTEM)
}

/// Whether one of these systems has the field. A system with a rate can have a load instead.
fn have(entries: &[&SystemEntry], field: &Field) -> bool {
    let key = if field.key == keys::LOAD { Workload::rate.key } else { field.key };
    entries.iter().any(|entry| entry.fields.iter().any(|own| own.key == key))
}

/// Hides the options that none of these systems has. Returns `None` if the list of systems is empty, or if
/// the command does not run systems.
fn narrowed(command: Command, entries: &[&SystemEntry]) -> Option<Command> {
    let is_other = |field: &&Field| !SYSTEM_SELECTORS.contains(&field.key) && !have(entries, field);
    let others = doorbell_lab::fields().into_iter().filter(is_other);
    let others: Vec<String> = others.flat_map(|field| field.all_flags()).map(|(name, ..)| name).collect();
    let runs_them = runs_systems(&command);
    let hidden = |arg: Arg| {
        let is_other = others.iter().any(|name| arg.get_id() == name.as_str());
        if is_other { arg.hide(true) } else { arg }
    };
    (!entries.is_empty() && runs_them).then(|| command.mut_args(hidden))
}

/// Help of at most `lines` lines of at most [`WIDTH`] columns. `named` are the systems that the command line
/// names.
fn on_one_screen(
    command: &Command,
    named: &[&'static SystemEntry],
    words: &[String],
    lines: usize,
) -> String {
    let mut before = wrapped("", &command.get_about().map(ToString::to_string).unwrap_or_default());
    before.push(String::new());
    before.push(command.clone().render_usage().to_string().trim_end().to_owned());
    before.extend(command.get_positionals().flat_map(|arg| row(&label(arg), &sentence(&help_of(arg)))));
    let own = own_rows(command, lines);
    let after = after(command, named);
    // Headings and blank lines around the parts.
    const BETWEEN: usize = 4;
    let room = lines.saturating_sub(before.len() + own.len() + after.len() + BETWEEN);
    let systems: Vec<&SystemEntry> = match named {
        [] if !runs_verbs(command) => SYSTEMS.iter().collect(),
        _ => named.to_vec(),
    };
    let fields = in_order(command, named, words);
    let rows = rows_within(room, &fields, |field| about(command, field, &systems));
    let parts =
        [before, headed("Options of the workload:", rows), headed("Options of the command:", own), after];
    parts.concat().join("\n") + "\n"
}

/// Rows of the first fields with their descriptions, and the names of the next fields, in at most `room`
/// lines.
fn rows_within(room: usize, fields: &[&'static Field], about: impl Fn(&Field) -> String) -> Vec<String> {
    let rows: Vec<Vec<String>> = fields.iter().map(|field| row(&label_of(field), &about(field))).collect();
    let flags: Vec<Vec<String>> = fields.iter().map(|field| flags_of(field)).collect();
    let with =
        |described: usize| [rows[..described].concat(), list("Also", &flags[described..].concat())].concat();
    let most = (0..=fields.len()).rev().map(with).find(|rows| rows.len() <= room);
    most.unwrap_or_else(|| with(0).into_iter().take(room).collect())
}

/// The options of the command itself: rows with descriptions, or only their names on a small screen.
fn own_rows(command: &Command, lines: usize) -> Vec<String> {
    if lines < FEW_LINES {
        return list("", &own_options(command).map(label).collect::<Vec<_>>());
    }
    own_options(command).flat_map(|arg| row(&label(arg), &sentence(&help_of(arg)))).collect()
}

/// Names in lines of at most [`WIDTH`] columns, each line indented by two columns.
fn list(begin: &str, names: &[String]) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let first = if begin.is_empty() { "  ".to_owned() } else { format!("  {begin} ") };
    for (at, name) in names.iter().enumerate() {
        let name = if at + 1 < names.len() { format!("{name},") } else { name.clone() };
        match lines.pop() {
            None => lines.push(format!("{first}{name}")),
            Some(line) if line.chars().count() + 1 + name.chars().count() <= WIDTH => {
                lines.push(format!("{line} {name}"));
            }
            Some(line) => lines.extend([line, format!("  {name}")]),
        }
    }
    lines
}

/// Lines under a heading. Empty without lines.
fn headed(heading: &str, rows: Vec<String>) -> Vec<String> {
    if rows.is_empty() {
        return rows;
    }
    [String::new(), heading.to_owned()].into_iter().chain(rows).collect()
}

/// The last lines: forms of numbers, and further help.
fn after(command: &Command, named: &[&SystemEntry]) -> Vec<String> {
    let name = command.get_bin_name().unwrap_or(command.get_name());
    let all = match named {
        [one] => {
            let (title, of) =
                ("All options of this system:", format!("{name} --system {} --help-all", one.name));
            let fits = title.len() + 1 + of.len() <= WIDTH;
            if fits { format!("{title} {of}") } else { format!("All its options: {of}") }
        }
        _ => format!("All {} options: {name} --help-all", options(command).count()),
    };
    let of_systems = runs_systems(command) && named.is_empty();
    let of_systems = of_systems.then(|| format!("Options of a system: {name} --system NAME --help"));
    let numbers = std::iter::once("").chain(SHORT_VALUES.lines()).map(str::to_owned);
    numbers.chain([all]).chain(of_systems).collect()
}

/// The fields of the command's workload, the most important first. Without a named system, these are only the
/// most important ones.
fn in_order(command: &Command, named: &[&SystemEntry], words: &[String]) -> Vec<&'static Field> {
    let has_flag = |field: &Field| {
        let flags = field.all_flags();
        flags.iter().any(|(name, ..)| command.get_arguments().any(|arg| arg.get_id() == name.as_str()))
    };
    let all: Vec<&'static Field> = match named {
        [] if runs_verbs(command) => doorbell_lab::fields(),
        [] => of_systems(&SYSTEMS.iter().collect::<Vec<_>>()),
        _ => of_systems(named),
    };
    let usual: &[&'static str] = match named {
        [] if runs_verbs(command) => &FIRST,
        [] => &FIRST_OF_SYSTEMS,
        _ => &[keys::SYSTEM],
    };
    let all: Vec<&'static Field> = all.into_iter().filter(|field| has_flag(field)).collect();
    let keys = wanted(usual, words).into_iter();
    let first: Vec<&'static Field> =
        keys.filter_map(|key| all.iter().copied().find(|field| field.key == key)).collect();
    if named.is_empty() {
        return distinct(first);
    }
    let (timing, others): (Vec<_>, Vec<_>) = all.iter().partition(|field| TIMING.contains(&field.key));
    distinct(first.into_iter().chain(others).chain(timing))
}

/// The fields of these systems, before the fields that select them.
fn of_systems(entries: &[&SystemEntry]) -> Vec<&'static Field> {
    let is_beside = |field: &&Field| {
        SYSTEM_SELECTORS.contains(&field.key) || field.key == keys::LOAD && have(entries, field)
    };
    let beside = doorbell_lab::fields().into_iter().filter(is_beside);
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
fn wanted(usual: &[&'static str], words: &[String]) -> Vec<&'static str> {
    let fields = doorbell_lab::fields();
    let typed = fields.iter().filter(|field| !all_said(words, field.key).is_empty()).map(|field| field.key);
    let related = RELATED.iter().filter(|(key, value, _)| {
        let said = all_said(words, key);
        said.first().is_some_and(|said| value.is_none_or(|value| canonical(key, said) == value))
    });
    let related = related.flat_map(|(.., keys)| keys.iter().copied());
    typed.chain(related).chain(usual.iter().copied()).collect()
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

/// All flags of a field, with dashes.
fn flags_of(field: &Field) -> Vec<String> {
    field.all_flags().into_iter().map(|(name, ..)| format!("--{name}")).collect()
}

fn help_of(arg: &Arg) -> String {
    arg.get_help().map(ToString::to_string).unwrap_or_default()
}

/// The first sentence of a description, without conditions after a semicolon, and without examples.
fn sentence(text: &str) -> String {
    let ends = ["; ", ". ", ", such as", " (", " [default"];
    let end = ends.iter().filter_map(|end| text.find(end)).min();
    text[..end.unwrap_or(text.len())].to_owned()
}

/// Maximum number of names of a field that are listed on one screen.
const NAMED: usize = 8;

/// The description of a field, its names, and its whole usual value: with systems, their own.
fn about(command: &Command, field: &Field, systems: &[&SystemEntry]) -> String {
    let flags = field.all_flags();
    let about = flags.first().map_or(field.about, |(.., about)| about);
    let names = match field.kind {
        FieldKind::Name(names) if names.len() <= NAMED => format!(": {}", one_of(names)),
        _ => String::new(),
    };
    let usual = usual(command, field, systems);
    let is_switch = matches!(field.kind, FieldKind::Switch);
    let usual = if usual.is_empty() || is_switch { String::new() } else { format!(" [{usual}]") };
    sentence(about) + &names + &usual
}

/// The usual value of a field. Empty if several systems have different ones.
fn usual(command: &Command, field: &Field, systems: &[&SystemEntry]) -> String {
    let real_time = USUAL_LIVE.iter().find(|(key, _)| *key == field.key && !runs_verbs(command));
    if let Some((_, real)) = real_time {
        return (*real).to_owned();
    }
    let mut values = systems.iter().filter_map(|entry| doorbell_lab::usual_of(entry, field.key));
    match values.next() {
        Some(first) if values.all(|value| value == first) => first,
        Some(_) => String::new(),
        None => field.usual.to_owned(),
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

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    fn help_all(name: &str, system: &str) -> Option<String> {
        let named = named(&words(&format!("--system {system}")));
        Some(narrowed(command(name), &named)?.render_long_help().to_string())
    }

    /// The help of a command line, on a screen with this many lines.
    fn help_within(lines: usize, line: &str) -> String {
        let words = words(line);
        on_one_screen(&command(&words[0]), &named(&words), &words, lines)
    }

    /// The help of a command line.
    fn help(line: &str) -> String {
        help_within(LINES, line)
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
                for lines in [LINES, 23] {
                    let text = help_within(lines, &format!("{name} {options}"));
                    assert!(
                        text.lines().count() <= lines,
                        "{name} {options}: {}\n{text}",
                        text.lines().count()
                    );
                    assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
                    assert!(text.contains("--json") && text.contains("--help-all"), "{text}");
                }
            }
        }
        let small = help_within(23, "simulate");
        assert!(has(&small, "--verb") && has(&small, "--size"), "{small}");
        // All other options that matter are named.
        for option in ["--rate", "--mix", "--set", "--duration", "--explain"] {
            assert!(
                small.contains(&format!("{option},")) || small.contains(&format!(" {option}")),
                "{small}"
            );
        }
    }

    /// Half of a usual value would be another value.
    #[test]
    fn usual_values_are_whole() {
        let text = help("simulate").split_whitespace().collect::<Vec<_>>().join(" ");
        for field in [Workload::verb, Workload::transport, Workload::qps, Workload::window] {
            assert!(text.contains(&format!("[{}]", field.usual)), "{}: {text}", field.key);
        }
    }

    #[test]
    fn help_of_live_is_about_systems() {
        let live = help("live");
        for option in ["--system", "--clients", "--cores", "--outstanding", "--warmup", "--duration"] {
            assert!(has(&live, option), "{option}: {live}");
        }
        assert!(!live.contains("[32, atomics 8]") && live.contains("[100ms]"), "{live}");
        // An open loop has no usual rate.
        let rpc = named(&words("live --system rpc"));
        assert_eq!((rpc.len(), usual(&command("live"), &Workload::rate, &rpc)), (1, "none".to_owned()));
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
        let of_system = help("simulate --system rpc --arrivals=poisson");
        assert!(has(&open, "--load") && has(&of_system, "--load"), "{open}{of_system}");
        let shuffle = help("simulate --system shuffle");
        for option in ["--clients", "--entry", "--batch-entries", "--transfer"] {
            assert!(has(&shuffle, option), "{option}: {shuffle}");
        }
        assert!(!has(&shuffle, "--verb"), "{shuffle}");
    }

    #[test]
    fn what_is_said_of_an_option_is_found() {
        let line = words("doorbell simulate --design=rpc --system Spinlock");
        assert_eq!((all_said(&line, "system"), all_said(&line, "design")), (vec!["Spinlock"], vec!["rpc"]));
        assert!(all_said(&line, "verb").is_empty());
        assert_eq!(all_said(&words("system=rpc cores=3 system=read-kv"), "system"), ["rpc", "read-kv"]);
        for (line, systems) in [
            ("simulate --system READ_KV", &["read-kv"][..]),
            ("compare system=rpc cores=3 system=herd-kv", &["herd-kv", "rpc"][..]),
            ("simulate --system=no-such", &[][..]),
        ] {
            let mut names: Vec<&str> = named(&words(line)).into_iter().map(|entry| entry.name).collect();
            names.sort_unstable();
            assert_eq!(names, systems, "{line}");
        }
    }
}
