//! What is known about a machine and its NIC.

mod base;
mod calibrated;
mod device;
mod device_id;
mod hierarchy;
mod host;
mod hosts;
mod measured;
mod parameter;
mod sockets;
mod tcp;

pub use calibrated::{Calibrated, Met, ModelError, NINETY_PERCENT, Spread};
pub use device::{Atomics, Caches, Device, Link, Nic, Pcie, PcieSpeed, Rx, Tx};
pub use device_id::DeviceId;
pub use hierarchy::Hierarchy;
pub use host::Host;
pub use measured::{Bounds, Measured, SystemMeasured, VerbsMeasured};
pub use parameter::{Basis, Parameter, ProfileError, Unit};
pub use sockets::Sockets;
pub use tcp::Tcp;

use crate::Generation;
use doorbell_verbs::Mtu;
use parameter::{Reader, Section};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use toml::Spanned;

/// A machine and its NIC; hot code reads the sections, reports read `parameters`.
///
/// A machine has one device so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Short name, as `cib`.
    pub name: String,
    /// What the machine is, in a line.
    pub title: String,
    /// The numbers that the NIC's driver tells programs, where they are known.
    pub device_id: Option<DeviceId>,
    /// The host.
    pub host: Host,
    /// Its caches, where they have sizes.
    pub hierarchy: Option<Hierarchy>,
    /// Its sockets, where it has several.
    pub sockets: Option<Sockets>,
    /// TCP of its kernel, where it has that.
    pub tcp: Option<Tcp>,
    /// Its NIC.
    pub device: Device,
    /// All parameters with their provenance, in the order above; of a relaxed profile, those
    /// of the original.
    pub parameters: Vec<Parameter>,
    /// The measurements that it was set from.
    pub measured: Measured,
    /// How its parameters were set from them, where a program did.
    pub calibrated: Option<Calibrated>,
    /// The host that the NIC was put into, where it was measured in another.
    pub moved_to: Option<String>,
}

/// A file as it is written: what it leaves out, its base must have.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Spanned<String>,
    title: String,
    base: Option<Spanned<String>>,
    generation: Option<Generation>,
    device_id: Option<DeviceId>,
    /// The processor of its host, by which others name the host: of built-in profiles, the build script reads it.
    #[serde(rename = "processor")]
    _processor: Option<String>,
    host: Option<Spanned<hosts::Told>>,
    hierarchy: Option<Spanned<Section>>,
    sockets: Option<Spanned<Section>>,
    tcp: Option<Spanned<Section>>,
    pcie: Option<Spanned<Section>>,
    link: Option<Spanned<Section>>,
    nic: Option<Spanned<Section>>,
    tx: Option<Spanned<Section>>,
    rx: Option<Spanned<Section>>,
    atomics: Option<Spanned<Section>>,
    caches: Option<Spanned<Section>>,
    #[serde(default)]
    measured: Measured,
    calibrated: Option<Spanned<Calibrated>>,
}

/// A profile that comes with Doorbell: a file in `profiles/`.
struct BuiltIn {
    name: &'static str,
    /// The processor of its host, by which other profiles name the host.
    processor: Option<&'static str>,
    text: &'static str,
}

// `BUILT_IN`, as the build script finds the files.
include!(concat!(env!("OUT_DIR"), "/built_in.rs"));

