//! What somebody asks for: a workload of verbs, or a system. Both are told by the same fields.

use crate::systems::{Entry, SYSTEMS, SystemWorkload};
use doorbell_nic::Profile;
use doorbell_schema::{Field, Given, Kind, Schema, Settings, Value, meant};
use doorbell_workload::{Workload, WorkloadError};
use std::sync::LazyLock;

/// What somebody asks for.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// A workload of verbs.
    Verbs(Box<Workload>),
    /// A system.
    System(SystemWorkload),
}

/// Fields that a system has beside its parameters.
const BESIDE: [&str; 5] = ["system", "design", "profile", "host", "set"];

/// Names of the systems, those of what several designs do first.
static NAMES: LazyLock<Vec<&str>> =
    LazyLock::new(|| designed().into_iter().chain(SYSTEMS.iter().map(|entry| entry.name)).collect());

/// Names of their designs; several things may have one of the same name.
static DESIGNS: LazyLock<Vec<&str>> = LazyLock::new(|| each_once(|(_, design)| design));

/// What several designs do.
pub fn designed() -> Vec<&'static str> {
    each_once(|(does, _)| does)
}

/// What `of` makes of each design, without what was there before.
fn each_once(of: impl Fn((&'static str, &'static str)) -> &'static str) -> Vec<&'static str> {
    let mut all: Vec<&str> = Vec::new();
    for name in SYSTEMS.iter().filter_map(|entry| entry.design).map(of) {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

/// The field that names a system.
static SYSTEM: LazyLock<Field> = LazyLock::new(|| {
    Field::name(&NAMES)
        .shown("SYSTEM")
        .named("system", "Run a system instead of a verb; machine 0 is the server")
});

/// The field that names its design.
static DESIGN: LazyLock<Field> = LazyLock::new(|| {
    let usual = "rpc; spinlock remote";
    Field::name(&DESIGNS).shown("DESIGN").usual(usual).named("design", "Design of the sequencer or spinlock")
});

/// All fields: those of workloads of verbs, then those that only systems have.
pub fn fields() -> Vec<&'static Field> {
    let mut all = Workload::fields();
    all.extend(system_fields());
    all
}

/// The option of a key, or of a flag that takes its values.
///
/// # Errors
/// One sentence where there is none, or only a file can say it.
pub(crate) fn option(name: &str) -> Result<&'static Field, String> {
    let key = name.trim_start_matches('-').replace('-', "_");
    match fields().into_iter().find(|field| field.key == key) {
        Some(field) if matches!(field.kind, Kind::Tables(_)) => {
            Err(format!("{key} has tables, which only a file can say"))
        }
        Some(field) => Ok(field),
        None => Err(match meant(&key, &fields()) {
            Some(meant) => format!("`{name}` is no option of a workload; is `{meant}` meant?"),
            None => format!("`{name}` is no option of a workload: `doorbell simulate --help` lists them"),
        }),
    }
}

/// Says in `given` what a text like `size=64` says of an option.
///
/// # Errors
/// One sentence where there is no such option, or the value is none of its.
pub fn say(given: &mut Given, text: &str) -> Result<(), String> {
    let wrong = || format!("`{text}` is no option with a value, as size=64");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let field = option(name)?;
    let value = match (given.remove(field.key), field.parse(value)?) {
        // Of a profile's parameters there are several, and each is said by itself.
        (Some(Value::Settings(before)), Value::Settings(more)) => Value::Settings(both(before, more)?),
        (Some(_), _) => return Err(format!("{} is given more than once: give it once", field.key)),
        (None, value) => value,
    };
    given.set(field, value)
}

/// Parameters that are set one by one, together.
///
/// # Errors
/// One sentence where both have the same.
pub fn both(all: Settings, more: Settings) -> Result<Settings, String> {
    match more.keys().find(|name| all.contains_key(*name)) {
        Some(twice) => Err(format!("set: {twice} is given more than once: give it once")),
        None => Ok(all.into_iter().chain(more).collect()),
    }
}

/// Fields that only systems have.
pub fn system_fields() -> Vec<&'static Field> {
    let mut all: Vec<&'static Field> = vec![&SYSTEM, &DESIGN];
    let known = |all: &[&Field], key: &str| all.iter().any(|field| field.key == key);
    for field in SYSTEMS.iter().flat_map(|entry| &entry.fields) {
        if !known(&all, field.key) && !known(&Workload::fields(), field.key) {
            all.push(field);
        }
    }
    all
}

