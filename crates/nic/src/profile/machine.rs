//! A machine and its NIC.

use super::calibrated::Calibrated;
use super::device::Device;
use super::device_id::{Announced, DeviceId};
use super::hierarchy::Hierarchy;
use super::host::Host;
use super::measured::Measured;
use super::nic_model::{MoreLimits, NicFacts};
use super::parameter::{Basis, Parameter, ProfileBase};
use super::sockets::Sockets;
use super::tcp::Tcp;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A host that is not the host in which a profile's NIC was measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OtherHost {
    /// The name by which the user or the profile's file names the host.
    pub name: String,
    /// Values of the host's parameters by parameter name, each in its unit; a flag is 0 or 1.
    #[serde(skip)]
    pub values: BTreeMap<String, f64>,
}

/// A machine and its NIC. Hot code reads the sections, reports read `parameters`.
///
/// A machine has one device so far.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Profile {
    /// Short name, such as `cib`.
    pub name: String,
    /// Description of the machine, in a line.
    pub title: String,
    /// The numbers that the NIC's driver gives programs, if they are known.
    pub device_id: Option<DeviceId>,
    /// The year in which the NIC was announced, if it is known. Results do not depend on it.
    #[serde(skip)]
    pub announced: Option<Announced>,
    /// Limits of the NIC that are not parameters, if they are known. Results do not depend on them.
    #[serde(skip)]
    pub more_limits: Option<MoreLimits>,
    /// Names by which files of measurements call the NIC. Results do not depend on them.
    #[serde(skip)]
    pub measured_as: Vec<String>,
    /// Names by which files of measurements call the host. Results do not depend on them.
    #[serde(skip)]
    pub measured_on: Vec<String>,
    /// The host.
    pub host: Host,
    /// The caches of the host, if they have sizes.
    pub hierarchy: Option<Hierarchy>,
    /// The sockets of the host, if it has several.
    pub sockets: Option<Sockets>,
    /// TCP of the host's kernel, if it has TCP.
    pub tcp: Option<Tcp>,
    /// The NIC.
    pub device: Device,
    /// All parameters with their provenance, in the order of the sections above. A relaxed profile keeps the
    /// parameters of the original.
    pub parameters: Vec<Parameter>,
    /// The measurements that the profile was set from.
    pub measured: Measured,
    /// The record of the calibration, if a program set the profile.
    pub calibrated: Option<Calibrated>,
    /// The host that the NIC was moved to, if it was measured in another.
    pub moved_to: Option<OtherHost>,
}

impl Profile {
    /// The given values by parameter name. Each parameter that always has the value of a given one is added.
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

    /// Ids of the claims that parameters were calibrated from. Neither these claims nor anything that follows
    /// from them is a prediction.
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

    /// Cores of all sockets of a machine.
    pub fn all_cores(&self) -> u32 {
        self.host.cores * self.socket_count()
    }

    /// NICs of a machine, the n-th at socket n.
    pub fn adapters(&self) -> u32 {
        self.sockets.map_or(1, |sockets| sockets.adapters)
    }

    /// This NIC in the host of `other`. Reports call this host `name`.
    pub(super) fn in_host_of(self, other: &Profile, name: &str) -> Profile {
        let of_host = Profile::is_of_host;
        let theirs =
            other.parameters.iter().filter(|p| of_host(&p.name)).map(|p| p.inherited_from(&other.name));
        let parts = |p: &Profile| (p.host, p.hierarchy, p.sockets, p.tcp);
        let own_host = parts(&self) == parts(other);
        let values = other.parameters.iter().filter(|p| of_host(&p.name));
        let values = values.map(|p| (p.name.clone(), p.value)).collect();
        let moved_to = OtherHost { name: name.to_owned(), values };
        let own = self.parameters.into_iter().filter(|p| !of_host(&p.name));
        // Draws for the old host say nothing about the new host.
        let calibrated = self.calibrated.map(|mut calibrated| {
            calibrated.draws.retain(|name, _| !of_host(name));
            calibrated
        });
        Profile {
            name: format!("{} on {name}", self.name),
            title: format!("{}; in the host of: {}", self.title, other.title),
            device_id: self.device_id,
            announced: self.announced,
            more_limits: self.more_limits,
            measured_as: self.measured_as,
            measured_on: other.measured_on.clone(),
            host: other.host,
            hierarchy: other.hierarchy,
            sockets: other.sockets,
            tcp: other.tcp,
            device: self.device,
            parameters: theirs.chain(own).collect(),
            measured: self.measured,
            calibrated,
            moved_to: if own_host { self.moved_to } else { Some(moved_to) },
        }
    }

    /// Whether a parameter describes the host.
    pub(super) fn is_of_host(name: &str) -> bool {
        ["host.", "hierarchy.", "sockets.", "tcp."].iter().any(|part| name.starts_with(part))
    }

    /// Facts about the NIC besides its parameters.
    pub(super) fn facts(&self) -> NicFacts {
        let (device_id, announced) = (self.device_id.clone(), self.announced.clone());
        NicFacts { device_id, announced, more_limits: self.more_limits }
    }

    /// The name and the parameters that profiles based on this one inherit.
    pub(super) fn as_base(&self) -> ProfileBase {
        ProfileBase { name: self.name.clone(), parameters: self.parameters.clone() }
    }
}
