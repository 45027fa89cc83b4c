//! Descriptions of the keys, from the types' doc comments, for the docs.

use super::keys::keys_of;
use super::measurement::{MeasuredSystem, PcieSlot, Setup};
use super::workload::MeasuredWorkload;
use schemars::{JsonSchema, SchemaGenerator};
use serde::Deserialize;
use serde_json::Value;

/// A key of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDescription {
    /// The key; keys of tables follow the table's name and a point.
    pub key: String,
    /// The kind of values, or the words that are values.
    pub values: String,
    /// The meaning, with the unit, and with the meaning of an absent key.
    pub about: String,
    /// Whether each series has the key. Keys of a table that series may lack are not required.
    pub required: bool,
}

/// All keys of a series but its arrays, in the order of files.
pub fn described_keys() -> Vec<KeyDescription> {
    let mut keys = of::<Setup>("");
    let place = |key: &str, keys: &[KeyDescription]| {
        keys.iter().position(|known| known.key == key).unwrap_or_else(|| panic!("a series has {key}"))
    };
    for (table, rows) in [
        ("pcie", of::<PcieSlot>("pcie.")),
        ("system", of::<MeasuredSystem>("system.")),
        ("workload", of::<MeasuredWorkload>("workload.")),
    ] {
        let at = place(table, &keys);
        let required = keys[at].required;
        let rows = rows.into_iter().map(|row| KeyDescription { required: required && row.required, ..row });
        keys.splice(at..=at, rows);
    }
    keys
}

/// The keys of a struct.
fn of<'de, T: Deserialize<'de> + JsonSchema>(before: &str) -> Vec<KeyDescription> {
    let schema = SchemaGenerator::default().into_root_schema_for::<T>().to_value();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let described = |key: &&str| {
        let property = &schema["properties"][*key];
        KeyDescription {
            key: format!("{before}{key}"),
            values: values(property),
            about: property["description"].as_str().unwrap_or_default().replace('\n', " "),
            required: required.iter().any(|name| name == *key),
        }
    };
    keys_of::<T>().iter().map(described).collect()
}

/// The values of a property, in words.
fn values(property: &Value) -> String {
    if let Some(words) = property["examples"].as_array() {
        return words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ");
    }
    let kind = match &property["type"] {
        Value::Array(kinds) => kinds[0].as_str(),
        kind => kind.as_str(),
    };
    let kind = match kind {
        Some("integer") => "whole number",
        Some("number") => "number",
        Some("boolean") => "true, false",
        Some("string") => "text",
        Some("array") => "list of texts",
        _ if property.get("anyOf").is_some() => "table",
        _ => "any",
    };
    kind.to_owned()
}