/// What is usual of a parameter of systems: one value, or that of most and those of the others by name.
pub fn usual_of_systems(key: &str) -> String {
    let of = |entry: &'static Entry| Some((entry.name, entry.usual.get(key)?.to_string().replace('`', "")));
    most_and_others(&SYSTEMS.iter().filter_map(of).collect::<Vec<_>>())
}

/// The same of values by the names of their systems.
fn most_and_others(all: &[(&str, String)]) -> String {
    let times = |value: &str| all.iter().filter(|(_, other)| other == value).count();
    // Of several that are as frequent, the first.
    let Some((_, most)) = all.iter().rev().max_by_key(|(_, value)| times(value)) else {
        return String::new();
    };
    let mut text = most.clone();
    for (_, value) in all.iter().filter(|(_, value)| value != most) {
        let names: Vec<&str> =
            all.iter().filter(|(_, other)| other == value).map(|(name, _)| *name).collect();
        let part = format!("; {} {value}", names.join(", "));
        if !text.contains(&part) {
            text += &part;
        }
    }
    text
}

/// The systems that have a parameter, where not all do.
pub fn systems_with(key: &str) -> Vec<&'static str> {
    let has = |entry: &&Entry| entry.fields.iter().any(|field| field.key == key);
    let names: Vec<&str> = SYSTEMS.iter().filter(has).map(|entry| entry.name).collect();
    if names.len() == SYSTEMS.len() { Vec::new() } else { names }
}

fn invalid<T>(message: String) -> Result<T, WorkloadError> {
    Err(WorkloadError::Invalid(message))
}

/// A field by its key and flags.
fn called(key: &str) -> String {
    let flags = fields().into_iter().find(|field| field.key == key).map(Field::all_flags);
    let flags: Vec<String> = flags.into_iter().flatten().map(|(name, ..)| format!("--{name}")).collect();
    if flags.is_empty() { key.to_owned() } else { format!("{key} ({})", flags.join(", ")) }
}

/// The entry that a name and a design mean.
fn entry(name: &str, design: Option<String>) -> Result<&'static Entry, WorkloadError> {
    let does = |entry: &&Entry| entry.design.is_some_and(|(does, _)| does == name);
    if let Some(entry) = SYSTEMS.iter().find(|entry| entry.name == name) {
        return match design {
            None => Ok(entry),
            Some(_) => {
                let designed = designed().join(" or ");
                invalid(format!("design (--design) goes with --system {designed} only"))
            }
        };
    }
    let is_it =
        |entry: &&Entry| design.as_deref().is_none_or(|d| entry.design.is_some_and(|(_, own)| own == d));
    match SYSTEMS.iter().filter(does).find(is_it) {
        Some(entry) => Ok(entry),
        None => {
            let designs = SYSTEMS.iter().filter(does).filter_map(|entry| Some(entry.design?.1));
            let designs: Vec<&str> = designs.collect();
            let asked = design.unwrap_or_default();
            invalid(format!("design is {asked}, but those of {name} are {}", designs.join(", ")))
        }
    }
}

/// What is given, and where that is not: no more cores of the server than it has, and the sockets of its machines.
fn usual_on(profile: &Profile, entry: &Entry, given: &Given) -> Given {
    let mut all = given.clone();
    let mut usually = |key: &str, on_profile: &dyn Fn(u64) -> u64| {
        let field = entry.fields.iter().find(|field| field.key == key && given.get(key).is_none());
        if let (Some(field), Some(Value::Number(usual))) = (field, entry.usual.get(key)) {
            let number = Value::Number(on_profile(*usual));
            all.set(field, number).expect("a profile has cores, and what is usual is in range");
        }
    };
    let cores = u64::from(profile.host.cores);
    usually("cores", &|usual| usual.min(cores));
    usually("sockets", &|_| profile.socket_count().into());
    usually("cores_per_socket", &|_| cores);
    all
}

fn read(given: &Given, key: &str) -> Result<Option<String>, WorkloadError> {
    given.read(key).map_err(WorkloadError::Invalid)
}

/// The system that is asked for by all that is given, if one is.
///
/// # Errors
/// If there is no such system, or something is given that it has not.
pub fn system_of(given: &Given) -> Result<Option<&'static Entry>, WorkloadError> {
    let Some(name) = read(given, "system")? else { return Ok(None) };
    let entry = entry(&name, read(given, "design")?)?;
    if given.get("machine").is_some() {
        return invalid(
            "with --system all machines are alike: a file must not have [[machine]] tables".into(),
        );
    }
    let has = |key: &str| BESIDE.contains(&key) || entry.fields.iter().any(|field| field.key == key);
    match given.keys().find(|key| !has(key)) {
        Some(key) => invalid(format!("{} means nothing to {}", called(key), entry.name)),
        None => Ok(Some(entry)),
    }
}

impl Asked {
    /// What is asked for by all that is given.
    ///
    /// # Errors
    /// If something is given that what is asked for has not, or a value is out of its range.
    pub fn of(given: &Given) -> Result<Asked, WorkloadError> {
        let Some(entry) = system_of(given)? else { return Asked::verbs(given) };
        let name = read(given, "profile")?.unwrap_or_else(|| Workload::default().profile_name().to_owned());
        let mut machines = Workload::default();
        (machines.profile, machines.host) = (Some(name), read(given, "host")?);
        machines.set = given.read("set").map_err(WorkloadError::Invalid)?;
        let profiles = machines.load_profiles()?;
        let profile = profiles.first();
        let mut system = entry.with(&usual_on(profile, entry, given)).map_err(WorkloadError::Invalid)?;
        system.check(profile)?;
        (system.profile, system.host, system.set) = (machines.profile, machines.host, machines.set);
        Ok(Asked::System(system))
    }

    fn verbs(given: &Given) -> Result<Asked, WorkloadError> {
        let has = |key: &str| Workload::fields().iter().any(|field| field.key == key);
        match given.keys().find(|key| !has(key)) {
            Some(key) => invalid(format!("{} is for systems: name one with --system", called(key))),
            None => Ok(Asked::Verbs(Box::new(Workload::of(given)?))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_means_the_same_wherever_it_is() {
        let mut known: Vec<&Field> = Vec::new();
        for field in
            Workload::fields().into_iter().chain(SYSTEMS.iter().flat_map(|e| e.fields.iter().copied()))
        {
            match known.iter().find(|other| other.key == field.key) {
                // What is usual differs.
                Some(other) => {
                    assert_eq!((field.about, field.kind, field.flags), (other.about, other.kind, other.flags))
                }
                None => known.push(field),
            }
        }
    }

    #[test]
    fn an_option_is_said_once_and_parameters_each() {
        let said = |texts: &[&str]| {
            let mut given = Given::default();
            texts.iter().try_for_each(|text| say(&mut given, text)).map(|()| given)
        };
        let both = said(&["set=tx.send_ns=1", "set=rx.read_ns=2"]).unwrap();
        assert_eq!(both.get("set").unwrap().read::<Settings>().unwrap().len(), 2);
        for (texts, wanted) in [
            (["size=1", "size=1"], "size is given more than once: give it once"),
            (["set=a=1", "set=a=2"], "set: a is given more than once: give it once"),
            (["size=1", "set==2"], "set is `=2`, which has no name before its ="),
            (
                ["size=1", "small-pages=true"],
                "`small-pages` is no option of a workload; is `huge_pages = false` meant?",
            ),
            (["size=1", "sise=1"], "`sise` is no option of a workload; is `size` meant?"),
        ] {
            assert_eq!(said(&texts).unwrap_err(), wanted);
        }
    }

    #[test]
    fn what_is_usual_is_told_of_each() {
        let of = |values: &[u32]| -> Vec<(&str, String)> {
            ["a", "b", "c", "d"].into_iter().zip(values.iter().map(u32::to_string)).collect()
        };
        assert_eq!(most_and_others(&of(&[70, 128, 70])), "70; b 128");
        assert_eq!(most_and_others(&of(&[1, 2, 2, 1])), "1; b, c 2");
        assert_eq!(most_and_others(&of(&[6, 6])), "6");
        assert_eq!(most_and_others(&[]), "");
        assert_eq!(systems_with("update"), ["drtm-kv"]);
        assert!(systems_with("seed").is_empty());
    }

    #[test]
    fn a_system_that_is_printed_can_be_asked_for_again() {
        for entry in SYSTEMS.iter() {
            let named = Workload {
                profile: Some("cx3".into()),
                host: Some("e5-2683-v3".into()),
                ..Workload::default()
            };
            let profiles = named.load_profiles().unwrap();
            let usual = usual_on(profiles.first(), entry, &Given::default());
            let mut system = entry.with(&usual).unwrap();
            (system.profile, system.host) = (Some("cx3".into()), Some("e5-2683-v3".into()));
            system.set = Some([("tx.send_ns".to_owned(), "20.5".parse().unwrap())].into());
            let json = serde_json::to_string(&system).unwrap();
            let given = Given::from_json("w", &json, &fields()).unwrap();
            assert_eq!(Asked::of(&given).unwrap(), Asked::System(system));
        }
    }
}
