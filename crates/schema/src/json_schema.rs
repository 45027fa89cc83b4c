//! JSON Schemas of types that consist of fields.

use crate::{Field, FieldKind};
use schemars::Schema;
use serde_json::{Map, Value, json};

/// Whether an object has a field, and whether the field may be null.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Presence {
    /// The field is present and not null.
    Always,
    /// The field is present and may be null.
    OrNull,
    /// The field may be absent.
    OrAbsent,
}

/// The schema of a field's values.
pub fn of_field(field: &Field) -> Schema {
    let Value::Object(mut schema) = of_kind(field.kind) else { unreachable!("it is an object") };
    schema.insert("description".to_owned(), field.about.into());
    schema.into()
}

/// The schema of an object with these fields and no others.
pub fn of_object<'f>(fields: impl IntoIterator<Item = (&'f Field, Presence)>) -> Schema {
    let (mut properties, mut required) = (Map::new(), Vec::new());
    for (field, presence) in fields {
        let of_field = of_field(field);
        let schema = match presence {
            Presence::OrNull => json!({ "anyOf": [of_field, { "type": "null" }] }),
            Presence::Always | Presence::OrAbsent => of_field.to_value(),
        };
        properties.insert(field.key.to_owned(), schema);
        if presence != Presence::OrAbsent {
            required.push(field.key);
        }
    }
    let object = json!({ "type": "object", "properties": properties, "required": required });
    object.try_into().expect("an object is a schema")
}

fn of_kind(kind: FieldKind) -> Value {
    match kind {
        FieldKind::Number { least, most, .. } => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        FieldKind::Switch => json!({ "type": "boolean" }),
        FieldKind::Name(names) => json!({ "type": "string", "enum": names }),
        FieldKind::Time { .. } => json!({ "type": "string", "pattern": "^[0-9]+(ps|ns|us|ms|s)$" }),
        FieldKind::Share(..) => json!({ "type": "string", "pattern": "^[0-9]+([.][0-9]{1,4})?%$" }),
        FieldKind::Settings => json!({ "type": "object", "additionalProperties": { "type": "number" } }),
        FieldKind::Text => json!({ "type": "string" }),
        FieldKind::Tables(fields) => {
            let presence = |field: &Field| if field.required { Presence::Always } else { Presence::OrAbsent };
            let table = of_object(fields.iter().map(|field| (field, presence(field))));
            json!({ "type": "array", "items": table })
        }
    }
}
