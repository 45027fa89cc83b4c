//! A NIC in another host than its own.

use super::parameter::{ProfileError, Reader, Section};
use super::{BUILT_IN, Profile, base};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use std::fmt;
use std::path::PathBuf;
use toml::Spanned;

/// What a file says of its host: parameters, or whose host it is.
pub(super) enum Told {
    Parameters(Section),
    Named(String),
}

impl<'de> Deserialize<'de> for Told {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Told, D::Error> {
        deserializer.deserialize_any(HostVisitor)
    }
}

struct HostVisitor;

impl<'de> Visitor<'de> for HostVisitor {
    type Value = Told;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table of parameters, or the name of a host")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Told, E> {
        Ok(Told::Named(name.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Told, A::Error> {
        Section::deserialize(MapAccessDeserializer::new(map)).map(Told::Parameters)
    }
}

/// The profile that tells of a host: by the name of its processor, or its own, or its path; an error says which there
/// are.
fn profile_of(host: &str) -> Result<&str, String> {
    if let Some(built_in) = BUILT_IN.iter().find(|built_in| built_in.processor == Some(host)) {
        return Ok(built_in.name);
    }
    if base::is_path(host) || Profile::names().any(|name| name == host) {
        return Ok(host);
    }
    let known: Vec<&str> = Profile::host_names().chain(Profile::names()).collect();
    Err(format!("there is no host {host}; there are {}, or give the path of a TOML file", known.join(", ")))
}

/// The parameters that a file gives of its host; where it names a host instead, the base of `reader` is then in that.
pub(super) fn read(
    reader: &mut Reader<'_>,
    told: Spanned<Told>,
    based: &[PathBuf],
) -> Result<Option<Spanned<Section>>, ProfileError> {
    let span = told.span();
    let name = match told.into_inner() {
        Told::Parameters(section) => return Ok(Some(Spanned::new(span, section))),
        Told::Named(name) => name,
    };
    let Some(base) = reader.base.take() else {
        let message = "host names another profile's host, so base must name the profile of the NIC";
        return Err(reader.error(span.start, message.into()));
    };
    let of = profile_of(&name).map_err(|message| reader.error(span.start, format!("host: {message}")))?;
    let of = Spanned::new(span, of.to_owned());
    let other = base::load(reader, "host", &of, based)?;
    reader.base = Some(base.in_host_of(&other, &name));
    Ok(None)
}

impl Profile {
    /// Names of hosts, by their processors.
    pub fn host_names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().filter_map(|built_in| built_in.processor)
    }

    /// This NIC in the host of this name (one of [`Profile::host_names`]), or in that of another profile: a built-in
    /// one, or the TOML file at a path. Cores, driver, memory and kernel TCP are that host's; the PCIe link stays, as its
    /// lanes are the NIC's.
    ///
    /// # Errors
    /// If there is no such host, or its file is not a profile.
    pub fn on_host(self, name: &str) -> Result<Profile, ProfileError> {
        let of = profile_of(name).map_err(ProfileError::NotFound)?;
        Ok(self.in_host_of(&Profile::named_or_file(of)?, name))
    }

    /// This NIC in the host of another profile, which reports then call `name`.
    pub(super) fn in_host_of(self, other: &Profile, name: &str) -> Profile {
        let of_host = |name: &str| {
            ["host.", "hierarchy.", "sockets.", "tcp."].iter().any(|part| name.starts_with(part))
        };
        let theirs = other.parameters.iter().filter(|p| of_host(&p.name)).map(|p| p.inherited_from(other));
        let parts = |p: &Profile| (p.host, p.hierarchy, p.sockets, p.tcp);
        let own_host = parts(&self) == parts(other);
        let own = self.parameters.into_iter().filter(|p| !of_host(&p.name));
        // What its data say of another host is nothing about this one.
        let calibrated = self.calibrated.map(|mut calibrated| {
            calibrated.draws.retain(|name, _| !of_host(name));
            calibrated
        });
        Profile {
            name: format!("{} on {name}", self.name),
            title: format!("{}; in the host of: {}", self.title, other.title),
            device_id: self.device_id,
            host: other.host,
            hierarchy: other.hierarchy,
            sockets: other.sockets,
            tcp: other.tcp,
            device: self.device,
            parameters: theirs.chain(own).collect(),
            measured: self.measured,
            calibrated,
            moved_to: if own_host { self.moved_to } else { Some(name.to_owned()) },
        }
    }
}
