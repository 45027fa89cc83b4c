//! Command-line flags. They are made from the fields of workloads and systems.

use clap::builder::{PossibleValue, PossibleValuesParser, StringValueParser, TypedValueParser};
use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, value_parser};
use doorbell_lab::{Asked, SYSTEMS, Schema, Timing, Typed, Workload, WorkloadError, keys};
use doorbell_nic::Profile;
use doorbell_schema::{Field, FieldKind, Given, Says, Settings, Value};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Forms of values, each with its meaning. `doorbell_schema::NumberUnit` reads the numbers.
pub(crate) const VALUES: &str = "\
Values:
  bytes               4096, 4k, 4KiB: powers of 1024, as in fio; 4KB is refused
  counts, rates       45000000, 45M, 45e6, 45_000_000: powers of 1000
  thousandths         50, or as 5%
  shares and times    1%; 500ns, 5us, 2ms, 1s
  values for --set    20, 0.5 or true: plain numbers in the parameter's unit
  names               also READ, RC; cas is compare-swap, faa is fetch-add";

/// A verbs workload, from a file and flags that override it.
pub(crate) struct VerbArgs(FileAndFlags);

/// The field of a file that gives the swept options. On the command line, `--over` gives them.
static OVER: Field = Field::text().in_files().named(
    "over",
    "Options to sweep over, and their values, as \
     for --over",
);

/// A verbs workload or a system, from a file and flags that override it.
pub(crate) struct AnyArgs(FileAndFlags);

/// Flags for all sides of a comparison, without a file.
pub(crate) struct CommonArgs(FileAndFlags);

/// A system without a profile, from a file and flags that override it.
pub(crate) struct SystemArgs(FileAndFlags);

struct FileAndFlags {
    file: Option<PathBuf>,
    flags: Given,
    /// Parameters that flags set for single machine groups, each with the group's number.
    of_groups: Vec<(usize, Settings)>,
    /// The error in the value of a flag.
    wrong: Option<String>,
}

impl VerbArgs {
    /// The workload. Flags override the file, if a file is given.
    pub(crate) fn workload(&self) -> Result<Workload, WorkloadError> {
        match Asked::of(&self.0.given()?)? {
            Asked::Verbs(workload) => Ok(*workload),
            Asked::System(..) => Err(WorkloadError::Invalid(
                "limits are computed for verbs, not for systems: leave out \
                     --system"
                    .into(),
            )),
        }
    }
}

impl AnyArgs {
    /// The file and the flags, kept separate.
    pub(crate) fn typed(&self) -> Result<Typed, WorkloadError> {
        self.0.typed(&doorbell_lab::fields())
    }

    /// The options, and the text of the swept options from the file. Flags override the file.
    pub(crate) fn swept(&self) -> Result<(Given, Option<String>), WorkloadError> {
        let mut fields = doorbell_lab::fields();
        fields.push(&OVER);
        let mut given = self.0.given_of(&fields)?;
        let over = given.read(OVER.key).map_err(WorkloadError::Invalid)?;
        given.remove(OVER.key);
        Ok((given, over))
    }

    /// The workload file, if one is given.
    pub(crate) fn file(&self) -> impl Iterator<Item = &PathBuf> {
        self.0.file.iter()
    }

    /// The files that define the run: the workload file, and the files of its profiles.
    pub(crate) fn files(&self, asked: &Asked) -> Vec<PathBuf> {
        let profiles = asked.named().into_iter().filter(|name| Profile::is_path(name));
        self.0.file.iter().cloned().chain(profiles.map(PathBuf::from)).collect()
    }
}

impl CommonArgs {
    /// The options of a side. The side's words override the flags. The flags override the side's file, if the
    /// side has a file.
    pub(crate) fn below(&self, words: Given, file: Option<&Path>) -> Result<Given, WorkloadError> {
        if let Some(profile) = file.filter(|file| is_profile(file)) {
            return Err(no_workload(profile, "profile="));
        }
        let flags = self.0.given()?;
        let file = file.map(Path::to_owned);
        FileAndFlags { file, flags: words.over(flags), of_groups: Vec::new(), wrong: None }.given()
    }
}

impl SystemArgs {
    /// The options. Flags override the file, if a file is given.
    pub(crate) fn given(&self) -> Result<Given, WorkloadError> {
        self.0.given()
    }

