//! Flags of fields.

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, value_parser};
use doorbell_lab::{Duration, Schema, Workload, WorkloadError};
use doorbell_schema::{Field, Given, Kind, Says, Value};
use std::path::PathBuf;

/// A workload by a file, and by flags over it.
pub(crate) struct WorkloadArgs {
    file: Option<PathBuf>,
    flags: Given,
    /// A flag whose value is none of its field's.
    wrong: Option<String>,
}

impl WorkloadArgs {
    /// The options, over the file's contents if one is given.
    pub(crate) fn workload(&self) -> Result<Workload, WorkloadError> {
        if let Some(wrong) = &self.wrong {
            return Err(WorkloadError::Invalid(wrong.clone()));
        }
        let base = match &self.file {
            Some(file) => Workload::read(file)?,
            None => Workload::default(),
        };
        Ok(Workload::of(&self.flags)?.over(base))
    }
}

impl clap::Args for WorkloadArgs {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("file").value_name("FILE").value_parser(value_parser!(PathBuf)).help(
            "Workload file, TOML or JSON, whose keys are these options with _ for -, or what \
             `doorbell run --stats-json` wrote; options override it. Only a file can name machines that \
             differ, by tables named machine, each with a profile and a count",
        );
        command.arg(file).args(Workload::fields().into_iter().flat_map(args))
    }

    fn augment_args_for_update(command: Command) -> Command {
        WorkloadArgs::augment_args(command)
    }
}

impl FromArgMatches for WorkloadArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<WorkloadArgs, clap::Error> {
        let mut flags = Given::default();
        let mut wrong = None;
        for field in Workload::fields() {
            if let Some(value) = value(field, matches) {
                wrong = wrong.or(flags.set(field, value).err());
            }
        }
        Ok(WorkloadArgs { file: matches.get_one("file").cloned(), flags, wrong })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = WorkloadArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

/// The flags of a field. Of two that contradict each other the last one counts.
fn args(field: &'static Field) -> Vec<Arg> {
    let flags = field.all_flags();
    let names: Vec<String> = flags.iter().map(|(name, ..)| name.clone()).collect();
    let mut args = Vec::new();
    for (name, says, about) in flags {
        let others = names.iter().filter(|other| **other != name).cloned().collect::<Vec<_>>();
        let arg = Arg::new(name.clone()).long(name).overrides_with_all(others);
        // What is said of another flag of the field need not be said again.
        let usual = if args.is_empty() { usual(field) } else { String::new() };
        let arg = arg.help(format!("{about}{usual}"));
        args.push(match says {
            Says::Switch(_) => arg.action(ArgAction::SetTrue),
            Says::Value(shown) => with_value(arg.value_name(shown), field.kind),
        });
    }
    args
}

fn with_value(arg: Arg, kind: Kind) -> Arg {
    match kind {
        Kind::Number { .. } => arg.value_parser(value_parser!(u64)),
        Kind::Name(names) => arg.value_parser(PossibleValuesParser::new(names)),
        Kind::Time => arg.value_parser(value_parser!(Duration)),
        Kind::Switch | Kind::Text | Kind::Tables(_) => arg,
    }
}

/// What is usual, as help shows it; that a switch is off is not worth a word.
fn usual(field: &Field) -> String {
    match (field.kind, field.usual) {
        (_, "") | (Kind::Switch, "true" | "false") => String::new(),
        (_, usual) => format!(" [default: {usual}]"),
    }
}

/// What the flags of a field say.
fn value(field: &Field, matches: &ArgMatches) -> Option<Value> {
    let said = |(name, says, _): (String, Says, &str)| match (says, field.kind) {
        (Says::Switch(value), _) => matches.get_flag(&name).then_some(Value::Switch(value)),
        (Says::Value(_), Kind::Number { .. }) => matches.get_one(&name).copied().map(Value::Number),
        (Says::Value(_), Kind::Time) => {
            matches.get_one(&name).map(|time: &Duration| Value::Text(time.to_string()))
        }
        (Says::Value(_), _) => matches.get_one::<String>(&name).cloned().map(Value::Text),
    };
    field.all_flags().into_iter().find_map(said)
}
