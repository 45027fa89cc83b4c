//! Settings in which compared workloads differ, and settings that become alike.

use crate::asked::{Asked, option};
use crate::load::at_some_rate;
use crate::plan::Run;
use doorbell_schema::{Field, FieldKind, Given};
use doorbell_workload::{ThreadClass, Workload, keys};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;

/// A setting of a workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Setting {
    /// An option of the workload, by its key.
    Own(String),
    /// An option of a thread class.
    OfClass {
        /// The name of the class, or its number.
        class: String,
        /// The key of the option.
        key: String,
    },
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Own(key) => f.write_str(key),
            Setting::OfClass { class, key } => write!(f, "class {class}: {key}"),
        }
    }
}

impl Setting {
    /// The option that gives it.
    fn given_by(&self) -> &str {
        match self {
            Setting::Own(key) => key,
            Setting::OfClass { .. } => Workload::class.key,
        }
    }
}

/// Keys of the window of a thread and of the window of a QP. A workload has one of these windows, so they
/// count as one setting.
const WINDOWS: [&str; 2] = [Workload::window.key, Workload::window_per_qp.key];

/// The keys that a workload may have in place of this key, with the key itself.
fn kinds(key: &str) -> impl Iterator<Item = &str> {
    let is_window = WINDOWS.contains(&key);
    std::iter::once(key).chain(WINDOWS.into_iter().filter(move |other| is_window && *other != key))
}

/// Settings with values that differ between workloads, each with the value of every workload. The value is
/// null if the workload lacks the setting.
pub(super) type Differing = BTreeMap<Setting, Vec<Value>>;

/// The settings of a workload. Options of each thread class are separate settings.
fn settings(workload: &Value) -> BTreeMap<Setting, &Value> {
    let Some(fields) = workload.as_object() else { return BTreeMap::new() };
    let own = |key: &String| Setting::Own(key.clone());
    let Some(Value::Array(classes)) = fields.get(Workload::class.key) else {
        return fields.iter().map(|(key, value)| (own(key), value)).collect();
    };
    // The top level only repeats the first class's options of threads, so they are left out there.
    let is_own = |key: &str| {
        key == Workload::threads.key
            || (key != Workload::class.key && ThreadClass::FIELDS.iter().all(|field| field.key != key))
    };
    let own = fields.iter().filter(|(key, _)| is_own(key)).map(|(key, value)| (own(key), value));
    let of_classes = classes.iter().enumerate().flat_map(|(number, class)| {
        let name = class[ThreadClass::NAME].as_str().map_or_else(|| number.to_string(), str::to_owned);
        let options = class.as_object().into_iter().flatten().filter(|(key, _)| *key != ThreadClass::NAME);
        options.map(move |(key, value)| (Setting::OfClass { class: name.clone(), key: key.clone() }, value))
    });
    own.chain(of_classes).collect()
}

/// Settings with values that differ between workloads.
pub(super) fn differing(workloads: &[Value]) -> Differing {
    let workloads: Vec<BTreeMap<Setting, &Value>> = workloads.iter().map(settings).collect();
    let value = |of: &BTreeMap<Setting, &Value>, key: &Setting| {
        of.get(key).map_or(Value::Null, |value| (*value).clone())
    };
    let values = |key: &Setting| workloads.iter().map(|of| value(of, key)).collect::<Vec<_>>();
    let all: Differing =
        workloads.iter().flat_map(BTreeMap::keys).map(|key| (key.clone(), values(key))).collect();
    all.into_iter().filter(|(_, values)| values.iter().any(|value| *value != values[0])).collect()
}

/// The differing settings that the user gave for no side.
pub(super) struct Untyped {
    /// Settings with different values: defaults that differ. Other sides may lack the setting.
    pub(super) defaults: Vec<Setting>,
    /// Settings that some sides lack, and that all others have with one value.
    pub(super) partial: Vec<Setting>,
}