    /// Fields that at least one system has.
    fn fields() -> Vec<&'static Field> {
        let mut all = doorbell_lab::system_fields();
        for field in SYSTEMS.iter().flat_map(|entry| &entry.fields) {
            if all.iter().all(|known| known.key != field.key) {
                all.push(field);
            }
        }
        all
    }
}

/// Whether a file has a field at its top level that only profiles have.
fn is_profile(file: &Path) -> bool {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let top = text.lines().take_while(|line| !line.trim_start().starts_with('['));
    let mut keys = top.filter_map(|line| Some(line.split_once('=')?.0.trim()));
    keys.any(|key| ["base", "generation"].contains(&key))
}

/// The refusal of a profile's file in place of a workload's. `option` is the beginning of the option that
/// names profiles.
fn no_workload(file: &Path, option: &str) -> WorkloadError {
    let path = file.display().to_string();
    let folder = if path.contains('/') { "" } else { "./" };
    WorkloadError::Invalid(format!("{path} is a profile, not a workload: write {option}{folder}{path}"))
}

impl FileAndFlags {
    fn given(&self) -> Result<Given, WorkloadError> {
        self.given_of(&doorbell_lab::fields())
    }

    /// The options. The file may have these fields only.
    fn given_of(&self, fields: &[&'static Field]) -> Result<Given, WorkloadError> {
        self.typed(fields)?.given()
    }

    fn typed(&self, fields: &[&'static Field]) -> Result<Typed, WorkloadError> {
        if let Some(wrong) = &self.wrong {
            return Err(WorkloadError::Invalid(wrong.clone()));
        }
        let below =
            |file: &PathBuf| self.below(file, fields).map(|below| (file.display().to_string(), below));
        let file = self.file.as_ref().map(below).transpose()?;
        Ok(Typed { file, flags: self.flags.clone(), of_groups: self.of_groups.clone() })
    }

    /// The options in the file.
    fn below(&self, file: &Path, fields: &[&'static Field]) -> Result<Given, WorkloadError> {
        let read = Workload::given_of_file(file, fields);
        let mut base = read.map_err(|error| match is_profile(file) {
            true => no_workload(file, "--profile "),
            false => error,
        })?;
        // The file's design belongs to the file's system, so it does not apply if a flag names a system.
        if self.flags.get(keys::SYSTEM).is_some() {
            base.remove(keys::DESIGN);
        }
        // A resolved workload repeats facts that follow from its groups. The repetitions are dropped.
        Ok(Workload::without_sums_of(base))
    }

    fn from(matches: &ArgMatches, fields: &[&Field]) -> FileAndFlags {
        FileAndFlags { file: matches.get_one("file").cloned(), ..FileAndFlags::flags_of(matches, fields) }
    }

    fn flags_of(matches: &ArgMatches, fields: &[&Field]) -> FileAndFlags {
        let mut all =
            FileAndFlags { file: None, flags: Given::default(), of_groups: Vec::new(), wrong: None };
        for field in fields {
            let taken = match field.kind {
                FieldKind::Settings => all.take_settings(field, matches),
                _ => value(field, matches).map_or(Ok(()), |value| all.flags.set(field, value?)),
            };
            all.wrong = all.wrong.or(taken.err());
        }
        all
    }

    /// Adds the settings of a flag. The flag may be repeated, and may apply to a single machine group.
    fn take_settings(&mut self, field: &Field, matches: &ArgMatches) -> Result<(), String> {
        for text in matches.get_many::<String>(field.key).into_iter().flatten() {
            let (group, text) = of_group(text);
            match (group, field.parse(text)?) {
                (Some(group), Value::Settings(set)) => self.of_groups.push((group, set)),
                _ => doorbell_lab::say(&mut self.flags, &format!("{}={text}", field.key))?,
            }
        }
        Ok(())
    }
}

/// Splits `GROUP:REST` into group and rest. The group is `None` if the text does not begin with a number and
/// a colon.
fn of_group(text: &str) -> (Option<usize>, &str) {
    let named = text.split_once(':').and_then(|(group, rest)| Some((group.parse().ok()?, rest)));
    named.map_or((None, text), |(group, rest)| (Some(group), rest))
}

/// Parameters from `--set` for a single profile.
pub(crate) fn settings(said: &[String]) -> Result<Settings, WorkloadError> {
    let mut all = Settings::new();
    for text in said {
        match Workload::set.parse(text).map_err(WorkloadError::Invalid)? {
            Value::Settings(set) => all = doorbell_lab::both(all, set).map_err(WorkloadError::Invalid)?,
            other => unreachable!("{other} is parsed of no setting"),
        }
    }
    Ok(all)
}

fn with_verbs(command: Command) -> Command {
    let file = Arg::new("file").value_name("FILE").value_parser(value_parser!(PathBuf)).help(
        "Workload file (TOML or JSON) with these options as keys, with _ for -, or a file from `doorbell \
         run --stats-json`. Options override the file. Only a file can describe machines that differ, by \
         tables named machine with a profile and a count, and threads that differ, by tables named class",
    );
    let command = command.after_long_help(VALUES);
    command.arg(file).args(Workload::fields().into_iter().flat_map(|field| args(field, &usual(field))))
}

/// Help text about a system parameter: the systems that have it, and its usual value.
fn of_systems(field: &Field) -> String {
    let names = doorbell_lab::systems_with(field.key);
    let of = if names.is_empty() || [keys::SYSTEM, keys::DESIGN].contains(&field.key) {
        String::new()
    } else {
        format!(" ({})", names.join(", "))
    };
    let value = if field.usual.is_empty() {
        doorbell_lab::usual_of_systems(field.key)
    } else {
        field.usual.to_owned()
    };
    let shown = if value.is_empty() || matches!(field.kind, FieldKind::Switch) {
        String::new()
    } else {
        format!(" [default: {value}]")
    };
    of + &shown
}

/// The flag for a load. Both workloads and systems with an open loop can have it, so no type of theirs has
/// the field.
fn load() -> impl Iterator<Item = Arg> {
    doorbell_lab::fields()
        .into_iter()
        .filter(|field| field.key == keys::LOAD)
        .flat_map(|field| args(field, ""))
}

impl clap::Args for VerbArgs {
    fn augment_args(command: Command) -> Command {
        with_verbs(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        with_verbs(command)
    }
}

impl clap::Args for AnyArgs {
    fn augment_args(command: Command) -> Command {
        let systems = doorbell_lab::system_fields();
        let flags = systems.into_iter().flat_map(|field| args(field, &of_systems(field)));
        with_verbs(command).args(load()).args(flags.map(|arg| arg.help_heading("Systems")))
    }

    fn augment_args_for_update(command: Command) -> Command {
        AnyArgs::augment_args(command)
    }
}

/// Usual times of `live`. For other commands, these fields are virtual times. A real processor needs a longer
/// warm-up than a model.
pub(crate) const USUAL_LIVE: [(&str, &str); 2] =
    [(Timing::warmup.key, "100ms"), (Timing::duration.key, "1s")];

impl clap::Args for SystemArgs {
    fn augment_args(command: Command) -> Command {
        let file = Arg::new("file").value_name("FILE").value_parser(value_parser!(PathBuf)).help(
            "Workload file (TOML or JSON) with these options as keys, with _ for -. Options override the \
             file, and its profile is ignored",
        );
        let usual = |field: &Field| match USUAL_LIVE.iter().find(|(key, _)| *key == field.key) {
            Some((_, real)) => format!(" (here: real time) [default: {real}]"),
            None => of_systems(field),
        };
        let flags = SystemArgs::fields().into_iter().flat_map(|field| args(field, &usual(field)));
        command.arg(file).args(flags).after_long_help(VALUES)
    }

    fn augment_args_for_update(command: Command) -> Command {
        SystemArgs::augment_args(command)
    }
}

impl clap::Args for CommonArgs {
    fn augment_args(command: Command) -> Command {
        let verbs = Workload::fields().into_iter().flat_map(|field| args(field, &usual(field)));
        let systems = doorbell_lab::system_fields();
        let systems = systems.into_iter().flat_map(|field| args(field, &of_systems(field)));
        let command = command.after_long_help(VALUES);
        let command = command.args(verbs.chain(load()).map(|arg| arg.help_heading("All sides")));
        command.args(systems.map(|arg| arg.help_heading("All sides, for systems")))
    }

    fn augment_args_for_update(command: Command) -> Command {
        CommonArgs::augment_args(command)
    }
}

impl FromArgMatches for CommonArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<CommonArgs, clap::Error> {
        Ok(CommonArgs(FileAndFlags::flags_of(matches, &doorbell_lab::fields())))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = CommonArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

impl FromArgMatches for SystemArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<SystemArgs, clap::Error> {
        Ok(SystemArgs(FileAndFlags::from(matches, &SystemArgs::fields())))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = SystemArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

impl FromArgMatches for VerbArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<VerbArgs, clap::Error> {
        Ok(VerbArgs(FileAndFlags::from(matches, &Workload::fields())))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = VerbArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

impl FromArgMatches for AnyArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<AnyArgs, clap::Error> {
        Ok(AnyArgs(FileAndFlags::from(matches, &doorbell_lab::fields())))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = AnyArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Flags of a field. Only the first flag's help shows the usual value. Among contradicting flags, the last on
/// the command line counts.
fn args(field: &'static Field, usual: &str) -> Vec<Arg> {
    let flags = field.all_flags();
    let names: Vec<String> = flags.iter().map(|(name, ..)| name.clone()).collect();
    let mut args = Vec::new();
    for (name, says, about) in flags {
        let others = names.iter().filter(|other| **other != name).cloned().collect::<Vec<_>>();
        let arg = Arg::new(name.clone()).long(name).overrides_with_all(others);
        // Only the first flag of a field shows the usual value.
        let usual = if args.is_empty() { usual } else { "" };
        let arg = arg.help(format!("{about}{usual}"));
        args.push(match says {
            Says::Switch(_) => arg.action(ArgAction::SetTrue),
            Says::Value(shown) if field.kind == FieldKind::Settings => {
                arg.value_name(shown).action(ArgAction::Append)
            }
            Says::Value(shown) if names_profile(field) => {
                arg.value_name(shown).value_parser(ProfileParser).hide_possible_values(true)
            }
            Says::Value(shown) => with_value(arg.value_name(shown), field),
        });
    }
    args
}

/// Fields whose values are the names of built-in profiles, or paths of profiles.
const PROFILES: [&str; 2] = [Workload::profile.key, Workload::host.key];

fn names_profile(field: &Field) -> bool {
    PROFILES.contains(&field.key)
}

/// Takes any text. Shells complete the names of the built-in profiles.
#[derive(Clone)]
pub(crate) struct ProfileParser;

impl TypedValueParser for ProfileParser {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Profile::names().map(PossibleValue::new)))
    }
}

fn with_value(arg: Arg, field: &'static Field) -> Arg {
    match field.kind {
        // The field itself reports a value that is out of range.
        FieldKind::Number { .. } => arg.allow_negative_numbers(true),
        FieldKind::Name(names) => {
            let values = names.iter().map(|name| possible(name, field.also));
            arg.value_parser(PossibleValuesParser::new(values)).ignore_case(true)
        }
        FieldKind::Time { .. }
        | FieldKind::Share(..)
        | FieldKind::Switch
        | FieldKind::Text
        | FieldKind::Tables(_)
        | FieldKind::Settings => arg,
    }
}

/// A name of a field. The field itself turns other words into the name.
fn possible(name: &'static str, also: &'static [(&'static str, &'static str)]) -> PossibleValue {
    let words = also.iter().filter(|(_, meant)| *meant == name).map(|(word, _)| (*word).to_owned());
    let words = words.chain([name.to_owned()]).flat_map(|word| [word.replace('-', "_"), word]);
    PossibleValue::new(name).aliases(words.filter(|word| word != name))
}

/// Help text of the usual value. Empty for a switch, and for a field without a usual value.
fn usual(field: &Field) -> String {
    match (field.kind, field.usual) {
        (_, "") | (FieldKind::Switch, "true" | "false") => String::new(),
        (_, usual) => format!(" [default: {usual}]"),
    }
}

/// The value that the flags on the command line give to a field.
fn value(field: &Field, matches: &ArgMatches) -> Option<Result<Value, String>> {
    let said = |(name, says, _): (String, Says, &str)| match says {
        Says::Switch(value) => matches.get_flag(&name).then_some(Ok(Value::Switch(value))),
        Says::Value(_) => matches.get_one::<String>(&name).map(|text| field.parse(text)),
    };
    field.all_flags().into_iter().find_map(said)
}
