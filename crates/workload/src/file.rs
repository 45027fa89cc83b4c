//! Files with workloads: TOML, JSON, and files that Doorbell has written.

use doorbell_schema::{Field, FieldTable, Given, SchemaError, VERSION, line_of};
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, Visitor};
use std::fmt;
use std::io::ErrorKind;
use std::path::Path;

/// The key of a file's version.
const SCHEMA: &str = "schema";

/// An error in a file that should hold a workload: one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read workload {file}: {cause}")]
    Unreadable {
        /// The file.
        file: String,
        /// The cause.
        cause: String,
    },
    /// The file cannot be a workload.
    #[error(
        "{file} is not a workload: {found}, but a workload sets fields, such as verb = \"read\" or \
         {{\"verb\": \"read\"}}"
    )]
    NoWorkload {
        /// The file.
        file: String,
        /// Description of the file's contents.
        found: &'static str,
    },
    /// Not TOML or JSON, an unknown key, or a value that is not valid for its field.
    #[error("{0}")]
    Schema(#[from] SchemaError),
    /// Doorbell's output about a process that posted no send work requests.
    #[error("{file} contains no workload: its process posted no send work requests")]
    Missing {
        /// The file.
        file: String,
    },
    /// Doorbell's output about something without a workload.
    #[error(
        "{file} contains no workload: only statistics of `run` and results of `simulate` and `limits` \
         contain one"
    )]
    OfNoWorkload {
        /// The file.
        file: String,
    },
}

/// The schema version in JSON. Doorbell's output has one, but a plain workload does not.
fn schema_of(json: &str) -> Option<serde_json::Value> {
    let mut object: serde_json::Map<String, serde_json::Value> = serde_json::from_str(json).ok()?;
    object.remove(SCHEMA)
}

/// Reads JSON: fields, or Doorbell's output with a `workload` (statistics of `doorbell run`, results). From
/// output, only the workload and the version are read, see [`Given::from_toml`]. `file` is for messages.
pub(crate) fn given_of_json(file: &str, text: &str, fields: &[&'static Field]) -> Result<Given, FileError> {
    let malformed = |error: serde_json::Error| SchemaError::of_json(file, &error);
    serde_json::from_str::<IgnoredAny>(text).map_err(|error| malformed(error).not("JSON"))?;
    if let Some(found) = no_object(text) {
        return Err(FileError::NoWorkload { file: file.to_owned(), found });
    }
    let Some(schema) = schema_of(text) else {
        return Ok(Given::from_json(file, text, fields)?);
    };
    let version = schema.as_u64().filter(|version| (1..=VERSION).contains(version));
    let Some(version) = version else {
        let line = line_of(text, text.find("\"schema\"").unwrap_or(0));
        let message = format!("schema is {schema}, but this program reads schema 1 to {VERSION}");
        return Err(SchemaError { file: file.to_owned(), line, message }.into());
    };
    let mut json = serde_json::Deserializer::from_str(text);
    let file = file.to_owned();
    match WrittenWith(fields).deserialize(&mut json).map_err(malformed)? {
        Some(Some(given)) => Ok(given.of_version(version)),
        Some(None) => Err(FileError::Missing { file }),
        None => Err(FileError::OfNoWorkload { file }),
    }
}

/// Reads a file: JSON if its name ends in `.json` or its text begins with a brace, otherwise TOML.
pub(crate) fn given_of_file(path: &Path, fields: &[&'static Field]) -> Result<Given, FileError> {
    let file = path.display().to_string();
    let no_workload = |found| FileError::NoWorkload { file: file.clone(), found };
    let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
        ErrorKind::IsADirectory => no_workload("it is a directory"),
        ErrorKind::InvalidData => no_workload("it is not text"),
        _ => FileError::Unreadable { file: file.clone(), cause: error.to_string() },
    })?;
    // Some editors begin a file with a byte order mark.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    if text.trim().is_empty() {
        return Err(no_workload("it is empty"));
    }
    let named_json = path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json"));
    // TOML never begins with a brace, and TOML with the keys of a workload is never JSON.
    let given = match named_json || text.trim_start().starts_with('{') || no_object(text).is_some() {
        true => given_of_json(&file, text, fields)?,
        false => Given::from_toml(&file, text, fields)?,
    };
    let says_something = given.keys().any(|key| key != SCHEMA);
    if says_something { Ok(given) } else { Err(no_workload("it sets no field")) }
}

/// Describes JSON that is not an object; `None` for an object, and for text that is not JSON.
fn no_object(text: &str) -> Option<&'static str> {
    match serde_json::from_str(text).ok()? {
        serde_json::Value::Object(_) => None,
        serde_json::Value::Array(_) => Some("it is a list"),
        serde_json::Value::String(_) => Some("it is a text"),
        serde_json::Value::Number(_) => Some("it is a number"),
        serde_json::Value::Bool(_) | serde_json::Value::Null => Some("it is a single value"),
    }
}

/// Reads Doorbell's output: the values of its `workload`. The outer `Option` is `None` if the output has no
/// such key. The inner one is `None` if the value is null.
struct WrittenWith<'f>(&'f [&'static Field]);

impl<'de> DeserializeSeed<'de> for WrittenWith<'_> {
    type Value = Option<Option<Given>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Option<Given>>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for WrittenWith<'_> {
    type Value = Option<Option<Given>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a workload")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<Option<Given>>, A::Error> {
        let mut workload = None;
        while let Some(key) = map.next_key::<String>()? {
            if key == "workload" {
                if workload.is_some() {
                    return Err(A::Error::duplicate_field("workload"));
                }
                workload = Some(map.next_value_seed(NullOrTable(FieldTable(self.0)))?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(workload)
    }
}

/// Reads a table or null.
struct NullOrTable<'f>(FieldTable<'f>);

impl<'de> DeserializeSeed<'de> for NullOrTable<'_> {
    type Value = Option<Given>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Given>, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for NullOrTable<'_> {
    type Value = Option<Given>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a workload or null")
    }

    fn visit_none<E: Error>(self) -> Result<Option<Given>, E> {
        Ok(None)
    }

    fn visit_unit<E: Error>(self) -> Result<Option<Given>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Given>, D::Error> {
        self.0.deserialize(deserializer).map(Some)
    }
}
