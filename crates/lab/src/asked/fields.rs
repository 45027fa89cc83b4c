//! The fields of a request: the workload fields, and the fields that only systems have.

use doorbell_nic::Profile;
use doorbell_programs::systems::{SYSTEMS, SystemEntry};
use doorbell_schema::{Field, FieldKind, Given, Schema, Settings, Share, Value, meant, synonyms};
use doorbell_workload::{Workload, keys};
use std::sync::LazyLock;

/// Values of the field `system`: first the tasks that have several designs, then the systems.
static NAMES: LazyLock<Vec<&str>> =
    LazyLock::new(|| designed().into_iter().chain(SYSTEMS.iter().map(|entry| entry.name)).collect());

/// Values of the field `design`. Designs of different tasks may share a name.
static DESIGNS: LazyLock<Vec<&str>> = LazyLock::new(|| each_once(|(_, design)| design));

/// The tasks that have several designs.
pub fn designed() -> Vec<&'static str> {
    each_once(|(does, _)| does)
}

/// Applies `of` to each design. Returns the distinct results.
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
    Field::name(&NAMES).shown("SYSTEM").named(keys::SYSTEM, "System to run; machine 0 is the server")
});

/// The field that names the system's design.
static DESIGN: LazyLock<Field> = LazyLock::new(|| {
    let usual = "rpc; spinlock remote";
    Field::name(&DESIGNS)
        .shown("DESIGN")
        .usual(usual)
        .named(keys::DESIGN, "Design of the sequencer or spinlock")
});

/// The field for the rate of an open loop as a share of its capacity. A run measures the capacity, so
/// workloads and systems themselves have no load.
static LOAD: Field = Field::share(Share::of_millionths(100), Share::of_percent(1000)).named(
    keys::LOAD,
    "Open loop: the rate, as a share of the rate of a closed loop with the same options, such as 70%",
);

/// Fields that select a system and its machines. Every system has them besides its own parameters.
pub const SYSTEM_SELECTORS: [&str; 7] = [
    keys::SYSTEM,
    keys::DESIGN,
    Workload::profile.key,
    Workload::host.key,
    Workload::pcie.key,
    Workload::link.key,
    Workload::set.key,
];

/// The options that name and change the machines, among the given ones.
pub(super) fn of_machines(given: &Given) -> Result<Workload, String> {
    let mut only = given.clone();
    let others = given.keys().filter(|key| !SYSTEM_SELECTORS.contains(key)).collect::<Vec<_>>();
    others.into_iter().for_each(|key| drop(only.remove(key)));
    let mut machines = Workload::default();
    machines.apply(&only)?;
    Ok(machines)
}

/// All fields: first the fields of verbs workloads and the load, then the fields that only systems have.
pub fn fields() -> Vec<&'static Field> {
    let mut all = Workload::fields();
    all.push(&LOAD);
    all.extend(system_fields());
    all
}

/// Looks up the option with this key, or the option that the flag of this name sets.
///
/// # Errors
/// One sentence if there is no such option, or if only a file can set the option.
pub(crate) fn option(name: &str) -> Result<&'static Field, String> {
    option_beside(&Given::default(), name)
}

/// Looks up an option as [`option`] does. If `given` names a system, an error suggests only options that this
/// system has.
fn option_beside(given: &Given, name: &str) -> Result<&'static Field, String> {
    let key = name.trim_start_matches('-').replace('-', "_");
    match fields().into_iter().find(|field| field.key == key) {
        Some(field) if matches!(field.kind, FieldKind::Tables(_)) => {
            Err(format!("{key} consists of tables, so it can only be set in a file"))
        }
        Some(field) => Ok(field),
        None => Err(match meant_beside(given, &key) {
            Some(meant) => format!("`{name}` is not an option of a workload; did you mean `{meant}`?"),
            None => format!(
                "`{name}` is not an option of a workload: `doorbell simulate --help` lists the \
                 options"
            ),
        }),
    }
}

/// The option that an unknown key may be meant for. Of verbs and systems with one synonym, verbs count if
/// `given` names no system.
fn meant_beside(given: &Given, key: &str) -> Option<String> {
    let Some(system) = given.read::<String>(keys::SYSTEM).ok().flatten() else {
        let of_verbs = synonyms(key, &Workload::fields()).next().map(|field| field.key.to_owned());
        return of_verbs.or_else(|| meant(key, &fields()));
    };
    let is_it = |entry: &&SystemEntry| {
        entry.name == system || entry.design.is_some_and(|(does, _)| does == system.as_str())
    };
    let of_system = SYSTEMS.iter().filter(is_it).flat_map(|entry| entry.fields.iter().copied());
    let beside = fields().into_iter().filter(|field| SYSTEM_SELECTORS.contains(&field.key));
    let mut all: Vec<&'static Field> = Vec::new();
    for field in of_system.chain(beside) {
        if all.iter().all(|known| known.key != field.key) {
            all.push(field);
        }
    }
    meant(key, &all)
}

