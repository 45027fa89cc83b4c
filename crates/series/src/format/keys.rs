//! Names of the keys of a type, from its own `Deserialize`, so that no list repeats them.

use serde::de::value::Error;
use serde::de::{Deserializer, Error as _, Visitor};
use serde::{Deserialize, forward_to_deserialize_any};

/// Keys of a struct, in the order of its fields.
///
/// # Panics
/// If `T` is not a struct with derived `Deserialize` and without flattened fields.
pub(crate) fn keys_of<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    let mut keys = None;
    // The deserializer has no data, so that it always fails.
    let _ = T::deserialize(KeysOnly(&mut keys));
    keys.expect("a struct asks for its fields")
}

/// A deserializer without data that notes the fields that it is asked for.
struct KeysOnly<'k>(&'k mut Option<&'static [&'static str]>);

impl<'de> Deserializer<'de> for KeysOnly<'_> {
    type Error = Error;

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Error> {
        *self.0 = Some(fields);
        Err(Error::custom("there are no data"))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
        Err(Error::custom("there are no data"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit
        unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}
