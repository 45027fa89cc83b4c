//! Facts about an import from options and from the output of tools.

use super::devinfo::{self, DeviceInfo};
use super::facts::MachineFacts;
use super::lspci::{self, PciNic};
use super::{NamedText, lscpu};
use crate::format::SeriesRole;
use doorbell_schema::SchemaError;

/// Facts that the user states about measurements. Options take precedence over the output of tools.
#[derive(Clone, Debug)]
pub struct About {
    /// Facts from options.
    pub facts: MachineFacts,
    /// Name of the pair of hosts.
    pub host: String,
    /// Use of the series.
    pub role: SeriesRole,
    /// The device among those of ibv_devinfo, such as `mlx5_0`. `None`: the device that the log names.
    pub device: Option<String>,
    /// The NIC's address among those of lspci, such as `3b:00.0`. `None`: the only NIC.
    pub slot: Option<String>,
    devices: Vec<DeviceInfo>,
    nics: Vec<PciNic>,
    cpu: Option<String>,
}

impl About {
    /// These facts from options, and nothing else.
    pub fn of(facts: MachineFacts) -> About {
        About {
            facts,
            host: "mine".into(),
            role: SeriesRole::Calibrate,
            device: None,
            slot: None,
            devices: Vec::new(),
            nics: Vec::new(),
            cpu: None,
        }
    }

    /// Adds the output of `ibv_devinfo -v`.
    ///
    /// # Errors
    /// If the text has no device.
    pub fn add_devinfo(&mut self, file: NamedText<'_>) -> Result<(), SchemaError> {
        self.devices = devinfo::devices(file)?;
        Ok(())
    }

    /// Adds the output of `lspci -vv`.
    ///
    /// # Errors
    /// If the text has no NIC.
    pub fn add_lspci(&mut self, file: NamedText<'_>) -> Result<(), SchemaError> {
        self.nics = lspci::nics(file)?;
        Ok(())
    }

    /// Adds the output of `lscpu`.
    ///
    /// # Errors
    /// If the text has no processor.
    pub fn add_lscpu(&mut self, file: NamedText<'_>) -> Result<(), SchemaError> {
        self.cpu = Some(lscpu::processors(file)?);
        Ok(())
    }

    /// All facts, for measurements on a device of this name.
    ///
    /// # Errors
    /// If a tool's output has several devices, and it is not clear which one measured.
    pub(super) fn facts_for(&self, device: Option<&str>) -> Result<MachineFacts, String> {
        let device = self.device_info(device)?.map(DeviceInfo::facts).unwrap_or_default();
        let nic = self.pci_nic()?.map(PciNic::facts).unwrap_or_default();
        let cpu = MachineFacts { cpu: self.cpu.clone(), ..MachineFacts::default() };
        Ok(self.facts.clone().or(device).or(nic).or(cpu))
    }

    /// The device of ibv_devinfo.
    fn device_info(&self, of_log: Option<&str>) -> Result<Option<&DeviceInfo>, String> {
        let names = || self.devices.iter().map(|device| &*device.name).collect::<Vec<_>>().join(", ");
        match (self.device.as_deref().or(of_log), &*self.devices) {
            (_, []) => Ok(None),
            (Some(name), devices) => match devices.iter().find(|device| device.name == name) {
                Some(device) => Ok(Some(device)),
                None => {
                    Err(format!("ibv_devinfo shows no device {name}: name one of {} by --device", names()))
                }
            },
            (None, [device]) => Ok(Some(device)),
            (None, _) => {
                Err(format!("ibv_devinfo shows several devices: name one of {} by --device", names()))
            }
        }
    }

    /// The NIC of lspci. Several NICs in equal slots count as one.
    fn pci_nic(&self) -> Result<Option<&PciNic>, String> {
        let addresses = || self.nics.iter().map(|nic| &*nic.address).collect::<Vec<_>>().join(", ");
        if let Some(slot) = &self.slot
            && !self.nics.is_empty()
        {
            let named = self.nics.iter().find(|nic| nic.address.ends_with(&**slot));
            return match named {
                Some(nic) => Ok(Some(nic)),
                None => Err(format!("lspci shows no NIC at {slot}: name one of {} by --slot", addresses())),
            };
        }
        let Some(first) = self.nics.first() else { return Ok(None) };
        if self.nics.iter().all(|nic| nic.facts() == first.facts()) {
            return Ok(Some(first));
        }
        Err(format!("lspci shows NICs that differ: name one of {} by --slot", addresses()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> NamedText<'_> {
        NamedText { name: "f", text }
    }

    #[test]
    fn the_device_of_the_log_or_of_the_option_counts() {
        let mut about = About::of(MachineFacts::default());
        assert_eq!(about.facts_for(Some("mlx5_0")).unwrap(), MachineFacts::default());
        about
            .add_devinfo(text("hca_id: mlx5_0\nvendor_part_id: 4119\nhca_id: mlx5_1\nvendor_part_id: 4123\n"))
            .unwrap();
        let nic = |about: &About, device| about.facts_for(device).map(|facts| facts.nic.unwrap_or_default());
        assert_eq!(nic(&about, Some("mlx5_1")).as_deref(), Ok("ConnectX-6"));
        let error = |device| nic(&about, device).unwrap_err();
        assert_eq!(
            error(Some("mlx5_2")),
            "ibv_devinfo shows no device mlx5_2: name one of mlx5_0, mlx5_1 by --device"
        );
        assert_eq!(error(None), "ibv_devinfo shows several devices: name one of mlx5_0, mlx5_1 by --device");
        about.device = Some("mlx5_0".into());
        assert_eq!(nic(&about, Some("mlx5_1")).as_deref(), Ok("ConnectX-5"));
    }

    #[test]
    fn nics_in_different_slots_need_a_choice() {
        let nic = |at: &str, width: u32| {
            format!(
                "{at} Infiniband controller: Mellanox Technologies [ConnectX-6]\n\tLnkSta: Speed 16GT/s, Width x{width}\n"
            )
        };
        let mut about = About::of(MachineFacts::default());
        about.add_lspci(text(&(nic("3b:00.0", 16) + &nic("3b:00.1", 16)))).unwrap();
        assert_eq!(about.facts_for(None).unwrap().pcie.and_then(|slot| slot.lanes), Some(16));
        about.add_lspci(text(&(nic("3b:00.0", 16) + &nic("5e:00.0", 8)))).unwrap();
        let differ = "lspci shows NICs that differ: name one of 3b:00.0, 5e:00.0 by --slot";
        assert_eq!(about.facts_for(None).unwrap_err(), differ);
        about.slot = Some("5e:00.0".into());
        assert_eq!(about.facts_for(None).unwrap().pcie.and_then(|slot| slot.lanes), Some(8));
        about.slot = Some("af:00.0".into());
        assert!(about.facts_for(None).unwrap_err().contains("no NIC at af:00.0"));
    }
}