impl Untyped {
    pub(super) fn of(options: &Differing, sides: &[(String, Given)]) -> Untyped {
        // A load gives the rate, too.
        let gives = |given: &Given, key: &str| {
            kinds(key).any(|kind| given.get(kind).is_some())
                || key == Workload::rate.key && given.get(keys::LOAD).is_some()
        };
        let typed = |key: &str| sides.iter().any(|(_, given)| gives(given, key));
        let untyped = options.iter().filter(|(setting, _)| !typed(setting.given_by()));
        let (defaults, partial) = untyped.partition::<Vec<_>, _>(|(setting, values)| {
            let first = first_of(values);
            let differ = values.iter().any(|value| !value.is_null() && Some(value) != first);
            differ || has_another_kind(setting, values, options)
        });
        let settings =
            |all: Vec<(&Setting, &Vec<Value>)>| all.into_iter().map(|(setting, _)| setting.clone()).collect();
        Untyped { defaults: settings(defaults), partial: settings(partial) }
    }
}

/// Whether a side without this setting has a setting in its place.
fn has_another_kind(setting: &Setting, values: &[Value], options: &Differing) -> bool {
    let Setting::Own(key) = setting else { return false };
    let others = kinds(key).skip(1).filter_map(|kind| options.get(&Setting::Own(kind.to_owned())));
    others
        .flat_map(move |others| values.iter().zip(others))
        .any(|(own, other)| own.is_null() && !other.is_null())
}

/// The value of the first side that has a setting.
fn first_of(values: &[Value]) -> Option<&Value> {
    values.iter().find(|value| !value.is_null())
}

/// The run of each side. `rated` replaces a load by a rate.
///
/// # Errors
/// One sentence that names the side, if the side's workload is invalid.
pub(super) fn runs(
    sides: &[(String, Given)],
    rated: &dyn Fn(Given) -> Result<Given, String>,
) -> Result<Vec<(String, Run)>, String> {
    let run = |(name, given): &(String, Given)| {
        let refused = |why: String| format!("at {name}: {why}");
        let given = rated(given.clone()).map_err(refused)?;
        let asked = Asked::of(&given).map_err(|error| refused(error.to_string()))?;
        Ok((name.clone(), Run::asked(asked).map_err(|error| refused(error.to_string()))?))
    };
    sides.iter().map(run).collect()
}

/// Sides that differ only in settings that the user gave, and in settings that some sides lack.
pub(super) struct Alike {
    pub(super) sides: Vec<(String, Given)>,
    /// The settings that became alike, by their keys, with their values.
    pub(super) made: BTreeMap<String, Value>,
}

impl Alike {
    /// Makes each setting alike whose default differs between sides that have it: these sides get the value
    /// of the first of them. A value may change other defaults, so this repeats until no such setting is
    /// left.
    ///
    /// # Errors
    /// One sentence that names the side, if a side cannot have the value.
    pub(super) fn of(typed: &[(String, Given)]) -> Result<Alike, String> {
        let mut alike = Alike { sides: typed.to_vec(), made: BTreeMap::new() };
        loop {
            // The capacities for loads are measured later.
            let workloads: Vec<Value> = runs(&alike.sides, &at_some_rate)
                .map_err(|why| alike.because(&why))?
                .into_iter()
                .map(|(_, run)| run.json())
                .collect();
            let options = differing(&workloads);
            let differ = Untyped::of(&options, typed).defaults;
            let mut choices = differ.iter().filter_map(|setting| Choice::of(setting, &options));
            let is_new = |choice: &Choice| !alike.made.contains_key(choice.field.key);
            let Some(choice) = choices.find(is_new) else { return Ok(alike) };
            alike.give(choice)?;
        }
    }

    /// Gives a value to the sides of a choice.
    fn give(&mut self, choice: Choice) -> Result<(), String> {
        let Choice { field, value, sides } = choice;
        let text = shown(&value);
        self.made.insert(field.key.to_owned(), value);
        for ((name, given), _) in self.sides.iter_mut().zip(sides).filter(|(_, gets_it)| *gets_it) {
            let set = field.parse(&text).and_then(|value| given.set(field, value));
            set.map_err(|why| format!("at {name}, with --same: {why}"))?;
        }
        Ok(())
    }

