//! A machine and its NIC.

use super::calibrated::Calibrated;
use super::device::Device;
use super::device_id::DeviceId;
use super::hierarchy::Hierarchy;
use super::host::Host;
use super::measured::Measured;
use super::parameter::{Basis, Parameter, ProfileBase};
use super::sockets::Sockets;
use super::tcp::Tcp;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A machine and its NIC; hot code reads the sections, reports read `parameters`.
///
/// A machine has one device so far.
#[derive(Clone, Debug, PartialEq, Serialize)]
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

impl Profile {
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

    /// Ids of the claims that parameters were calibrated from: none of them, and nothing that
    /// follows from them, is a prediction.
    pub fn calibrated_claims(&self) -> BTreeSet<&str> {
        let claims = self.parameters.iter().filter_map(|p| match &p.basis {
            Basis::Calibrated { claims, .. } => Some(claims),
            Basis::Published { .. } | Basis::Assumed { .. } | Basis::Set { .. } => None,
        });
        claims.flatten().map(String::as_str).chain(self.measured.claims()).collect()
    }

    /// Sockets of a machine.
    pub fn socket_count(&self) -> u32 {
        self.sockets.map_or(1, |sockets| sockets.count)
    }

    /// Cores of a machine, those of all sockets.
    pub fn all_cores(&self) -> u32 {
        self.host.cores * self.socket_count()
    }

    /// NICs of a machine, the n-th at socket n.
    pub fn adapters(&self) -> u32 {
        self.sockets.map_or(1, |sockets| sockets.adapters)
    }

    /// This NIC in the host of another profile, which reports then call `name`.
    pub(super) fn in_host_of(self, other: &Profile, name: &str) -> Profile {
        let of_host = |name: &str| {
            ["host.", "hierarchy.", "sockets.", "tcp."].iter().any(|part| name.starts_with(part))
        };
        let theirs =
            other.parameters.iter().filter(|p| of_host(&p.name)).map(|p| p.inherited_from(&other.name));
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

    /// What profiles based on this one have from it.
    pub(super) fn as_base(&self) -> ProfileBase {
        ProfileBase { name: self.name.clone(), parameters: self.parameters.clone() }
    }
}
