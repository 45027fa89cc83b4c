//! Types that consist of fields.

use crate::{Field, Given, Value, check};

/// A type that consists of fields.
pub trait Schema {
    /// Its fields, in the order of the pages.
    fn fields() -> Vec<&'static Field>;

    /// The value of each field; `None` if the field has no value.
    fn values(&self) -> Vec<(&'static str, Option<Value>)>;

    /// Takes the given values. Values of other fields are ignored.
    ///
    /// # Errors
    /// One sentence if a value does not fit the type.
    fn apply(&mut self, given: &Given) -> Result<(), String>;

    /// Its values.
    fn given(&self) -> Given {
        let values = self.values().into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Given::of(values)
    }

    /// Checks that each value is within its range.
    ///
    /// # Errors
    /// One sentence for the first value that is not.
    fn check_ranges(&self) -> Result<(), String> {
        let given = self.given();
        let values = Self::fields().into_iter().filter_map(|field| Some((field, given.get(field.key)?)));
        for (field, value) in values {
            check(field, value)?;
        }
        Ok(())
    }
}

/// Makes types from a list of fields.
///
/// `pub struct A; fields` makes a type in which every field is optional. A field may state its presence once
/// everything is filled in. With `| null` it may have no value, and is then written as null. With `| absent`
/// it usually has no value, and is then left out. The written form can be read again without checks; for this
/// the crate needs serde.
///
/// `pub struct C { fields }` makes a type with all values. It may begin with `groups { name: Type, ... }`,
/// whose fields become its own. Generic code gets a group by `AsRef` and `AsMut`, so a type has at most one
/// group of a type.
///
/// A field consists of its doc comment, its name, its type (as serde has it), and the rest of its [`Field`].
/// The whole doc comment is the field's sentence.
///
/// The constant `C::size` is the [`Field`] of the field `size`. Code that reads `C::size.key` does not
/// compile if the field has another name.
#[macro_export]
macro_rules! schema {
    (
        $(#[$given_meta:meta])*
        pub struct $given:ident;
        $(
            $(#[doc = $about:literal])+
            $key:ident : $type:ty $(| $none:ident)? = $field:expr,
        )*
    ) => {
        $(#[$given_meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq, serde::Deserialize)]
        pub struct $given {
            $( $(#[doc = $about])+ pub $key: Option<$type>, )*
        }

        impl $given {
            /// All fields of the type.
            pub const FIELDS: &'static [$crate::Field] = &[$( $given::$key, )*];

            /// Presence of each field once everything is filled in, in the order of [`Self::FIELDS`].
            pub const FILLED_IN: &'static [$crate::json_schema::Presence] =
                &[$( $crate::schema!(@presence $($none)?), )*];

            /// Writes the value once everything is filled in: see [`Self::FILLED_IN`].
            ///
            /// # Errors
            /// Errors of `serializer`.
            pub fn serialize_filled_in<S: $crate::serde::Serializer>(
                &self,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                use $crate::serde::ser::SerializeMap;
                let mut map = serializer.serialize_map(None)?;
                $( $crate::schema!(@put map, stringify!($key), self.$key $(, $none)?); )*
                map.end()
            }

            /// These values; fields that are not given come from `base`.
            pub fn over(self, base: $given) -> $given {
                $given { $( $key: self.$key.or(base.$key), )* }
            }
        }

        $crate::schema!(@fields $given, $( $key, $field, concat!($($about),+); )*);

        impl $crate::Schema for $given {
            fn fields() -> Vec<&'static $crate::Field> {
                $given::FIELDS.iter().collect()
            }

            fn values(&self) -> Vec<(&'static str, Option<$crate::Value>)> {
                vec![$( (stringify!($key), $crate::Value::of(&self.$key)), )*]
            }

            fn apply(&mut self, given: &$crate::Given) -> Result<(), String> {
                $( self.$key = given.read(stringify!($key))?.or(self.$key.take()); )*
                Ok(())
            }
        }

        impl $crate::serde::Serialize for $given {
            fn serialize<S: $crate::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let values = $crate::Schema::values(self).into_iter();
                serializer.collect_map(values.filter_map(|(key, value)| Some((key, value?))))
            }
        }

        impl $crate::schemars::JsonSchema for $given {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($given).into()
            }

            fn json_schema(_: &mut $crate::schemars::SchemaGenerator) -> $crate::schemars::Schema {
                let absent = $crate::json_schema::Presence::OrAbsent;
                $crate::json_schema::of_object($given::FIELDS.iter().map(|field| (field, absent)))
            }
        }
    };

    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $(groups { $( $(#[doc = $group_about:literal])+ $group:ident : $group_type:ty, )* })?
            $(
                $(#[doc = $about:literal])+
                $key:ident : $type:ty = $field:expr,
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name {
            $( $( $(#[doc = $group_about])+ pub $group: $group_type, )* )?
            $( $(#[doc = $about])+ pub $key: $type, )*
        }

        $( $(
            impl AsRef<$group_type> for $name {
                fn as_ref(&self) -> &$group_type {
                    &self.$group
                }
            }

            impl AsMut<$group_type> for $name {
                fn as_mut(&mut self) -> &mut $group_type {
                    &mut self.$group
                }
            }
        )* )?

        impl $name {
            /// The type's own fields, without the fields of its groups.
            pub const FIELDS: &'static [$crate::Field] = &[$( $name::$key, )*];
        }

        $crate::schema!(@fields $name, $( $key, $field, concat!($($about),+); )*);

        impl $crate::Schema for $name {
            fn fields() -> Vec<&'static $crate::Field> {
                #[allow(unused_mut)]
                let mut all: Vec<&'static $crate::Field> = Vec::new();
                $( $( all.extend(<$group_type as $crate::Schema>::fields()); )* )?
                all.extend($name::FIELDS);
                all
            }

            fn values(&self) -> Vec<(&'static str, Option<$crate::Value>)> {
                #[allow(unused_mut)]
                let mut all: Vec<(&'static str, Option<$crate::Value>)> = Vec::new();
                $( $( all.extend($crate::Schema::values(&self.$group)); )* )?
                all.extend([$( (stringify!($key), $crate::Value::of(&self.$key)), )*]);
                all
            }

            #[allow(unused_variables)]
            fn apply(&mut self, given: &$crate::Given) -> Result<(), String> {
                $( $( $crate::Schema::apply(&mut self.$group, given)?; )* )?
                $( if let Some(value) = given.read(stringify!($key))? { self.$key = value; } )*
                Ok(())
            }
        }

        impl $crate::serde::Serialize for $name {
            fn serialize<S: $crate::serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let values = $crate::Schema::values(self).into_iter();
                serializer.collect_map(values.filter_map(|(key, value)| Some((key, value?))))
            }
        }
    };

    (@fields $owner:ident, $( $key:ident, $field:expr, $about:expr; )*) => {
        /// The fields of the type, each under its key.
        #[allow(non_upper_case_globals)]
        impl $owner {
            $(
                #[doc = concat!("The field `", stringify!($key), "`.")]
                pub const $key: $crate::Field = ($field).named(stringify!($key), $about);
            )*
        }
    };

    (@presence) => { $crate::json_schema::Presence::Always };
    (@presence null) => { $crate::json_schema::Presence::OrNull };
    (@presence absent) => { $crate::json_schema::Presence::OrAbsent };

    (@put $map:ident, $key:expr, $value:expr) => { $map.serialize_entry($key, &$value)? };
    (@put $map:ident, $key:expr, $value:expr, null) => { $map.serialize_entry($key, &$value)? };
    (@put $map:ident, $key:expr, $value:expr, absent) => {
        if let Some(value) = &$value {
            $map.serialize_entry($key, value)?;
        }
    };
}

#[cfg(test)]
#[expect(unreachable_pub, reason = "the macro makes types for other crates")]
mod tests {
    use crate::json_schema::Presence;
    use crate::{Field, Flag, Given, Schema, Value};

    schema! {
        /// Values that a user gives.
        pub struct Said;

        /// A count.
        count: u32 = Field::count(1, 9).usual("3"),
        /// A field that some have not.
        stride: u32 | null = Field::bytes(8, 64),
        /// A field that most have not.
        name: String | absent = Field::text(),
    }

    schema! {
        /// A group.
        pub struct Clients {
            /// Clients.
            clients: u32 = Field::count(1, 100),
        }
    }

    schema! {
        /// A type with a group.
        pub struct Config {
            groups {
                /// The group.
                who: Clients,
            }
            /// Whether replies are posted together.
            batching: bool = Field::switch().flags(&[Flag::no("no-batching", "One by one")]),
        }
    }

    fn given(json: &str, fields: &[&'static Field]) -> Given {
        Given::from_json("x", json, fields).unwrap()
    }

    #[test]
    fn what_is_said_is_filled_in() {
        let mut said = Said::default();
        said.apply(&given(r#"{"count": 4, "name": null}"#, &Said::fields())).unwrap();
        assert_eq!(said, Said { count: Some(4), stride: None, name: None });
        assert_eq!(serde_json::to_string(&said).unwrap(), r#"{"count":4}"#);
        let base = Said { count: Some(1), stride: Some(8), name: None };
        assert_eq!(said.clone().over(base), Said { count: Some(4), stride: Some(8), name: None });
        let mut written = Vec::new();
        said.serialize_filled_in(&mut serde_json::Serializer::new(&mut written)).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), r#"{"count":4,"stride":null}"#);
        assert_eq!(serde_json::from_str::<Said>(r#"{"count":4,"stride":null}"#).unwrap(), said);
        assert_eq!(Said::FILLED_IN, [Presence::Always, Presence::OrNull, Presence::OrAbsent]);
        assert_eq!(said.check_ranges(), Ok(()));
        let out = Said { stride: Some(65), ..said };
        assert_eq!(out.check_ranges(), Err("stride is 65, but must be at most 64".into()));
    }

    #[test]
    fn a_groups_fields_are_its_owners() {
        let mut config = Config { who: Clients { clients: 7 }, batching: true };
        let keys: Vec<&str> = Config::fields().iter().map(|field| field.key).collect();
        assert_eq!(keys, ["clients", "batching"]);
        assert_eq!([Clients::clients.key, Config::batching.key], ["clients", "batching"]);
        config.apply(&given(r#"{"clients": 8}"#, &Config::fields())).unwrap();
        config.apply(&given(r#"{"batching": false}"#, &Config::fields())).unwrap();
        assert_eq!(config, Config { who: Clients { clients: 8 }, batching: false });
        assert_eq!(serde_json::to_string(&config).unwrap(), r#"{"clients":8,"batching":false}"#);
        assert_eq!(config.given().get("clients"), Some(&Value::Number(8)));
        config.who.clients = 0;
        assert_eq!(config.check_ranges(), Err("clients is 0, but must be at least 1".into()));
    }
}
