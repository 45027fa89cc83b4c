//! The command line as typed: its words, its command, and the systems that it names.

use crate::args::Args;
use clap::{Command, CommandFactory};
use doorbell_lab::{SYSTEMS, SystemEntry, keys};
use doorbell_schema::FieldKind;

/// The words of the command line. Words in quotes, such as a side of `compare`, are separate words, too.
pub(crate) fn words() -> Vec<String> {
    let all = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    all.flat_map(|word| word.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// The innermost existing subcommand that the command line names.
pub(crate) fn command() -> Command {
    let mut command = Args::command();
    command.build();
    for word in std::env::args_os().skip(1) {
        let Some(below) = command.find_subcommand(&word).cloned() else { break };
        command = below;
    }
    command
}

/// The values of an option, in order: each is the text after `=`, or the next word. A side of `compare` has
/// options such as `system=rpc`.
pub(crate) fn all_said<'w>(words: &'w [String], key: &str) -> Vec<&'w str> {
    let option = format!("--{}", key.replace('_', "-"));
    let value = |(at, word): (usize, &'w String)| match word.split_once('=') {
        Some((name, value)) => (name == option || name == key).then_some(value),
        None if *word == option => words.get(at + 1).map(String::as_str),
        None => None,
    };
    words.iter().enumerate().filter_map(value).collect()
}

/// The name that a text means as the value of a field: for a field without names, the text itself.
pub(crate) fn canonical<'t>(key: &str, text: &'t str) -> &'t str {
    let field = doorbell_lab::fields().into_iter().find(|field| field.key == key);
    let name = field.and_then(|field| match field.kind {
        FieldKind::Name(names) => doorbell_schema::named(names, field.also, text),
        _ => None,
    });
    name.unwrap_or(text)
}

/// The systems that the command line names.
pub(crate) fn named_systems() -> Vec<&'static SystemEntry> {
    named(&words())
}

/// The systems that these words name: several if sides of `compare` name several, or if a task has several
/// designs.
pub(crate) fn named(words: &[String]) -> Vec<&'static SystemEntry> {
    let design = all_said(words, keys::DESIGN).first().copied();
    let design = design.map(|design| canonical(keys::DESIGN, design));
    let systems = all_said(words, keys::SYSTEM).into_iter();
    let systems: Vec<&str> = systems.map(|system| canonical(keys::SYSTEM, system)).collect();
    SYSTEMS.iter().filter(|entry| systems.iter().any(|system| is_meant(entry, system, design))).collect()
}

fn is_meant(entry: &SystemEntry, system: &str, design: Option<&str>) -> bool {
    let designed = entry.design.is_some_and(|(does, own)| does == system && design.is_none_or(|d| d == own));
    entry.name == system || designed
}
