//! What somebody has said: values by the names of their fields.

use crate::{Field, Value, check};
use serde::de::DeserializeOwned;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Values by the keys of their fields; each is one of its field's.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Given(BTreeMap<String, Value>);

impl Given {
    pub(crate) fn of(values: impl Iterator<Item = (String, Value)>) -> Given {
        Given(values.collect())
    }

    /// Says what a field is.
    ///
    /// # Errors
    /// One sentence where the value is none of the field's.
    pub fn set(&mut self, field: &Field, value: Value) -> Result<(), String> {
        check(field, &value)?;
        self.0.insert(field.key.to_owned(), value);
        Ok(())
    }

    /// The value of a field, if it is given.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// The value of a field as its type, if it is given.
    ///
    /// # Errors
    /// One sentence where it is none of the type's.
    pub fn read<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, String> {
        let read = |value: &Value| value.read().map_err(|error| format!("{key}: {error}"));
        self.0.get(key).map(read).transpose()
    }

    /// Forgets what was said of a field.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.0.remove(key)
    }

    /// The fields of which something is said.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// This, and of what it does not speak, `base`; of settings each by itself.
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
