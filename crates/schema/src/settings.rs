//! Numbers by names. Only the code that uses the numbers knows the names.

use serde::de::value::{Error as ValueError, F64Deserializer};
use serde::de::{Error, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

/// Numbers by names.
pub type Settings = BTreeMap<String, Real>;

/// A finite number; yes is 1, and no is 0.
#[derive(Clone, Copy, Debug)]
pub struct Real(f64);

impl Real {
    /// The number, if it is finite.
    pub fn new(number: f64) -> Option<Real> {
        // Adding 0.0 turns -0.0 into 0.0, so that equal numbers have equal bits.
        number.is_finite().then_some(Real(number + 0.0))
    }

    /// The number as a float.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl PartialEq for Real {
    fn eq(&self, other: &Real) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Real {}

impl PartialOrd for Real {
    fn partial_cmp(&self, other: &Real) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Real {
    fn cmp(&self, other: &Real) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl Hash for Real {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl fmt::Display for Real {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The kind of value that a setting must have.
const WANTED: &str = "a number, true or false";

impl FromStr for Real {
    type Err = String;

    fn from_str(text: &str) -> Result<Real, String> {
        let number = match text {
            "true" => Some(1.0),
            "false" => Some(0.0),
            _ => text.parse().ok(),
        };
        number.and_then(Real::new).ok_or_else(|| WANTED.to_owned())
    }
}

impl Serialize for Real {
    /// Writes whole numbers without a point.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const EXACT: f64 = (1_u64 << 53) as f64;
        match self.0.fract() == 0.0 && self.0.abs() <= EXACT {
            true => serializer.serialize_i64(self.0 as i64),
            false => serializer.serialize_f64(self.0),
        }
    }
}

impl IntoDeserializer<'_, ValueError> for Real {
    type Deserializer = F64Deserializer<ValueError>;

    fn into_deserializer(self) -> F64Deserializer<ValueError> {
        self.0.into_deserializer()
    }
}

impl<'de> Deserialize<'de> for Real {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Real, D::Error> {
        match SettingOrSection::deserialize(deserializer)? {
            SettingOrSection::Number(number) => Ok(number),
            SettingOrSection::Section(_) => Err(D::Error::custom(format!("a table, but must be {WANTED}"))),
        }
    }
}

/// A setting, or the settings of a section: in TOML `tx.send_ns = 20` is a table `tx`.
enum SettingOrSection {
    Number(Real),
    Section(Settings),
}

impl<'de> Deserialize<'de> for SettingOrSection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SettingOrSection, D::Error> {
        deserializer.deserialize_any(SettingVisitor)
    }
}

struct SettingVisitor;

impl<'de> Visitor<'de> for SettingVisitor {
    type Value = SettingOrSection;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(WANTED)
    }

    fn visit_bool<E: Error>(self, flag: bool) -> Result<SettingOrSection, E> {
        self.visit_f64(f64::from(u8::from(flag)))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<SettingOrSection, E> {
        self.visit_f64(number as f64)
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<SettingOrSection, E> {
        self.visit_f64(number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<SettingOrSection, E> {
        let finite = Real::new(number).ok_or_else(|| E::custom(format!("{number} is not finite")))?;
        Ok(SettingOrSection::Number(finite))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SettingOrSection, A::Error> {
        let mut section = Settings::new();
        while let Some((name, number)) = map.next_entry::<String, Real>()? {
            insert::<A::Error>(&mut section, name, number)?;
        }
        Ok(SettingOrSection::Section(section))
    }
}

fn insert<E: Error>(settings: &mut Settings, name: String, number: Real) -> Result<(), E> {
    match settings.insert(name.clone(), number) {
        None => Ok(()),
        Some(_) => Err(E::custom(format!("{name} is set twice"))),
    }
}

/// Reads settings, some of which may be in sections.
pub(crate) fn read<'de, A: MapAccess<'de>>(mut map: A) -> Result<Settings, A::Error> {
    let mut settings = Settings::new();
    while let Some((name, told)) = map.next_entry::<String, SettingOrSection>()? {
        match told {
            SettingOrSection::Number(number) => insert::<A::Error>(&mut settings, name, number)?,
            SettingOrSection::Section(section) => {
                for (key, number) in section {
                    insert::<A::Error>(&mut settings, format!("{name}.{key}"), number)?;
                }
            }
        }
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Field, Given, Value};

    const SET: Field = Field::settings().named("set", "Parameters.");
    const FIELDS: &[&Field] = &[&SET];

    fn settings(of: &[(&str, f64)]) -> Value {
        Value::Settings(of.iter().map(|(name, n)| ((*name).to_owned(), Real::new(*n).unwrap())).collect())
    }

    #[test]
    fn files_and_flags_say_the_same() {
        let same = settings(&[("nic.inline", 1.0), ("tx.send_ns", 20.0)]);
        for toml in [
            "[set]\ntx.send_ns = 20\nnic.inline = true",
            "set = { \"tx.send_ns\" = 20.0, nic = { inline = 1 } }",
        ] {
            let given = Given::from_toml("w.toml", toml, FIELDS).unwrap();
            assert_eq!(given.get("set"), Some(&same), "{toml}");
        }
        let json = r#"{"set":{"nic.inline":1,"tx.send_ns":20}}"#;
        let given = Given::from_json("w.json", json, FIELDS).unwrap();
        assert_eq!(given.get("set"), Some(&same));
        assert_eq!(serde_json::to_string(&given).unwrap(), json);
        assert_eq!(given.read::<Settings>("set").map(|s| Value::of(&s)), Ok(Some(same)));
        assert_eq!(SET.parse("tx.send_ns = 20.5"), Ok(settings(&[("tx.send_ns", 20.5)])));
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        for (toml, wanted) in [
            ("\nset = 3", "w.toml:2: set is 3, but must be a table of numbers"),
            (
                "[set]\ntx.send_ns = \"fast\"",
                "w.toml:2: invalid type: string \"fast\", expected a number, true",
            ),
            ("[set]\ntx.a.b = 1", "w.toml:2: a table, but must be a number, true or false"),
            ("[set]\na = nan", "w.toml:2: NaN is not finite"),
            ("[set]\na = inf", "w.toml:2: inf is not finite"),
            ("[set]\ntx.a = 1\n\"tx.a\" = 2", "w.toml:1: tx.a is set twice"),
        ] {
            let error = Given::from_toml("w.toml", toml, FIELDS).unwrap_err().to_string();
            assert!(error.starts_with(wanted) && !error.contains('\n'), "{toml}: {error}");
        }
        for (text, wanted) in [
            ("tx.send_ns", "set is `tx.send_ns`, but must be a name, =, and a number"),
            ("tx.send_ns=x", "set: tx.send_ns is `x`, but must be a number, true or false"),
            ("tx.send_ns=inf", "set: tx.send_ns is `inf`, but must be a number, true or false"),
        ] {
            assert_eq!(SET.parse(text), Err(wanted.to_owned()));
        }
    }

    #[test]
    fn each_setting_is_over_what_was_said_of_it() {
        let said = |of: &[(&str, f64)]| {
            let mut given = Given::default();
            given.set(&SET, settings(of)).unwrap();
            given
        };
        let both = said(&[("a", 1.0)]).over(said(&[("a", 2.0), ("b", 3.0)]));
        assert_eq!(both.get("set"), Some(&settings(&[("a", 1.0), ("b", 3.0)])));
    }
}
