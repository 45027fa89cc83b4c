//! Values of fields, and the values that a user has given, by the keys of their fields.

use crate::{Real, Settings};
use serde::de::value::{Error, MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};
use serde::{Deserializer, Serialize, Serializer, forward_to_deserialize_any};
use std::collections::BTreeMap;
use std::fmt;

/// The value of a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Value {
    /// Yes or no.
    Switch(bool),
    /// A whole number.
    Number(u64),
    /// A name, a time or another text.
    Text(String),
    /// Tables.
    Tables(Vec<Given>),
    /// Numbers by names.
    Settings(Settings),
}

impl Value {
    /// The value in a type's field. It is `None` if the field is an empty `Option`, or not of any kind of
    /// field.
    pub fn of(field: &impl Serialize) -> Option<Value> {
        from_json(serde_json::to_value(field).ok()?)
    }

    /// Converts the value to a type.
    ///
    /// # Errors
    /// If the value does not fit the type.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        T::deserialize(self.clone()).map_err(|error| error.to_string())
    }
}

fn from_json(json: serde_json::Value) -> Option<Value> {
    match json {
        serde_json::Value::Bool(switch) => Some(Value::Switch(switch)),
        serde_json::Value::Number(number) => number.as_u64().map(Value::Number),
        serde_json::Value::String(text) => Some(Value::Text(text)),
        serde_json::Value::Array(tables) => {
            let table = |table: serde_json::Value| {
                let serde_json::Value::Object(fields) = table else { return None };
                Some(Given::of(fields.into_iter().filter_map(|(key, value)| Some((key, from_json(value)?)))))
            };
            tables.into_iter().map(table).collect::<Option<_>>().map(Value::Tables)
        }
        serde_json::Value::Object(numbers) => {
            let number =
                |(name, value): (String, serde_json::Value)| Some((name, Real::new(value.as_f64()?)?));
            numbers.into_iter().map(number).collect::<Option<_>>().map(Value::Settings)
        }
        serde_json::Value::Null => None,
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Switch(switch) => write!(f, "{switch}"),
            Value::Number(number) => write!(f, "{number}"),
            Value::Text(text) => write!(f, "`{text}`"),
            Value::Tables(_) => write!(f, "a list of tables"),
            Value::Settings(_) => write!(f, "a table"),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Value::Switch(switch) => serializer.serialize_bool(*switch),
            Value::Number(number) => serializer.serialize_u64(*number),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Tables(tables) => tables.serialize(serializer),
            Value::Settings(settings) => settings.serialize(serializer),
        }
    }
}

impl<'de> IntoDeserializer<'de, Error> for Value {
    type Deserializer = Value;

    fn into_deserializer(self) -> Value {
        self
    }
}

impl<'de> Deserializer<'de> for Value {
    type Error = Error;

    fn deserialize_any<V: serde::de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Value::Switch(switch) => visitor.visit_bool(switch),
            Value::Number(number) => visitor.visit_u64(number),
            Value::Text(text) => visitor.visit_string(text),
            Value::Tables(tables) => visitor.visit_seq(SeqDeserializer::new(tables.into_iter())),
            Value::Settings(settings) => visitor.visit_map(MapDeserializer::new(settings.into_iter())),
        }
    }

    /// A value that is present is `Some`.
    fn deserialize_option<V: serde::de::Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_enum<V: serde::de::Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self {
            Value::Text(text) => text.into_deserializer().deserialize_enum(name, variants, visitor),
            other => other.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Error> for Given {
    type Deserializer = MapDeserializer<'de, std::vec::IntoIter<(String, Value)>, Error>;

    fn into_deserializer(self) -> Self::Deserializer {
        MapDeserializer::new(self.into_values().collect::<Vec<_>>().into_iter())
    }
}

/// Values by the keys of their fields. Each is valid for its field.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Given(BTreeMap<String, Value>);

impl Given {
    pub(crate) fn of(values: impl Iterator<Item = (String, Value)>) -> Given {
        Given(values.collect())
    }

    /// The value of a field, if it is given.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// The value of a field as its type, if it is given.
    ///
    /// # Errors
    /// One sentence if the value does not fit the type.
    pub fn read<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, String> {
        let read = |value: &Value| value.read().map_err(|error| format!("{key}: {error}"));
        self.0.get(key).map(read).transpose()
    }

    /// Sets the value of a key without a check.
    pub(crate) fn put(&mut self, key: &str, value: Value) {
        self.0.insert(key.to_owned(), value);
    }

    /// Removes the value of a field.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.0.remove(key)
    }

    /// Keys of the fields that are given.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// These values; fields that are not given come from `base`. Settings are merged one by one.
    pub fn over(self, base: Given) -> Given {
        let mut all = base.0;
        for (key, value) in self.0 {
            match (all.get_mut(&key), value) {
                (Some(Value::Settings(below)), Value::Settings(above)) => below.extend(above),
                (_, value) => {
                    all.insert(key, value);
                }
            }
        }
        Given(all)
    }

    pub(crate) fn into_values(self) -> impl Iterator<Item = (String, Value)> {
        self.0.into_iter()
    }
}

impl Serialize for Given {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(&self.0)
    }
}