impl Profile {
    /// Names of the built-in profiles.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|built_in| built_in.name)
    }

    /// A built-in profile.
    pub fn named(name: &str) -> Result<Profile, ProfileError> {
        match BUILT_IN.iter().find(|built_in| built_in.name == name) {
            Some(BuiltIn { name, text, .. }) => Profile::parse(name, text),
            None => {
                let names = Profile::names().collect::<Vec<_>>().join(", ");
                let there_are = format!("there are {names}, or give the path of a TOML file");
                Err(ProfileError::NotFound(match name.trim() {
                    "" => format!("the name of the profile is empty; {there_are}"),
                    _ => format!("there is no profile {name}; {there_are}"),
                }))
            }
        }
    }

    /// Whether a name is the path of a file rather than that of a built-in profile.
    pub fn is_path(name: &str) -> bool {
        base::is_path(name)
    }

    /// A built-in profile, or the TOML file at a path (one with a `/` or ending in `.toml`).
    pub fn named_or_file(name: &str) -> Result<Profile, ProfileError> {
        if !base::is_path(name) {
            return Profile::named(name);
        }
        let text = std::fs::read_to_string(name)
            .map_err(|e| ProfileError::NotFound(format!("cannot read profile {name}: {e}")))?;
        Profile::parse(name, &text)
    }

    /// Reads the TOML of a profile; `file` is for messages, and a base that is a file is looked for from
    /// where it lies.
    ///
    /// # Errors
    /// If it is not the TOML of a profile, a parameter is neither in it nor in its base, or its base cannot
    /// be had: one sentence, with the line.
    pub fn parse(file: &str, text: &str) -> Result<Profile, ProfileError> {
        Profile::parse_from(file, text, &[])
    }

    /// The same, of the base of the profiles in these files.
    fn parse_from(file: &str, text: &str, based: &[PathBuf]) -> Result<Profile, ProfileError> {
        let mut reader = Reader::new(file, text);
        let parsed: File = toml::from_str(text).map_err(|error| reader.malformed(&error))?;
        if parsed.name.get_ref().trim().is_empty() {
            return Err(reader.error(parsed.name.span().start, "name is empty".into()));
        }
        if let Some(name) = &parsed.base {
            reader.base = Some(base::load(&reader, "base", name, based)?);
        }
        let host_at = parsed.host.as_ref().map_or(0, |told| told.span().start);
        let host = match parsed.host {
            Some(told) => hosts::read(&mut reader, told, based)?,
            None => None,
        };
        let Some(generation) = parsed.generation.or(reader.base.as_ref().map(|base| base.device.generation))
        else {
            return Err(reader.error(0, "generation is missing: it is mlx4 or mlx5".into()));
        };
        let inherited = reader.base.as_ref().and_then(|base| base.device_id.clone());
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
            rx: parsed.rx,
            atomics: parsed.atomics,
            caches: parsed.caches,
        };
        let (name, title) = (parsed.name.into_inner(), parsed.title);
        // What its base was set from tells nothing of what this one changes.
        let read = sections.read(reader, Named { name, title, device_id }, generation)?;
        if let Some(calibrated) = &parsed.calibrated {
            let wrong = |message| Reader::new(file, text).error(calibrated.span().start, message);
            calibrated.get_ref().check(&read.parameters).map_err(wrong)?;
        }
        let calibrated = parsed.calibrated.map(Spanned::into_inner);
        Ok(Profile { measured: parsed.measured, calibrated, ..read })
    }

    /// The same with these values of parameters, each in its unit; a flag is 0 or 1. The parameters then say that
    /// they were set.
    ///
    /// # Errors
    /// One sentence where one is no parameter of this profile, or its value is not what a file could give it.
    pub fn with_set(&self, set: &BTreeMap<String, f64>) -> Result<Profile, ProfileError> {
        let reader = Reader::of_set(self, set);
        let Profile { name, title, device_id, .. } = self.clone();
        let set =
            Sections::default().read(reader, Named { name, title, device_id }, self.device.generation)?;
        let (measured, moved_to) = (self.measured.clone(), self.moved_to.clone());
        Ok(Profile { measured, calibrated: self.calibrated.clone(), moved_to, ..set })
    }

    /// The same with `factor` times as much of a parameter, and of those that have its value; of what is counted,
    /// rounded.
    ///
    /// # Errors
    /// One sentence where it is no parameter of this profile, or cannot have that much.
    pub fn with_more(&self, parameter: &str, factor: f64) -> Result<Profile, ProfileError> {
        let value = self.parameters.iter().find(|p| p.name == parameter).map_or(0.0, |p| match p.unit {
            Unit::Count | Unit::Bytes => (p.value * factor).round(),
            _ => p.value * factor,
        });
        self.with_set(&self.with_followers([(parameter, value)]))
    }

    /// Values of parameters by name, with those of the parameters that have the same.
    pub fn with_followers<'a>(
        &self,
        values: impl IntoIterator<Item = (&'a str, f64)>,
    ) -> BTreeMap<String, f64> {
        let follow = |(name, value): (&'a str, f64)| {
            let followers = self.parameters.iter().filter(move |p| p.same_as() == Some(name));
            let names = followers.map(|p| p.name.clone()).chain([name.to_owned()]);
            names.map(move |name| (name, value)).collect::<Vec<_>>()
        };
        values.into_iter().flat_map(follow).collect()
    }

    /// The parameters that were set over the profile, with their values in their units.
    pub fn set(&self) -> impl Iterator<Item = &Parameter> {
        self.parameters.iter().filter(|p| matches!(p.basis, Basis::Set { .. }))
    }
}

/// What a profile is called.
struct Named {
    name: String,
    title: String,
    device_id: Option<DeviceId>,
}

