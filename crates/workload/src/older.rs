//! Files of schema 1, translated to the meaning of today.

use crate::{Verb, keys};
use doorbell_schema::{Field, Given, Value};

/// Translates the values of a file to their meaning of today. `fields` are the fields of a workload.
///
/// In schema 1, a window belonged to each QP unless every operation was signalled. The window was silently
/// raised so that it held two signalled operations, and a batch plus the operations that no completion had
/// covered.
pub(crate) fn as_meant(given: Given, fields: &[Field]) -> Given {
    let mut given = given;
    let older = given.take_version().is_some();
    // Systems have fields of their own, whose meaning did not change.
    if !older || given.get(keys::SYSTEM).is_some() {
        return given;
    }
    let value = |key| given.get(field(fields, key).key);
    let number = |key| match value(key) {
        Some(Value::Number(number)) => Some(*number),
        _ => None,
    };
    let drains = value("drain") == Some(&Value::Switch(true));
    let verb: Option<Verb> = value("verb").and_then(|verb| verb.read().ok());
    let usual = if verb.unwrap_or(Verb::Send).carries_payload() && !drains { 16 } else { 1 };
    let (signal_every, batch) = (number("signal_every").unwrap_or(usual), number("batch").unwrap_or(1));
    if let (Some(window), 2..) = (number("window"), signal_every) {
        let needed = signal_every.saturating_mul(2).max(batch.saturating_add(signal_every));
        given.remove(field(fields, "window").key);
        set(&mut given, fields, "window_per_qp", window.max(needed));
        set(&mut given, fields, "signal_every", signal_every);
    }
    given
}

/// The field with this key.
///
/// # Panics
/// If workloads have no such field any more.
fn field<'f>(fields: &'f [Field], key: &str) -> &'f Field {
    fields.iter().find(|field| field.key == key).expect("it is a field of workloads")
}

fn set(given: &mut Given, fields: &[Field], key: &str, value: u64) {
    given.set(field(fields, key), Value::Number(value.min(u32::MAX.into()))).expect("it is in range");
}
