//! The host that a file describes or names.

use super::parameter::Section;
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use std::fmt;

/// The host in a file: parameters, or the name of another profile's host.
pub(super) enum HostGiven {
    Parameters(Section),
    Named(String),
}

impl<'de> Deserialize<'de> for HostGiven {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<HostGiven, D::Error> {
        deserializer.deserialize_any(HostVisitor)
    }
}

struct HostVisitor;

impl<'de> Visitor<'de> for HostVisitor {
    type Value = HostGiven;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of parameters, or the name of a host")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<HostGiven, E> {
        Ok(HostGiven::Named(name.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<HostGiven, A::Error> {
        Section::deserialize(MapAccessDeserializer::new(map)).map(HostGiven::Parameters)
    }
}
