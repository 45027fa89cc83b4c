//! Profiles as TOML files, complete or based on another profile.

use super::built_in::{self, BuiltIn};
use super::calibrated::Calibrated;
use super::device_id::DeviceId;
use super::hosts::HostGiven;
use super::machine::{OtherHost, Profile};
use super::measured::Measured;
use super::parameter::{ProfileError, ProfileReader, Section};
use super::sections::{Named, Sections};
use crate::Generation;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// A file as it is written. Its base must have every parameter that the file leaves out.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileFile {
    name: Spanned<String>,
    title: String,
    base: Option<Spanned<String>>,
    generation: Option<Generation>,
    device_id: Option<DeviceId>,
    /// The processor of its host, by which other profiles name the host. The build script reads it from
    /// built-in profiles.
    #[serde(rename = "processor")]
    _processor: Option<String>,
    host: Option<Spanned<HostGiven>>,
    hierarchy: Option<Spanned<Section>>,
    sockets: Option<Spanned<Section>>,
    tcp: Option<Spanned<Section>>,
    pcie: Option<Spanned<Section>>,
    link: Option<Spanned<Section>>,
    nic: Option<Spanned<Section>>,
    tx: Option<Spanned<Section>>,
    pipeline: Option<Spanned<Section>>,
    rx: Option<Spanned<Section>>,
    atomics: Option<Spanned<Section>>,
    caches: Option<Spanned<Section>>,
    requests: Option<Spanned<Section>>,
    /// Missing: the base's measurements, and the base's calibration.
    measured: Option<Measured>,
    calibrated: Option<Spanned<Calibrated>>,
}

