//! JSON Schemas of all `--json` output, in `docs/schemas`, generated from the types. `cargo xtask bless`
//! rewrites them.

use crate::extrapolation::Told;
use crate::{limits, live, profiles};
use doorbell_lab::compare::{Changes, Comparison};
use doorbell_lab::sweep::Sweep;
use doorbell_lab::{SystemJson, VerbsJson};
use doorbell_launch::stats;
use doorbell_reproduce::Report;
use doorbell_series::Checked;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use serde_json::Value;
use std::path::Path;

/// The schema of a type's serialized form. It allows no fields beyond the named fields.
fn of<T: JsonSchema>(title: &str) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let schema: Schema = settings.into_generator().into_root_schema_for::<T>();
    let mut schema = schema.to_value();
    schema["title"] = title.into();
    close(&mut schema);
    schema
}

/// Makes a description from a doc comment: one line, without links.
fn in_words_of_json(docs: &str) -> String {
    docs.replace("[`", "`").replace("`]", "`").replace('\n', " ").replace("`None`", "null")
}

/// Forbids further fields in each object.
fn close(schema: &mut Value) {
    match schema {
        Value::Array(all) => all.iter_mut().for_each(close),
        Value::Object(object) => {
            let parts = ["oneOf", "anyOf", "allOf", "$ref"];
            let is_object = object.contains_key("properties");
            let has_parts = parts.iter().any(|part| object.contains_key(*part));
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = in_words_of_json(text);
            }
            for (key, value) in &mut *object {
                match key.as_str() {
                    // Names of fields and types are not keywords.
                    "properties" | "$defs" => {
                        value.as_object_mut().into_iter().flatten().for_each(|(_, of)| close(of))
                    }
                    // A part of an object must allow the fields of the object's other parts.
                    part if is_object && parts.contains(&part) => {}
                    _ => close(value),
                }
            }
            if is_object {
                let further = if has_parts { "unevaluatedProperties" } else { "additionalProperties" };
                object.insert(further.to_owned(), false.into());
            }
        }
        _ => {}
    }
}

#[test]
fn schemas() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas");
    for (name, schema) in [
        ("simulate", of::<Told<'_, VerbsJson>>("doorbell simulate --json")),
        ("simulate-system", of::<Told<'_, SystemJson>>("doorbell simulate --system SYSTEM --json")),
        ("limits", of::<Told<'_, limits::Limits>>("doorbell limits --json")),
        ("profiles", of::<Vec<profiles::Described<'_>>>("doorbell profiles --json")),
        ("profile", of::<profiles::Described<'_>>("doorbell profiles NAME --json")),
        (
            "nic-model",
            of::<profiles::DescribedModel<'_>>("doorbell profiles NAME --json, a NIC without a profile"),
        ),
        ("sweep", of::<Sweep>("doorbell sweep --json")),
        ("compare", of::<Comparison>("doorbell compare SIDES --json")),
        ("compare-baseline", of::<Changes>("doorbell compare --baseline FILE --json")),
        ("check", of::<Checked>("doorbell check --json")),
        ("reproduce", of::<Report>("doorbell reproduce --json")),
        ("live", of::<live::Live>("doorbell live --json")),
        ("run-stats", of::<stats::Report>("doorbell run --stats-json FILE")),
        ("run-stats-all", of::<stats::Together>("doorbell run --stats-json FILE, all processes together")),
    ] {
        let path = directory.join(format!("{name}.schema.json"));
        let text = serde_json::to_string_pretty(&schema).unwrap() + "\n";
        if std::env::var_os("DOORBELL_BLESS").is_some() {
            std::fs::create_dir_all(&directory).unwrap();
            std::fs::write(&path, text).unwrap();
            continue;
        }
        let said = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            said == text,
            "{name}.schema.json is not as the types have it: `cargo xtask bless` writes it anew"
        );
    }
}
