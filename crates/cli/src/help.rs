//! Help for one system. Commands that run systems have the options of all systems. This help shows only the
//! options of the named system.

use crate::mistake;
use clap::Command;
use doorbell_lab::{SYSTEMS, SystemEntry};
use doorbell_schema::Field;

/// Fields that select a system and its machines. Help shows them for every system.
const BESIDE: [&str; 5] = ["system", "design", "profile", "host", "set"];

/// The help text for a command line with `--system`, if that system exists.
pub(crate) fn of_system() -> Option<String> {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let (system, design) = (said(&words, "--system")?, said(&words, "--design"));
    let entries: Vec<&SystemEntry> = SYSTEMS.iter().filter(|entry| is_meant(entry, system, design)).collect();
    let mut command = narrowed(mistake::given(), &entries)?;
    let long = words.iter().any(|word| word == "--help");
    Some(if long { command.render_long_help() } else { command.render_help() }.to_string())
}

/// The value of an option: the text after `=`, or the next word.
fn said<'w>(words: &'w [String], option: &str) -> Option<&'w str> {
    let at = words.iter().position(|word| word.split('=').next() == Some(option))?;
    words[at].split_once('=').map(|(_, value)| value).or(words.get(at + 1).map(String::as_str))
}

fn is_meant(entry: &SystemEntry, system: &str, design: Option<&str>) -> bool {
    let designed = entry.design.is_some_and(|(does, own)| does == system && design.is_none_or(|d| d == own));
    entry.name == system || designed
}

/// Hides the options that none of these systems has. Returns `None` if the list of systems is empty, or if
/// the command does not run systems.
fn narrowed(command: Command, entries: &[&SystemEntry]) -> Option<Command> {
    // A system with a rate can have a load instead.
    let key = |field: &Field| if field.key == "load" { "rate" } else { field.key };
    let has =
        |field: &Field| entries.iter().any(|entry| entry.fields.iter().any(|own| own.key == key(field)));
    let others =
        doorbell_lab::fields().into_iter().filter(|field| !BESIDE.contains(&field.key) && !has(field));
    let others: Vec<String> = others.flat_map(|field| field.all_flags()).map(|(name, ..)| name).collect();
    let runs_them = command.get_arguments().any(|arg| arg.get_id() == "system");
    let hidden = |arg: clap::Arg| {
        let is_other = others.iter().any(|name| arg.get_id() == name.as_str());
        if is_other { arg.hide(true) } else { arg }
    };
    (!entries.is_empty() && runs_them).then(|| command.mut_args(hidden))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Args;
    use clap::CommandFactory;

    fn help(command: &str, system: &str) -> Option<String> {
        let mut all = Args::command();
        all.build();
        let entries: Vec<&SystemEntry> =
            SYSTEMS.iter().filter(|entry| is_meant(entry, system, None)).collect();
        let command = all.find_subcommand(command).expect("there is one").clone();
        Some(narrowed(command, &entries)?.render_long_help().to_string())
    }

    #[test]
    fn options_of_other_systems_are_left_out() {
        let text = help("simulate", "spinlock").unwrap();
        for (option, is_of_it) in
            [("--lease", true), ("--profile", true), ("--json", true), ("--theta", false), ("--verb", false)]
        {
            assert_eq!(
                text.contains(&format!("{option} ")) || text.contains(&format!("{option}\n")),
                is_of_it,
                "{option}"
            );
        }
        assert_eq!((help("simulate", "no-such"), help("profiles", "rpc")), (None, None));
    }

    #[test]
    fn what_is_said_of_an_option_is_found() {
        let words = ["doorbell", "simulate", "--design=rpc", "--system", "spinlock"].map(str::to_owned);
        assert_eq!((said(&words, "--system"), said(&words, "--design")), (Some("spinlock"), Some("rpc")));
        assert_eq!(said(&words, "--verb"), None);
    }
}