    /// A refusal of the sides, with the settings that led to it.
    fn because(&self, why: &str) -> String {
        if self.made.is_empty() {
            return why.to_owned();
        }
        let made: Vec<String> =
            self.made.iter().map(|(key, value)| format!("{key}={}", shown(value))).collect();
        format!(
            "--same gives all sides {}, but {why}: put this side first, or give the option to each side",
            made.join(" ")
        )
    }
}

/// A value that makes a setting alike.
struct Choice {
    field: &'static Field,
    /// The value of the first side that has the setting.
    value: Value,
    /// For each side, whether it has the setting.
    sides: Vec<bool>,
}

impl Choice {
    /// The choice for this setting, one of `options`; `None` if no text can give it. The first side decides
    /// which of several kinds of the setting all sides get.
    fn of(setting: &Setting, options: &Differing) -> Option<Choice> {
        let Setting::Own(key) = setting else { return None };
        let kinds: Vec<(&Setting, &Vec<Value>)> =
            kinds(key).filter_map(|kind| options.get_key_value(&Setting::Own(kind.to_owned()))).collect();
        let own = |side: usize| {
            let mut all = kinds.iter().map(|(kind, values)| (*kind, &values[side]));
            all.find(|(_, value)| !value.is_null())
        };
        let all: Vec<Option<(&Setting, &Value)>> = (0..options[setting].len()).map(own).collect();
        let (kind, value) = all.iter().copied().flatten().next()?;
        let sides = all.iter().map(Option::is_some).collect();
        Some(Choice { field: settable(kind)?, value: value.clone(), sides })
    }
}