/// Whether a name is the path of a file. Otherwise it names a built-in profile.
fn is_path(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

/// The canonical path of a file, which identifies it.
fn identity(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// The profile `name`, which the file of `reader` gives under `key`: a built-in profile or a file. A path is
/// relative to the folder of `reader`'s file. `based` lists the files that led to `reader`'s file.
fn load(
    reader: &ProfileReader<'_>,
    key: &str,
    name: &Spanned<String>,
    based: &[PathBuf],
) -> Result<Profile, ProfileError> {
    let at = name.span().start;
    let name = name.get_ref();
    if !is_path(name) {
        return Profile::named(name).map_err(|error| match error {
            ProfileError::NotFound(message) => reader.error(at, format!("{key}: {message}")),
            other => other,
        });
    }
    let file = Path::new(reader.file());
    let path = file.parent().unwrap_or(Path::new("")).join(name);
    let mut based = based.to_vec();
    based.push(identity(file));
    if based.contains(&identity(&path)) {
        return Err(reader.error(
            at,
            format!(
                "{key}: {name} is based on itself, directly or through other \
             files"
            ),
        ));
    }
    let text = std::fs::read_to_string(&path)
        .map_err(|e| reader.error(at, format!("{key}: cannot read {}: {e}", path.display())))?;
    Profile::parse_from(&path.display().to_string(), &text, &based)
}

/// The profile that describes a host. `host` is the name of its processor, the name of the profile, or a
/// path. The error lists the known hosts.
fn profile_of(host: &str) -> Result<&str, String> {
    if let Some(built_in) = built_in::all()
        .iter()
        .find(|built_in| built_in.processor.is_some_and(|processor| processor.eq_ignore_ascii_case(host)))
    {
        return Ok(built_in.name);
    }
    let host = Profile::canonical(host);
    if is_path(host) || Profile::names().any(|name| name == host) {
        return Ok(host);
    }
    let known: Vec<&str> = Profile::host_names().chain(Profile::names()).collect();
    Err(format!("there is no host {host}; there are {}, or give the path of a TOML file", known.join(", ")))
}

/// The parameters that a file gives for its host. If the file names a host instead, `base` is replaced by the
/// base's NIC in that host.
fn host_parameters(
    reader: &ProfileReader<'_>,
    base: &mut Option<Profile>,
    told: Spanned<HostGiven>,
    based: &[PathBuf],
) -> Result<Option<Spanned<Section>>, ProfileError> {
    let span = told.span();
    let name = match told.into_inner() {
        HostGiven::Parameters(section) => return Ok(Some(Spanned::new(span, section))),
        HostGiven::Named(name) => name,
    };
    let Some(own) = base.take() else {
        let message = "host names another profile's host, so base must name the profile of the NIC";
        return Err(reader.error(span.start, message.into()));
    };
    let of = profile_of(&name).map_err(|message| reader.error(span.start, format!("host: {message}")))?;
    let of = Spanned::new(span, of.to_owned());
    let other = load(reader, "host", &of, based)?;
    *base = Some(own.in_host_of(&other, &name));
    Ok(None)
}

/// The data behind a profile.
struct Evidence {
    measured: Measured,
    calibrated: Option<Calibrated>,
    moved_to: Option<OtherHost>,
}

impl Evidence {
    /// The data behind a base. They also belong to profiles based on it, which list their differences.
    fn of(base: Profile) -> Evidence {
        Evidence { measured: base.measured, calibrated: base.calibrated, moved_to: base.moved_to }
    }

    /// `read` with these data. Draws around a value that differs from the calibrated one are left out.
    fn of_profile(self, read: Profile) -> Profile {
        let Evidence { measured, calibrated, moved_to } = self;
        let profile = Profile { measured, moved_to, ..read };
        let differences = profile.differences();
        let differs = |name: &str| differences.iter().any(|difference| difference.parameter() == Some(name));
        let calibrated = calibrated.map(|mut calibrated| {
            calibrated.draws.retain(|name, _| !differs(name));
            calibrated
        });
        Profile { calibrated, ..profile }
    }
}

impl Profile {
    /// The name of a built-in profile that is written in other capitals. Any other text stays as it is.
    pub fn canonical(name: &str) -> &str {
        Profile::names().find(|known| known.eq_ignore_ascii_case(name)).unwrap_or(name)
    }

    /// The name of a host or built-in profile that is written in other capitals. Any other text stays as it
    /// is.
    pub fn canonical_host(name: &str) -> &str {
        let of_host = Profile::host_names().find(|known| known.eq_ignore_ascii_case(name));
        of_host.unwrap_or_else(|| Profile::canonical(name))
    }

    /// A built-in profile, by its name in capitals or small letters.
    pub fn named(name: &str) -> Result<Profile, ProfileError> {
        let known = Profile::canonical(name);
        match built_in::all().iter().find(|built_in| built_in.name == known) {
            Some(BuiltIn { name, text, .. }) => Profile::parse(name, text),
            None => {
                let names = Profile::names().collect::<Vec<_>>().join(", ");
                let there_are =
                    format!("there are {names}, or give the path of a TOML file (docs/guide-own-nic.md)");
                Err(ProfileError::NotFound(match name.trim() {
                    "" => format!("the name of the profile is empty; {there_are}"),
                    _ => format!("there is no profile {name}; {there_are}"),
                }))
            }
        }
    }

    /// Whether a name is the path of a file. Otherwise it names a built-in profile.
    pub fn is_path(name: &str) -> bool {
        is_path(name)
    }

    /// A built-in profile, or the TOML file at a path (one with a `/` or ending in `.toml`).
    pub fn named_or_file(name: &str) -> Result<Profile, ProfileError> {
        if !is_path(name) {
            return Profile::named(name);
        }
        let text = std::fs::read_to_string(name)
            .map_err(|e| ProfileError::NotFound(format!("cannot read profile {name}: {e}")))?;
        Profile::parse(name, &text)
    }

    /// Reads the TOML of a profile. `file` appears in messages, and relative paths of a base start from its
    /// folder.
    ///
    /// # Errors
    /// If the text is not the TOML of a profile, if a parameter is missing both in the text and in its base,
    /// or if the base cannot be read. The error is one sentence with the line.
    pub fn parse(file: &str, text: &str) -> Result<Profile, ProfileError> {
        Profile::parse_from(file, text, &[])
    }

    /// Reads a profile that is a base of the profiles in the files `based`.
    fn parse_from(file: &str, text: &str, based: &[PathBuf]) -> Result<Profile, ProfileError> {
        let mut reader = ProfileReader::new(file, text);
        let parsed: ProfileFile = toml::from_str(text).map_err(|error| reader.malformed(&error))?;
        if parsed.name.get_ref().trim().is_empty() {
            return Err(reader.error(parsed.name.span().start, "name is empty".into()));
        }
        let named = parsed.base.as_ref().map(|name| load(&reader, "base", name, based));
        let mut base = named.transpose()?;
        let host_at = parsed.host.as_ref().map_or(0, |told| told.span().start);
        let host = match parsed.host {
            Some(told) => host_parameters(&reader, &mut base, told, based)?,
            None => None,
        };
        let Some(generation) = parsed.generation.or(base.as_ref().map(|base| base.device.generation)) else {
            return Err(reader.error(0, "generation is missing: it is mlx4, mlx5 or cxgb4".into()));
        };
        let inherited = base.as_ref().and_then(|base| base.device_id.clone());
        let device_id = parsed.device_id.or(inherited);
        let hierarchy_at = parsed.hierarchy.as_ref().map_or(0, |hierarchy| hierarchy.span().start);
        let sections = Sections {
            host_at,
            hierarchy_at,
            host,
            hierarchy: parsed.hierarchy,
            sockets: parsed.sockets,
            tcp: parsed.tcp,
            pcie: parsed.pcie,
            link: parsed.link,
            nic: parsed.nic,
            tx: parsed.tx,
            pipeline: parsed.pipeline,
            rx: parsed.rx,
            atomics: parsed.atomics,
            caches: parsed.caches,
            requests: parsed.requests,
        };
        let (name, title) = (parsed.name.into_inner(), parsed.title);
        reader.base = base.as_ref().map(Profile::as_base);
        let read = sections.read(reader, Named { name, title, device_id }, generation, base.as_ref())?;
        if let Some(calibrated) = &parsed.calibrated {
            let wrong = |message| ProfileReader::new(file, text).error(calibrated.span().start, message);
            calibrated.get_ref().check(&read.parameters).map_err(wrong)?;
        }
        let calibrated = parsed.calibrated.map(Spanned::into_inner);
        let evidence = match (parsed.measured, base) {
            (None, Some(base)) if calibrated.is_none() => Evidence::of(base),
            (measured, _) => Evidence { measured: measured.unwrap_or_default(), calibrated, moved_to: None },
        };
        Ok(evidence.of_profile(read))
    }

    /// This NIC in another host. The host is named by its processor (one of [`Profile::host_names`]), by a
    /// built-in profile, or by the path of a TOML file. Cores, driver, memory and kernel TCP come from that
    /// host. The PCIe link stays, because its lanes belong to the NIC.
    ///
    /// # Errors
    /// If there is no such host, or if its file is not a profile.
    pub fn on_host(self, name: &str) -> Result<Profile, ProfileError> {
        let of = profile_of(name).map_err(ProfileError::NotFound)?;
        Ok(self.in_host_of(&Profile::named_or_file(of)?, name))
    }
}
