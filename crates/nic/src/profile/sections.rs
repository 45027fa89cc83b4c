//! The sections of a profile, and values that are set over them.

use super::device::{Atomics, Caches, Device, Link, Nic, Pcie, PcieSpeed, Rx, Tx};
use super::device_id::DeviceId;
use super::hierarchy::Hierarchy;
use super::host::Host;
use super::machine::Profile;
use super::measured::Measured;
use super::parameter::{ProfileError, ProfileReader, Section, Unit};
use super::pipeline::Pipeline;
use super::requests::Requests;
use super::sockets::Sockets;
use super::tcp::Tcp;
use crate::Generation;
use doorbell_verbs::Mtu;
use std::collections::BTreeMap;
use toml::Spanned;

/// The names of a profile and the numbers of its NIC.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) title: String,
    pub(super) device_id: Option<DeviceId>,
}

/// The sections of a file.
#[derive(Default)]
pub(super) struct Sections {
    /// Byte offset of the host in the file. The next field is the offset of the caches.
    pub(super) host_at: usize,
    pub(super) hierarchy_at: usize,
    pub(super) host: Option<Spanned<Section>>,
    pub(super) hierarchy: Option<Spanned<Section>>,
    pub(super) sockets: Option<Spanned<Section>>,
    pub(super) tcp: Option<Spanned<Section>>,
    pub(super) pcie: Option<Spanned<Section>>,
    pub(super) link: Option<Spanned<Section>>,
    pub(super) nic: Option<Spanned<Section>>,
    pub(super) tx: Option<Spanned<Section>>,
    pub(super) pipeline: Option<Spanned<Section>>,
    pub(super) rx: Option<Spanned<Section>>,
    pub(super) atomics: Option<Spanned<Section>>,
    pub(super) caches: Option<Spanned<Section>>,
    pub(super) requests: Option<Spanned<Section>>,
}

impl Sections {
    /// A profile of these sections. `reader` has the base's parameters, for those that the sections lack. An
    /// optional section that is missing here exists if `base` has it.
    pub(super) fn read(
        self,
        mut reader: ProfileReader<'_>,
        named: Named,
        generation: Generation,
        base: Option<&Profile>,
    ) -> Result<Profile, ProfileError> {
        let host = Host::read(&mut reader, self.host)?;
        let inherited = base.is_some_and(|base| base.hierarchy.is_some());
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
        let inherited = base.is_some_and(|base| base.sockets.is_some());
        let sockets_at = self.sockets.as_ref().map_or(self.hierarchy_at, |sockets| sockets.span().start);
        let sockets = match self.sockets {
            None if !inherited => None,
            section => Some(Sockets::read(&mut reader, section)?),
        };
        if let Some(Err(message)) = sockets.as_ref().map(|sockets| sockets.check(&host, hierarchy.is_some()))
        {
            return Err(reader.error(sockets_at, message));
        }
        let inherited = base.is_some_and(|base| base.tcp.is_some());
        let tcp = match self.tcp {
            None if !inherited => None,
            section => Some(Tcp::read(&mut reader, section)?),
        };
        let pcie = Pcie::read(&mut reader, self.pcie)?;
        let link_at = self.link.as_ref().map_or(0, |link| link.span().start);
        let link = Link::read(&mut reader, self.link)?;
        if !generation.is_iwarp() && Mtu::from_bytes(link.mtu).is_none() {
            let message = format!("link.mtu_bytes is {}, but must be 256, 512, 1024, 2048 or 4096", link.mtu);
            return Err(reader.error(link_at, message));
        }
        let nic_at = self.nic.as_ref().map_or(0, |nic| nic.span().start);
        let nic = Nic::read(&mut reader, self.nic)?;
        if let Err(message) = generation.layout().completion.check(generation.name(), nic.cqe) {
            return Err(reader.error(nic_at, message));
        }
        let tx = Tx::read(&mut reader, self.tx)?;
        let inherited = base.is_some_and(|base| base.device.pipeline.is_some());
        let pipeline = match self.pipeline {
            None if !inherited => None,
            section => Some(Pipeline::read(&mut reader, section)?),
        };
        let (rx, atomics) = (Rx::read(&mut reader, self.rx)?, Atomics::read(&mut reader, self.atomics)?);
        let caches = Caches::read(&mut reader, self.caches)?;
        let inherited = base.is_some_and(|base| base.device.requests.is_some());
        let requests = match self.requests {
            None if !inherited => None,
            section => Some(Requests::read(&mut reader, section)?),
        };
        let device = Device {
            generation,
            pcie,
            pcie_speed: PcieSpeed::of_all_lanes(&pcie),
            link,
            nic,
            tx,
            pipeline,
            rx,
            atomics,
            caches,
            requests,
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
    /// This profile with the values in `set`, by parameter. A value is in the parameter's unit; a flag is 0
    /// or 1. These parameters are then marked as set.
    ///
    /// # Errors
    /// One sentence if a name is not a parameter of this profile, or if a profile's file could not contain
    /// the value.
    pub fn with_set(&self, set: &BTreeMap<String, f64>) -> Result<Profile, ProfileError> {
        let reader = ProfileReader::of_set(self.as_base(), set);
        let Profile { name, title, device_id, .. } = self.clone();
        let set = Sections::default().read(
            reader,
            Named { name, title, device_id },
            self.device.generation,
            Some(self),
        )?;
        let (measured, moved_to) = (self.measured.clone(), self.moved_to.clone());
        Ok(Profile { measured, calibrated: self.calibrated.clone(), moved_to, ..set })
    }

    /// This profile with `factor` times as much of a parameter, and of the parameters that follow it. Counts
    /// are rounded.
    ///
    /// # Errors
    /// One sentence if `parameter` is not a parameter of this profile, or if the new value is out of range.
    pub fn with_more(&self, parameter: &str, factor: f64) -> Result<Profile, ProfileError> {
        let value = self.parameters.iter().find(|p| p.name == parameter).map_or(0.0, |p| match p.unit {
            Unit::Count | Unit::Bytes => (p.value * factor).round(),
            _ => p.value * factor,
        });
        self.with_set(&self.with_followers([(parameter, value)]))
    }
}
