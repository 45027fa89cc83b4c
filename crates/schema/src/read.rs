//! TOML and JSON files. Each value is checked as it is read, so that an error names its line.

use crate::field::FieldKind;
use crate::{Field, Given, Says, Value, settings};
use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;
use thiserror::Error;

/// An error in user input: one sentence, with its line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{file}:{line}: {message}")]
pub struct SchemaError {
    /// The file.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// The error: not TOML or JSON, an unknown key, or a value that is not valid for its field.
    pub message: String,
}

/// The line, from 1, of byte `at` of `text`.
pub fn line_of(text: &str, at: usize) -> usize {
    text.get(..at).map_or(1, |before| before.matches('\n').count() + 1)
}

/// The version of the files that Doorbell writes. It also reads earlier versions.
pub const VERSION: u64 = 2;

/// The key of a file's version.
const SCHEMA: &str = "schema";

/// The field for the version of a TOML file.
static OF_TOML: Field = Field::count(1, VERSION).usual("2").named(SCHEMA, "Version of the fields' meanings");

impl Given {
    /// Reads TOML; `file` is for messages. If the text has an older `schema`, the result keeps this version,
    /// see [`Given::take_version`].
    ///
    /// # Errors
    /// If it is not TOML, has an unknown key, or has a value that is not valid for its field.
    pub fn from_toml(file: &str, text: &str, fields: &[&'static Field]) -> Result<Given, SchemaError> {
        let malformed = |error: toml::de::Error| SchemaError {
            file: file.to_owned(),
            line: line_of(text, error.span().map_or(0, |span| span.start)),
            message: error.message().replace('\n', " "),
        };
        let parsed = toml::Deserializer::parse(text).map_err(|error| malformed(error).not("TOML"))?;
        let with_version: Vec<&'static Field> = fields.iter().copied().chain([&OF_TOML]).collect();
        let given = FieldTable(&with_version).deserialize(parsed).map_err(malformed)?;
        let version = given.read(SCHEMA).expect("it is a number").unwrap_or(VERSION);
        Ok(given.of_version(version))
    }

    /// These values as read from a file of this version. [`Given::take_version`] returns the version if it is
    /// older.
    pub fn of_version(self, version: u64) -> Given {
        let mut given = self;
        given.remove(SCHEMA);
        if version < VERSION {
            given.set(&OF_TOML, Value::Number(version)).expect("it is in range");
        }
        given
    }

    /// Removes and returns the version of the file, if it is older than [`VERSION`]. The owner of the fields
    /// knows their meaning in that version.
    pub fn take_version(&mut self) -> Option<u64> {
        match self.remove(SCHEMA) {
            Some(Value::Number(version)) => Some(version),
            _ => None,
        }
    }

    /// Reads JSON; `file` is for messages.
    ///
    /// # Errors
    /// See [`Given::from_toml`].
    pub fn from_json(file: &str, text: &str, fields: &[&'static Field]) -> Result<Given, SchemaError> {
        let malformed = |error: serde_json::Error| SchemaError::of_json(file, &error);
        serde_json::from_str::<IgnoredAny>(text).map_err(|error| malformed(error).not("JSON"))?;
        let mut json = serde_json::Deserializer::from_str(text);
        FieldTable(fields).deserialize(&mut json).map_err(malformed)
    }
}

impl SchemaError {
    /// The error of the JSON parser for a file.
    pub fn of_json(file: &str, error: &serde_json::Error) -> SchemaError {
        // The parser appends the position, but our messages begin with it.
        let message = error.to_string();
        let message = match error.is_eof() {
            true => "it ends too early",
            false => message.split(" at line ").next().unwrap_or_default(),
        };
        SchemaError { file: file.to_owned(), line: error.line().max(1), message: message.to_owned() }
    }

    /// This error for a text that is not in the language at all.
    pub fn not(self, language: &str) -> SchemaError {
        SchemaError { message: format!("this is not {language}: {}", self.message), ..self }
    }
}

/// Reads a table with values of these fields, and checks each value as it is read.
#[derive(Clone, Copy)]
pub struct FieldTable<'f>(pub &'f [&'static Field]);

impl<'de> DeserializeSeed<'de> for FieldTable<'_> {
    type Value = Given;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Given, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FieldTable<'_> {
    type Value = Given;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of fields")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Given, A::Error> {
        let mut given = Given::default();
        while let Some(field) = map.next_key_seed(FieldKey(self.0))? {
            let Some(value) = map.next_value_seed(ValueOf(field))? else { continue };
            if given.get(field.key).is_some() {
                return Err(A::Error::custom(format!("duplicate field `{}`", field.key)));
            }
            given.set(field, value).map_err(A::Error::custom)?;
        }
        match self.0.iter().find(|field| field.required && given.get(field.key).is_none()) {
            Some(field) => Err(A::Error::custom(format!("missing field `{}`", field.key))),
            None => Ok(given),
        }
    }
}

/// Reads the key of one of these fields.
struct FieldKey<'f>(&'f [&'static Field]);

impl<'de> DeserializeSeed<'de> for FieldKey<'_> {
    type Value = &'static Field;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static Field, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldKey<'_> {
    type Value = &'static Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<&'static Field, E> {
        self.0.iter().find(|field| field.key == key).copied().ok_or_else(|| E::custom(unknown(key, self.0)))
    }
}

/// Similarity from which on a name may be meant for another; equal names have 1.
const LIKE: f64 = 0.8;

/// The name that `word` may be meant for, if there is one.
pub fn nearest<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    let like = names.into_iter().map(|name| (strsim::jaro(name, word), name));
    let nearest = like.max_by(|(a, _), (b, _)| a.total_cmp(b));
    nearest.filter(|(likeness, _)| *likeness > LIKE).map(|(_, name)| name)
}

/// The field that an unknown key may be meant for. If the key is the name of a flag, it is the flag's field,
/// with its value if the flag sets one. Otherwise it is the field with this synonym, or the nearest key.
pub fn meant(key: &str, fields: &[&'static Field]) -> Option<String> {
    let of_a_flag = fields.iter().find_map(|field| of_flag(key, field));
    let of_a_synonym = || {
        let keys: Vec<&str> = synonyms(key, fields).map(|field| field.key).collect();
        (!keys.is_empty()).then(|| keys.join("` or `"))
    };
    of_a_flag
        .or_else(of_a_synonym)
        .or_else(|| nearest(key, fields.iter().map(|field| field.key)).map(str::to_owned))
}

/// The fields that people look for under this name. A field for a verb and a field for a system may share a
/// synonym.
pub fn synonyms<'f>(key: &str, fields: &'f [&'static Field]) -> impl Iterator<Item = &'static Field> + 'f {
    let key = key.replace('-', "_").to_ascii_lowercase();
    fields.iter().copied().filter(move |field| field.synonyms.contains(&key.as_str()))
}

fn unknown(key: &str, fields: &[&'static Field]) -> String {
    match meant(key, fields) {
        Some(meant) => format!("unknown field `{key}`; did you mean `{meant}`?"),
        None => {
            let known: Vec<String> = fields.iter().map(|field| format!("`{}`", field.key)).collect();
            format!("unknown field `{key}`, expected one of {}", known.join(", "))
        }
    }
}

/// The text that a file needs in place of a flag that is named `key`.
fn of_flag(key: &str, field: &Field) -> Option<String> {
    let flag = key.replace('_', "-");
    let (_, says, _) = field.all_flags().into_iter().find(|(name, ..)| *name == flag)?;
    Some(match says {
        Says::Switch(value) => format!("{} = {value}", field.key),
        Says::Value(_) => field.key.to_owned(),
    })
}

/// Reads a value of a field; null becomes `None`.
struct ValueOf(&'static Field);

impl<'de> DeserializeSeed<'de> for ValueOf {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<Value>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl ValueOf {
    fn checked<E: Error>(self, value: Value) -> Result<Option<Value>, E> {
        crate::check(self.0, &value).map_err(E::custom)?;
        Ok(Some(value))
    }

    /// An error for a value of the wrong kind.
    fn refuse<E: Error>(&self, got: impl fmt::Display) -> E {
        E::custom(self.0.refuse(got, self.0.kind.wanted()))
    }
}

impl<'de> Visitor<'de> for ValueOf {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}", self.0.range(), self.0.key)
    }

    fn visit_bool<E: Error>(self, switch: bool) -> Result<Option<Value>, E> {
        self.checked(Value::Switch(switch))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Option<Value>, E> {
        self.checked(Value::Number(number))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Option<Value>, E> {
        self.visit_i128(number.into())
    }

    fn visit_i128<E: Error>(self, number: i128) -> Result<Option<Value>, E> {
        let (wanted, bound) = match (u64::try_from(number), self.0.kind) {
            (Ok(number), _) => return self.checked(Value::Number(number)),
            (Err(_), FieldKind::Number { most, .. }) if number > 0 => ("at most", most),
            (Err(_), FieldKind::Number { least, .. }) => ("at least", least),
            (Err(_), _) => return Err(self.refuse(number)),
        };
        Err(E::custom(self.0.refuse(number, &format!("{wanted} {bound}"))))
    }

    /// The message shows the point or exponent, because 1e3 is 1000 but not a whole number.
    fn visit_f64<E: Error>(self, number: f64) -> Result<Option<Value>, E> {
        Err(self.refuse(format_args!("{number:?}")))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Option<Value>, A::Error> {
        match self.0.kind {
            FieldKind::Settings => self.checked(Value::Settings(settings::read(map)?)),
            _ => Err(self.refuse("a table")),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Option<Value>, E> {
        let value = self.0.of_text(text).map_err(E::custom)?;
        self.checked(value)
    }

    fn visit_unit<E: Error>(self) -> Result<Option<Value>, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Option<Value>, A::Error> {
        let FieldKind::Tables(fields) = self.0.kind else {
            return Err(self.refuse("a list"));
        };
        let fields: Vec<&'static Field> = fields.iter().collect();
        let mut tables = Vec::new();
        while let Some(table) = seq.next_element_seed(FieldTable(&fields))? {
            tables.push(table);
        }
        Ok(Some(Value::Tables(tables)))
    }
}
