//! Describes a mistake on the command line in one sentence: the mistake, where it is, and how to correct it.

use crate::args::Args;
use crate::typed;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use doorbell_schema::Field;
use std::error::Error;

/// The sentence for an error of clap. Clap's own text has several lines.
pub(crate) fn sentence(error: &clap::Error) -> String {
    let command = typed::command();
    let said = |kind| error.get(kind).map(words).unwrap_or_default();
    // Clap says `--size <BYTES>`; the user typed `--size`.
    let option = said(ContextKind::InvalidArg).split(' ').next().unwrap_or_default().to_owned();
    let value = said(ContextKind::InvalidValue);
    match error.kind() {
        ErrorKind::UnknownArgument if option.starts_with('-') => no_option(&option, &command),
        ErrorKind::UnknownArgument => {
            format!("`{option}` is one argument more than `{}` takes: {}", name(&command), usage(&command))
        }
        ErrorKind::InvalidSubcommand => no_command(&said(ContextKind::InvalidSubcommand), &command),
        ErrorKind::InvalidValue if value.is_empty() => {
            format!("{option} needs a value: {}", said(ContextKind::InvalidArg))
        }
        ErrorKind::InvalidValue => {
            let Some(ContextValue::Strings(names)) = error.get(ContextKind::ValidValue) else {
                return format!("{option} must not be `{value}`");
            };
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let meant = meant(&value, &names);
            format!("{option} is `{value}`, but must be {}{meant}", doorbell_schema::one_of(&names))
        }
        ErrorKind::ValueValidation => {
            let cause = error.source().map(ToString::to_string).unwrap_or_default();
            format!("{option}: {cause}")
        }
        ErrorKind::TooManyValues => format!("{option} takes no value, but is given `{value}`"),
        ErrorKind::ArgumentConflict if said(ContextKind::PriorArg) == said(ContextKind::InvalidArg) => {
            format!("{option} is given more than once: give it once")
        }
        ErrorKind::ArgumentConflict => {
            format!("{option} cannot be combined with {}: give one of them", said(ContextKind::PriorArg))
        }
        ErrorKind::MissingRequiredArgument => {
            let missing = said(ContextKind::InvalidArg);
            format!("`{}` needs {missing}: {}", name(&command), usage(&command))
        }
        // Of all other kinds of errors, Doorbell's options can cause only one: words that are not UTF-8.
        _ => error.to_string().lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned(),
    }
}

/// Says that `command` does not have `option`. Suggests the commands that have `option`, or the most similar
/// option of `command`.
pub(crate) fn no_option(option: &str, command: &Command) -> String {
    let no_option = format!("`{option}` is not an option of `{}`", name(command));
    let all = Args::command();
    let others = all.get_subcommands().filter(|other| self::options(other).iter().any(|name| name == option));
    let others: Vec<String> = others.map(|other| format!("`doorbell {}`", other.get_name())).collect();
    let others: Vec<&str> = others.iter().map(String::as_str).collect();
    if !others.is_empty() {
        return format!("{no_option}, but of {}", doorbell_schema::one_of(&others));
    }
    let options = options(command);
    let synonyms = synonyms(option, &options);
    if !synonyms.is_empty() {
        return format!("{no_option}; did you mean `{}`?", synonyms.join("` or `"));
    }
    match doorbell_schema::nearest(option, options.iter().map(String::as_str)) {
        Some(nearest) => format!("{no_option}; did you mean `{nearest}`?"),
        None => format!("{no_option}: `{} --help` lists them", name(command)),
    }
}

/// The options that people look for under the name of `option`: those of the systems that the command line
/// names. Without a system, the first one counts, because the options of verbs come first.
fn synonyms(option: &str, options: &[String]) -> Vec<String> {
    let systems = typed::named_systems();
    let fields: Vec<&'static Field> = match systems.as_slice() {
        [] => doorbell_lab::fields(),
        systems => systems.iter().flat_map(|entry| entry.fields.iter().copied()).collect(),
    };
    let mut flags: Vec<String> = Vec::new();
    for field in doorbell_schema::synonyms(option.trim_start_matches('-'), &fields) {
        let flag = format!("--{}", field.key.replace('_', "-"));
        if options.contains(&flag) && !flags.contains(&flag) {
            flags.push(flag);
        }
    }
    if systems.is_empty() {
        flags.truncate(1);
    }
    flags
}

/// Says that `word` is not a subcommand of `command`, and lists the subcommands.
pub(crate) fn no_command(word: &str, command: &Command) -> String {
    let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
    let meant = meant(word, &names);
    format!("`{word}` is not a command of `{}`, which has {}{meant}", name(command), names.join(", "))
}

fn meant(word: &str, names: &[&str]) -> String {
    let nearest = doorbell_schema::nearest(word, names.iter().copied());
    nearest.map_or_else(String::new, |nearest| format!("; did you mean `{nearest}`?"))
}

/// Name of the command with its parent commands, as typed.
fn name(command: &Command) -> &str {
    command.get_bin_name().unwrap_or(command.get_name())
}

fn usage(command: &Command) -> String {
    command.clone().render_usage().to_string().replace("Usage: ", "usage is ")
}

/// Long options of the command, with dashes.
fn options(command: &Command) -> Vec<String> {
    let long = command.get_arguments().filter_map(|arg| arg.get_long());
    long.map(|name| format!("--{name}")).collect()
}

/// Text of a context value of a clap error.
fn words(value: &ContextValue) -> String {
    match value {
        ContextValue::Strings(all) => all.join(" and "),
        value => value.to_string(),
    }
}