/// The sections of a file.
#[derive(Default)]
struct Sections {
    /// Bytes at which the file tells of its host, and of its caches.
    host_at: usize,
    hierarchy_at: usize,
    host: Option<Spanned<Section>>,
    hierarchy: Option<Spanned<Section>>,
    sockets: Option<Spanned<Section>>,
    tcp: Option<Spanned<Section>>,
    pcie: Option<Spanned<Section>>,
    link: Option<Spanned<Section>>,
    nic: Option<Spanned<Section>>,
    tx: Option<Spanned<Section>>,
    rx: Option<Spanned<Section>>,
    atomics: Option<Spanned<Section>>,
    caches: Option<Spanned<Section>>,
}

impl Sections {
    /// A profile of what they give, and `reader` knows besides.
    fn read(
        self,
        mut reader: Reader<'_>,
        named: Named,
        generation: Generation,
    ) -> Result<Profile, ProfileError> {
        let host = Host::read(&mut reader, self.host)?;
        let inherited = reader.base.as_ref().is_some_and(|base| base.hierarchy.is_some());
        let hierarchy = match self.hierarchy {
            None if !inherited => None,
            section => Some(Hierarchy::read(&mut reader, section)?),
        };
        if let Some(Err(message)) = hierarchy.as_ref().map(Hierarchy::check) {
            return Err(reader.error(self.hierarchy_at, message));
        }
        if hierarchy.is_some() && host.cores > Hierarchy::MOST_CORES {
            let most = Hierarchy::MOST_CORES;
            let message =
                format!("host.cores is {}, but a host with [hierarchy] has at most {most}", host.cores);
            return Err(reader.error(self.host_at, message));
        }
        let inherited = reader.base.as_ref().is_some_and(|base| base.sockets.is_some());
        let sockets_at = self.sockets.as_ref().map_or(self.hierarchy_at, |sockets| sockets.span().start);
        let sockets = match self.sockets {
            None if !inherited => None,
            section => Some(Sockets::read(&mut reader, section)?),
        };
        if let Some(Err(message)) = sockets.as_ref().map(|sockets| sockets.check(&host, hierarchy.is_some()))
        {
            return Err(reader.error(sockets_at, message));
        }
        let inherited = reader.base.as_ref().is_some_and(|base| base.tcp.is_some());
        let tcp = match self.tcp {
            None if !inherited => None,
            section => Some(Tcp::read(&mut reader, section)?),
        };
        let pcie = Pcie::read(&mut reader, self.pcie)?;
        let link_at = self.link.as_ref().map_or(0, |link| link.span().start);
        let link = Link::read(&mut reader, self.link)?;
        if !generation.is_iwarp() && Mtu::from_bytes(link.mtu).is_none() {
            let message = format!("link.mtu_bytes is {}, not 256, 512, 1024, 2048 or 4096", link.mtu);
            return Err(reader.error(link_at, message));
        }
        let nic_at = self.nic.as_ref().map_or(0, |nic| nic.span().start);
        let nic = Nic::read(&mut reader, self.nic)?;
        if let Err(message) = generation.layout().completion.check(generation.name(), nic.cqe) {
            return Err(reader.error(nic_at, message));
        }
        let device = Device {
            generation,
            pcie,
            pcie_speed: PcieSpeed::of_all_lanes(&pcie),
            link,
            nic,
            tx: Tx::read(&mut reader, self.tx)?,
            rx: Rx::read(&mut reader, self.rx)?,
            atomics: Atomics::read(&mut reader, self.atomics)?,
            caches: Caches::read(&mut reader, self.caches)?,
        };
        reader.finish_set()?;
        let parameters = reader.into_parameters();
        let Named { name, title, device_id } = named;
        let (measured, calibrated, moved_to) = (Measured::default(), None, None);
        Ok(Profile {
            name,
            title,
            device_id,
            host,
            hierarchy,
            sockets,
            tcp,
            device,
            parameters,
            measured,
            calibrated,
            moved_to,
        })
    }
}

impl Profile {
    /// Ids of the claims that parameters were calibrated from: none of them, and nothing that
    /// follows from them, is a prediction.
    pub fn calibrated_claims(&self) -> BTreeSet<&str> {
        let claims = self.parameters.iter().filter_map(|p| match &p.basis {
            Basis::Calibrated { claims, .. } => Some(claims),
            Basis::Published { .. } | Basis::Assumed { .. } | Basis::Set { .. } => None,
        });
        claims.flatten().map(String::as_str).chain(self.measured.claims()).collect()
    }
}