/// Sets an option in `given` from a text such as `size=64`.
///
/// # Errors
/// One sentence if there is no such option, or the value is invalid.
pub fn say(given: &mut Given, text: &str) -> Result<(), String> {
    let wrong = || format!("`{text}` is not an option with a value, such as size=64");
    let (name, value) = text.split_once('=').ok_or_else(wrong)?;
    let field = option_beside(given, name)?;
    let value = match (given.remove(field.key), field.parse(value)?) {
        // `set` may be given several times, because each one sets another parameter.
        (Some(Value::Settings(before)), Value::Settings(more)) => Value::Settings(both(before, more)?),
        (Some(_), _) => return Err(format!("{} is given more than once: give it once", field.key)),
        (None, value) => value,
    };
    given.set(field, value)
}

/// A value of a field as Doorbell writes it: built-in profiles and hosts have one name, in any capitals.
pub(crate) fn canonical(field: &Field, value: Value) -> Value {
    match value {
        Value::Text(name) if field.key == Workload::profile.key => {
            Value::Text(Profile::canonical(&name).to_owned())
        }
        Value::Text(name) if field.key == Workload::host.key => {
            Value::Text(Profile::canonical_host(&name).to_owned())
        }
        value => value,
    }
}

/// Merges two sets of profile parameters.
///
/// # Errors
/// One sentence if a parameter is in both sets.
pub fn both(all: Settings, more: Settings) -> Result<Settings, String> {
    match more.keys().find(|name| all.contains_key(*name)) {
        Some(twice) => Err(format!("set: {twice} is given more than once: give it once")),
        None => Ok(all.into_iter().chain(more).collect()),
    }
}

/// The fields that only systems have.
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

/// The usual value of a system's parameter in words, if there is one.
pub fn usual_of(entry: &SystemEntry, key: &str) -> Option<String> {
    let value = entry.usual.get(key)?;
    // Closed loops have the rate 0. Open loops have no usual rate.
    let is_no_rate = key == Workload::rate.key && *value == Value::Number(0);
    (!is_no_rate).then(|| value.to_string().replace('`', ""))
}

/// The usual values of a system parameter in words: the most frequent value, then each other value with the
/// names of its systems.
pub fn usual_of_systems(key: &str) -> String {
    let of = |entry: &'static SystemEntry| Some((entry.name, usual_of(entry, key)?));
    most_and_others(&SYSTEMS.iter().filter_map(of).collect::<Vec<_>>())
}

/// The most frequent of these values, then each other value with the names of its systems.
fn most_and_others(all: &[(&str, String)]) -> String {
    let times = |value: &str| all.iter().filter(|(_, other)| other == value).count();
    // Of several equally frequent values, takes the first.
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

/// The systems that have this parameter; empty if all systems have it.
pub fn systems_with(key: &str) -> Vec<&'static str> {
    let has = |entry: &&SystemEntry| entry.fields.iter().any(|field| field.key == key);
    let names: Vec<&str> = SYSTEMS.iter().filter(has).map(|entry| entry.name).collect();
    if names.len() == SYSTEMS.len() { Vec::new() } else { names }
}

/// The key of a field and its flags, for a message.
pub(super) fn called(key: &str) -> String {
    let flags = fields().into_iter().find(|field| field.key == key).map(Field::all_flags);
    let flags: Vec<String> = flags.into_iter().flatten().map(|(name, ..)| format!("--{name}")).collect();
    if flags.is_empty() { key.to_owned() } else { format!("{key} ({})", flags.join(", ")) }
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
                // Systems may differ in the usual value of a parameter, but in nothing else.
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
                "`small-pages` is not an option of a workload; did you mean `huge_pages = false`?",
            ),
            (["size=1", "sise=1"], "`sise` is not an option of a workload; did you mean `size`?"),
            (["size=1", "depth=2"], "`depth` is not an option of a workload; did you mean `window`?"),
            (
                ["system=rpc", "depth=2"],
                "`depth` is not an option of a workload; did you mean `outstanding`?",
            ),
            (["system=rpc", "nodes=2"], "`nodes` is not an option of a workload; did you mean `clients`?"),
            (
                ["system=rpc", "payload=2"],
                "`payload` is not an option of a workload; did you mean `request_size` or `reply_size`?",
            ),
            (
                ["system=read-kv", "payload=2"],
                "`payload` is not an option of a workload; did you mean `value`?",
            ),
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
}