/// A value as users write it.
fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The field of a setting that a text can give.
fn settable(setting: &Setting) -> Option<&'static Field> {
    let Setting::Own(key) = setting else { return None };
    let field = option(key).ok()?;
    (!matches!(field.kind, FieldKind::Settings)).then_some(field)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn options_of_classes_differ_one_by_one() {
        let side = |qps: u32, size: u32| {
            json!({
                "machines": 2, "threads": 3, "qps": qps,
                "class": [{"threads": 1, "qps": qps}, {"name": "b", "threads": 2, "qps": 1, "size": size}],
            })
        };
        let differ = differing(&[side(1, 8), side(2, 8), json!({"machines": 2, "threads": 3, "qps": 1})]);
        let keys: Vec<String> = differ.keys().map(Setting::to_string).collect();
        let of_classes =
            ["class 0: qps", "class 0: threads", "class b: qps", "class b: size", "class b: threads"];
        assert_eq!(keys, [&["qps"][..], &of_classes].concat());
        let of_class = |class: &str, key: &str| Setting::OfClass { class: class.into(), key: key.into() };
        assert_eq!(differ[&of_class("0", "qps")], [json!(1), json!(2), json!(null)]);
        let size = differing(&[side(1, 8), side(1, 9)]);
        assert_eq!(size.into_keys().collect::<Vec<_>>(), [of_class("b", "size")]);
    }

    fn sides(texts: &[&str]) -> Vec<(String, Given)> {
        let side = |text: &&str| {
            let mut given = Given::default();
            text.split_whitespace().for_each(|word| crate::say(&mut given, word).unwrap());
            ((*text).to_owned(), given)
        };
        texts.iter().map(side).collect()
    }

    fn different(sides: &[(String, Given)]) -> Differing {
        let runs = runs(sides, &at_some_rate).unwrap();
        differing(&runs.iter().map(|(_, run)| run.json()).collect::<Vec<_>>())
    }

    fn own(key: &str) -> Setting {
        Setting::Own(key.to_owned())
    }

    #[test]
    fn settings_that_nobody_typed_are_found() {
        let stores = sides(&["system=read-kv", "system=herd-kv"]);
        let options = different(&stores);
        assert_eq!(options[&own("outstanding")], [json!(16), json!(32)]);
        assert_eq!(options[&own("put_permille")], [json!(0), json!(50)]);
        let defaults = Untyped::of(&options, &stores).defaults;
        assert!(["outstanding", "put_permille"].iter().all(|key| defaults.contains(&own(key))));
        assert!(!defaults.contains(&own("system")));
        let typed = sides(&["system=read-kv", "system=herd-kv outstanding=8"]);
        assert!(!Untyped::of(&different(&typed), &typed).defaults.contains(&own("outstanding")));
    }

    #[test]
    fn forms_of_one_value_do_not_differ() {
        for texts in [
            ["system=rpc request_size=64B", "system=rpc request_size=64:3"],
            ["system=rpc host=E5-2450 profile=CIB", "system=rpc host=e5-2450"],
            ["verb=READ host=E5-2450 size=4k", "verb=read host=e5-2450 size=4096"],
        ] {
            assert_eq!(different(&sides(&texts)), Differing::new(), "{texts:?}");
        }
    }

    /// A third side without an option hides no difference between the sides that have it.
    #[test]
    fn sides_that_lack_an_option_are_left_out() {
        let all = sides(&["system=rpc", "system=herd-kv", "system=read-kv"]);
        let options = different(&all);
        assert_eq!(options[&own("put_permille")], [json!(null), json!(50), json!(0)]);
        let untyped = Untyped::of(&options, &all);
        assert!(
            untyped.defaults.contains(&own("put_permille")) && untyped.partial.contains(&own("request_size"))
        );
        let alike = Alike::of(&all).unwrap();
        assert_eq!(alike.made["put_permille"], json!(50));
        assert!(!alike.made.contains_key("request_size"));
        let left = Untyped::of(&different(&alike.sides), &all);
        assert!(left.defaults.is_empty(), "{:?}", left.defaults);
        assert!(!left.partial.is_empty());
    }

    #[test]
    fn sides_become_alike_but_for_what_was_typed() {
        let stores = sides(&["system=read-kv value=64", "system=herd-kv value=128"]);
        let alike = Alike::of(&stores).unwrap();
        assert_eq!(alike.made["outstanding"], json!(16));
        let options = different(&alike.sides);
        assert_eq!(options[&own("value")], [json!(64), json!(128)]);
        let left = Untyped::of(&options, &stores).defaults;
        assert!(left.is_empty(), "{left:?}");
    }

    /// A window of a QP and a window of a thread are values of one setting.
    #[test]
    fn windows_of_either_kind_become_alike() {
        let sides_of = |texts: &[&str]| {
            let all = sides(texts);
            let options = different(&all);
            (Untyped::of(&options, &all).defaults, Alike::of(&all).unwrap())
        };
        let (defaults, alike) = sides_of(&["verb=write signal_every=16", "verb=write signal_every=1"]);
        assert!(WINDOWS.iter().all(|key| defaults.contains(&own(key))), "{defaults:?}");
        assert!(alike.made["window_per_qp"].is_u64() && !alike.made.contains_key("window"));
        let left = different(&alike.sides);
        assert!(WINDOWS.iter().all(|key| !left.contains_key(&own(key))), "{left:?}");
        // The window that was typed stays, and so does the other side's window.
        let (defaults, alike) =
            sides_of(&["verb=write signal_every=16", "verb=write signal_every=1 window=8"]);
        for key in WINDOWS {
            assert!(!defaults.contains(&own(key)) && !alike.made.contains_key(key), "{key}");
        }
    }

    #[test]
    fn the_rate_of_a_load_is_typed() {
        let loaded = sides(&["arrivals=poisson load=70%", "arrivals=poisson rate=5M"]);
        let options = different(&loaded);
        let untyped = Untyped::of(&options, &loaded);
        assert!(options.contains_key(&own("rate")), "{options:?}");
        assert!(!untyped.defaults.contains(&own("rate")) && !untyped.partial.contains(&own("rate")));
    }

    #[test]
    fn a_value_that_a_side_cannot_have_is_refused() {
        let error = Alike::of(&sides(&["verb=write", "verb=read"])).err().unwrap();
        assert!(error.starts_with("--same gives all sides ") && error.contains("at verb=read: "), "{error}");
    }
}
