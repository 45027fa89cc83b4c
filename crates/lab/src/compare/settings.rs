//! Settings in which compared workloads differ, and settings that become alike.

use crate::asked::{Asked, option};
use crate::plan::Run;
use doorbell_schema::{Field, FieldKind, Given};
use doorbell_workload::ThreadClass;
use serde_json::Value;
use std::collections::BTreeMap;

/// Keys with values that differ between workloads, each with the value of every workload.
pub(super) type Differing = BTreeMap<String, Vec<Value>>;

/// Moves the options of each thread class to the top level, prefixed by the name of the class or its number.
fn with_classes_apart(workload: &Value) -> Value {
    let mut apart = workload.clone();
    let Some(fields) = apart.as_object_mut() else { return apart };
    let Some(Value::Array(classes)) = fields.remove("class") else { return apart };
    // The top level only repeats the first class's options of threads, so they are dropped there.
    fields.retain(|key, _| key == "threads" || ThreadClass::FIELDS.iter().all(|field| field.key != key));
    for (number, class) in classes.iter().enumerate() {
        let name = class["name"].as_str().map_or_else(|| number.to_string(), str::to_owned);
        for (key, value) in class.as_object().into_iter().flatten().filter(|(key, _)| *key != "name") {
            fields.insert(format!("class {name}: {key}"), value.clone());
        }
    }
    apart
}

/// Keys with values that differ between workloads.
pub(super) fn differing(workloads: &[Value]) -> Differing {
    let workloads: Vec<Value> = workloads.iter().map(with_classes_apart).collect();
    let keys = workloads.iter().filter_map(|w| w.as_object()).flat_map(|w| w.keys());
    let values = |key: &String| workloads.iter().map(|w| w[key.as_str()].clone()).collect::<Vec<_>>();
    let all: Differing = keys.map(|key| (key.clone(), values(key))).collect();
    all.into_iter().filter(|(_, values)| values.iter().any(|value| *value != values[0])).collect()
}

/// The differing settings that the user gave for no side.
pub(super) fn untyped(options: &Differing, sides: &[(String, Given)]) -> Vec<String> {
    let typed = |key: &str| sides.iter().any(|(_, given)| given.get(key).is_some());
    let is_untyped = |key: &&String| {
        let of_class = key.starts_with("class ") && key.contains(": ");
        !typed(if of_class { "class" } else { key })
    };
    options.keys().filter(is_untyped).cloned().collect()
}

/// The run of each side.
///
/// # Errors
/// One sentence that names the side, if the side's workload is invalid.
pub(super) fn runs(sides: &[(String, Given)]) -> Result<Vec<(String, Run)>, String> {
    let run = |(name, given): &(String, Given)| {
        let refused = |why: String| format!("at {name}: {why}");
        let asked = Asked::of(given).map_err(|error| refused(error.to_string()))?;
        Ok((name.clone(), Run::asked(asked).map_err(|error| refused(error.to_string()))?))
    };
    sides.iter().map(run).collect()
}

/// Sides that differ only in settings that the user gave, and in settings that some sides lack.
pub(super) struct Alike {
    pub(super) sides: Vec<(String, Given)>,
    /// The settings that became alike, with their values.
    pub(super) made: BTreeMap<String, Value>,
}

impl Alike {
    /// Gives all sides the first side's value of each setting that differs and that the user gave for no
    /// side. A value may change other defaults, so this repeats until no such setting is left.
    ///
    /// # Errors
    /// One sentence that names the side, if a side cannot have the value.
    pub(super) fn of(typed: &[(String, Given)]) -> Result<Alike, String> {
        let mut alike = Alike { sides: typed.to_vec(), made: BTreeMap::new() };
        loop {
            let workloads: Vec<Value> = runs(&alike.sides)
                .map_err(|why| alike.because(&why))?
                .into_iter()
                .map(|(_, run)| run.json())
                .collect();
            let options = differing(&workloads);
            let untyped = untyped(&options, typed);
            let next = untyped.into_iter().filter(|key| !alike.made.contains_key(key)).find_map(|key| {
                let value = shared(&options[&key])?;
                Some((settable(&key)?, key, value))
            });
            let Some((field, key, value)) = next else { return Ok(alike) };
            alike.give(field, &value)?;
            alike.made.insert(key, value);
        }
    }

    fn give(&mut self, field: &Field, value: &Value) -> Result<(), String> {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        for (name, given) in &mut self.sides {
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
        let shown = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let made: Vec<String> =
            self.made.iter().map(|(key, value)| format!("{key}={}", shown(value))).collect();
        format!(
            "--same gives all sides {}, but {why}: put this side first, or give the option to each side",
            made.join(" ")
        )
    }
}

/// The first side's value, if all sides have the setting.
fn shared(values: &[Value]) -> Option<Value> {
    values.iter().all(|value| !value.is_null()).then(|| values[0].clone())
}

/// The field of a setting that a text can give.
fn settable(key: &str) -> Option<&'static Field> {
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
        let keys: Vec<&str> = differ.keys().map(String::as_str).collect();
        let of_classes =
            ["class 0: qps", "class 0: threads", "class b: qps", "class b: size", "class b: threads"];
        assert_eq!(keys, [&of_classes[..], &["qps"]].concat());
        assert_eq!(differ["class 0: qps"], [json!(1), json!(2), json!(null)]);
        assert_eq!(differing(&[side(1, 8), side(1, 9)]).into_keys().collect::<Vec<_>>(), ["class b: size"]);
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
        let runs = runs(sides).unwrap();
        differing(&runs.iter().map(|(_, run)| run.json()).collect::<Vec<_>>())
    }

    #[test]
    fn settings_that_nobody_typed_are_found() {
        let stores = sides(&["system=read-kv", "system=herd-kv"]);
        let options = different(&stores);
        assert_eq!(options["outstanding"], [json!(16), json!(32)]);
        assert_eq!(options["put_permille"], [json!(0), json!(50)]);
        let untyped = untyped(&options, &stores);
        assert!(["outstanding", "put_permille"].iter().all(|key| untyped.iter().any(|own| own == key)));
        assert!(!untyped.contains(&"system".to_owned()));
        let typed = sides(&["system=read-kv", "system=herd-kv outstanding=8"]);
        assert!(!super::untyped(&different(&typed), &typed).contains(&"outstanding".to_owned()));
    }

    #[test]
    fn sides_become_alike_but_for_what_was_typed() {
        let stores = sides(&["system=read-kv value=64", "system=herd-kv value=128"]);
        let alike = Alike::of(&stores).unwrap();
        assert_eq!(alike.made["outstanding"], json!(16));
        let options = different(&alike.sides);
        assert_eq!(options["value"], [json!(64), json!(128)]);
        let left = untyped(&options, &stores);
        assert!(left.iter().all(|key| options[key].iter().any(Value::is_null)), "{left:?}");
    }

    #[test]
    fn a_value_that_a_side_cannot_have_is_refused() {
        let error = Alike::of(&sides(&["verb=write", "verb=read"])).err().unwrap();
        assert!(error.starts_with("--same gives all sides ") && error.contains("at verb=read: "), "{error}");
    }
}
